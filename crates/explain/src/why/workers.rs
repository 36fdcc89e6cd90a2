// SPDX-License-Identifier: MIT OR Apache-2.0
//! Diagnoses a run's workers using the time budgets, rules and causes of `why`. Workers measure
//! exactly what an observer can only estimate: whether they work or poll.

use super::explain;
use linerate_record::finding::{Finding, Limit};
use linerate_record::run::{RunReport, TimeShares, WorkerReport};
use linerate_record::why::{
    Cause, Gain, Observation, PacketCount, Quota, ThreadActivity, ThreadState, ThreadTime, Watched,
    WhyFinding,
};
use linerate_record::{Figure, Provenance, Tier};
use std::collections::BTreeMap;

/// Process ID of the run in the observation.
const PID: u32 = 0;

const METHOD: &str = "the worker's own time accounting and its run delay (schedstat)";

/// Explains what limits a run in terms of the causes of `why`, main cause first; never empty.
/// `finding` is the diagnosis from the profile of the run's stages.
/// `provenance` is that of the run's record.
pub fn explain_run(
    report: &RunReport,
    finding: &Finding,
    provenance: &Provenance,
) -> Vec<WhyFinding> {
    let mut findings = explain(&observe(report, provenance)).findings;
    // These rules are for programs whose internals are unknown; the profile is more precise.
    findings.retain(|finding| finding.cause.is_removable());
    let from_profile = of_profile(finding);
    // Preempted and stolen time is unrelated to the stages, so report both, the larger one first.
    let is_large =
        |one: &WhyFinding| one.gain.percent.as_number().is_some_and(|gain| gain >= LARGE_PERCENT);
    let at = findings.iter().take_while(|one| is_large(one)).count();
    findings.insert(at, from_profile);
    findings
}

/// Preempted or stolen time is reported ahead of the stages' work if eliminating it would gain at
/// least this much, in percent.
const LARGE_PERCENT: f64 = 5.0;

fn of_profile(finding: &Finding) -> WhyFinding {
    let (cause, fix, wrong_if) = match finding.limit {
        Limit::Processing => (
            Cause::ProcessingCost,
            Some("linerate tune PATH   # finds a better mapping and tries it".to_owned()),
            "removing that stage does not make the path faster",
        ),
        Limit::Offered => {
            (Cause::NothingWrong, None, "with a faster source, the rate does not rise")
        }
        Limit::Interface => (
            Cause::PathBandwidth,
            Some(Limit::FASTER_INTERFACE.to_owned()),
            "on a faster interface, the rate does not rise",
        ),
        Limit::CannotTell | Limit::Unknown => (
            Cause::CannotTell,
            Some("run longer, or on otherwise idle CPUs (--cpus)".to_owned()),
            "a longer run identifies the limiting worker",
        ),
    };
    let reason = "`tune` predicts the gain of a better mapping";
    WhyFinding {
        cause,
        sentence: finding.sentence.clone(),
        evidence: Vec::new(),
        gain: Gain {
            percent: Figure::absent("percent", Tier::Model, "stage profile", reason),
            then_limited_by: None,
        },
        fix,
        workaround: None,
        wrong_if: wrong_if.to_owned(),
    }
}

/// Converts a run's workers to observed threads.
fn observe(report: &RunReport, provenance: &Provenance) -> Observation {
    let is_held = report.held(provenance).is_some();
    let packets = report.processed_kpps.as_number();
    let threads = report.workers.iter().enumerate();
    Observation {
        watched: Watched {
            name: report.path.clone(),
            pids: vec![PID],
            interface: None,
            is_in_other_namespace: false,
            line_bits_per_s: report.line.map(|line| line.bits_per_s),
            is_command: false,
            ended: None,
            interrupted: report.interrupted,
        },
        elapsed_s: report.elapsed_s,
        slices: 1,
        threads: threads
            .filter_map(|(number, worker)| activity(report, number, worker, is_held))
            .collect(),
        threads_left_out: 0,
        ended_threads_cpus: None,
        ended_children_cpus: None,
        memory: None,
        full_descriptors: Vec::new(),
        requests: None,
        output_pipes: Vec::new(),
        file_writes: None,
        unix_clients: None,
        local_ports: None,
        sched_autogroup: None,
        quotas: if is_held { quotas(report) } else { Vec::new() },
        cpus: Vec::new(),
        interfaces: Vec::new(),
        protocols: BTreeMap::new(),
        sockets: Vec::new(),
        peers: Vec::new(),
        program: None,
        events: Vec::new(),
        shared_lines: Vec::new(),
        arrivals: None,
        last_level_cache_bytes: None,
        event_costs: None,
        packets: packets.map(|kpps| PacketCount {
            packets: (kpps * 1e3 * report.elapsed_s) as u64,
            bytes: None,
            counter: "processed by the path".to_owned(),
        }),
        packets_per_s: Vec::new(),
        observer: Figure::exact("CPUs", 0.0, Tier::Sw, "the workers measure themselves"),
        unread: Vec::new(),
    }
}

