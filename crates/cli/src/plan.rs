// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate plan`: what a mapping is predicted to do, and what to change, before anything runs.

use crate::emit::{self, Answer, Output};
use crate::failure::{Failure, also};
use crate::files::Files;
use crate::input;
use crate::kinds::{kind, specs};
use crate::machine;
use crate::plots::{Plots, replaced};
use crate::{provenance, terminal};
use clap::Args;
use linerate_cmt::Chip;
use linerate_cmt::planner::{self, Simulation};
use linerate_cmt::processor::Processor;
use linerate_path::check::{Described, read_to_plan};
use linerate_path::mapping::describe;
use linerate_path::model::{Path, Rate, Source, WIRE_OVERHEAD_BYTES};
use linerate_plan::formula::{self, Formula};
use linerate_plan::inputs::{Inputs, InputsError, Processors};
use linerate_plan::kernels::advise;
use linerate_plan::search::Subject;
use linerate_record::plan::PlanReport;
use linerate_record::run::RunReport;
use linerate_record::{Body, Provenance, Record};
use std::convert::Infallible;
use std::path::PathBuf;

const AFTER: &str = "\
Costs come from the record of a run or tune of this path, or from [costs] in its file. On this
machine workers are taken to have a processor each. Machines whose strands share pipes (t1, t2, or a
TOML file like those in crates/cmt/data/processors) are simulated, with costs in instructions.
Examples:

  linerate run --record run.json edge.toml
  linerate plan --from run.json edge.toml
  linerate plan --machine t1 rlp-t1-config1.toml";

/// Cycles of each simulation that count: more than a millisecond of a chip, some hundred packets of
/// a flow. Its rate is then known to less than a hundredth, far below what costs are known to.
const SIMULATED_CYCLES: u64 = 2_000_000;

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct PlanArgs {
    /// The packet path, as TOML
    #[arg(value_name = "PATH.toml")]
    path: PathBuf,
    /// The machine: this, t1, t2, or a TOML file
    #[arg(long, value_name = "NAME", default_value = "this")]
    machine: String,
    /// The record of a run or tune of this path: what its stages cost
    #[arg(long, value_name = "RECORD")]
    from: Option<PathBuf>,
    /// Processors that the path may use (default: the machine's)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: Option<u32>,
    #[command(flatten)]
    plots: Plots,
    #[arg(long = "plot", hide = true, value_name = "FILE", value_parser = replaced)]
    _plot: Option<Infallible>,
    #[command(flatten)]
    output: Output,
}

/// Predicts a mapping and prints what to change.
pub(crate) fn plan(args: &PlanArgs) -> Result<Answer, Failure> {
    Files::default()
        .reads("the packet path", &args.path)
        .may_read("the record of --from", args.from.as_ref())
        .may_read("the file of --machine", machine::file(&args.machine))
        .writes("--record", args.output.record.as_ref())
        .check()?;
    args.plots.make_folder()?;
    let provenance = provenance::provenance();
    let described = described(args)?;
    let report = match args.machine.as_str() {
        "this" => on_this_machine(args, &described, &provenance)?,
        name => elsewhere(args, &described, &machine::named(name)?)?,
    };
    let drawing = args.plots.draw(|| vec![Ok(linerate_report::svg::plan(&report))]);
    let printed =
        emit::emit(&args.output, &Record { provenance, body: Body::Plan(Box::new(report)) });
    also(printed, drawing.write(args.output.quiet()))
}

fn described(args: &PlanArgs) -> Result<Described, Failure> {
    let shown = args.path.display().to_string();
    let text = input::text(&args.path, input::TOML)
        .map_err(|error| Failure::new(format!("cannot read the packet path {shown}: {error}")))?;
    let stem = args.path.file_stem().map_or("path".into(), |stem| stem.to_string_lossy());
    read_to_plan(&text, &stem, specs()).map_err(|problems| Failure::new(problems.display(&shown)))
}

