// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate run`: profiles one mapping.

use crate::args::{Common, RunArgs};
use crate::emit::{self, Answer, Forms};
use crate::failure::{Failure, also};
use crate::files;
use crate::goal;
use crate::interrupt::{INTERRUPTED, stop_on_interrupt};
use crate::kinds::kinds;
use crate::load::{Loaded, is_live, load};
use crate::machine;
use crate::processors::processors;
use crate::progress::Progress;
use crate::provenance;
use linerate_dataplane::capture::PcapWriter;
use linerate_dataplane::traffic::Traffic;
use linerate_dataplane::{Counting, Job, Kept, Ports, RunError, Watch};
use linerate_explain::why::explain_run;
use linerate_path::mapping::describe;
use linerate_path::model::{IdleRules, PacketClass, Path, Sink};
use linerate_plan::diagnose::diagnose;
use linerate_plan::footprint::packets_home;
use linerate_plan::kernels::advise;
use linerate_record::input::{InputReport, UnreadTail, remedy};
use linerate_record::run::{DeadEnd, RunReport};
use linerate_record::units::{counted, memory_size};
use linerate_record::{Body, Provenance, Record};
use linerate_tune::{assign, home};
use serde_json::json;
use std::collections::BTreeMap;
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
        Sink::Null | Sink::Interface(_) => None,
    };
    let files = loaded.files(&args.path).writes("--record", common.output.record.as_ref());
    files.writes("the [sink] file", sink).check()?;
    if args.check {
        common.output.check_plain("--check")?;
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
    let ports = open_ports(path, &progress)?;
    let idle = args.idle.map_or_else(|| path.idle.clone(), IdleRules::all);
    let job = Job {
        live: ports.as_ref(),
        oversubscribe: path.mapping.workers() > cpus.len(),
        audit: args.audit,
        kernels: loaded.kernels,
        replay: true,
        counting: Some(&counting),
        idle: &idle,
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
    let p99 = outcome.report.latency.p99.clone();
    let record = record(outcome.report, provenance, &loaded, cpus.len());
    let Body::Run(run) = &record.body else { unreachable!("a run's record contains a run") };
    let rate = run.sustained_kpps(&record.provenance);
    let is_aside = matches!(&path.sink, Sink::Capture { file, .. } if file == "-");
    let printed =
        emit::emit(Forms::from(&common.output).of_path(&args.path).aside(is_aside), &record);
    also(printed, write_kept(&path.sink, &outcome.kept))?;
    // Live traffic has no natural end, so an interrupted run is complete.
    if interrupted && !is_live(path) {
        return Err(Failure::new(INTERRUPTED));
    }
    let met = goal::reaches(loaded.goal_kpps, &rate, run)?;
    goal::is_prompt(met, &p99, common.p99, &goal::Advice::RUN)
}

/// Opens the path's interfaces, if it has any, and then drops the privilege to open more.
fn open_ports(path: &Path, progress: &Progress) -> Result<Option<Ports>, Failure> {
    let ports = Ports::open(path, &path.mapping).map_err(Failure::new)?;
    if let Some(ports) = &ports {
        for name in ports.promiscuous() {
            progress.step(&format!("{name}: in promiscuous mode during the run"));
        }
        linerate_linux::drop_network_rights().map_err(Failure::new)?;
    }
    Ok(ports)
}

/// Returns the record of a run, including its diagnosis.
fn record(report: RunReport, provenance: Provenance, loaded: &Loaded, cpus: usize) -> Record {
    let path = &loaded.path;
    let of_workers: Vec<u32> = report.workers.iter().map(|worker| worker.cpu).collect();
    let home = home(path, &loaded.traffic, &path.mapping, &machine::memory(&of_workers));
    let finding = diagnose(&report);
    let causes = match &report.failure {
        Some(_) => Vec::new(),
        None => explain_run(&report, &finding, &provenance),
    };
    let report = RunReport {
        goal_kpps: loaded.goal_kpps,
        causes,
        finding: Some(finding),
        kernel_advice: advise(&report),
        cpus_available: Some(cpus as u32),
        packets_home: (!is_live(path)).then(|| packets_home(&home)),
        ..report
    };
    Record { provenance, body: Body::Run(Box::new(report)) }
}

/// Returns the error message of a failed run. If a stage failed, first prints the profile up to
/// the failure.
fn failed(
    common: &Common,
    error: RunError,
    provenance: Provenance,
    loaded: &Loaded,
    cpus: usize,
) -> Failure {
    let message = error.to_string();
    if let RunError::StageFailed { report, .. } = error {
        let record = record(*report, provenance, loaded, cpus);
        linerate_linux::crash::reported();
        let printed = emit::emit(&common.output, &record);
        if let Err(failure) = printed {
            return Failure::new(format!("{message}; and {failure}"));
        }
    }
    Failure::new(message)
}

fn checked(loaded: &Loaded) -> String {
    let (path, traffic) = (&loaded.path, &loaded.traffic);
    let text = format!(
        "{}: {}, {}: {}\n",
        path.name,
        counted(path.stages.len() as u64, "stage"),
        counted(path.mapping.workers() as u64, "worker"),
        describe(&path.mapping, &path.stages),
    ) + &branches(path);
    if is_live(path) {
        return text + &live(path);
    }
    let packets = counted(traffic.len() as u64, "packet");
    let packets = format!("{packets} of {:.1} bytes on average\n", traffic.mean_bytes());
    text + &packets + &left_out(traffic.input()) + &loopback(path, traffic)
}

/// Returns a warning if a stage would drop most packets because of their loopback addresses, or
/// else an empty string.
fn loopback(path: &Path, traffic: &Traffic) -> String {
    let Some(stage) = path.stages.iter().find(|stage| stage.kind == "forward") else {
        return String::new();
    };
    let is_loopback = |frame: &&[u8]| {
        const IPV4: [u8; 2] = [0x08, 0x00];
        const NETWORK: u8 = 127;
        let has = |at: usize| frame.get(at) == Some(&NETWORK);
        // The first bytes of the IPv4 source and destination addresses.
        frame.get(12..14) == Some(&IPV4[..]) && (has(26) || has(30))
    };
    let found = (0..traffic.len()).map(|i| traffic.frame(i)).filter(is_loopback).count();
    let share = found as f64 / traffic.len().max(1) as f64;
    if share < 0.5 {
        return String::new();
    }
    format!(
        "warning: {:.1} % of the packets have loopback addresses, which `{}` drops (martian): \
         {}\n",
        100.0 * share,
        stage.name,
        DeadEnd::NO_ROUTER
    )
}

/// Returns the stages that are restricted to a class of packets, with the name of that class.
fn restricted(path: &Path) -> impl Iterator<Item = (&str, &'static str)> {
    let restricted = path.stages.iter().filter(|stage| stage.only != PacketClass::All);
    restricted.map(|stage| (stage.name.as_str(), stage.only.word()))
}

/// Lists the stages that are restricted to a class of packets; empty if there are none.
fn branches(path: &Path) -> String {
    let all: Vec<String> =
        restricted(path).map(|(stage, only)| format!("{stage} (only {only})")).collect();
    if all.is_empty() { String::new() } else { format!("branches: {}\n", all.join(", ")) }
}

/// Lists the interfaces that the path receives packets from, without opening them.
fn live(path: &Path) -> String {
    let ports = path.source.ports().iter();
    let names = ports.map(|port| format!("{} ({})", port.interface, port.io.word()));
    format!("live packets from {}\n", names.collect::<Vec<_>>().join(" and "))
}

/// Returns the result of `--check` as JSON.
fn checked_as_json(loaded: &Loaded) -> String {
    let (path, traffic) = (&loaded.path, &loaded.traffic);
    let found = json!({
        "path": path.name,
        "stages": path.stages.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>(),
        "only": restricted(path).collect::<BTreeMap<_, _>>(),
        "workers": path.mapping.workers(),
        "mapping": describe(&path.mapping, &path.stages),
        "packets": (!is_live(path)).then(|| traffic.len()),
        "mean_bytes": (!is_live(path)).then(|| traffic.mean_bytes()),
        "input": traffic.input(),
    });
    format!("{found:#}\n")
}

/// Describes the repaired and the skipped packets of the input. For skipped packets, adds their
/// share of the bytes and a remedy.
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
