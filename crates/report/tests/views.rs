// SPDX-License-Identifier: MIT OR Apache-2.0
//! The views of a profile that are recorded on request: instructions, and samples over time.

use linerate_record::profile::{
    AnnotatedFunction, FunctionThen, Gap, InstructionCost, LineCost, ProfileReport, SourceLine,
    ThreadTimeline, TimeSlice, Timeline,
};
use linerate_record::stats::sampled_share;
use linerate_record::{Body, Figure, Tier, fixtures};
use linerate_report::{Detail, Glyphs, Layout, Options, Style, text};

fn view(
    layout: Layout,
    detail: Detail,
    width: usize,
    change: impl Fn(&mut ProfileReport),
) -> String {
    let mut record = fixtures::record("profile");
    let Body::Profile(report) = &mut record.body else { panic!("a profile") };
    change(report);
    let style = Style::plain(width);
    text(&record, &Options { style, detail, glyphs: Glyphs::Ascii, layout, is_written: false })
}

fn share(hits: u64, samples: u64) -> Figure {
    Figure::number("ratio", sampled_share(hits, samples), Tier::Sw, "by hand")
}

/// Adds a loop of `instructions` instructions. Every tenth has samples; the second half belongs to
/// another source line.
fn annotate(report: &mut ProfileReport, instructions: u64) {
    let all = 1000 * instructions.div_ceil(20);
    let one = |at: u64| {
        let samples = if at % 10 == 5 { 10 + at } else { 0 };
        InstructionCost {
            address: format!("{:#x}", 0x1000 + 4 * at),
            text: format!("add ${at}, %rax"),
            samples,
            share: (samples > 0).then(|| share(samples, all)),
            line: Some(SourceLine {
                file: "/src/a.c".to_owned(),
                line: if at < instructions / 2 { 7 } else { 9 },
            }),
            is_after_gap: false,
        }
    };
    report.annotated = Some(AnnotatedFunction {
        function: 0,
        samples: all,
        instructions: (0..instructions).map(one).collect(),
        lines: Vec::new(),
        no_lines: None,
    });
}

