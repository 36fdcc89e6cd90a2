// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the instructions executed by the kernels, variant by variant, on emulated architectures.
//!
//! `lab/icount` contains the program that makes the calls and marks their start and end, and the
//! plugin that counts the instructions between marks. Counts depend only on the compiler; to check
//! this, every count is taken twice, in different environments, and both values must be equal.
//! Counts are no substitute for times, since the cost of an instruction depends on the processor.

pub(crate) mod context;
mod document;
mod goals;
mod sizes;
mod targets;

use crate::command::{output, program, root};
use crate::outcome::Outcome;
use sizes::{Size, Sizes};
use std::collections::BTreeMap;
use std::fs;
use targets::{TARGETS, Target};

/// Build directory, relative to `native/`, as its Makefile expects it.
const BUILD: &str = "build/counts";
const DRIVER: &str = "-std=c11 -O2 -fno-tree-vectorize -fno-tree-loop-distribute-patterns \
                      -Wall -Wextra -Wconversion -Werror";
/// Maximum number of instructions that pass a call's arguments: the instructions outside the
/// kernels in excess of those for a call to an empty function. If there are more, the kernel has
/// called another function, and counting fails.
const CALLER: u64 = 8;

/// A kind of call: function, size and offsets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    variant: String,
    function: String,
    bytes: u64,
    /// Offset case from `lab/icount/calls.c`: 0 aligned, 1 not.
    offsets: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    /// Instructions executed in the kernels.
    all: u64,
    /// Vector instructions executed in the kernels.
    vector: u64,
}

/// A variant, as reported by the program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variant {
    name: String,
    is_vector: bool,
    /// Functions for which this variant is selected, unless a later variant in the table replaces
    /// it.
    preferred: Vec<String>,
    /// Bytes of code in the variant's object.
    bytes: u64,
}

/// Results for one target.
#[derive(Debug)]
struct Counts {
    target: &'static Target,
    compiler: String,
    /// Variants in table order, after `reference` and `plain`.
    variants: Vec<Variant>,
    /// Variants that were compiled but are not supported by this processor.
    not_run: Vec<String>,
    counts: BTreeMap<Call, Count>,
    sizes: Sizes,
}

impl Counts {
    fn count(&self, variant: &str, function: &str, bytes: u64, offsets: u64) -> Option<Count> {
        let (variant, function) = (variant.to_owned(), function.to_owned());
        self.counts.get(&Call { variant, function, bytes, offsets }).copied()
    }

    /// Returns the name of the scalar variant of `function`: the one selected without vectors.
    fn scalar(&self, function: &str) -> Option<&str> {
        let is_selected =
            |v: &&Variant| !v.is_vector && v.preferred.iter().any(|name| name == function);
        self.variants.iter().rfind(is_selected).map(|v| v.name.as_str())
    }

    /// Returns one variant's instruction count divided by another's; `None` if either is missing.
    fn ratio(&self, of: &str, to: &str, function: &str, bytes: u64, offsets: u64) -> Option<f64> {
        let of = self.count(of, function, bytes, offsets)?.all;
        let to = self.count(to, function, bytes, offsets)?.all;
        #[expect(clippy::cast_precision_loss, reason = "counts of a call are far below 2^53")]
        Some(of as f64 / to as f64)
    }
}

/// Counts on all targets, prints the tables for the documentation, and compares the counts with
/// their bounds.
pub(crate) fn print() -> Result<(), String> {
    let (all, skips) = measure()?;
    for skip in &skips {
        eprintln!("SKIP {skip}");
    }
    print!("{}", document::document(&all, &skips));
    goals::judge(&all)
}

/// Counts on all targets and compares the counts with their bounds.
pub(crate) fn check() -> Outcome {
    match measure() {
        Ok((all, skips)) => match goals::judge(&all).and_then(|()| context::check()) {
            Ok(()) => Outcome::Passed(skips.iter().map(|skip| format!("SKIP {skip}")).collect()),
            Err(why) => Outcome::Failed(why),
        },
        Err(why) => Outcome::Failed(why),
    }
}

