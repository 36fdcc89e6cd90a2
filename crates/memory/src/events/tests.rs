// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with simulated kernels: one without counters, one whose counters count the wrong events.

use super::*;
use crate::Watch;
use linerate_counters::scripted::{PAGE_FAULTS, Scripted, TASK_CLOCK, refusing};
use linerate_doctor::host_facts::Facts;
use linerate_linux::errno;
use linerate_linux::perf::{self, HARDWARE, Selector, Target};
use linerate_machine::identity::Identity;
use linerate_record::memory::PageKind;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Substitutes the thread's CPU clock (ns) for cycles, and its page faults for all other events.
fn pretending() -> impl Opener {
    let counts =
        |selector| if selector == Selector::new(HARDWARE, 0) { TASK_CLOCK } else { PAGE_FAULTS };
    Scripted::new(|_: &perf::Request, _: &[Selector]| None).counting(counts)
}

fn count(
    opener: &dyn Opener,
    sizes: &[u64],
    is_stopped: bool,
) -> Result<Vec<EventsOfSize>, String> {
    let stop = AtomicBool::new(false);
    let mut arena = Arena::new(1 << 20, PageKind::Base, &stop).unwrap();
    let stop = AtomicBool::new(is_stopped);
    let watch = Watch::new(&stop, &|_, _| {});
    let bench = Bench::small(&watch, 1 << 20);
    let catalog =
        Catalog::for_processor(&Identity::Other { architecture: "none" }, Path::new("/sys"));
    let around = HostFacts::from_facts(Facts { has_units: true, ..Facts::default() });
    let counters = Counters { opener, around: &around, catalog: &catalog };
    let request = Request { order: Order::Random, sizes, levels: &[], tlb: &[] };
    let deadline = bench.windows.started() + Duration::from_millis(1500);
    measure_with(&counters, &bench, &mut arena, &request, deadline)
}

#[test]
fn without_counters_the_reason_is_given() {
    let reason = count(&refusing(errno::ENOENT), &[4096], false).unwrap_err();
    assert!(reason.len() > 20, "{reason}");
}

/// Returns false if the kernel does not even allow software events, which stand in for hardware
/// events here.
fn may_count() -> bool {
    let request = perf::Request { exclude_kernel: true, ..perf::Request::new(TASK_CLOCK) };
    Kernel.open(&request, Target::CurrentThread, None).is_ok()
}

#[test]
fn each_size_has_its_loads_and_events() {
    if !may_count() {
        println!("SKIP: this kernel counts no events for this process");
        return;
    }
    let sizes = [4096, 64 << 10, 1 << 20, 1 << 30];
    let rows = count(&pretending(), &sizes, false).unwrap();
    // The last size does not fit the arena.
    let bytes: Vec<u64> = rows.iter().map(|row| row.bytes).collect();
    assert!(!bytes.is_empty() && sizes[..3].ends_with(&bytes) || sizes.starts_with(&bytes));
    for row in &rows {
        assert!(row.loads >= LEAST_LOADS && row.loads % STRETCH == 0, "{row:?}");
        let names: Vec<&str> = row.events.iter().map(|event| event.event.as_str()).collect();
        assert_eq!(names[..2], ["cycles", "instructions"]);
        let per_load = |name: &str| {
            let event = row.events.iter().find(|event| event.event == name);
            event.unwrap().per_load.as_number().unwrap()
        };
        // `cycles` is thread time in ns: a few per load, and no more than the walk's duration.
        assert!((0.2..1e6).contains(&per_load("cycles")), "{row:?}");
        // The chain was touched before and causes no page faults, but a stack page might.
        assert!(per_load("instructions") < 1e-4, "{row:?}");
        assert!(row.events.iter().all(|event| event.per_load.tier == Tier::User));
    }
}

/// Page faults stand in for instructions. Each load is at least one instruction, so the count is
/// judged implausible.
#[test]
fn counts_that_contradict_the_loads_are_doubted() {
    if !may_count() {
        println!("SKIP: this kernel counts no events for this process");
        return;
    }
    for row in count(&pretending(), &[4096], false).unwrap() {
        let instructions = row.events.iter().find(|event| event.event == "instructions").unwrap();
        assert_eq!(instructions.plausible, Some(false), "{instructions:?}");
        assert!(instructions.doubt.is_some());
    }
}

#[test]
fn an_interruption_keeps_partial_results() {
    if !may_count() {
        println!("SKIP: this kernel counts no events for this process");
        return;
    }
    assert_eq!(count(&pretending(), &[4096, 8192], true), Ok(Vec::new()));
}
