// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate profile`: finds the functions in which a running program spends its CPU time.

use crate::emit::{self, Answer, Destination, Output};
use crate::failure::{Failure, also};
use crate::files::{self, Files};
use crate::help_text::{examples, paragraphs};
use crate::interrupt::stop_on_interrupt;
use crate::parse::{duration, pid};
use crate::progress::Progress;
use crate::provenance;
use clap::{ArgGroup, Args};
use linerate_observe::profile::{
    CallGraph, ProfileRequest, ProfileTarget, STACK_BYTES, SampleRate,
};
use linerate_record::{Body, Record};
use linerate_report::{Options, Style};
use linerate_trial::Watch;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

const AFTER: &str = "\
Samples cycles where there is a PMU; elsewhere, and with --period, samples CPU time (cpu-clock). Any
user can sample their own processes in user mode; root also sees the kernel. All threads are
sampled, including those that start later and those of child processes. Callers are found by frame
pointers or, in programs without them, from a copy of the stack (--call-graph); shares of functions
do not depend on either.

How long to sample: a share of 50 % is accurate to ±3 points after 1,100 samples, to ±1 point after
9,600; programs with phases need more. The report says how many this program needs. Examples:

  linerate profile $(pidof dpdk-testpmd)
  linerate profile --name nginx -t 20s --record nginx.json
  linerate profile -t 10s -F 4999 -- ./bench
  linerate profile --iface eth0 $(pidof receiver)
  linerate profile --json PID | jq '.summary.functions[0]'

A command keeps its standard output; the report goes to stderr, or to the -o file. The command gets
SIGTERM when the window ends. Exit status: 0 with a profile, 2 if nothing was sampled.";

/// Samples per second and thread: not a multiple of timer rates.
const RATE: u64 = 999;
/// Default window in seconds, long enough for shares to be accurate to about ±1.5 percentage
/// points.
const WINDOW_S: f64 = 5.0;

#[derive(Debug, Args)]
#[command(
    after_help = examples(AFTER),
    after_long_help = paragraphs(AFTER),
    group(ArgGroup::new("what").required(true).args(["pids", "command", "name"]))
)]
pub(crate) struct ProfileArgs {
    /// Sample these processes and their descendants
    #[arg(value_name = "PID", value_parser = pid)]
    pids: Vec<u32>,
    /// Start this command, sample it, and end it after the window
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    /// Sample the processes with this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Sample this long, e.g. 500ms or 20s (default: 5s)
    #[arg(long, short = 't', value_name = "TIME", value_parser = duration)]
    time: Option<f64>,
    /// Samples per second of each running thread, 1 to 20000 (default: 999)
    #[arg(
        long, short = 'F', value_name = "HZ", conflicts_with = "period",
        value_parser = clap::value_parser!(u64).range(1..=20_000)
    )]
    frequency: Option<u64>,
    /// Sample once per this many nanoseconds of CPU time, 50000 or more
    #[arg(
        long, value_name = "NS",
        value_parser = clap::value_parser!(u64).range(50_000..=10_000_000_000)
    )]
    period: Option<u64>,
    /// How to find callers: fp (frame pointers), dwarf or dwarf,BYTES (.eh_frame and a stack copy),
    /// auto (whichever the program needs) (default: auto)
    ///
    /// dwarf copies BYTES of the stack with each sample (default 8192, at most 64512); x86-64 only.
    /// auto selects dwarf if the program keeps no frame pointers and is sampled at most 2500 times
    /// per second.
    #[arg(long, value_name = "MODE", value_parser = call_graph)]
    call_graph: Option<CallGraph>,
    /// Report cost per packet, counting packets on this interface in the program's namespace
    #[arg(long = "iface", value_name = "IF")]
    interface: Option<String>,
    /// Write the result to this file; - is stdout
    ///
    /// Default: stderr with a command, otherwise stdout.
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    to: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl ProfileArgs {
    /// Destination of the result. If a command is run, stdout belongs to that command.
    pub(crate) fn destination(&self) -> Destination<'_> {
        Destination::of(self.to.as_deref(), !self.command.is_empty())
    }

    fn request(&self) -> ProfileRequest {
        let rate = match (self.frequency, self.period) {
            (_, Some(period)) => SampleRate::Nanoseconds(period),
            (frequency, None) => SampleRate::PerSecond(frequency.unwrap_or(RATE)),
        };
        let target = match &self.name {
            Some(name) => ProfileTarget::Name(name.clone()),
            None if !self.command.is_empty() => ProfileTarget::Command(self.command.clone()),
            None => ProfileTarget::Pids(self.pids.clone()),
        };
        ProfileRequest {
            target,
            window: Duration::from_secs_f64(self.time.unwrap_or(WINDOW_S)),
            rate,
            call_graph: self.call_graph.unwrap_or(CallGraph::Auto),
            interface: self.interface.clone(),
            class_of: linerate_explain::classes::class_of,
        }
    }
}

