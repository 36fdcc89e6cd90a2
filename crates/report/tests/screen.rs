// SPDX-License-Identifier: MIT OR Apache-2.0
//! By default, every record fits on one screen, with the answer first.

mod common;

use common::{PLAIN, assert_golden, assert_same};
use linerate_plan::verdict::MIN_GAIN;
use linerate_record::run::{BucketUse, WorkerReport};
use linerate_record::stat::{BaselineChange, Judged};
use linerate_record::tune::TuneReport;
use linerate_record::{Body, Figure, Record, Scalar, Tier, fixtures};
use linerate_report::{Detail, Glyphs, Layout, Options, Style, text};

/// Lines on a screen, including the one with the typed command.
const SCREEN_LINES: usize = 40;
const ANSWER_COLUMNS: usize = 100;

/// Records created by `import` and `explain`.
const FOREIGN: [(&str, &str); 3] = [
    ("answers-of-a-dump", include_str!("foreign/answers.json")),
    ("dump", include_str!("foreign/dump.json")),
    ("vpp", include_str!("foreign/vpp.json")),
];

/// Returns every stored record, with its kind.
fn stored() -> impl Iterator<Item = (&'static str, Record)> {
    let foreign = FOREIGN.into_iter().map(|(name, text)| (name, Record::from_json(text).unwrap()));
    let own = fixtures::ALL.iter().map(|(kind, _)| (*kind, fixtures::record(kind)));
    own.chain(foreign)
}

fn screen(record: &Record, width: usize, detail: Detail) -> String {
    let style = Style::plain(width);
    text(
        record,
        &Options { style, detail, glyphs: Glyphs::Ascii, layout: Layout::Table, is_written: false },
    )
}

#[test]
fn every_record_fits_one_screen_of_80_columns() {
    for (kind, record) in stored() {
        let text = screen(&record, 80, Detail::Screen);
        let lines = text.lines().count();
        assert!(lines < SCREEN_LINES, "{kind} has {lines} lines:\n{text}");
        // Commands meant to be copied are not wrapped.
        let is_command = |line: &&str| line.contains("sysctl") || line.contains("sudo");
        let below = text.lines().skip(1).filter(|line| !is_command(line));
        let widest = below.map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= 80 || kind == "doctor", "{kind} has {widest} columns:\n{text}");
    }
}

#[test]
fn the_first_line_is_the_answer() {
    for (kind, record) in stored() {
        let text = screen(&record, 80, Detail::Screen);
        let first = text.lines().next().unwrap_or_default();
        let columns = first.chars().count();
        assert!((20..=ANSWER_COLUMNS).contains(&columns), "{kind}: {first}");
        let begins = match kind {
            "run" | "plan" => "Bottleneck: ",
            "tune" => "",
            "budget" => "Line rate (",
            "doctor" => "Best evidence tier: ",
            "tcp" => "Checksum and copy take up to ",
            "regions" => "Most time: ",
            // A finding of `why` is a block of labelled lines of its own, which comes first.
            "why" => {
                assert!(first.starts_with("finding     "), "{first}");
                continue;
            }
            _ => "",
        };
        assert!(first.starts_with(begins), "{kind}: {first}");
        // An answer is a sentence, not a label followed by a text in another column.
        assert!(!first.contains("   "), "{kind}: {first}");
    }
}

#[test]
fn a_path_that_lets_no_packet_through_is_the_answer() {
    let mut record = fixtures::record("run");
    let Body::Run(report) = &mut record.body else { unreachable!("a record of run") };
    let stages = &mut report.workers[0].stages;
    let filter = stages.iter_mut().find(|stage| stage.name == "filter").expect("a filter");
    filter.ledger.output.packets = 0;
    filter.ledger.held.packets = 0;
    let text = screen(&record, 80, Detail::Screen);
    assert!(text.starts_with("No packet reached the sink: `filter` dropped all "), "{text}");
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains(" dropped, none delivered; line rate - ("), "{text}");
    assert!(!joined.contains("% of the line rate"), "{text}");

    let mut tuned = fixtures::record("tune");
    let Body::Tune(report) = &mut tuned.body else { unreachable!("a record of tune") };
    for worker in &mut report.tuned.workers {
        let filter = worker.stages.iter_mut().find(|stage| stage.name == "filter");
        let ledger = &mut filter.expect("a filter").ledger;
        ledger.output.packets = 0;
        ledger.held.packets = 0;
    }
    let text = screen(&tuned, 100, Detail::Screen);
    assert!(text.contains("line rate   - (no packet reached the sink: `filter` dropped"), "{text}");
    assert!(!text.contains("; reached"), "{text}");
}

