// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the kernels for every architecture on emulated processors, and prints the whole matrix as
//! one table.
//!
//! A build is one compiler with its flags. Three things are checked once per build: its objects
//! contain only the expected symbols and registers, the code compiles with flags that forbid
//! vectors, and dynamically and statically linked programs select the same variants. A row is a
//! build on one emulated processor. The kernels' check runs there, and the selected variants must
//! match the row, so that silently selecting a simpler variant is a failure.
//!
//! Rows whose compiler, C library or emulator is missing are skipped and counted. Times are not
//! measured, because emulator times say nothing about a processor.

use crate::command::{log, log_to, program, say, shown};
use crate::machines::{self, Machine};
use crate::outcome::Outcome;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A compiler with its flags.
struct Build {
    machine: &'static Machine,
    flags: &'static str,
    rows: &'static [Row],
}

struct Row {
    name: &'static str,
    /// The emulator's name for the processor; empty for its default.
    cpu: &'static str,
    /// Selected variants of the four kernels (checksum, copy with checksum, copy, fill); a single
    /// name if all are the same.
    selected: &'static str,
    /// A variant in this build that the processor does not support: forcing it must fail.
    refused: Option<&'static str>,
}

const fn row(name: &'static str, cpu: &'static str, selected: &'static str) -> Row {
    Row { name, cpu, selected, refused: None }
}

const fn refusing(row: Row, variant: &'static str) -> Row {
    Row { refused: Some(variant), ..row }
}

const BUILDS: &[Build] = &[
    // Processors before ARMv6 can load words only from aligned addresses.
    Build {
        machine: &machines::ARMEL,
        flags: "-march=armv5te",
        rows: &[row("arm926", "arm926", "portable")],
    },
    Build {
        machine: &machines::ARMEL,
        flags: "-mcpu=arm1176jzf-s",
        rows: &[row("arm1176", "arm1176", "armv6 armv6 portable portable")],
    },
    Build { machine: &machines::ARMHF, flags: "", rows: &[row("cortex-a7", "cortex-a7", "neon")] },
    Build {
        machine: &machines::AARCH64,
        flags: "",
        rows: &[
            refusing(row("cortex-a57", "cortex-a57", "neon"), "sve"),
            // SVE is available only by name, because it takes more instructions if its vectors are
            // as short as NEON's.
            row("sve16", "max,sve-default-vector-length=16", "neon"),
            row("sve32", "max,sve-default-vector-length=32", "sve sve neon neon"),
            row("sve64", "max,sve-default-vector-length=64", "sve sve neon neon"),
            row("sve256", "max,sve-default-vector-length=256", "sve sve neon neon"),
        ],
    },
    Build { machine: &machines::SPARC64, flags: "", rows: &[row("sparc64", "", "aligned")] },
    Build {
        machine: &machines::S390X,
        flags: "",
        rows: &[row("s390x", "", "alcg alcg portable portable")],
    },
    Build { machine: &machines::RISCV64, flags: "", rows: &[row("riscv64", "", "aligned")] },
    Build {
        machine: &machines::POWERPC,
        flags: "",
        rows: &[row("7455", "7455", "altivec"), refusing(row("750", "750", "ppc"), "altivec")],
    },
    // Compiled for this processor, so that the compiler may use the vector registers and relies on
    // the clobber lists.
    Build {
        machine: &machines::POWERPC,
        flags: "-mcpu=7450",
        rows: &[row("g4", "7455", "altivec")],
    },
    Build {
        machine: &machines::POWERPC64,
        flags: "",
        rows: &[refusing(row("970", "970", "altivec"), "vsx"), row("power8be", "power8", "vsx")],
    },
    Build {
        machine: &machines::POWERPC64LE,
        flags: "",
        rows: &[
            row("power8", "power8", "vsx"),
            row("power9", "power9", "vsx"),
            row("power10", "power10", "vsx"),
        ],
    },
    // Processors from before SSE4 to AVX2, each without a feature that a later one has.
    Build {
        machine: &machines::X86_64,
        flags: "",
        rows: &[
            refusing(row("conroe", "Conroe", "adc adc sse2 sse2"), "avx2"),
            refusing(row("nehalem", "Nehalem", "adc adc sse2 sse2"), "avx2"),
            refusing(row("sandybridge", "SandyBridge", "adc adc sse2 sse2"), "avx2"),
            refusing(row("haswell", "Haswell-noTSX", "avx2"), "avx512"),
        ],
    },
];

/// Result of a row.
enum Verdict {
    Holds,
    Fails(String),
    Skipped(String),
}

struct Line {
    row: &'static Row,
    compiler: String,
    selected: String,
    checked: Vec<String>,
    cases: u64,
    verdict: Verdict,
}

/// Returns the rows with these names, or an error that lists all names.
pub(crate) fn rows(names: &[&str]) -> Result<Vec<&'static str>, String> {
    let all: Vec<_> = BUILDS.iter().flat_map(|b| b.rows).map(|row| row.name).collect();
    let known = |name: &&str| {
        let found = all.iter().find(|row| *row == name).copied();
        found.ok_or_else(|| format!("unknown row `{name}`; the rows are {}", all.join(", ")))
    };
    names.iter().map(known).collect()
}

