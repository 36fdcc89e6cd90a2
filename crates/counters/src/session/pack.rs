// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packs hardware events into sets that fit on the counters.
//!
//! Only the kernel knows the constraints: some counters count only some events, and some events
//! have a dedicated counter. Groups are therefore opened on the first target, on a trial basis.
//!
//! ```text
//! for each event: the first set that accepts it, otherwise a new set
//! with several sets, for each event: if every other set accepts it too, it is always counted
//! ```
//!
//! When the kernel checks whether a group fits, some drivers ignore events that will not be enabled
//! (`validate_event` in Linux's drivers/perf/arm_pmu.c): with a stopped leader, a group could be
//! accepted with one event too many. Leaders are therefore opened so that execve(2) would start
//! them; no execve(2) occurs while they are open.
//!
//! The kernel checks a group as if all counters were free. The NMI watchdog holds a counter, so its
//! event is added to every trial set. If several sessions count the same target, each needs
//! counters at the same time, so every event is added once per session.

use crate::opener::Opener;
use linerate_linux::perf::{self, GROUP_MAX, HARDWARE, Request, Selector, Target};

/// The packed events, given by their index in the list of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Packing {
    /// Events that fit on the counters alongside every set, and so are always counted.
    pub(super) always: Vec<usize>,
    /// Sets of events that fit on the counters together, multiplexed if there are several.
    pub(super) sets: Vec<Vec<usize>>,
}

/// A group opened on a trial basis. The leader is dropped last to keep the group valid until then.
struct Trial {
    events: Vec<usize>,
    /// Set if even the first event does not fit once per session; no other event is then added.
    is_full: bool,
    members: Vec<perf::Event>,
    target: Target,
    leader: perf::Event,
}

/// Packs events into sets by opening them on a trial basis.
pub(super) struct Packer<'a> {
    pub(super) opener: &'a dyn Opener,
    /// Requests, each of which can be opened alone, on its target.
    pub(super) requests: &'a [Request],
    pub(super) targets: &'a [Target],
    pub(super) is_watchdog_on: bool,
    /// Index of the event that should always be counted, if possible.
    pub(super) base: Option<usize>,
    /// How many sessions count the same events on the same target; at least 1.
    pub(super) sessions: usize,
}

/// Event counted by the NMI watchdog: `PERF_COUNT_HW_CPU_CYCLES`.
const WATCHDOG: Selector = Selector::new(HARDWARE, 0);

impl Packer<'_> {
    /// Packs all events into sets, and finds those that can always be counted.
    pub(super) fn pack(&self) -> Packing {
        let all: Vec<usize> = (0..self.requests.len()).collect();
        let (mut trials, _) = self.fill(&all, None);
        let mut always = Vec::new();
        if let Some(base) = self.base.filter(|_| trials.len() > 1) {
            let others: Vec<usize> = all.iter().copied().filter(|&event| event != base).collect();
            let (beside, fits) = self.fill(&others, Some(base));
            if fits {
                trials = beside;
                always.push(base);
            }
        }
        if trials.len() > 1 {
            let free = all.iter().filter(|&event| !always.contains(event));
            let free: Vec<usize> =
                free.copied().filter(|&event| self.is_free(event, &mut trials)).collect();
            always.extend(free);
        }
        let mut sets: Vec<Vec<usize>> = trials.into_iter().map(|trial| trial.events).collect();
        for set in &mut sets {
            set.retain(|event| !always.contains(event));
        }
        sets.retain(|set| !set.is_empty());
        Packing { always, sets }
    }

    /// Packs events into sets, each of which also has the event `base`, if any. Returns the sets,
    /// and whether `base` fits into all of them.
    fn fill(&self, events: &[usize], base: Option<usize>) -> (Vec<Trial>, bool) {
        let (mut trials, mut fits) = (Vec::<Trial>::new(), true);
        for &event in events {
            if trials.iter_mut().any(|trial| self.joins(event, trial)) {
                continue;
            }
            // The event could be opened alone before. If it no longer can be, it is omitted, and
            // the session reports why.
            let leader = Request { enable_on_exec: true, ..self.requests[event] };
            let target = self.targets[event];
            let Ok(leader) = self.opener.open(&leader, target, None) else {
                continue;
            };
            let (events, members) = (vec![event], Vec::new());
            let mut trial = Trial { events, is_full: false, members, target, leader };
            if self.is_watchdog_on {
                let watchdog = Request { selector: WATCHDOG, ..self.member(event) };
                self.adds_times(1, &watchdog, &mut trial);
            }
            trial.is_full = !self.adds_times(self.sessions - 1, &self.member(event), &mut trial);
            fits &= base.is_none_or(|base| self.adds(&self.member(base), &mut trial));
            trials.push(trial);
        }
        (trials, fits)
    }

    /// Returns whether the event fits on the counters alongside every set. If so, it stays open in
    /// all of them.
    fn is_free(&self, event: usize, trials: &mut [Trial]) -> bool {
        let mut others: Vec<&mut Trial> =
            trials.iter_mut().filter(|trial| !trial.events.contains(&event)).collect();
        let request = self.member(event);
        let refuses = others.iter_mut().position(|trial| !self.adds(&request, trial));
        if let Some(taken) = refuses {
            for trial in &mut others[..taken] {
                trial.members.truncate(trial.members.len() - self.sessions);
            }
        }
        refuses.is_none()
    }

    fn joins(&self, event: usize, trial: &mut Trial) -> bool {
        let joins = self.adds(&self.member(event), trial);
        if joins {
            trial.events.push(event);
        }
        joins
    }

    /// Adds an event once for each session that counts it, or not at all.
    fn adds(&self, request: &Request, trial: &mut Trial) -> bool {
        !trial.is_full && self.adds_times(self.sessions, request, trial)
    }

    fn adds_times(&self, times: usize, request: &Request, trial: &mut Trial) -> bool {
        let before = trial.members.len();
        let mut add = || {
            let has_room = trial.members.len() + 1 < GROUP_MAX;
            let open = || self.opener.open(request, trial.target, Some(&trial.leader)).ok();
            has_room.then(open).flatten().map(|member| trial.members.push(member)).is_some()
        };
        let fits = (0..times).all(|_| add());
        if !fits {
            trial.members.truncate(before);
        }
        fits
    }

    fn member(&self, event: usize) -> Request {
        Request { disabled: false, enable_on_exec: false, ..self.requests[event] }
    }
}
