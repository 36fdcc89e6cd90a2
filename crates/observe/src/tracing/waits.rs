// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines from scheduler events how long observed threads waited for a CPU, and which threads
//! ran on it in the meantime. Performs no I/O.
//!
//! ```text
//! woken, or switched out while runnable:  the thread starts to wait for that CPU
//! each switch on that CPU:                the thread switched out ran instead, from when it was
//!                                         switched in or the wait started, whichever is later
//! switched in:                            the wait ends
//! ```

use linerate_record::why::RanInstead;
use std::collections::{BTreeMap, BTreeSet};

/// A scheduler event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scheduled {
    pub time_ns: u64,
    pub cpu: u32,
    pub what: What,
}

/// Kind of scheduler event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A thread was woken, to run on this CPU.
    Woke { tid: u32 },
    /// The CPU switched from one thread to another.
    Switched { from: u32, from_name: String, can_run: bool, to: u32 },
    /// Events may be missing, so the state is unknown.
    Gap,
}

/// A thread that is waiting for a CPU.
#[derive(Clone, Copy, Debug)]
struct Wait {
    cpu: u32,
    since_ns: u64,
}

/// How long and how often another thread ran instead of a waiting thread.
#[derive(Clone, Debug, Default)]
struct Instead {
    name: String,
    ns: u64,
    times: u64,
    longest_ns: u64,
}

/// Waits of the observed threads so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    watched: BTreeSet<u32>,
    waiting: BTreeMap<u32, Wait>,
    /// Time of the last switch on each CPU.
    switched: BTreeMap<u32, u64>,
    /// How long other threads ran instead, by thread ID of the waiting and of the running thread.
    instead: BTreeMap<(u32, u32), Instead>,
    /// Histogram of each observed thread's waits, by length.
    lengths: BTreeMap<u32, Vec<u64>>,
}

/// Maximum number of other threads to list per observed thread.
const MAX_NAMED: usize = 8;

impl Waits {
    pub(super) fn watch(&mut self, tid: u32) {
        self.watched.insert(tid);
    }

    /// Begins the window: forgets the waits that have ended.
    pub(super) fn begin_window(&mut self) {
        self.instead.clear();
        self.lengths.clear();
    }

    /// Processes one event. Events must be passed in time order.
    pub(super) fn take(&mut self, event: &Scheduled) {
        let &Scheduled { time_ns, cpu, ref what } = event;
        match what {
            What::Woke { tid } if self.watched.contains(tid) => {
                self.waiting.entry(*tid).or_insert(Wait { cpu, since_ns: time_ns });
            }
            What::Woke { .. } => {}
            What::Switched { from, from_name, can_run, to } => {
                self.ran(cpu, *from, from_name, time_ns);
                self.switched.insert(cpu, time_ns);
                if *can_run && self.watched.contains(from) {
                    self.waiting.insert(*from, Wait { cpu, since_ns: time_ns });
                }
                if let Some(wait) = self.waiting.remove(to) {
                    self.waited(*to, time_ns.saturating_sub(wait.since_ns));
                }
            }
            What::Gap => {
                self.waiting.clear();
                self.switched.clear();
            }
        }
    }

    /// Records that `who` ran on `cpu` until `now`, instead of the threads waiting for that CPU.
    fn ran(&mut self, cpu: u32, who: u32, name: &str, now: u64) {
        let Some(&began) = self.switched.get(&cpu) else {
            return;
        };
        for (&tid, wait) in self.waiting.iter().filter(|(_, wait)| wait.cpu == cpu) {
            let ns = now.saturating_sub(began.max(wait.since_ns));
            if who == 0 || who == tid || ns == 0 {
                continue;
            }
            let instead = self.instead.entry((tid, who)).or_default();
            name.clone_into(&mut instead.name);
            instead.ns += ns;
            instead.times += 1;
            instead.longest_ns = instead.longest_ns.max(ns);
        }
    }

    fn waited(&mut self, tid: u32, ns: u64) {
        let class = (ns / 1000).checked_ilog2().unwrap_or(0) as usize;
        let lengths = self.lengths.entry(tid).or_default();
        if lengths.len() <= class {
            lengths.resize(class + 1, 0);
        }
        lengths[class] += 1;
    }

    /// Returns a histogram of a thread's waits by length, as in `ThreadActivity`. `scale` is the
    /// ratio of the window to the time in which events were read.
    pub(super) fn lengths(&self, tid: u32, scale: f64) -> Vec<u64> {
        let lengths = self.lengths.get(&tid).map(Vec::as_slice).unwrap_or_default();
        lengths.iter().map(|&count| scaled(count, scale)).collect()
    }

