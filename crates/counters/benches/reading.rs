// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how long it takes to read an event group with one read(2), and how long it takes to
//! switch event sets (stop and read one set, then start another). Compares both with reading a
//! single event.
//!
//! Each round makes many calls of each kind, in random order. For each kind, the benchmark prints
//! the minimum time per call in ns over all rounds, and the median within-round ratio to one event
//! with its 95 % interval. The events are page faults, which the kernel counts in software; with
//! PMU events, each event would add a read of its hardware counter.
//!
//! `cargo bench -p linerate-counters --bench reading`

use linerate_counters::event::{Class, Event};
use linerate_counters::scripted::{PAGE_FAULTS, with_counters};
use linerate_counters::session::{Options, Scope, Session};
use linerate_linux::monotonic_ns;
use linerate_linux::perf::{self, OpenError, RAW, Request, Selector, Target};
use linerate_record::stats::{CONFIDENCE, paired_ratio};
use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;

const ROUNDS: usize = 201;
const CALLS: u32 = 200;
/// Maximum time of a group read, as a multiple of the time of a single-event read.
const TARGET: f64 = 1.5;

fn group(len: usize) -> Result<Vec<perf::Event>, OpenError> {
    let mut group = vec![perf::open(&Request::new(PAGE_FAULTS), Target::CurrentThread, None)?];
    let member = Request { disabled: false, ..Request::new(PAGE_FAULTS) };
    while group.len() < len {
        group.push(perf::open(&member, Target::CurrentThread, Some(&group[0]))?);
    }
    // If the group cannot be started, reads return 0 but cost the same.
    let _ = group[0].enable();
    Ok(group)
}

fn rotating() -> Session {
    let event = |config| Event {
        name: format!("r{config}"),
        native: None,
        unit: "events",
        class: Class::Hardware,
        selector: Selector::new(RAW, config),
        is_user_only: false,
        unit_cpus: Vec::new(),
    };
    let (root, scope) = (Path::new("/"), Scope::CurrentThread);
    let events = [event(0), event(1)];
    // Two events that never fit on the counters together, so their sets are multiplexed.
    let mut session = Session::open(&with_counters(1), root, &events, &scope, &Options::default());
    session.start().expect("events that were opened can be started");
    session
}

fn ns_per_call(mut call: impl FnMut()) -> f64 {
    let begin = monotonic_ns();
    (0..CALLS).for_each(|_| call());
    (monotonic_ns() - begin) as f64 / f64::from(CALLS)
}

fn main() -> ExitCode {
    let groups: Result<Vec<_>, _> = [1, 2, 4, 8].map(group).into_iter().collect();
    let groups = match groups {
        Ok(groups) => groups,
        Err(error) => {
            println!("SKIP: {error}");
            return ExitCode::SUCCESS;
        }
    };
    let mut session = rotating();
    let names = ["1 event", "group of 2", "group of 4", "group of 8", "turn"];
    let mut times = vec![Vec::new(); names.len()];
    let mut random = fastrand::Rng::with_seed(1);
    let mut order: Vec<usize> = (0..names.len()).collect();
    for _ in 0..ROUNDS {
        random.shuffle(&mut order);
        for &which in &order {
            times[which].push(match groups.get(which) {
                Some(group) => ns_per_call(|| _ = black_box(group[0].read())),
                None => ns_per_call(|| _ = black_box(session.turn())),
            });
        }
    }
    let mut is_met = true;
    for (name, times_of) in names.iter().zip(&times) {
        let least = times_of.iter().copied().fold(f64::INFINITY, f64::min);
        let ratio = paired_ratio(&times[0], times_of, CONFIDENCE);
        println!(
            "{name:10}  {least:6.0} ns  {:.2} times one event ({:.2} to {:.2})",
            ratio.value, ratio.low, ratio.high
        );
        is_met &= name.starts_with("turn") || ratio.value <= TARGET;
    }
    println!("a group within {TARGET} times one event: {}", if is_met { "yes" } else { "no" });
    ExitCode::from(u8::from(!is_met))
}
