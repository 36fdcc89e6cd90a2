// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the screens of `run`, `tune` and `explain` recommend to do next, and how they announce a
//! loss.

use linerate_record::answers::{Answer, AnswerVerdict, AnswersReport};
use linerate_record::budget::Shortfall;
use linerate_record::interfaces::{InterfaceChanges, InterfaceReport, ReceivedReport};
use linerate_record::run::RunReport;
use linerate_record::tune::{Limit, RoundLatency, TuneReport};
use linerate_record::{Body, Figure, Record, Tier, fixtures};
use linerate_report::{Detail, Glyphs, Layout, Options, Style, text};

fn screen(record: &Record, is_written: bool) -> String {
    let (style, detail) = (Style::plain(100), Detail::Screen);
    let options =
        Options { style, detail, glyphs: Glyphs::Ascii, layout: Layout::Table, is_written };
    text(record, &options)
}

fn of_run(change: impl FnOnce(&mut RunReport)) -> String {
    let mut record = fixtures::record("run");
    let Body::Run(report) = &mut record.body else { unreachable!("a record of run") };
    change(report);
    screen(&record, false)
}

fn of_tune(is_written: bool, change: impl FnOnce(&mut TuneReport)) -> String {
    let mut record = fixtures::record("tune");
    let Body::Tune(report) = &mut record.body else { unreachable!("a record of tune") };
    change(report);
    screen(&record, is_written)
}

/// Sets the line rate to `factor` times the measured rate of the chosen mapping.
fn set_line(report: &mut TuneReport, factor: f64) {
    let chosen = &report.candidates[report.chosen.expect("a mapping was chosen") as usize];
    let kpps = chosen.measured_kpps.as_ref().and_then(Figure::as_number).expect("a rate");
    report.tuned.line_rate_kpps = Some(factor * kpps);
}

/// Joins the lines of a text.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_mapping_that_was_written_is_not_advised_to_be_written() {
    let written = of_tune(true, |_| {});
    assert!(written.contains("\ndo          linerate run TUNED.toml  # run"), "{written}");
    assert!(!written.contains("--out"), "{written}");
    let not_written = of_tune(false, |_| {});
    assert!(not_written.contains("\ndo          add --out FILE"), "{not_written}");
}

#[test]
fn below_line_rate_the_cost_that_the_bottleneck_may_have_is_given() {
    // The worker of the bottleneck takes 3760 ticks, 739 of them in `gre_encap`: 10 % less leaves
    // 363.
    let near = joined(&of_tune(true, |report| set_line(report, 1.0 / 0.9)));
    let expected = "then make `gre_encap` cheaper: at most 363 ticks/packet for line rate, now \
                    739; look inside: linerate profile -- linerate run TUNED.toml";
    assert!(near.contains(expected), "{near}");
    let far = joined(&of_tune(false, |report| set_line(report, 10.0)));
    let expected = "then for line rate, worker 0.1 must take at most 376 ticks/packet, now 3760, \
                    of which `gre_encap` takes only 739";
    assert!(far.contains(expected) && !far.contains("look inside"), "{far}");
    let reached = of_tune(true, |report| set_line(report, 0.9));
    assert!(!reached.contains("\nthen "), "{reached}");
    let kept = joined(&of_tune(false, |report| {
        report.chosen = None;
        report.tuned.line_rate_kpps = None;
    }));
    assert!(
        kept.contains("do make `gre_encap` cheaper; look inside: linerate profile -- "),
        "{kept}"
    );
}

#[test]
fn a_path_at_line_rate_needs_no_other_mapping() {
    let advice = "\ndo          linerate tune PATH.toml";
    assert!(of_run(|_| {}).contains(advice));
    let text = of_run(|report| report.line_rate_kpps = report.processed_kpps.as_number());
    assert!(!text.contains("\ndo "), "{text}");
}

