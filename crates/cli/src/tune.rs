// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate tune`: measures a path, explains its rate, predicts and tries other mappings, and
//! keeps the best.

use crate::args::TuneArgs;
use crate::emit::{self, Answer, Forms};
use crate::export;
use crate::failure::{Failure, also};
use crate::files::{self, Files};
use crate::goal;
use crate::interrupt::{INTERRUPTED, stop_on_interrupt};
use crate::kinds::kinds;
use crate::load::{Loaded, is_live, load};
use crate::machine;
use crate::processors::processors;
use crate::progress::Progress;
use crate::provenance;
use linerate_explain::why::explain_run;
use linerate_machine::provenance::command_line;
use linerate_path::keys::MAX_WORKERS;
use linerate_path::model::{Mapping, Path, Sink, Value};
use linerate_path::plugins::is_plugin;
use linerate_record::{Body, Provenance, Record};
use linerate_trial::Watch;
use linerate_tune::{Kept, Request, Tuned};
use std::path::Path as FilePath;
use std::sync::atomic::Ordering;

/// Tunes a path, or predicts from a stored `tune` record, and prints the result.
pub(crate) fn tune(args: &TuneArgs) -> Result<Answer, Failure> {
    match (&args.path, &args.from) {
        (Some(path), _) => measure(args, path),
        (None, Some(record)) => predict(args, record),
        (None, None) => Err(Failure::new("name a packet path file, or pass a record with --from")),
    }
}

/// Explains a stored `tune` record and predicts rates from it. The new record has the provenance of
/// the stored one, except for the command line.
fn predict(args: &TuneArgs, file: &FilePath) -> Result<Answer, Failure> {
    let output = &args.common.output;
    let files = Files::default().reads("the --from record", file);
    files.writes("--record", output.record.as_ref()).check()?;
    let Record { body, provenance } = export::read(file)?;
    let name = file.display().to_string();
    let report = linerate_tune::from_record(&body, &name)
        .map_err(|lacking| Failure::new(format!("--from {name}: {lacking}")))?;
    let provenance = Provenance { command: command_line(), ..provenance };
    emit::emit(output, &Record { provenance, body: Body::Tune(Box::new(report)) })
}

/// Tunes the path in `file`.
fn measure(args: &TuneArgs, file: &FilePath) -> Result<Answer, Failure> {
    let common = &args.common;
    let mut loaded = load(file, common)?;
    if is_live(&loaded.path) {
        return Err(Failure::new(
            "tune compares mappings on the same packets, and live packets differ from run to \
             run: record some (tcpdump -i IF -w packets.pcap), tune with kind = \"capture\" in \
             [source], then run the tuned [mapping] on the interface",
        ));
    }
    // Discard the output: otherwise, every run of the tuning session would write a capture. Only
    // `run` writes one.
    loaded.path.sink = Sink::Null;
    let provenance = provenance::provenance();
    let all = processors(common.cpus.as_ref())?;
    let cpus = granted(all, &loaded.path.mapping, provenance.cpu_quota);
    let files = loaded.files(file).writes("--record", common.output.record.as_ref());
    files.writes("--out", args.out.as_ref()).check()?;
    let stop = stop_on_interrupt()?;
    let progress = Progress::new(common.output.quiet());
    let placed_on = placed_on(&loaded.path.mapping, &cpus);
    let request = Request {
        path: &loaded.path,
        traffic: &loaded.traffic,
        cpus: &cpus,
        is_guest: provenance.hypervisor.is_some(),
        kernels: loaded.kernels,
        kinds: kinds(),
        memory: &machine::memory(&placed_on),
        p99_limit_ns: common.p99,
        goal_kpps: loaded.goal_kpps,
    };
    let show = |step: &str, share: f64| {
        progress.step(step);
        progress.at(share);
    };
    let provenance = Provenance { others: provenance::others(&cpus), ..provenance };
    let tuned = linerate_tune::tune(&request, &Watch::new(stop, &show));
    progress.clear();
    let Tuned { mut report, kept, cannot_tell } = tuned.map_err(Failure::new)?;
    report.baseline.goal_kpps = loaded.goal_kpps;
    report.tuned.goal_kpps = loaded.goal_kpps;
    report.baseline.causes = explain_run(&report.baseline, &report.finding, &provenance);
    let record = Record { provenance, body: Body::Tune(Box::new(report)) };
    let figures = record.figures();
    let Body::Tune(tune) = &record.body else { unreachable!("tuning returns a tune record") };
    let rate = match tune.tuned.held(&record.provenance) {
        Some(_) => &tune.tuned.sustained_kpps(&record.provenance),
        None => &figures["tuned_kpps"],
    };
    let p99 = &figures["tuned_latency_p99_ns"];
    let is_aside = args.out.as_deref().is_some_and(files::is_stdout);
    let forms = Forms::from(&common.output).of_path(file).aside(is_aside);
    // Standard output has no name that a command could read.
    let out = if is_aside { Some(FilePath::new("FILE")) } else { args.out.as_deref() };
    let written = out.filter(|_| kept.is_some());
    let printed = emit::emit(forms.written_to(written), &record);
    also(printed, kept.map_or(Ok(()), |kept| write_out(args, file, &loaded, &kept)))?;
    if let Some(error) = cannot_tell {
        return Err(Failure::new(error));
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::new(INTERRUPTED));
    }
    let met = goal::reaches(loaded.goal_kpps, rate, &tune.tuned)?;
    goal::is_prompt(met, p99, common.p99, &goal::Advice::TUNE)
}

