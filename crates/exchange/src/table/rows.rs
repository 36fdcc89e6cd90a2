// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the figures of any kind of record: first the figures for the whole record, then the
//! figures for its parts.

use super::Row;
use crate::CannotWrite;
use linerate_record::answers::{AnswersReport, Evidence};
use linerate_record::budget::BudgetReport;
use linerate_record::doctor::DoctorReport;
use linerate_record::kernels::{KernelsReport, State, Timing};
use linerate_record::memory::MemoryReport;
use linerate_record::plan::PlanReport;
use linerate_record::profile::ProfileReport;
use linerate_record::profile_diff::ProfileDiffReport;
use linerate_record::regions::RegionsReport;
use linerate_record::run::RunReport;
use linerate_record::stat::StatReport;
use linerate_record::strands::{StrandCounts, StrandsReport};
use linerate_record::stream::StreamReport;
use linerate_record::tcp::TcpReport;
use linerate_record::tune::TuneReport;
use linerate_record::why::WhyReport;
use linerate_record::{Body, Figure, Record, Tier};

/// Returns a record's figures: first the headline figures, then the figures of its parts.
///
/// # Errors
/// Returns an error if the record has no figures, such as a run record without workers.
pub fn rows(record: &Record) -> Result<Vec<Row>, CannotWrite> {
    let whole = record.figures();
    let mut rows: Vec<Row> = whole.iter().map(|(name, f)| row("", "", name, f)).collect();
    match &record.body {
        Body::Run(report) => of_run(report, &mut rows),
        Body::Tune(report) => of_tune(report, &mut rows),
        Body::Kernels(report) => of_kernels(report, &mut rows),
        Body::Stat(report) => of_stat(report, &mut rows),
        Body::Doctor(report) => of_doctor(report, &mut rows),
        Body::Regions(report) => of_regions(report, &mut rows),
        Body::Memory(report) => of_memory(report, &mut rows),
        Body::Budget(report) => of_budget(report, &mut rows),
        Body::Strands(report) => of_strands(report, &mut rows),
        Body::Answers(report) => of_answers(report, &mut rows),
        Body::Plan(report) => of_plan(report, &mut rows),
        Body::Stream(report) => of_stream(report, &mut rows),
        Body::Tcp(report) => of_tcp(report, &mut rows),
        Body::Why(report) => of_why(report, &mut rows),
        Body::Profile(report) => of_profile(report, &mut rows),
        Body::ProfileDiff(report) => of_profile_diff(report, &mut rows),
    }
    if rows.is_empty() {
        return Err(CannotWrite("the record has no named figures; use --json".to_owned()));
    }
    Ok(rows)
}

fn row(worker: &str, stage: &str, name: &str, figure: &Figure) -> Row {
    Row {
        worker: worker.to_owned(),
        stage: stage.to_owned(),
        name: name.to_owned(),
        figure: figure.clone(),
    }
}

fn of_run(run: &RunReport, rows: &mut Vec<Row>) {
    for worker in &run.workers {
        rows.push(row(&worker.name, "", "ticks_per_packet", &worker.ticks_per_packet));
        if let Some(time) = worker.time {
            let shares = [
                ("busy", time.busy),
                ("starved", time.starved),
                ("blocked", time.blocked),
                ("lost", time.lost),
            ];
            for (name, share) in shares {
                let figure = Figure::exact("ratio", share, Tier::Sw, "share of wall time");
                rows.push(row(&worker.name, "", name, &figure));
            }
        }
        for stage in &worker.stages {
            let put = |name: &str, figure: &Figure| row(&worker.name, &stage.name, name, figure);
            rows.push(put("ticks_per_packet", &stage.ticks_per_packet));
            rows.push(put("cycles_per_packet", &stage.cycles_per_packet));
            if let Some(kpps) = stage.kpps {
                let kpps = Figure::exact("kpps", kpps, Tier::Sw, "packets divided by time");
                rows.push(put("kpps", &kpps));
            }
            let events = stage.events.iter().flatten();
            rows.extend(events.map(|(name, figure)| put(&per_packet(name), figure)));
        }
    }
}

/// Returns the figure name for an event in a run: counts are per packet, ratios are not.
fn per_packet(name: &str) -> String {
    if name == "cpi" { name.to_owned() } else { format!("{name}_per_packet") }
}