/// The file as a command line has it.
fn quoted(args: &PlanArgs) -> String {
    terminal::quoted(&args.path.display().to_string())
}

fn on_this_machine(
    args: &PlanArgs,
    described: &Described,
    here: &Provenance,
) -> Result<PlanReport, Failure> {
    let path = &described.path;
    let recorded = args.from.as_ref().map(|file| Recorded::read(file, path)).transpose()?;
    let machine = recorded.as_ref().map_or(here, |recorded| &recorded.provenance);
    let count = args.cpus.map_or(machine.cpus.len().clamp(1, 64), |cpus| cpus as usize);
    let processors = Processors { count, are_shared: machine.hypervisor.is_some() };
    let inputs = match (&recorded, &described.costs) {
        (Some(recorded), _) => recorded.inputs(path, processors)?,
        (None, Some(costs)) => Inputs::from_file(costs, path, processors).map_err(Failure::new)?,
        (None, None) => return Err(no_costs(args)),
    };
    let kernels = recorded.as_ref().and_then(|recorded| advise(&recorded.run));
    let all_run = described.specs.iter().all(|spec| kind(spec.kind).is_some());
    let line_kpps = match &recorded {
        Some(recorded) => recorded.run.line_rate_kpps,
        None => line_kpps(path, inputs.flows),
    };
    let name = machine.cpu.as_deref().unwrap_or("this machine");
    let source = if recorded.is_some() { "the machine of the record" } else { "this machine" };
    let subject =
        Subject { path, specs: &described.specs, line_kpps, machine: name, machine_source: source };
    let formula = Formula {
        inputs: &inputs,
        kernels: kernels.as_ref(),
        file: &quoted(args),
        can_run: all_run,
    };
    Ok(formula::plan(&subject, &formula))
}

/// On another machine: simulated where its strands share pipes, by times the file gives of it where
/// not.
fn elsewhere(
    args: &PlanArgs,
    described: &Described,
    processor: &Processor,
) -> Result<PlanReport, Failure> {
    if args.from.is_some() {
        return Err(Failure::new(format!(
            "--from has times of the machine it was made on, which say nothing of {}: plan with \
             --machine this, or give costs in instructions under [costs]",
            processor.name
        )));
    }
    let costs = described.costs.as_ref().ok_or_else(|| {
        let file = quoted(args);
        Failure::new(format!(
            "nothing says what the stages of {file} cost on {}: write their instructions and \
             misses into the file, as [[costs.stages]]; examples/rlp-t1-config1.toml shows how",
            processor.name
        ))
    })?;
    let strands = u32::try_from(processor.strands()).unwrap_or(u32::MAX);
    let cpus = args.cpus.unwrap_or(strands);
    if cpus > strands {
        let name = &processor.name;
        return Err(Failure::new(format!("--cpus {cpus}: {name} has {strands} strands")));
    }
    let path = &described.path;
    let subject = Subject {
        path,
        specs: &described.specs,
        line_kpps: line_kpps(path, costs.flows),
        machine: &processor.name,
        machine_source: &processor.source,
    };
    match Chip::new(processor) {
        Ok(chip) => {
            let line_kpps = offered_kpps(path, costs.flows, subject.line_kpps)?;
            let simulation = Simulation { costs, chip: &chip, cpus, cycles: SIMULATED_CYCLES };
            planner::plan(&Subject { line_kpps, ..subject }, &simulation).map_err(Failure::new)
        }
        Err(why) if costs.stages.iter().any(|cost| cost.ns.is_none()) => Err(Failure::new(why)),
        Err(_) => {
            let processors = Processors { count: cpus as usize, are_shared: false };
            let inputs = Inputs::from_file(costs, path, processors).map_err(Failure::new)?;
            let formula =
                Formula { inputs: &inputs, kernels: None, file: &quoted(args), can_run: false };
            Ok(formula::plan(&subject, &formula))
        }
    }
}

