// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `linerate stat`.

use crate::emit::{Destination, Output};
use crate::help_text::{examples, paragraphs};
use crate::parse::{CpuList, TIME_SYNONYMS, cpu_list, duration_in, time_in};
use clap::{ArgGroup, Args};
use linerate_counters::event::{self, NameMissing};
use linerate_record::Tier;
use linerate_stat::{DEFAULT_THRESHOLD, Per, Simulator};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const AFTER: &str = "\
Events: portable names from --list (instructions, l1d_misses, task_clock_ns), this processor's
names, raw codes in hexadecimal (r08), sysfs syntax (cpu/event=0x08,umask=0x01/) and tracepoints
(net:netif_rx). The suffix :u counts user mode only. An event that cannot be counted is printed as
\"-\" (null in the record) with the reason; the others are still counted.

Tiers: hw (hardware counters, kernel and user), user (hardware counters, user mode only), sw (kernel
events and clocks), sim (simulated instructions, branches, caches and TLBs, 20 to 100 times slower;
uses QEMU if present, else Valgrind, which simulates no TLBs). The default is the best of the first
three that works here; linerate doctor says why the others do not work.

Caches of --tier sim: os (sizes reported by the system), profile (sizes measured by linerate
memory), arm1176, cortex_a7, cortex_a53, cortex_a72, g4, t1, t2, zen5, or size/ways/line for each
cache: i1=32K/8/64,d1=32K/8/64,ll=8M/16/64.

QEMU (package qemu-user) simulates every level and also runs programs of other architectures:
--caches arm1176 with an ARMv6 binary. l2= and l3= may end in /inclusive, /exclusive or /victim; d1=
may end in /around or /through; every cache may end in /fifo or /random. dtlb=64/4 (entries/ways),
itlb= and tlb2= set the TLBs, and page=4K sets the page size. These items may follow a name:
--caches os,dtlb=96,tlb2=2048/16.

--hot counts by function, in all processes of the command. The report lists the functions with the
highest counts, the record contains all functions, and linerate export --format folded converts the
record to folded stacks for flame graphs. TMPDIR needs 160 bytes for each instruction that is
executed at least once, up to 640 MiB.

With more events than counters, event sets get time slices in random order. Counts are then scaled
to the total time and printed in [brackets], with their error.

  linerate stat -- ./router -n 1000000
  linerate stat -m cache,branch --per 1000000 -- ./router -n 1000000
  linerate stat -e instructions,l1d_misses --repeat 20 -- ./router -n 1000000
  linerate stat --pid 4711 --threads --time 10s
  linerate stat --cpu 2-3 --interval 1s --time 10s -e cpu_clock_ns,net:netif_rx
  linerate stat --tier sim -m cache --baseline before.json -- ./router -n 1000
  linerate stat --tier sim --hot=l1d_misses -- ./router -n 1000

--baseline judges each cost (event or time) that both records measured on the same tier, either with
an interval (--repeat 6 or more) or by simulating the same caches. The report says which costs were
judged. The environment is on a program's stack, so its size affects some counts: make both records
under env -i. Records include the environment's size, and the report says if the sizes differ.

The command keeps stdin, stdout and stderr. The result goes to stderr when the command exits, so
that stdout belongs to the command; -o FILE writes it to a file and -o - writes it to stdout. With
--pid, --cpu and --list, the result goes to stdout. JSON goes to the same place: since the command
may write to stderr too, scripts should read the JSON from -o FILE.

  linerate stat --json -o counts.json -- ./router -n 1000000

When the --time limit is reached, counting stops and the command gets SIGTERM; work after the
signal is counted only with --tier sim.

Exit status: the command's own (with --repeat, the first that is not 0), or 128 + n if signal n
killed the command; 127 not found; 126 not executable; 125 stat itself failed, no event of a process
or CPU could be counted, or no figure could be judged against --baseline; 1 the command succeeded,
but there is a regression.";

