// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of one thread, opened as one perf group and read with the cheapest available method.
//!
//! The group is pinned: either it is on the counters whenever its thread runs, or the kernel
//! refuses it. Counts between two reads are therefore complete, and nothing is scaled. If the
//! kernel module `pmu_user` made the PMU registers accessible, hardware events are read from them
//! (`registers.rs`), and only the other events through perf. Nothing is multiplexed here (see
//! [`session`](crate::session)).

use crate::catalog::is_kernel_only;
use crate::event::{Class, Event};
use crate::opener::{Opener, open_best};
use crate::reading::{Counts, EVENTS_MAX, Mark, Outcome};
use crate::refusal::{Attempt, Refusal};
use crate::registers::{self, PmuUser, Registers};
use crate::user::{UserCounter, with_user_access};
use linerate_linux::errno;
use linerate_linux::perf::{self, OpenError, Request, Target};
use linerate_record::Tier;
use std::cell::Cell;
use std::marker::PhantomData;

/// Maximum difference, in ns, between the group's enabled and running times. If it is larger, the
/// group has lost its counters.
const LOST_NS: u64 = 1_000;

/// How a group's events are read.
#[derive(Debug)]
enum Way {
    /// The group has no events.
    TicksOnly,
    /// The thread reads the counters without a system call; read(2) on the group is the fallback.
    User(Vec<UserCounter>),
    /// The whole group is read with read(2).
    Kernel,
}

/// Counters of the thread that opened the group, which cannot be moved to another thread.
#[derive(Debug)]
pub struct ThreadGroup {
    registers: Option<Registers>,
    way: Way,
    /// Perf group events, leader first.
    group: Vec<perf::Event>,
    /// Each group member's index in the caller's list of events.
    places: Vec<usize>,
    outcomes: Vec<Outcome>,
    /// Total time in ns that the group had been without counters at the last check.
    lost_ns: Cell<u64>,
    stays_in_its_thread: PhantomData<*const ()>,
}

/// What is needed to open counters on this machine.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// Interface for opening perf events.
    pub opener: &'a dyn Opener,
    /// Current state of the kernel module `pmu_user`, which holds the counters; `None` if not
    /// loaded.
    pub pmu_user: Option<&'a PmuUser>,
    /// Whether the caller compares the marks of two reads ([`ThreadGroup::first`],
    /// [`ThreadGroup::second`]). If not, registers are not used, because their counts would include
    /// other threads.
    pub compares_marks: bool,
}

impl ThreadGroup {
    /// Opens `events` on the calling thread and starts them. [`ThreadGroup::outcomes`] reports
    /// refused events; the others are counted.
    ///
    /// ```text
    /// loop
    ///     open a group of all events not yet refused; refuse those that do not open
    ///     start it and read it; if that works: done
    ///     otherwise another user holds a counter: refuse the last hardware event
    /// ```
    pub fn open(machine: Machine<'_>, events: &[Event], user_only: bool) -> Self {
        let mut opened = Self {
            registers: None,
            way: Way::TicksOnly,
            group: Vec::new(),
            places: Vec::new(),
            outcomes: vec![Ok(Tier::Sw); events.len()],
            lost_ns: Cell::new(0),
            stays_in_its_thread: PhantomData,
        };
        for (event, outcome) in events.iter().zip(&mut opened.outcomes).skip(EVENTS_MAX) {
            let error = OpenError { errno: errno::EINVAL };
            *outcome = Err(refused(error, Request::new(event.selector), EVENTS_MAX));
        }
        if let Some(pmu_user) = machine.pmu_user {
            opened.open_registers(pmu_user, machine.compares_marks, events, user_only);
        }
        loop {
            opened.open_group(machine, events, user_only);
            let Some(leader) = opened.group.first() else { return opened };
            if leader.enable().is_ok() && leader.read().is_ok() {
                break;
            }
            let is_hardware = |place: &&usize| events[**place].class == Class::Hardware;
            let hardware = opened.places.iter().rev().find(is_hardware);
            let last = *hardware.or(opened.places.last()).expect("the group has an event");
            opened.outcomes[last] = Err(Refusal::NeverScheduled);
        }
        opened.way = opened.user_counters().map_or(Way::Kernel, Way::User);
        opened
    }

    /// Opens the PMU registers for the hardware events. Marks an event as refused if its register
    /// cannot be opened.
    fn open_registers(
        &mut self,
        pmu_user: &PmuUser,
        compares_marks: bool,
        events: &[Event],
        user_only: bool,
    ) {
        let outcomes = &mut self.outcomes;
        if compares_marks {
            self.registers = registers::open(pmu_user, events, user_only, outcomes);
            return;
        }
        for (event, outcome) in events.iter().zip(outcomes) {
            if event.class == Class::Hardware && outcome.is_ok() {
                *outcome = Err(Refusal::HeldByModule);
            }
        }
    }

    /// Reopens all group members, without starting them.
    fn open_group(&mut self, machine: Machine<'_>, events: &[Event], user_only: bool) {
        self.group.clear();
        self.places.clear();
        for (place, event) in events.iter().enumerate() {
            if self.outcomes[place].is_err() || self.is_by_registers(place) {
                continue;
            }
            self.outcomes[place] = self.join(machine, event, user_only).map(|(member, tier)| {
                self.group.push(member);
                self.places.push(place);
                tier
            });
        }
    }

