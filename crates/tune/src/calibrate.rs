// SPDX-License-Identifier: MIT OR Apache-2.0
//! The second step of a tuning session: measures the costs that predictions are based on. These are
//! the costs of stages, CPU sharing, rings and bursts on this machine.
//!
//! None of these runs uses a candidate mapping. Candidates use all CPUs and are limited by the
//! slowest one, so all costs are measured on the slowest CPU while all CPUs are busy: CPUs that a
//! run leaves free process separate packets as background load. Costs thus include contention
//! between CPUs (for execution units, caches, clock frequency). An earlier version measured costs
//! on an otherwise idle machine and applied a correction factor. On a host whose guests share
//! cores, one virtual CPU alternated between 1.0 and 0.7 of full speed from second to second while
//! the other always ran at 0.7, so the factor and the costs were measured under different
//! conditions (errors up to 37 %).
//!
//! The cost of a ring is measured on a separate path of two stages, `parse` and `verify` (which
//! reads every byte), with the actual path's traffic. The path runs once on a single worker
//! (merged), and twice with a ring between the stages (split): with the producer on the slowest
//! CPU, and with the consumer there.
//!
//! ```text
//! producer = ring out + source(split) - source(merged) + parse(split) - parse(merged)
//! consumer = ring in  + verify(split) - verify(merged) + sink(split) - sink(merged)
//! ```
//!
//! Each difference is thus of one CPU, the slowest. With a single split run, the cost of the
//! consumer included the difference in speed of two CPUs, which on big and little cores is larger
//! than the cost of the ring.

use crate::bench::{Bench, kernels};
use crate::error::TuneError;
use crate::measure::Measured;
use linerate_dataplane::coupled_share;
use linerate_machine::topology::Topology;
use linerate_path::model::{Mapping, Segment};
use linerate_plan::costs::{Costs, MemoryCheck, MemoryStage};
use linerate_plan::model::{DRIFT_ALONE, DRIFT_SHARED, Environment, Handover, unmeasured_burst};
use linerate_record::run::{RunReport, WorkerReport};
use linerate_record::stats::Estimate;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Length of the run that yields the costs, in seconds.
const COSTS_SECONDS: f64 = 0.8;

/// Length of every other calibration run, in seconds. There are eight: one to find the slowest CPU,
/// three for memory-bound stages, one for another burst size, three for the ring.
const RUN_SECONDS: f64 = 0.25;

/// Total length of the calibration runs, in seconds.
pub(crate) const SECONDS: f64 = COSTS_SECONDS + 8.0 * RUN_SECONDS;

/// Number of packets that each queue of the source repeats to make stage lookups hit in L1 or L2.
/// Small enough for the data of one or two lookups per packet to fit in L2, but too large for
/// branch predictors to memorize. On the edge path, `verify`, which does not wait for memory,
/// became 3.5 times cheaper with 64 packets, but only 1.4 times with 1024.
const HOT_PACKETS: usize = 1_024;

/// Measured costs that predictions are based on.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Stage costs on the slowest CPU while all CPUs are busy.
    pub costs: Costs,
    /// Machine properties, and costs that depend on the machine rather than the stages.
    pub machine: Environment,
    /// Kernels that the stages called.
    pub kernels: String,
}

impl Calibration {
    /// Returns the speed of a CPU with all CPUs busy, relative to its speed when costs were
    /// measured. This is 1, since all CPUs were busy then too.
    pub(crate) fn scaling() -> Estimate {
        Estimate::exactly(1.0)
    }
}

/// Measures the costs that predictions are based on, with the kernels that candidates will use.
pub(crate) fn calibrate(bench: &Bench<'_>, measured: &Measured) -> Result<Calibration, TuneError> {
    let bench = bench.with(kernels(measured.kernels_to_try()).unwrap_or(bench.kernels));
    bench.progress.step("calibrating");
    let (costs, machine) = costs_and_machine(&bench, &measured.mapping)?;
    Ok(Calibration { costs, machine, kernels: bench.kernels.name().to_owned() })
}

