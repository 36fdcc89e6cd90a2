// SPDX-License-Identifier: MIT OR Apache-2.0
//! Proposes an idle policy for each worker of a path at a given load.
//!
//! ```text
//! c    = time of one wake-up, measured
//! g    = (1 - busy) x burst / rate: how long the worker idles between two bursts, on average
//!
//! busy for 90 % or more                                -> pause
//! no packets, or other threads use the worker's CPU    -> park
//! g > c                                                -> park
//! otherwise                                            -> auto
//! ```
//!
//! **Why `g > c`.** Polling through an idle time costs as much CPU time as it lasts, and a sleep
//! costs at most `c`. If arrivals are random (idle times exponential with mean `g`), `park` pays
//! `c` per idle time, and `auto`, which polls for `c` first, pays
//! `g (1 - e^(-c/g)) + c e^(-c/g)`. This is more than `c` if and only if `g > c`. At a constant
//! idle time, `park` costs `c` and `auto` `2c` above this threshold, and `auto` costs `g < c` below
//! it. With `g <= c`, `auto` hardly sleeps, so it saves no CPU time at this load, but it does when
//! the traffic pauses.
//!
//! **Latency.** A worker that sleeps adds a wake-up to the latency of the first packet of each
//! burst, and each worker along the path may add one. Under a latency limit, the workers that would
//! save the most CPU time sleep as long as the sum of their p99 wake-ups fits between the p99
//! measured with polling and the limit. The other workers poll: slowly if the limit leaves room for
//! the microsecond that slow polling may add.

use linerate_path::model::IdlePolicy;
use linerate_record::units::{Nanos, three_digits};

/// Busy fraction at or above which a worker polls, because its idle times are too short for sleep.
const BUSY: f64 = 0.9;

/// Latency that slow polling may add, in ns: the duration of its longest wait.
const SLOW_NS: f64 = 1e3;

/// Measurements of a segment's busiest worker at a given load, while it polls.
#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    /// Name as in reports, such as `0.1`.
    pub name: String,
    /// Fraction of time that the worker is busy with packets, 0 to 1.
    pub busy: f64,
    /// Packets per second that reach the worker, 0 or more.
    pub packets_per_s: f64,
    /// Mean number of packets that a successful poll returns, 1 or more.
    pub burst: f64,
    /// Whether other threads use the worker's CPU.
    pub shares_cpu: bool,
}

/// What sleeping costs on this machine, and how much latency is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Median time of a wake-up, in ns: positive.
    pub wake_up_ns: f64,
    /// 99th percentile of the time of a wake-up, in ns: positive.
    pub wake_up_p99_ns: f64,
    /// Limit on the path's p99 latency, in ns; `None` without a limit.
    pub p99_limit_ns: Option<f64>,
    /// The path's p99 latency at the given load while all workers poll, in ns; `None` if unknown.
    pub polling_p99_ns: Option<f64>,
}

/// The policy proposed for a worker, and what to expect from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The policy.
    pub policy: IdlePolicy,
    /// Expected CPU time per wall time, 0 to 1. A worker that polls uses 1.
    pub cpu_share: f64,
    /// Expected latency added to the first packet after an idle time, in ns; 0 if the worker
    /// polls.
    pub added_ns: f64,
    /// The policy with its reason, in one sentence.
    pub sentence: String,
}

