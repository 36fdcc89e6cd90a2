// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate profile`: finds the functions in which a running program spends its CPU time.

use crate::appearance::{Form, PROFILE};
use crate::emit::{self, Answer, Destination, Output};
use crate::failure::{Failure, also};
use crate::files::Files;
use crate::help_text::{examples, paragraphs};
use crate::interrupt::stop_on_interrupt;
use crate::machine;
use crate::parse::{TIME_SYNONYMS, duration, pid};
use crate::progress::Progress;
use crate::provenance;
use clap::{ArgGroup, Args};
use linerate_doctor::host_facts::HostFacts;
use linerate_explain::bound;
use linerate_observe::profile::{
    Annotated, CallGraph, ProfileRequest, ProfileTarget, STACK_BYTES, SampleRate,
};
use linerate_record::profile::{ProfileReport, SimulatedRun};
use linerate_record::stats::sampled_share;
use linerate_record::{Body, Record};
use linerate_report::Options;
use linerate_stat::sim::{Geometry, Sim};
use linerate_trial::Watch;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const AFTER: &str = "\
Samples cycles if there is a PMU; otherwise, and with --period, samples CPU time (cpu-clock). Any
user can sample their own processes in user mode; root also sees the kernel. All threads are
sampled, including those that start later and those of child processes. Call chains are unwound by
frame pointers or, in programs without them, from a copy of the stack (--call-graph); function
shares depend on neither.

Accuracy: a share of 50 % is accurate to ±3 percentage points after 1,100 samples, and to ±1 point
after 9,600 samples. Programs with phases need more; the report says how many this program needs.
Examples:

  linerate profile $(pidof dpdk-testpmd)
  linerate profile --name nginx -t 20s --record nginx.json
  linerate profile -t 10s -F 4999 -- ./bench
  linerate profile --iface eth0 $(pidof receiver)
  linerate profile --sim $(pidof router) -- ./router --replay test.pcap
  linerate profile --annotate=main -- ./bench
  linerate profile --timeline --iface eth0 PID
  linerate profile --json PID | jq '.summary.functions[0]'

The command keeps its standard output; the report goes to stderr, or to the -o file. The command
gets SIGTERM when the window ends. Exit status: 0 with a profile, 2 if nothing was sampled.";

/// Default sampling rate per thread, in samples per second. Not a multiple of common timer rates,
/// so that samples are never in lockstep with a timer.
const RATE: u64 = 999;
/// Default window in seconds. With the default sampling rate, shares are accurate to about ±1.5
/// percentage points.
const WINDOW_S: f64 = 5.0;

