// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate budget`: the per-packet budget at line rate.

use crate::emit::{self, Answer, Output};
use crate::failure::{Failure, also};
use crate::files::Files;
use crate::help_text::{examples, paragraphs};
use crate::plots::{Drawn, Plots, replaced};
use crate::{input, machine, provenance};
use clap::Args;
use linerate_cmt::processor::{Bandwidth, CLOCK_GHZ, COUNT_MAX, FRAME_MAX, FRAME_MIN, Processor};
use linerate_explain::budget::{
    BudgetInputs, bits_on_wire, budget as budget_of, frame_bytes, line_of, shortfall,
};
use linerate_machine::core_clock::core_cycles_per_tick;
use linerate_machine::topology::{Cpu, Topology};
use linerate_path::model::Rate;
use linerate_plan::sketch::{Known, sketch};
use linerate_record::budget::{BudgetReport, Shortfall};
use linerate_record::run::RunReport;
use linerate_record::units::three_digits;
use linerate_record::{Body, Provenance, Record};

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

/// Default frame sizes: the sizes in RFC 2544, and 342 bytes, the frame size of the application in
/// the Netra document.
const FRAMES: [u32; 8] = [64, 128, 256, 342, 512, 1024, 1280, 1518];

const AFTER: &str = "\
Frame sizes include the FCS; each frame takes 20 more bytes on the wire. IMIX is 64, 594 and 1518
bytes at 7:4:1; 342 bytes is the frame of the RLP application of Netra DPS (examples/rlp). Machines:
t1, t2, this (the local machine, of which only the clock frequency is measured), or a TOML file like
those in crates/cmt/data/processors.
Examples:

  linerate budget --line 25Gb/s
  linerate budget --line 10Mpps
  linerate budget --machine t1 --line 1Gb/s --instructions 575
  linerate budget --from run.json";

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct BudgetArgs {
    /// Line rate, or a packet rate: 25Gb/s, 10Mpps (default: the record's, or 10Gb/s)
    ///
    /// A packet rate applies to one frame size: --frame BYTES (default: 64).
    #[arg(long, value_name = "RATE", value_parser = target)]
    line: Option<Target>,
    /// Frame sizes in bytes, FCS included (default: RFC 2544's, and RLP's 342)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = frame)]
    frame: Vec<u32>,
    /// The processor: t1, t2, this, or a TOML file
    #[arg(long, value_name = "NAME", default_value = "this")]
    machine: String,
    /// Core clock in GHz (default: the machine's)
    #[arg(long, value_name = "GHZ", value_parser = clock)]
    clock: Option<f64>,
    /// Cores (default: the machine's)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(COUNT))]
    cores: Option<u32>,
    /// Issue pipes per core (default: the machine's)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(COUNT))]
    pipes: Option<u32>,
    /// Strands per pipe (default: the machine's)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(COUNT))]
    strands: Option<u32>,
    /// Instructions per cycle per pipe (default: the machine's)
    ///
    /// There is no default with `--machine this`.
    #[arg(long, value_name = "IPC", value_parser = positive)]
    ipc: Option<f64>,
    /// Instructions per packet; prints the number of strands needed
    #[arg(long, value_name = "N", value_parser = instructions, allow_negative_numbers = true)]
    instructions: Option<f64>,
    /// Print the smallest frame size that reaches line rate, according to this record
    ///
    /// Accepts records of run, tune, regions, import and why.
    #[arg(long, value_name = "RECORD")]
    from: Option<PathBuf>,
    #[command(flatten)]
    plots: Plots,
    #[arg(long = "ceilings", hide = true, value_name = "FILE", value_parser = replaced)]
    _ceilings: Option<Infallible>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Valid line rates in bits per second: from a slow modem to a thousand times the speed of current
/// ports.
const LINE_BITS_PER_S: std::ops::RangeInclusive<f64> = 1e3..=1e15;

/// Line rate in bits per second if neither the user nor a record specifies one.
const LINE_DEFAULT_BITS_PER_S: f64 = 1e10;

/// Valid range for cores, pipes per core, and strands per pipe.
const COUNT: std::ops::RangeInclusive<i64> = 1..=COUNT_MAX as i64;

/// Maximum instructions per packet; executing 1e9 takes about a second.
const INSTRUCTIONS_MAX: f64 = 1e9;

/// The rate that a budget is for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    BitsPerSecond(f64),
    PacketsPerSecond(f64),
}

