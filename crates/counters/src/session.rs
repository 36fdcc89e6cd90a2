// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens, starts, multiplexes and reads events, and passes their counts to
//! [`rotation`](crate::rotation).
//!
//! Software events are always counted. Hardware events are counted all the time if they all fit on
//! the counters. Otherwise they are multiplexed in sets, and the session's owner must call
//! [`Session::turn`] whenever the next set is due. A refused event does not affect the others.
//!
//! The session's owner provides the clock and does the waiting. Event names are in
//! [`catalog`](crate::catalog), and `linerate-doctor` explains refusals.

mod groups;
mod open;
mod pack;

use crate::event::{Class, Event};
use crate::opener::Opener;
use crate::refusal::Refusal;
use crate::rotation::{AlwaysCount, Counts, DEFAULT_SLICE, Plan, Slice, Slices, Turns, Whole};
use groups::{Groups, Sums};
use linerate_record::Tier;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Target of a session: threads, processes or CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A child process, by ID, that is about to call execve(2), which starts counting.
    Held(u32),
    /// One thread, by ID.
    Thread(u32),
    /// All current threads of a process, by ID.
    Process(u32),
    /// Everything that runs on these logical CPUs.
    Cpus(Vec<u32>),
    /// The calling thread.
    CurrentThread,
}

/// Counting session options.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Whether hardware events count user mode only rather than both modes. With `None`, they count
    /// both modes if the kernel permits it, otherwise user mode only. Software events, such as page
    /// faults, are always counted as with `None`.
    pub user_only: Option<bool>,
    /// Whether threads and processes that the target creates later are counted too.
    pub inherit: bool,
    /// Nominal slice length when multiplexing.
    pub slice: Duration,
    /// Random seed for the set order.
    pub seed: u64,
    /// Index of the reference event by which the counts of multiplexed events are scaled; `None` to
    /// scale by time. If possible, the reference event is not multiplexed; otherwise, counts are
    /// scaled by time. See [`Session::scaled_by`].
    pub scale_by: Option<usize>,
    /// Number of sessions, including this one, that count the same events on the same threads at
    /// the same time; at least 1. They share the counters, so fewer events fit into a set. Even a
    /// single event may not fit; the kernel then multiplexes it, and its counts have no upper
    /// bound.
    pub sessions: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            user_only: None,
            inherit: true,
            slice: DEFAULT_SLICE,
            seed: 1,
            scale_by: None,
            sessions: 1,
        }
    }
}

/// Events opened on a target. Closed on drop.
#[derive(Debug)]
pub struct Session {
    events: Vec<Event>,
    outcomes: Vec<Result<(), Refusal>>,
    user_only: Vec<bool>,
    starts_with_exec: bool,
    plan: Plan,
    groups: Groups,
    /// For each event in [`Plan::always`], its group and its index in that group.
    always: Vec<(usize, usize)>,
    /// Group of each event set in the plan.
    sets: Vec<usize>,
    /// Index in `always` of the event chosen with [`Options::scale_by`].
    base: Option<usize>,
    turns: Option<Turns>,
    /// Index of the event set being counted.
    current: usize,
    /// Length of the first slice.
    first_length: Duration,
    /// Last reading of each event set.
    shown: Vec<Sums>,
    /// Last reading of the scaling base.
    base_shown: Sums,
    slices: Slices,
    /// Whether the last event set could not be read, in which case its last counts are missing.
    is_behind: bool,
    /// All counts at the start of the current lap, i.e. at the last call to [`Session::lap`].
    lap: Option<Mark>,
    is_counting: bool,
}

/// All counts from the start of the session up to a given moment.
#[derive(Clone, Debug)]
struct Mark {
    slices: Slices,
    always: Vec<Option<AlwaysCount>>,
    base: f64,
    enabled_ns: u64,
}

/// Slice length if there is only one event set. Slices then only serve to detect that another user
/// of the PMU takes counters.
const SLICE_ALONE: Duration = Duration::from_millis(100);

/// Delay until the next call to [`Session::turn`] if no event set is counted in slices.
const NEVER: Duration = Duration::from_secs(3600);

