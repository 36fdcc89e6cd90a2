// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares Linux's lazy vector traps and saves, as counted by the emulator plugin, with those of
//! the `lazy` image.
//!
//! Linux runs `lab/vector-context/lazy.c` on the same processor; the plugin counts how often
//! execution reaches the two routines that give a process its vector registers and take them away.
//! The comparison is per use of vectors: a round of a process that yields after each use, or a
//! child that uses vectors once and exits.

use super::super::guest::{answers, archive, run};
use super::super::{Obstacle, Question, linux_7455};
use super::plan::TRAFFIC;
use super::run::{Mode, Run, Settings, grouped, symbols};
use super::{Images, Symbols};
use std::fmt;
use std::fs;
use std::path::Path;

/// Maximum relative difference in traps or saves per use, between Linux and the image; a larger one
/// fails the check.
const MOST_DIFFERENCE: f64 = 0.05;

/// Symbols of the routines with which Linux 6.1 loads the registers after a trap, and saves them at
/// a switch.
const LINUX_MARKS: [&str; 2] = ["load_up_altivec", "save_altivec"];

/// A case, given as arguments for the Linux program and as equivalent settings for the image.
struct Case {
    name: &'static str,
    processes: u32,
    rounds: u32,
    children: u32,
    life: u32,
}

/// Cases to compare. They have many rounds, because the first processes cannot yield to others
/// until all have been started.
const CASES: [Case; 3] = [
    Case { name: "3 processes that yield", processes: 3, rounds: 20_000, children: 0, life: 0 },
    Case { name: "8 processes that yield", processes: 8, rounds: 10_000, children: 0, life: 0 },
    Case { name: "fork storm", processes: 0, rounds: 0, children: 1_000, life: 1 },
];

impl Case {
    fn uses(&self) -> u32 {
        self.processes * self.rounds + self.children
    }

    fn settings(&self) -> Settings {
        let tasks = self.processes.max(1);
        let (mode, busy, life) = (Mode::Yield, tasks, self.life);
        // Packet lengths for which vectors are used, so that every packet is a use.
        Settings { mode, tasks, busy, life, pattern: 1, interrupts_per_s: 0, ..TRAFFIC }
    }
}

/// Numbers of traps and saves, and the number of uses of vectors in which they occurred.
#[derive(Clone, Copy, Debug)]
struct Taken {
    uses: u64,
    traps: u64,
    saves: u64,
}

impl Taken {
    fn per_use(self) -> [f64; 2] {
        [self.traps, self.saves].map(|count| super::run::percent(count, self.uses) / 100.0)
    }
}

/// Results of one case in Linux and in the image.
pub(super) struct Compared {
    name: &'static str,
    linux: Taken,
    image: Taken,
}

impl Compared {
    /// Returns the larger of the two differences (in traps per use, and in saves per use), relative
    /// to the image's value.
    fn difference(&self) -> f64 {
        let pairs = self.linux.per_use().into_iter().zip(self.image.per_use());
        pairs.map(|(linux, image)| (linux - image).abs() / image).fold(0.0, f64::max)
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [traps, saves] = self.linux.per_use();
        let [model_traps, model_saves] = self.image.per_use();
        write!(
            f,
            "{}: per use of vectors, {traps:.3} traps and {saves:.3} saves in Linux, \
             {model_traps:.3} and {model_saves:.3} in the image `lazy`",
            self.name
        )
    }
}

/// Runs every case in Linux and in the image.
pub(super) fn compare(images: &Images) -> Result<Vec<Compared>, Obstacle> {
    let kernel = linux_7455::ready()?;
    let folder = images.folder.join("lazy-linux");
    linux_7455::compile("lab/vector-context/lazy.c", &folder)?;
    let initrd = archive(&folder)?;
    let program = symbols(&folder.join("init"))?;
    let system = symbols(&kernel.join("vmlinux"))?;
    let mut compared = Vec::new();
    for case in &CASES {
        let [traps, saves] = count(images, &kernel, &initrd, (&system, &program), case)?;
        let linux = Taken { uses: case.uses().into(), traps, saves };
        let ran = images.all(&[Run { scheme: "lazy", settings: case.settings() }])?;
        let [uses, traps, saves] = ["packets", "traps", "saves"].map(|n| ran[0].number(n));
        compared.push(Compared { name: case.name, linux, image: Taken { uses, traps, saves } });
    }
    Ok(compared)
}

