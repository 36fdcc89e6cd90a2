// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last step of a tuning session for a path with a rate: proposes idle policies for the kept
//! mapping, and compares them with polling.

use crate::assign::assign;
use crate::bench::Bench;
use crate::error::TuneError;
use linerate_dataplane::{Responses, RunError, WARM_UP, responses};
use linerate_machine::ticks::ticks;
use linerate_path::model::{IdlePolicy, IdleRules, Path};
use linerate_plan::idle::{Conditions, Proposal, Worker, propose};
use linerate_record::run::{RunReport, WorkerReport};
use linerate_record::stats::{CONFIDENCE, median_interval, paired_ratio, quantile_interval};
use linerate_record::tune::{IdleAdvice, IdleTrial, WorkerIdle};
use linerate_record::{Figure, Tier};
use linerate_trial::{Dropped, Length, Machine, Rules, rounds};

/// Number of rounds. A median of fewer than 6 values has no 95 % interval (sign test).
const ROUNDS: u32 = 6;

/// Length of a run within a round, in seconds.
const ROUND_SECONDS: f64 = 0.4;

/// Total length of the rounds, in seconds.
pub(crate) const SECONDS: f64 = ROUNDS as f64 * 2.0 * ROUND_SECONDS;

/// Number of wake-ups to time: enough for four samples above the p99.
const WAKE_UPS: usize = 400;

/// If a worker waited for its CPU for more than this fraction of the run, other threads count as
/// users of the CPU.
const SHARED: f64 = 0.05;

/// Proposes idle policies for the mapping of `path` at its rate, from `run`, in which all workers
/// polled, and compares them with polling. Also returns the policies to write to the path file, if
/// they are worth it.
pub(crate) fn idle(
    bench: &Bench<'_>,
    path: &Path,
    run: &RunReport,
    p99_limit_ns: Option<f64>,
) -> Result<(IdleAdvice, Option<IdleRules>), TuneError> {
    bench.progress.step("wake-ups");
    let cpus = assign(path, &path.mapping, bench.cpus, false)?;
    // In a run, a worker on another CPU wakes this one.
    let other = bench.cpus.iter().copied().find(|cpu| *cpu != cpus[0]).unwrap_or(cpus[0]);
    let wake_ups = responses(IdlePolicy::Park, 0.0, [cpus[0], other], WAKE_UPS)
        .map_err(|error| TuneError::Run(RunError::System(error)))?;
    let on = Conditions {
        wake_up_ns: wake_ups.quantile_ns(0.5).unwrap_or(f64::NAN),
        wake_up_p99_ns: wake_ups.quantile_ns(0.99).unwrap_or(f64::NAN),
        p99_limit_ns,
        polling_p99_ns: run.latency.p99.as_number(),
    };
    let workers: Vec<Worker> = busiest(run).into_iter().map(|one| load(one, run)).collect();
    let advice = IdleAdvice {
        wake_up_p50: wake_up(&wake_ups, 0.5),
        wake_up_p99: wake_up(&wake_ups, 0.99),
        workers: Vec::new(),
        unknown: None,
        trial: None,
        kept: false,
    };
    let proposals = match propose(&workers, &on) {
        Ok(proposals) => proposals,
        Err(reason) => return Ok((IdleAdvice { unknown: Some(reason), ..advice }, None)),
    };
    let rules = rules(&path.idle, &proposals);
    let proposed = workers.iter().zip(&proposals).map(|(worker, one)| recorded(worker, one));
    let advice = IdleAdvice { workers: proposed.collect(), ..advice };
    if proposals.iter().all(|one| one.policy == IdlePolicy::Pause) {
        return Ok((advice, None));
    }
    let trial = compare(bench, path, &rules)?;
    let kept = trial.as_ref().is_some_and(|trial| is_worth_it(trial, p99_limit_ns));
    Ok((IdleAdvice { trial, kept, ..advice }, kept.then_some(rules)))
}

const TIMED: &str = "wake-ups of a sleeping thread, timed before the rounds";

/// Returns the busiest worker of each segment, in order.
fn busiest(run: &RunReport) -> Vec<&WorkerReport> {
    let busy = |worker: &WorkerReport| worker.time.map_or(0.0, |time| time.busy);
    let of_segment = |replicas: &'_ [WorkerReport]| {
        (0..replicas.len()).max_by(|&a, &b| busy(&replicas[a]).total_cmp(&busy(&replicas[b])))
    };
    let segments = run.workers.chunk_by(|a, b| a.segment == b.segment);
    segments.filter_map(|all| of_segment(all).map(|index| &all[index])).collect()
}

