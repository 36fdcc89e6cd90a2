// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with simulated kernels that refuse some events, and software events in place of hardware
//! events.

use super::*;
use crate::host_facts::{CoreUnit, Facts, UserAccess};
use linerate_counters::opener::Kernel;
use linerate_counters::scripted::{Scripted, TASK_CLOCK, full, with_counters};
use linerate_linux::current_cpu;
use linerate_linux::errno::{EACCES, ENOENT, EPERM};
use linerate_linux::perf::{self, HARDWARE, RAW, Request, SOFTWARE, Selector, Target};
use linerate_machine::Platform;
use linerate_record::doctor::{Observation, TierState, Verdict};
use linerate_record::{Derive, Scalar};
use std::collections::BTreeSet;
use tiers::count_at_once;

/// An event that always counts 0 on processors that implement all instructions in hardware.
const EMULATION_FAULTS: Selector = Selector::new(SOFTWARE, 8);

/// Returns a kernel with `counters` counters, each of which counts the thread's CPU time.
fn synthetic(counters: usize, refuses: fn(&Request) -> Option<i32>) -> impl Opener {
    let refuse = move |request: &Request, group: &[Selector]| {
        refuses(request).or_else(|| full(counters, request, group))
    };
    Scripted::new(refuse).counting(|_| TASK_CLOCK)
}

/// Returns the report; `None`, with a message, if this kernel refuses even software events.
fn examine_scripted(opener: &dyn Opener, facts: Facts) -> Option<DoctorReport> {
    if perf::open(&Request::new(TASK_CLOCK), Target::CurrentThread, None).is_err() {
        println!("SKIP: software events are refused");
        return None;
    }
    Some(examine(opener, &HostFacts::from_facts(facts)))
}

fn usual() -> Facts {
    let core_units = vec![CoreUnit { name: "cpu".to_owned(), kind: RAW, cpus: None }];
    Facts {
        paranoid: Some(2),
        has_units: true,
        capabilities: Some(0),
        has_seccomp_filter: Some(false),
        core_units,
        ..Facts::default()
    }
}

fn tier(report: &DoctorReport, tier: Tier) -> &TierState {
    report.tiers.iter().find(|state| state.tier == tier).unwrap()
}

fn about<'a>(report: &'a DoctorReport, name: &str) -> &'a Observation {
    let found = report.observations.iter().find(|o| o.name == name);
    found.unwrap_or_else(|| panic!("no observation {name}"))
}

#[test]
fn a_machine_with_counters_has_all_tiers_but_the_simulator() {
    let Some(report) = examine_scripted(&synthetic(6, |_| None), usual()) else { return };
    assert_eq!(report.best_tier, Tier::Hw);
    let (by_registers, others): (Vec<&TierState>, Vec<&TierState>) =
        report.tiers.iter().partition(|state| state.way.is_some());
    let order: Vec<Tier> = others.iter().map(|state| state.tier).collect();
    assert_eq!(order, [Tier::Hw, Tier::User, Tier::Sw, Tier::Sim, Tier::Model]);
    let working: Vec<bool> = others.iter().map(|state| state.works).collect();
    assert_eq!(working, [true, true, true, false, true]);
    let has_registers = cfg!(any(target_arch = "aarch64", target_arch = "arm"));
    assert_eq!(by_registers.len(), usize::from(has_registers), "{by_registers:?}");
    assert!(tier(&report, Tier::Hw).sentence.contains("6 events at a time"), "{report:?}");
    assert_eq!(about(&report, "counters_at_once").value.as_deref(), Some("6"));
    assert_eq!(report.figures()["counters_at_once"].as_number(), Some(6.0));
    assert_eq!(tier(&report, Tier::Sim).cause.as_deref(), Some("no_valgrind"));
    // Software events have no hardware counter that could be read from user space.
    assert_eq!(about(&report, "user_access").value.as_deref(), Some("no"));
}

/// If tried, perf would open its events and count nothing. On AArch64, it would also disable access
/// to the counters from user space.
#[test]
fn perf_is_not_tried_while_a_module_holds_the_counters() {
    let Some(_) = examine_scripted(&synthetic(1, |_| None), usual()) else { return };
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("proc")).unwrap();
    std::fs::write(root.path().join("proc/pmu_user"), "cut").unwrap();
    let only_software = |request: &Request| {
        assert_eq!(request.selector.kind, SOFTWARE, "{request:?}");
        None
    };
    let report = examine(&synthetic(6, only_software), &HostFacts::from(root.path()));
    let causes: Vec<_> = report.tiers.iter().map(|state| state.cause.as_deref()).collect();
    let held = Some("counters_busy");
    assert_eq!(causes[..3], [held, Some("registers_closed"), held]);
    assert!(report.tiers[1].sentence.contains("line 1 is incomplete"), "{report:?}");
    assert_eq!(report.tiers[1].way.as_deref(), Some("registers"));
    let reason = &report.figures()["tier_hw_registers"].reason;
    assert_eq!(reason.as_ref(), Some(&report.tiers[1].sentence));
}