impl Session {
    /// Opens events without starting them. A refused event does not affect the others; see
    /// [`Session::outcomes`]. A process's threads are read from /proc under the directory `root`.
    pub fn open(
        opener: &dyn Opener,
        root: &Path,
        events: &[Event],
        scope: &Scope,
        options: &Options,
    ) -> Self {
        open::open(opener, root, events, scope, options)
    }

    /// Returns the events, in the order passed to [`Session::open`].
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns `Ok` for each event that is counted, otherwise why it is not. [`Session::finish`]
    /// adds a refusal for events that were opened but never got a counter.
    pub fn outcomes(&self) -> &[Result<(), Refusal>] {
        &self.outcomes
    }

    /// Returns the schedule: which events are counted all the time, and which are multiplexed.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the index of the reference event by which the counts of multiplexed events are
    /// scaled; `None` if they are scaled by time.
    pub fn scaled_by(&self) -> Option<usize> {
        self.base.map(|place| self.plan.always[place])
    }

    /// Returns whether only user mode is counted for this event.
    pub fn is_user_only(&self, event: usize) -> bool {
        self.user_only[event]
    }

    /// Returns the evidence tier of hardware events: `hw` if any of them counts both modes,
    /// otherwise `user`; `None` if none is open.
    pub fn tier(&self) -> Option<Tier> {
        let events = self.events.iter().zip(&self.outcomes).zip(&self.user_only);
        let hardware = events
            .filter(|((event, outcome), _)| event.class == Class::Hardware && outcome.is_ok());
        hardware.map(|(_, &is_user_only)| if is_user_only { Tier::User } else { Tier::Hw }).min()
    }

    /// Starts counting, except for [`Scope::Held`], for which execve(2) starts counting. Returns
    /// the time until [`Session::turn`] is due.
    ///
    /// # Errors
    /// Returns the error from ioctl(2) if a group cannot be started.
    pub fn start(&mut self) -> io::Result<Duration> {
        self.is_counting = true;
        if !self.starts_with_exec {
            for group in self.groups_without_turns() {
                self.groups.enable(group)?;
            }
            if let Some(&group) = self.sets.get(self.current) {
                self.groups.enable(group)?;
            }
        }
        Ok(self.first_length)
    }

    fn groups_without_turns(&self) -> impl Iterator<Item = usize> {
        let sets = self.sets.clone();
        (0..self.groups.len()).filter(move |group| !sets.contains(group))
    }

    /// Ends the current slice and starts the next. Returns the time until the next call is due.
    /// Late calls do not bias the counts but widen their intervals.
    pub fn turn(&mut self) -> Duration {
        let ended = self.current;
        let length = match &mut self.turns {
            None if self.sets.is_empty() => return NEVER,
            None => SLICE_ALONE,
            Some(turns) => {
                let turn = turns.next_turn();
                self.current = turn.set;
                turn.length
            }
        };
        if self.turns.is_some() && self.is_counting {
            self.switch(ended, self.current);
        }
        self.collect(ended);
        length
    }

    /// Stops counting one event set and starts another. Ignores errors, because a set that fails to
    /// start shows up as missing time on the counters, and nothing else can be done about it.
    fn switch(&self, from: usize, to: usize) {
        if from != to {
            let _ = self.groups.disable(self.sets[from]);
            let _ = self.groups.enable(self.sets[to]);
        }
    }

    /// Adds an event set's counts since it was last read. If it cannot be read now, the next read
    /// includes these counts.
    fn collect(&mut self, set: usize) {
        let base = match self.base {
            Some(place) => self.groups.read(self.always[place].0),
            None => Ok(Sums::default()),
        };
        let now = self.groups.read(self.sets[set]);
        self.is_behind = now.is_err() || base.is_err();
        let (Ok(now), Ok(base)) = (now, base) else {
            self.slices.skip();
            return;
        };
        let counted = now.since(&self.shown[set]);
        let around = base.since(&self.base_shown);
        let base_of_slice = match self.base {
            None => counted.running_ns as f64,
            // Use only the part of the base during which the set was counted: the set started a
            // little later than the slice, or had no counters for a while.
            Some(_) if around.enabled_ns == 0 => 0.0,
            Some(place) => {
                let share = counted.running_ns as f64 / around.enabled_ns as f64;
                around.values[self.always[place].1] as f64 * share
            }
        };
        self.slices.add(&Slice {
            set,
            counts: &counted.values,
            base: base_of_slice,
            enabled_ns: counted.enabled_ns,
            running_ns: counted.running_ns,
        });
        self.shown[set] = now;
        self.base_shown = base;
    }