/// Returns the run's quotas, as those of the observed process.
fn quotas(report: &RunReport) -> Vec<Quota> {
    let quotas = report.quotas.iter().flatten();
    quotas.map(|quota| Quota { pids: vec![PID], ..quota.clone() }).collect()
}

fn activity(
    report: &RunReport,
    number: usize,
    worker: &WorkerReport,
    is_held: bool,
) -> Option<ThreadActivity> {
    let time = worker.time?;
    let running = time.busy + time.starved + time.blocked;
    let exact = |unit: &str, value: f64| Figure::exact(unit, value, Tier::Sw, METHOD);
    Some(ThreadActivity {
        pid: PID,
        tid: number as u32,
        name: format!("worker {}", worker.name),
        ran_on: vec![worker.cpu],
        allowed: vec![worker.cpu],
        elapsed_s: report.elapsed_s,
        time: worker_budget(report, worker, time, is_held),
        asleep_on: Vec::new(),
        ran_instead: Vec::new(),
        waits_us_log2: Vec::new(),
        voluntary_switches: 0,
        involuntary_switches: worker.involuntary_switches,
        minor_faults: 0,
        major_faults: 0,
        system_calls: None,
        functions: Vec::new(),
        samples: 0,
        busy: exact("ratio", time.busy / running.max(f64::MIN_POSITIVE)),
        cost_ns: worker.ticks_per_packet.scaled(1e9 / report.ticks_per_s, "ns/packet", METHOD),
        io_calls: None,
        lock_wait: None,
        memory: None,
        cipher_instructions: None,
        nice: None,
        policy: None,
        tracer: None,
        execs: None,
        sleep_samples: None,
    })
}

/// Returns a worker's time budget in the states used by `why`; the shares sum to 1. `is_held` says
/// whether a CPU quota throttled the workers.
///
/// Lost time that is neither run delay nor steal time is unaccounted: interrupts of the worker's
/// CPU, page faults, and iterations that took much longer than usual.
fn worker_budget(
    report: &RunReport,
    worker: &WorkerReport,
    time: TimeShares,
    is_held: bool,
) -> Vec<ThreadTime> {
    const OF_STOLEN: &str = "steal time of the worker's CPU (/proc/stat), capped at the lost time";
    const OF_THROTTLED: &str = "the worker's run delay (schedstat), capped at the cgroup's \
                                throttled time (cpu.stat)";
    let of_wall = |ns: u64| ns as f64 / (report.elapsed_s * 1e9);
    // Without the run delay, it is unknown whether another thread took the time.
    let delayed = worker.run_delay_ns.map_or(0.0, |ns| of_wall(ns).min(time.lost));
    let stolen = worker.stolen_ns.map_or(0.0, |ns| of_wall(ns).min(time.lost - delayed));
    let throttled = if is_held { throttled(report, delayed) } else { 0.0 };
    let states = [
        (ThreadState::Work, time.busy, METHOD),
        // Waiting for room in a ring is polling too: the worker retries until there is room.
        (ThreadState::Polling, time.starved + time.blocked, METHOD),
        (ThreadState::Waiting, delayed - throttled, METHOD),
        (ThreadState::Throttled, throttled, OF_THROTTLED),
        (ThreadState::Stolen, stolen, OF_STOLEN),
        (ThreadState::Unaccounted, time.unaccounted + time.lost - delayed - stolen, METHOD),
    ];
    let share = |(state, share, method)| ThreadTime {
        state,
        share: Figure::exact("ratio", share, Tier::Sw, method),
    };
    states.into_iter().map(share).collect()
}

