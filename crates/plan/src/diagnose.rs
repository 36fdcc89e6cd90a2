// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the bottleneck of a measured run.
//!
//! The worker that limits a path never waits. Workers upstream wait for room in a ring, and workers
//! downstream wait for packets. Therefore:
//!
//! ```text
//! busy(worker)   = busy / (busy + starved + blocked)      preempted time is not evidence
//! leader         = the replica of each segment with the largest busy(worker)
//! saturated      = segments whose leader has busy >= SATURATED and whose ring drops nothing
//! none saturated -> the source sets the rate, if the first segment waits for packets, no worker
//!                   waits for room and the source has a rate; the interface, if workers that
//!                   send wait for it or it refuses packets; otherwise cannot tell
//! one            -> that segment; but if another segment clearly spends more ticks per packet of
//!                   the path, the saturated one may never wait only because it was preempted, so
//!                   cannot tell
//! several        -> the segment with the largest load, if its interval is above that of the next;
//!                   otherwise cannot tell
//! stage          = the stage of that worker with the most ticks per packet that enters the worker;
//!                   source, sink and rings do not count as stages
//! ```
//!
//! Time shares cover the whole run, whereas service times cover only clean windows, in which the
//! worker was not preempted. The two are independent measurements and must agree. A finding
//! identifies the limit of *this* run; predicting the gain from another mapping is up to the model.

use crate::profile::{Profile, Segment, service_time, stage_time};
use linerate_record::run::{RunReport, TimeShares, WorkerReport};
use linerate_record::stats::Estimate;
use linerate_record::tune::{Finding, Limit};

/// Busy share at or above which a worker is considered saturated, that is, never waiting. Even a
/// bottleneck waits briefly after an adjacent worker is preempted and at burst boundaries.
/// Relieving only one of several workers within 5 % of the bottleneck would gain next to nothing.
const SATURATED: f64 = 0.95;

/// Fraction of running time that a worker may be blocked by a full ring before this counts as
/// back-pressure. Less is jitter: bursts fill a ring now and then.
const STRAY_BLOCKED: f64 = 0.02;

/// Fraction of packets dropped above which a ring counts as full, because its producer would be
/// blocked if the ring did not drop packets.
const STRAY_DROPS: f64 = 0.01;

/// Difference between two replicas' utilizations (0 to 1) above which their load is reported as
/// uneven. The less busy replica is then idle for at least 20 % of the time.
const UNEVEN: f64 = 0.20;

/// Minimum share of a worker's busy time, 0 to 1, at which the finding mentions source and sink.
/// A single stage rarely takes a larger share.
pub const HEADLINE_REPLAY: f64 = 0.3;

/// Minimum number of clean windows (without preemption) per worker. The range of six windows
/// contains the median with a probability of 1 - 2^-5 = 97 %, the range of five only with 94 %,
/// which is less than the 95 % of the intervals used here.
const MIN_CLEAN_WINDOWS: u64 = 6;

/// Fraction of preempted windows above which other workers' waiting reflects the system rather than
/// the path. Does not apply to a single worker.
const MAX_LOST_WINDOWS: f64 = 0.5;

/// Returns the bottleneck of `run`, or why it cannot be determined. If no packet reached the sink,
/// the finding says where packets ended up; if they were dropped, there is no bottleneck, because
/// dropped packets do not incur the cost of the whole path. If a stage failed, the finding says so.
///
/// Unless packets come from network interfaces, a source without a fixed rate is never reported as
/// the bottleneck. If all workers wait for packets nevertheless, the slowest source queue held the
/// others back, and the bottleneck is unknown. If the record does not say whether the rate is
/// fixed, it is assumed to be.
pub fn diagnose(run: &RunReport) -> Finding {
    if let Some(failure) = &run.failure {
        return cannot_tell(&failure.to_string());
    }
    let end = run.dead_end();
    if let Some(end) = end.as_ref().filter(|end| end.is_drop()) {
        return cannot_tell(&format!("{}: {end}", end.outcome()));
    }
    let mut finding = by_waiting(run);
    let is_unpaced = run.offered_kpps.as_ref().is_some_and(|kpps| kpps.as_number().is_none());
    if finding.limit == Limit::Offered && is_unpaced && !run.is_live() {
        finding = held_back(run);
    }
    if let Some(end) = end {
        finding.sentence += &format!("; no packet reached the sink: {end}");
    }
    finding
}