impl Target {
    /// Returns the line rate in bits per second at which frames of the only size in `frames`
    /// arrive at this rate.
    fn bits_per_s(self, frames: &[u32]) -> Result<f64, Failure> {
        match (self, frames) {
            (Self::BitsPerSecond(rate), _) => Ok(rate),
            (Self::PacketsPerSecond(rate), [frame]) => {
                let bits = rate * bits_on_wire(f64::from(*frame));
                Some(bits).filter(|bits| LINE_BITS_PER_S.contains(bits)).ok_or_else(|| {
                    Failure::new("--line: expected a packet rate on a line of 1kb/s to 1000Tb/s")
                })
            }
            (Self::PacketsPerSecond(_), _) => {
                Err(Failure::new("--line with a packet rate takes one frame size: --frame BYTES"))
            }
        }
    }
}

/// Parses a line rate in bits per second or a packet rate.
fn target(text: &str) -> Result<Target, String> {
    match linerate_path::parse::rate(text) {
        Ok(Rate::PacketsPerSecond(rate)) => Ok(Target::PacketsPerSecond(rate)),
        _ => line(text).map(Target::BitsPerSecond),
    }
}

/// Parses a line rate in bits per second.
pub(crate) fn line(text: &str) -> Result<f64, String> {
    const LIKE: &str = "like '10Gb/s'";
    let rate = linerate_path::parse::bit_rate(text).map_err(|why| match why.contains(LIKE) {
        true => why,
        false => format!("{why}; give the line rate in bits per second, {LIKE}"),
    })?;
    match LINE_BITS_PER_S.contains(&rate) {
        true => Ok(rate),
        false => Err(format!("expected a bit rate from 1kb/s to 1000Tb/s, {LIKE}")),
    }
}

fn instructions(text: &str) -> Result<f64, String> {
    let number = positive(text)?;
    match number <= INSTRUCTIONS_MAX {
        true => Ok(number),
        false => Err(format!("expected at most {INSTRUCTIONS_MAX} instructions")),
    }
}

pub(crate) fn frame(text: &str) -> Result<u32, String> {
    let frame = text.parse().ok().filter(|frame| (FRAME_MIN..=FRAME_MAX).contains(frame));
    frame.ok_or_else(|| {
        format!("expected a frame of {FRAME_MIN} to {FRAME_MAX} bytes, FCS included")
    })
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0);
    number.ok_or_else(|| "expected a number greater than 0".to_owned())
}

/// Parses a clock frequency in GHz.
pub(crate) fn clock(text: &str) -> Result<f64, String> {
    let ghz = text.parse().ok().filter(|ghz| CLOCK_GHZ.contains(ghz));
    ghz.ok_or_else(|| {
        format!("expected a clock of {} to {} GHz", CLOCK_GHZ.start(), CLOCK_GHZ.end())
    })
}

/// Returns the requested frame sizes, or the default ones, in the given order and without
/// duplicates.
fn sizes(asked: &[u32]) -> Vec<u32> {
    let mut seen = BTreeSet::new();
    let asked = if asked.is_empty() { &FRAMES[..] } else { asked };
    asked.iter().copied().filter(|size| seen.insert(*size)).collect()
}

