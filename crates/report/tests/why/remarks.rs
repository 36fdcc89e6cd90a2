// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remarks after the first finding.

use super::{example, why};
use crate::common::{PLAIN, assert_golden};
use linerate_record::answers::Evidence;
use linerate_record::stats::Estimate;
use linerate_record::why::{Circumstance, WhyRemark};
use linerate_record::{Body, Provenance, Record};
use linerate_report::{Detail, Markup, Style, why_line};

fn evidence(name: &str, [value, low, high]: [f64; 3], unit: &str) -> Evidence {
    let estimate = Estimate { value, low, high, confidence: 0.95, n: 50 };
    Evidence::of(name, estimate, unit, "tier sw; at least 10,000: the tick has at most 1000 Hz")
}

/// Returns two remarks on the example.
pub(crate) fn of_profiler_and_valgrind() -> Vec<WhyRemark> {
    let simulated = WhyRemark {
        id: Circumstance::Simulated,
        sentence: "The program runs under Valgrind, which makes it 5 to 100 times slower and runs \
                   one of its threads at a time."
            .to_owned(),
        evidence: vec![evidence("named as a tool of Valgrind", [1.0; 3], "1 = yes")],
        next: "Run it without Valgrind to measure its rate".to_owned(),
        wrong_if: "/proc/1234/maps lists no file of Valgrind".to_owned(),
    };
    let timers = WhyRemark {
        id: Circumstance::TimerInterrupts,
        sentence: "Every CPU handles 15,000 timer interrupts per second or more, as if a \
                   profiler sampled at that rate; each takes time from the program."
            .to_owned(),
        evidence: vec![evidence(
            "timer interrupts on every CPU",
            [15_000.0, 14_950.0, 15_050.0],
            "1/s",
        )],
        next: "Look for a profiler (ps -e), and end it or lower its rate (perf record -F)"
            .to_owned(),
        wrong_if: "the rate of LOC in /proc/interrupts is the same without any profiler".to_owned(),
    };
    vec![simulated, timers]
}

fn many(count: usize) -> Vec<WhyRemark> {
    of_profiler_and_valgrind().into_iter().cycle().take(count).collect()
}

#[test]
fn two_remarks_follow_the_first_finding_on_one_screen() {
    let mut report = example();
    report.remarks = of_profiler_and_valgrind();
    let text = why(&report, Detail::Brief, &PLAIN);
    assert!(text.lines().count() <= 40, "{text}");
    assert_golden("why-remarks.txt", &PLAIN, &text);
    let markdown = why(&report, Detail::Brief, &Style { markup: Markup::Markdown, ..PLAIN });
    assert!(markdown.contains("- **also** timer_interrupts: Every CPU"), "{markdown}");
    let line = why_line(&report, &Style::plain(400));
    assert!(line.ends_with(" Also: simulated, timer_interrupts.\n"), "{line}");
}

#[test]
fn further_remarks_are_counted_and_details_list_all_with_their_evidence() {
    let mut report = example();
    report.remarks = many(4);
    let text = why(&report, Detail::Brief, &PLAIN);
    assert_eq!(text.matches("\nalso        simulated: ").count(), 1, "{text}");
    assert!(text.contains("\nalso        2 more remarks (--details)\n"), "{text}");
    let text = why(&report, Detail::Full, &PLAIN);
    assert_eq!(text.matches("\nalso        simulated: ").count(), 2, "{text}");
    assert!(!text.contains("more remark"), "{text}");
    let row = text.lines().find(|line| line.starts_with("timer interrupts on every CPU"));
    assert!(row.is_some_and(|row| row.contains("15,000 (14,950 to 15,050)  1/s")), "{text}");
    assert!(text.contains("wrong if    /proc/1234/maps lists no file of Valgrind"), "{text}");
}

#[test]
fn long_remarks_do_not_make_the_report_longer_than_a_screen() {
    let mut report = example();
    report.remarks = many(3);
    for remark in &mut report.remarks {
        remark.sentence = "Connections were waiting in the accept queue. ".repeat(8);
    }
    let text = why(&report, Detail::Brief, &PLAIN);
    assert!(text.lines().count() <= 40, "{text}");
    assert_eq!(text.matches("\nalso        simulated: ").count(), 1, "{text}");
    assert!(text.contains("\nalso        2 more remarks (--details)\n"), "{text}");
}

#[test]
fn the_summary_lists_keywords() {
    let mut report = example();
    report.remarks = of_profiler_and_valgrind();
    let body = Body::Why(Box::new(report));
    let record = Record { provenance: Provenance::default(), body };
    let names: Vec<&str> = Circumstance::ALL.iter().map(|id| id.name()).collect();
    let listed = &record.summary()["remarks"];
    assert_eq!((&listed[0], &listed[1]), (&names[0].into(), &names[2].into()));
}

/// The record of an invented version 2.99 has a remark whose keyword this version does not know.
#[test]
fn a_remark_of_a_newer_version_is_shown_with_what_its_record_says() {
    let json = include_str!("../../../record/tests/v2_99/why.json");
    let Body::Why(report) = Record::from_json(json).unwrap().body else { panic!("a why record") };
    let text = why(&report, Detail::Full, &PLAIN);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("also unknown to this version: The clocks of the CPUs differ"),
        "{text}"
    );
    assert!(words.contains("try Boot with clocksource=hpet."), "{text}");
    assert!(words.contains("difference between the clocks 3 (2.5 to 3.5) us tier sw"), "{text}");
}
