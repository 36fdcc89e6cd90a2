// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters of one thread, opened as one group and read as cheaply as this machine allows.
//!
//! The group is pinned: it is on the counters whenever its thread runs, or the kernel refuses it.
//! So counts between two reads are whole, and nothing is scaled. Where a module opened the
//! registers of the counters, hardware events are read there (`registers.rs`), and perf is asked
//! for the others alone. Left out: event sets that take turns ([`session`](crate::session) has
//! them).

use crate::catalog::is_kernel_only;
use crate::event::{Class, Event};
use crate::opener::{Opener, open_best};
use crate::refusal::{Attempt, Refusal, explain, never_scheduled};
pub use crate::registers::Mark;
use crate::registers::{self, Registers};
use crate::surroundings::Surroundings;
use crate::user::{UserCounter, with_user_access};
use linerate_linux::errno;
use linerate_linux::perf::{self, OpenError, Request, Target};
use linerate_record::Tier;
use std::cell::Cell;
use std::marker::PhantomData;

/// Most events of one thread: no processor of the tables counts more at once in its general
/// counters.
pub const EVENTS_MAX: usize = 8;

/// No loss: two notes of the kernel's clock may be so far apart.
const LOST_NS: u64 = 1_000;

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
    registers: Option<Registers>,
    way: Way,
    /// The leader first.
    group: Vec<perf::Event>,
    /// For each member of the group, which event of the caller it is.
    places: Vec<usize>,
    outcomes: Vec<Outcome>,
    /// How long the group had been without its counters when it was last noticed.
    lost_ns: Cell<u64>,
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
    /// Whether the caller compares marks ([`ThreadGroup::first`], [`ThreadGroup::second`]), without
    /// which counts by registers would hold those of others.
    pub compares_marks: bool,
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
            *outcome =
                Err(machine.explain(error, event, &Request::new(event.selector), EVENTS_MAX));
        }
        if registers::are_held(machine.surroundings) {
            opened.open_registers(machine, events, user_only);
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

    /// Opens the registers for hardware events, which are refused where that does not work.
    fn open_registers(&mut self, machine: Machine<'_>, events: &[Event], user_only: bool) {
        let outcomes = &mut self.outcomes;
        if machine.compares_marks {
            self.registers = registers::open(machine.surroundings, events, user_only, outcomes);
            return;
        }
        for (event, outcome) in events.iter().zip(outcomes) {
            if event.class == Class::Hardware && outcome.is_ok() {
                *outcome = Err(registers::held());
            }
        }
    }

    /// Opens the group anew, stopped.
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
        // What happens in kernel mode only would count 0 without it.
        let opened = open_best(&request, !is_kernel_only(event), open);
        let tier = |granted: &Request| match (is_hardware, granted.exclude_kernel) {
            (false, _) => Tier::Sw,
            (true, false) => Tier::Hw,
            (true, true) => Tier::User,
        };
        let refused = |error| {
            let refusal = machine.explain(error, event, &request, self.group.len());
            match is_hardware && machine.compares_marks {
                true => registers::or_by_module(refusal),
                false => refusal,
            }
        };
        opened.map(|(member, granted)| (member, tier(&granted))).map_err(refused)
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

    /// Whether the event at a place is read by its register.
    pub fn is_by_registers(&self, place: usize) -> bool {
        self.registers.as_ref().is_some_and(|registers| registers.has(place))
    }

    /// How long a stretch without a read may be, in ms, if registers are to be sure of their wraps.
    pub fn apart_ms(&self) -> Option<u64> {
        self.registers.as_ref().map(Registers::apart_ms)
    }

    /// How counts are had, in the words of the record.
    pub fn reading(&self) -> &'static str {
        match (&self.registers, &self.way) {
            (None, Way::TicksOnly) => "timestamp counter only",
            (None, Way::User(_)) => "user read",
            (None, Way::Kernel) => "read(2)",
            (Some(_), Way::TicksOnly) => "registers",
            (Some(_), _) => "registers, and read(2) for events of the kernel",
        }
    }

    /// The first read of two, close to what follows; `None` as [`ThreadGroup::read`] is false, or
    /// because registers were closed. Counts of events [by registers](Self::is_by_registers) are
    /// this thread's only if the second read has the same mark.
    #[inline]
    pub fn first(&self, counts: &mut Counts) -> Option<Mark> {
        let is_read = self.read_group(counts);
        let mark = match &self.registers {
            None => Mark::default(),
            Some(registers) => registers.first(counts)?,
        };
        is_read.then_some(mark)
    }

    /// The second, close to what was before.
    #[inline]
    pub fn second(&self, counts: &mut Counts) -> Option<Mark> {
        let mark = match &self.registers {
            None => Mark::default(),
            Some(registers) => registers.second(counts)?,
        };
        self.read_group(counts).then_some(mark)
    }

    /// Reads every event into its place; whether that worked and nothing was missed since the last
    /// read. The group loses its counters on a core of a kind that does not count its events, and
    /// for good to a CPU put online whose watchdog takes one.
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

    /// The same by read(2).
    fn ask(&self, counts: &mut Counts) -> bool {
        let Some(Ok(reading)) = self.group.first().map(perf::Event::read) else { return false };
        for (value, place) in reading.values().iter().zip(&self.places) {
            counts[*place] = *value;
        }
        self.is_whole(reading.enabled_ns.saturating_sub(reading.running_ns))
    }

    /// Whether the group kept its counters since the last read, given the time without them so far.
    #[inline]
    fn is_whole(&self, lost_ns: u64) -> bool {
        let is_whole = lost_ns <= self.lost_ns.get() + LOST_NS;
        if !is_whole {
            self.lost_ns.set(lost_ns);
        }
        is_whole
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Cause;
    use crate::surroundings::Facts;
    use linerate_linux::perf::Selector;
    use std::cell::RefCell;

    const PAGE_FAULTS: Selector = Selector::new(perf::SOFTWARE, 2);

    /// A kernel that refuses as told, and puts page faults in the place of what it grants.
    struct Scripted<F> {
        /// The error for an event, by its `config` and whether it excludes the kernel, joining so
        /// many.
        refuse: F,
        group: RefCell<usize>,
    }

    impl<F: Fn(u64, bool, usize) -> Option<i32>> Opener for Scripted<F> {
        fn open(
            &self,
            request: &Request,
            target: Target,
            leader: Option<&perf::Event>,
        ) -> Result<perf::Event, OpenError> {
            let len = leader.map_or(0, |_| *self.group.borrow());
            let refused = (self.refuse)(request.selector.config, request.exclude_kernel, len);
            if let Some(errno) = refused {
                return Err(OpenError { errno });
            }
            *self.group.borrow_mut() = len + 1;
            perf::open(&Request { selector: PAGE_FAULTS, ..*request }, target, leader)
        }
    }

    fn machine<'a>(opener: &'a dyn Opener, surroundings: &'a Surroundings) -> Machine<'a> {
        Machine { opener, surroundings, is_known_processor: true, compares_marks: true }
    }

    fn events(len: u64) -> Vec<Event> {
        let event = |config| Event {
            name: format!("event{config}"),
            native: None,
            unit: "events",
            class: Class::Hardware,
            selector: Selector::new(perf::HARDWARE, config),
            is_user_only: false,
        };
        (0..len).map(event).collect()
    }

    /// A group on a scripted kernel; `None` where the real one refuses software events.
    fn group(
        len: u64,
        user_only: bool,
        refuse: impl Fn(u64, bool, usize) -> Option<i32>,
    ) -> Option<ThreadGroup> {
        group_of(&events(len), user_only, refuse)
    }

    fn group_of(
        events: &[Event],
        user_only: bool,
        refuse: impl Fn(u64, bool, usize) -> Option<i32>,
    ) -> Option<ThreadGroup> {
        if perf::open(&Request::new(PAGE_FAULTS), Target::CurrentThread, None).is_err() {
            println!("SKIP: software events are refused");
            return None;
        }
        let opener = Scripted { refuse, group: RefCell::default() };
        let surroundings = Surroundings::of(Facts::default());
        let machine = machine(&opener, &surroundings);
        Some(ThreadGroup::open(machine, events, user_only))
    }

    fn words(group: &ThreadGroup) -> Vec<Result<Tier, Cause>> {
        let word = |outcome: &Outcome| outcome.as_ref().map(|tier| *tier).map_err(|r| r.cause);
        group.outcomes().iter().map(word).collect()
    }

    /// A page that is new to the process, and with it a fault: so much memory at once comes from
    /// the kernel every time (glibc's mallopt(3) keeps at most 32 MiB for later).
    fn fault() -> Vec<u8> {
        let mut memory = Vec::with_capacity(40 << 20);
        memory.spare_capacity_mut()[20 << 20].write(1);
        std::hint::black_box(&mut memory);
        memory
    }

    #[test]
    fn what_is_granted_counts_in_its_place() {
        let refuse = |config, _, _| (config == 1).then_some(errno::ENOENT);
        let Some(group) = group(3, false, refuse) else { return };
        assert!(matches!(words(&group)[..], [Ok(Tier::Hw), Err(_), Ok(Tier::Hw)]));
        assert_eq!(group.reading(), "read(2)");
        let (mut before, mut after) = ([0; EVENTS_MAX], [0; EVENTS_MAX]);
        assert!(group.read(&mut before));
        let _memory = fault();
        assert!(group.read(&mut after));
        assert!(after[0] > before[0] && after[2] > before[2], "{before:?} {after:?}");
        assert_eq!((before[1], after[1]), (0, 0));
    }

    #[test]
    fn stopped_counters_stand_still_until_started() {
        let Some(group) = group(1, false, |_, _, _| None) else { return };
        let read = || {
            let mut counts = [0; EVENTS_MAX];
            assert!(group.read(&mut counts));
            counts[0]
        };
        group.stop();
        let stopped = read();
        let _first = fault();
        assert_eq!(read(), stopped);
        group.start();
        let _second = fault();
        assert!(read() > stopped);
    }

    #[test]
    fn kernel_mode_is_left_out_where_it_is_forbidden_or_not_wanted() {
        let refuse = |_, excludes_kernel: bool, _| (!excludes_kernel).then_some(errno::EACCES);
        let Some(forbidden) = group(2, false, refuse) else { return };
        assert_eq!(words(&forbidden), [Ok(Tier::User), Ok(Tier::User)]);
        let Some(asked) = group(2, true, |_, _, _| None) else { return };
        assert_eq!(words(&asked), [Ok(Tier::User), Ok(Tier::User)]);
        let Some(neither) = group(1, false, |_, _, _| Some(errno::EACCES)) else { return };
        assert!(neither.outcomes()[0].is_err());
        assert_eq!(neither.reading(), "timestamp counter only");
    }

    /// As an ARM1176 does.
    #[test]
    fn a_processor_that_cannot_leave_modes_out_counts_all_of_them() {
        struct NoModes;
        impl Opener for NoModes {
            fn open(
                &self,
                request: &Request,
                target: Target,
                leader: Option<&perf::Event>,
            ) -> Result<perf::Event, OpenError> {
                if request.exclude_hypervisor || request.exclude_kernel {
                    return Err(OpenError { errno: errno::EOPNOTSUPP });
                }
                perf::open(&Request { selector: PAGE_FAULTS, ..*request }, target, leader)
            }
        }
        let Some(_) = group(1, false, |_, _, _| None) else { return };
        let surroundings = Surroundings::of(Facts::default());
        let machine = machine(&NoModes, &surroundings);
        let both = ThreadGroup::open(machine, &events(2), false);
        assert_eq!(words(&both), [Ok(Tier::Hw), Ok(Tier::Hw)]);
        let user = ThreadGroup::open(machine, &events(1), true);
        assert!(user.outcomes()[0].is_err(), "{user:?}");
    }

    #[test]
    fn counts_with_a_hole_are_told_once() {
        let Some(group) = group(1, false, |_, _, _| None) else { return };
        let told = [0, LOST_NS, 5_000, 5_000, 5_100, 90_000].map(|ns| group.is_whole(ns));
        assert_eq!(told, [true, true, false, true, true, false]);
        let mut counts = [0; EVENTS_MAX];
        assert!(group.read(&mut counts) && group.read(&mut counts));
    }

    #[test]
    fn software_events_lose_kernel_mode_unless_they_happen_there_only() {
        let software = |config| Event {
            class: Class::Software,
            selector: Selector::new(perf::SOFTWARE, config),
            ..events(1).remove(0)
        };
        let (task_clock, context_switches) = (software(1), software(3));
        let refuse = |_, excludes_kernel: bool, _| (!excludes_kernel).then_some(errno::EACCES);
        let group = group_of(&[task_clock, context_switches], false, refuse);
        let Some(group) = group else { return };
        assert!(matches!(words(&group)[..], [Ok(Tier::Sw), Err(_)]), "{group:?}");
    }

    /// On AArch64 a hardware event that perf is asked for closes the registers to everybody.
    #[test]
    fn perf_is_not_asked_for_hardware_while_the_module_holds_it() {
        struct NoHardware;
        impl Opener for NoHardware {
            fn open(
                &self,
                request: &Request,
                target: Target,
                leader: Option<&perf::Event>,
            ) -> Result<perf::Event, OpenError> {
                assert_eq!(request.selector.kind, perf::SOFTWARE);
                perf::open(request, target, leader)
            }
        }
        let Some(_) = group(1, false, |_, _, _| None) else { return };
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/pmu_user"), "what no module writes\n").unwrap();
        let surroundings = Surroundings::from(root.path());
        let fault = Event { class: Class::Software, selector: PAGE_FAULTS, ..events(1).remove(0) };
        let all = [events(1), vec![fault]].concat();
        for (compares_marks, cause) in
            [(true, Cause::RegistersClosed), (false, Cause::CountersBusy)]
        {
            let machine = Machine { compares_marks, ..machine(&NoHardware, &surroundings) };
            let group = ThreadGroup::open(machine, &all, false);
            assert_eq!(words(&group), [Err(cause), Ok(Tier::Sw)]);
            assert!(!group.is_by_registers(0) && group.reading() == "read(2)");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_the_rest_counts() {
        let refuse = |_, _, len| (len >= 2).then_some(errno::EINVAL);
        let Some(group) = group(4, false, refuse) else { return };
        let too_many = Err(Cause::TooManyEvents);
        assert_eq!(words(&group), [Ok(Tier::Hw), Ok(Tier::Hw), too_many, too_many]);
    }

    #[test]
    fn more_events_than_a_frame_holds_are_refused_before_the_kernel_is_asked() {
        let Some(group) = group(10, false, |_, _, _| None) else { return };
        assert!(group.outcomes()[..EVENTS_MAX].iter().all(Result::is_ok));
        assert_eq!(words(&group)[EVENTS_MAX..], [Err(Cause::TooManyEvents); 2]);
    }
}