/// Prints the per-packet budget.
pub(crate) fn budget(args: &BudgetArgs) -> Result<Answer, Failure> {
    if let (Some(Target::PacketsPerSecond(_)), Some(_)) = (args.line, &args.from) {
        return Err(Failure::new(
            "with --from, --line must be a bit rate: the frame sizes are the record's",
        ));
    }
    let files = Files::default().may_read("the --from record", args.from.as_ref());
    files
        .may_read("the --machine file", machine::file(&args.machine))
        .writes("--record", args.output.record.as_ref())
        .check()?;
    args.plots.make_folder()?;
    let provenance = provenance::provenance();
    let processor = processor(args, &provenance)?;
    let run = args.from.as_ref().map(|file| Run::read(file, &args.frame)).transpose()?;
    let frames = match (args.line, args.frame.as_slice()) {
        (Some(Target::PacketsPerSecond(_)), []) => vec![FRAMES[0]],
        (_, asked) => sizes(asked),
    };
    let of_program = run.as_ref().and_then(|run| run.instructions);
    let of_record = run.as_ref().and_then(|run| run.line_bits_per_s);
    let asked = args.line.map(|target| target.bits_per_s(&frames)).transpose()?;
    let line_bits_per_s = asked.or(of_record).unwrap_or(LINE_DEFAULT_BITS_PER_S);
    let inputs = BudgetInputs {
        processor: &processor,
        line_bits_per_s,
        frames: &frames,
        instructions: args.instructions.or(of_program),
    };
    let mut report = budget_of(&inputs);
    report.shortfall = run.as_ref().map(|run| run.against(line_bits_per_s));
    report.measured_on = run.and_then(|run| run.processor);
    report.is_this_machine = args.machine == "this" && report.pipes_per_core == 1;
    let drawing = args.plots.draw(|| drawn(&report));
    let record = Record { provenance, body: Body::Budget(Box::new(report)) };
    also(emit::emit(&args.output, &record), drawing.write(args.output.quiet()))
}

/// Plots the budget and the roofline against frame size.
fn drawn(report: &BudgetReport) -> Vec<Drawn> {
    let roofline = "cannot plot the roofline: this needs at least two frame sizes, and either a \
                    machine with [bandwidth] or --instructions";
    vec![
        linerate_report::svg::budget(report)
            .ok_or("nothing to plot: a plot needs at least two frame sizes"),
        linerate_report::svg::roofline(report).ok_or(roofline),
    ]
}

fn processor(args: &BudgetArgs, provenance: &Provenance) -> Result<Processor, Failure> {
    let mut processor = match args.machine.as_str() {
        "this" => this(args, provenance)?,
        name => machine::named(name)?,
    };
    if let Some(clock) = args.clock {
        processor.clock_ghz = clock;
        if args.machine != "this" {
            processor.source = format!("{}; clock from --clock", processor.source);
        }
    }
    processor.cores = args.cores.unwrap_or(processor.cores);
    processor.pipes_per_core = args.pipes.unwrap_or(processor.pipes_per_core);
    processor.strands_per_pipe = args.strands.unwrap_or(processor.strands_per_pipe);
    processor.instructions_per_cycle = args.ipc.or(processor.instructions_per_cycle);
    Ok(processor)
}

/// Describes this machine: the cores available to this process, and their clock under load.
fn this(args: &BudgetArgs, provenance: &Provenance) -> Result<Processor, Failure> {
    let allowed = linerate_linux::allowed_cpus().map_err(Failure::new)?;
    let topology = Topology::read(&allowed);
    // Count only the first thread of each core. A thread whose siblings are unknown counts as a
    // core.
    let is_first = |cpu: &&Cpu| match &cpu.siblings {
        Ok(siblings) => {
            siblings.iter().find(|cpu| allowed.contains(cpu)).is_none_or(|&n| n == cpu.number)
        }
        Err(_) => true,
    };
    let count = topology.cpus.iter().filter(is_first).count().max(1);
    let (clock_ghz, clock) = match args.clock {
        Some(clock) => (clock, "clock from --clock".to_owned()),
        None => measured_clock(provenance)?,
    };
    Ok(Processor {
        name: provenance.cpu.clone().unwrap_or_else(|| "this machine".to_owned()),
        source: format!("{clock}; cores: those available to this process"),
        clock_ghz,
        cores: count as u32,
        pipes_per_core: 1,
        strands_per_pipe: allowed.len().div_ceil(count) as u32,
        instructions_per_cycle: None,
        compute_bound_cpi_max: None,
        latency: None,
        bandwidth: Bandwidth::default(),
        units: Vec::new(),
        events: Vec::new(),
        forwarded: Vec::new(),
    })
}

