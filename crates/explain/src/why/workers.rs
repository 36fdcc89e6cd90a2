// SPDX-License-Identifier: MIT OR Apache-2.0
//! Diagnoses a run's workers using the time budgets, rules and causes of `why`. Workers measure
//! exactly what an observer can only estimate: whether they work or poll.

use super::explain;
use linerate_record::finding::{Finding, Limit};
use linerate_record::run::{RunReport, TimeShares, WorkerReport};
use linerate_record::why::{
    Cause, Gain, Observation, PacketCount, ThreadActivity, ThreadState, ThreadTime, Watched,
    WhyFinding,
};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

const METHOD: &str = "the worker's own time accounting and its run delay (schedstat)";

/// Explains what limits a run in terms of the causes of `why`, main cause first; never empty.
/// `finding` is the diagnosis from the profile of the run's stages.
pub fn explain_run(report: &RunReport, finding: &Finding) -> Vec<WhyFinding> {
    let mut findings = explain(&observe(report));
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
        Limit::CannotTell => (
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
fn observe(report: &RunReport) -> Observation {
    let packets = report.processed_kpps.as_number();
    let threads = report.workers.iter().enumerate();
    Observation {
        watched: Watched {
            name: report.path.clone(),
            pids: vec![0],
            interface: None,
            is_in_other_namespace: false,
            line_bits_per_s: report.line.map(|line| line.bits_per_s),
            is_command: false,
            ended: None,
            interrupted: report.interrupted,
        },
        elapsed_s: report.elapsed_s,
        slices: 1,
        threads: threads.filter_map(|(number, worker)| activity(report, number, worker)).collect(),
        threads_left_out: 0,
        ended_threads_cpus: None,
        ended_children_cpus: None,
        memory: None,
        full_descriptors: Vec::new(),
        requests: None,
        unix_clients: None,
        sched_autogroup: None,
        quotas: Vec::new(),
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

fn activity(report: &RunReport, number: usize, worker: &WorkerReport) -> Option<ThreadActivity> {
    let time = worker.time?;
    let running = time.busy + time.starved + time.blocked;
    let exact = |unit: &str, value: f64| Figure::exact(unit, value, Tier::Sw, METHOD);
    Some(ThreadActivity {
        pid: 0,
        tid: number as u32,
        name: format!("worker {}", worker.name),
        ran_on: vec![worker.cpu],
        allowed: vec![worker.cpu],
        elapsed_s: report.elapsed_s,
        time: worker_budget(report, worker, time),
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

/// Returns a worker's time budget in the states used by `why`; the shares sum to 1.
fn worker_budget(report: &RunReport, worker: &WorkerReport, time: TimeShares) -> Vec<ThreadTime> {
    let wall_ns = report.elapsed_s * 1e9;
    let delay = worker.run_delay_ns.map(|ns| (ns as f64 / wall_ns).min(time.lost));
    // Without the run delay, it is unknown whether another thread or the hypervisor took the time.
    let waiting = delay.unwrap_or(0.0);
    let states = [
        (ThreadState::Work, time.busy),
        // Waiting for room in a ring is polling too: the worker retries until there is room.
        (ThreadState::Polling, time.starved + time.blocked),
        (ThreadState::Waiting, waiting),
        (ThreadState::Stolen, if delay.is_some() { time.lost - waiting } else { 0.0 }),
        (
            ThreadState::Unaccounted,
            time.unaccounted + if delay.is_some() { 0.0 } else { time.lost },
        ),
    ];
    let share = |(state, share)| ThreadTime {
        state,
        share: Figure::exact("ratio", share, Tier::Sw, METHOD),
    };
    states.into_iter().map(share).collect()
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

    fn finding(limit: Limit) -> Finding {
        let sentence = "as the profile says".to_owned();
        Finding { limit, bottleneck: None, worker: None, sentence }
    }

    #[test]
    fn a_worker_that_waits_for_its_cpu_has_the_cause_of_any_thread() {
        let causes = |report: &RunReport, limit| -> Vec<Cause> {
            explain_run(report, &finding(limit)).iter().map(|found| found.cause).collect()
        };
        let contended = run(0.3, Some(300_000_000));
        let found = causes(&contended, Limit::Processing);
        assert_eq!(found[..2], [Cause::CpuContention, Cause::ProcessingCost]);
        let alone = run(0.0, Some(0));
        assert_eq!(causes(&alone, Limit::Processing), [Cause::ProcessingCost]);
        assert_eq!(causes(&alone, Limit::Offered), [Cause::NothingWrong]);
        assert_eq!(causes(&alone, Limit::CannotTell), [Cause::CannotTell]);
        let stolen = causes(&run(0.3, Some(0)), Limit::Processing);
        assert_eq!(stolen[0], Cause::StolenCpu);
    }

    #[test]
    fn budgets_sum_to_the_time_there_was() {
        for report in [run(0.3, Some(100_000_000)), run(0.3, None), run(0.0, Some(5))] {
            for thread in observe(&report).threads {
                let sum = thread.share_of(|_| true);
                assert!((sum - 1.0).abs() < 1e-9, "{sum}");
            }
        }
    }
}
