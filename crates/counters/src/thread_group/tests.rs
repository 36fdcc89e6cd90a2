// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of thread groups on scripted kernels that refuse events and count page faults in place of
//! hardware events.

use super::*;
use crate::refusal::RegisterRefusal;
use crate::scripted::{PAGE_FAULTS, Scripted};
use linerate_linux::perf::Selector;

fn machine(opener: &dyn Opener) -> Machine<'_> {
    Machine { opener, pmu_user: None, compares_marks: true }
}

fn events(len: u64) -> Vec<Event> {
    let event = |config| Event {
        name: format!("event{config}"),
        native: None,
        unit: "events",
        class: Class::Hardware,
        selector: Selector::new(perf::HARDWARE, config),
        is_user_only: false,
        unit_cpus: Vec::new(),
    };
    (0..len).map(event).collect()
}

/// Opens a group of `len` hardware events on a scripted kernel; `None` if the real kernel refuses
/// software events.
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
    let opener = Scripted::new(|request: &Request, group: &[Selector]| {
        refuse(request.selector.config, request.exclude_kernel, group.len())
    });
    Some(ThreadGroup::open(machine(&opener), events, user_only))
}

/// Returns each event's tier, or the kernel's error number and the group size at that time.
fn words(group: &ThreadGroup) -> Vec<Result<Tier, (i32, usize)>> {
    let word = |outcome: &Outcome| match outcome {
        Ok(tier) => Ok(*tier),
        Err(Refusal::NotOpened(attempt)) => Err((attempt.error.errno, attempt.group_len)),
        Err(other) => panic!("{other:?}"),
    };
    group.outcomes().iter().map(word).collect()
}

/// Touches a new page, which causes a page fault: allocations of this size always come from the
/// kernel (glibc's mallopt(3) keeps at most 32 MiB).
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

/// Like an ARM1176, the processor refuses to exclude any mode. Events are then counted in all
/// modes, but a request for user mode only is refused.
#[test]
fn a_processor_that_cannot_leave_modes_out_counts_all_of_them() {
    let no_modes = Scripted::new(|request: &Request, _: &[Selector]| {
        (request.exclude_hypervisor || request.exclude_kernel).then_some(errno::EOPNOTSUPP)
    });
    let Some(_) = group(1, false, |_, _, _| None) else { return };
    let machine = machine(&no_modes);
    let both = ThreadGroup::open(machine, &events(2), false);
    assert_eq!(words(&both), [Ok(Tier::Hw), Ok(Tier::Hw)]);
    let user = ThreadGroup::open(machine, &events(1), true);
    assert!(user.outcomes()[0].is_err(), "{user:?}");
}

#[test]
fn incomplete_counts_are_reported_once() {
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

/// On AArch64, perf disables user access to the PMU registers when a hardware event is opened, so
/// none must be opened through perf while the module is loaded.
#[test]
fn perf_is_not_used_while_the_module_holds_the_hardware() {
    let no_hardware = Scripted::new(|request: &Request, _: &[Selector]| {
        assert_eq!(request.selector.kind, perf::SOFTWARE);
        None
    });
    let Some(_) = group(1, false, |_, _, _| None) else { return };
    let pmu_user = registers::Module::read("not written by a module\n");
    let fault = Event { class: Class::Software, selector: PAGE_FAULTS, ..events(1).remove(0) };
    let all = [events(1), vec![fault]].concat();
    let reason = "must follow the CPU lines, in order";
    let not_understood = RegisterRefusal::NotUnderstood { line: 1, reason };
    for (compares_marks, refusal) in
        [(true, Refusal::Register(not_understood)), (false, Refusal::HeldByModule)]
    {
        let machine =
            Machine { compares_marks, pmu_user: Some(&pmu_user), ..machine(&no_hardware) };
        let group = ThreadGroup::open(machine, &all, false);
        assert_eq!(group.outcomes(), [Err(refusal), Ok(Tier::Sw)]);
        assert!(!group.is_by_registers(0) && group.reading() == "read(2)");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_the_rest_counts() {
    let refuse = |_, _, len| (len >= 2).then_some(errno::EINVAL);
    let Some(group) = group(4, false, refuse) else { return };
    let too_many = Err((errno::EINVAL, 2));
    assert_eq!(words(&group), [Ok(Tier::Hw), Ok(Tier::Hw), too_many, too_many]);
}

#[test]
fn refuses_too_many_events_before_calling_the_kernel() {
    let Some(group) = group(10, false, |_, _, _| None) else { return };
    assert!(group.outcomes()[..EVENTS_MAX].iter().all(Result::is_ok));
    assert_eq!(words(&group)[EVENTS_MAX..], [Err((errno::EINVAL, EVENTS_MAX)); 2]);
}