#[test]
fn a_line_rate_that_was_reached_before_needs_no_faster_mapping() {
    let reached = |report: &mut TuneReport, factor: f64| {
        let kpps = report.baseline_kpps.as_number().expect("a rate");
        report.baseline.line_rate_kpps = Some(kpps / factor);
        report.tuned.line_rate_kpps = Some(kpps / factor);
    };
    let text = of_tune(true, |report| {
        reached(report, 4.3);
        report.chosen = None;
    });
    let first = text.lines().next().unwrap_or_default();
    let expected = "Keep the mapping: line rate reached (430 %); merge";
    assert!(first.starts_with(expected) && first.contains(" is not needed"), "{text}");
    // The baseline is kept: no candidate has the mark of the kept mapping.
    assert!(!text.contains("\n> ") && !text.contains("\nafter "), "{text}");
    assert!(text.contains("\nkept        baseline: it reaches line rate"), "{text}");
    assert!(text.contains("\nwritten     TUNED.toml, with the mapping "), "{text}");
    assert!(text.contains("\ndo          keep the mapping of PATH.toml\n"), "{text}");
    assert!(!text.contains("linerate run TUNED.toml"), "{text}");
    // A higher goal or a lower end of the interval below line rate needs the faster mapping.
    let text = of_tune(true, |report| reached(report, 4.3));
    assert!(text.contains("x by merge") || text.contains("rounds by merge"), "{text}");
    assert!(text.contains("; reached before tuning (430.0 %)"), "{text}");
    assert!(text.contains("\n> ") && text.contains("\nafter "), "{text}");
    // A limit on latency may need another mapping at any rate.
    let text = of_tune(true, |report| {
        reached(report, 4.3);
        report.p99_limit_ns = Some(1e9);
    });
    assert!(text.contains("\ndo          linerate run TUNED.toml"), "{text}");

    let text = of_run(|report| {
        report.line_rate_kpps = report.processed_kpps.as_number().map(|kpps| kpps / 4.536);
    });
    assert!(text.starts_with("Line rate reached (454 %): "), "{text}");
    assert!(
        text.lines().next().is_some_and(|first| first.contains("; `gre_encap` limits the rate")),
        "{text}"
    );
    // Source and sink take more than any stage.
    let text = of_run(|report| {
        report.line_rate_kpps = report.processed_kpps.as_number().map(|kpps| kpps / 4.536);
        let worker = &mut report.workers[0];
        let busy = worker.time.map(|time| 0.7 * time.busy);
        worker.stages[0].busy = busy;
    });
    let first = text.lines().next().unwrap_or_default();
    assert!(first.contains("; source and sink take 7"), "{first}");
    assert!(first.contains(" % of the work, `gre_encap` "), "{first}");
}

#[test]
fn a_much_longer_median_latency_is_in_the_first_line() {
    let first = |after: f64| {
        let text = of_tune(false, |report| {
            let nanos = |value: f64| Figure::exact("ns", value, Tier::Sw, "by hand");
            let latency = |value: f64| RoundLatency { p50: nanos(value), p99: nanos(2.0 * value) };
            report.baseline_latency = Some(latency(30e3));
            let chosen = &mut report.candidates[report.chosen.expect("a mapping") as usize];
            chosen.latency = Some(latency(after));
            chosen.name = "merge and replicate x2, bursts of 256 packets".to_owned();
        });
        text.lines().next().expect("a line").to_owned()
    };
    let slow = first(251e3);
    assert!(slow.contains("; p50 30 µs to 251 µs") && slow.contains("merge and"), "{slow}");
    assert!(slow.chars().count() <= 100 && slow.contains(" kpps to "), "{slow}");
    assert!(!first(59e3).contains("p50"), "{}", first(59e3));
}

#[test]
fn a_budget_says_how_far_a_rate_exceeds_line_rate() {
    let mut record = fixtures::record("budget");
    let Body::Budget(report) = &mut record.body else { unreachable!("a record of budget") };
    report.shortfall = Some(Shortfall {
        packets_per_s: 8.05e6,
        frame_bytes: 684.0,
        share_of_line: 4.536,
        holds_from_bytes: 135.3,
        share_of_line_at_shortest: 0.54,
    });
    let text = joined(&screen(&record, false));
    assert!(text.contains("-byte frames: 453.6 % of line rate"), "{text}");
    let first = "Line rate (99.9 Gb/s) holds for frames of 136 bytes or more, at the measured cost";
    assert!(text.starts_with(first), "{text}");
    let Body::Budget(report) = &mut record.body else { unreachable!("a record of budget") };
    let shortfall = report.shortfall.as_mut().expect("it was measured");
    (shortfall.holds_from_bytes, shortfall.share_of_line_at_shortest) = (40.0, 1.3);
    let text = screen(&record, false);
    assert!(text.starts_with("Line rate (99.9 Gb/s) holds for the shortest frames, "), "{text}");
    let Body::Budget(report) = &mut record.body else { unreachable!("a record of budget") };
    let shortfall = report.shortfall.as_mut().expect("it was measured");
    (shortfall.holds_from_bytes, shortfall.share_of_line_at_shortest) = (3056.0, 0.02);
    let text = screen(&record, false);
    assert!(text.starts_with("Line rate (99.9 Gb/s) is not reached: 50 % with 1518 b"), "{text}");
}

