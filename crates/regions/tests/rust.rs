// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests regions in the test program itself.

use linerate_record::regions::RegionReport;
use linerate_record::{Body, Record};
use linerate_regions::{Options, Regions, Sampler, Schedule};
use std::num::{NonZeroU32, NonZeroU64};

fn counting(events: &[&str]) -> Regions {
    let events = events.iter().map(|&name| name.to_owned()).collect();
    Regions::new(&Options { events, ..Options::default() })
}

fn named<'a>(regions: &'a [RegionReport], name: &str) -> &'a RegionReport {
    regions.iter().find(|region| region.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn names_and_visits(regions: &Regions) -> Vec<(String, u64)> {
    regions.report().regions.into_iter().map(|region| (region.name, region.visits)).collect()
}

fn visits(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|&(name, visits)| (name.to_owned(), visits)).collect()
}

/// Touches pages that are new to the process, each of which causes at least one page fault.
#[must_use]
fn touch_new_pages(pages: usize) -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut memory = Vec::<u8>::with_capacity((pages + 1) * PAGE);
    for at in (0..pages * PAGE).step_by(PAGE) {
        memory.spare_capacity_mut()[at].write(1);
    }
    memory
}

#[test]
fn a_region_is_shown_where_it_was_entered() {
    let regions = counting(&[]);
    let thread = regions.thread();
    let (a, b) = (regions.region("a"), regions.region("b"));
    assert_eq!(regions.region("a"), a);
    for _ in 0..3 {
        let _a = thread.enter(a);
        let _b = thread.enter(b);
        drop(thread.enter(a));
    }
    drop(thread.enter(b));
    let expected = [("a", 3), ("a/b", 3), ("a/b/a", 3), ("b", 1)];
    assert_eq!(names_and_visits(&regions), visits(&expected));
}

#[test]
fn leaving_an_outer_region_leaves_the_inner_ones_once() {
    let regions = counting(&[]);
    let thread = regions.thread();
    let outer = thread.enter(regions.region("outer"));
    let inner = thread.enter(regions.region("inner"));
    drop(outer);
    let next = thread.enter(regions.region("next"));
    drop(inner);
    next.add_units(5);
    drop(next);
    let expected = [("outer", 1), ("outer/inner", 1), ("next", 1)];
    assert_eq!(names_and_visits(&regions), visits(&expected));
    assert_eq!(named(&regions.report().regions, "next").units, 5);
}

#[test]
fn units_go_to_the_innermost_region() {
    let regions = counting(&[]);
    let thread = regions.thread();
    thread.add_units(100);
    let outer = thread.enter(regions.region("outer"));
    thread.enter(regions.region("inner")).add_units(32);
    outer.add_units(1);
    drop(outer);
    let report = regions.report();
    assert_eq!(named(&report.regions, "outer").units, 1);
    assert_eq!(named(&report.regions, "outer/inner").units, 32);
}

#[test]
fn limits_and_reports_deep_recursion() {
    fn recurse(thread: &linerate_regions::Thread, region: linerate_regions::Region, depth: u32) {
        let _inside = thread.enter(region);
        if depth > 1 {
            recurse(thread, region, depth - 1);
        }
    }
    let regions = counting(&[]);
    let thread = regions.thread();
    let region = regions.region("r");
    recurse(&thread, region, 100);
    drop(thread.enter(region));
    let report = regions.report();
    assert_eq!((report.regions.len(), report.regions[0].visits), (64, 2));
    assert!(report.regions[63].verdict.contains("36 visits to nested regions not"));
}

#[test]
fn threads_have_regions_of_their_own_that_can_be_read_while_they_run() {
    let regions = counting(&[]);
    let region = regions.region("work");
    let (to_worker, commands) = std::sync::mpsc::channel::<()>();
    let (to_test, answers) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let shared = regions.clone();
        scope.spawn(move || {
            let thread = shared.thread();
            while commands.recv().is_ok() {
                drop(thread.enter(region));
                to_test.send(()).unwrap();
            }
        });
        let here = regions.thread();
        drop(here.enter(region));
        for visits in 1..4 {
            to_worker.send(()).unwrap();
            answers.recv().unwrap();
            let report = regions.report();
            let mut found: Vec<u64> = report.regions.iter().map(|r| r.visits).collect();
            found.sort_unstable();
            assert_eq!(found, if visits == 1 { [1, 1] } else { [1, visits] });
            assert_ne!(report.regions[0].tid, report.regions[1].tid);
        }
        drop(to_worker);
    });
    assert_eq!(regions.report().regions.len(), 2);
}