/// Returns the number of traps and saves in Linux.
fn count(
    images: &Images,
    kernel: &Path,
    initrd: &Path,
    (system, program): (&Symbols, &Symbols),
    case: &Case,
) -> Result<[u64; 2], Obstacle> {
    let address = |of: &Symbols, name: &str| {
        let found = of.get(name).map(|address| format!("{address:#x}"));
        found.ok_or_else(|| format!("no symbol {name}"))
    };
    let out = images.folder.join("lazy-linux.counts");
    let mut plugin = images.folder.join("counter.so").display().to_string();
    plugin += &format!(",out={}", out.display());
    for mark in LINUX_MARKS {
        plugin += &format!(",at={}", address(system, mark)?);
    }
    plugin += &format!(",begin={}", address(program, "counting_begins")?);
    plugin += &format!(",end={}", address(program, "counting_ends")?);
    let told = format!("{} {} {}", case.processes, case.rounds, case.children);
    let mut emulator = linux_7455::emulator("7455", kernel, initrd, &told);
    emulator.args(["-icount", "shift=0,sleep=off", "-plugin", &plugin]);
    let question = Question { name: "lazy".to_owned(), command: String::new() };
    let answers = answers(&run(emulator)?, &[question])?;
    if answers[0].status != 0 {
        let why = format!("{}: a process lost its vector register, or did not run", case.name);
        return Err(Obstacle::Failed(why));
    }
    let text = fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    Ok(parse_counts(&text).ok_or_else(|| format!("{}: cannot read `{text}`", out.display()))?)
}

/// Parses the values for [`LINUX_MARKS`]. They follow the total number of instructions and precede
/// the lengths of the two longest stretches.
fn parse_counts(text: &str) -> Option<[u64; 2]> {
    let all: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let [_, traps, saves, _, _] = all?.try_into().ok()?;
    Some([traps, saves])
}

/// Checks that the relative differences are small enough.
pub(super) fn judge(compared: &[Compared]) -> Result<(), Obstacle> {
    match compared.iter().find(|case| case.difference() > MOST_DIFFERENCE) {
        None => Ok(()),
        Some(case) => Err(Obstacle::Failed(format!(
            "Linux differs from the image by more than {:.0} %: {case}",
            100.0 * MOST_DIFFERENCE
        ))),
    }
}

/// Formats the comparison for the document.
pub(super) fn section(compared: &[Compared]) -> String {
    let mut text = "## Linux compared with `lazy`\n\nLinux 6.1 on the same emulated processor \
                    (`lab/linux-7455`), with processes that use a vector register and yield, or \
                    child processes that use one and exit. The emulator's plugin counts how often \
                    Linux calls `load_up_altivec` (traps) and `save_altivec` (saves). The image \
                    `lazy` runs tasks that do the same. Traps and saves are per use of \
                    vectors.\n\n| | uses in Linux | traps | saves | traps of `lazy` | saves of \
                    `lazy` | difference |\n|---|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for case in compared {
        let [traps, saves] = case.linux.per_use();
        let [model_traps, model_saves] = case.image.per_use();
        text += &format!(
            "| {} | {} | {traps:.4} | {saves:.4} | {model_traps:.4} | {model_saves:.4} | {:.2} % \
             |\n",
            case.name,
            grouped(case.linux.uses),
            100.0 * case.difference()
        );
    }
    text + "\nIn the fork storm, every child traps once, and its registers are saved once: when it \
            exits and nothing needs them any more. AN2581 warns of this in section 2.1.\n"
}

#[cfg(test)]
mod tests {
    use super::{Compared, Taken, judge, parse_counts};

    fn case(linux: u64, image: u64) -> Compared {
        let taken = |traps| Taken { uses: 100, traps, saves: 100 };
        Compared { name: "synthetic", linux: taken(linux), image: taken(image) }
    }

    #[test]
    fn a_twentieth_is_the_limit() {
        assert!(judge(&[case(96, 100), case(104, 100)]).is_ok());
        assert!(judge(&[case(100, 100), case(94, 100)]).is_err());
    }

    #[test]
    fn traps_and_saves_stand_behind_all_instructions() {
        assert_eq!(parse_counts("100 7 8 0 0\n"), Some([7, 8]));
        assert_eq!(parse_counts("100 7 8\n"), None);
    }
}