    /// Returns the threads that ran instead of `tid`, longest first. The time of `observer`, the
    /// calling thread, is not scaled, because it hardly runs except while events are read.
    pub(super) fn instead_of(&self, tid: u32, scale: f64, observer: u32) -> Vec<RanInstead> {
        let of_tid = self.instead.range((tid, 0)..=(tid, u32::MAX));
        let mut found: Vec<RanInstead> = of_tid
            .map(|(&(_, who), instead)| {
                let scale = if who == observer { 1.0 } else { scale };
                RanInstead {
                    name: instead.name.clone(),
                    tid: Some(who),
                    pid: None,
                    seconds: instead.ns as f64 / 1e9 * scale,
                    times: scaled(instead.times, scale),
                    longest_s: instead.longest_ns as f64 / 1e9,
                }
            })
            .collect();
        found.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        found.truncate(MAX_NAMED);
        found
    }
}

fn scaled(count: u64, scale: f64) -> u64 {
    (count as f64 * scale).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn switch(us: u64, cpu: u32, from: u32, can_run: bool, to: u32) -> Scheduled {
        let from_name = format!("t{from}");
        let what = What::Switched { from, from_name, can_run, to };
        Scheduled { time_ns: us * 1000, cpu, what }
    }

    fn woke(us: u64, cpu: u32, tid: u32) -> Scheduled {
        Scheduled { time_ns: us * 1000, cpu, what: What::Woke { tid } }
    }

    fn waits(events: &[Scheduled]) -> Waits {
        let mut waits = Waits::default();
        waits.watch(7);
        events.iter().for_each(|event| waits.take(event));
        waits
    }

    #[test]
    fn who_ran_while_a_preempted_thread_waited_is_named() {
        let waits = waits(&[
            switch(0, 1, 0, true, 7),
            switch(100, 1, 7, true, 8),
            switch(400, 1, 8, true, 9),
            switch(400, 0, 5, true, 6),
            switch(1_100, 1, 9, false, 7),
        ]);
        let instead = waits.instead_of(7, 1.0, 99);
        let found: Vec<(&str, u64)> =
            instead.iter().map(|i| (i.name.as_str(), (i.seconds * 1e6).round() as u64)).collect();
        assert_eq!(found, [("t9", 700), ("t8", 300)]);
        // 1000 us: 2^9 to 2^10.
        assert_eq!(waits.lengths(7, 1.0), [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(waits.lengths(7, 3.0)[9], 3);
        // With one slice in three read, the observer's own time is not three times as long.
        let scaled = waits.instead_of(7, 3.0, 8);
        let us = scaled.iter().map(|one| (one.seconds * 1e6).round() as u64);
        assert_eq!(us.collect::<Vec<_>>(), [2_100, 300]);
    }

    #[test]
    fn a_thread_that_sleeps_does_not_wait_until_it_is_woken() {
        let waits = waits(&[
            switch(0, 1, 0, true, 7),
            switch(100, 1, 7, false, 8),
            woke(900, 1, 7),
            switch(1_000, 1, 8, true, 7),
        ]);
        let instead = waits.instead_of(7, 1.0, 99);
        assert_eq!((instead.len(), (instead[0].seconds * 1e6).round() as u64), (1, 100));
    }

    #[test]
    fn nothing_is_summed_over_a_gap() {
        let gap = Scheduled { time_ns: 500_000, cpu: 0, what: What::Gap };
        let waits = waits(&[
            switch(0, 1, 0, true, 7),
            switch(100, 1, 7, true, 8),
            gap,
            switch(9_000, 1, 8, true, 7),
        ]);
        assert!(waits.instead_of(7, 1.0, 99).is_empty() && waits.lengths(7, 1.0).is_empty());
    }

    proptest! {
        #[test]
        fn no_thread_runs_longer_than_the_elapsed_time(
            events in prop::collection::vec(
                (0u64..1000, 0u32..3, 0u32..9, any::<bool>(), 0u32..9),
                0..80,
            ),
        ) {
            let mut events = events;
            events.sort_unstable();
            let events: Vec<Scheduled> = events
                .into_iter()
                .map(|(us, cpu, from, can_run, to)| switch(us, cpu, from, can_run, to))
                .collect();
            for instead in waits(&events).instead_of(7, 1.0, 99) {
                prop_assert!(instead.seconds <= 1e-3 && instead.longest_s <= instead.seconds);
            }
        }
    }
}
