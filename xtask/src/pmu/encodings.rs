// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that every register access assembles to the encoding in the manuals.
//!
//! For each header in `native/pmu` there is a C file with one function per access, and a table of
//! the expected encodings: the fields as given in the manual, and the instruction word. The word is
//! compared with the encoding of the fields and with the assembler's output. Nothing is executed
//! here; the lab runs the accesses where an emulator exists. The assembly that `counters` uses to
//! read registers is checked against the same tables.

use crate::command::{output, program, root, say};
use crate::fetch::TAG;
use crate::machines::{self, Machine};
use crate::outcome::Outcome;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const FOLDER: &str = "native/pmu/check";

/// A header, and a compiler for its instructions.
struct Header {
    name: &'static str,
    machine: &'static Machine,
    flags: &'static [&'static str],
    /// Beginnings of the disassembled return instructions.
    leaves: &'static [&'static str],
}

const HEADERS: [Header; 6] = [
    Header {
        name: "arm1176",
        machine: &machines::ARMEL,
        flags: &["-marm", "-mcpu=arm1176jzf-s"],
        leaves: &["e12fff1e"],
    },
    Header {
        name: "armv7",
        machine: &machines::ARMHF,
        flags: &["-marm", "-march=armv7-a+fp"],
        leaves: &["e12fff1e"],
    },
    Header {
        name: "apb",
        machine: &machines::ARMHF,
        flags: &["-marm", "-march=armv7-a+fp"],
        leaves: &["e12fff1e"],
    },
    Header { name: "aarch64", machine: &machines::AARCH64, flags: &[], leaves: &["d65f03c0"] },
    Header {
        name: "ppc74xx",
        machine: &machines::POWERPC,
        flags: &["-mcpu=7450"],
        leaves: &["4e800020"],
    },
    Header {
        name: "x86",
        machine: &machines::X86_64,
        flags: &["-fcf-protection=none"],
        leaves: &["c3"],
    },
];

/// An assembly file in `counters`, with the register accesses that it contains, in order.
struct Reader {
    source: &'static str,
    header: &'static str,
    accesses: [&'static str; 5],
    /// Mask of the instruction bits that select the general-purpose register, which may be any.
    register: u32,
}

const READERS: [Reader; 2] = [
    Reader {
        source: "arm.S",
        header: "armv7",
        accesses: ["write_pmselr", "barrier", "read_pmxevcntr", "barrier", "read_pmccntr"],
        register: 0xf000,
    },
    Reader {
        source: "aarch64.S",
        header: "aarch64",
        accesses: [
            "write_pmselr_el0",
            "barrier",
            "read_pmxevcntr_el0",
            "barrier",
            "read_pmccntr_el0",
        ],
        register: 0x1f,
    },
];

const FLAGS: [&str; 8] = [
    "-std=c11",
    "-O2",
    "-ffreestanding",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Werror",
];

/// What a function of the C file must be compiled to, excluding the return.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    /// Exactly these words, including the word encoded from the fields, if any.
    Words(Vec<String>),
    /// Any instructions, but at most this many.
    AtMost(usize),
}

/// Prints a message for the user; a closed terminal is not an error.
fn note(line: &str) {
    let _ = say(line);
}

/// Compares the accesses in all headers. Headers whose compiler is not installed are skipped.
pub(super) fn check() -> Outcome {
    let mut skips = Vec::new();
    for header in &HEADERS {
        let gcc = header.machine.tool("gcc");
        if output(program(&gcc, &["-dumpversion"])).is_err() {
            skips.push(format!("SKIP: encodings in {}.h: no {gcc}", header.name));
            continue;
        }
        match header.compare() {
            Ok(said) => note(&said),
            Err(why) => return Outcome::Failed(why),
        }
        for reader in READERS.iter().filter(|reader| reader.header == header.name) {
            match reader.compare(header) {
                Ok(said) => note(&said),
                Err(why) => return Outcome::Failed(why),
            }
        }
    }
    Outcome::Passed(skips)
}