/// Measures the core clock. Returns it in GHz, with a string that states its interval and evidence
/// tier.
fn measured_clock(provenance: &Provenance) -> Result<(f64, String), Failure> {
    let unknown =
        |why: String| Failure::new(format!("the core clock is unknown ({why}): give --clock GHZ"));
    let ratio = core_cycles_per_tick().map_err(|error| unknown(error.to_string()))?;
    let rate = provenance.ticks_per_s.ok_or_else(|| unknown("tick rate unknown".to_owned()))?;
    let [ghz, low, high] = [ratio.value, ratio.low, ratio.high].map(|ratio| ratio * rate / 1e9);
    let confidence = three_digits(100.0 * ratio.confidence);
    let source = format!(
        "measured clock: {} to {} GHz ({confidence} % confidence interval, evidence tier sw)",
        three_digits(low),
        three_digits(high)
    );
    Ok((ghz, source))
}

/// The packet rate in a record, with the frame size, line rate and processor that belong to it.
struct Run {
    packets_per_s: f64,
    /// Mean frame size in bytes, FCS included.
    frame_bytes: f64,
    /// Line rate of the path, if recorded.
    line_bits_per_s: Option<f64>,
    /// Processor on which the rate was measured.
    processor: Option<String>,
    /// Instructions per packet; known only for records of other programs.
    instructions: Option<f64>,
}

impl Run {
    fn read(file: &Path, frames: &[u32]) -> Result<Self, Failure> {
        let fail = |why: String| Failure::new(format!("--from {}: {why}", file.display()));
        let text = input::text(file, input::RECORD).map_err(&fail)?;
        let record = Record::from_json(&text).map_err(|error| fail(error.to_string()))?;
        if !matches!(record.body, Body::Run(_) | Body::Tune(_)) {
            return Self::of_program(file, &record, frames);
        }
        let provenance = record.provenance;
        let run = run_of(record.body)
            .ok_or_else(|| fail("the record does not contain a run".to_owned()))?;
        let kpps = run.sustained_kpps(&provenance).as_number().filter(|kpps| *kpps > 0.0);
        let kpps = kpps.ok_or_else(|| fail("the record has no throughput".to_owned()))?;
        let bytes =
            frame_bytes(&run).ok_or_else(|| fail("no packets were processed".to_owned()))?;
        Ok(Self {
            packets_per_s: kpps * 1e3,
            frame_bytes: bytes,
            line_bits_per_s: line_of(&run),
            processor: provenance.cpu,
            instructions: None,
        })
    }

    /// Reads the packet rate from another program's record: the capacity of its busiest workers.
    fn of_program(file: &Path, record: &Record, frames: &[u32]) -> Result<Self, Failure> {
        let name = file.display().to_string();
        let fail = |why: String| Failure::new(format!("--from {name}: {why}"));
        let drawn = sketch(record, &name, Known::default()).map_err(|why| fail(why.to_string()))?;
        let frame_bytes = match (drawn.frame_bytes, frames) {
            (Some(bytes), _) => bytes,
            (None, [frame]) => f64::from(*frame),
            (None, _) => {
                let why = "the record has no packet size: pass the measured frame size, FCS \
                           included, with --frame BYTES";
                return Err(fail(why.to_owned()));
            }
        };
        Ok(Self {
            packets_per_s: drawn.capacity_per_s(),
            frame_bytes,
            line_bits_per_s: None,
            processor: record.provenance.cpu.clone(),
            instructions: drawn.instructions_per_packet(),
        })
    }

    /// Compares the recorded packet rate with line rate.
    fn against(&self, line_bits_per_s: f64) -> Shortfall {
        shortfall(self.packets_per_s, self.frame_bytes, line_bits_per_s)
    }
}

fn run_of(body: Body) -> Option<RunReport> {
    match body {
        Body::Run(run) => Some(*run),
        Body::Tune(tune) => Some(tune.tuned),
        _ => None,
    }
}
