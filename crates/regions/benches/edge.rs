// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the cost of a region edge (entry or exit), compared with its components: a TSC read
//! and, where the kernel reads the counters, a bare read(2) of one event.
//!
//! All cases run in one process, interleaved in many short series. A series is long compared with
//! the clock's resolution, but short enough that most are not preempted. Prints the median and
//! fastest series in ticks, and the median within-round ratio with its 95 % interval.
//!
//! `cargo bench -p linerate-regions --bench edge`

use linerate_linux::perf::{self, Request, Selector, Target};
use linerate_machine::ticks::ticks;
use linerate_record::stats::{CONFIDENCE, median, paired_ratio, quantile};
use linerate_regions::{Options, Regions, Thread};
use std::hint::black_box;

const ROUNDS: usize = 400;
const CALLS: u64 = 64;

/// Design target: maximum ticks for an edge without counters.
const EDGE_TICKS: f64 = 100.0;
/// Design target: maximum ticks for an edge with read(2), as a multiple of a bare read(2) of one
/// event.
const TIMES_A_READ: f64 = 1.5;

/// An operation to time, performed `per_call` times by each call to `call`.
struct Case<'a> {
    name: String,
    per_call: u64,
    call: Box<dyn FnMut() + 'a>,
}

fn thread_counting(events: &[&str]) -> (Regions, Thread) {
    let events = events.iter().map(|&name| name.to_owned()).collect();
    let regions = Regions::new(&Options { events, ..Options::default() });
    let thread = regions.thread();
    (regions, thread)
}

fn edges<'a>(name: &str, regions: &Regions, thread: &'a Thread) -> Case<'a> {
    let region = regions.region("empty");
    let call = move || drop(black_box(thread.enter(region)));
    let reading = regions.report().reading;
    Case { name: format!("edge, {name}: {reading}"), per_call: 2, call: Box::new(call) }
}

fn main() {
    let (bare_set, bare) = thread_counting(&[]);
    let (one_set, one) = thread_counting(&["page_faults"]);
    let (four_set, four) =
        thread_counting(&["page_faults", "context_switches", "migrations", "task_clock_ns"]);
    let (hardware_set, hardware) = thread_counting(&["instructions", "cycles"]);
    const SOFTWARE_PAGE_FAULTS: u64 = 2;
    let selector = Selector::new(perf::SOFTWARE, SOFTWARE_PAGE_FAULTS);
    // The counter is enabled, as in regions; reading a stopped counter is faster.
    let request = Request { disabled: false, ..Request::new(selector) };
    let event = perf::open(&request, Target::CurrentThread, None);
    let mut cases = vec![
        Case {
            name: "timestamp counter".to_owned(),
            per_call: 1,
            call: Box::new(|| {
                black_box(ticks());
            }),
        },
        edges("no events", &bare_set, &bare),
        edges("instructions, cycles", &hardware_set, &hardware),
    ];
    match &event {
        Ok(event) => cases.extend([
            Case {
                name: "bare read(2) of one event".to_owned(),
                per_call: 1,
                call: Box::new(|| {
                    black_box(event.read().is_ok());
                }),
            },
            edges("1 software event", &one_set, &one),
            edges("4 software events", &four_set, &four),
        ]),
        Err(error) => println!("SKIP: no software events here: {error}"),
    }
    let series = measure(&mut cases);
    print(&cases, &series);
}

/// Returns each case's ticks per operation in each round.
fn measure(cases: &mut [Case]) -> Vec<Vec<f64>> {
    let mut series = vec![Vec::with_capacity(ROUNDS); cases.len()];
    for round in 0..ROUNDS {
        for step in 0..cases.len() {
            // Each round starts with a different case.
            let index = (step + round) % cases.len();
            let case = &mut cases[index];
            let start = ticks();
            for _ in 0..CALLS {
                (case.call)();
            }
            let spent = ticks() - start;
            series[index].push(spent as f64 / (CALLS * case.per_call) as f64);
        }
    }
    series
}

fn print(cases: &[Case], series: &[Vec<f64>]) {
    let values = |values: &[f64]| {
        let least = quantile(values, 0.0).unwrap_or(f64::NAN);
        (median(values).unwrap_or(f64::NAN), least)
    };
    println!("{:<48} {:>10} {:>10}", "ticks", "median", "lowest");
    for (case, series) in cases.iter().zip(series) {
        let (median, least) = values(series);
        println!("{:<48} {median:>10.1} {least:>10.1}", case.name);
    }
    let named = |start: &str| cases.iter().position(|case| case.name.starts_with(start));
    if let Some(edge) = named("edge, no events: timestamp") {
        let verdict = if values(&series[edge]).0 <= EDGE_TICKS { "met" } else { "missed" };
        println!("an edge without counters takes at most {EDGE_TICKS} ticks: {verdict}");
    }
    let edge = named("edge, 1 software event: read(2)").zip(named("bare read(2)"));
    if let Some((edge, read)) = edge {
        let ratio = paired_ratio(&series[read], &series[edge], CONFIDENCE);
        let verdict = if ratio.value <= TIMES_A_READ { "met" } else { "missed" };
        println!(
            "an edge by read(2) over a bare read(2): {:.3} ({:.3} to {:.3}), \
             at most {TIMES_A_READ}: {verdict}",
            ratio.value, ratio.low, ratio.high
        );
    }
}