#[test]
fn the_sender_of_live_packets_is_not_advised() {
    let offered = |report: &mut RunReport| {
        report.finding.as_mut().expect("a finding").limit = Limit::Offered;
    };
    assert!(of_run(offered).contains("\ndo          add --rate max"));
    let text = of_run(|report| {
        offered(report);
        report.interfaces.push(InterfaceReport {
            port: "wan".to_owned(),
            interface: "eth0".to_owned(),
            io: "af_packet".to_owned(),
            promiscuous: false,
            queues: 1,
            receiving_queues: 1,
            rx_queues: None,
            received: Some(ReceivedReport::default()),
            sent: None,
            changes: InterfaceChanges::default(),
        });
    });
    assert!(!text.contains("\ndo "), "{text}");
}

#[test]
fn a_lower_rate_is_the_price_of_a_latency_limit() {
    let text = of_tune(false, |report| {
        report.p99_limit_ns = Some(50e3);
        let absent = || Figure::absent("ns", Tier::Sw, "by hand", "no round timed enough packets");
        report.baseline_latency = Some(RoundLatency { p50: absent(), p99: absent() });
        let chosen = &mut report.candidates[report.chosen.expect("a mapping") as usize];
        chosen.speedup = Some(Figure::exact("ratio", 0.9, Tier::Sw, "by hand"));
    });
    let costs = "A p99 of at most 50 µs costs 10 % of the rate: 725 kpps to 1 Mpps, with merge";
    assert!(text.starts_with(costs), "{text}");
    assert!(text.contains("            p50/p99 - (no round timed enough packets)\n"), "{text}");
}

#[test]
fn rates_of_rows_that_differ_from_throughput_are_explained() {
    let text = joined(&of_run(|_| {}));
    let note = "the stages' kpps are averages over the whole run (646 kpps in total); throughput \
                is the rate over windows without preemption";
    assert!(text.contains(note), "{text}");
    let text = of_run(|report| {
        report.workers[0].stages[0].kpps = report.processed_kpps.as_number();
    });
    assert!(!text.contains("the stages' kpps"), "{text}");
}

#[test]
fn every_answer_counts_and_a_finding_of_why_is_printed_once() {
    let answer = |id: &str, verdict| Answer {
        id: id.to_owned(),
        question: format!("What of {id}?"),
        verdict,
        sentence: format!("the buffer of {id} is full: packets are lost"),
        evidence: Vec::new(),
        advice: vec!["raise SO_RCVBUF".to_owned()],
        next: None,
    };
    let of = |kind: &str| {
        let mut record = fixtures::record("answers");
        record.body = Body::Answers(Box::new(AnswersReport {
            of: "record.json".to_owned(),
            kind_of: kind.to_owned(),
            answers: vec![
                answer("bottleneck", AnswerVerdict::Answered),
                answer("parking", AnswerVerdict::DoesNotArise),
                answer("bound", AnswerVerdict::CannotTell),
            ],
        }));
        screen(&record, false)
    };
    let (run, why) = (of("run"), of("why"));
    assert!(
        run.starts_with("the buffer of bottleneck is full; 2 of 3 questions answered\n"),
        "{run}"
    );
    assert!(why.starts_with("2 of 3 questions answered\n"), "{why}");
    assert_eq!(why.matches("the buffer of bottleneck is full").count(), 1, "{why}");
    assert!(why.contains("do: raise SO_RCVBUF"), "{why}");
}