    /// Opens one event as a group member, including kernel mode if permitted.
    fn join(
        &self,
        machine: Machine<'_>,
        event: &Event,
        user_only: bool,
    ) -> Result<(perf::Event, Tier), Refusal> {
        let leader = self.group.first();
        let is_hardware = event.class == Class::Hardware;
        let mut request = Request {
            disabled: leader.is_none(),
            pinned: leader.is_none(),
            exclude_kernel: is_hardware && (user_only || event.is_user_only),
            ..Request::new(event.selector)
        };
        if is_hardware {
            request = with_user_access(request);
        }
        let open = |request: &Request| machine.opener.open(request, Target::CurrentThread, leader);
        // An event that occurs only in the kernel would count 0 without kernel mode.
        let opened = open_best(&request, !is_kernel_only(event), open);
        let tier = |granted: &Request| match (is_hardware, granted.exclude_kernel) {
            (false, _) => Tier::Sw,
            (true, false) => Tier::Hw,
            (true, true) => Tier::User,
        };
        opened
            .map(|(member, granted)| (member, tier(&granted)))
            .map_err(|error| refused(error, request, self.group.len()))
    }

    /// Maps all group members for user-mode reads; `None` unless all of them can currently be read
    /// that way.
    fn user_counters(&self) -> Option<Vec<UserCounter>> {
        let map = |event| UserCounter::map(event).ok().filter(|c| c.count().is_some());
        self.group.iter().map(map).collect()
    }

    /// Returns each requested event's tier, or why it is not counted.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Returns whether the event at this index is read from its PMU register.
    pub fn is_by_registers(&self, place: usize) -> bool {
        self.registers.as_ref().is_some_and(|registers| registers.has(place))
    }

    /// Returns the maximum time between two register reads, in ms, for which counter wraps are
    /// detected; `None` if no event is read from a register.
    pub fn apart_ms(&self) -> Option<u64> {
        self.registers.as_ref().map(Registers::apart_ms)
    }

    /// Returns the read method as worded in the record.
    pub fn reading(&self) -> &'static str {
        match (&self.registers, &self.way) {
            (None, Way::TicksOnly) => "timestamp counter only",
            (None, Way::User(_)) => "user read",
            (None, Way::Kernel) => "read(2)",
            (Some(_), Way::TicksOnly) => "registers",
            (Some(_), _) => "registers, with read(2) for kernel events",
        }
    }

    /// Performs the first read of a pair, just before the measured code. `None` if
    /// [`ThreadGroup::read`] fails, or if PMU registers became inaccessible. Counts read [from
    /// registers](Self::is_by_registers) belong to this thread only if the second read has the same
    /// mark.
    #[inline]
    pub fn first(&self, counts: &mut Counts) -> Option<Mark> {
        let is_read = self.read_group(counts);
        let mark = match &self.registers {
            None => Mark::default(),
            Some(registers) => registers.first(counts)?,
        };
        is_read.then_some(mark)
    }

    /// Performs the second read of a pair, just after the measured code. `None` under the same
    /// conditions as [`ThreadGroup::first`].
    #[inline]
    pub fn second(&self, counts: &mut Counts) -> Option<Mark> {
        let mark = match &self.registers {
            None => Mark::default(),
            Some(registers) => registers.second(counts)?,
        };
        self.read_group(counts).then_some(mark)
    }

    /// Reads every event. Returns whether the read worked and the group kept its counters since the
    /// last read. A group loses its counters on a core type that does not count its events. It
    /// loses them permanently on a newly onlined CPU whose NMI watchdog takes a counter.
    #[inline]
    pub fn read(&self, counts: &mut Counts) -> bool {
        self.first(counts).is_some()
    }

    #[inline]
    fn read_group(&self, counts: &mut Counts) -> bool {
        match &self.way {
            Way::TicksOnly => true,
            Way::Kernel => self.ask(counts),
            Way::User(counters) => {
                for (counter, place) in counters.iter().zip(&self.places) {
                    match counter.count() {
                        Some(count) => counts[*place] = count,
                        None => return self.ask(counts),
                    }
                }
                self.is_whole(counters[0].lost_ns())
            }
        }
    }

    /// Reads all group events with read(2). Returns whether that worked and the group kept its
    /// counters.
    fn ask(&self, counts: &mut Counts) -> bool {
        let Some(Ok(reading)) = self.group.first().map(perf::Event::read) else { return false };
        for (value, place) in reading.values().iter().zip(&self.places) {
            counts[*place] = *value;
        }
        self.is_whole(reading.enabled_ns.saturating_sub(reading.running_ns))
    }

    /// Returns whether the group has kept its counters since the last read, given its total time
    /// without counters in ns.
    #[inline]
    fn is_whole(&self, lost_ns: u64) -> bool {
        let is_whole = lost_ns <= self.lost_ns.get() + LOST_NS;
        if !is_whole {
            self.lost_ns.set(lost_ns);
        }
        is_whole
    }

    /// Restarts counting after [`ThreadGroup::stop`].
    pub fn start(&self) {
        // A group that cannot be started cannot be read either, and the read reports that.
        let _ = self.group.first().map(perf::Event::enable);
    }

    /// Stops counting, which frees the hardware counters for other users.
    pub fn stop(&self) {
        let _ = self.group.first().map(perf::Event::disable);
    }
}

/// Returns the refusal for an event on the calling thread that was to join a group of `group_len`
/// events.
fn refused(error: OpenError, request: Request, group_len: usize) -> Refusal {
    Refusal::NotOpened(Attempt { error, request, target: Target::CurrentThread, group_len })
}

#[cfg(test)]
mod tests;