fn of_tune(tune: &TuneReport, rows: &mut Vec<Row>) {
    of_run(&tune.tuned, rows);
    for candidate in &tune.candidates {
        let put = |name: &str, figure: &Figure| row("", &candidate.name, name, figure);
        rows.push(put("predicted_kpps", &candidate.predicted_kpps));
        rows.extend(candidate.measured_kpps.iter().map(|kpps| put("measured_kpps", kpps)));
        rows.extend(candidate.speedup.iter().map(|speedup| put("speedup", speedup)));
    }
}

/// Adds a row per kernel variant and case, with the cycles and the speed as a fraction of the
/// bound. The figure's name includes the buffer length, offsets and cache state.
fn of_kernels(report: &KernelsReport, rows: &mut Vec<Row>) {
    const METHOD: &str = "median of the rounds";
    for one in &report.rows {
        let length = match (one.size, one.mix) {
            (Some(size), _) => size.to_string(),
            (None, mix) => mix.map_or("", |mix| mix.name()).to_owned(),
        };
        let offset = |name: &str, offset: Option<u32>| match offset {
            Some(offset) if offset > 0 => format!("_{name}_{offset}"),
            _ => String::new(),
        };
        let (from, to) = (offset("src", one.src_offset), offset("dst", one.dst_offset));
        let latency = match (one.state, one.timing) {
            (State::Warm, Timing::Latency) => "_latency",
            _ => "",
        };
        let case = format!("{length}{from}{to}_{}{latency}", one.state);
        let figure = |unit: &str, [value, low, high]: [Option<f64>; 3]| match value {
            Some(value) => {
                Figure { n: one.n, low, high, ..Figure::exact(unit, value, Tier::Sw, METHOD) }
            }
            None => {
                let reason = one.reason.as_deref().unwrap_or("no bound was timed");
                Figure::absent(unit, Tier::Sw, METHOD, reason)
            }
        };
        let cycles = figure("cycles/call", [one.cycles, one.cycles_low, one.cycles_high]);
        let bound = figure("ratio", [one.of_bound, one.of_bound_low, one.of_bound_high]);
        let put = |name: &str, figure: &Figure| row(one.kernel.name(), &one.variant, name, figure);
        rows.push(put(&format!("{case}_cycles"), &cycles));
        rows.push(put(&format!("{case}_of_bound"), &bound));
    }
}

/// Adds the cost of each function and the share of each cost class. Functions and classes are in
/// the `stage` column, and modules in the `worker` column, because several modules may have a
/// `memcpy`.
fn of_profile(report: &ProfileReport, rows: &mut Vec<Row>) {
    for function in &report.functions {
        let put = |name: &str, figure| row(&function.module, &function.name, name, figure);
        rows.push(put("share", &function.share));
        if function.ns_per_packet.as_number().is_some() {
            rows.push(put("ns_per_packet", &function.ns_per_packet));
        }
    }
    for class in &report.classes {
        rows.push(row("", class.class.name(), "class_share", &class.share));
    }
}

fn of_profile_diff(report: &ProfileDiffReport, rows: &mut Vec<Row>) {
    for function in &report.functions {
        let cost = &function.cost;
        let figures = [("old", &cost.old), ("new", &cost.new), ("change", &cost.change)];
        let put = |(name, figure)| row(&function.module, &function.name, name, figure);
        rows.extend(figures.map(put));
    }
}

fn of_why(report: &WhyReport, rows: &mut Vec<Row>) {
    for thread in &report.observation.threads {
        let of = format!("{} {}", thread.tid, thread.name);
        rows.extend(thread.time.iter().map(|t| row(&of, "", t.state.name(), &t.share)));
        rows.push(row(&of, "", "busy", &thread.busy));
        rows.push(row(&of, "", "cost_ns", &thread.cost_ns));
    }
    for finding in &report.findings {
        rows.push(row("", finding.cause.name(), "gain_percent", &finding.gain.percent));
    }
    for remark in &report.remarks {
        let figures = remark.evidence.iter().map(|one| (&one.name, figure_of(one)));
        rows.extend(figures.map(|(name, figure)| row("", remark.id.name(), name, &figure)));
    }
}

