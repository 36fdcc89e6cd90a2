// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executes one run: starts a scheme's image with its settings, and reads the result.

use super::super::Obstacle;
use crate::command::program;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Kinds of preemption, with their numbers in `lab/vector-context/settings.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    Load,
    Nested,
    Priority,
    Sliced,
    All,
    Yield,
    Sleep,
}

impl Mode {
    pub(super) const CHECKED: [Self; 5] =
        [Self::Nested, Self::Priority, Self::Sleep, Self::Sliced, Self::All];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Nested => "nested interrupts",
            Self::Priority => "priorities",
            Self::Sliced => "time slices",
            Self::All => "slices and nested interrupts",
            Self::Sleep => "sleeping inside",
            Self::Yield => "yields",
        }
    }

    /// Describes the preemption rules, for the document.
    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::Load => "Interrupts wake tasks; the tasks take turns",
            Self::Nested => {
                "Interrupts nest, and each copies and sums 256 to 1,279 bytes with vectors"
            }
            Self::Priority => "Each task has its own priority; each interrupt wakes a random task",
            Self::Sliced => "All tasks are ready; each interrupt ends a time slice",
            Self::All => {
                "Interrupts nest, use vectors, end time slices, and wake tasks of higher priority"
            }
            Self::Sleep => {
                "Tasks yield between taking the registers and using them, and after each packet"
            }
            Self::Yield => "Tasks yield after each packet",
        }
    }
}

/// Traffic patterns, numbered as in `settings.h`; 0 is a fixed length.
pub(super) const PATTERNS: [&str; 6] =
    ["fixed", "bulk", "interactive", "jumbo", "mixed", "response"];
pub(super) const MIXED: u32 = 4;

/// Settings of a run, with their values as in `settings.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Settings {
    pub(super) mode: Mode,
    pub(super) check: bool,
    pub(super) ticks_per_s: u32,
    pub(super) interrupts_per_s: u32,
    pub(super) tasks: u32,
    pub(super) busy: u32,
    pub(super) pattern: u32,
    pub(super) bytes: u32,
    pub(super) path: u32,
    pub(super) life: u32,
    pub(super) unflagged: u32,
    pub(super) duration_ms: u32,
    pub(super) switches: u32,
}

/// Random seed; any value but 0.
const SEED: u32 = 2_463_534_242;

impl Settings {
    /// Returns the settings as the image reads them.
    fn words(&self) -> [u32; 14] {
        [
            self.mode as u32,
            u32::from(self.check),
            self.ticks_per_s,
            self.interrupts_per_s,
            self.tasks,
            self.busy,
            self.pattern,
            self.bytes,
            self.path,
            self.life,
            self.unflagged,
            self.duration_ms,
            self.switches,
            SEED,
        ]
    }

    pub(super) fn pattern_name(&self) -> String {
        match self.pattern {
            0 => format!("{} bytes", self.bytes),
            pattern => PATTERNS[pattern as usize].to_owned(),
        }
    }
}

/// An image and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) scheme: &'static str,
    pub(super) settings: Settings,
}

/// The plugin's instruction counts; zero in runs that compare registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) all: u64,
    pub(super) context: u64,
    pub(super) harness: u64,
    pub(super) kernel: u64,
    pub(super) background: u64,
    /// Length in instructions of the longest stretch of code with interrupts disabled.
    pub(super) closed: u64,
    /// Length in instructions of the longest stretch from the beginning of an interrupt until it is
    /// served.
    pub(super) entry: u64,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    /// Line that the image printed.
    line: String,
    numbers: BTreeMap<String, u64>,
    counted: Counted,
}