/// Returns the load of a worker in a run. Values that the run did not yield are NaN.
fn load(worker: &WorkerReport, run: &RunReport) -> Worker {
    let rate =
        worker.stages.first().and_then(|stage| stage.kpps).map_or(f64::NAN, |kpps| kpps * 1e3);
    let polls: u64 = worker.burst_sizes.iter().sum();
    let waited = worker.run_delay_ns.unwrap_or(0) as f64 / 1e9;
    Worker {
        name: worker.name.clone(),
        busy: worker.time.map_or(f64::NAN, |time| time.busy),
        packets_per_s: rate,
        burst: (rate * run.elapsed_s / polls.max(1) as f64).max(1.0),
        shares_cpu: waited > SHARED * run.elapsed_s,
    }
}

/// Returns the rules for the proposals, one per segment: their policy if all agree; otherwise the
/// policy of the first segment, with exceptions for those that differ.
fn rules(given: &IdleRules, proposals: &[Proposal]) -> IdleRules {
    let policy = proposals.first().map_or(given.policy, |one| one.policy);
    let exception = |one: &Proposal| (one.policy != policy).then_some(one.policy);
    let workers: Vec<Option<IdlePolicy>> = proposals.iter().map(exception).collect();
    let workers = if workers.iter().any(Option::is_some) { workers } else { Vec::new() };
    IdleRules { policy, park_after_s: given.park_after_s, workers }
}

/// Figures of one run; `None` if the run did not yield the figure.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    cpus: f64,
    kpps: Option<f64>,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
}

impl Seen {
    fn of(run: &RunReport) -> Self {
        // The kernel accounts for the warm-up too.
        let wall_s = run.elapsed_s + WARM_UP.as_secs_f64();
        let cpu_ns: u64 = run.workers.iter().map(|worker| worker.cpu_ns).sum();
        Self {
            cpus: cpu_ns as f64 / 1e9 / wall_s,
            kpps: run.processed_kpps.as_number(),
            p50_ns: run.latency.p50.as_number(),
            p99_ns: run.latency.p99.as_number(),
        }
    }
}

/// Runs the path with polling workers and with `rules` in rounds; `None` if a stop was requested.
fn compare(
    bench: &Bench<'_>,
    path: &Path,
    rules: &IdleRules,
) -> Result<Option<IdleTrial>, TuneError> {
    let contestants = [("polling", &IdleRules::POLLING), ("proposed idle policy", rules)];
    let race = Rules {
        what: "rounds",
        contestants: &contestants.map(|(name, _)| name),
        placements: 1,
        length: Length::Rounds(ROUNDS),
        seed: ticks(),
    };
    let watch = bench.watch().with_progress(&|_, _| {});
    let samples = rounds(&race, &Machine::kernel(), &watch, |turn| {
        let (name, idle) = contestants[turn.contestant];
        bench.progress.step(&format!("round {} of {ROUNDS}: {name}", turn.round + 1));
        let run = bench.run_idle(path, idle, ROUND_SECONDS)?;
        Ok::<_, TuneError>(Ok::<_, Dropped>(Seen::of(&run)))
    })?;
    if bench.watch().is_stopped() {
        return Ok(None);
    }
    let pairs = samples.each(0).iter().zip(samples.each(1));
    let pairs: Vec<[Seen; 2]> = pairs.filter_map(|(a, b)| Some([a.ok()?, b.ok()?])).collect();
    Ok(Some(judged(&pairs)))
}

/// Compares polling with the proposed policies. Each pair holds the figures of polling and of the
/// policies, in this order, from the same round.
fn judged(pairs: &[[Seen; 2]]) -> IdleTrial {
    const DIFFERENCE: &str = "median of the differences within rounds";
    let both = |of: fn(&Seen) -> Option<f64>| -> Vec<[f64; 2]> {
        pairs.iter().filter_map(|[a, b]| Some([of(a)?, of(b)?])).collect()
    };
    let cpus = both(|seen| Some(seen.cpus));
    let column = |which: usize| cpus.iter().map(|pair| pair[which]).collect::<Vec<f64>>();
    let change = |all: &[[f64; 2]]| all.iter().map(|[a, b]| b - a).collect::<Vec<f64>>();
    let saved: Vec<f64> = change(&cpus).iter().map(|more| -more).collect();
    let rates: (Vec<f64>, Vec<f64>) = both(|seen| seen.kpps).iter().map(|[a, b]| (*a, *b)).unzip();
    let p99s = both(|seen| seen.p99_ns);
    let p99: Vec<f64> = p99s.iter().map(|[_, b]| *b).collect();
    IdleTrial {
        rounds: pairs.len() as u32,
        cpus_polling: figure("CPUs", &column(0), "median over rounds"),
        cpus: figure("CPUs", &column(1), "median over rounds"),
        cpus_saved: figure("CPUs", &saved, DIFFERENCE),
        p50_added: figure("ns", &change(&both(|seen| seen.p50_ns)), DIFFERENCE),
        p99_added: figure("ns", &change(&p99s), DIFFERENCE),
        p99: figure("ns", &p99, "median over rounds"),
        rate_ratio: Figure::number(
            "ratio",
            paired_ratio(&rates.0, &rates.1, CONFIDENCE),
            Tier::Sw,
            "median of the ratios within rounds",
        ),
    }
}