#[derive(Debug, Args)]
#[command(
    after_help = examples(AFTER),
    after_long_help = paragraphs(AFTER),
    group(ArgGroup::new("what").required(true).multiple(true).args(["pids", "command", "name"]))
)]
pub(crate) struct ProfileArgs {
    /// Sample these processes and their descendants
    #[arg(value_name = "PID", value_parser = pid, conflicts_with = "name")]
    pids: Vec<u32>,
    /// Start this command, sample it, and terminate it after the window
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    /// Sample the processes with this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Sample for this long, e.g. 500ms (default: 5s)
    #[arg(
        long, short = 't', value_name = "TIME", value_parser = duration, aliases = TIME_SYNONYMS
    )]
    time: Option<f64>,
    /// Samples per second of each running thread, 1 to 20000 (default: up to 999)
    ///
    /// The default is lower if samples would take more than 2 % of the thread's time.
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
    /// Stack unwinding: fp (frame pointers), dwarf[,BYTES] (.eh_frame) or auto (default)
    ///
    /// fp follows frame pointers. dwarf unwinds by .eh_frame, and copies BYTES of the stack with
    /// each sample (default 8192, at most 64512); x86-64 only. auto selects dwarf if the program
    /// keeps no frame pointers and is sampled at most 2500 times per second. Without -F and
    /// --period, it first samples a running program for 0.1 s. If 8192 bytes are too few, it copies
    /// more bytes; if it then copies more than 16384, it samples less often.
    #[arg(long, value_name = "MODE", value_parser = call_graph)]
    call_graph: Option<CallGraph>,
    /// Report cost per packet, counting packets on this interface in the program's namespace
    #[arg(long = "iface", value_name = "IF")]
    interface: Option<String>,
    /// Also run CMD under Valgrind, to distinguish computation, branch mispredictions and front-end
    /// stalls
    ///
    /// CMD runs again after sampling. With a PID, CMD runs only under Valgrind and should be the
    /// same program with a test load. Valgrind is 50 to 100 times slower and is stopped after four
    /// times --time plus 10 s.
    #[arg(long = "sim", requires = "command")]
    simulate: bool,
    /// Record and print the instructions of a function (default: the hottest)
    ///
    /// Lists each instruction with its samples, its share of the function (with an interval) and
    /// its source line. Selects the hottest function named FUNCTION or, if there is none, the
    /// hottest whose name contains FUNCTION; x86-64 only.
    #[arg(
        long, value_name = "FUNCTION", num_args = 0..=1, default_missing_value = "",
        require_equals = true
    )]
    annotate: Option<String>,
    /// Record and print a timeline of run time and packet loss, with millisecond resolution
    #[arg(long, conflicts_with = "annotate")]
    timeline: bool,
    /// Write the result to this file; - is stdout
    ///
    /// Default: stderr with a command, otherwise stdout.
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    to: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl ProfileArgs {
    /// Returns the destination of the result. If a command is run, stdout belongs to that command.
    pub(crate) fn destination(&self) -> Destination<'_> {
        Destination::of(self.to.as_deref(), !self.command.is_empty())
    }

    /// Returns the output format. With --annotate or --timeline, text output is replaced by the
    /// annotated or timeline view.
    fn form(&self) -> Form {
        match (self.output.form_of(PROFILE), &self.annotate, self.timeline) {
            (Form::Text, Some(_), _) => Form::Annotated,
            (Form::Text, None, true) => Form::Timeline,
            (form, ..) => form,
        }
    }

    /// Returns the expected precision for the progress line, such as `, shares to about ±1.4
    /// points`: half the width of the interval of a 50 % share of a thread that always runs.
    fn expected(&self) -> String {
        let rate = match (self.frequency, self.period) {
            (_, Some(period)) => 1e9 / period as f64,
            (frequency, None) => frequency.unwrap_or(RATE) as f64,
        };
        let samples = rate * self.time.unwrap_or(WINDOW_S);
        let samples = samples.max(1.0) as u64;
        let share = sampled_share(samples / 2, samples);
        let points = 50.0 * (share.high - share.low);
        format!(", shares to about ±{points:.1} points")
    }

    fn request(&self) -> ProfileRequest {
        let rate = match (self.frequency, self.period) {
            (_, Some(period)) => SampleRate::Nanoseconds(period),
            (Some(frequency), None) => SampleRate::PerSecond(frequency),
            (None, None) => SampleRate::AtMost(RATE),
        };
        let target = match &self.name {
            Some(name) => ProfileTarget::Name(name.clone()),
            None if !self.pids.is_empty() => ProfileTarget::Pids(self.pids.clone()),
            None => ProfileTarget::Command(self.command.clone()),
        };
        ProfileRequest {
            target,
            window: Duration::from_secs_f64(self.time.unwrap_or(WINDOW_S)),
            rate,
            call_graph: self.call_graph.unwrap_or(CallGraph::Auto),
            interface: self.interface.clone(),
            class_of: linerate_explain::classes::class_of,
            annotated: match self.annotate.as_deref() {
                None => Annotated::None,
                Some("") => Annotated::Hottest,
                Some(name) => Annotated::Named(name.to_owned()),
            },
            has_timeline: self.timeline,
        }
    }
}

/// Parses `fp`, `dwarf`, `dwarf,4096` or `auto`.
fn call_graph(text: &str) -> Result<CallGraph, String> {
    let bytes = |text: &str| {
        let bytes = text.parse().ok().filter(|bytes| (512..=64_512).contains(bytes));
        bytes.ok_or_else(|| format!("expected 512 to 64512 bytes, not '{text}'"))
    };
    match (text, text.split_once(',')) {
        ("fp", _) => Ok(CallGraph::FramePointers),
        ("auto", _) => Ok(CallGraph::Auto),
        ("dwarf", _) => Ok(CallGraph::Dwarf(STACK_BYTES)),
        (_, Some(("dwarf", size))) => bytes(size).map(CallGraph::Dwarf),
        _ => Err("expected fp, dwarf, dwarf,BYTES or auto".to_owned()),
    }
}

