// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate budget`: what a packet may cost at line rate.

use crate::emit::{self, Answer};
use crate::failure::Failure;
use crate::figures;
use clap::Args;
use linerate_machine::core_clock::core_cycles_per_tick;
use linerate_machine::topology::{Cpu, Topology};
use linerate_path::model::Rate;
use linerate_plan::budget::{FRAME_MAX, FRAME_MIN, Question, budget as budget_of, shortfall};
use linerate_plan::processor::{Bandwidth, Processor};
use linerate_record::budget::{BudgetReport, Shortfall};
use linerate_record::run::{RunReport, Tally};
use linerate_record::{Body, Provenance, Record};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Sizes of RFC 2544, and that of the Netra document's application.
const FRAMES: [u32; 8] = [64, 128, 256, 342, 512, 1024, 1280, 1518];

const FCS_OCTETS: f64 = 4.0;

const AFTER: &str = "\
Frames count with their FCS; the line carries 20 octets more of each. Machines: t1, t2, this, or a
TOML file like those in crates/plan/data/processors. Nothing is measured but the clock of `this`.
Examples:

  linerate budget --line 25Gb/s
  linerate budget --machine t1 --line 1Gb/s --instructions 575
  linerate budget --line 10Gb/s --from run.json";

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct BudgetArgs {
    /// The line, e.g. 10Gb/s
    #[arg(long, value_name = "RATE", value_parser = line, default_value = "10Gb/s")]
    line: f64,
    /// Sizes of frames in octets, FCS included (default: those of RFC 2544, and 342)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = frame)]
    frame: Vec<u32>,
    /// The processor: t1, t2, this, or a TOML file
    #[arg(long, value_name = "NAME", default_value = "this")]
    machine: String,
    /// Clock of a core in GHz (default: the machine's)
    #[arg(long, value_name = "GHZ", value_parser = positive)]
    clock: Option<f64>,
    /// Cores (default: the machine's)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cores: Option<u32>,
    /// Pipes of a core that issue instructions on their own (default: the machine's)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pipes: Option<u32>,
    /// Strands that share a pipe (default: the machine's)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    strands: Option<u32>,
    /// Instructions that a pipe issues in a cycle (default: the machine's; unknown for this)
    #[arg(long, value_name = "IPC", value_parser = positive)]
    ipc: Option<f64>,
    /// Instructions that a packet takes: how many strands keep up with the line?
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    instructions: Option<f64>,
    /// The record of a run or tune: from which size on does it hold line rate?
    #[arg(long, value_name = "RECORD")]
    from: Option<PathBuf>,
    /// Write a plot over the sizes to this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the record as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the record to this file as well
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// No warnings
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

fn line(text: &str) -> Result<f64, String> {
    match linerate_path::parse::rate(text)? {
        Rate::BitsPerSecond(bits) => Ok(bits),
        _ => Err("a line is bits per second, like 10Gb/s".to_owned()),
    }
}

fn frame(text: &str) -> Result<u32, String> {
    let frame = text.parse().ok().filter(|frame| (FRAME_MIN..=FRAME_MAX).contains(frame));
    frame.ok_or_else(|| format!("a frame has {FRAME_MIN} to {FRAME_MAX} octets, FCS included"))
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0);
    number.ok_or_else(|| "a number more than 0".to_owned())
}

/// Prints what a packet may cost.
pub(crate) fn budget(args: &BudgetArgs) -> Result<Answer, Failure> {
    emit::check_writable(args.record.iter().chain(&args.svg))?;
    let provenance = figures::provenance();
    let processor = processor(args, &provenance)?;
    let measured = args.from.as_ref().map(|file| measured(file, args.line)).transpose()?;
    let frames = if args.frame.is_empty() { &FRAMES[..] } else { &args.frame };
    let question = Question {
        processor: &processor,
        line_bits_per_s: args.line,
        frames,
        instructions: args.instructions,
    };
    let mut report = budget_of(&question);
    report.shortfall = measured;
    if let Some(file) = &args.svg {
        draw(&report, file, args.quiet)?;
    }
    let text = linerate_report::budget(&report, &emit::style(emit::WHOLE));
    let body = Body::Budget(Box::new(report));
    emit::emit(
        args,
        &Record { provenance, figures: BTreeMap::new(), warnings: Vec::new(), body },
        &text,
    )
}