/// Measures every target whose tools are installed, and returns why others were skipped.
fn measure() -> Result<(Vec<Counts>, Vec<String>), String> {
    let (mut all, mut skips) = (Vec::new(), Vec::new());
    for target in TARGETS {
        if let Some(missing) = target.machine.missing() {
            skips.push(format!("{}: {missing}", target.name));
            continue;
        }
        all.push(count(target).map_err(|why| format!("{}: {why}", target.name))?);
    }
    Ok((all, skips))
}

fn run(name: &str, args: &[&str]) -> Result<String, String> {
    let bytes = output(program(name, args))?;
    String::from_utf8(bytes).map_err(|error| format!("{name}: {error}"))
}

/// Builds for a target, counts twice, and checks that both counts are equal.
fn count(target: &'static Target) -> Result<Counts, String> {
    let folder = format!("native/{BUILD}/{}", target.folder());
    build(target, &folder)?;
    let symbols = run(&target.tool("nm"), &[&format!("{folder}/calls")])?;
    let (mut variants, not_run, counts) = emulate(target, &folder, &symbols, &[])?;
    let again = emulate(target, &folder, &symbols, &[("ANOTHER", "environment")])?;
    if again.2 != counts {
        return Err("two runs executed different numbers of instructions".to_owned());
    }
    let objects = objects(target, &folder, "-O2")?;
    for variant in &mut variants {
        let size = objects.get(&format!("{}.o", variant.name));
        variant.bytes = size.map_or(0, |size| size.code);
    }
    let sizes = sizes::of(&objects, &self::objects(target, &folder, "-Os")?);
    let version = run(&target.tool("gcc"), &["--version"])?;
    let compiler = version.lines().next().unwrap_or("").to_owned();
    Ok(Counts { target, compiler, variants, not_run, counts, sizes })
}

/// Returns the sizes of the archive's objects at an optimisation level. Any level other than -O2,
/// at which instructions are counted, needs a separate build.
fn objects(target: &Target, folder: &str, level: &str) -> Result<BTreeMap<String, Size>, String> {
    let archive = if level == "-O2" {
        format!("{folder}/liblr.a")
    } else {
        let build = format!("{BUILD}/{}/{}", target.folder(), level.trim_start_matches('-'));
        archive(target, &build, level)?;
        format!("native/{build}/liblr.a")
    };
    Ok(sizes::read(&run(&target.tool("size"), &["-A", &archive])?))
}