/// Proposes a policy for each of `workers`, which are the segments of a path in order.
///
/// # Errors
/// Returns the reason if a value is out of its range, so that no policy can be justified.
pub fn propose(workers: &[Worker], on: &Conditions) -> Result<Vec<Proposal>, String> {
    let is_positive = |ns: f64| ns > 0.0 && ns.is_finite();
    if !is_positive(on.wake_up_ns) || !is_positive(on.wake_up_p99_ns) {
        return Err("the time of a wake-up is unknown".to_owned());
    }
    let proposals: Result<Vec<Proposal>, String> =
        workers.iter().map(|worker| alone(worker, on)).collect();
    let mut proposals = proposals?;
    let Some(limit) = on.p99_limit_ns else { return Ok(proposals) };
    let mut by_saving: Vec<usize> =
        (0..workers.len()).filter(|&index| proposals[index].policy.parks()).collect();
    by_saving.sort_by(|&a, &b| proposals[a].cpu_share.total_cmp(&proposals[b].cpu_share));
    let mut room = on.polling_p99_ns.map(|p99| limit - p99);
    for index in by_saving {
        if let Some(left) = room.filter(|room| *room >= on.wake_up_p99_ns) {
            room = Some(left - on.wake_up_p99_ns);
            continue;
        }
        proposals[index] = polling(&workers[index].name, room, limit, on);
        room = room.map(|room| room - proposals[index].added_ns);
    }
    Ok(proposals)
}

/// Proposes a policy for a worker without regard to a latency limit.
fn alone(worker: &Worker, on: &Conditions) -> Result<Proposal, String> {
    let Worker { name, busy, packets_per_s, burst, shares_cpu } = worker;
    let (busy, rate) = (*busy, *packets_per_s);
    let is_known = (0.0..=1.0).contains(&busy) && rate >= 0.0 && rate.is_finite() && *burst >= 1.0;
    if !is_known {
        return Err(format!("the load of worker {name} is unknown"));
    }
    let c = on.wake_up_ns;
    let wake_up = Nanos(c);
    let share = format!("worker {name} is busy for {} % of the time", three_digits(busy * 100.0));
    if busy >= BUSY {
        let sentence = format!("{share}, too much for a sleep to save CPU time: `pause`");
        return Ok(Proposal { policy: IdlePolicy::Pause, cpu_share: 1.0, added_ns: 0.0, sentence });
    }
    // Without packets, there is no burst to wait for.
    let idle_ns = if rate > 0.0 { (1.0 - busy) * burst / rate * 1e9 } else { f64::INFINITY };
    let (policy, awake, reason) = if rate == 0.0 {
        let reason = format!("worker {name} gets no packets: `park`");
        (IdlePolicy::Park, 0.0, reason)
    } else if *shares_cpu {
        let reason = format!(
            "other threads use the CPU of worker {name}: `park` leaves it to them while there are \
             no packets"
        );
        (IdlePolicy::Park, c / idle_ns, reason)
    } else if idle_ns > c {
        let reason = format!(
            "{share} and then idles for {} on average, longer than a wake-up takes ({wake_up}): \
             `park`",
            Nanos(idle_ns)
        );
        (IdlePolicy::Park, c / idle_ns, reason)
    } else {
        let reason = format!(
            "{share} and then idles for {} on average, less than a wake-up takes ({wake_up}): \
             `auto` keeps polling, and sleeps only when the traffic pauses for longer",
            Nanos(idle_ns)
        );
        let ratio = c / idle_ns;
        (IdlePolicy::Auto, -(-ratio).exp_m1() + ratio * (-ratio).exp(), reason)
    };
    let cpu_share = (busy + (1.0 - busy) * awake).min(1.0);
    Ok(Proposal { policy, cpu_share, added_ns: c, sentence: reason })
}

