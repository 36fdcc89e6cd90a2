// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command-line parser. Options have the same names and meaning as in `linerate`.

use crate::sampling::Request as Sampling;
use lexopt::prelude::*;
use linerate_counters::event::parse_names;
use linerate_record::Tier;
use linerate_record::memory::{Effort, PageKind};
use linerate_record::units::{parse_duration, parse_memory_size};
use linerate_stat::{Request, What};
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// `--help` output.
pub(crate) const USAGE: &str = "\
Counts events and measures the memory hierarchy on machines where linerate cannot be built.

usage: linerate-probe doctor [--json] [-o FILE]
       linerate-probe memory [OPTIONS]
       linerate-probe sampling [OPTIONS]
       linerate-probe stat [OPTIONS] CMD [ARG]...
       linerate-probe stat [OPTIONS] --pid PID | --cpu LIST

doctor  show what this machine can count, and the commands that unlock the rest
memory  measure cache levels, load latencies and TLB costs:
      --quick            take about 2 s instead of 10
      --full             take about 60 s
      --max SIZE         use at most this much memory, e.g. 64M
      --cpu N            measure on this CPU
      --pages PAGES      base or huge (default: huge if available)
      --seed N           random seed for the order of loads and sizes
sampling
        sample loops with known event shares on counter overflow; check where samples land:
  -e, --event EVENT      hardware event (default: cycles)
      --runs N           number of runs, 1 to 10000 (default: 20)
      --samples N        samples per run, 100 to 4000 (default: 500)
      --period N         events per sample, 1000 to 1000000000 (default: 50000)
      --seed N           random seed for periods and the order of loops
stat    count events of a command, a process or CPUs:
  -e, --events EVENTS    instructions,l1d_misses,r08,cpu/event=0x08/,net:netif_rx; :u for user mode
  -m, --metrics SETS     metrics with their events: pipeline,cache,tlb,branch,...
      --per EVENT|N      divide each count by this event, or by this number of units of work
      --tier TIER        hw, user, sw (default: the best that works)
  -i, --interval TIME    also report the counts of each interval, e.g. 1s
      --threads          also report the counts of each thread (in the record)
  -r, --repeat N         run the command N times
      --time TIME        stop after this time
      --slice TIME       time slice of an event set, if there are more events than counters
      --seed N           random seed for the order of time slices
      --strict           fail if an event cannot be counted
doctor, memory and stat:
      --json             print the complete record
  -o, --output FILE      write to this file instead of standard output

Exit status of stat: that of the command; 128 + n if signal n killed it; 127 if it was not found;
126 if it was not executable; 125 if stat itself failed.
Exit status of sampling: 0 if the intervals contained the known shares; 1 if too rarely; 2 if no
verdict was possible.
";

/// Command with its options.
#[derive(Debug)]
pub(crate) enum Task {
    /// Print [`USAGE`].
    Help,
    /// Print the name and version.
    Version,
    Doctor(Destination),
    Memory(linerate_memory::Request, Destination),
    Sampling(Sampling),
    Stat(Box<Request>, Destination),
}

/// Where to write the result, and in which format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Destination {
    /// Write a record rather than human-readable lines.
    pub(crate) json: bool,
    /// File to write to instead of stdout.
    pub(crate) file: Option<PathBuf>,
}

/// A command line that cannot be parsed.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Error message.
    pub(crate) reason: String,
    /// Exit status of the program.
    pub(crate) status: u8,
}

/// Parses the command line, excluding the program name.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Task, Fault> {
    let mut parser = lexopt::Parser::from_args(words);
    let fault = |reason: lexopt::Error, status| Fault { reason: reason.to_string(), status };
    let task = match parser.next().map_err(|error| fault(error, 2))? {
        Some(Value(task)) => task,
        Some(Short('h') | Long("help")) => return Ok(Task::Help),
        Some(Short('V') | Long("version")) => return Ok(Task::Version),
        Some(other) => return Err(fault(other.unexpected(), 2)),
        None => return Err(Fault { reason: "no command given".to_owned(), status: 2 }),
    };
    match task.to_str() {
        Some("doctor") => doctor(&mut parser).map_err(|error| fault(error, 2)),
        Some("memory") => memory(&mut parser).map_err(|error| fault(error, 2)),
        Some("sampling") => sampling(&mut parser).map_err(|error| fault(error, 2)),
        Some("stat") => stat(&mut parser).map_err(|error| fault(error, 125)),
        _ => Err(Fault { reason: format!("unknown command {task:?}"), status: 2 }),
    }
}