/// Measures stage costs under `mapping`, and the machine properties required by the model.
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
    let machine = Environment {
        ticks_per_s: loaded.ticks_per_s,
        cpus,
        handover: handover(bench, loaded.ticks_per_s),
        burst_ticks: burst_ticks(bench, &mapping, &costs, loaded.ticks_per_s),
        scaling: Calibration::scaling(),
        drift: if bench.is_guest { DRIFT_SHARED } else { DRIFT_ALONE },
        largest_share: largest_shares(&buckets, cpus as u32, bench.watch().stop()),
    };
    Ok((costs, machine))
}

/// Returns the load share of the limiting replica for 1, 2, ... `most` replicas, given the bucket
/// of each frame. Stops early, with fewer values, once `stop` is set. With 64 replicas and a large
/// capture, the computation takes tens of seconds of CPU time, so a few threads share it.
fn largest_shares(buckets: &[u8], most: u32, stop: &AtomicBool) -> Vec<f64> {
    const THREADS: u32 = 8;
    let next = AtomicU32::new(1);
    let run = || -> Vec<(u32, f64)> {
        let numbers = std::iter::from_fn(|| {
            let replicas = next.fetch_add(1, Ordering::Relaxed);
            Some(replicas).filter(|_| replicas <= most && !stop.load(Ordering::Relaxed))
        });
        numbers.map(|replicas| (replicas, coupled_share(buckets, replicas))).collect()
    };
    let mut shares: Vec<(u32, f64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..most.min(THREADS)).map(|_| scope.spawn(run)).collect();
        // A panic there is a panic here.
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    });
    shares.sort_by_key(|(replicas, _)| *replicas);
    // Threads that stop may leave gaps; only what precedes the first is at its place.
    let complete = shares.into_iter().zip(1..).take_while(|((replicas, _), n)| replicas == n);
    complete.map(|((_, share), _)| share).collect()
}

/// Finds memory-bound stages: those that are faster in both of two alternating trials when the
/// source repeats a few packets. One trial is not enough, because a CPU that changes its clock
/// frequency between the two runs of a trial makes every stage look memory-bound.
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

/// Returns the CPUs, starting with the one that processed packets most slowly while all were busy,
/// followed by the others as [`starting_with`] orders them. Replicas get equal shares of packets,
/// so the slowest CPU is the bottleneck. If the host gives a full core to one vCPU and half a core
/// to another, the vCPUs run at 1.0 and 0.7 of full speed.
fn slowest_first(bench: &Bench<'_>) -> Vec<u32> {
    let cpus = bench.cpus.to_vec();
    if cpus.len() < 2 {
        return cpus;
    }
    let path = bench.packet_work;
    let mut all = Mapping::merged(path.stages.len());
    all.segments[0].replicas = cpus.len() as u32;
    let Ok(run) = bench.run(path, &all, path.run.burst, RUN_SECONDS, None) else { return cpus };
    let ticks = |worker: &WorkerReport| worker.ticks_per_packet.as_number().unwrap_or(0.0);
    let slowest = run.workers.iter().max_by(|a, b| ticks(a).total_cmp(&ticks(b)));
    match slowest.map(|worker| worker.cpu).filter(|cpu| cpus.contains(cpu)) {
        Some(slowest) => starting_with(slowest, &Topology::read(&cpus)),
        None => cpus,
    }
}

/// Returns the CPUs, starting with `first`. The others keep their order, except that those that
/// share its L3 cache come first, as in mappings of few workers, and its SMT siblings last. A ring
/// between siblings costs less than one between cores.
fn starting_with(first: u32, topology: &Topology) -> Vec<u32> {
    let own = topology.cpus.iter().find(|cpu| cpu.number == first);
    let siblings = own.and_then(|cpu| cpu.siblings.as_deref().ok()).unwrap_or_default();
    let near = own.and_then(|cpu| cpu.l3_group().ok()).unwrap_or_default();
    let mut cpus: Vec<u32> = topology.cpus.iter().map(|cpu| cpu.number).collect();
    cpus.sort_by_key(|cpu| (*cpu != first, siblings.contains(cpu), !near.contains(cpu)));
    cpus
}

