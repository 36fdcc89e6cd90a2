// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of uncore PMUs, which count whole units of the machine, on a list of CPUs.

use crate::pmu::{FAULTS, event, software};
use crate::{PAGE_FAULTS, ROOT, Scripted, alone, fault};
use linerate_counters::event::{Class, Event};
use linerate_counters::opener::Opener;
use linerate_counters::refusal::Refusal;
use linerate_counters::session::{Options, Scope, Session};
use linerate_linux::errno::EINVAL;
use linerate_linux::perf::{self, OpenError, RAW, Request, SOFTWARE, Selector, Target};
use std::path::Path;

/// Type number of the uncore PMU.
const UNCORE: u32 = 23;

/// Counts the events of each CPU on the test's own thread. As the kernel does, it opens events of
/// the uncore PMU on any CPU, and groups no events of different PMUs.
struct AnyCpu<O>(O);

impl<O: Opener> Opener for AnyCpu<O> {
    fn open(
        &self,
        request: &Request,
        _: Target,
        leader: Option<&perf::Event>,
    ) -> Result<perf::Event, OpenError> {
        self.0.open(request, Target::CurrentThread, leader)
    }
}

fn machine() -> impl Opener {
    AnyCpu(Scripted::new(|request: &Request, group: &[Selector]| {
        let is_other = |member: &Selector| {
            let kinds = [member.kind, request.selector.kind];
            !kinds.contains(&SOFTWARE) && kinds[0] != kinds[1]
        };
        group.iter().any(is_other).then_some(EINVAL)
    }))
}

/// An event of two units, to which CPUs 0 and 1, and 2 and 3, belong.
fn of_units() -> Event {
    Event { unit_cpus: vec![0, 2], ..event("unit", Class::Hardware, UNCORE, FAULTS) }
}

fn on(cpus: &[u32], events: &[Event], options: &Options) -> Session {
    Session::open(&machine(), Path::new(ROOT), events, &Scope::Cpus(cpus.to_vec()), options)
}

#[test]
fn a_unit_is_counted_once_however_many_of_its_cpus_are_listed() {
    let Some(_alone) = alone() else { return };
    for (cpus, units) in
        [(&[0, 1, 2, 3][..], 2), (&[0, 1, 2], 2), (&[0, 2], 2), (&[2], 1), (&[3], 1)]
    {
        let events = [of_units(), software("page_faults", PAGE_FAULTS)];
        let mut session = on(cpus, &events, &Options::default());
        session.start().unwrap();
        fault(300);
        let counts = session.finish();
        let [unit, faults] = [0, 1].map(|event| counts.events[event].unwrap());
        let (expected, all) = (faults.raw * units, unit.raw * cpus.len() as u64);
        assert!(expected.abs_diff(all) <= 16 * 16, "{cpus:?}: {unit:?} {faults:?}");
        assert!(!unit.is_scaled && unit.duty == 1.0, "{unit:?}");
    }
}

/// One event counts units and the other counts cores; the unit event has half as many targets.
#[test]
fn multiplexed_units_are_scaled_like_cpus() {
    let Some(_alone) = alone() else { return };
    let core = event("core", Class::Hardware, RAW, FAULTS);
    let events = [of_units(), core, software("page_faults", PAGE_FAULTS)];
    let options = Options { scale_by: Some(2), ..Options::default() };
    let mut session = on(&[0, 1, 2, 3], &events, &options);
    assert_eq!((session.plan().sets.len(), session.scaled_by()), (2, Some(2)));
    session.start().unwrap();
    for _ in 0..60 {
        fault(50);
        session.turn();
    }
    let counts = session.finish();
    let [unit, core] = [0, 1].map(|event| counts.events[event].unwrap().estimate.value);
    assert!((1.8..2.2).contains(&(core / unit)), "{core} {unit}");
}

/// Refuses events of the uncore PMU on CPUs that have no such unit.
struct OnCpu2<O>(O);

impl<O: Opener> Opener for OnCpu2<O> {
    fn open(
        &self,
        request: &Request,
        target: Target,
        leader: Option<&perf::Event>,
    ) -> Result<perf::Event, OpenError> {
        // Marks what the scripted kernel is to refuse.
        let is_absent = request.selector.kind == UNCORE && target != Target::Cpu(2);
        let request = Request { exclude_kernel: is_absent || request.exclude_kernel, ..*request };
        self.0.open(&request, target, leader)
    }
}

#[test]
fn a_unit_of_some_cpus_is_tried_on_one_of_them() {
    let Some(_alone) = alone() else { return };
    let refuses = |request: &Request, _: &[Selector]| {
        (request.selector.kind == UNCORE && request.exclude_kernel).then_some(EINVAL)
    };
    let machine = OnCpu2(AnyCpu(Scripted::new(refuses)));
    let cpus = Scope::Cpus(vec![0, 1, 2, 3]);
    let events = [Event { unit_cpus: vec![2], ..of_units() }];
    let session = Session::open(&machine, Path::new(ROOT), &events, &cpus, &Options::default());
    assert!(matches!(session.outcomes(), [Ok(_)]), "{:?}", session.outcomes());
}

#[test]
fn cpus_that_may_share_a_unit_are_refused() {
    let Some(_alone) = alone() else { return };
    for cpus in [&[0, 1][..], &[1, 3], &[1, 2, 3]] {
        let session = on(cpus, &[of_units()], &Options::default());
        let refusal = Refusal::WholeUnits { unit_cpus: vec![0, 2] };
        assert_eq!(session.outcomes(), [Err(refusal)], "{cpus:?}");
    }
}