impl Ran {
    /// Returns a number from the image's line; 0 if the line has none with that name.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.numbers.get(name).copied().unwrap_or(0)
    }

    /// Returns the number of task switches and interrupts, at which registers may change owner.
    pub(super) fn switched(&self) -> u64 {
        self.number("switches") + self.number("interrupts")
    }

    /// Returns the result of an image that printed this line, without instruction counts.
    #[cfg(test)]
    pub(super) fn parse(line: &str) -> Self {
        Self { line: line.to_owned(), numbers: numbers(line), counted: Counted::default() }
    }

    pub(super) fn counted(&self) -> Counted {
        self.counted
    }

    /// Returns the number of instructions that the scheme executed, excluding those of the harness.
    pub(super) fn executed(&self) -> u64 {
        self.counted.all - self.counted.harness
    }

    /// Returns context management as a percentage of all instructions.
    pub(super) fn share(&self) -> f64 {
        percent(self.counted.context, self.executed())
    }

    /// Returns the maximum interrupt latency, in instructions.
    pub(super) fn latency(&self) -> u64 {
        self.counted.closed + self.counted.entry
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// Formats a number with commas between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Address of the settings in machine memory: `SETTINGS_AT`.
const SETTINGS_AT: &str = "0x2000000";
/// Time limit for a run, which takes from one to ten seconds. A run that exceeds it has failed.
const LIMIT_S: &str = "120";

/// Returns the emulator command with an image. A run's settings are in a separate file.
fn emulator(images: &Path, scheme: &str, settings: &Path) -> std::process::Command {
    let mut command = program("timeout", &["--kill-after=5", LIMIT_S, "qemu-system-ppc"]);
    command.args(["-M", "g3beige", "-cpu", "7455", "-m", "64", "-nographic", "-vga", "none"]);
    command.args(["-monitor", "none", "-serial", "stdio", "-nic", "none", "-no-reboot"]);
    command.args(["-icount", "shift=0,sleep=off", "-device", "pvpanic-pci"]);
    command.args(["-action", "panic=shutdown", "-bios"]).arg(images.join("rom.elf"));
    let image = images.join(scheme).with_extension("elf");
    command.arg("-device").arg(format!("loader,file={}", image.display()));
    let loader = format!("loader,file={},addr={SETTINGS_AT},force-raw=on", settings.display());
    command.arg("-device").arg(loader);
    command
}

/// Addresses in an image, by symbol.
pub(super) type Symbols = BTreeMap<String, u64>;

pub(super) fn symbols(image: &Path) -> Result<Symbols, String> {
    let mut command = program("powerpc-linux-gnu-nm", &[]);
    command.arg(image);
    let text = String::from_utf8_lossy(&crate::command::output(command)?).into_owned();
    let symbol = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((words.nth(1)?.to_owned(), address))
    };
    Ok(text.lines().filter_map(symbol).collect())
}

/// Address ranges whose instructions are counted, in the order of [`Counted`].
const RANGES: [&str; 4] = ["context", "harness", "kernel", "background"];
/// Symbols for the addresses at which interrupts are disabled, are enabled, begin and are served,
/// and at which counting begins and ends.
const MARKS: [(&str, &str); 10] = [
    ("close", "at_decrementer"),
    ("close", "at_call"),
    ("close", "at_unavailable"),
    ("close", "shut_out_done"),
    ("open", "exception_return"),
    ("open", "let_in_done"),
    ("vector", "at_decrementer"),
    ("serve", "serve"),
    ("begin", "counting_begins"),
    ("end", "counting_ends"),
];

/// Returns the emulator option that loads the plugin, with its arguments.
fn plugin(images: &Path, symbols: &Symbols, out: &Path) -> Result<String, String> {
    let address = |name: &str| {
        let found = symbols.get(name).map(|address| format!("{address:#x}"));
        found.ok_or_else(|| format!("the image has no symbol {name}"))
    };
    let mut words = vec![images.join("counter.so").display().to_string()];
    words.push(format!("out={}", out.display()));
    for range in RANGES {
        let [begin, end] = ["begin", "end"].map(|edge| address(&format!("{range}_{edge}")));
        words.push(format!("range={}-{}", begin?, end?));
    }
    for (mark, symbol) in MARKS {
        words.push(format!("{mark}={}", address(symbol)?));
    }
    Ok(words.join(","))
}