#[derive(Debug, Args)]
#[command(
    after_help = examples(AFTER),
    after_long_help = paragraphs(AFTER),
    group(ArgGroup::new("what").required(true).args(["command", "pid", "cpu", "list"]))
)]
pub(crate) struct StatArgs {
    /// The command to count and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
    /// Count this process and processes it starts later
    #[arg(long, short, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,
    /// Count everything on these CPUs, e.g. 0,2-3
    #[arg(
        long, short = 'C', value_name = "LIST", value_parser = cpu_list,
        allow_negative_numbers = true
    )]
    pub(crate) cpu: Option<CpuList>,
    /// List the events and metric sets
    ///
    /// As JSON with --json.
    #[arg(
        long,
        conflicts_with_all = [
            "record", "events", "metrics", "tier", "caches", "simulator", "hot", "per", "threads",
            "interval", "repeat", "time", "slice", "seed", "strict", "baseline", "explain",
        ]
    )]
    pub(crate) list: bool,
    /// Count these events, separated by commas
    ///
    /// Default: times, faults, instructions and branches.
    #[arg(long, short, value_name = "EVENTS", value_parser = event_list)]
    pub(crate) events: Vec<EventList>,
    /// Compute these metric sets, separated by commas
    #[arg(long, short, value_name = "SETS", value_delimiter = ',')]
    pub(crate) metrics: Vec<String>,
    /// Evidence tier: hw, user, sw or sim (default: best)
    ///
    /// Default: the best of hw, user and sw that works here.
    #[arg(long, value_parser = tier)]
    pub(crate) tier: Option<Tier>,
    /// Caches to simulate with --tier sim
    ///
    /// Default: the baseline's, otherwise as measured here, otherwise as reported by the system.
    /// Names are listed below. --machine is an alias.
    #[arg(long, value_name = "NAME", alias = "machine")]
    pub(crate) caches: Option<String>,
    /// Simulator for --tier sim: qemu or valgrind
    ///
    /// Default: the baseline's, otherwise qemu if installed, otherwise valgrind.
    #[arg(long, value_name = "NAME", value_parser = simulator, hide_short_help = true)]
    pub(crate) simulator: Option<Simulator>,
    /// Also count by function (default: instructions)
    ///
    /// With --tier sim, in QEMU: prints the functions with the highest counts of EVENT, and their
    /// source lines where the program has debug information.
    #[arg(
        long, value_name = "EVENT", num_args = 0..=1, default_missing_value = "instructions",
        require_equals = true
    )]
    pub(crate) hot: Option<String>,
    /// Also print counts per event, or per N units of work
    #[arg(long, value_name = "EVENT|N")]
    pub(crate) per: Option<Per>,
    /// Also print the counts of each thread
    #[arg(long, alias = "per-thread")]
    pub(crate) threads: bool,
    /// Also print counts per interval, e.g. 1s or 100ms
    #[arg(long, short, short_alias = 'I', value_name = "TIME", value_parser = interval)]
    pub(crate) interval: Option<Duration>,
    /// Number of runs; counts are medians
    #[arg(
        long, short, value_name = "N", default_value_t = 1, conflicts_with_all = ["pid", "cpu"],
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) repeat: u32,
    /// Stop after this time; a command gets SIGTERM
    #[arg(
        long, short = 't', value_name = "TIME", value_parser = time, aliases = TIME_SYNONYMS
    )]
    pub(crate) time: Option<Duration>,
    /// Time slice of an event set (default: 2ms)
    #[arg(long, value_name = "TIME", value_parser = slice, hide_short_help = true)]
    pub(crate) slice: Option<Duration>,
    /// Random seed for the order of slices
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
    /// Fail when an event cannot be counted
    #[arg(long)]
    pub(crate) strict: bool,
    /// Compare with this record; exit status 1 if a cost grew
    ///
    /// Exit status 125 if no cost could be judged.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Regression threshold in percent (default: 0.1)
    ///
    /// A cost regressed if the low end of its interval exceeds the high end of the baseline's
    /// interval by at least this percentage.
    #[arg(
        long, value_name = "PERCENT", requires = "baseline", value_parser = percent,
        allow_negative_numbers = true
    )]
    pub(crate) threshold: Option<Percent>,
    /// Explain each metric and its limitations
    #[arg(long)]
    pub(crate) explain: bool,
    /// Write the result to this file; - is stdout
    ///
    /// Default: stderr with a command, otherwise stdout.
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// The comma-separated events of one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventList(pub(crate) Vec<String>);

/// A share parsed from a percentage: 0.1 % is 0.001.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Percent(pub(crate) f64);

impl StatArgs {
    /// Returns the destination of the result. If a command is run, stdout belongs to that command.
    pub(crate) fn destination(&self) -> Destination<'_> {
        Destination::of(self.to.as_deref(), !self.command.is_empty())
    }

    /// Returns the result file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.destination().file()
    }

    /// Returns the regression threshold as a fraction.
    pub(crate) fn threshold(&self) -> f64 {
        self.threshold.map_or(DEFAULT_THRESHOLD, |Percent(share)| share)
    }
}

fn event_list(text: &str) -> Result<EventList, NameMissing> {
    event::parse_names(text).map(EventList)
}

fn tier(text: &str) -> Result<Tier, String> {
    match text {
        "hw" => Ok(Tier::Hw),
        "user" => Ok(Tier::User),
        "sw" => Ok(Tier::Sw),
        "sim" => Ok(Tier::Sim),
        _ => Err("expected hw, user, sw or sim".to_owned()),
    }
}