/// Checks the rows with these names, or all rows; with `full`, runs every case. The error names the
/// failed rows.
pub(crate) fn run(names: &[&str], full: bool) -> Result<(), String> {
    let lines = lines(names, full);
    say(&table(&lines)).map_err(|e| format!("cannot print the table: {e}"))?;
    let failed = |line: &&Line| matches!(line.verdict, Verdict::Fails(_));
    let failed: Vec<_> = lines.iter().filter(failed).map(|line| line.row.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// Runs the whole matrix with few cases, as a CI step.
pub(crate) fn check() -> Outcome {
    let lines = lines(&[], false);
    if let Err(error) = say(&table(&lines)) {
        return Outcome::Failed(format!("cannot print the table: {error}"));
    }
    let mut skips = Vec::new();
    for line in &lines {
        match &line.verdict {
            Verdict::Holds => {}
            Verdict::Fails(why) => return Outcome::Failed(format!("{}: {why}", line.row.name)),
            Verdict::Skipped(why) => skips.push(format!("SKIP: {}: {why}", line.row.name)),
        }
    }
    Outcome::Passed(skips)
}

/// Checks the builds in parallel, with one thread per processor, and returns the lines in build
/// order.
fn lines(names: &[&str], full: bool) -> Vec<Line> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(build) = BUILDS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let wanted = |row: &&Row| names.is_empty() || names.contains(&row.name);
            let rows: Vec<&'static Row> = build.rows.iter().filter(wanted).collect();
            if !rows.is_empty() {
                let lines = lines_of(build, &rows, full);
                found.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let log = log();
            scope.spawn(|| {
                log_to(log);
                work();
            });
        }
    });
    let mut lines = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let place = |line: &Line| {
        BUILDS.iter().flat_map(|b| b.rows).position(|row| std::ptr::eq(row, line.row))
    };
    lines.sort_by_key(place);
    lines
}

fn lines_of(build: &Build, rows: &[&'static Row], full: bool) -> Vec<Line> {
    let compiler = build.machine.tool("gcc");
    let absent = build.machine.missing();
    let prepared = absent.map_or_else(|| prepare(build), |why| Err(Verdict::Skipped(why)));
    let line = |row: &&'static Row| {
        let mut line = Line {
            row,
            compiler: format!("{compiler} {}", build.flags).trim_end().to_owned(),
            selected: String::new(),
            checked: Vec::new(),
            cases: 0,
            verdict: Verdict::Holds,
        };
        line.verdict = match &prepared {
            Err(Verdict::Skipped(why)) => Verdict::Skipped(why.clone()),
            Err(Verdict::Fails(why)) => Verdict::Fails(why.clone()),
            Err(Verdict::Holds) | Ok(()) => examine(build, row, full, &mut line)
                .map_or_else(Verdict::Fails, |()| Verdict::Holds),
        };
        line
    };
    rows.iter().map(line).collect()
}

/// Returns a build's output directory, below `native`.
fn folder(build: &Build) -> String {
    format!("build/isa/{}", build.rows[0].name)
}

/// Returns the emulator command, with the architecture's libraries for dynamically linked programs.
fn emulator(build: &Build, cpu: &str) -> Vec<String> {
    let mut words = vec![build.machine.emulator.to_owned()];
    if !cpu.is_empty() {
        words.extend(["-cpu".to_owned(), cpu.to_owned()]);
    }
    words.extend(["-L".to_owned(), build.machine.libraries()]);
    words
}

/// Builds both programs, and checks everything that does not depend on the processor.
fn prepare(build: &Build) -> Result<(), Verdict> {
    let folder = folder(build);
    let tool = |name: &str, tool: &str| format!("{name}={}", build.machine.tool(tool));
    // The flags are passed as part of the compiler command, because they differ between builds.
    let compiler = tool("CC", "gcc") + " " + build.flags;
    let cpu = build.rows.last().map_or("", |row| row.cpu);
    let mut args: Vec<String> =
        ["--no-print-directory", "-s", "-C", "native", "WERROR=-Werror"].map(str::to_owned).into();
    args.extend([compiler, tool("AR", "ar"), tool("NM", "nm"), tool("OBJDUMP", "objdump")]);
    args.push(format!("BUILD={folder}"));
    args.push(format!("RUN={}", emulator(build, cpu).join(" ")));
    let programs = ["lr-check", "lr-check-static"].map(|name| format!("{folder}/{name}"));
    args.extend(programs);
    args.extend(["symbols", "builds"].map(str::to_owned));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let made = captured(program("make", &args)).map_err(Verdict::Fails)?;
    if made.code == 0 { Ok(()) } else { Err(Verdict::Fails(made.last_line())) }
}

/// A program's output, and its exit status (128 if a signal ended it).
struct Captured {
    text: String,
    code: i32,
}