/// Samples a program and prints the functions in which it spends its time.
pub(crate) fn profile(args: &ProfileArgs) -> Result<Answer, Failure> {
    let record_to = args.output.record.as_ref();
    Files::default()
        .writes("--record", record_to)
        .writes("--output", args.destination().file())
        .check()?;
    let is_running = args.name.is_some() || !args.pids.is_empty();
    if is_running && !args.command.is_empty() && !args.simulate {
        return Err(Failure::new("sample either a running program or a command, not both"));
    }
    // Without a simulator, say so before the program is sampled.
    let simulator = if args.simulate { Some(simulator()?) } else { None };
    emit::note_streams(&args.output, args.destination(), !args.command.is_empty());
    let stop = stop_on_interrupt()?;
    let progress = Progress::new(args.output.quiet());
    let follow = |step: &str, share: f64| {
        let expected = if step == "sampling" { args.expected() } else { String::new() };
        progress.step(&format!("{step}{expected}"));
        progress.at(share);
    };
    let sampled = linerate_observe::profile::profile(&args.request(), &Watch::new(stop, &follow));
    progress.clear();
    let mut report = sampled.map_err(Failure::new)?;
    (report.limits.read_bytes_per_s, report.limits.read_threads) = read_bandwidth(&report).unzip();
    let mut simulation = Ok(());
    if let Some((sim, caches)) = simulator {
        progress.step("simulating");
        // Ctrl-C that ended the sampling does not end the simulation as well.
        let stop = (!stop.load(Ordering::Relaxed)).then_some(stop);
        match simulated(args, &sim, &caches, stop) {
            Ok(run) => report.simulated = Some(run),
            Err(failure) => simulation = Err(failure),
        }
        progress.clear();
    }
    report.bounds = bound::explain(&report);
    let provenance = provenance::without_ticks();
    let record = Record { provenance, body: Body::Profile(Box::new(report)) };
    let options = options(args);
    let (form, to) = (args.form(), args.destination());
    also(emit::show(&args.output, form, to, &record, &options, |text| text), simulation)
}

/// Returns the read bandwidth that bounds the program, and its number of threads; `None` if this
/// machine's profile is missing or has none.
fn read_bandwidth(report: &ProfileReport) -> Option<(f64, u32)> {
    let known = machine::memory(&linerate_linux::allowed_cpus().ok()?).ok()?;
    bound::read_bandwidth(&known.report.bandwidth, report)
}

/// Returns the simulator and the caches to simulate, which are those of this machine.
fn simulator() -> Result<(Sim, Geometry), Failure> {
    let sim = Sim::find(&HostFacts::gather()).map_err(|why| {
        let fix = why.fix.map_or_else(String::new, |fix| format!("; {fix}"));
        Failure::new(format!("--sim: {}{fix}", why.sentence))
    })?;
    Ok((sim, Geometry::this_machine().map_err(Failure::new)?))
}

/// Simulates the command until it ends, its time is over or `stop` is set.
fn simulated(
    args: &ProfileArgs,
    sim: &Sim,
    caches: &Geometry,
    stop: Option<&AtomicBool>,
) -> Result<SimulatedRun, Failure> {
    let limit = 4.0 * args.time.unwrap_or(WINDOW_S) + 10.0;
    let limit = Duration::from_secs_f64(limit);
    sim.functions(&args.command, caches, limit, stop).map_err(Failure::new)
}

fn options(args: &ProfileArgs) -> Options {
    Options { style: args.destination().style(), ..emit::options(args.output.detail()) }
}

#[cfg(test)]
mod tests {
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn the_precision_to_expect_is_that_of_the_samples_to_come() {
        let expected = |words: &[&str]| {
            let words = ["linerate", "profile"].iter().chain(words).chain(&["1"]);
            let Command::Profile(args) = Cli::try_parse_from(words).unwrap().command else {
                panic!("a profile");
            };
            args.expected()
        };
        assert_eq!(expected(&[]), ", shares to about ±1.4 points");
        assert_eq!(expected(&["-F", "1920", "-t", "5s"]), ", shares to about ±1.0 points");
        assert_eq!(
            expected(&["--period", "1000000", "-t", "100ms"]),
            ", shares to about ±9.6 points"
        );
    }

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
            &["--annotate", "1"],
            &["--annotate=main", "1", "--format", "text"],
            &["1", "--timeline", "--format", "icicle"],
            &["-t", "1s", "--", "sh", "-c", "exit 1"],
            &["--sim", "--", "ls"],
            &["1", "--sim", "--", "ls"],
        ] {
            assert!(is_accepted(good), "{good:?}");
        }
        for bad in [
            &[][..],
            &["0"],
            &["x"],
            &["1", "--name", "nginx"],
            &["1", "-t", "5x"],
            &["1", "-t", "10ms"],
            &["1", "-F", "0"],
            &["1", "-F", "1000000"],
            &["1", "-F", "99", "--period", "1000000"],
            &["1", "--period", "10"],
            &["1", "--sim"],
            &["1", "--call-graph", "lbr"],
            &["1", "--timeline", "--annotate"],
            &["1", "--call-graph", "dwarf,1"],
        ] {
            assert!(!is_accepted(bad), "{bad:?}");
        }
    }
}
