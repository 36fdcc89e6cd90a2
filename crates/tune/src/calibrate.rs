// SPDX-License-Identifier: MIT OR Apache-2.0
//! The second stage of a tuning measures the inputs of predictions: the costs of the stages, and
//! what CPU sharing, a ring and a burst cost on this machine.
//!
//! None of these runs uses a candidate mapping. Candidates use all processors and are as fast as
//! the slowest one, so everything is measured on the slowest processor while all processors are
//! busy: those that a run leaves free do separate packet work. Contention between CPUs (for
//! execution units, a cache, the clock frequency) is thus included in the costs. An earlier version
//! measured the costs on an otherwise idle machine and applied a correction factor: on a host that
//! shares cores between its guests, one virtual processor ran at 1.0 or 0.7 of full speed from one
//! second to the next and the other always at 0.7, so that the factor and the costs came from
//! different moments (errors up to 37 %).
//!
//! A ring is measured on a separate path (`parse` and `verify`, which reads every byte on the far
//! side), with the traffic of the actual path, once run to completion and once with a ring in
//! between:
//!
//! ```text
//! producer = ring out + source(split) - source(merged) + parse(split) - parse(merged)
//! consumer = ring in  + verify(split) - verify(merged) + sink(split) - sink(merged)
//! ```

use crate::bench::{Bench, kernels};
use crate::error::TuneError;
use crate::measure::Measured;
use linerate_dataplane::coupled_share;
use linerate_path::model::{Mapping, Segment};
use linerate_plan::costs::{Costs, MemoryCheck, MemoryStage};
use linerate_plan::model::{DRIFT_ALONE, DRIFT_SHARED, Environment, Handover, unmeasured_burst};
use linerate_record::run::{RunReport, WorkerReport};
use linerate_record::stats::Estimate;

/// Length of the run that yields the costs, in seconds.
const COSTS_SECONDS: f64 = 0.8;

/// Length of each other calibration run, in seconds. There are seven: one to find the slowest CPU,
/// three for memory-bound stages, one for another burst size, two for the ring.
const RUN_SECONDS: f64 = 0.25;

/// Total length of the calibration runs, in seconds.
pub(crate) const SECONDS: f64 = COSTS_SECONDS + 7.0 * RUN_SECONDS;

/// Number of packets that a queue repeats so that the stages' lookups hit the near caches. The
/// packets are few enough for one or two lookups per packet to fit in L2, and too many for the
/// branch predictors to memorize: on the edge path, 64 packets made `verify`, which does not wait
/// for memory, 3.5 times cheaper, 1024 only 1.4 times.
const HOT_PACKETS: usize = 1_024;

/// The measured costs on which predictions are based.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Costs of the stages.
    pub costs: Costs,
    /// Properties of the machine, and the costs that it adds to those of the stages.
    pub machine: Environment,
    /// Name of the kernels that the stages called.
    pub kernels: String,
}

impl Calibration {
    /// Returns the speed of a CPU with all CPUs busy, relative to its speed when the costs were
    /// measured. It is 1, since all CPUs were busy then too.
    pub(crate) fn scaling() -> Estimate {
        Estimate::exactly(1.0)
    }
}

/// Measures the costs on which predictions are based, with the kernels that the candidates will
/// use.
pub(crate) fn calibrate(bench: &Bench<'_>, measured: &Measured) -> Result<Calibration, TuneError> {
    let bench = bench.with(kernels(measured.kernels_to_try()).unwrap_or(bench.kernels));
    bench.progress.step("calibrating");
    let (costs, machine) = costs_and_machine(&bench, &measured.mapping)?;
    Ok(Calibration { costs, machine, kernels: bench.kernels.name().to_owned() })
}

/// Measures the costs of the stages under `mapping`, and the properties of the machine that the
/// model needs.
fn costs_and_machine(
    bench: &Bench<'_>,
    mapping: &Mapping,
) -> Result<(Costs, Environment), TuneError> {
    let cpus = slowest_first(bench);
    let bench = &bench.on(&cpus);
    let mut mapping = mapping.clone();
    mapping.segments.iter_mut().for_each(|segment| segment.cpus.clear());
    let (path, burst, cpus) = (bench.path, bench.path.run.burst, bench.cpus.len());
    let loaded = bench.run_loaded(path, &mapping, burst, COSTS_SECONDS, None)?;
    let mut costs = Costs::from_run(&loaded, path, burst).map_err(TuneError::Costs)?;
    if let Ok(check) = memory_check(bench, &mapping, &loaded) {
        costs.apply(&check);
    }
    let buckets: Vec<u8> = bench.traffic.frames().iter().map(|frame| frame.bucket).collect();
    let shares = (1..=cpus as u32).map(|replicas| coupled_share(&buckets, replicas));
    let machine = Environment {
        ticks_per_s: loaded.ticks_per_s,
        cpus,
        handover: handover(bench, loaded.ticks_per_s),
        burst_ticks: burst_ticks(bench, &mapping, &costs, loaded.ticks_per_s),
        scaling: Calibration::scaling(),
        drift: if bench.is_guest { DRIFT_SHARED } else { DRIFT_ALONE },
        largest_share: shares.collect(),
    };
    Ok((costs, machine))
}

