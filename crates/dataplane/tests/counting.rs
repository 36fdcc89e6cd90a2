// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares counts of events in stages with a known value: the number of pages that a stage touches
//! per packet. Software events stand in for hardware events, which few test machines have; the two
//! differ only in their event numbers.

mod common;

use common::{OPTIONS, kinds, mapping, path, run_on_one, stage as used, traffic};
use linerate_counters::event::{Class, Event};
use linerate_counters::opener::{Kernel, Opener};
use linerate_counters::scripted::refusing;
use linerate_dataplane::{Counting, Job, Watch, run};
use linerate_linux::errno::ENOENT;
use linerate_linux::perf::{SOFTWARE, Selector};
use linerate_path::model::{RunLength, RunOptions, Sink};
use linerate_record::Tier;
use linerate_record::run::RunReport;

/// Returns software events under the names of hardware events: the thread's clock in ns as
/// instructions, and page faults as cycles.
fn stand_ins() -> Vec<Event> {
    let event = |name: &str, config| Event {
        name: name.to_owned(),
        native: None,
        unit: "events",
        class: Class::Software,
        selector: Selector::new(SOFTWARE, config),
        is_user_only: false,
        unit_cpus: Vec::new(),
    };
    vec![event("instructions", 1), event("cycles", 2)]
}

fn measured(opener: Box<dyn Opener + Sync>, packets: u64) -> RunReport {
    let mut path = path(vec![used("spin", "turns", 20), used("fault in", "", 0)]);
    path.sink = Sink::Null;
    let counting = Counting::new(opener, stand_ins());
    let (kinds, traffic) = (kinds(), traffic());
    let job = Job {
        options: RunOptions { length: RunLength::Packets(packets), ..OPTIONS },
        counting: Some(&counting),
        ..Job::new(&path, &kinds, &traffic, &[0])
    };
    run(&job, &Watch::unattended()).expect("runs").report
}

/// Returns whether the kernel would back a touched page with a huge page.
fn has_huge_pages() -> bool {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.is_ok_and(|text| text.contains("[always]"))
}

#[test]
fn a_stage_that_touches_a_page_per_packet_shows_a_fault_per_packet() {
    if has_huge_pages() {
        println!("SKIP: transparent huge pages are always on: one fault maps many pages");
        return;
    }
    let report = measured(Box::new(Kernel), 500_000);
    let counted = report.counted.as_ref().expect("events were asked for");
    if counted.reading.is_none() {
        println!("SKIP: software events are refused: {:?}", counted.events[0].reason);
        return;
    }
    assert_eq!(counted.reading.as_deref(), Some("read(2)"));
    assert!(counted.events.iter().all(|event| event.reason.is_none()), "{counted:?}");
    let stages = &report.workers[0].stages;
    let faults = |name: &str| {
        let stage = stages.iter().find(|stage| stage.name == name).expect("a stage of the path");
        let events = stage.events.as_ref().expect("events were counted");
        assert_eq!((events["cycles"].tier, events.len()), (Tier::Sw, 3));
        events["cycles"].as_number().expect("enough iterations were counted")
    };
    // A new block of memory costs one system call and a few faults for the page tables.
    assert!((faults("fault in") - 1.0).abs() < 0.01, "{}", faults("fault in"));
    assert!(faults("spin") < 0.001, "{}", faults("spin"));
    let cpi = &stages[2].events.as_ref().expect("counted")["cpi"];
    let ns = stages[2].events.as_ref().expect("counted")["instructions"].as_number().unwrap();
    let product = cpi.as_number().unwrap() * ns;
    assert!((product / faults("fault in") - 1.0).abs() < 1e-9, "{product}");
}

#[test]
fn without_counters_the_report_says_why() {
    let report = measured(Box::new(refusing(ENOENT)), 1_000);
    let counted = report.counted.as_ref().expect("events were asked for");
    assert_eq!((counted.reading.as_ref(), counted.events.len()), (None, 2));
    assert!(counted.events.iter().all(|event| event.reason.is_some()), "{counted:?}");
    assert!(report.workers[0].stages.iter().all(|stage| stage.events.is_none()));
}

#[test]
fn unrequested_events_are_not_reported() {
    let path = path(vec![used("spin", "turns", 20)]);
    let report = run_on_one(&path, &mapping(&[(1, 1)]), OPTIONS).expect("runs").report;
    assert!(report.counted.is_none());
    assert!(report.workers[0].stages.iter().all(|stage| stage.events.is_none()));
}