#[test]
fn packets_in_one_bucket_explain_why_replicas_gain_nothing() {
    let one = Some(BucketUse { buckets: 128, in_use: 1, largest_share: 1.0 });
    let expected = "replicas    all packets fall into 1 of 128 RSS buckets, so one of 2 replicas";
    let mut record = fixtures::record("run");
    let Body::Run(report) = &mut record.body else { unreachable!("a record of run") };
    report.buckets = one;
    assert!(!screen(&record, 100, Detail::Screen).contains("RSS"), "there is one replica");
    let Body::Run(report) = &mut record.body else { unreachable!("a record of run") };
    report.workers.push(WorkerReport { replica: 1, ..fixtures::worker() });
    let mut tuned = fixtures::record("tune");
    let Body::Tune(report) = &mut tuned.body else { unreachable!("a record of tune") };
    report.baseline.buckets = one;
    report.cpus_available = Some(2);
    for record in [record, tuned] {
        for detail in [Detail::Screen, Detail::Brief] {
            let text = screen(&record, 100, detail);
            assert!(text.contains(expected), "{text}");
        }
    }
}

#[test]
fn a_costly_replay_is_in_the_first_lines() {
    let mut record = fixtures::record("run");
    let Body::Run(report) = &mut record.body else { unreachable!("a record of run") };
    let worker = &mut report.workers[0];
    let busy = worker.time.expect("its time").busy;
    let last = worker.stages.len() - 1;
    for (index, stage) in worker.stages.iter_mut().enumerate() {
        let share = if index == 0 || index == last { 0.25 } else { 0.5 / (last - 1) as f64 };
        stage.busy = Some(share * busy);
    }
    let text = screen(&record, 100, Detail::Screen);
    let first = text.lines().next().unwrap_or_default();
    assert!(first.contains("(replay 50 %), worker 0.0 "), "{first}");
}

#[test]
fn the_budget_of_this_machine_is_in_cores_and_that_of_others_in_pipes() {
    let mut record = fixtures::record("budget");
    let Body::Budget(report) = &mut record.body else { unreachable!("a record of budget") };
    report.shortfall = None;
    let said = |record: &Record| screen(record, 100, Detail::Screen);
    let own = said(&record);
    let first = own.lines().next().unwrap_or_default();
    assert!(first.contains(" core cycles per packet at ") && first.contains(" on all 2 cores"));
    assert!(!own.contains("pipe ") && !own.contains("strand"), "{own}");
    let Body::Budget(report) = &mut record.body else { unreachable!("a record of budget") };
    (report.is_this_machine, report.strands_per_pipe) = (false, 4);
    let other = said(&record);
    assert!(other.contains(" pipe cycles per packet at "), "{other}");
    assert!(other.contains("2 cores of 1 pipe, 4 strands per pipe"), "{other}");
}

#[test]
fn a_prediction_below_the_present_rate_is_no_reason_to_change() {
    let with = |factor: f64| {
        let mut record = fixtures::record("tune");
        let Body::Tune(report) = &mut record.body else { unreachable!("a record of tune") };
        let kpps = report.baseline_kpps.as_number().expect("a rate");
        report.chosen = None;
        report.predicted_from = Some("run.json".to_owned());
        report.candidates[0].predicted_kpps = Figure::exact("kpps", factor * kpps, Tier::Model, "");
        screen(&record, 80, Detail::Screen)
    };
    let (slower, faster) = (with(0.8), with(1.5));
    let same = with(1.0 + MIN_GAIN);
    assert!(same.starts_with("Keep the mapping: "), "as the search decides: {same}");
    assert!(slower.starts_with("Keep the mapping: "), "{slower}");
    assert!(slower.contains("no candidate is predicted to gain more than 2 %"), "{slower}");
    assert!(faster.starts_with("Predicted: 1.5x"), "{faster}");
}

#[test]
fn the_first_line_says_why_the_mapping_is_kept() {
    let first = |change: &dyn Fn(&mut TuneReport)| {
        let mut record = fixtures::record("tune");
        let Body::Tune(report) = &mut record.body else { unreachable!("a record of tune") };
        report.chosen = None;
        change(report);
        let shown = screen(&record, 100, Detail::Screen);
        let kept = shown.lines().find(|line| line.starts_with("kept")).expect("it is kept");
        (shown.lines().next().expect("a line").to_owned(), kept.to_owned())
    };
    let speedup = |report: &mut TuneReport, low: Option<f64>| {
        for candidate in &mut report.candidates {
            let Some(speedup) = &mut candidate.speedup else { continue };
            (speedup.value, speedup.low, speedup.high) = (Scalar::Number(1.86), low, Some(2.35));
            speedup.n = if low.is_some() { 8 } else { 4 };
        }
    };
    let (line, _) = first(&|report: &mut TuneReport| speedup(report, Some(0.95)));
    assert!(line.contains("no candidate is certain to gain 2 %"), "{line}");
    let (line, kept) = first(&|report: &mut TuneReport| speedup(report, None));
    assert!(line.contains("only 4 of 8 rounds undisturbed; a comparison needs 6"), "{line}");
    assert!(kept.contains("in at most 4 of 8 rounds, the baseline and"), "{kept}");
    let (line, kept) = first(&|report: &mut TuneReport| {
        speedup(report, Some(1.25));
        report.p99_limit_ns = Some(50_000.0);
    });
    assert!(line.contains("no faster candidate is known to meet the p99 limit"), "{line}");
    assert!(kept.contains("over the p99 limit or unknown"), "{kept}");
    let (line, _) = first(&|report: &mut TuneReport| report.rounds = 0);
    assert!(line.contains("tuning stopped before the candidates had run"), "{line}");
}