/// The kernel also opens groups that need the counter held by its watchdog, but such groups never
/// count.
#[test]
fn a_counter_that_the_watchdog_holds_is_not_there() {
    let Some(_) = examine_scripted(&synthetic(1, |_| None), usual()) else { return };
    for (counters, held) in [(6, 0), (6, 1), (1, 1)] {
        let tried = std::cell::RefCell::new(Vec::new());
        let counts = |group: &[perf::Event]| {
            tried.borrow_mut().push(group.len());
            group.len() <= counters - held
        };
        let instructions = Request::new(Selector::new(HARDWARE, 1));
        let at_once = count_at_once(&synthetic(counters, |_| None), &instructions, counts);
        assert_eq!(at_once, counters - held);
        // Group sizes are tried from the number of events that open down to the number that counts.
        let expected: Vec<usize> = (at_once.max(1)..=counters).rev().collect();
        assert_eq!(tried.into_inner(), expected);
    }
}

/// At paranoid level 2, software events in kernel mode are forbidden, like all other events.
#[test]
fn software_events_of_user_mode_only_are_marked_as_partial() {
    let refuses = |request: &Request| (!request.exclude_kernel).then_some(EACCES);
    let Some(report) = examine_scripted(&synthetic(4, refuses), usual()) else { return };
    let software = about(&report, "software_events");
    assert_eq!((software.value.as_deref(), software.verdict), (Some("in part"), Verdict::Advice));
    assert!(software.sentence.contains("migrations"), "{software:?}");
    assert_eq!(software.fix.as_deref(), Some("sudo sysctl kernel.perf_event_paranoid=1"));
    let sw = tier(&report, Tier::Sw);
    assert!(
        sw.works && sw.sentence.starts_with("kernel clock events, user-mode page faults"),
        "{sw:?}"
    );
    let Some(report) = examine_scripted(&synthetic(4, |_| None), usual()) else { return };
    assert_eq!(about(&report, "software_events").value.as_deref(), Some("counted"));
}

#[test]
fn kernel_mode_forbidden_leaves_the_user_tier() {
    let refuses = |request: &Request| {
        let is_hardware = request.selector.kind != SOFTWARE;
        (is_hardware && !request.exclude_kernel).then_some(EACCES)
    };
    let Some(report) = examine_scripted(&synthetic(4, refuses), usual()) else { return };
    assert_eq!(report.best_tier, Tier::User);
    let hw = tier(&report, Tier::Hw);
    assert_eq!((hw.works, hw.cause.as_deref()), (false, Some("paranoid")));
    assert_eq!(hw.fix.as_deref(), Some("sudo sysctl kernel.perf_event_paranoid=1"));
    assert_eq!(about(&report, "perf_event_paranoid").verdict, Verdict::Advice);
    assert_eq!(report.figures()["counters_at_once"].as_number(), Some(4.0));
}

#[test]
fn a_virtual_machine_without_counters_says_why_once_for_each_tier() {
    let refuses = |request: &Request| (request.selector.kind != SOFTWARE).then_some(ENOENT);
    let platform = Platform { hypervisor: Some("KVM".to_owned()), emulated: Some(false) };
    let facts = Facts { core_units: vec![], platform, ..usual() };
    let Some(report) = examine_scripted(&synthetic(0, refuses), facts) else { return };
    assert_eq!(report.best_tier, Tier::Sw);
    for kind in [Tier::Hw, Tier::User] {
        assert_eq!(tier(&report, kind).cause.as_deref(), Some("no_virtual_pmu"));
    }
    assert_eq!(about(&report, "counter_units").verdict, Verdict::Missing);
    let figures = report.figures();
    assert_eq!(figures["best_tier"].value, Scalar::Text("sw".to_owned()));
    let at_once = &figures["counters_at_once"];
    assert_eq!(at_once.value, Scalar::Absent);
    assert!(at_once.reason.as_ref().unwrap().contains("virtual machine (KVM)"), "{at_once:?}");
}

#[test]
fn events_that_open_and_count_nothing_are_not_trusted() {
    let opener = with_counters(4).counting(|_| EMULATION_FAULTS);
    let platform = Platform { hypervisor: Some("QEMU TCG".to_owned()), emulated: Some(true) };
    let valgrind = Some("/no/such/valgrind".into());
    let facts = Facts { platform, valgrind, ..usual() };
    let Some(report) = examine_scripted(&opener, facts) else { return };
    let hw = tier(&report, Tier::Hw);
    assert_eq!((hw.works, hw.cause.as_deref()), (false, Some("unsupported_event")));
    assert!(hw.sentence.contains("counted only 0 (expected at least"), "{hw:?}");
    assert!(
        hw.fix.as_ref().unwrap().contains("# simulates; for counters, on the host: qemu"),
        "{hw:?}"
    );
    assert_eq!(report.best_tier, Tier::Sw);
}