#[test]
fn ticks_of_a_region_are_those_of_the_clock_around_it() {
    use linerate_machine::ticks::ticks;
    let regions = counting(&[]);
    let thread = regions.thread();
    let region = regions.region("spin");
    let (mut inner, mut outer) = (0, 0);
    for _ in 0..20 {
        let before = ticks();
        let inside = thread.enter(region);
        let start = ticks();
        while ticks() - start < 50_000 {}
        inner += ticks() - start;
        drop(inside);
        outer += ticks() - before;
    }
    let report = regions.report();
    let found = report.regions[0].ticks.as_number().unwrap();
    // The overhead is subtracted, so the region has at least the ticks of its loop, and at most
    // those around it. The margin of 1 % allows for unserialised clock reads.
    let (least, most) = (inner as f64 * 0.99, outer as f64);
    assert!((least..=most).contains(&found), "{least} {found} {most}");
}

#[test]
fn faults_are_counted_in_the_region_that_has_them() {
    let regions = counting(&["page_faults"]);
    let thread = regions.thread();
    let (with, without) = (regions.region("with"), regions.region("without"));
    let memory = {
        let _inside = thread.enter(with);
        touch_new_pages(500)
    };
    for _ in 0..100 {
        drop(thread.enter(without));
    }
    assert_eq!(memory.len(), 0);
    let report = regions.report();
    let faults = |name| named(&report.regions, name).events[0].count.clone();
    let Some(found) = faults("with").as_number() else {
        println!("SKIP: no software events here: {:?}", faults("with").reason);
        return;
    };
    assert_eq!(report.reading, "read(2)");
    // Huge pages would cause fewer faults, but the memory is smaller than one huge page.
    assert!((400.0..600.0).contains(&found), "{found}");
    assert!(faults("without").as_number().unwrap() < 5.0, "{:?}", faults("without"));
}

/// Without counters, for example under a hypervisor that exposes none, a count is `null` with a
/// reason, never 0.
#[test]
fn what_cannot_be_counted_is_absent_with_a_reason() {
    let regions = counting(&["instructions", "no_such_event"]);
    let thread = regions.thread();
    drop(thread.enter(regions.region("a")));
    let report = regions.report();
    let [instructions, unknown] = &report.regions[0].events[..] else { panic!("{report:?}") };
    assert!(unknown.count.reason.as_deref().unwrap().contains("no_such_event"));
    match instructions.count.as_number() {
        Some(count) => assert!(count >= 0.0 && report.reading != "timestamp counter only"),
        None => assert!(!instructions.count.reason.as_deref().unwrap().is_empty()),
    }
}

#[test]
fn the_record_is_written_to_the_requested_path() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("regions.json");
    let options = Options { events: Vec::new(), file: Some(file.clone()), ..Options::default() };
    let regions = Regions::new(&options);
    let thread = regions.thread();
    let inside = thread.enter(regions.region("rx"));
    inside.add_units(4);
    drop(inside);
    assert_eq!(regions.finish().unwrap(), Some(file.as_path()));
    let record = Record::from_json(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(record.body, Body::Regions(Box::new(regions.report())));
    for name in ["own_ticks", "rx.ticks_per_visit", "rx.ticks_per_unit"] {
        assert!(record.figures().contains_key(name), "{name}");
    }
    assert!(record.provenance.command.contains("rust"), "{}", record.provenance.command);

    assert_eq!(counting(&[]).finish().unwrap(), None);
    let nowhere = folder.path().join("no/such/folder");
    let error = regions.write(&nowhere).unwrap_err().to_string();
    assert!(error.contains("no/such/folder") && error.contains("LINERATE_REGIONS"), "{error}");
}