fn doctor(parser: &mut lexopt::Parser) -> Result<Task, lexopt::Error> {
    let mut destination = Destination::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Task::Help),
            Long("json") => destination.json = true,
            Short('o') | Long("output") => destination.file = Some(parser.value()?.into()),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Task::Doctor(destination))
}

fn memory(parser: &mut lexopt::Parser) -> Result<Task, lexopt::Error> {
    let mut destination = Destination::default();
    let mut request = linerate_memory::Request {
        effort: Effort::Default,
        cpu: None,
        max_bytes: None,
        pages: None,
        seed: 1,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Task::Help),
            Long("json") => destination.json = true,
            Short('o') | Long("output") => destination.file = Some(parser.value()?.into()),
            Long("quick") => request.effort = Effort::Quick,
            Long("full") => request.effort = Effort::Full,
            Long("cpu") => request.cpu = Some(parser.value()?.parse()?),
            Long("max") => {
                request.max_bytes = Some(parser.value()?.parse_with(parse_memory_size)?.0);
            }
            Long("pages") => request.pages = Some(parser.value()?.parse_with(pages)?),
            Long("seed") => request.seed = parser.value()?.parse()?,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Task::Memory(request, destination))
}

fn pages(text: &str) -> Result<PageKind, String> {
    match text {
        "base" => Ok(PageKind::Base),
        "huge" => Ok(PageKind::Huge),
        _ => Err("expected base or huge".to_owned()),
    }
}

fn sampling(parser: &mut lexopt::Parser) -> Result<Task, lexopt::Error> {
    let mut request = Sampling::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Task::Help),
            Short('e') | Long("event") => request.event = parser.value()?.string()?,
            Long("runs") => request.runs = number("runs", parser, 1..=10_000)?,
            Long("samples") => request.samples = number("samples", parser, 100..=4000)?,
            Long("period") => request.period = number("period", parser, 1000..=1_000_000_000)?,
            Long("seed") => request.seed = parser.value()?.parse()?,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Task::Sampling(request))
}

fn number(
    option: &str,
    parser: &mut lexopt::Parser,
    range: RangeInclusive<u64>,
) -> Result<u64, lexopt::Error> {
    let number = parser.value()?.parse()?;
    if range.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (range.start(), range.end());
    Err(format!("--{option} {number} is out of range: choose {least} to {most}").into())
}

fn stat(parser: &mut lexopt::Parser) -> Result<Task, lexopt::Error> {
    let mut destination = Destination::default();
    let mut request = Request::new(What::Command { argv: Vec::new() });
    while let Some(argument) = parser.next()? {
        // Copied, because the parser is still needed to read the option's value.
        let option = match argument {
            Short(letter) => letter.to_string(),
            Long(name) => name.to_owned(),
            Value(command) => {
                let argv = std::iter::once(command).chain(parser.raw_args()?).collect();
                request.what = What::Command { argv };
                continue;
            }
        };
        match option.as_str() {
            "h" | "help" => return Ok(Task::Help),
            "json" => destination.json = true,
            "o" | "output" => destination.file = Some(parser.value()?.into()),
            "p" | "pid" => request.what = What::Process(parser.value()?.parse()?),
            "cpu" => {
                request.what = What::Cpus(parser.value()?.parse_with(linerate_machine::parse_cpus)?)
            }
            option => of_counting(option, parser, &mut request)?,
        }
    }
    if matches!(&request.what, What::Command { argv } if argv.is_empty()) {
        return Err("nothing to count; name a command, --pid or --cpu".into());
    }
    Ok(Task::Stat(Box::new(request), destination))
}

/// Parses a counting option.
fn of_counting(
    option: &str,
    parser: &mut lexopt::Parser,
    request: &mut Request,
) -> Result<(), lexopt::Error> {
    match option {
        "e" | "events" => request.events.extend(parser.value()?.parse_with(parse_names)?),
        "m" | "metrics" => {
            let sets = parser.value()?.string()?;
            request.sets.extend(sets.split(',').map(str::to_owned));
        }
        "per" => request.per = Some(parser.value()?.parse()?),
        "tier" => request.tier = Some(parser.value()?.parse_with(tier)?),
        "i" | "interval" => request.interval = Some(time(parser)?),
        "threads" => request.threads = true,
        "r" | "repeat" => request.repeat = parser.value()?.parse()?,
        "time" => request.at_most = Some(time(parser)?),
        "slice" => request.slice = time(parser)?,
        "seed" => request.seed = parser.value()?.parse()?,
        "strict" => request.strict = true,
        other => return Err(format!("unknown option `{other}`").into()),
    }
    Ok(())
}

fn time(parser: &mut lexopt::Parser) -> Result<Duration, lexopt::Error> {
    match parser.value()?.parse_with(parse_duration)? {
        Duration::ZERO => Err("a time must be above 0".into()),
        time => Ok(time),
    }
}