fn archive(target: &Target, build: &str, level: &str) -> Result<(), String> {
    let make = ["--no-print-directory", "-s", "-j2", "-C", "native", "WERROR=-Werror"];
    let settings = [
        format!("BUILD={build}"),
        format!("CC={}", target.tool("gcc")),
        format!("AR={}", target.tool("ar")),
        format!("CFLAGS={level} {}", target.flags),
        format!("{build}/liblr.a"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    run("make", &[&make, settings.as_slice()].concat())?;
    Ok(())
}

fn build(target: &Target, folder: &str) -> Result<(), String> {
    let gcc = target.tool("gcc");
    let build = format!("{BUILD}/{}", target.folder());
    // Removes objects that were compiled by another compiler or with other flags.
    if root().join(folder).exists() {
        fs::remove_dir_all(root().join(folder)).map_err(|error| format!("{folder}: {error}"))?;
    }
    archive(target, &build, "-O2")?;
    for name in ["calls", "begin", "plain", "carries", "end"] {
        let object = format!("{folder}/{name}.o");
        let source = format!("lab/icount/{name}.c");
        let flags = format!("{DRIVER} {} -Inative/include -c -o {object} {source}", target.flags);
        run(&gcc, &flags.split_whitespace().collect::<Vec<_>>())?;
    }
    // The order matters: the counted code is between begin and end.
    let link = format!(
        "{} -static -o {folder}/calls {folder}/calls.o {folder}/begin.o {folder}/plain.o \
         {folder}/carries.o -Wl,--whole-archive {folder}/liblr.a -Wl,--no-whole-archive \
         {folder}/end.o",
        target.flags
    );
    run(&gcc, &link.split_whitespace().collect::<Vec<_>>())?;
    let plugin = format!("-O2 -shared -fPIC -fvisibility=hidden -o {folder}/icount.so");
    let plugin = format!("{plugin} lab/icount/plugin.c");
    run("cc", &plugin.split_whitespace().collect::<Vec<_>>())?;
    Ok(())
}

/// Runs the program that makes the calls, once.
fn emulate(
    target: &Target,
    folder: &str,
    symbols: &str,
    environment: &[(&str, &str)],
) -> Result<Read, String> {
    let path = |name: &str| root().join(folder).join(name);
    let address = |name| address_of(symbols, name);
    let mut plugin = format!(
        "{},low={},high={},mark={},out={}",
        path("icount.so").display(),
        address("lr_text_begin")?,
        address("lr_text_end")?,
        address("lr_marked")?,
        path("counts").display()
    );
    for mnemonic in target.mnemonics {
        plugin += &format!(",mnemonic={mnemonic}");
    }
    for register in target.registers {
        plugin += &format!(",register={register}");
    }
    if let Some((bits, value)) = target.opcode {
        plugin += &format!(",bits={bits},opcode={value}");
    }
    let calls = format!("{folder}/calls");
    let mut command =
        program(target.machine.emulator, &["-cpu", target.cpu, "-plugin", &plugin, &calls]);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs(environment.iter().copied());
    let lines = String::from_utf8(output(command)?).map_err(|error| error.to_string())?;
    let marks = path("counts");
    let marks =
        fs::read_to_string(&marks).map_err(|error| format!("{}: {error}", marks.display()))?;
    read(&lines, &marks)
}

/// Returns a symbol's address from `nm` output.
fn address_of(symbols: &str, name: &str) -> Result<String, String> {
    let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}")));
    let address = line.and_then(|line| line.split_whitespace().next());
    address.map(|a| format!("0x{a}")).ok_or_else(|| format!("the program has no symbol {name}"))
}

type Read = (Vec<Variant>, Vec<String>, BTreeMap<Call, Count>);

/// Combines the program's list of calls with the plugin's counts. Marks alternate between the start
/// and the end of a call; the counts of a call are those at its end.
fn read(lines: &str, marks: &str) -> Result<Read, String> {
    let mut ends = marks.lines().skip(1).step_by(2);
    let (mut variants, mut not_run, mut counts) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut overhead = None;
    for line in lines.lines() {
        if let Some(variant) = line.strip_prefix("SKIP ") {
            not_run.push(variant.to_owned());
            continue;
        }
        let wrong = || format!("cannot parse `{line}` and its count");
        let mark = ends.next().ok_or_else(wrong)?;
        let [all, in_range, vector] = numbers::<3>(mark).ok_or_else(wrong)?;
        let outside = all - in_range;
        // More instructions outside the kernels mean that a kernel called another function, whose
        // instructions would be missing from the kernel's count.
        if outside > *overhead.get_or_insert(outside) + CALLER {
            return Err(format!("`{line}` executes {outside} instructions outside the kernels"));
        }
        let (names, rest) = split_after(line, 2).ok_or_else(wrong)?;
        let [bytes, offsets, is_vector, is_preferred] = numbers::<4>(rest).ok_or_else(wrong)?;
        let (variant, function) = (names[0].to_owned(), names[1].to_owned());
        if function == "none" {
            continue;
        }
        note(&mut variants, &variant, &function, is_vector == 1, is_preferred == 1);
        let call = Call { variant, function, bytes, offsets };
        counts.insert(call, Count { all: in_range, vector });
    }
    if ends.next().is_some() || counts.is_empty() {
        return Err("the program reports fewer calls than the plugin counted, or none".to_owned());
    }
    Ok((variants, not_run, counts))
}

fn note(all: &mut Vec<Variant>, name: &str, function: &str, is_vector: bool, is_preferred: bool) {
    let at = all.iter().position(|v| v.name == name).unwrap_or_else(|| {
        let preferred = Vec::new();
        all.push(Variant { name: name.to_owned(), is_vector, preferred, bytes: 0 });
        all.len() - 1
    });
    if is_preferred && !all[at].preferred.iter().any(|known| known == function) {
        all[at].preferred.push(function.to_owned());
    }
}

fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let all: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    all?.try_into().ok()
}

/// Splits a line after its first `words` words, and returns these words and the rest.
fn split_after(line: &str, words: usize) -> Option<(Vec<&str>, &str)> {
    let mut parts = line.splitn(words + 1, ' ').collect::<Vec<_>>();
    (parts.len() == words + 1).then(|| {
        let rest = parts.pop().unwrap_or("");
        (parts, rest)
    })
}

#[cfg(test)]
mod tests;