impl Reader {
    /// Assembles and disassembles the file, and compares its accesses with the header's table.
    fn compare(&self, header: &Header) -> Result<String, String> {
        let table = header.table()?;
        let source = root().join("crates/counters/src/registers").join(self.source);
        let found = functions(&header.disassemble(&source)?, header.leaves);
        self.judge(&table, &found).map_err(|why| format!("{}: {why}", self.source))?;
        Ok(format!("{}: {} accesses as in {}.h", self.source, self.accesses.len(), self.header))
    }

    /// Checks that the accesses are the expected ones, and that all of them are in the code range
    /// in which faults are recovered.
    fn judge(
        &self,
        table: &BTreeMap<String, Expected>,
        found: &BTreeMap<String, Vec<String>>,
    ) -> Result<(), String> {
        let word = |text: &String| {
            u32::from_str_radix(text, 16).map_err(|_| format!("`{text}` is not hexadecimal"))
        };
        let expected = self.accesses.iter().map(|name| match table.get(*name) {
            Some(Expected::Words(words)) if words.len() == 1 => word(&words[0]),
            _ => Err(format!("{}.h has no single-instruction access {name}", self.header)),
        });
        let expected = expected.collect::<Result<Vec<u32>, _>>()?;
        let shown = |words: &[u32]| {
            let words = words.iter().map(|word| format!("{:08x}", word & !self.register));
            words.collect::<Vec<String>>()
        };
        for (symbol, words) in found {
            let words = words.iter().map(word).collect::<Result<Vec<u32>, _>>()?;
            let words: Vec<u32> = words.into_iter().filter(|word| is_of_system(*word)).collect();
            let due = if symbol == "lr_registers_begin" { &expected[..] } else { &[] };
            if shown(&words) != shown(due) {
                return Err(format!("{symbol} has {:?}, not {:?}", shown(&words), shown(due)));
            }
        }
        match found.contains_key("lr_registers_begin") {
            true => Ok(()),
            false => Err("the symbol lr_registers_begin is missing".to_owned()),
        }
    }
}

/// Returns whether a word is an access to a system register or a barrier in either architecture:
/// for ARM, accesses to coprocessor 15 (A8.8.98) and `isb`; for AArch64, the whole group (C4.1,
/// "System").
fn is_of_system(word: u32) -> bool {
    word & 0x0f00_0f10 == 0x0e00_0f10 || word == 0xf57f_f06f || word >> 22 == 0xd500_0000 >> 22
}

impl Header {
    /// Compiles and disassembles the header's C file, and compares it with the table. Returns a
    /// line with the number of functions.
    fn compare(&self) -> Result<String, String> {
        let table = self.table()?;
        let source = root().join(FOLDER).join(self.name).with_extension("c");
        let disassembly = self.disassemble(&source)?;
        let faults = faults(&table, &functions(&disassembly, self.leaves));
        match faults.is_empty() {
            true => Ok(format!("{}.h: {} accesses as documented", self.name, table.len())),
            false => Err(format!("{}.h: {}", self.name, faults.join("; "))),
        }
    }

    fn table(&self) -> Result<BTreeMap<String, Expected>, String> {
        let table = root().join(FOLDER).join(self.name).with_extension("txt");
        let text = fs::read_to_string(&table).map_err(|e| format!("{}: {e}", table.display()))?;
        read_table(&text).map_err(|why| format!("{}: {why}", table.display()))
    }

    fn disassemble(&self, source: &Path) -> Result<String, String> {
        let build = root().join("native/build/pmu");
        crate::fetch::write(&build.join("CACHEDIR.TAG"), TAG)?;
        let object = build.join(source.file_name().unwrap_or_default()).with_extension("o");
        let mut compile = program(&self.machine.tool("gcc"), &FLAGS);
        compile.args(self.flags).arg("-c").arg("-o").arg(&object).arg(source);
        output(compile)?;
        let mut objdump = program(&self.machine.tool("objdump"), &["--disassemble"]);
        objdump.arg(&object);
        Ok(String::from_utf8_lossy(&output(objdump)?).into_owned())
    }
}

/// Parses table rows: `name fields = words`, or `name <= number`.
fn read_table(text: &str) -> Result<BTreeMap<String, Expected>, String> {
    let mut table = BTreeMap::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let (name, expected) = row(line).map_err(|why| format!("line {}: {why}", at + 1))?;
        if table.insert(name.clone(), expected).is_some() {
            return Err(format!("line {}: duplicate {name}", at + 1));
        }
    }
    Ok(table)
}

