// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate plan`: predicts the performance of a mapping and recommends changes, without running
//! it.

use crate::emit::{self, Answer, Forms, Output};
use crate::export;
use crate::failure::{Failure, also};
use crate::files::{self, Files};
use crate::help_text::{examples, paragraphs};
use crate::kinds::{kind, specs};
use crate::machine;
use crate::objects::{load_objects, path_text};
use crate::plots::{Plots, replaced};
use crate::provenance;
use clap::Args;
use linerate_cmt::Chip;
use linerate_cmt::planner::{self, Simulation};
use linerate_cmt::processor::Processor;
use linerate_path::check::{Described, read_to_plan};
use linerate_path::mapping::describe;
use linerate_path::model::{FRAME_BYTES_MIN, Path, Rate, Source, WIRE_OVERHEAD_BYTES};
use linerate_plan::formula::{self, Formula};
use linerate_plan::inputs::{Inputs, InputsError, Processors};
use linerate_plan::kernels::advise;
use linerate_plan::search::Subject;
use linerate_record::plan::PlanReport;
use linerate_record::run::RunReport;
use linerate_record::tune::CalibrationReport;
use linerate_record::{Body, Provenance, Record, shell};
use sketched::Sketching;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::path::PathBuf;

mod sketched;

const AFTER: &str = "\
Costs come from a run or tune record of this path, or from [costs] in the path file. Records of
other programs (regions, why, imports of VPP and perf stat) need no path file: they contain the
costs of the program's parts, and --out writes them as an editable path. On this machine each worker
gets its own CPU. Machines whose strands share pipelines (t1, t2, or a TOML file like those in
crates/cmt/data/processors) are simulated, with costs in instructions.
Examples:

  linerate run --record run.json edge.toml
  linerate plan --from run.json edge.toml
  linerate plan --from regions.json --line 10Gb/s --out program.toml
  linerate plan --machine t1 rlp-t1-config1.toml";