/// Diagnoses the run from how much of the time each worker waits.
fn by_waiting(run: &RunReport) -> Finding {
    let Some(profile) = Profile::new(run) else {
        return cannot_tell("no packet reached the sink");
    };
    if let Some(reason) = too_little_evidence(run) {
        return cannot_tell(&reason);
    }
    let leaders: Vec<Leader<'_>> = profile.segments.iter().map(|s| leader(&profile, s)).collect();
    let full = |l: &&Leader<'_>| l.segment.dropped_behind > STRAY_DROPS;
    let mut saturated: Vec<&Leader<'_>> =
        leaders.iter().filter(|l| l.busy >= SATURATED && !full(l)).collect();
    saturated.sort_by(|a, b| b.load_value().total_cmp(&a.load_value()));
    match saturated.as_slice() {
        [] => unsaturated(run, &leaders),
        [first, rest @ ..] => {
            let rival = rest.first().is_some_and(|second| !first.is_above(second));
            let hidden = leaders.iter().find(|other| other.is_above(first));
            match (rival, hidden) {
                (true, _) => cannot_tell(&tie(first, rest[0])),
                (false, Some(other)) => cannot_tell(&contradiction(first, other)),
                (false, None) => limited(first, &leaders),
            }
        }
    }
}

/// Returns the finding for a run whose workers all wait although the source always has packets. A
/// single stream feeds all source queues, and none may run far ahead of the slowest.
fn held_back(run: &RunReport) -> Finding {
    let lost = |worker: &&WorkerReport| worker.time_or_zero().lost;
    let most = run.workers.iter().max_by(|a, b| lost(a).total_cmp(&lost(b)));
    let (name, lost) = most.map_or(("", 0.0), |worker| (worker.name.as_str(), lost(&worker)));
    cannot_tell(&format!(
        "the source always has packets, yet every worker spends time waiting: parallel workers \
         wait for whichever is slowest at the moment (worker {name} was preempted {} of the time); \
         measure again on an idle machine",
        percent(lost),
    ))
}

/// A segment's busiest replica.
struct Leader<'a> {
    segment: &'a Segment<'a>,
    worker: &'a WorkerReport,
    busy: f64,
    /// Ticks that the replica spends per packet entering the path; `None` if unknown.
    load: Option<Estimate>,
}

impl Leader<'_> {
    fn load_value(&self) -> f64 {
        self.load.map_or(0.0, |l| l.value)
    }

    /// Returns whether this replica has more work per packet than `other`, with disjoint intervals;
    /// false if either load is unknown.
    fn is_above(&self, other: &Leader<'_>) -> bool {
        matches!((self.load, other.load), (Some(a), Some(b)) if a.low > b.high)
    }
}

fn leader<'a>(profile: &Profile<'_>, segment: &'a Segment<'a>) -> Leader<'a> {
    let by_busy = |a: &&&WorkerReport, b: &&&WorkerReport| {
        let later = b.replica.cmp(&a.replica);
        busy_share(a).total_cmp(&busy_share(b)).then(later)
    };
    // `Profile` never creates a segment without workers.
    let worker = segment.workers.iter().max_by(by_busy).copied().unwrap_or(segment.workers[0]);
    let busy = busy_share(worker);
    Leader { segment, worker, busy, load: profile.load(segment, worker) }
}

/// Returns the worker's busy time as a fraction of its running time.
fn busy_share(worker: &WorkerReport) -> f64 {
    let time = worker.time_or_zero();
    running_share(&time, time.busy)
}

/// Returns `part`, one of the shares in `time`, as a fraction of running time (busy, starved or
/// blocked).
fn running_share(time: &TimeShares, part: f64) -> f64 {
    let running = time.busy + time.starved + time.blocked;
    if running > 0.0 { part / running } else { 0.0 }
}

fn too_little_evidence(run: &RunReport) -> Option<String> {
    for worker in &run.workers {
        let (total, lost) = (worker.windows.total, worker.windows.preempted);
        let clean = total.saturating_sub(lost);
        let name = &worker.name;
        if clean < MIN_CLEAN_WINDOWS {
            return Some(format!(
                "worker {name} ran without preemption in only {clean} of {total} windows; \
                 {MIN_CLEAN_WINDOWS} are needed"
            ));
        }
        if run.workers.len() > 1 && lost as f64 > MAX_LOST_WINDOWS * total as f64 {
            return Some(format!(
                "worker {name} was preempted in {lost} of {total} windows, so the other workers' \
                 waiting reflects the system, not the path"
            ));
        }
    }
    None
}

fn cannot_tell(reason: &str) -> Finding {
    Finding {
        limit: Limit::CannotTell,
        bottleneck: None,
        worker: None,
        sentence: format!("cannot tell what limits the path: {reason}"),
    }
}

fn tie(first: &Leader<'_>, second: &Leader<'_>) -> String {
    format!(
        "workers {} and {} are busy for {} and {} of their running time, and the intervals \
         of their costs overlap ({} and {} ticks per packet)",
        first.worker.name,
        second.worker.name,
        percent(first.busy),
        percent(second.busy),
        first.load_value().round(),
        second.load_value().round(),
    )
}