/// Thousand packets per second offered to each flow; `None` where they come as fast as they are
/// taken.
fn offered_kpps(path: &Path, flows: u32, line_kpps: Option<f64>) -> Result<Option<f64>, Failure> {
    let bytes = || {
        mean_bytes(&path.source).ok_or_else(|| {
            Failure::new(
                "[run] rate is bits per second, and the size of packets is in a capture: give \
                 packets per second",
            )
        })
    };
    let per_flow = |packets_per_s: f64| packets_per_s / 1e3 / f64::from(flows);
    Ok(match path.run.rate {
        Rate::Max | Rate::Capture => None,
        Rate::Line if line_kpps.is_none() => {
            return Err(Failure::new(
                "[run] rate is the line's, and the size of packets is in a capture: give packets \
                 per second",
            ));
        }
        Rate::Line => line_kpps,
        Rate::PacketsPerSecond(packets) => Some(per_flow(packets)),
        Rate::BitsPerSecond(bits) => {
            Some(per_flow(bits / 8.0 / (bytes()? + WIRE_OVERHEAD_BYTES as f64)))
        }
    })
}

/// Mean bytes of a frame, where the description of the source says it.
fn mean_bytes(source: &Source) -> Option<f64> {
    match source {
        Source::Generator { sizes, .. } => {
            let sum: f64 = sizes.iter().map(|size| f64::from(*size)).sum();
            Some(sum / sizes.len() as f64)
        }
        Source::Registered(used) => {
            let spec = specs().sources.iter().find(|spec| spec.kind == used.kind)?;
            (spec.frame_bytes)(&used.params).map(f64::from)
        }
        Source::Capture { .. } => None,
    }
}

fn no_costs(args: &PlanArgs) -> Failure {
    let file = quoted(args);
    Failure::new(format!(
        "nothing says what the stages of {file} cost: measure them with\n  linerate run --record \
         run.json {file}\nand give --from run.json, or write them into the file under [costs]"
    ))
}

/// Packets per second that the line of one flow carries, thousand; `None` without a line or where
/// the size of packets is in a capture.
fn line_kpps(path: &Path, flows: u32) -> Option<f64> {
    let bytes = mean_bytes(&path.source)?;
    Some(path.line?.packets_per_second(bytes) / 1e3 / f64::from(flows))
}

/// A run of the path, from a record.
struct Recorded {
    run: RunReport,
    burst: u32,
    provenance: Provenance,
    from: String,
}

impl Recorded {
    fn read(file: &std::path::Path, path: &Path) -> Result<Self, Failure> {
        let fail = |why: String| Failure::new(format!("--from {}: {why}", file.display()));
        let text = input::text(file, input::RECORD).map_err(&fail)?;
        let record = Record::from_json(&text).map_err(|error| fail(error.to_string()))?;
        let asked = path.run.burst;
        let (run, burst, what) = match record.body {
            Body::Run(run) => (*run, asked, "run"),
            // Of the two runs of a tuning the one of the mapping as written, if it is one of them.
            Body::Tune(tune) if describe(&path.mapping, &path.stages) == tune.baseline.mapping => {
                (tune.baseline, asked, "baseline of a tune")
            }
            Body::Tune(tune) => {
                let chosen = tune.chosen.and_then(|index| tune.candidates.get(index as usize));
                (tune.tuned, chosen.map_or(asked, |chosen| chosen.burst), "tune")
            }
            _ => {
                return Err(fail(
                    "not the record of a run or tune; make one with `linerate run --record FILE`"
                        .to_owned(),
                ));
            }
        };
        let from = format!("{}: {what}, {}", file.display(), run.mapping);
        Ok(Self { run, burst, provenance: record.provenance, from })
    }

    fn inputs(&self, path: &Path, processors: Processors) -> Result<Inputs, Failure> {
        Inputs::from_run(&self.run, path, self.burst, processors, &self.from).map_err(|error| {
            match error {
                InputsError::TooFewWorkers { .. } => Failure::new(error),
                of_record => Failure::new(format!("--from: {of_record}")),
            }
        })
    }
}
