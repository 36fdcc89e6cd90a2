// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a prediction must know of the machine and the traffic beside the costs of the stages: how
//! processors slow each other down, what a ring costs, what a burst costs.
//!
//! None of it runs a candidate. A ring is measured on a path of its own (`parse` and `verify`,
//! which reads every octet on the far side), with the traffic of the path at hand, once merged and
//! once with a ring in between:
//!
//! ```text
//! producer = ring out + source(split) - source(merged) + parse(split) - parse(merged)
//! consumer = ring in  + verify(split) - verify(merged) + sink(split) - sink(merged)
//! ```

use crate::figures::estimate;
use crate::tune::Bench;
use linerate_dataplane::bucket::largest_share;
use linerate_path::check::read;
use linerate_path::model::{Mapping, Path, Segment};
use linerate_plan::costs::{Costs, MemoryCheck};
use linerate_plan::model::{Environment, Handover};
use linerate_record::run::RunReport;
use linerate_record::stats::{Estimate, median};

/// Length of one calibrating run, in seconds.
const RUN_SECONDS: f64 = 0.25;

/// Turns in which packet work runs alone and beside its like, and the length of one run in them.
const TURNS: usize = 4;
const TURN_SECONDS: f64 = 0.12;

/// All calibrating runs, in seconds: a confined one, another burst, two for the ring, the turns.
pub(crate) const SECONDS: f64 = 4.0 * RUN_SECONDS + 2.0 * TURNS as f64 * TURN_SECONDS;

/// Packets a queue repeats so that what the stages look up stays near. Few enough for a look-up or
/// two each to fit the second-level cache; many enough not to be learnt by heart by the branch
/// predictors: on the edge path 64 packets made `verify`, which waits for no memory, 3.5 times
/// cheaper, 1024 only 1.4 times.
const HOT_PACKETS: usize = 1_024;

/// A ring's path; the source and the buffers of the path at hand replace its own.
const RING_PATH: &str = "\
[source]\nkind = \"generator\"\n[[stage]]\nkind = \"parse\"\n[[stage]]\nkind = \"verify\"\n";

/// What is known exactly.
fn exactly(value: f64) -> Estimate {
    Estimate { value, low: value, high: value, confidence: 0.95, n: 1 }
}

/// Marks in `costs` the stages that wait for memory, by a run whose source repeats a few packets.
pub(crate) fn check_memory(
    bench: &Bench<'_>,
    mapping: &Mapping,
    baseline: &RunReport,
    costs: &mut Costs,
) {
    let burst = bench.path.run.burst;
    if let Ok(hot) = bench.run(bench.path, mapping, burst, RUN_SECONDS, Some(HOT_PACKETS)) {
        costs.apply(&MemoryCheck::compare(baseline, &hot));
    }
}

/// The machine as the model sees it.
pub(crate) fn environment(bench: &Bench<'_>, mapping: &Mapping, costs: &Costs) -> Environment {
    let cpus = bench.cpus.len();
    let weights = bench.traffic.bucket_weights();
    Environment {
        ticks_per_second: linerate_machine::ticks::ticks_per_second(),
        cpus,
        scaling: scaling(bench),
        handover: handover(bench),
        burst_ticks: burst_ticks(bench, mapping, costs),
        largest_share: (1..=cpus as u32)
            .map(|replicas| largest_share(&weights, replicas))
            .collect(),
    }
}

/// Speed of a processor when all are busy, over its speed alone, on packet work: the path of the
/// ring, on one strand and replicated on every processor, in turns. What processors share (the
/// units of one core, a cache, a clock) slows different code differently, so a loop of arithmetic
/// would not do: where packet work ran at 0.73 of its speed, such a loop ran at 1.00.
///
/// The interval is the spread of the turns: a host that moves virtual processors shows in it. Where
/// nothing can be measured: anything from two hardware threads of one core to processors that share
/// nothing.
fn scaling(bench: &Bench<'_>) -> Estimate {
    let unknown = Estimate { value: 0.85, low: 0.6, high: 1.0, confidence: 0.9, n: 0 };
    if bench.cpus.len() < 2 {
        return exactly(1.0);
    }
    let Some(path) = ring_path(bench.path) else { return unknown };
    let alone = Mapping::merged(path.stages.len());
    let mut together = alone.clone();
    together.segments[0].replicas = bench.cpus.len() as u32;
    let cost = |mapping| {
        let run = bench.run(&path, mapping, bench.path.run.burst, TURN_SECONDS, None).ok()?;
        let ticks = run.strands.iter().map(|strand| strand.ticks_per_packet.as_number());
        let ticks: Option<Vec<f64>> = ticks.collect();
        ticks.map(|ticks| ticks.iter().sum::<f64>() / ticks.len() as f64)
    };
    let turn = |_| Some(cost(&alone)? / cost(&together)?);
    let ratios: Vec<f64> = (0..TURNS).filter_map(turn).collect();
    let ends = ratios.iter().fold((f64::INFINITY, 0.0), |(l, h), r| (r.min(l), r.max(h)));
    let (Some(value), (low, high)) = (median(&ratios), ends) else { return unknown };
    Estimate { value, low, high, confidence: 0.9, n: ratios.len() as u64 }
}