/// Finds the memory-bound stages: those that are faster, in both of two alternating trials, when
/// the source repeats a few packets. A CPU that changes its clock frequency between two runs makes
/// every stage look memory-bound in one of the trials.
fn memory_check(
    bench: &Bench<'_>,
    mapping: &Mapping,
    loaded: &RunReport,
) -> Result<MemoryCheck, TuneError> {
    let burst = bench.path.run.burst;
    let run = |confine| bench.run_loaded(bench.path, mapping, burst, RUN_SECONDS, confine);
    let mut check = MemoryCheck::compare(loaded, &run(Some(HOT_PACKETS))?);
    let again = MemoryCheck::compare(&run(None)?, &run(Some(HOT_PACKETS))?);
    check.stages.retain(|stage| {
        let twice = |other: &MemoryStage| other.name == stage.name && other.is_memory_bound();
        !stage.is_memory_bound() || again.stages.iter().any(twice)
    });
    Ok(check)
}

/// Returns the CPUs, starting with the one on which packet work was slowest while all were busy.
/// Replicas take equal shares of the packets, so the slowest CPU is the bottleneck; a host that
/// gives one vCPU a full core and another half a core makes them 1.0 and 0.7 of full speed.
fn slowest_first(bench: &Bench<'_>) -> Vec<u32> {
    let mut cpus = bench.cpus.to_vec();
    if cpus.len() < 2 {
        return cpus;
    }
    let path = bench.packet_work;
    let mut all = Mapping::merged(path.stages.len());
    all.segments[0].replicas = cpus.len() as u32;
    if let Ok(run) = bench.run(path, &all, path.run.burst, RUN_SECONDS, None) {
        let ticks = |worker: &WorkerReport| worker.ticks_per_packet.as_number().unwrap_or(0.0);
        let slowest = run.workers.iter().max_by(|a, b| ticks(a).total_cmp(&ticks(b)));
        let slowest = slowest.and_then(|s| cpus.iter().position(|cpu| *cpu == s.cpu));
        cpus.swap(0, slowest.unwrap_or(0));
    }
    cpus
}

/// Returns the ticks per packet of one part of a worker: the stage, source, sink or ring end of
/// this name.
fn part(run: &RunReport, worker: usize, name: &str) -> Option<Estimate> {
    let stages = &run.workers.get(worker)?.stages;
    stages.iter().find(|stage| stage.name == name)?.ticks_per_packet.estimate()
}

/// Returns `base` plus the sum of all differences `split - merged` in `pairs`, but at least 0. The
/// ends of the intervals are added up. `None` if a value is missing.
fn added(
    base: Option<Estimate>,
    pairs: &[(Option<Estimate>, Option<Estimate>)],
) -> Option<Estimate> {
    let add = |sum: Estimate, &(split, merged): &(Option<Estimate>, Option<Estimate>)| {
        Some(sum.plus(split?.minus(merged?)))
    };
    Some(pairs.iter().try_fold(base?, add)?.at_least_zero())
}

/// Returns the cost of a ring between two of the processors, or an assumed cost if it cannot be
/// measured.
fn handover(bench: &Bench<'_>, ticks_per_s: f64) -> Handover {
    let burst = bench.path.run.burst;
    let measured = (bench.cpus.len() > 1).then(|| measured_handover(bench, burst)).flatten();
    measured.unwrap_or_else(|| Handover::unmeasured(ticks_per_s, burst))
}

fn measured_handover(bench: &Bench<'_>, burst: u32) -> Option<Handover> {
    let path = bench.packet_work;
    let segment = |stages| Segment { stages, replicas: 1, cpus: Vec::new() };
    let halves = Mapping { segments: vec![segment(0..1), segment(1..2)] };
    let merged = bench.run_loaded(path, &Mapping::merged(2), burst, RUN_SECONDS, None).ok()?;
    let split = bench.run_loaded(path, &halves, burst, RUN_SECONDS, None).ok()?;
    let pair = |worker, name| (part(&split, worker, name), part(&merged, 0, name));
    let producer = added(part(&split, 0, "ring out"), &[pair(0, "source"), pair(0, "parse")])?;
    let consumer = added(part(&split, 1, "ring in"), &[pair(1, "verify"), pair(1, "sink")])?;
    Some(Handover { producer_ticks: producer, consumer_ticks: consumer, burst })
}

/// Returns the fixed cost of a burst, over all parts of a worker. It is derived from the total cost
/// at two burst sizes, since `t(b) = per packet + per burst / b`. If that cannot be measured,
/// returns an assumed cost.
fn burst_ticks(bench: &Bench<'_>, mapping: &Mapping, costs: &Costs, ticks_per_s: f64) -> Estimate {
    let burst = bench.path.run.burst;
    let other = if burst >= 16 { burst / 4 } else { burst * 4 };
    let measured = || {
        let run = bench.run_loaded(bench.path, mapping, other, RUN_SECONDS, None).ok()?;
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
    measured().unwrap_or_else(|| unmeasured_burst(ticks_per_s))
}

fn total(costs: &Costs) -> Estimate {
    let all = costs.stages.iter().chain([&costs.source, &costs.sink]).map(|cost| cost.ticks);
    all.fold(Estimate::exactly(0.0), Estimate::plus)
}