/// Parses `fp`, `dwarf`, `dwarf,4096` or `auto`.
fn call_graph(text: &str) -> Result<CallGraph, String> {
    let bytes = |text: &str| {
        let bytes = text.parse().ok().filter(|bytes| (512..=64_512).contains(bytes));
        bytes.ok_or_else(|| format!("'{text}' is not a number of bytes from 512 to 64512"))
    };
    match (text, text.split_once(',')) {
        ("fp", _) => Ok(CallGraph::FramePointers),
        ("auto", _) => Ok(CallGraph::Auto),
        ("dwarf", _) => Ok(CallGraph::Dwarf(STACK_BYTES)),
        (_, Some(("dwarf", size))) => bytes(size).map(CallGraph::Dwarf),
        _ => Err("use fp, dwarf, dwarf,BYTES or auto".to_owned()),
    }
}

/// Samples a program and prints where its time goes.
pub(crate) fn profile(args: &ProfileArgs) -> Result<Answer, Failure> {
    let record_to = args.output.record.as_ref();
    Files::default()
        .writes("--record", record_to)
        .writes("--output", args.destination().file())
        .check()?;
    let stop = stop_on_interrupt()?;
    let progress = Progress::new(args.output.quiet());
    let follow = |step: &str, share: f64| {
        progress.step(step);
        progress.at(share);
    };
    let sampled = linerate_observe::profile::profile(&args.request(), &Watch::new(stop, &follow));
    progress.clear();
    let report = sampled.map_err(Failure::new)?;
    let provenance = provenance::without_ticks();
    let record = Record { provenance, body: Body::Profile(Box::new(report)) };
    let json = record.to_json_pretty().map_err(Failure::new)?;
    let text = match args.output.json() {
        true => json.clone(),
        false => emit::rendered(args.output.form(), &record, &options(args))?,
    };
    let is_json_on_stderr = args.output.json() && args.destination() == Destination::Stderr;
    if !args.output.quiet() && !is_json_on_stderr {
        emit::warn(&record);
    }
    let printed = emit::put(args.destination(), &text);
    also(printed, record_to.map_or(Ok(()), |file| files::write(file, &json)))
}

fn options(args: &ProfileArgs) -> Options {
    let style = match args.destination() {
        Destination::Stdout => emit::style(),
        Destination::Stderr => emit::style_on(&io::stderr()),
        Destination::File(_) => Style { color: false, ..emit::style() },
    };
    Options { style, ..emit::options(args.output.detail()) }
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::Parser;

    fn is_accepted(words: &[&str]) -> bool {
        Cli::try_parse_from(["linerate", "profile"].iter().chain(words)).is_ok()
    }

    #[test]
    fn one_program_is_sampled() {
        for good in [
            &["1"][..],
            &["1", "2", "-t", "2s", "-F", "99"],
            &["--name", "nginx", "--period", "1000000", "--iface", "eth0"],
            &["1", "--call-graph", "dwarf,4096"],
            &["1", "--call-graph", "fp"],
            &["-t", "1s", "--", "sh", "-c", "exit 1"],
        ] {
            assert!(is_accepted(good), "{good:?}");
        }
        for bad in [
            &[][..],
            &["0"],
            &["x"],
            &["1", "--name", "nginx"],
            &["1", "--", "ls"],
            &["1", "-t", "5x"],
            &["1", "-t", "10ms"],
            &["1", "-F", "0"],
            &["1", "-F", "1000000"],
            &["1", "-F", "99", "--period", "1000000"],
            &["1", "--period", "10"],
            &["1", "--call-graph", "lbr"],
            &["1", "--call-graph", "dwarf,1"],
        ] {
            assert!(!is_accepted(bad), "{bad:?}");
        }
    }
}