/// Proposes polling for a worker whose wake-ups do not fit a latency limit. `room_ns` is the
/// latency that may still be added; `None` if unknown.
fn polling(name: &str, room_ns: Option<f64>, limit_ns: f64, on: &Conditions) -> Proposal {
    let (limit, wake_up) = (Nanos(limit_ns), Nanos(on.wake_up_p99_ns));
    let is_slow = room_ns.is_some_and(|room| room >= SLOW_NS);
    let (policy, added_ns) =
        if is_slow { (IdlePolicy::Slow, SLOW_NS) } else { (IdlePolicy::Pause, 0.0) };
    let reason = match (on.polling_p99_ns, room_ns) {
        (Some(p99), _) if p99 > limit_ns => {
            format!("p99 is over the limit of {limit} even if worker {name} polls")
        }
        (_, Some(room)) => format!(
            "a wake-up of worker {name} takes up to {wake_up} (p99), and the p99 limit of {limit} \
             leaves room for only {}",
            Nanos(room.max(0.0))
        ),
        (_, None) => format!(
            "the p99 latency is unknown, and a wake-up of worker {name} ({wake_up}, p99) might \
             push it over the limit of {limit}"
        ),
    };
    let sentence = format!("{reason}: `{}`", policy.word());
    Proposal { policy, cpu_share: 1.0, added_ns, sentence }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: f64 = 1e3;
    const ON: Conditions = Conditions {
        wake_up_ns: 25.0 * US,
        wake_up_p99_ns: 60.0 * US,
        p99_limit_ns: None,
        polling_p99_ns: Some(10.0 * US),
    };

    fn worker(busy: f64, packets_per_s: f64, burst: f64) -> Worker {
        Worker { name: "0.0".to_owned(), busy, packets_per_s, burst, shares_cpu: false }
    }

    fn one(worker: Worker, on: &Conditions) -> Proposal {
        propose(&[worker], on).expect("the load is known").remove(0)
    }

    fn policies(workers: &[Worker], on: &Conditions) -> Vec<&'static str> {
        let all = propose(workers, on).expect("the load is known");
        all.iter().map(|one| one.policy.word()).collect()
    }

    #[test]
    fn light_load_parks_and_heavy_load_polls() {
        let parked = one(worker(0.01, 5_000.0, 1.0), &ON);
        assert_eq!(parked.policy, IdlePolicy::Park);
        // 198 us idle per packet, of which a wake-up takes 25.
        assert!((parked.cpu_share - (0.01 + 0.99 * 25.0 / 198.0)).abs() < 1e-9, "{parked:?}");
        assert_eq!(parked.added_ns, 25.0 * US);
        assert!(parked.sentence.contains("idles for 198 µs on average"), "{}", parked.sentence);
        let busy = one(worker(0.95, 5_000.0, 1.0), &ON);
        assert_eq!((busy.policy, busy.cpu_share, busy.added_ns), (IdlePolicy::Pause, 1.0, 0.0));
        assert!(busy.sentence.contains("busy for 95 %"), "{}", busy.sentence);
    }

    #[test]
    fn bursts_make_idle_times_longer() {
        // 32 us per burst of 32, or 1 us per packet.
        assert_eq!(one(worker(0.1, 1e6, 32.0), &ON).policy, IdlePolicy::Park);
        let single = one(worker(0.1, 1e6, 1.0), &ON);
        assert_eq!(single.policy, IdlePolicy::Auto);
        assert!(single.cpu_share > 0.99, "{single:?}");
        assert!(single.sentence.contains("900 ns on average"), "{}", single.sentence);
    }

    /// Both policies cost the same at the threshold, so the choice has no step in CPU time there.
    #[test]
    fn park_and_auto_meet_at_the_threshold() {
        let rate = |idle_us: f64| 1e6 / idle_us;
        let [below, above] = [24.99, 25.01].map(|us| one(worker(0.0, rate(us), 1.0), &ON));
        assert_eq!([below.policy, above.policy], [IdlePolicy::Auto, IdlePolicy::Park]);
        assert!((below.cpu_share - above.cpu_share).abs() < 1e-2, "{below:?} {above:?}");
    }

    #[test]
    fn edges_of_the_load_have_a_policy() {
        let none = one(worker(0.0, 0.0, 1.0), &ON);
        assert_eq!((none.policy, none.cpu_share), (IdlePolicy::Park, 0.0));
        assert!(none.sentence.contains("gets no packets"), "{}", none.sentence);
        assert_eq!(one(worker(1.0, 1e7, 32.0), &ON).policy, IdlePolicy::Pause);
        assert_eq!(one(worker(BUSY, 1e3, 1.0), &ON).policy, IdlePolicy::Pause);
        assert_eq!(one(worker(0.899, 1e3, 1.0), &ON).policy, IdlePolicy::Park);
        assert_eq!(propose(&[], &ON), Ok(Vec::new()));
    }

    #[test]
    fn a_shared_cpu_is_left_to_its_other_threads() {
        let shared = Worker { shares_cpu: true, ..worker(0.3, 1e6, 1.0) };
        let proposal = one(shared.clone(), &ON);
        assert_eq!(proposal.policy, IdlePolicy::Park);
        assert!(proposal.cpu_share <= 1.0 && proposal.sentence.contains("other threads"));
        let busy = Worker { busy: 0.97, ..shared };
        assert_eq!(one(busy, &ON).policy, IdlePolicy::Pause, "it has no time to sleep");
    }

    #[test]
    fn a_latency_limit_keeps_workers_awake() {
        let light = worker(0.01, 5_000.0, 1.0);
        let with = |limit_us, polling_us: Option<f64>| Conditions {
            p99_limit_ns: Some(limit_us * US),
            polling_p99_ns: polling_us.map(|us| us * US),
            ..ON
        };
        let of = |on: Conditions| one(light.clone(), &on).policy;
        assert_eq!(of(with(70.0, Some(10.0))), IdlePolicy::Park, "exactly enough");
        assert_eq!(of(with(69.9, Some(10.0))), IdlePolicy::Slow);
        assert_eq!(of(with(10.9, Some(10.0))), IdlePolicy::Pause);
        assert_eq!(of(with(5.0, Some(10.0))), IdlePolicy::Pause);
        assert_eq!(of(with(1e6, None)), IdlePolicy::Pause, "an unknown latency meets no limit");
        let over = one(light.clone(), &with(5.0, Some(10.0)));
        assert!(over.sentence.contains("over the limit of 5 µs even"), "{}", over.sentence);
        let unknown = one(light.clone(), &with(1e6, None));
        assert!(unknown.sentence.contains("p99 latency is unknown"), "{}", unknown.sentence);
    }

    #[test]
    fn workers_along_a_path_share_the_room_for_latency() {
        let (light, heavier) = (worker(0.01, 1_000.0, 1.0), worker(0.2, 20_000.0, 1.0));
        let limit = |us: f64| Conditions { p99_limit_ns: Some(us * US), ..ON };
        let workers = [heavier, light, worker(0.95, 1e6, 1.0)];
        assert_eq!(policies(&workers, &ON), ["park", "park", "pause"]);
        assert_eq!(policies(&workers, &limit(130.0)), ["park", "park", "pause"]);
        // There is room for one wake-up: the worker that saves more CPU time gets it.
        assert_eq!(policies(&workers, &limit(129.0)), ["slow", "park", "pause"]);
        assert_eq!(policies(&workers, &limit(70.5)), ["pause", "park", "pause"]);
        assert_eq!(policies(&workers, &limit(12.5)), ["slow", "slow", "pause"]);
        assert_eq!(policies(&workers, &limit(11.5)), ["pause", "slow", "pause"]);
    }

    #[test]
    fn unknown_inputs_are_errors() {
        let load = [worker(f64::NAN, 1.0, 1.0), worker(0.1, f64::NAN, 1.0), worker(0.1, 1.0, 0.0)];
        for worker in load {
            let refused = propose(std::slice::from_ref(&worker), &ON).expect_err("unknown");
            assert!(refused.contains("load of worker 0.0"), "{refused}");
        }
        for ns in [0.0, f64::NAN, f64::INFINITY] {
            let refused = propose(&[], &Conditions { wake_up_ns: ns, ..ON }).expect_err("unknown");
            assert!(refused.contains("wake-up"), "{refused}");
        }
    }
}