/// Returns the advice for a path whose policies could not be examined, with the reason.
pub(crate) fn no_idle_advice(reason: &str) -> IdleAdvice {
    let none = || Figure::absent("ns", Tier::Sw, TIMED, reason);
    IdleAdvice {
        wake_up_p50: none(),
        wake_up_p99: none(),
        workers: Vec::new(),
        unknown: Some(reason.to_owned()),
        trial: None,
        kept: false,
    }
}

fn figure(unit: &str, all: &[f64], method: &str) -> Figure {
    if all.is_empty() {
        return Figure::absent(unit, Tier::Sw, method, "no round timed enough packets");
    }
    Figure::number(unit, median_interval(all, CONFIDENCE), Tier::Sw, method)
}

fn wake_up(all: &Responses, fraction: f64) -> Figure {
    if all.ns.is_empty() {
        let reason = "a thread was preempted during each wake-up";
        return Figure::absent("ns", Tier::Sw, TIMED, reason);
    }
    Figure::number("ns", quantile_interval(&all.ns, fraction, CONFIDENCE), Tier::Sw, TIMED)
}

fn recorded(worker: &Worker, proposal: &Proposal) -> WorkerIdle {
    const METHOD: &str = "from the worker's load and the time of a wake-up";
    WorkerIdle {
        worker: worker.name.clone(),
        policy: proposal.policy.word().to_owned(),
        cpu_share: Figure::exact("ratio", proposal.cpu_share, Tier::Model, METHOD),
        added: Figure::exact("ns", proposal.added_ns, Tier::Model, METHOD),
        sentence: proposal.sentence.clone(),
    }
}

/// Minimum rate of processed packets relative to polling; below it, the policies lose packets and
/// are rejected. Smaller differences are end effects of the runs.
const KEPT: f64 = 0.999;

/// Returns whether a comparison shows that the policies save CPU time, at the same rate and within
/// the limit on latency.
fn is_worth_it(trial: &IdleTrial, p99_limit_ns: Option<f64>) -> bool {
    let saves = trial.cpus_saved.low.is_some_and(|low| low > 0.0);
    let keeps_up = trial.rate_ratio.as_number().is_some_and(|ratio| ratio >= KEPT);
    saves && keeps_up && crate::trial::is_within(&trial.p99, p99_limit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(cpus: f64, p99_us: f64) -> Seen {
        Seen { cpus, kpps: Some(5.0), p50_ns: Some(500.0), p99_ns: Some(p99_us * 1e3) }
    }

    fn trial(polling: Seen, proposed: Seen) -> IdleTrial {
        judged(&[[polling, proposed]; ROUNDS as usize])
    }

    #[test]
    fn a_policy_is_kept_if_it_saves_time_keeps_up_and_meets_the_limit() {
        let good = trial(seen(2.0, 10.0), seen(0.5, 60.0));
        assert_eq!(good.cpus_saved.as_number(), Some(1.5));
        assert_eq!(good.p99_added.as_number(), Some(50e3));
        assert!(is_worth_it(&good, None) && is_worth_it(&good, Some(60e3)));
        assert!(!is_worth_it(&good, Some(59e3)));
        assert!(!is_worth_it(&trial(seen(1.0, 10.0), seen(1.0, 10.0)), None), "it saves nothing");
        let slow = Seen { kpps: Some(4.8), ..seen(0.5, 60.0) };
        assert!(!is_worth_it(&trial(seen(2.0, 10.0), slow), None), "it does not keep up");
        let unknown = Seen { p99_ns: None, ..seen(0.5, 60.0) };
        let unknown = trial(seen(2.0, 10.0), unknown);
        assert!(is_worth_it(&unknown, None) && !is_worth_it(&unknown, Some(1e9)));
        assert!(!is_worth_it(&judged(&[]), None));
        let one = judged(&[[seen(2.0, 10.0), seen(0.5, 60.0)]]);
        assert!(!is_worth_it(&one, None), "one pair proves nothing");
    }

    #[test]
    fn rules_name_the_segments_that_differ() {
        let proposal =
            |policy| Proposal { policy, cpu_share: 0.0, added_ns: 0.0, sentence: String::new() };
        let given = IdleRules { park_after_s: Some(9e-6), ..IdleRules::POLLING };
        let [park, pause] = [IdlePolicy::Park, IdlePolicy::Pause];
        let same = rules(&given, &[proposal(park), proposal(park)]);
        assert_eq!(same, IdleRules { policy: park, workers: Vec::new(), ..given.clone() });
        let other = rules(&given, &[proposal(park), proposal(pause)]);
        assert_eq!((other.of_segment(0), other.of_segment(1)), (park, pause));
        assert_eq!(other.park_after_s, Some(9e-6));
    }
}