fn processor(args: &BudgetArgs, provenance: &Provenance) -> Result<Processor, Failure> {
    let mut processor = match args.machine.as_str() {
        "this" => this(args, provenance)?,
        name => match Processor::named(name) {
            Some(processor) => processor,
            None => from_file(name)?,
        },
    };
    processor.clock_ghz = args.clock.unwrap_or(processor.clock_ghz);
    processor.cores = args.cores.unwrap_or(processor.cores);
    processor.pipes_per_core = args.pipes.unwrap_or(processor.pipes_per_core);
    processor.strands_per_pipe = args.strands.unwrap_or(processor.strands_per_pipe);
    processor.instructions_per_cycle = args.ipc.or(processor.instructions_per_cycle);
    Ok(processor)
}

fn from_file(name: &str) -> Result<Processor, Failure> {
    let names = Processor::names().collect::<Vec<_>>().join(", ");
    let text = fs::read_to_string(name).map_err(|error| {
        Failure::new(format!("--machine {name}: not this, {names}, nor a file to read: {error}"))
    })?;
    Processor::from_toml(&text)
        .map_err(|error| Failure::new(format!("{name} is no processor: {error}")))
}

/// The cores that this process may use, and their clock as it is under load.
fn this(args: &BudgetArgs, provenance: &Provenance) -> Result<Processor, Failure> {
    let allowed = linerate_linux::allowed_cpus().map_err(Failure::new)?;
    let topology = Topology::read(&allowed);
    // Of the threads of a core, the first stands for it; where nothing tells, each is a core.
    let is_first = |cpu: &&Cpu| match &cpu.siblings {
        Ok(siblings) => {
            siblings.iter().find(|cpu| allowed.contains(cpu)).is_none_or(|&n| n == cpu.number)
        }
        Err(_) => true,
    };
    let count = topology.cpus.iter().filter(is_first).count().max(1);
    let clock_ghz = match args.clock {
        Some(clock) => clock,
        None => clock_ghz(provenance)?,
    };
    Ok(Processor {
        name: provenance.cpu.clone().unwrap_or_else(|| "this machine".to_owned()),
        source: "measured clock, cores this process may use".to_owned(),
        clock_ghz,
        cores: count as u32,
        pipes_per_core: 1,
        strands_per_pipe: allowed.len().div_ceil(count) as u32,
        instructions_per_cycle: None,
        compute_bound_cpi_max: None,
        latency: None,
        bandwidth: Bandwidth::default(),
        forwarded: Vec::new(),
    })
}

fn clock_ghz(provenance: &Provenance) -> Result<f64, Failure> {
    let unknown =
        |why: String| Failure::new(format!("the core clock is unknown ({why}): give --clock GHZ"));
    let ratio = core_cycles_per_tick().map_err(|error| unknown(error.to_string()))?;
    let rate = provenance.ticks_per_second.ok_or_else(|| unknown("no rate of ticks".to_owned()))?;
    Ok(ratio.value * rate / 1e9)
}

/// How the path of a record compares with the line.
fn measured(file: &Path, line_bits_per_s: f64) -> Result<Shortfall, Failure> {
    let fail = |why: String| Failure::new(format!("--from {}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| fail(error.to_string()))?;
    let record = Record::from_json(&text).map_err(|error| fail(error.to_string()))?;
    let run = run_of(record.body).ok_or_else(|| {
        fail(
            "not the record of a run or tune; make one with `linerate run --record FILE`"
                .to_owned(),
        )
    })?;
    let kpps = run.processed_kpps.as_number().filter(|kpps| *kpps > 0.0);
    let kpps = kpps.ok_or_else(|| fail("it has no throughput".to_owned()))?;
    let octets = mean_octets(&run).ok_or_else(|| fail("it took no packets".to_owned()))?;
    Ok(shortfall(kpps * 1e3, octets + FCS_OCTETS, line_bits_per_s))
}

fn run_of(body: Body) -> Option<RunReport> {
    match body {
        Body::Run(run) => Some(*run),
        Body::Tune(tune) => Some(tune.tuned),
        _ => None,
    }
}

/// Octets of a packet as it came from the source, FCS excluded.
fn mean_octets(run: &RunReport) -> Option<f64> {
    let stages = run.strands.iter().flat_map(|strand| &strand.stages);
    let sources = stages.filter(|stage| stage.name == "source");
    let all: Tally = sources.map(|stage| stage.ledger.output).sum();
    (all.packets > 0).then(|| all.octets as f64 / all.packets as f64)
}

fn draw(report: &BudgetReport, file: &Path, quiet: bool) -> Result<(), Failure> {
    let Some(plot) = linerate_report::svg::budget(report) else {
        if !quiet {
            emit::say("warning:    --svg: a plot takes two sizes or more, no file was written\n");
        }
        return Ok(());
    };
    let cannot = |error| Failure::new(format!("cannot write {}: {error}", file.display()));
    fs::write(file, plot.svg).map_err(cannot)
}