fn row(line: &str) -> Result<(String, Expected), String> {
    if let Some((name, most)) = line.split_once(" <= ") {
        let most = most.parse().map_err(|_| format!("invalid number `{most}`"))?;
        return Ok((name.to_owned(), Expected::AtMost(most)));
    }
    let (left, words) = line.split_once(" = ").ok_or("expected `=` or `<=`")?;
    let (name, fields) = left.split_once(' ').unwrap_or((left, ""));
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    if !fields.is_empty() {
        let made = format!("{:08x}", word(fields)?);
        if words != [made.as_str()] {
            return Err(format!("{fields} encode to {made}, not {}", words.join(" ")));
        }
    }
    Ok((name.to_owned(), Expected::Words(words)))
}

/// Encodes an instruction word from its fields, according to its format. The register is the
/// function's argument or result.
fn word(fields: &str) -> Result<u32, String> {
    let mut fields = fields.split_whitespace();
    let mnemonic = fields.next().unwrap_or_default();
    let numbers: Result<Vec<u32>, _> = fields.map(str::parse).collect();
    let numbers = numbers.map_err(|error| format!("{mnemonic}: {error}"))?;
    match (mnemonic, numbers.as_slice()) {
        // ARM Architecture Reference Manual ARMv7, A8.8.98 and A8.8.108; condition `always`,
        // register r0.
        ("mrc" | "mcr", &[coprocessor, opc1, crn, crm, opc2]) => {
            let load = u32::from(mnemonic == "mrc");
            Ok(0xee00_0010
                | load << 20
                | opc1 << 21
                | crn << 16
                | coprocessor << 8
                | opc2 << 5
                | crm)
        }
        // Arm Architecture Reference Manual for A-profile, C6.2; register x0.
        ("mrs" | "msr", &[op0, op1, crn, crm, op2]) => {
            let load = u32::from(mnemonic == "mrs");
            Ok(0xd500_0000 | load << 21 | op0 << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5)
        }
        // Programming Environments Manual for 32-bit PowerPC; the halves of the number are swapped;
        // register r3.
        ("mfspr" | "mtspr", &[number]) => {
            let code = if mnemonic == "mfspr" { 339 } else { 467 };
            Ok(31 << 26 | 3 << 21 | (number & 31) << 16 | (number >> 5) << 11 | code << 1)
        }
        // Loads and stores with a 12-bit offset from r0: to r0, or from r1.
        ("ldr", &[number]) => Ok(0xe590_0000 | (4 * number)),
        ("str", &[number]) => Ok(0xe580_1000 | (4 * number)),
        _ => Err(format!("`{mnemonic}` with {} numbers is not a known format", numbers.len())),
    }
}

/// Returns the words of each function in a disassembly, up to its return.
fn functions(disassembly: &str, leaves: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut functions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut current = None;
    for line in disassembly.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|l| l.split_once('<')) {
            current = Some(name.1.to_owned());
            functions.insert(name.1.to_owned(), Vec::new());
        } else if let (Some(name), Some(bytes)) = (&current, line.split('\t').nth(1)) {
            let bytes = bytes.replace(' ', "");
            if leaves.contains(&bytes.as_str()) {
                current = None;
            } else if let Some(words) = functions.get_mut(name) {
                words.push(bytes);
            }
        }
    }
    functions
}

/// Returns the differences between the functions and the table, and entries that are in only one of
/// them.
fn faults(
    table: &BTreeMap<String, Expected>,
    functions: &BTreeMap<String, Vec<String>>,
) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, words) in functions {
        match table.get(name) {
            None => faults.push(format!("the table has no row for {name}")),
            Some(Expected::AtMost(most)) if words.len() > *most => {
                faults.push(format!("{name} has {} instructions, more than {most}", words.len()));
            }
            Some(Expected::AtMost(_)) if words.is_empty() => {
                faults.push(format!("{name} does nothing"));
            }
            Some(Expected::Words(expected)) if expected != words => {
                let (found, expected) = (words.join(" "), expected.join(" "));
                faults.push(format!("{name} is {found}, not {expected}"));
            }
            Some(_) => {}
        }
    }
    let missing = table.keys().filter(|name| !functions.contains_key(*name));
    faults.extend(missing.map(|name| format!("{name} is missing from the file")));
    faults
}