#[test]
fn a_filter_leaves_the_timestamp_counter() {
    let facts = Facts { has_seccomp_filter: Some(true), capabilities: Some(u64::MAX), ..usual() };
    let Some(report) = examine_scripted(&synthetic(0, |_| Some(EPERM)), facts) else { return };
    let sw = tier(&report, Tier::Sw);
    assert!(sw.works && sw.sentence.starts_with("timestamp counter only: "), "{sw:?}");
    assert!(sw.fix.as_ref().unwrap().contains("--security-opt seccomp=unconfined"));
    assert_eq!(about(&report, "software_events").verdict, Verdict::Missing);
    assert_eq!(tier(&report, Tier::Hw).cause.as_deref(), Some("seccomp"));
}

#[test]
fn settings_are_judged_by_what_they_cost() {
    let access = UserAccess { is_on: false, setting: "kernel.perf_user_access".to_owned() };
    let unit = |name: &str, kind, cpus: &[u32]| CoreUnit {
        name: name.to_owned(),
        kind,
        cpus: Some(cpus.to_vec()),
    };
    let facts = Facts {
        is_watchdog_on: true,
        user_access: Some(access),
        core_units: vec![unit("cpu_core", RAW, &[0, 1, 2]), unit("cpu_atom", 10, &[3])],
        ..usual()
    };
    let Some(report) = examine_scripted(&synthetic(4, |_| None), facts) else { return };
    let units = about(&report, "counter_units");
    assert_eq!(units.value.as_deref(), Some("cpu_core (CPUs 0-2), cpu_atom (CPU 3)"));
    let fix = |name| about(&report, name).fix.clone().unwrap();
    assert_eq!(fix("nmi_watchdog"), "sudo sysctl kernel.nmi_watchdog=0");
    assert_eq!(fix("user_access"), "sudo sysctl kernel.perf_user_access=1");
    let advice = report.observations.iter().filter(|o| o.fix.is_some()).count();
    assert!(report.figures()["advice"].as_number().unwrap() >= advice as f64);
}

/// The event counts on the last CPU only, such as a big core, while the thread may run on any.
#[test]
fn counting_is_tried_on_each_type_of_core() {
    fn refuses(request: &Request) -> Option<i32> {
        let allowed = linerate_linux::allowed_cpus().unwrap();
        let is_there = allowed.len() == 1 && current_cpu() == Ok(allowed[0]) && allowed[0] != 0;
        (request.selector.kind != SOFTWARE && !is_there).then_some(ENOENT)
    }
    let before = linerate_linux::allowed_cpus().unwrap();
    let Some(last) = before.last().copied().filter(|last| before.len() > 1 && *last != 0) else {
        println!("SKIP: this test needs two CPUs");
        return;
    };
    let unit = |name: &str, cpu| CoreUnit { name: name.to_owned(), kind: 8, cpus: Some(vec![cpu]) };
    for units in [vec![unit("little", 0), unit("big", last)], vec![unit("little", 0)]] {
        let is_found = units.len() == 2;
        let facts = Facts { core_units: units, ..usual() };
        let Some(report) = examine_scripted(&synthetic(4, refuses), facts) else { return };
        assert_eq!(tier(&report, Tier::Hw).works, is_found, "{report:?}");
        assert_eq!(linerate_linux::allowed_cpus().unwrap(), before, "the affinity is restored");
    }
}

#[test]
fn a_broken_valgrind_is_not_a_simulator() {
    let facts = Facts { valgrind: Some("/bin/false".into()), ..usual() };
    let Some(report) = examine_scripted(&synthetic(4, |_| None), facts) else { return };
    let sim = tier(&report, Tier::Sim);
    assert!(
        !sim.works && sim.sentence.contains("/bin/false does not report its version"),
        "{sim:?}"
    );
}

#[test]
fn qemu_simulates_without_valgrind() {
    let facts = Facts { qemu: Some("/usr/bin/qemu-arm".into()), ..usual() };
    let Some(report) = examine_scripted(&synthetic(4, |_| None), facts) else { return };
    let sim = tier(&report, Tier::Sim);
    assert!(sim.works && sim.sentence.contains("qemu-arm simulates instructions"), "{sim:?}");
    assert_eq!(about(&report, "qemu_user").value.as_deref(), Some("qemu-arm"));
}

/// On any machine: a working tier has no cause; a failing one has a cause, a fix unless only a
/// different processor would help, and a null figure with the same reason.
#[test]
fn this_machine_contradicts_itself_nowhere() {
    let report = examine(&Kernel, &HostFacts::gather());
    let figures = report.figures();
    for state in &report.tiers {
        assert_eq!(state.works, state.cause.is_none(), "{state:?}");
        assert!(state.works || state.fix.is_some() || state.way.is_some(), "{state:?}");
        let way = state.way.as_ref().map(|way| format!("_{way}")).unwrap_or_default();
        let figure = &figures[&format!("tier_{}{way}", state.tier.name())];
        assert_eq!(figure.reason.as_ref(), (!state.works).then_some(&state.sentence));
    }
    assert!(tier(&report, report.best_tier).works);
    assert!(report.observations.is_sorted_by_key(|o| o.section));
    let names: BTreeSet<&str> = report.observations.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(names.len(), report.observations.len());
    let hardware = Request::new(Selector::new(HARDWARE, 1));
    let opens = perf::open(&hardware, Target::CurrentThread, None).is_ok();
    assert!(opens || !tier(&report, Tier::Hw).works);
}