#[test]
fn instructions_are_under_their_source_lines() {
    let text = view(Layout::Annotated, Detail::Screen, 80, |report| annotate(report, 20));
    assert_eq!((text.matches("a.c:7").count(), text.matches("a.c:9").count()), (1, 1), "{text}");
    assert!(text.find("a.c:7") < text.find("0x1014") && text.find("0x1014") < text.find("a.c:9"));
    assert!(text.contains("1.5  ") && text.contains("add $15, %rax"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn source_lines_have_shares_with_intervals() {
    let shown = |detail| {
        view(Layout::Annotated, detail, 80, |report| {
            annotate(report, 1000);
            let line = |line| SourceLine { file: "/src/a.c".to_owned(), line };
            let cost = |at: u32| {
                let samples = 40 - u64::from(at);
                LineCost { line: line(at + 1), samples, share: share(samples, 400) }
            };
            let annotated = report.annotated.as_mut().unwrap();
            annotated.lines = (0..10).map(cost).collect();
        })
    };
    let text = shown(Detail::Screen);
    assert!(text.contains("10.0  7.4 to 13.3      a.c:1\n"), "{text}");
    assert!(text.find("a.c:1\n") < text.find("a.c:2\n"), "{text}");
    assert!(text.contains("4 more lines with fewer samples (--details)"), "{text}");
    assert!(text.lines().count() <= 39, "{text}");
    assert!(!text.contains("a.c:10\n"), "{text}");
    assert!(shown(Detail::Full).contains("a.c:10\n"));
}

#[test]
fn one_screen_has_the_hottest_instructions_and_marks_gaps() {
    let text = view(Layout::Annotated, Detail::Screen, 80, |report| annotate(report, 1000));
    assert!(text.lines().count() <= 39, "{text}");
    assert!(text.contains("add $995, %rax") && !text.contains("add $5, %rax"), "{text}");
    assert!(text.contains("..."), "{text}");
    let all = view(Layout::Annotated, Detail::Brief, 80, |report| annotate(report, 1000));
    assert!(all.contains("add $5, %rax") && all.contains("add $999, %rax"));
}

#[test]
fn a_view_that_was_not_recorded_says_how_to_record_it() {
    let text = view(Layout::Annotated, Detail::Screen, 100, |_| {});
    assert!(text.contains("record it with `linerate profile --annotate`"), "{text}");
    let text = view(Layout::Timeline, Detail::Screen, 100, |_| {});
    assert!(text.contains("record it with `linerate profile --timeline`"), "{text}");
}

/// Adds a timeline of 10 s for one thread, sampled throughout except in the sixth second, in which
/// packets were lost.
fn timeline(report: &mut ProfileReport) {
    report.elapsed_s = 10.0;
    let slice = |at: u32| TimeSlice {
        begins_s: f64::from(at),
        seconds: 1.0,
        packets: Some(1000),
        lost: Some(if at == 5 { 700 } else { 0 }),
    };
    let samples = (0..1000).map(|bin| if (500..600).contains(&bin) { 0 } else { 10 }).collect();
    report.timeline = Some(Timeline {
        bin_s: 0.01,
        threads: vec![ThreadTimeline { thread: 0, samples }],
        slices: (0..10).map(slice).collect(),
        losses: Some("rx_dropped of v1".to_owned()),
        gaps: vec![Gap { thread: 0, begins_s: 4.9999, seconds: 0.9991 }],
        no_gaps: None,
        functions: vec![FunctionThen {
            function: 0,
            then: share(90, 100),
            otherwise: share(1, 900),
        }],
    });
}

#[test]
fn a_gap_and_a_loss_are_where_they_happened() {
    let text = view(Layout::Timeline, Detail::Screen, 112, timeline);
    // 12 columns of labels, then 10 per second.
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("####")).collect();
    assert_eq!(rows.len(), 8, "{text}");
    for row in rows {
        assert_eq!(row.chars().count(), 112, "{text}");
        let cells: String = row.chars().skip(12).collect();
        assert_eq!(cells, "#".repeat(50) + &" ".repeat(10) + &"#".repeat(40), "{text}");
    }
    let lost = text.lines().find(|line| line.starts_with("lost  ") && line.contains("xx"));
    let expected = format!("{:<12}{}{}", "lost", " ".repeat(50), "x".repeat(10));
    assert_eq!(lost, Some(expected.as_str()), "{text}");
    assert!(text.contains("700 packets in 1 of 10 slices (rx_dropped of v1)"), "{text}");
    assert!(text.contains("999") && text.contains("5.000"), "{text}");
    assert!(text.contains("90.0") && text.contains("losses or gaps (2 of 10)"), "{text}");
    assert!(text.lines().count() <= 39, "{text}");
}

#[test]
fn a_timeline_says_why_it_has_no_gaps() {
    let text = view(Layout::Timeline, Detail::Screen, 112, |report| {
        timeline(report);
        let timeline = report.timeline.as_mut().unwrap();
        timeline.gaps.clear();
        timeline.no_gaps = Some("whole CPUs are sampled".to_owned());
    });
    assert!(text.contains("not determined: whole CPUs are sampled"), "{text}");
    assert!(!text.contains("slept or waited"), "{text}");
}

#[test]
fn a_timeline_fits_any_width() {
    for width in [80, 97, 120] {
        for detail in [Detail::Screen, Detail::Full] {
            let text = view(Layout::Timeline, detail, width, timeline);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
    }
}

#[test]
fn the_plot_of_a_timeline_has_its_cells_and_losses() {
    let mut report = fixtures::profile();
    assert!(linerate_report::svg::timeline(&report).is_none());
    timeline(&mut report);
    let plot = linerate_report::svg::timeline(&report).expect("it was recorded");
    let svg = roxmltree::Document::parse(&plot.svg).expect("well-formed");
    let of = |class: &str| {
        svg.descendants().filter(|node| node.attribute("class") == Some(class)).count()
    };
    // 100 columns of 20 cells, minus the tenth of them in which nothing ran.
    assert_eq!((of("l4"), of("l1") + of("l2") + of("l3")), (1800, 0));
    assert_eq!((of("lost"), of("frame")), (1, 1));
    assert!(plot.svg.contains("700 lost at 5.000 s"), "the loss has a title");
}