impl Captured {
    fn last_line(&self) -> String {
        let telling = |line: &&str| line.starts_with("FAIL") || line.contains("error");
        let lines = || self.text.lines();
        let line = lines().find(telling).or_else(|| lines().last()).unwrap_or("no output");
        format!("{line} (exit status {})", self.code)
    }
}

/// Runs a command, and writes its output to the log in one piece, so that outputs of commands that
/// run in parallel do not mix.
fn captured(mut command: Command) -> Result<Captured, String> {
    let shown = shown(&command);
    let output = command.output().map_err(|e| format!("cannot start `{shown}`: {e}"))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    say(&format!("$ {shown}\n{text}")).map_err(|e| format!("cannot print: {e}"))?;
    Ok(Captured { text, code: output.status.code().unwrap_or(128) })
}

/// Runs a program from the build on the emulated processor.
fn on(build: &Build, row: &Row, name: &str, args: &[&str]) -> Result<Captured, String> {
    let mut words = emulator(build, row.cpu);
    words.push(format!("native/{}/{name}", folder(build)));
    words.extend(args.iter().map(|&arg| arg.to_owned()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    captured(program(words[0], &words[1..]))
}

/// Checks a row and fills in its line in the table. The error describes the failure.
fn examine(build: &Build, row: &Row, full: bool, line: &mut Line) -> Result<(), String> {
    for name in ["lr-check", "lr-check-static"] {
        let list = on(build, row, name, &["--list"])?;
        line.selected = selected(&list.text).ok_or_else(|| list.last_line())?;
        if line.selected != row.selected {
            return Err(format!("{name} selects {}, not {}", line.selected, row.selected));
        }
    }
    if let Some(variant) = row.refused {
        let forced = on(build, row, "lr-check-static", &["--force", variant])?;
        if forced.code != 1 {
            return Err(format!("forcing {variant} exits with {}, not 1", forced.code));
        }
    }
    let args: &[&str] = if full { &[] } else { &["--quick"] };
    let check = on(build, row, "lr-check-static", args)?;
    for (subject, cases) in check.text.lines().filter_map(counted) {
        line.cases += cases;
        if !["arithmetic", "dispatch", "selected"].contains(&subject) {
            line.checked.push(subject.to_owned());
        }
    }
    if check.code != 0 {
        return Err(check.last_line());
    }
    if line.checked.is_empty() {
        return Err("no variant was checked".to_owned());
    }
    Ok(())
}

/// Returns the variants in the list's last line; a single name if they are all the same.
fn selected(list: &str) -> Option<String> {
    let words = list.lines().find_map(|line| line.strip_prefix("selected "))?;
    let words: Vec<&str> = words.split_whitespace().collect();
    let is_one = words.iter().all(|word| *word == words[0]);
    Some(if is_one { words[0].to_owned() } else { words.join(" ") })
}

/// Parses a line like `neon 279858 cases, 0 failures`, returning the subject and the number of
/// cases.
fn counted(line: &str) -> Option<(&str, u64)> {
    let (before, _) = line.split_once(" cases, ")?;
    let (subject, cases) = before.split_once(' ')?;
    Some((subject, cases.trim().parse().ok()?))
}

fn table(lines: &[Line]) -> String {
    let mut text = format!(
        "{:<12} {:<42} {:<30} {:<27} {:>9}  {}\n",
        "processor", "compiler", "selected", "checked", "cases", "verdict"
    );
    let (mut failed, mut skipped) = (0, 0);
    for line in lines {
        let verdict = match &line.verdict {
            Verdict::Holds => "holds".to_owned(),
            Verdict::Fails(why) => {
                failed += 1;
                format!("FAILS: {why}")
            }
            Verdict::Skipped(why) => {
                skipped += 1;
                format!("SKIP: {why}")
            }
        };
        let (name, checked) = (line.row.name, line.checked.join(" "));
        let _ = writeln!(
            text,
            "{name:<12} {:<42} {:<30} {checked:<27} {:>9}  {verdict}",
            line.compiler, line.selected, line.cases
        );
    }
    let holds = lines.len() - failed - skipped;
    let _ = write!(text, "{holds} passed, {failed} failed, {skipped} skipped");
    text
}

#[cfg(test)]
mod tests {
    use super::{BUILDS, counted, selected};

    #[test]
    fn lines_of_the_check_are_understood() {
        assert_eq!(counted("neon         279858 cases, 0 failures"), Some(("neon", 279_858)));
        assert_eq!(counted("sve          SKIP: this processor lacks SVE"), None);
        let list = "neon vector compiled\nselected     sve sve neon neon\n";
        assert_eq!(selected(list).as_deref(), Some("sve sve neon neon"));
        assert_eq!(selected("selected     neon neon neon neon").as_deref(), Some("neon"));
        assert_eq!(selected("neon vector compiled"), None);
    }

    #[test]
    fn rows_are_distinguishable() {
        let names: Vec<_> = BUILDS.iter().flat_map(|b| b.rows).map(|row| row.name).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name} twice");
        }
    }
}