/// Starts the run, with its own files, and reads the output and the counts.
pub(super) fn run(
    images: &Path,
    symbols: &Symbols,
    run: &Run,
    folder: &Path,
) -> Result<Ran, Obstacle> {
    let settings = folder.with_extension("settings");
    let bytes: Vec<u8> = run.settings.words().iter().flat_map(|word| word.to_be_bytes()).collect();
    fs::write(&settings, bytes).map_err(|error| format!("{}: {error}", settings.display()))?;
    let mut command = emulator(images, run.scheme, &settings);
    let counts = folder.with_extension("counts");
    // Results from an earlier run must not be mistaken for this one's.
    let _ = fs::remove_file(&counts);
    if !run.settings.check {
        command.arg("-plugin").arg(plugin(images, symbols, &counts)?);
    }
    // The emulator warns when no timer is pending any more, for example when all tasks wait for the
    // end.
    let said = command.stderr(Stdio::piped()).output();
    let said = said.map_err(|error| format!("cannot start qemu-system-ppc: {error}"))?;
    let console = String::from_utf8_lossy(&said.stdout).replace('\r', "");
    let counted = match run.settings.check {
        true => Some(Counted::default()),
        false => read_counts(&counts),
    };
    read(&console, counted).map_err(|why| {
        let errors = String::from_utf8_lossy(&said.stderr);
        let what = format!("{} {:?}: {why}", run.scheme, run.settings);
        Obstacle::Failed(format!("{what} ({}): {} {}", said.status, console.trim(), errors.trim()))
    })
}

/// Required entries in the image's line, checked because a missing name would count as 0.
const NAMES: [&str; 6] = ["switches", "interrupts", "compared", "corrupt", "wrong", "stalled"];

/// Combines the image's line with the plugin's counts into a result.
fn read(console: &str, counted: Option<Counted>) -> Result<Ran, &'static str> {
    let line = console
        .lines()
        .find(|line| line.starts_with("RESULT "))
        .ok_or("the output has no RESULT line")?;
    let numbers = numbers(line);
    if numbers.get("packets").is_none_or(|packets| *packets == 0) {
        return Err("no packet was handled");
    }
    if NAMES.iter().any(|name| !numbers.contains_key(*name)) {
        return Err("the RESULT line lacks one of the required numbers");
    }
    let counted = counted.ok_or("the plugin counted nothing")?;
    Ok(Ran { line: line.to_owned(), numbers, counted })
}

/// Parses the numbers from a line of `name=number`.
fn numbers(line: &str) -> BTreeMap<String, u64> {
    let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

fn read_counts(file: &PathBuf) -> Option<Counted> {
    counts(&fs::read_to_string(file).ok()?)
}

/// Parses the output of `counter.c` for [`RANGES`] and [`MARKS`].
fn counts(text: &str) -> Option<Counted> {
    let all: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let [all, context, harness, kernel, background, closed, entry] = all?.try_into().ok()?;
    Some(Counted { all, context, harness, kernel, background, closed, entry })
}

#[cfg(test)]
mod tests {
    use super::{Counted, counts, grouped, numbers, read};

    #[test]
    fn numbers_of_a_line_are_found_by_name() {
        let found = numbers("RESULT scheme=lazy mode=3 corrupt=17 noise");
        assert_eq!(found.get("corrupt"), Some(&17));
        assert_eq!(found.get("mode"), Some(&3));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn an_image_that_says_nothing_or_does_nothing_has_failed() {
        let counted = Some(Counted::default());
        let whole =
            "RESULT packets=7 switches=1 interrupts=2 compared=3 corrupt=0 wrong=0 stalled=0";
        assert!(read(&format!("starting\n{whole}\n"), counted).is_ok());
        assert!(read("unexpected exception at 00000700, state 0\n", counted).is_err());
        assert!(read(&whole.replace("packets=7", "packets=0"), counted).is_err());
        assert!(read(whole, None).is_err());
        for name in super::NAMES {
            assert!(read(&whole.replace(name, "other"), counted).is_err(), "{name}");
        }
    }

    #[test]
    fn counts_are_seven_numbers() {
        let expected = Counted {
            all: 9,
            context: 1,
            harness: 2,
            kernel: 3,
            background: 4,
            closed: 5,
            entry: 6,
        };
        assert_eq!(counts("9 1 2 3 4 5 6\n"), Some(expected));
        assert_eq!(counts("9 1 2 3 4 5\n"), None);
        assert_eq!(counts("9 1 2 3 4 5 x\n"), None);
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