/// Returns how much of a worker's run delay is due to the quota that throttled the workers, both
/// relative to wall time. A throttled thread is runnable, so throttled time is run delay.
fn throttled(report: &RunReport, delayed: f64) -> f64 {
    /// Throttled time in seconds that the counters may lack at either end of the run: the kernel
    /// adds the time when the throttling ends, up to a quota period of 100 ms later.
    const LAG_S: f64 = 0.1;
    let Some(quotas) = &report.quotas else { return delayed };
    // An outer group's quota also stops the groups within it.
    let longest = quotas.iter().map(|quota| quota.throttled_s).fold(0.0, f64::max);
    if (longest + LAG_S) / report.elapsed_s >= delayed {
        delayed
    } else {
        longest / report.elapsed_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::fixtures;

    fn run(lost: f64, run_delay_ns: Option<u64>) -> RunReport {
        let mut report = fixtures::run();
        report.elapsed_s = 1.0;
        for worker in &mut report.workers {
            let time =
                TimeShares { busy: 1.0 - lost, starved: 0.0, blocked: 0.0, lost, unaccounted: 0.0 };
            worker.time = Some(time);
            worker.run_delay_ns = run_delay_ns;
            worker.involuntary_switches = 100;
        }
        report
    }

    fn provenance() -> Provenance {
        Provenance { cpu_quota: None, ..fixtures::record("run").provenance }
    }

    fn finding(limit: Limit) -> Finding {
        let sentence = "as the profile says".to_owned();
        Finding { limit, bottleneck: None, worker: None, sentence }
    }

    #[test]
    fn a_worker_that_waits_for_its_cpu_has_the_cause_of_any_thread() {
        let causes = |report: &RunReport, limit| -> Vec<Cause> {
            explain_run(report, &finding(limit), &provenance())
                .iter()
                .map(|found| found.cause)
                .collect()
        };
        let contended = run(0.3, Some(300_000_000));
        let found = causes(&contended, Limit::Processing);
        assert_eq!(found[..2], [Cause::CpuContention, Cause::ProcessingCost]);
        let alone = run(0.0, Some(0));
        assert_eq!(causes(&alone, Limit::Processing), [Cause::ProcessingCost]);
        assert_eq!(causes(&alone, Limit::Offered), [Cause::NothingWrong]);
        assert_eq!(causes(&alone, Limit::Interface), [Cause::PathBandwidth]);
        assert_eq!(causes(&alone, Limit::CannotTell), [Cause::CannotTell]);
    }

    #[test]
    fn lost_time_is_stolen_only_as_far_as_the_kernel_says_so() {
        let first = |stolen_ns| {
            let mut report = run(0.3, Some(0));
            report.workers.iter_mut().for_each(|worker| worker.stolen_ns = stolen_ns);
            let found = explain_run(&report, &finding(Limit::Processing), &provenance());
            let budget = &observe(&report, &provenance()).threads[0];
            (found[0].cause, budget.share_of(|state| state == ThreadState::Stolen))
        };
        assert_eq!(first(Some(310_000_000)), (Cause::StolenCpu, 0.3));
        assert_eq!(first(Some(200_000_000)), (Cause::StolenCpu, 0.2));
        // Interrupts, or a kernel that does not report steal time.
        for unknown in [Some(0), None] {
            assert_eq!(first(unknown), (Cause::ProcessingCost, 0.0));
        }
    }

    #[test]
    fn a_worker_that_a_quota_throttles_does_not_wait_for_other_threads() {
        let quota = Quota {
            group: "/sys/fs/cgroup/a".to_owned(),
            pids: vec![4711],
            cpus: 0.5,
            periods: 10,
            throttled_periods: 10,
            throttled_s: 0.45,
            removal: Some("echo max".to_owned()),
        };
        let found = |quotas, cpu_quota| {
            let mut report = run(0.5, Some(500_000_000));
            report.workers.truncate(1);
            report.quotas = quotas;
            let provenance = Provenance { cpu_quota, ..provenance() };
            let found = explain_run(&report, &finding(Limit::Processing), &provenance);
            found.iter().map(|found| found.cause).collect::<Vec<_>>()
        };
        let held = found(Some(vec![quota.clone()]), Some(0.5));
        assert_eq!(held, [Cause::CpuQuota, Cause::ProcessingCost]);
        // Without counters, the quota is assumed to throttle, but its effect is unknown.
        assert_eq!(found(None, Some(0.5)), [Cause::ProcessingCost]);
        // A quota that hardly throttled leaves the wait to other threads.
        let idle = Quota { throttled_periods: 1, throttled_s: 0.01, ..quota.clone() };
        let contended = [Cause::CpuContention, Cause::ProcessingCost];
        assert_eq!(found(Some(vec![idle]), Some(2.0)), contended);
        // Run delay beyond the throttled time is the wait for other threads.
        let mut report = run(0.5, Some(500_000_000));
        report.quotas = Some(vec![Quota { throttled_s: 0.2, ..quota }]);
        let budget = &observe(&report, &provenance()).threads[0];
        let share = |of| budget.share_of(|state| state == of);
        assert_eq!(share(ThreadState::Throttled), 0.2);
        assert!((share(ThreadState::Waiting) - 0.3).abs() < 1e-9);
    }

    #[test]
    fn budgets_sum_to_the_time_there_was() {
        for report in [run(0.3, Some(100_000_000)), run(0.3, None), run(0.0, Some(5))] {
            for thread in observe(&report, &provenance()).threads {
                let sum = thread.share_of(|_| true);
                assert!((sum - 1.0).abs() < 1e-9, "{sum}");
            }
        }
    }
}