/// Returns a remark's evidence as a figure. The number of samples behind it is not recorded.
fn figure_of(evidence: &Evidence) -> Figure {
    let Evidence { value, unit, source, low, high, .. } = evidence;
    Figure { low: *low, high: *high, ..Figure::exact(unit, *value, Tier::Sw, source) }
}

fn of_stream(report: &StreamReport, rows: &mut Vec<Row>) {
    for point in &report.points {
        let size = |bytes: Option<u64>| bytes.map_or("auto".to_owned(), |bytes| bytes.to_string());
        let of = format!(
            "buffer {} message {} connections {}",
            size(point.send_buffer_bytes),
            point.message_bytes,
            point.connections
        );
        rows.push(row("", &of, "gbps", &point.gbps));
        rows.push(row("", &of, "cpu_us_per_kb", &point.cpu_us_per_kb));
        rows.push(row("sender", &of, "cpu", &point.sender.cpu));
        rows.push(row("receiver", &of, "cpu", &point.receiver.cpu));
    }
    for method in &report.methods {
        rows.push(row("", &method.name, "speed", &method.speed));
        rows.push(row("", &method.name, "demand", &method.demand));
    }
}

/// Adds the event counts of each thread and of each time interval.
fn of_stat(report: &StatReport, rows: &mut Vec<Row>) {
    for thread in &report.threads {
        let of = format!("{} {}", thread.tid, thread.name);
        let counts = report.events.iter().zip(&thread.counts);
        rows.extend(counts.map(|(event, count)| row(&of, "", &event.name, count)));
    }
    for interval in &report.intervals {
        let of = format!("{} s to {} s", interval.from_s, interval.to_s);
        let counts = report.events.iter().zip(&interval.counts);
        rows.extend(counts.map(|(event, count)| row("", &of, &event.name, count)));
    }
}

fn of_doctor(report: &DoctorReport, rows: &mut Vec<Row>) {
    const METHOD: &str = "read from /proc and /sys, or probed";
    for observation in &report.observations {
        let figure = match &observation.value {
            Some(value) => Figure::text(value, Tier::Sw, METHOD),
            None => Figure::absent("text", Tier::Sw, METHOD, &observation.sentence),
        };
        rows.push(row("", "", &observation.name, &figure));
    }
}

fn of_regions(report: &RegionsReport, rows: &mut Vec<Row>) {
    for region in &report.regions {
        let thread = region.tid.to_string();
        let put = |name: &str, figure: &Figure| row(&thread, &region.name, name, figure);
        rows.push(put("ticks", &region.ticks));
        rows.push(put("own_ticks", &region.own_ticks));
        rows.extend(region.events.iter().map(|event| put(&event.name, &event.count)));
    }
}

/// Adds the costs of loads for each source of the address translation, and the latency and
/// bandwidth under load. Levels, TLBs and bandwidth without load are omitted, because they are
/// headline figures.
fn of_memory(report: &MemoryReport, rows: &mut Vec<Row>) {
    for cost in &report.costs {
        let tlb = match cost.tlb {
            linerate_record::memory::TlbState::Hit => "hit",
            linerate_record::memory::TlbState::MissL1 => "miss_l1",
            linerate_record::memory::TlbState::Walk => "walk",
        };
        let put = |name: &str, figure: &Figure| row(&cost.level, tlb, name, figure);
        rows.push(put("load_ns", &cost.ns));
        rows.push(put("load_cycles", &cost.cycles));
        rows.push(put("load_overlapped_ns", &cost.overlapped_ns));
    }
    for loaded in &report.loaded {
        let of = format!("{} readers, duty cycle {}", loaded.threads, loaded.duty);
        rows.push(row("memory", &of, "loaded_gb_per_s", &loaded.gb_per_s));
        rows.push(row("memory", &of, "loaded_latency_ns", &loaded.latency_ns));
    }
    for view in &report.os_view {
        rows.push(row(&view.name, "", "found_bytes", &view.found_bytes));
    }
}

