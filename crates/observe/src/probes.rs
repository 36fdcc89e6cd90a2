// SPDX-License-Identifier: MIT OR Apache-2.0
//! The samples of the watched threads, and what they change in their time budgets.

use crate::sampler::{Sampler, ThreadId, ThreadProfile};
use crate::threads::{Thread, Threads};
use linerate_record::Figure;
use linerate_record::stats::Estimate;
use linerate_record::why::{ThreadActivity, ThreadState, ThreadTime, Unread};

/// Samples threads through the window.
pub(crate) struct Probes {
    sampler: Sampler,
    /// Threads seen until now.
    seen: usize,
}

/// The threads, those that ran or waited most first.
fn busiest(threads: &[Thread]) -> Vec<ThreadId> {
    let mut threads: Vec<&Thread> = threads.iter().filter(|thread| thread.is_followed()).collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.wanted_ns()));
    threads.into_iter().map(|thread| ThreadId { pid: thread.pid, tid: thread.tid }).collect()
}

impl Probes {
    /// Begins. What is not possible is said in `unread`.
    pub(crate) fn start(threads: &Threads, unread: &mut Vec<Unread>) -> Self {
        let (sampler, refused) = Sampler::start(&busiest(&threads.all));
        unread.extend(refused);
        Self { sampler, seen: threads.all.len() }
    }

    /// Ends a slice, and watches the threads that have appeared in it.
    pub(crate) fn end_slice(&mut self, threads: &Threads) {
        self.sampler.end_slice();
        if threads.all.len() > self.seen {
            // What is refused of them was of the others.
            self.sampler.watch(&busiest(&threads.all[self.seen..]));
            self.seen = threads.all.len();
        }
    }

    /// Ends, and puts what was seen to the threads. `packets` are those of each slice.
    pub(crate) fn finish(
        self,
        packets: &[Option<u64>],
        activities: &mut [ThreadActivity],
        unread: &mut Vec<Unread>,
    ) {
        let left_out = self.sampler.left_out();
        if left_out > 0 {
            unread.push(Unread {
                what: "samples".to_owned(),
                reason: format!("{left_out} threads were not sampled: there are too many"),
                fix: None,
            });
        }
        let asleep: Vec<(ThreadId, f64)> = activities.iter().map(asleep_of).collect();
        let profiles = self.sampler.finish(packets, |id| {
            asleep.iter().find(|(found, _)| *found == id).map_or(0.0, |(_, share)| *share)
        });
        for profile in profiles {
            let is_meant = |activity: &&mut ThreadActivity| {
                (activity.pid, activity.tid) == (profile.id.pid, profile.id.tid)
            };
            if let Some(activity) = activities.iter_mut().find(is_meant) {
                apply(profile, activity);
            }
        }
    }
}

fn asleep_of(activity: &ThreadActivity) -> (ThreadId, f64) {
    let share = share_of(&activity.time, ThreadState::Asleep);
    (ThreadId { pid: activity.pid, tid: activity.tid }, share.unwrap_or(0.0))
}

fn share_of(time: &[ThreadTime], state: ThreadState) -> Option<f64> {
    time.iter().find(|time| time.state == state)?.share.as_number()
}

/// Puts a profile to its thread.
fn apply(profile: ThreadProfile, activity: &mut ThreadActivity) {
    if let Some(in_kernel) = profile.polling_in_kernel {
        separate(&mut activity.time, &profile.busy, in_kernel);
    }
    activity.samples = profile.samples;
    activity.functions = profile.functions;
    activity.busy = profile.busy;
    activity.cost_ns = profile.cost_ns;
}

/// Divides user time in work and polling. `busy` is the share of work in all time on a CPU;
/// `in_kernel` is the share of polling that is the kernel's, and stays there.
fn separate(time: &mut Vec<ThreadTime>, busy: &Figure, in_kernel: f64) {
    let place = time.iter().position(|time| time.state == ThreadState::User);
    let (Some(busy), Some(place)) = (busy.estimate(), place) else { return };
    let Some(user) = time[place].share.as_number() else { return };
    let on_cpu = user + share_of(time, ThreadState::Kernel).unwrap_or(0.0);
    let of_polling = on_cpu * (1.0 - in_kernel.clamp(0.0, 1.0));
    let polling = |busy: f64| ((1.0 - busy) * of_polling).clamp(0.0, user);
    let figure = |value: f64, [one, other]: [f64; 2]| {
        let (low, high) = (one.min(other), one.max(other));
        let estimate = Estimate { value, low, high, ..busy };
        let method = "user time divided by samples fitted over packets";
        Figure::number("ratio", estimate, time[place].share.tier, method)
    };
    let [value, low, high] = [busy.value, busy.low, busy.high].map(polling);
    let parts = [
        (ThreadState::Work, figure(user - value, [user - low, user - high])),
        (ThreadState::Polling, figure(value, [low, high])),
    ];
    let parts = parts.map(|(state, share)| ThreadTime { state, share });
    time.splice(place..=place, parts);
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::Tier;

    #[test]
    fn user_time_is_divided_and_the_sum_stays() {
        let part = |state, share| ThreadTime {
            state,
            share: Figure::exact("ratio", share, Tier::Sw, "made up"),
        };
        let mut time = vec![part(ThreadState::User, 0.6), part(ThreadState::Kernel, 0.2)];
        let estimate = Estimate { value: 0.5, low: 0.4, high: 0.6, confidence: 0.95, n: 100 };
        let busy = Figure::number("ratio", estimate, Tier::Sw, "made up");
        separate(&mut time, &busy, 0.25);
        let share = |state| share_of(&time, state).unwrap();
        // Half of 0.8 is polling, a quarter of that in the kernel.
        assert!((share(ThreadState::Polling) - 0.3).abs() < 1e-9);
        assert!((share(ThreadState::Work) - 0.3).abs() < 1e-9);
        assert_eq!(share(ThreadState::Kernel), 0.2);
        let polling = &time[1].share;
        assert!(polling.low.unwrap() < 0.3 && polling.high.unwrap() > 0.3, "{polling:?}");
        // A thread that polls in the kernel alone keeps its user time as work.
        let mut time = vec![part(ThreadState::User, 0.6)];
        separate(&mut time, &busy, 1.0);
        assert_eq!(share_of(&time, ThreadState::Polling), Some(0.0));
        let mut time = vec![part(ThreadState::User, 0.6)];
        separate(&mut time, &Figure::absent("ratio", Tier::Sw, "", ""), 0.0);
        assert_eq!(time.len(), 1);
    }
}