/// Ticks per packet of a part of a strand.
fn part(run: &RunReport, strand: usize, name: &str) -> Option<Estimate> {
    let stages = &run.strands.get(strand)?.stages;
    estimate(&stages.iter().find(|stage| stage.name == name)?.ticks_per_packet)
}

/// `base + sum of (split - merged)`, at least 0; the ends of the intervals add up.
fn added(
    base: Option<Estimate>,
    pairs: &[(Option<Estimate>, Option<Estimate>)],
) -> Option<Estimate> {
    let mut sum = base?;
    for &(split, merged) in pairs {
        let (split, merged) = (split?, merged?);
        sum.value += split.value - merged.value;
        sum.low += split.low - merged.high;
        sum.high += split.high - merged.low;
    }
    let [value, low, high] = [sum.value, sum.low, sum.high].map(|ticks| ticks.max(0.0));
    Some(Estimate { value, low, high, ..sum })
}

/// What a ring costs between two of the processors. Where it cannot be measured: from the cheapest
/// hand-over seen between near processors to the dearest between far ones.
fn handover(bench: &Bench<'_>) -> Handover {
    let burst = bench.path.run.burst;
    let unknown = Estimate { value: 40.0, low: 5.0, high: 150.0, confidence: 0.95, n: 0 };
    let unknown = Handover { producer_ticks: unknown, consumer_ticks: unknown, burst };
    if bench.cpus.len() < 2 {
        return unknown;
    }
    measured_handover(bench, burst).unwrap_or(unknown)
}

fn measured_handover(bench: &Bench<'_>, burst: u32) -> Option<Handover> {
    let path = ring_path(bench.path)?;
    let segment = |stages| Segment { stages, replicas: 1, cpus: Vec::new() };
    let halves = Mapping { segments: vec![segment(0..1), segment(1..2)] };
    let merged = bench.run(&path, &Mapping::merged(2), burst, RUN_SECONDS, None).ok()?;
    let split = bench.run(&path, &halves, burst, RUN_SECONDS, None).ok()?;
    let pair = |strand, name| (part(&split, strand, name), part(&merged, 0, name));
    let producer = added(part(&split, 0, "ring out"), &[pair(0, "source"), pair(0, "parse")])?;
    let consumer = added(part(&split, 1, "ring in"), &[pair(1, "verify"), pair(1, "sink")])?;
    Some(Handover { producer_ticks: producer, consumer_ticks: consumer, burst })
}

fn ring_path(of: &Path) -> Option<Path> {
    let mut path = read(RING_PATH, "ring", &linerate_stages::specs()).ok()?.path;
    path.source = of.source.clone();
    path.run = of.run;
    Some(path)
}

/// What a burst costs whatever its size, over all parts of a strand: from the total cost at another
/// size, `t(b) = per packet + per burst / b`.
fn burst_ticks(bench: &Bench<'_>, mapping: &Mapping, costs: &Costs) -> Estimate {
    let burst = bench.path.run.burst;
    let other = if burst >= 16 { burst / 4 } else { burst * 4 };
    let unknown = Estimate { value: 150.0, low: 0.0, high: 600.0, confidence: 0.95, n: 0 };
    let measured = || {
        let run = bench.run(bench.path, mapping, other, RUN_SECONDS, None).ok()?;
        let there = Costs::from_run(&run, bench.path, other).ok()?;
        let steps = 1.0 / f64::from(other) - 1.0 / f64::from(burst);
        let (here, there) = (total(costs), total(&there));
        let ends = [(there.low - here.high) / steps, (there.high - here.low) / steps];
        Some(Estimate {
            value: ((there.value - here.value) / steps).max(0.0),
            low: ends[0].min(ends[1]).max(0.0),
            high: ends[0].max(ends[1]).max(0.0),
            ..here
        })
    };
    measured().unwrap_or(unknown)
}

fn total(costs: &Costs) -> Estimate {
    let all = costs.stages.iter().chain([&costs.source, &costs.sink]).map(|cost| cost.ticks);
    all.fold(exactly(0.0), |a, b| Estimate {
        value: a.value + b.value,
        low: a.low + b.low,
        high: a.high + b.high,
        ..b
    })
}
