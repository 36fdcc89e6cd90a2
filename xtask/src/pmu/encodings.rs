// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether every access to a register assembles to what the manuals say.
//!
//! Beside each header of `native/pmu` stand a C file with a function per access and a table of what
//! each must be: the fields as the manual has them and the word. The word is compared twice, with
//! what the fields make by the instruction's format and with what the compiler's assembler made.
//! Nothing is run; that is the lab's, for those that an emulator has.

use crate::ci::Outcome;
use crate::command::{output, program, root, say};
use crate::fetch::TAG;
use crate::machines::{self, Machine};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A header with the compiler that has its instructions.
struct Header {
    name: &'static str,
    machine: &'static Machine,
    flags: &'static [&'static str],
    /// How an instruction begins that leaves a function.
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

/// What a function must consist of, what leaves it left out.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    /// These words; the one made of the fields, where there are fields, stands in it.
    Words(Vec<String>),
    /// At most so many instructions.
    AtMost(usize),
}

/// Says something to whoever runs this; a closed terminal is no obstacle.
fn note(line: &str) {
    let _ = say(line);
}

/// Compares all of them; those without a compiler are skipped.
pub(super) fn check() -> Outcome {
    let mut skips = Vec::new();
    for header in &HEADERS {
        let gcc = header.machine.tool("gcc");
        if output(program(&gcc, &["-dumpversion"])).is_err() {
            skips.push(format!("SKIP: no {gcc}: the encodings of {}.h", header.name));
            continue;
        }
        match header.compare() {
            Ok(said) => note(&said),
            Err(why) => return Outcome::Failed(why),
        }
    }
    Outcome::Passed(skips)
}

impl Header {
    /// Compiles, disassembles, compares; how many functions were compared.
    fn compare(&self) -> Result<String, String> {
        let folder = root().join("native/pmu/check");
        let table = folder.join(self.name).with_extension("txt");
        let text = fs::read_to_string(&table).map_err(|e| format!("{}: {e}", table.display()))?;
        let table = read_table(&text).map_err(|why| format!("{}: {why}", table.display()))?;
        let disassembly = self.disassemble(&folder.join(self.name).with_extension("c"))?;
        let faults = faults(&table, &functions(&disassembly, self.leaves));
        match faults.is_empty() {
            true => Ok(format!("{}.h: {} accesses as documented", self.name, table.len())),
            false => Err(format!("{}.h: {}", self.name, faults.join("; "))),
        }
    }

    fn disassemble(&self, source: &Path) -> Result<String, String> {
        let build = root().join("native/build/pmu");
        crate::fetch::write(&build.join("CACHEDIR.TAG"), TAG)?;
        let object = build.join(self.name).with_extension("o");
        let mut compile = program(&self.machine.tool("gcc"), &FLAGS);
        compile.args(self.flags).arg("-c").arg("-o").arg(&object).arg(source);
        output(compile)?;
        let mut objdump = program(&self.machine.tool("objdump"), &["--disassemble"]);
        objdump.arg(&object);
        Ok(String::from_utf8_lossy(&output(objdump)?).into_owned())
    }
}

/// The rows of a table: `name fields = words`, or `name <= number`.
fn read_table(text: &str) -> Result<BTreeMap<String, Expected>, String> {
    let mut table = BTreeMap::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let (name, expected) = row(line).map_err(|why| format!("line {}: {why}", at + 1))?;
        if table.insert(name.clone(), expected).is_some() {
            return Err(format!("line {}: {name} stands there twice", at + 1));
        }
    }
    Ok(table)
}

fn row(line: &str) -> Result<(String, Expected), String> {
    if let Some((name, most)) = line.split_once(" <= ") {
        let most = most.parse().map_err(|_| format!("`{most}` is no number"))?;
        return Ok((name.to_owned(), Expected::AtMost(most)));
    }
    let (left, words) = line.split_once(" = ").ok_or("neither = nor <=")?;
    let (name, fields) = left.split_once(' ').unwrap_or((left, ""));
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    if !fields.is_empty() {
        let made = format!("{:08x}", word(fields)?);
        if words != [made.as_str()] {
            return Err(format!("{fields} make {made}, not {}", words.join(" ")));
        }
    }
    Ok((name.to_owned(), Expected::Words(words)))
}

/// An instruction's word from its fields, by its format; the register is the function's argument or
/// result.
fn word(fields: &str) -> Result<u32, String> {
    let mut fields = fields.split_whitespace();
    let mnemonic = fields.next().unwrap_or_default();
    let numbers: Result<Vec<u32>, _> = fields.map(str::parse).collect();
    let numbers = numbers.map_err(|error| format!("{mnemonic}: {error}"))?;
    match (mnemonic, numbers.as_slice()) {
        // ARM Architecture Reference Manual ARMv7, A8.8.98 and A8.8.108, condition always, r0.
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
        // Arm Architecture Reference Manual for A-profile, C6.2, x0.
        ("mrs" | "msr", &[op0, op1, crn, crm, op2]) => {
            let load = u32::from(mnemonic == "mrs");
            Ok(0xd500_0000 | load << 21 | op0 << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5)
        }
        // Programming Environments Manual for 32-bit PowerPC; halves of the number swapped, r3.
        ("mfspr" | "mtspr", &[number]) => {
            let code = if mnemonic == "mfspr" { 339 } else { 467 };
            Ok(31 << 26 | 3 << 21 | (number & 31) << 16 | (number >> 5) << 11 | code << 1)
        }
        // Offset of 12 bits from r0; to r0, or from r1.
        ("ldr", &[number]) => Ok(0xe590_0000 | (4 * number)),
        ("str", &[number]) => Ok(0xe580_1000 | (4 * number)),
        _ => Err(format!("`{mnemonic}` with {} numbers is no format here", numbers.len())),
    }
}

/// The words of each function of a disassembly, up to what leaves it.
fn functions(disassembly: &str, leaves: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut functions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut current = None;
    for line in disassembly.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|l| l.split_once('<')) {
            current = Some(name.1.to_owned());
            functions.insert(name.1.to_owned(), Vec::new());
        } else if let (Some(name), Some(octets)) = (&current, line.split('\t').nth(1)) {
            let octets = octets.replace(' ', "");
            if leaves.contains(&octets.as_str()) {
                current = None;
            } else if let Some(words) = functions.get_mut(name) {
                words.push(octets);
            }
        }
    }
    functions
}

/// Where the functions are not what the table has, and what is in one alone.
fn faults(
    table: &BTreeMap<String, Expected>,
    functions: &BTreeMap<String, Vec<String>>,
) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, words) in functions {
        match table.get(name) {
            None => faults.push(format!("{name} has no row")),
            Some(Expected::AtMost(most)) if words.len() > *most => {
                faults.push(format!("{name} has {} instructions, not {most}", words.len()));
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
    faults.extend(missing.map(|name| format!("{name} is not in the file")));
    faults
}

#[cfg(test)]
mod tests {
    use super::{Expected, faults, functions, read_table, word};

    const DISASSEMBLY: &str = "a.o:     file format elf32\n\n00000000 <read_pmcr>:\n\
        \x20  0:\tee190f1c \tmrc\t15, 0, r0, cr9, cr12, {0}\n   4:\te12fff1e \tbx\tlr\n\
        \x20  8:\te1a00000 \tnop\n\n0000000c <read_mmcr0>:\n   c:\t7c 78 ea a6 \tmfspr   r3,952\n";

    #[test]
    fn words_of_the_manuals() {
        // Examples of the manuals themselves: PMCR as the tutorial reads it into r2 is ee192f1c.
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
}
