// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters of one thread, opened as one group and read as cheaply as this machine allows.
//!
//! The group is pinned: it is on the counters whenever its thread runs, or the kernel refuses it. So
//! counts between two reads are whole, and nothing is scaled. Left out: event sets that take turns
//! ([`session`](crate::session) has them).

use crate::event::{Class, Event};
use crate::opener::Opener;
use crate::refusal::{Attempt, Refusal, explain, never_scheduled};
use crate::surroundings::Surroundings;
use crate::user::{UserCounter, with_user_access};
use linerate_linux::errno;
use linerate_linux::perf::{self, OpenError, Request, Target};
use linerate_record::Tier;
use std::marker::PhantomData;

/// Most events of one thread: no processor of the tables counts more at once in its general
/// counters.
pub const EVENTS_MAX: usize = 8;

/// One reading of every event, in the order of [`ThreadGroup::outcomes`], refused ones 0.
pub type Counts = [u64; EVENTS_MAX];

/// What an event rests on, or why it is not counted.
pub type Outcome = Result<Tier, Refusal>;

/// How counts are had.
#[derive(Debug)]
enum Way {
    /// There are none.
    TicksOnly,
    /// Without a system call. The group is kept for the moments in which that does not work.
    User(Vec<UserCounter>),
    /// By read(2) of the whole group.
    Kernel,
}

/// The counters of the thread that opened it; stays there.
#[derive(Debug)]
pub struct ThreadGroup {
    way: Way,
    /// The leader first.
    group: Vec<perf::Event>,
    /// For each member of the group, which event of the caller it is.
    places: Vec<usize>,
    outcomes: Vec<Outcome>,
    stays_in_its_thread: PhantomData<*const ()>,
}

/// Who opens events, and what explains why one is refused.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// Opens them.
    pub opener: &'a dyn Opener,
    /// Where this process runs.
    pub surroundings: &'a Surroundings,
    /// Whether the processor is one of the event tables'.
    pub is_known_processor: bool,
}

impl ThreadGroup {
    /// Opens `events` on the calling thread and starts them. Those that are refused are told by
    /// [`ThreadGroup::outcomes`]; the others count.
    ///
    /// ```text
    /// loop
    ///     open a group of all events not yet refused; what does not open is refused
    ///     start it and read it; if that works: done
    ///     somebody else holds a counter: the last hardware event is refused
    /// ```
    pub fn open(machine: Machine<'_>, events: &[Event], user_only: bool) -> Self {
        let mut opened = Self {
            way: Way::TicksOnly,
            group: Vec::new(),
            places: Vec::new(),
            outcomes: vec![Ok(Tier::Sw); events.len()],
            stays_in_its_thread: PhantomData,
        };
        for (event, outcome) in events.iter().zip(&mut opened.outcomes).skip(EVENTS_MAX) {
            let error = OpenError { errno: errno::EINVAL };
            *outcome =
                Err(machine.explain(error, event, &Request::new(event.selector), EVENTS_MAX));
        }
        loop {
            opened.open_group(machine, events, user_only);
            let Some(leader) = opened.group.first() else { return opened };
            if leader.enable().is_ok() && leader.read().is_ok() {
                break;
            }
            let is_hardware = |place: &&usize| events[**place].class == Class::Hardware;
            let hardware = opened.places.iter().rev().find(is_hardware);
            let last = *hardware.or(opened.places.last()).expect("a group has members");
            opened.outcomes[last] = Err(never_scheduled(&events[last], machine.surroundings));
        }
        opened.way = opened.user_counters().map_or(Way::Kernel, Way::User);
        opened
    }

    /// Opens the group anew, stopped.
    fn open_group(&mut self, machine: Machine<'_>, events: &[Event], user_only: bool) {
        self.group.clear();
        self.places.clear();
        for (place, event) in events.iter().enumerate() {
            if self.outcomes[place].is_err() {
                continue;
            }
            self.outcomes[place] = self.join(machine, event, user_only).map(|(member, tier)| {
                self.group.push(member);
                self.places.push(place);
                tier
            });
        }
    }

    /// Opens one event in the group, counting kernel mode too where that is allowed.
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
        let mut result = open(&request);
        let is_forbidden = matches!(&result, Err(error) if error.errno == errno::EACCES);
        if is_forbidden && is_hardware && !request.exclude_kernel {
            request.exclude_kernel = true;
            result = open(&request);
        }
        let tier = match (is_hardware, request.exclude_kernel) {
            (false, _) => Tier::Sw,
            (true, false) => Tier::Hw,
            (true, true) => Tier::User,
        };
        let refused = |error| machine.explain(error, event, &request, self.group.len());
        result.map(|member| (member, tier)).map_err(refused)
    }

    /// The members as user counters, if every one of them can be read that way now.
    fn user_counters(&self) -> Option<Vec<UserCounter>> {
        let map = |event| UserCounter::map(event).ok().filter(|c| c.count().is_some());
        self.group.iter().map(map).collect()
    }

    /// Per event asked for, what it rests on or why it is not counted.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// How counts are had, in the words of the record.
    pub fn reading(&self) -> &'static str {
        match self.way {
            Way::TicksOnly => "timestamp counter only",
            Way::User(_) => "user read",
            Way::Kernel => "read(2)",
        }
    }

    /// Reads every event into its place; whether that worked. It ceases to when the group lost its
    /// counters, e.g. to a CPU put online whose watchdog takes one.
    #[inline]
    pub fn read(&self, counts: &mut Counts) -> bool {
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
                true
            }
        }
    }

    /// The same by read(2).
    fn ask(&self, counts: &mut Counts) -> bool {
        let Some(Ok(reading)) = self.group.first().map(perf::Event::read) else { return false };
        for (value, place) in reading.values().iter().zip(&self.places) {
            counts[*place] = *value;
        }
        true
    }

    /// Starts counting again after [`ThreadGroup::stop`].
    pub fn start(&self) {
        // A group that cannot be started cannot be read either, which is told then.
        let _ = self.group.first().map(perf::Event::enable);
    }

    /// Stops counting, so that others may have the counters.
    pub fn stop(&self) {
        let _ = self.group.first().map(perf::Event::disable);
    }
}

impl Machine<'_> {
    fn explain(
        &self,
        error: OpenError,
        event: &Event,
        request: &Request,
        group_len: usize,
    ) -> Refusal {
        let (target, is_known_processor) = (Target::CurrentThread, self.is_known_processor);
        let attempt = Attempt { event, request, target, group_len, is_known_processor };
        explain(error, &attempt, self.surroundings)
    }
}