#[test]
fn no_regression_is_claimed_only_where_figures_could_be_judged() {
    let first = |judged: Judged| {
        let mut record = fixtures::record("stat");
        let Body::Stat(report) = &mut record.body else { unreachable!("a record of stat") };
        report.baseline = vec![BaselineChange {
            name: "instructions".to_owned(),
            before: Some(100.0),
            now: Some(101.0),
            change: Some(0.01),
            is_regression: false,
            judged,
        }];
        screen(&record, 100, Detail::Screen).lines().next().expect("a line").to_owned()
    };
    assert!(first(Judged::Yes).starts_with("No regression"));
    let line = first(Judged::NoInterval);
    assert!(line.starts_with("Cannot tell whether there is a regression"), "{line}");
}

#[test]
fn details_show_what_the_screen_leaves_out() {
    for (kind, record) in stored().filter(|(kind, _)| *kind != "why") {
        let (brief, whole) = (Detail::Screen, Detail::Brief);
        let [brief, whole] = [brief, whole].map(|detail| screen(&record, 100, detail));
        assert_ne!(brief, whole, "{kind}");
        if brief.lines().count() > SCREEN_LINES - 2 {
            assert!(brief.contains("--details"), "{kind}: {brief}");
        }
    }
}

#[test]
fn screens_as_they_are() {
    for (kind, record) in stored().filter(|(kind, _)| *kind != "why") {
        let text = screen(&record, 80, Detail::Screen);
        let name = format!("screen-{kind}.txt");
        match kind {
            // The commands of `doctor` are never wrapped, whatever their width.
            "doctor" => assert_same(&name, &text),
            _ => assert_golden(&name, &PLAIN, &text),
        }
    }
}

#[test]
fn under_a_cpu_quota_the_first_line_is_what_was_delivered() {
    for kind in ["run", "tune"] {
        let record = fixtures::record(kind);
        let provenance = linerate_record::Provenance { cpu_quota: Some(0.2), ..record.provenance };
        let mut held = Record { provenance, ..record };
        // The counters of the quota are unknown, so it is assumed to throttle.
        match &mut held.body {
            Body::Run(run) => run.quotas = None,
            Body::Tune(tune) => tune.tuned.quotas = None,
            _ => unreachable!("no other kind"),
        }
        for detail in [Detail::Screen, Detail::Brief] {
            let text = screen(&held, 80, detail);
            let first = text.lines().next().unwrap_or_default();
            assert!(first.contains("CPU quota") && first.contains("delivered"), "{kind}: {first}");
        }
    }
}

#[test]
fn the_answer_states_whether_the_goal_is_met() {
    let first = |record: &Record| {
        screen(record, 100, Detail::Screen).lines().next().unwrap_or_default().to_owned()
    };
    let mut record = fixtures::record("run");
    let Body::Run(run) = &mut record.body else { panic!("a run") };
    run.goal_kpps = run.processed_kpps.as_number();
    let line = first(&record);
    assert!(line.starts_with("Cannot tell whether the goal of "), "{line}");
    // An interrupted run has not shown what it would have reached.
    let Body::Run(run) = &mut record.body else { panic!("a run") };
    run.interrupted = true;
    assert!(!first(&record).contains("goal"), "{}", first(&record));
    // The kept mapping of the tune record may be several times as fast as its baseline.
    for (factor, verdict) in [(0.1, "met"), (10.0, "missed")] {
        let mut record = fixtures::record("run");
        let Body::Run(run) = &mut record.body else { panic!("a run") };
        let rate = run.processed_kpps.as_number().expect("a rate");
        run.goal_kpps = Some(factor * rate);
        let line = first(&record);
        assert!(line.starts_with("Goal of ") && line.contains(verdict), "{line}");
        let mut record = fixtures::record("tune");
        let Body::Tune(tune) = &mut record.body else { panic!("a tune record") };
        let before = tune.baseline_kpps.as_number().expect("a rate");
        tune.tuned.goal_kpps = Some(factor * before);
        let line = first(&record);
        assert!(line.contains(&format!(": {verdict}")), "{line}");
    }
}