/// Shortens the CPU list to the number of workers that a path can have and to the CPU quota, but
/// keeps at least one CPU: busy workers on additional CPUs would only share the same CPU time. The
/// CPUs that `mapping` names are kept first.
fn granted(mut cpus: Vec<u32>, mapping: &Mapping, quota: Option<f64>) -> Vec<u32> {
    let most = quota.map_or(MAX_WORKERS, |quota| (quota as usize).clamp(1, MAX_WORKERS));
    if cpus.len() > most {
        let is_named = |cpu: &u32| mapping.segments.iter().any(|one| one.cpus.contains(cpu));
        cpus.sort_by_key(|cpu| !is_named(cpu));
        cpus.truncate(most);
    }
    cpus
}

/// Returns CPUs whose caches the workers of the path use: those that `mapping` names, or else the
/// first of `cpus`. On machines with several types of cores, `cpus` may include all of them.
fn placed_on(mapping: &Mapping, cpus: &[u32]) -> Vec<u32> {
    let named: Vec<u32> = mapping.segments.iter().flat_map(|one| one.cpus.clone()).collect();
    if named.is_empty() { cpus.iter().copied().take(1).collect() } else { named }
}

/// Writes the path with the chosen mapping, if requested.
fn write_out(
    args: &TuneArgs,
    original: &FilePath,
    loaded: &Loaded,
    kept: &Kept,
) -> Result<(), Failure> {
    let Some(file) = &args.out else { return Ok(()) };
    let mut path = as_seen_from(file, original, &loaded.path)?;
    path.kernels.clone_from(&kept.kernels);
    if let Some(idle) = &kept.idle {
        path.idle.clone_from(idle);
        path.mapping.clone_from(&kept.mapping);
    }
    let shown = original.display().to_string();
    let text = linerate_path::write::with_mapping(&loaded.text, &path, &kept.mapping, kept.burst)
        .map_err(|problems| Failure::new(problems.display(&shown)))?;
    files::write(file, text)?;
    if !files::is_stdout(file) && !args.common.output.quiet() {
        emit::say(&format!("linerate: wrote {}\n", file.display()));
    }
    Ok(())
}

/// Adapts the path for writing to the file `out`. If `out` and `original` are in different
/// directories, makes the file names of the capture and the shared objects absolute.
fn as_seen_from(out: &FilePath, original: &FilePath, path: &Path) -> Result<Path, Failure> {
    let full = |file: &FilePath| {
        let cannot = |error| Failure::new(format!("cannot locate {}: {error}", file.display()));
        std::path::absolute(file).map_err(cannot)
    };
    let mut path = path.clone();
    let (out, original) = (full(out)?, full(original)?);
    let Some(folder) = original.parent().filter(|folder| out.parent() != Some(folder)) else {
        return Ok(path);
    };
    if let Some(file) = path.source.file_mut() {
        *file = within(folder, file)?;
    }
    for stage in path.stages.iter_mut().filter(|stage| is_plugin(stage)) {
        if let Some(Value::Text(file)) = stage.params.get_mut("file") {
            *file = within(folder, file)?;
        }
    }
    Ok(path)
}

/// Returns the absolute name of a file, given its name in a path file in `folder`.
fn within(folder: &FilePath, file: &str) -> Result<String, Failure> {
    let full = folder.join(file);
    let cannot = || {
        let full = full.display();
        Failure::new(format!(
            "cannot write {full} to a path file: the file name is not valid UTF-8"
        ))
    };
    full.to_str().map(str::to_owned).ok_or_else(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_machines_tune_with_as_many_cpus_as_a_path_can_have_workers() {
        let mut mapping = Mapping::merged(2);
        let granted = |mapping: &Mapping, quota| granted((0..384).collect(), mapping, quota);
        assert_eq!(granted(&mapping, None), (0..64).collect::<Vec<u32>>());
        assert_eq!(granted(&mapping, Some(2.5)), [0, 1]);
        assert_eq!(granted(&mapping, Some(0.5)), [0]);
        assert_eq!(granted(&mapping, Some(300.0)).len(), 64);
        mapping.segments[0].cpus = vec![200];
        assert_eq!(granted(&mapping, Some(2.0)), [200, 0]);
    }
}