/// Returns the ticks per packet of one step of a worker, by name: a stage, source, sink or ring
/// end.
fn part(run: &RunReport, worker: usize, name: &str) -> Option<Estimate> {
    let stages = &run.workers.get(worker)?.stages;
    stages.iter().find(|stage| stage.name == name)?.ticks_per_packet.estimate()
}

/// Returns `base` plus all differences `split - merged` in `pairs`, but at least 0. Interval ends
/// are added too (worst case). `None` if a value is missing.
fn added(
    base: Option<Estimate>,
    pairs: &[(Option<Estimate>, Option<Estimate>)],
) -> Option<Estimate> {
    let add = |sum: Estimate, &(split, merged): &(Option<Estimate>, Option<Estimate>)| {
        Some(sum.plus(split?.minus(merged?)))
    };
    Some(pairs.iter().try_fold(base?, add)?.at_least_zero())
}

/// Returns the cost of a ring between two CPUs, or an assumed cost if it cannot be measured.
fn handover(bench: &Bench<'_>, ticks_per_s: f64) -> Handover {
    let burst = bench.path.run.burst;
    let measured = (bench.cpus.len() > 1).then(|| measured_handover(bench, burst)).flatten();
    measured.unwrap_or_else(|| Handover::unmeasured(ticks_per_s, burst))
}

fn measured_handover(bench: &Bench<'_>, burst: u32) -> Option<Handover> {
    let path = bench.packet_work;
    let run = |mapping: &Mapping, cpus: &[u32]| {
        bench.on(cpus).run_loaded(path, mapping, burst, RUN_SECONDS, None).ok()
    };
    ring_cost(run, bench.cpus, burst)
}

/// Measures both ends of a ring on the first CPU. `run` runs the path with a mapping, whose workers
/// get the CPUs in order.
fn ring_cost(
    run: impl Fn(&Mapping, &[u32]) -> Option<RunReport>,
    cpus: &[u32],
    burst: u32,
) -> Option<Handover> {
    let segment = |stages| Segment { stages, replicas: 1, cpus: Vec::new() };
    let halves = Mapping { segments: vec![segment(0..1), segment(1..2)] };
    let mut exchanged = cpus.to_vec();
    exchanged.get_mut(..2)?.reverse();
    let merged = run(&Mapping::merged(2), cpus)?;
    let producing = run(&halves, cpus)?;
    let consuming = run(&halves, &exchanged)?;
    let pair = |split, worker, name| (part(split, worker, name), part(&merged, 0, name));
    let producer = [pair(&producing, 0, "source"), pair(&producing, 0, "parse")];
    let consumer = [pair(&consuming, 1, "verify"), pair(&consuming, 1, "sink")];
    Some(Handover {
        producer_ticks: added(part(&producing, 0, "ring out"), &producer)?,
        consumer_ticks: added(part(&consuming, 1, "ring in"), &consumer)?,
        burst,
    })
}

