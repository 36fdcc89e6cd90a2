// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate run`: profiles one mapping.

use crate::args::{Common, RunArgs};
use crate::emit::{self, Answer, Forms};
use crate::failure::{Failure, also};
use crate::files;
use crate::interrupt::{INTERRUPTED, stop_on_interrupt};
use crate::kinds::kinds;
use crate::load::{Loaded, load};
use crate::machine;
use crate::processors::processors;
use crate::progress::Progress;
use crate::provenance;
use linerate_dataplane::capture::PcapWriter;
use linerate_dataplane::{Counting, Job, Kept, RunError, Watch};
use linerate_explain::why::explain_run;
use linerate_path::mapping::describe;
use linerate_path::model::Sink;
use linerate_plan::diagnose::diagnose;
use linerate_plan::footprint::packets_home;
use linerate_plan::kernels::advise;
use linerate_record::input::{InputReport, UnreadTail, remedy};
use linerate_record::run::RunReport;
use linerate_record::units::{counted, memory_size};
use linerate_record::{Body, Provenance, Record};
use linerate_tune::{assign, home};
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path as FilePath, PathBuf};

/// Runs a path and prints its profile.
pub(crate) fn run(args: &RunArgs) -> Result<Answer, Failure> {
    let common = &args.common;
    let loaded = load(&args.path, common)?;
    let cpus = processors(common.cpus.as_ref())?;
    let path = &loaded.path;
    let workers = assign(path, &path.mapping, &cpus, args.oversubscribe).map_err(Failure::new)?;
    let sink = match &path.sink {
        Sink::Capture { file, .. } => Some(PathBuf::from(file)),
        Sink::Null => None,
    };
    let files = loaded.files(&args.path).writes("--record", common.output.record.as_ref());
    files.writes("the file of [sink]", sink).check()?;
    if args.check {
        return emit::print(&match common.output.json() {
            true => checked_as_json(&loaded),
            false => checked(&loaded),
        });
    }
    let provenance = provenance::provenance();
    let stop = stop_on_interrupt()?;
    let progress = Progress::new(common.output.quiet());
    progress.step(&describe(&path.mapping, &path.stages));
    let counting = Counting::of_this_machine();
    let job = Job {
        oversubscribe: path.mapping.workers() > cpus.len(),
        audit: args.audit,
        kernels: loaded.kernels,
        replay: true,
        counting: Some(&counting),
        ..Job::new(path, kinds(), &loaded.traffic, &workers)
    };
    let show = |_: &str, share: f64| progress.at(share);
    let watch = Watch::new(stop, &show);
    let provenance = Provenance { others: provenance::others(&cpus), ..provenance };
    let result = linerate_dataplane::run(&job, &watch);
    progress.clear();
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(error) => return Err(failed(common, error, provenance, &loaded, cpus.len())),
    };
    let interrupted = outcome.report.interrupted;
    let end = outcome.report.dead_end();
    let p99 = outcome.report.latency.p99.clone();
    let record = record(outcome.report, provenance, &loaded, cpus.len());
    let Body::Run(run) = &record.body else { unreachable!("a record of run holds a run") };
    // Under a CPU quota, the path does not sustain the rate that it reaches while it runs.
    let rate = match run.held(&record.provenance) {
        Some(_) => run.delivered_kpps(),
        None => run.processed_kpps.clone(),
    };
    let kpps = rate.as_number();
    let is_aside = matches!(&path.sink, Sink::Capture { file, .. } if file == "-");
    let printed = emit::emit(Forms::from(&common.output).aside(is_aside), &record);
    also(printed, write_kept(&path.sink, &outcome.kept))?;
    if interrupted {
        return Err(Failure::new(INTERRUPTED));
    }
    let met = emit::reaches(loaded.goal_kpps, kpps, end.as_ref())?;
    emit::is_prompt(met, &p99, common.p99)
}

/// The record of a run, including its diagnosis.
fn record(report: RunReport, provenance: Provenance, loaded: &Loaded, cpus: usize) -> Record {
    let path = &loaded.path;
    let home = home(path, &loaded.traffic, &path.mapping, &machine::memory());
    let finding = diagnose(&report);
    let report = RunReport {
        causes: explain_run(&report, &finding),
        finding: Some(finding),
        kernel_advice: advise(&report),
        cpus_available: Some(cpus as u32),
        packets_home: Some(packets_home(&home)),
        ..report
    };
    Record { provenance, body: Body::Run(Box::new(report)) }
}

/// Prints the profile up to the point where a stage panicked. Returns the panic message.
fn failed(
    common: &Common,
    error: RunError,
    provenance: Provenance,
    loaded: &Loaded,
    cpus: usize,
) -> Failure {
    let message = error.to_string();
    if let RunError::Panicked { report, .. } = error {
        let printed = emit::emit(&common.output, &record(*report, provenance, loaded, cpus));
        if let Err(failure) = printed {
            return Failure::new(format!("{message}; and {failure}"));
        }
    }
    Failure::new(message)
}

fn checked(loaded: &Loaded) -> String {
    let (path, traffic) = (&loaded.path, &loaded.traffic);
    let text = format!(
        "{}: {}, {}: {}\n{} of {:.1} bytes on average\n",
        path.name,
        counted(path.stages.len() as u64, "stage"),
        counted(path.mapping.workers() as u64, "worker"),
        describe(&path.mapping, &path.stages),
        counted(traffic.len() as u64, "packet"),
        traffic.mean_bytes(),
    );
    text + &left_out(traffic.input())
}

/// Result of `--check`, as JSON.
fn checked_as_json(loaded: &Loaded) -> String {
    let (path, traffic) = (&loaded.path, &loaded.traffic);
    let found = json!({
        "path": path.name,
        "stages": path.stages.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>(),
        "workers": path.mapping.workers(),
        "mapping": describe(&path.mapping, &path.stages),
        "packets": traffic.len(),
        "mean_bytes": traffic.mean_bytes(),
        "input": traffic.input(),
    });
    format!("{found:#}\n")
}

/// Lists the repaired packets, and the packets left out of the input with their share of the bytes
/// and a remedy.
fn left_out(input: &InputReport) -> String {
    let mut text: String = input.repairs().iter().map(|repair| format!("{repair}\n")).collect();
    for (cause, tally) in &input.left_out {
        text += &format!(
            "skipped: {} {cause}, {} ({:.1} % of the bytes): {}\n",
            tally.packets,
            memory_size(tally.bytes as f64),
            100.0 * input.share(tally.bytes),
            remedy(cause)
        );
    }
    if let Some(UnreadTail { offset, bytes }) = input.unread {
        text += &format!("unread: {bytes} bytes, starting at offset {offset}\n");
    }
    text
}

/// Writes the packets kept by the sinks to the path's output file.
fn write_kept(sink: &Sink, kept: &Kept) -> Result<(), Failure> {
    let Sink::Capture { file, .. } = sink else { return Ok(()) };
    let fill = |to: &mut File| {
        let mut writer = PcapWriter::new(BufWriter::new(to))?;
        for (_, time_ns, frame) in kept.iter() {
            writer.write(time_ns, frame)?;
        }
        writer.finish()?.flush()
    };
    files::write_with(FilePath::new(file), fill)
        .map_err(|error| Failure::new(format!("cannot write the capture {file}: {error}")))
}