/// Simulated cycles after warm-up: more than a millisecond of simulated time and a few hundred
/// packets per flow. The resulting rate error is less than 1 %, far below the uncertainty of the
/// costs.
const SIMULATED_CYCLES: u64 = 2_000_000;

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct PlanArgs {
    /// The packet path, as TOML (not needed with a record of regions, import or why)
    #[arg(value_name = "PATH.toml", required_unless_present = "from")]
    path: Option<PathBuf>,
    /// The machine: this, t1, t2, or a TOML file
    #[arg(long, value_name = "NAME", default_value = "this")]
    machine: String,
    /// Record with stage costs, from run, tune, regions, import or why
    #[arg(long, value_name = "RECORD")]
    from: Option<PathBuf>,
    #[command(flatten)]
    sketching: Sketching,
    /// Maximum number of workers (default: the machine's CPU count)
    ///
    /// Each worker gets its own CPU or strand.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: Option<u32>,
    #[arg(long = "cpus", hide = true, value_name = "N", value_parser = renamed)]
    _cpus: Option<Infallible>,
    #[command(flatten)]
    plots: Plots,
    #[arg(long = "plot", hide = true, value_name = "FILE", value_parser = replaced)]
    _plot: Option<Infallible>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Predicts the performance of a mapping, and prints recommended changes.
pub(crate) fn plan(args: &PlanArgs) -> Result<Answer, Failure> {
    Files::default()
        .may_read("the packet path", args.path.as_ref())
        .may_read("the --from record", args.from.as_ref())
        .may_read("the --machine file", machine::file(&args.machine))
        .writes("--record", args.output.record.as_ref())
        .writes("--out", args.sketching.out.as_ref())
        .check()?;
    args.plots.make_folder()?;
    let provenance = provenance::provenance();
    let subject = subject(args)?;
    let report = match args.machine.as_str() {
        "this" => on_this_machine(args, &subject, &provenance)?,
        name => elsewhere(args, &subject, &machine::named(name)?)?,
    };
    let drawing = args.plots.draw(|| vec![Ok(linerate_report::svg::plan(&report))]);
    let is_aside = args.sketching.out.as_deref().is_some_and(files::is_stdout);
    let printed = emit::emit(
        Forms::from(&args.output).aside(is_aside),
        &Record { provenance, body: Body::Plan(Box::new(report)) },
    );
    let written = match (&args.sketching.out, subject.text) {
        (Some(file), Some(text)) => files::write(file, text),
        _ => Ok(()),
    };
    also(also(printed, written), drawing.write(args.output.quiet()))
}

/// The path to plan, with the recorded data that belongs to it.
struct Planned {
    described: Described,
    /// The recorded run, if any.
    recorded: Option<Recorded>,
    /// Machine on which another program was recorded.
    measured_on: Option<Provenance>,
    /// Text of the path file generated from another program's record.
    text: Option<String>,
}

/// Returns the path in the path file, with costs from the record. Without a path file, returns a
/// path derived from the record.
fn subject(args: &PlanArgs) -> Result<Planned, Failure> {
    let read = args.from.as_ref().map(|file| export::read(file).map(|record| (file, record)));
    let read = read.transpose()?;
    let is_run = |record: &Record| matches!(record.body, Body::Run(_) | Body::Tune(_));
    match (&args.path, read) {
        (Some(_), None) => {
            args.sketching.refuse(true)?;
            let (recorded, measured_on, text) = (None, None, None);
            Ok(Planned { described: described(args)?, recorded, measured_on, text })
        }
        (Some(_), Some((file, record))) if is_run(&record) => {
            args.sketching.refuse(true)?;
            let described = described(args)?;
            let recorded = Some(Recorded::new(file, record, &described.path)?);
            Ok(Planned { described, recorded, measured_on: None, text: None })
        }
        (path, Some((file, record))) => {
            let drawn = args.sketching.draw(file, &record)?;
            let (described, text) = match path {
                Some(_) => {
                    args.sketching.refuse(false)?;
                    (sketched::recosted(described(args)?, &drawn, file)?, None)
                }
                None => {
                    if !args.output.quiet() {
                        args.sketching.note_assumptions(&drawn);
                    }
                    args.sketching.described(&drawn, file)?
                }
            };
            Ok(Planned { described, recorded: None, measured_on: Some(record.provenance), text })
        }
        (None, None) => Err(Failure::new("name a packet path file, or pass a record with --from")),
    }
}

/// Rejects `--cpus`, explaining that it takes a CPU list in other commands.
fn renamed(_: &str) -> Result<Infallible, String> {
    Err("--cpus is a CPU list in other commands; to set the number of workers for `plan`, use \
         --workers N"
        .to_owned())
}

fn described(args: &PlanArgs) -> Result<Described, Failure> {
    let path = args.path.as_ref().ok_or_else(|| Failure::new("name a packet path file"))?;
    let shown = path.display().to_string();
    let text = path_text(path)?;
    let stem = path.file_stem().map_or("path".into(), |stem| stem.to_string_lossy());
    load_objects(path, &text)?;
    read_to_plan(&text, &stem, specs()).map_err(|problems| Failure::new(problems.display(&shown)))
}

/// Returns the path file's name, quoted for use on a command line.
fn quoted(args: &PlanArgs) -> String {
    let file = args.path.as_ref().or(args.sketching.out.as_ref());
    shell::quoted(file.map_or(OsStr::new("PATH.toml"), |file| file.as_os_str()))
}

fn on_this_machine(
    args: &PlanArgs,
    planned: &Planned,
    here: &Provenance,
) -> Result<PlanReport, Failure> {
    let Planned { described, recorded, measured_on, .. } = planned;
    let path = &described.path;
    let of_record = recorded.as_ref().map(|recorded| &recorded.provenance);
    let machine = of_record.or(measured_on.as_ref()).unwrap_or(here);
    let count = args.workers.map_or(machine.cpus.len().clamp(1, 64), |workers| workers as usize);
    let processors =
        Processors { count, are_shared: machine.hypervisor.is_some(), quota: machine.cpu_quota };
    let inputs = match (recorded, &described.costs) {
        (Some(recorded), _) => recorded.inputs(path, processors)?,
        (None, Some(costs)) => Inputs::from_file(costs, path, processors).map_err(Failure::new)?,
        (None, None) => return Err(no_costs(args)),
    };
    let kernels = recorded.as_ref().and_then(|recorded| advise(&recorded.run));
    let all_run = described.specs.iter().all(|spec| kind(spec.kind).is_some());
    let line_kpps = match recorded {
        Some(recorded) => recorded.run.line_rate_kpps,
        None => line_kpps(path, inputs.flows),
    };
    let name = machine.cpu.as_deref().unwrap_or("this machine");
    let source = if recorded.is_some() || measured_on.is_some() {
        "the recorded machine"
    } else {
        "this machine"
    };
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

/// Plans for another machine: by simulation if its strands share pipelines, otherwise with the
/// times given in the path file.
fn elsewhere(
    args: &PlanArgs,
    planned: &Planned,
    processor: &Processor,
) -> Result<PlanReport, Failure> {
    let described = &planned.described;
    let chip = Chip::new(processor);
    // A simulation uses only the instructions of another program's record. The costs in a path file
    // have instructions of their own, and the record replaced only their times.
    let uses_times = planned.measured_on.is_some() && (chip.is_err() || planned.text.is_none());
    if planned.recorded.is_some() || uses_times {
        return Err(Failure::new(format!(
            "--from: times measured on another machine do not apply to {}; plan with --machine \
             this, or give costs in instructions under [costs]",
            processor.name
        )));
    }
    let costs = described.costs.as_ref().ok_or_else(|| {
        let file = quoted(args);
        Failure::new(format!(
            "no stage costs for {file} on {}: add [[costs.stages]] with instructions and misses to \
             the file; see examples/rlp-t1-config1.toml",
            processor.name
        ))
    })?;
    let strands = u32::try_from(processor.strands()).unwrap_or(u32::MAX);
    let cpus = args.workers.unwrap_or(strands);
    if cpus > strands {
        let name = &processor.name;
        return Err(Failure::new(format!("--workers {cpus}: {name} has only {strands} strands")));
    }
    let path = &described.path;
    let subject = Subject {
        path,
        specs: &described.specs,
        line_kpps: line_kpps(path, costs.flows),
        machine: &processor.name,
        machine_source: &processor.source,
    };
    match chip {
        Ok(chip) => {
            let line_kpps = offered_kpps(path, costs.flows, subject.line_kpps)?;
            let simulation = Simulation { costs, chip: &chip, cpus, cycles: SIMULATED_CYCLES };
            planner::plan(&Subject { line_kpps, ..subject }, &simulation).map_err(Failure::new)
        }
        Err(why) if costs.stages.iter().any(|cost| cost.ns.is_none()) => Err(Failure::new(why)),
        Err(_) => {
            let processors = Processors { count: cpus as usize, are_shared: false, quota: None };
            let inputs = Inputs::from_file(costs, path, processors).map_err(Failure::new)?;
            let formula =
                Formula { inputs: &inputs, kernels: None, file: &quoted(args), can_run: false };
            Ok(formula::plan(&subject, &formula))
        }
    }
}

/// Returns the per-flow offered rate in kpps; `None` if the source offers packets as fast as the
/// path accepts them.
fn offered_kpps(path: &Path, flows: u32, line_kpps: Option<f64>) -> Result<Option<f64>, Failure> {
    let bytes = || {
        mean_bytes(&path.source).ok_or_else(|| {
            Failure::new(
                "[run] rate is in bits per second, but the path file does not determine the packet \
                 sizes: give the rate in packets per second",
            )
        })
    };
    let per_flow = |packets_per_s: f64| packets_per_s / 1e3 / f64::from(flows);
    Ok(match path.run.rate {
        Rate::Max | Rate::Capture => None,
        Rate::Line if line_kpps.is_none() => {
            return Err(Failure::new(
                "[run] rate is the line rate, but the path file does not determine the packet \
                 sizes: give the rate in packets per second",
            ));
        }
        Rate::Line => line_kpps,
        Rate::PacketsPerSecond(packets) => Some(per_flow(packets)),
        Rate::BitsPerSecond(bits) => {
            Some(per_flow(bits / 8.0 / (bytes()? + WIRE_OVERHEAD_BYTES as f64)))
        }
    })
}

/// Returns the mean frame size in bytes, as sent on Ethernet, or `None` if the source's description
/// does not determine it.
fn mean_bytes(source: &Source) -> Option<f64> {
    match source {
        Source::Generator { sizes, .. } => {
            let sum: f64 =
                sizes.iter().map(|size| f64::from((*size).max(FRAME_BYTES_MIN.into()))).sum();
            Some(sum / sizes.len() as f64)
        }
        Source::Registered(used) => {
            let spec = specs().sources.iter().find(|spec| spec.kind == used.kind)?;
            (spec.frame_bytes)(&used.params).map(f64::from)
        }
        Source::Capture { .. } | Source::Interface(_) => None,
    }
}

fn no_costs(args: &PlanArgs) -> Failure {
    let file = quoted(args);
    Failure::new(format!(
        "no stage costs for {file}: measure them with\n  linerate run --record run.json \
         {file}\nand pass --from run.json, or add them to the file under [costs]"
    ))
}

/// Returns the per-flow line rate in kpps; `None` if the path has no line, or if the path file does
/// not determine the packet sizes.
fn line_kpps(path: &Path, flows: u32) -> Option<f64> {
    let bytes = mean_bytes(&path.source)?;
    Some(path.line?.packets_per_second(bytes) / 1e3 / f64::from(flows))
}

/// A recorded run of the path.
struct Recorded {
    run: RunReport,
    burst: u32,
    /// Ring and burst costs, if the record is from a `tune` that measured them.
    calibration: Option<CalibrationReport>,
    provenance: Provenance,
    from: String,
}

impl Recorded {
    fn new(file: &std::path::Path, record: Record, path: &Path) -> Result<Self, Failure> {
        let fail = |why: String| Failure::new(format!("--from {}: {why}", file.display()));
        let asked = path.run.burst;
        let calibration = match &record.body {
            Body::Tune(tune) => tune.calibration.clone(),
            _ => None,
        };
        let (run, burst, what) = match record.body {
            Body::Run(run) => (*run, asked, "run"),
            // A `tune` record has two runs; prefer the one with the mapping as written.
            Body::Tune(tune) if describe(&path.mapping, &path.stages) == tune.baseline.mapping => {
                (tune.baseline, asked, "baseline of a tune record")
            }
            Body::Tune(tune) => {
                let chosen = tune.chosen.and_then(|index| tune.candidates.get(index as usize));
                (tune.tuned, chosen.map_or(asked, |chosen| chosen.burst), "tune")
            }
            _ => {
                return Err(fail(
                    "not a run or tune record; create one with `linerate run --record FILE`"
                        .to_owned(),
                ));
            }
        };
        let from = format!("{}: {what}, {}", file.display(), run.mapping);
        Ok(Self { run, burst, calibration, provenance: record.provenance, from })
    }

    fn inputs(&self, path: &Path, processors: Processors) -> Result<Inputs, Failure> {
        let inputs = Inputs::from_run(&self.run, path, self.burst, processors, &self.from);
        let inputs = inputs.map_err(|error| match error {
            InputsError::TooFewWorkers { .. } => Failure::new(error),
            of_record => Failure::new(format!("--from: {of_record}")),
        })?;
        Ok(match &self.calibration {
            Some(calibration) => inputs.calibrated(calibration),
            None => inputs,
        })
    }
}