fn schedule(sets: &[&[&str]], every: u64, rounds: u32) -> Schedule {
    let set = |names: &&[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Schedule {
        sets: sets.iter().map(set).collect(),
        every: NonZeroU64::new(every).unwrap(),
        rounds: NonZeroU32::new(rounds).unwrap(),
        seed: 3,
    }
}

/// Bursts of 7 packets skip multiples of the interval, as real bursts do. Each slice ends with the
/// first burst that completes the interval.
#[test]
fn a_sampler_turns_after_enough_packets_whatever_the_bursts() {
    let regions = counting(&[]);
    let sets: &[&[&str]] = &[&[], &[], &[]];
    let mut sampler = Sampler::new(&regions, "rx", schedule(sets, 100, 5));
    let mut packets = 0;
    while !sampler.update(packets) {
        packets += 7;
        assert!(packets < 10_000, "it is never full");
    }
    let samples = sampler.samples();
    assert_eq!(samples.len(), 15);
    assert!(samples.iter().all(|sample| sample.packets == 105), "{samples:?}");
    for round in samples.chunks(3) {
        let mut sets: Vec<usize> = round.iter().map(|sample| sample.set).collect();
        sets.sort_unstable();
        assert_eq!(sets, [0, 1, 2], "every set once a round");
    }
    let orders: std::collections::BTreeSet<Vec<usize>> =
        samples.chunks(3).map(|round| round.iter().map(|sample| sample.set).collect()).collect();
    assert!(orders.len() > 1, "the order never changes: {orders:?}");
    assert!(sampler.update(packets + 1000), "full until it is dumped");
    assert_eq!(sampler.samples().len(), 15);
    sampler.dump();
    assert!(sampler.samples().is_empty() && !sampler.update(packets + 1000));
    let report = regions.report();
    let region = named(&report.regions, "rx");
    assert_eq!((region.visits, region.units), (15, 1575));
}

#[test]
fn a_sampler_scales_to_all_packets() {
    let regions = counting(&[]);
    let sets: &[&[&str]] = &[&["page_faults", "no_such_event"], &["context_switches"]];
    let mut sampler = Sampler::new(&regions, "rx", schedule(sets, 10, 6));
    let mut memory = Vec::new();
    let mut packets = 0;
    while !sampler.update(packets) {
        // Each packet touches two new pages.
        memory.push(touch_new_pages(2));
        packets += 1;
    }
    sampler.dump();
    let report = regions.report();
    let region = named(&report.regions, "rx");
    assert_eq!(region.units, 120);
    let [faults, unknown, switches] = &region.events[..] else { panic!("{region:?}") };
    assert!(unknown.count.reason.as_deref().unwrap().contains("no_such_event"));
    assert_eq!(switches.name, "context_switches");
    match faults.count.as_number() {
        // Two faults per packet are expected, minus those for memory that the allocator already
        // had, plus the allocator's own. Without scaling to all packets, there would be only 120.
        Some(count) => assert!((150.0..600.0).contains(&count), "{faults:?}"),
        None => println!("SKIP: no software events here: {:?}", faults.count.reason),
    }
}

#[test]
fn a_total_without_interval_says_why() {
    for rounds in 1..=4 {
        let regions = counting(&[]);
        let mut sampler = Sampler::new(&regions, "rx", schedule(&[&["page_faults"]], 10, rounds));
        let mut packets = 0;
        while !sampler.update(packets) {
            packets += 1;
        }
        sampler.dump();
        let report = regions.report();
        let faults = &named(&report.regions, "rx").events[0].count;
        if faults.as_number().is_none() {
            return println!("SKIP: no software events here: {:?}", faults.reason);
        }
        let has_interval = faults.low.is_some() && faults.high.is_some();
        assert_eq!(has_interval, rounds >= 4, "{faults:?}");
        assert_eq!(faults.method.contains("no interval"), !has_interval, "{faults:?}");
    }
}

#[test]
fn a_sampler_without_sets_counts_nothing_and_says_nothing() {
    let regions = counting(&[]);
    let mut sampler = Sampler::new(&regions, "rx", schedule(&[], 1, 1));
    assert!((0..100).all(|packets| !sampler.update(packets)));
    sampler.dump();
    assert!(regions.report().regions.is_empty());
}

#[test]
fn a_sampler_begins_at_its_start_value_and_dumps_for_another_thread() {
    let regions = counting(&["page_faults"]);
    let mut sampler = Sampler::new(&regions, "rx", schedule(&[&["page_faults"]], 100, 2));
    // Packets before the start belong to no slice; packets after it belong to the first slice.
    sampler.start(1_000);
    assert!(!sampler.update(1_150));
    let packets: Vec<u64> = sampler.samples().iter().map(|sample| sample.packets).collect();
    assert_eq!(packets, [150]);
    let request = sampler.dump_request();
    std::thread::scope(|scope| {
        scope.spawn(|| request.dump());
    });
    assert!(regions.report().regions.is_empty(), "it dumps in its own thread");
    assert!(!sampler.update(1_260), "a dump empties it");
    assert!(sampler.samples().is_empty());
    let report = regions.report();
    assert_eq!(named(&report.regions, "rx").units, 260);
    // A full sampler that is updated after a requested dump continues sampling.
    assert!(!sampler.update(1_400) && sampler.update(1_500), "two turns");
    request.dump();
    assert!(!sampler.update(1_510));
    assert!(sampler.samples().is_empty());
}
