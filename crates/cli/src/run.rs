// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate run`: one mapping as given.

use crate::args::{Common, RunArgs};
use crate::emit::{self, Answer};
use crate::failure::{Failure, also};
use crate::figures;
use crate::files;
use crate::flows;
use crate::footprint;
use crate::interrupt::stop_on_interrupt;
use crate::kinds::kinds;
use crate::load::{Loaded, load};
use crate::processors::{assign, processors};
use crate::progress::Progress;
use linerate_dataplane::capture::PcapWriter;
use linerate_dataplane::{Counting, Job, Kept, RunError, Watch};
use linerate_path::mapping::describe;
use linerate_path::model::Sink;
use linerate_plan::diagnose::diagnose;
use linerate_plan::kernels::advise;
use linerate_record::run::RunReport;
use linerate_record::tune::Finding;
use linerate_record::{Body, Record, Warning};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path as FilePath, PathBuf};

/// Runs a path and prints its profile.
pub(crate) fn run(args: &RunArgs) -> Result<Answer, Failure> {
    let common = &args.common;
    let loaded = load(common)?;
    let cpus = processors(common)?;
    let path = &loaded.path;
    let strands = assign(path, &path.mapping, &cpus, args.oversubscribe)?;
    let sink = match &path.sink {
        Sink::Capture { file, .. } => Some(PathBuf::from(file)),
        Sink::Null => None,
    };
    let files = loaded.files(common).writes("--record", common.record.as_ref());
    files.writes("the file of [sink]", sink).check()?;
    if args.check {
        return emit::print(&checked(&loaded));
    }
    let provenance = figures::provenance();
    let stop = stop_on_interrupt()?;
    let progress = Progress::new(common.quiet);
    progress.step(&describe(&path.mapping, &path.stages));
    let counting = Counting::of_this_machine();
    let job = Job {
        oversubscribe: path.mapping.strands() > cpus.len(),
        audit: args.audit,
        kernels: loaded.kernels,
        replay: true,
        counting: Some(&counting),
        ..Job::new(path, kinds(), &loaded.traffic, &strands)
    };
    let watch = Watch { stop, progress: &|share| progress.at(share) };
    let others = figures::others(&cpus);
    let result = linerate_dataplane::run(&job, &watch);
    progress.clear();
    let mut warnings: Vec<Warning> = others.into_iter().collect();
    if job.oversubscribe {
        let (strands, cpus) = (strands.len() as u32, cpus.len() as u32);
        warnings.push(Warning::Oversubscribed { strands, cpus });
    }
    let frames = loaded.traffic.len();
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(error) => return Err(failed(common, error, provenance, warnings, frames)),
    };
    let finding = diagnose(&outcome.report);
    let end = outcome.report.dead_end();
    let mut record = record(outcome.report, &finding, provenance, warnings, frames);
    let home = footprint::of(&loaded, &path.mapping);
    record.figures.extend(footprint::figures(&home));
    let kpps = record.figures["processed_kpps"].as_number();
    let mut text = text_of(&record, &finding);
    if let Body::Run(report) = &record.body
        && let Some(flows) = flows::of(report, path.line, loaded.traffic.mean_octets())
    {
        record.figures.extend(flows.figures());
        text += &emit::sentences(&flows.line());
    }
    text += &emit::sentences(&footprint::line(&home));
    let printed = emit::emit(common, &record, &text);
    also(printed, write_kept(&path.sink, &outcome.kept))?;
    emit::reaches(loaded.goal_kpps, kpps, end.as_ref())
}

fn record(
    report: RunReport,
    finding: &Finding,
    provenance: linerate_record::Provenance,
    mut warnings: Vec<Warning>,
    frames: usize,
) -> Record {
    warnings.extend(figures::warnings(&report, &provenance, frames as u64));
    let figures = figures::of_run(&report, finding);
    Record { provenance, figures, warnings, body: Body::Run(Box::new(report)) }
}

fn text_of(record: &Record, finding: &Finding) -> String {
    let Body::Run(report) = &record.body else { return String::new() };
    let kernels = advise(report).map(|advice| advice.sentence).unwrap_or_default();
    let tables = linerate_report::run(report, &emit::style(emit::WHOLE));
    format!("{tables}\n{}{}", emit::sentences(&finding.sentence), emit::sentences(&kernels))
}

/// Prints the profile that a broken stage left behind, and says what broke.
fn failed(
    common: &Common,
    error: RunError,
    provenance: linerate_record::Provenance,
    warnings: Vec<Warning>,
    frames: usize,
) -> Failure {
    let message = error.to_string();
    if let RunError::Panicked { report, .. } = error {
        let finding = diagnose(&report);
        let record = record(*report, &finding, provenance, warnings, frames);
        let printed = emit::emit(common, &record, &text_of(&record, &finding));
        if let Err(failure) = printed {
            return Failure::new(format!("{message}; and {failure}"));
        }
    }
    Failure::new(message)
}

fn checked(loaded: &Loaded) -> String {
    let (path, traffic) = (&loaded.path, &loaded.traffic);
    let mut text = format!(
        "{}: {} stages, {} strands: {}\n{} packets of {:.1} octets on average\n",
        path.name,
        path.stages.len(),
        path.mapping.strands(),
        describe(&path.mapping, &path.stages),
        traffic.len(),
        traffic.mean_octets(),
    );
    for (cause, packets) in traffic.rejected() {
        text += &format!("left out: {packets} {cause}\n");
    }
    text
}

/// Writes what the sinks kept to the file of the path.
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