#[cfg(test)]
mod tests {
    use super::{Expected, READERS, faults, functions, read_table, word};

    const DISASSEMBLY: &str = "a.o:     file format elf32\n\n00000000 <read_pmcr>:\n\
        \x20  0:\tee190f1c \tmrc\t15, 0, r0, cr9, cr12, {0}\n   4:\te12fff1e \tbx\tlr\n\
        \x20  8:\te1a00000 \tnop\n\n0000000c <read_mmcr0>:\n   c:\t7c 78 ea a6 \tmfspr   r3,952\n";

    #[test]
    fn words_of_the_manuals() {
        // Examples from the manuals: PMCR as the tutorial reads it into r2 is ee192f1c.
        assert_eq!(word("mrc 15 0 9 12 0"), Ok(0xee19_2f1c & !0xf000));
        assert_eq!(word("mrs 3 3 9 13 0"), Ok(0xd53b_9d00));
        assert_eq!(word("mfspr 8"), Ok(0x7c68_02a6), "mflr r3");
        assert_eq!(word("str 897"), Ok(0xe580_1e04));
        for wrong in ["mrc 15 0 9 12", "mov 1", "mrc 15 0 c9 12 0", ""] {
            assert!(word(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_table_that_contradicts_itself_is_refused() {
        let right = "# head\nread_pmcr mrc 15 0 9 12 0 = ee190f1c\ncounts <= 16\n";
        let table = read_table(right).expect("a right table");
        assert_eq!(table["counts"], Expected::AtMost(16));
        for wrong in ["a mrc 15 0 9 12 1 = ee190f1c", "a", "a <= x", "a = 1\na = 1"] {
            assert!(read_table(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_wrong_word_a_missing_row_and_a_missing_function_are_found() {
        let found = functions(DISASSEMBLY, &["e12fff1e"]);
        assert_eq!(found["read_pmcr"], ["ee190f1c"]);
        assert_eq!(found["read_mmcr0"], ["7c78eaa6"]);
        let faults = |text: &str| faults(&read_table(text).expect("a table"), &found);
        let right = "read_pmcr = ee190f1c\nread_mmcr0 <= 1\n";
        assert!(faults(right).is_empty());
        assert_eq!(faults(&right.replace("0f1c", "0f3c")).len(), 1);
        assert_eq!(faults(&right.replace("<= 1", "<= 0")).len(), 1);
        assert_eq!(faults("read_pmcr = ee190f1c\n").len(), 1);
        assert_eq!(faults(&format!("{right}gone = 00\n")).len(), 1);
    }

    #[test]
    fn an_access_that_is_another_or_elsewhere_is_found() {
        let table = "write_pmselr mcr 15 0 9 12 5 = ee090fbc\nbarrier = f57ff06f\n\
                     read_pmxevcntr mrc 15 0 9 13 2 = ee190f5d\n\
                     read_pmccntr mrc 15 0 9 13 0 = ee190f1d\n";
        let table = read_table(table).expect("a right table");
        let listing = "0 <lr_registers_read>:\n 0:\te351001f \tcmp\n8 <lr_registers_begin>:\n\
             \x20 8:\tee091fbc \tmcr\n c:\tf57ff06f \tisb\n 10:\tee192f5d \tmrc\n\
             \x20 14:\tea000001 \tb\n 18:\tf57ff06f \tisb\n 1c:\tee192f1d \tmrc\n\
             20 <lr_registers_end>:\n 20:\te5802000 \tstr\n 28:\te12fff1e \tbx\n";
        let judge = |listing: &str| READERS[0].judge(&table, &functions(listing, &["e12fff1e"]));
        assert_eq!(judge(listing), Ok(()));
        for (from, to) in [
            ("ee192f5d", "ee192f3d"),
            ("e351001f", "ee192f1d"),
            ("e5802000", "ee192f1d"),
            (" c:\tf57ff06f", " c:\te1a00000"),
            ("lr_registers_begin", "lr_registers_other"),
        ] {
            assert!(listing.contains(from), "{from}");
            assert!(judge(&listing.replace(from, to)).is_err(), "{to}");
        }
    }
}