    /// Ends the current slice and returns the counts since the start.
    pub fn snapshot(&mut self) -> Counts {
        let now = self.mark();
        self.counts(&now, None)
    }

    /// Ends the current slice and returns the counts since the last call, or since the start on the
    /// first call.
    pub fn lap(&mut self) -> Counts {
        let now = self.mark();
        let counts = self.counts(&now, self.lap.as_ref());
        self.lap = Some(now);
        counts
    }

    /// Stops counting, so that the final calls to [`Session::lap`] and [`Session::finish`] end at
    /// the same moment.
    pub fn stop(&mut self) {
        for group in 0..self.groups.len() {
            // The events of a finished target cannot be stopped and need not be.
            let _ = self.groups.disable(group);
        }
        self.is_counting = false;
    }

    /// Stops counting, and returns the counts since the start of the session.
    pub fn finish(&mut self) -> Counts {
        if self.is_counting {
            self.stop();
        }
        let counts = self.snapshot();
        for (tally, outcome) in counts.events.iter().zip(&mut self.outcomes) {
            if tally.is_none() && outcome.is_ok() {
                *outcome = Err(Refusal::NeverScheduled);
            }
        }
        counts
    }

    fn mark(&mut self) -> Mark {
        self.turn();
        let readings: Vec<Option<Sums>> =
            (0..self.groups.len()).map(|group| self.groups.read(group).ok()).collect();
        let always = self.always.iter().map(|&(group, place)| {
            let Sums { values, enabled_ns, running_ns } = readings[group].as_ref()?;
            let (enabled_ns, running_ns) = (*enabled_ns, *running_ns);
            Some(AlwaysCount { raw: values[place], enabled_ns, running_ns })
        });
        let always: Vec<Option<AlwaysCount>> = always.collect();
        let enabled_ns = self.enabled_ns(&readings);
        let base = match self.base {
            None => enabled_ns as f64,
            Some(place) => always[place].map_or(0.0, |count| count.raw as f64),
        };
        Mark { slices: self.slices.clone(), always, base, enabled_ns }
    }

    /// Returns the target's CPU time, derived from all groups.
    ///
    /// This time is measured in two ways. Neither ever overestimates it, so the larger value is
    /// used. The time of the always-counted groups includes the gaps between sets, but whenever the
    /// target is scheduled, the kernel starts the clocks of software events after those of hardware
    /// events. The sum over the sets lacks only the gaps, unless a set could not be read.
    fn enabled_ns(&self, readings: &[Option<Sums>]) -> u64 {
        let of_sets = self.shown.iter().map(|sums| sums.enabled_ns).sum();
        if self.turns.is_none() && !self.is_behind {
            return of_sets;
        }
        let readings = self.groups_without_turns().filter_map(|group| readings[group].as_ref());
        readings.map(|sums| sums.enabled_ns).fold(of_sets, u64::max)
    }

    fn counts(&self, now: &Mark, then: Option<&Mark>) -> Counts {
        let Some(then) = then else {
            let whole = Whole { always: &now.always, base: now.base, enabled_ns: now.enabled_ns };
            return now.slices.counts(self.events.len(), &self.plan, &whole);
        };
        let pairs = now.always.iter().zip(&then.always);
        let always: Vec<Option<AlwaysCount>> =
            pairs.map(|(now, then)| Some((*now)?.since(&(*then)?))).collect();
        let whole = Whole {
            always: &always,
            base: now.base - then.base,
            enabled_ns: now.enabled_ns.saturating_sub(then.enabled_ns),
        };
        now.slices.since(&then.slices).counts(self.events.len(), &self.plan, &whole)
    }
}