fn of_budget(report: &BudgetReport, rows: &mut Vec<Row>) {
    const METHOD: &str = "frame size, line rate and clock";
    for one in &report.rows {
        let exact = |name: &str, unit: &str, value: f64| {
            row("", &one.name, name, &Figure::exact(unit, value, Tier::Model, METHOD))
        };
        rows.push(exact("frame_bytes", "B", one.frame_bytes));
        rows.push(exact("ns_per_packet", "ns", one.ns_per_packet));
        rows.push(exact("packets_per_s", "packets/s", one.packets_per_s));
        rows.push(exact("cycles_per_packet", "cycles", one.cycles_per_packet));
        rows.push(exact("cycles_of_all", "cycles", one.cycles_of_all));
        let instructions = one.instructions_per_packet;
        let name = "instructions_per_packet";
        rows.extend(instructions.map(|count| exact(name, "instructions", count)));
    }
}

fn of_strands(strands: &StrandsReport, rows: &mut Vec<Row>) {
    for worker in &strands.strands {
        let label = worker.label();
        let StrandCounts {
            kpps,
            ticks_per_packet,
            instructions_per_packet,
            cpi,
            ipc,
            events,
            nodes,
            ..
        } = worker;
        let own = [
            ("kpps", kpps),
            ("ticks_per_packet", ticks_per_packet),
            ("instructions_per_packet", instructions_per_packet),
            ("cpi", cpi),
            ("ipc", ipc),
        ];
        rows.extend(own.map(|(name, figure)| row(&label, "", name, figure)));
        for event in events {
            rows.push(row(&label, "", &event.name, &event.count));
            rows.push(row(&label, "", &format!("{}_per_packet", event.name), &event.per_packet));
            rows.push(row(&label, "", &format!("{}_pti", event.name), &event.pti));
        }
        for node in nodes {
            rows.push(row(&label, &node.name, "ticks_per_packet", &node.ticks_per_packet));
            rows.push(row(&label, &node.name, "packets_per_call", &node.packets_per_call));
        }
    }
}

/// Adds the evidence for each answer.
fn of_answers(report: &AnswersReport, rows: &mut Vec<Row>) {
    for answer in &report.answers {
        for one in &answer.evidence {
            let figure = Figure::exact(&one.unit, one.value, Tier::Model, &one.source);
            rows.push(row(&answer.id, "", &one.name, &figure));
        }
    }
}

fn of_plan(report: &PlanReport, rows: &mut Vec<Row>) {
    for worker in &report.workers {
        let put = |name: &str, figure: &Figure| row(&worker.name, "", name, figure);
        rows.push(put("utilisation", &worker.utilisation));
        rows.push(put("ns_per_packet", &worker.ns_per_packet));
        rows.push(put("cpi", &worker.cpi));
    }
    for one in &report.recommendations {
        rows.push(row("", &one.change, "predicted_kpps", &one.predicted_kpps));
        rows.push(row("", &one.change, "gain", &one.gain));
    }
}

/// Adds the figures of each set of routines under each traffic pattern, and the points of each
/// scaling law.
fn of_tcp(report: &TcpReport, rows: &mut Vec<Row>) {
    for stack in &report.stacks {
        for pattern in &stack.patterns {
            let of = format!("{} {}", stack.name, pattern.name);
            for set in &pattern.sets {
                let figures = [
                    ("gbps_per_cpu_s", &set.gbps_per_cpu_s),
                    ("segments_per_cpu_s", &set.segments_per_cpu_s),
                    ("exchanges_per_cpu_s", &set.exchanges_per_cpu_s),
                    ("ns_per_segment", &set.ns_per_segment),
                    ("round_trip_cpu_ns", &set.round_trip_cpu_ns),
                    ("round_trip_virtual_us", &set.round_trip_virtual_us),
                    ("of_bound", &set.of_bound),
                    ("over_c", &set.over_c),
                    ("over_scalar", &set.over_scalar),
                    ("share_checksum", &set.share_checksum),
                    ("share_copy", &set.share_copy),
                    ("share_copy_checksum", &set.share_copy_checksum),
                    ("checksum_per_payload", &set.checksum_per_payload),
                ];
                rows.extend(figures.map(|(name, figure)| row(&of, &set.name, name, figure)));
            }
        }
    }
    for law in &report.laws {
        for point in &law.points {
            let (loss, segment, round_trip) =
                (point.loss, point.segment_bytes, point.round_trip_ms);
            let of = format!("loss {loss}, segment {segment}, round trip {round_trip} ms");
            rows.push(row(&law.stack, &of, "mbps", &point.mbps));
        }
    }
}
