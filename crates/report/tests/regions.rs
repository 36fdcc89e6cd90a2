// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendering of a `regions` report. Golden files: see `common`.

mod common;

use common::{PLAIN, assert_golden};
use linerate_record::regions::{RegionEvent, RegionReport, RegionsReport};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};
use linerate_report::{Style, regions};

const METHOD: &str = "by hand";

fn number(unit: &str, value: f64, tier: Tier) -> Figure {
    let estimate =
        Estimate { value, low: value * 0.99, high: value * 1.01, confidence: 0.95, n: 9 };
    Figure::number(unit, estimate, tier, METHOD)
}

fn event(name: &str, count: Result<f64, &str>) -> RegionEvent {
    let count = match count {
        Ok(count) => number("events", count, Tier::User),
        Err(reason) => Figure::absent("events", Tier::Sw, METHOD, reason),
    };
    RegionEvent { name: name.to_owned(), count }
}

fn region(name: &str, work: (u64, u64), ticks: (f64, f64), verdict: &str) -> RegionReport {
    RegionReport {
        name: name.to_owned(),
        tid: 4711,
        visits: work.0,
        units: work.1,
        ticks: number("ticks", ticks.0, Tier::Sw),
        own_ticks: number("ticks", ticks.1, Tier::Sw),
        events: Vec::new(),
        is_sampled: false,
        verdict: verdict.to_owned(),
    }
}

/// Returns a report on a receive loop whose middle region has hardware counts, and whose lookup
/// region is too short.
fn example() -> RegionsReport {
    let busy = "another process holds the counter; try: a command";
    let tiny = "less than what measuring it costs; put the region around more work";
    let mut burst = region("burst", (50_000, 0), (4.1e8, 2.5e7), "8200 ticks a visit");
    burst.events = vec![event("instructions", Ok(6.6e8)), event("l1d_misses", Err(busy))];
    let verdict = "62.3 % of the ticks of burst; 0.71 cycles per instruction";
    let mut parse = region("burst/parse", (50_000, 1_600_000), (2.55e8, 2.55e8), verdict);
    parse.events = vec![event("instructions", Ok(4.2e8)), event("l1d_misses", Err(busy))];
    let verdict = "cannot tell: a visit takes 0 ticks, less than ten times the 52.4 that measuring \
                   it costs; put the region around more work, or count with a Sampler";
    let mut lookup = region("burst/lookup", (1_600_000, 0), (0.0, 0.0), verdict);
    let absent = Figure::absent("ticks", Tier::Sw, METHOD, tiny);
    (lookup.ticks, lookup.own_ticks) = (absent.clone(), absent);
    lookup.events = vec![event("instructions", Ok(3.2e6)), event("l1d_misses", Err(busy))];
    RegionsReport {
        tier: Tier::User,
        reading: "user read".to_owned(),
        own_ticks: number("ticks", 52.4, Tier::Sw),
        regions: vec![burst, parse, lookup],
    }
}

#[test]
fn regions_stand_per_unit_of_work() {
    assert_golden("regions.txt", &PLAIN, &regions(&example(), &PLAIN));
}

#[test]
fn threads_are_distinguished_and_narrow_terminals_served() {
    let mut report = example();
    report.regions[2].tid = 4712;
    let narrow = Style::plain(80);
    assert_golden("regions-80.txt", &narrow, &regions(&report, &narrow));
}

#[test]
fn without_regions_that_is_said() {
    let empty = RegionsReport {
        tier: Tier::Sw,
        reading: "timestamp counter only".to_owned(),
        own_ticks: Figure::absent("ticks", Tier::Sw, METHOD, "no thread entered a region"),
        regions: Vec::new(),
    };
    let text = regions(&empty, &PLAIN);
    assert!(text.contains("no region was entered"), "{text}");
    assert!(text.contains("- (no thread entered a region)"), "{text}");
}

#[test]
fn names_of_a_file_cannot_move_the_cursor() {
    let mut report = example();
    report.regions[0].name = "a\x1b[2Jb\nc".to_owned();
    report.regions[0].events[1].name = "e\x07".to_owned();
    let text = regions(&report, &PLAIN);
    assert!(!text.contains('\x1b') && !text.contains('\x07') && !text.contains("b\nc"), "{text}");
}