fn contradiction(first: &Leader<'_>, other: &Leader<'_>) -> String {
    format!(
        "worker {} is saturated (busy for {} of its running time), but worker {} spends more per \
         packet ({} against {} ticks); they lost {} and {} of the time to preemption",
        first.worker.name,
        percent(first.busy),
        other.worker.name,
        other.load_value().round(),
        first.load_value().round(),
        percent(first.worker.time_or_zero().lost),
        percent(other.worker.time_or_zero().lost),
    )
}

/// Returns the finding for a run without a saturated worker: either all workers wait for packets,
/// so the source limits the rate, or the bottleneck moves between workers.
fn unsaturated(run: &RunReport, leaders: &[Leader<'_>]) -> Finding {
    let by_busy = |a: &&Leader<'_>, b: &&Leader<'_>| a.busy.total_cmp(&b.busy);
    let Some(busiest) = leaders.iter().max_by(by_busy) else {
        return cannot_tell("the run has no workers");
    };
    if let Some(full) = full_interface(run, leaders) {
        return full;
    }
    let share = percent(busiest.busy);
    // Workers that send on interfaces have no ring behind them. If an interface limited the path,
    // `full_interface` would have found it.
    let sending = leaders.last().filter(|_| run.interfaces.iter().any(|one| one.sent.is_some()));
    let sending = sending.map(|leader| leader.worker.segment);
    let behind_rings = run.workers.iter().filter(|worker| Some(worker.segment) != sending);
    let most_blocked = behind_rings.map(blocked).fold(0.0, f64::max);
    let waits_for_source = starved(leaders[0].worker) > 1.0 - SATURATED;
    let dropping = leaders.iter().any(|l| l.segment.dropped_behind > STRAY_DROPS);
    let contrary = if most_blocked > STRAY_BLOCKED {
        let blocked = percent(most_blocked);
        Some(format!("workers are blocked by back-pressure (up to {blocked} of the time)"))
    } else if dropping {
        Some("packets are dropped at a full ring".to_owned())
    } else {
        (!waits_for_source).then(|| "the first worker seldom waits for the source".to_owned())
    };
    if let Some(contrary) = contrary {
        let name = &busiest.worker.name;
        // A saturated worker is no bottleneck if the ring behind it drops packets.
        return cannot_tell(&match busiest.busy >= SATURATED {
            true => {
                format!("worker {name} is busy for {share} of its running time, yet {contrary}")
            }
            false => format!(
                "no worker is busy for at least {} of its running time (busiest: {name}, {share}), \
                 yet {contrary}",
                percent(SATURATED)
            ),
        });
    }
    Finding {
        limit: Limit::Offered,
        bottleneck: None,
        worker: None,
        sentence: format!(
            "the source limits the rate: every worker spends time waiting for packets; the \
             busiest, {}, is busy for {share} of its running time (tier sw){}",
            busiest.worker.name,
            small_bursts(busiest.worker)
        ),
    }
}

/// Returns the fraction of its running time that a worker was blocked.
fn blocked(worker: &WorkerReport) -> f64 {
    let time = worker.time_or_zero();
    running_share(&time, time.blocked)
}

/// Returns the fraction of its running time that a worker waited for packets.
fn starved(worker: &WorkerReport) -> f64 {
    let time = worker.time_or_zero();
    running_share(&time, time.starved)
}

/// Returns the finding for interfaces that accept packets more slowly than the path could send
/// them; `None` if there are none. Workers of the last segment have no ring behind them, so they
/// wait for nothing else. A worker that also waits for packets is not limited by its interface:
/// bursts fill the interface's queue for a moment, even at a low rate.
fn full_interface(run: &RunReport, leaders: &[Leader<'_>]) -> Option<Finding> {
    let sends = run.interfaces.iter().filter(|interface| interface.sent.is_some());
    let names: Vec<&str> = sends.map(|interface| interface.interface.as_str()).collect();
    let last = leaders.last().filter(|_| !names.is_empty())?.segment;
    let most = last.workers.iter().max_by(|a, b| blocked(a).total_cmp(&blocked(b)))?;
    let is_full = blocked(most) > STRAY_BLOCKED && starved(most) <= 1.0 - SATURATED;
    let what = if is_full {
        let share = percent(blocked(most));
        format!("worker {} waits for it {share} of the time", most.name)
    } else if last.dropped_behind > STRAY_DROPS {
        format!("it refused {} of the packets (tx_full)", percent(last.dropped_behind))
    } else {
        return None;
    };
    let names = names.join(" or ");
    Some(Finding {
        limit: Limit::Interface,
        bottleneck: None,
        worker: None,
        sentence: format!("the interface {names} does not accept packets any faster: {what}"),
    })
}

/// Describes the cost of small bursts; empty if most packets come in larger ones. A worker that
/// waits for packets takes each as it arrives, at a fixed cost per burst, so its busy time does not
/// show how many more packets it could process.
fn small_bursts(worker: &WorkerReport) -> String {
    const SMALL: usize = 2;
    let bursts = worker.burst_sizes.iter().sum::<u64>();
    // Bucket `i` counts bursts of up to `2^(i+1) - 1` packets.
    let small: u64 = worker.burst_sizes.iter().take(SMALL).sum();
    match worker.ticks_per_packet.as_number() {
        Some(ticks) if bursts > 0 && 2 * small >= bursts => format!(
            "; most of its bursts have 1 to {} packets, at {ticks:.0} ticks per packet: larger \
             bursts cost less per packet, so it can process more than this share suggests",
            (1 << SMALL) - 1
        ),
        _ => String::new(),
    }
}

fn limited(leader: &Leader<'_>, leaders: &[Leader<'_>]) -> Finding {
    let worker = leader.worker;
    // Source, sink and rings are not stages of the path, and users cannot make them faster.
    let own = worker.path_stages().iter();
    let timed = own.filter_map(|s| Some((&s.name, stage_time(worker, s)?)));
    let mut stages: Vec<(&String, Estimate)> = timed.collect();
    stages.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    let whole = service_time(worker).map_or(f64::NAN, |t| t.value);
    let Some((name, ticks)) = stages.first().filter(|_| whole > 0.0) else {
        return cannot_tell(&format!(
            "worker {} is saturated, but the service times of its stages are missing",
            worker.name
        ));
    };
    let share = ticks.value / whole;
    let takes = format!("{:.0} % of its {whole:.0} ticks per packet (tier sw)", 100.0 * share);
    let busy = percent(leader.busy);
    let replay = replay_share(worker);
    let most = match replay {
        Some(replay) if replay > share => format!(
            "; source and sink, which are not stages of the path, take more of it ({}) than any \
             stage, of which `{name}` takes most: {takes}",
            percent(replay)
        ),
        _ => format!(", and `{name}` takes {takes}"),
    };
    let mut sentence = format!(
        "`{name}` is the bottleneck: worker {} is busy for {busy} of its running time{most}",
        worker.name
    );
    if let Some(replay) = replay.filter(|replay| *replay <= share) {
        sentence += &format!(
            "; source and sink, which are not stages of the path, take {}",
            percent(replay)
        );
    }
    if let Some((close, _)) = stages.get(1).filter(|(_, t)| t.high >= ticks.low) {
        sentence += &format!("; `{close}` is tied with it");
    }
    sentence += &neighbours(leader, leaders);
    sentence += &uneven(leader);
    Finding {
        limit: Limit::Processing,
        bottleneck: Some((*name).clone()),
        worker: Some(worker.name.clone()),
        sentence,
    }
}

/// Returns the share of source and sink in the worker's busy time, 0 to 1, if it is large. Source
/// and sink replay packets, so they are not stages of the path.
pub fn replay_share(worker: &WorkerReport) -> Option<f64> {
    let busy = worker.time_or_zero().busy;
    let share = worker.replay_share().filter(|_| busy > 0.0)? / busy;
    (share >= HEADLINE_REPLAY).then_some(share)
}

/// Describes how long the adjacent segments' workers wait: upstream for room, downstream for
/// packets. Empty for a path of one segment.
fn neighbours(leader: &Leader<'_>, leaders: &[Leader<'_>]) -> String {
    let here = leader.worker.segment;
    let mut text = String::new();
    if let Some(before) = leaders.iter().rfind(|l| l.worker.segment < here) {
        let time = &before.worker.time_or_zero();
        let blocked = percent(running_share(time, time.blocked));
        let name = &before.worker.name;
        text += &format!("; upstream worker {name} is blocked {blocked} of the time");
    }
    if let Some(behind) = leaders.iter().find(|l| l.worker.segment > here) {
        let time = &behind.worker.time_or_zero();
        let starved = percent(running_share(time, time.starved));
        let name = &behind.worker.name;
        text += &format!("; downstream worker {name} is starved {starved} of the time");
    }
    text
}

/// Describes uneven load among the bottleneck's replicas; empty if it is even.
fn uneven(leader: &Leader<'_>) -> String {
    let busy = |s: &&&WorkerReport| busy_share(s);
    let idlest = leader.segment.workers.iter().min_by(|a, b| busy(a).total_cmp(&busy(b)));
    match idlest {
        Some(idle) if leader.busy - busy(&idle) > UNEVEN => format!(
            "; the load is uneven: replica {} is only {} busy",
            idle.name,
            percent(busy(&idle))
        ),
        _ => String::new(),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