/// Returns the fixed cost per burst, summed over the steps of a worker. Derived from the total cost
/// at two burst sizes, since `t(b) = per packet + per burst / b`. Returns an assumed cost if it
/// cannot be measured.
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

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_machine::Error;
    use linerate_machine::topology::{Cache, CacheKind, Cpu};
    use linerate_record::run::StageReport;
    use linerate_record::{Figure, Tier, fixtures};

    /// Returns a run on CPUs of which the first takes twice as long as the others for everything.
    fn run_on_unequal_cpus(mapping: &Mapping, cpus: &[u32]) -> Option<RunReport> {
        let stage = |cpu: u32, name: &str, ticks: f64| {
            let ticks = Estimate::exactly(if cpu == 0 { 2.0 * ticks } else { ticks });
            StageReport {
                name: name.to_owned(),
                ticks_per_packet: Figure::number("ticks/packet", ticks, Tier::Sw, "synthetic"),
                ..fixtures::stage()
            }
        };
        let worker = |cpu: u32, stages: &[(&str, f64)]| WorkerReport {
            stages: stages.iter().map(|(name, ticks)| stage(cpu, name, *ticks)).collect(),
            ..fixtures::worker()
        };
        let merged = [("source", 20.0), ("parse", 10.0), ("verify", 50.0), ("sink", 15.0)];
        // Behind a ring, the bytes that `verify` reads are in another core's cache.
        let producer = [("source", 20.0), ("parse", 11.0), ("ring out", 4.0)];
        let consumer = [("ring in", 6.0), ("verify", 52.0), ("sink", 15.0)];
        let workers = match mapping.segments.len() {
            1 => vec![worker(cpus[0], &merged)],
            _ => vec![worker(cpus[0], &producer), worker(cpus[1], &consumer)],
        };
        Some(RunReport { workers, ..fixtures::run() })
    }

    #[test]
    fn both_ends_of_a_ring_are_measured_on_the_same_cpu() {
        for (cpus, speed) in [([0, 1], 2.0), ([1, 2], 1.0)] {
            let cost = ring_cost(run_on_unequal_cpus, &cpus, 32).expect("two CPUs");
            assert_eq!(cost.producer_ticks.value, speed * (4.0 + 1.0));
            assert_eq!(cost.consumer_ticks.value, speed * (6.0 + 2.0));
        }
        assert!(ring_cost(run_on_unequal_cpus, &[0], 32).is_none());
    }

    /// Returns the topology of CPUs of which each entry of `cores` and `caches` lists those that
    /// share a core and an L3 cache.
    fn topology(cpus: &[u32], cores: &[&[u32]], caches: &[&[u32]]) -> Topology {
        let of = |groups: &[&[u32]], number: u32| {
            let group = groups.iter().find(|group| group.contains(&number));
            group
                .map(|group| group.to_vec())
                .ok_or_else(|| Error::File { path: String::new(), reason: "unknown".to_owned() })
        };
        let l3 = |number| Cache {
            level: 3,
            kind: CacheKind::Unified,
            bytes: Ok(1 << 25),
            line_bytes: Ok(64),
            ways: Ok(16),
            shared_by: of(caches, number),
        };
        let cpu = |number: u32| Cpu {
            number,
            core: Ok(number),
            package: Ok(0),
            siblings: of(cores, number),
            caches: Ok(vec![l3(number)]),
        };
        Topology { cpus: cpus.iter().map(|number| cpu(*number)).collect() }
    }

    #[test]
    fn the_second_cpu_is_near_the_slowest_but_not_on_its_core() {
        let threads = topology(&[0, 1, 2, 3], &[&[0, 2], &[1, 3]], &[&[0, 1, 2, 3]]);
        assert_eq!(starting_with(3, &threads), [3, 0, 2, 1]);
        let cores: [&[u32]; 6] = [&[0], &[1], &[2], &[3], &[4], &[5]];
        let two_caches = topology(&[0, 1, 2, 3, 4, 5], &cores, &[&[0, 1, 2], &[3, 4, 5]]);
        assert_eq!(starting_with(4, &two_caches), [4, 3, 5, 0, 1, 2]);
        let unknown = topology(&[2, 0, 1], &[], &[]);
        assert_eq!(starting_with(1, &unknown), [1, 2, 0]);
    }

    #[test]
    fn threads_find_the_same_shares_in_order() {
        let buckets: Vec<u8> = (0..3_000_u32).map(|n| (n * n % 127) as u8).collect();
        let one_by_one: Vec<f64> =
            (1..=20).map(|replicas| coupled_share(&buckets, replicas)).collect();
        let running = AtomicBool::new(false);
        assert_eq!(largest_shares(&buckets, 20, &running), one_by_one);
        assert!(largest_shares(&buckets, 20, &AtomicBool::new(true)).is_empty());
        assert!(one_by_one[0] == 1.0 && one_by_one[19] < 0.2, "{one_by_one:?}");
    }
}