fn simulator(text: &str) -> Result<Simulator, String> {
    match text {
        "qemu" => Ok(Simulator::Qemu),
        "valgrind" => Ok(Simulator::Valgrind),
        _ => Err("expected qemu or valgrind".to_owned()),
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Parses an interval. Its unit must be given: `perf stat -I` takes milliseconds.
fn interval(text: &str) -> Result<Duration, String> {
    time_in(text, Duration::from_millis(10)..=DAY, "100ms")
}

fn time(text: &str) -> Result<Duration, String> {
    duration_in(text, Duration::from_millis(1)..=365 * DAY)
}

/// Parses the time slice of event sets. With shorter slices, most time would be spent on switching
/// event sets; with longer ones, each set would wait too long for its next slice.
fn slice(text: &str) -> Result<Duration, String> {
    time_in(text, Duration::from_micros(500)..=Duration::from_secs(1), "2ms")
}

fn percent(text: &str) -> Result<Percent, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>();
    match number {
        Ok(percent) if percent >= 0.0 && percent.is_finite() => Ok(Percent(percent / 100.0)),
        _ => Err("expected a percentage of at least 0, e.g. 0.1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use linerate_stat::DEFAULT_SLICE;
    use linerate_stat::sim::Geometry;

    fn parsed(words: &[&str]) -> Result<StatArgs, String> {
        let words = ["linerate", "stat"].iter().chain(words);
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Stat(args) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    fn args(words: &[&str]) -> StatArgs {
        parsed(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    #[test]
    fn what_follows_the_command_is_its_own() {
        let wanted: Vec<OsString> = ["ls", "-l", "--json", "-e"].map(OsString::from).to_vec();
        for words in [&["--", "ls", "-l", "--json", "-e"][..], &["ls", "-l", "--json", "-e"]] {
            let args = args(words);
            assert_eq!((&args.command, args.output.json()), (&wanted, false));
        }
        let args = args(&["-e", "cycles", "--json", "ls", "--", "-l"]);
        assert_eq!(args.command, ["ls", "--", "-l"].map(OsString::from));
        assert!(args.output.json());
        assert!(parsed(&["--jsno", "ls"]).is_err_and(|error| error.contains("--json")));
    }

    #[test]
    fn one_thing_is_counted() {
        assert_eq!(args(&["--pid", "1"]).pid, Some(1));
        assert_eq!(args(&["--cpu", "0,2-3"]).cpu, Some(CpuList(vec![0, 2, 3])));
        for bad in [
            &[][..],
            &["--pid", "1", "--", "ls"],
            &["--pid", "1", "--cpu", "0"],
            &["--pid", "0"],
            &["--pid", "1", "--repeat", "2"],
            &["--repeat", "0", "ls"],
            &["--list", "ls"],
            &["--format", "rpistat", "--json", "ls"],
            &["--threshold", "1", "ls"],
        ] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn stdout_is_for_the_command_where_there_is_one() {
        let to = |words: &[&str]| format!("{:?}", args(words).destination());
        assert_eq!(to(&["--json", "ls", "-o", "x"]), "Stderr");
        assert_eq!(to(&["-o", "-", "ls"]), "Stdout");
        assert_eq!(to(&["-o", "./-", "ls"]), "File(\"./-\")");
        for no_command in [&["--pid", "1"][..], &["--cpu", "0"], &["--list"]] {
            assert_eq!(to(no_command), "Stdout");
        }
    }

    #[test]
    fn units_of_work_are_numbers_or_events() {
        assert_eq!("1e6".parse(), Ok(Per::Units(1e6)));
        assert_eq!("134_217_728".parse(), Ok(Per::Units(134_217_728.0)));
        assert_eq!("net:netif_rx".parse(), Ok(Per::Event("net:netif_rx".to_owned())));
        for bad in ["0", "-1", "inf", "nan", ""] {
            assert!(bad.parse::<Per>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_help_tells_the_defaults_and_the_caches() {
        let help = Cli::try_parse_from(["linerate", "stat", "--help"]).unwrap_err().to_string();
        assert!(help.contains(&format!("(default: {DEFAULT_SLICE:?})")), "{help}");
        let caches = help.split("Caches of --tier sim: ").nth(1).unwrap();
        let caches: String = caches.split_inclusive("\n\n").next().unwrap().replace('\n', " ");
        for (name, _) in Geometry::names() {
            assert!(caches.contains(&format!(" {name}, ")), "{name}: {caches}");
        }
        let listed = caches.trim().rsplit(' ').next().unwrap().trim_end_matches('.');
        assert!(Geometry::parse(listed).is_ok(), "{listed}");
    }

    #[test]
    fn options_of_perf_stat_are_known() {
        let args = args(&["-C", "0-1", "-I", "100ms", "-t", "2", "--per-thread"]);
        assert_eq!(args.cpu, Some(CpuList(vec![0, 1])));
        assert_eq!(args.interval, Some(Duration::from_millis(100)));
        assert_eq!((args.time, args.threads), (Some(Duration::from_secs(2)), true));
        // Milliseconds in perf, so a plain number could mean either.
        let why = parsed(&["-C", "0", "-I", "200"]).unwrap_err();
        assert!(why.contains("'200' has no unit; write, e.g., '100ms'"), "{why}");
    }

    #[test]
    fn times_and_shares_have_limits() {
        assert_eq!(interval("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(slice("4ms"), Ok(Duration::from_millis(4)));
        assert!(interval("9ms").is_err() && interval("2").is_err() && slice("2s").is_err());
        assert_eq!(time("0.25 s"), Ok(Duration::from_millis(250)));
        assert!(time("0s").is_err());
        for text in ["0.1", "0.1%", " 0.1 % "] {
            assert_eq!(percent(text), Ok(Percent(0.001)), "{text}");
        }
        for bad in ["", "%", "-1", "inf", "nan", "0,1"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