fn tier(text: &str) -> Result<Tier, String> {
    match text {
        "hw" => Ok(Tier::Hw),
        "user" => Ok(Tier::User),
        "sw" => Ok(Tier::Sw),
        _ => Err("choose from hw, user, sw".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_stat::Per;

    fn parsed(line: &str) -> Result<Task, Fault> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn request(line: &str) -> (Request, Destination) {
        match parsed(line) {
            Ok(Task::Stat(request, destination)) => (*request, destination),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_command_keeps_its_own_options() {
        let (request, destination) =
            request("stat -e cycles,cpu/a=1,b=2/ -m tlb --json ls -e --json");
        let argv = ["ls", "-e", "--json"].map(OsString::from).to_vec();
        assert_eq!(request.what, What::Command { argv: argv.clone() });
        assert_eq!(request.events, ["cycles", "cpu/a=1,b=2/"]);
        assert_eq!(request.sets, ["tlb"]);
        assert_eq!(destination, Destination { json: true, file: None });
        let (request, _) = self::request("stat -- ls -e --json");
        assert_eq!(request.what, What::Command { argv });
    }

    #[test]
    fn options_reach_the_request() {
        let line = "stat --per 10 --tier user -i 1s --threads -r 3 --time 2s --slice 8ms --seed 7 \
                    --strict -o f --cpu 0,2-3";
        let (request, destination) = request(line);
        assert_eq!(request.what, What::Cpus(vec![0, 2, 3]));
        assert_eq!((request.per, request.tier), (Some(Per::Units(10.0)), Some(Tier::User)));
        assert_eq!(request.interval, Some(Duration::from_secs(1)));
        assert_eq!(request.at_most, Some(Duration::from_secs(2)));
        assert_eq!((request.slice, request.seed), (Duration::from_millis(8), 7));
        assert_eq!((request.repeat, request.threads, request.strict), (3, true, true));
        assert_eq!(destination.file, Some(PathBuf::from("f")));
        let (request, _) = self::request("stat --per branches --pid 7");
        assert_eq!(
            (request.what, request.per),
            (What::Process(7), Some(Per::Event("branches".into())))
        );
    }

    #[test]
    fn options_of_memory_reach_the_request() {
        let line = "memory --quick --max 64M --cpu 3 --pages base --seed 7 --json -o f";
        let Ok(Task::Memory(request, destination)) = parsed(line) else { panic!("{line}") };
        let wanted = linerate_memory::Request {
            effort: Effort::Quick,
            cpu: Some(3),
            max_bytes: Some(64 << 20),
            pages: Some(PageKind::Base),
            seed: 7,
        };
        assert_eq!((request, destination.json), (wanted, true));
        assert_eq!(destination.file, Some(PathBuf::from("f")));
        let Ok(Task::Memory(request, _)) = parsed("memory") else { panic!("memory") };
        assert_eq!((request.effort, request.max_bytes), (Effort::Default, None));
    }

    #[test]
    fn options_of_sampling_reach_the_request() {
        let line = "sampling -e instructions --runs 100 --samples 400 --period 9000 --seed 7";
        let Ok(Task::Sampling(request)) = parsed(line) else { panic!("{line}") };
        let wanted = Sampling {
            event: "instructions".to_owned(),
            runs: 100,
            samples: 400,
            period: 9000,
            seed: 7,
        };
        assert_eq!(request, wanted);
        let Ok(Task::Sampling(request)) = parsed("sampling") else { panic!("sampling") };
        assert_eq!(request, Sampling::default());
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_status_of_its_command() {
        for line in [
            "",
            "cure",
            "--cure",
            "doctor --cure",
            "doctor ls",
            "memory ls",
            "memory --max -1",
            "memory --max 1e9",
            "memory --pages giant",
            "memory --cpu x",
            "sampling ls",
            "sampling --runs 0",
            "sampling --samples 9",
            "sampling --period 999",
            "sampling --seed x",
        ] {
            assert_eq!(parsed(line).expect_err(line).status, 2, "{line}");
        }
        for line in [
            "stat",
            "stat --cure ls",
            "stat -e a,,b ls",
            "stat --per 0 ls",
            "stat --tier best ls",
            "stat --cpu 3-1",
            "stat --cpu x",
            "stat -i 0s ls",
            "stat -r x ls",
            "stat -e",
        ] {
            assert_eq!(parsed(line).expect_err(line).status, 125, "{line}");
        }
        assert!(matches!(parsed("stat --help"), Ok(Task::Help)));
        assert!(matches!(parsed("--version"), Ok(Task::Version)));
    }
}
