// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendering of a `stat` record. Golden files: see `common`.

#[path = "../common/mod.rs"]
mod common;
mod example;

use common::{PLAIN, assert_golden, assert_same};
use linerate_record::stat::{ExitStatus, StatReport, StatTarget};
use linerate_record::{Figure, Figures, Tier};
use linerate_report::{Detail, Style, rpistat, stat};

fn table(report: &StatReport, style: &Style) -> String {
    stat(&timed(report, example::figures()), Detail::Brief, style)
}

/// Returns a copy of the report with these times.
fn timed(report: &StatReport, times: Figures) -> StatReport {
    StatReport { times, ..report.clone() }
}

#[test]
fn events_in_turns_stand_raw_and_scaled() {
    assert_golden("stat-turns.txt", &PLAIN, &table(&example::turns(), &PLAIN));
}

#[test]
fn metrics_say_what_they_tell_when_asked() {
    let text = stat(&timed(&example::turns(), example::figures()), Detail::Full, &PLAIN);
    assert_golden("stat-explained.txt", &PLAIN, &text);
}

#[test]
fn without_counters_there_is_still_an_answer() {
    let text = table(&example::without_pmu(), &PLAIN);
    assert_golden("stat-without-pmu.txt", &PLAIN, &text);
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    for name in ["cycles", "instructions", "branches", "branch_misses"] {
        let row = row(name).unwrap_or_else(|| panic!("{name} is in {text}"));
        assert!(row.ends_with(" -") && !row.contains('0'), "{row}");
    }
    assert!(row("migrations").is_some_and(|row| row.ends_with(" 0")), "{text}");
}

#[test]
fn a_simulation_names_its_caches_and_what_changed() {
    let text = stat(&timed(&example::simulated(), example::no_times()), Detail::Brief, &PLAIN);
    assert_golden("stat-simulated.txt", &PLAIN, &text);
}

#[test]
fn functions_stand_with_their_shares_and_lines() {
    let report = StatReport { hot: Some(example::hot()), ..example::simulated() };
    let text = stat(&timed(&report, example::no_times()), Detail::Brief, &PLAIN);
    assert_golden("stat-hot.txt", &PLAIN, &text);
    let functions = text.lines().filter(|line| line.contains("(libc.so.6)")).count();
    assert_eq!(functions, 18, "20 rows, two of them of the program");
}

#[test]
fn a_long_command_takes_one_line() {
    let argv: Vec<String> = (0..20_000).map(|word| word.to_string()).collect();
    let report = StatReport { target: StatTarget::Command { argv }, ..example::turns() };
    let (text, short) = (table(&report, &PLAIN), table(&example::turns(), &PLAIN));
    assert_eq!(text.lines().count(), short.lines().count());
    let first = text.lines().next().unwrap_or_default();
    assert!(first.starts_with("counted     `0 1 2 ") && first.ends_with(" ...`"), "{first}");
    assert!((PLAIN.width - 3..=PLAIN.width).contains(&first.len()), "{first}");
    let mut words = first.trim_end_matches(" ...`").rsplit(' ').map(|word| word.parse().ok());
    let [last, before]: [Option<u32>; 2] = [(); 2].map(|()| words.next().flatten());
    assert_eq!(last, before.map(|word| word + 1), "no word is cut: {first}");
}

#[test]
fn rows_are_spread_over_tables_that_fit() {
    let style = Style { width: 80, ..PLAIN };
    assert_golden("stat-rows-80.txt", &style, &table(&example::rows(), &style));
}

#[test]
fn repetitions_have_an_error_and_no_brackets() {
    let text = table(&example::repeated(), &PLAIN);
    assert_golden("stat-repeated.txt", &PLAIN, &text);
    assert!(!text.contains('['), "{text}");
}

#[test]
fn colours_mark_heads_and_what_is_missing() {
    let style = Style { color: true, ..PLAIN };
    assert_golden("stat-color.txt", &style, &table(&example::without_pmu(), &style));
}

#[test]
fn control_characters_of_a_record_do_not_reach_the_terminal() {
    let mut report = example::turns();
    report.target = StatTarget::Command { argv: vec!["a\x1b[2J".to_owned()] };
    report.events[0].native = Some("\x07".to_owned());
    report.metrics[0].prose = "\x1b]0;".to_owned();
    let text = stat(&timed(&report, example::figures()), Detail::Full, &PLAIN)
        + &rpistat(&report, &example::provenance());
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

/// One command covers all events, since `-e` takes a list. Fixes with any other difference are
/// printed as separate commands.
#[test]
fn a_fix_that_differs_in_the_event_alone_is_printed_once() {
    let mut report = example::simulated();
    for (name, fix) in [
        ("l2_misses", "linerate stat -e l2_misses -- COMMAND"),
        ("l2_hits", "linerate stat -e l2_hits -- COMMAND"),
        ("dtlb_misses", "linerate stat -e dtlb_misses_of_another -- COMMAND"),
    ] {
        let event = report.events.iter_mut().find(|event| event.name == name).unwrap();
        event.fix = Some(fix.to_owned());
    }
    let text = table(&report, &PLAIN);
    assert_eq!(text.matches("try:").count(), 2, "{text}");
    assert!(text.contains("stat -e l2_misses,l2_hits -- COMMAND"), "{text}");
    assert!(text.contains("stat -e dtlb_misses_of_another -- COMMAND"), "{text}");
}

#[test]
fn of_several_runs_one_bad_end_and_what_was_left_out_are_reported() {
    let mut report = StatReport { interrupted: true, ..example::repeated() };
    report.ended = Some(ExitStatus { status: Some(3), signal: None });
    let mut figures = example::figures();
    let each = Figure::exact("s", 1.41, Tier::Sw, "median of 12 runs");
    figures.insert("elapsed_s".to_owned(), each);
    let text = stat(&timed(&report, figures), Detail::Brief, &PLAIN);
    for wanted in [
        "ended       with status 3, in at least one run; interrupted: counts cover the completed \
         runs\n",
        "elapsed     1.41 s a run, 16.5 s user, ",
        "; 16.9 s in all\n",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn nothing_counted_is_still_a_report() {
    let mut report = example::without_pmu();
    report.events.clear();
    report.metrics.clear();
    let text = stat(&report, Detail::Full, &PLAIN);
    assert!(text.starts_with("counted     `ls -l`\nended       with status 2\n"), "{text}");
}

#[test]
fn rpistat_has_its_layout() {
    let report = example::turns();
    assert_same("stat-rpistat.txt", &rpistat(&report, &example::provenance()));
}

/// The report has the original `rpistat` labels in order, with only counts and our additions in
/// between.
#[test]
fn rpistat_has_the_lines_of_the_original() {
    let text = rpistat(&example::turns(), &example::provenance());
    let labels = [
        "rpistat: ./naive",
        "Thu Jun 27 09:58:08 2013",
        "System information",
        "  Number of processors:     1",
        "Performance events",
        "  [ ... ] = scaled event count",
        "  PTI     = per thousand instructions",
        "  Total periods:      169",
        "  Cycles:             11,759,598,287",
        "  Instructions:       315,810,640  [1,241,39",
        "  IBUF stall cycles:  65,981,902  [259,36",
        "  Instr periods:      42",
        "  CPI:                9.47",
        "  IBUF stall percent: 2.206  %",
        "  DC cached accesses: 4,558,795  [18,345,",
        "  DC misses:          933,837  [3,757,8",
        "  DC periods:         42",
        "  DC miss ratio:      20.484 %",
        "  MicroTLB misses:    224,886  [904,97",
        "  Main TLB misses:    172,973  [696,06",
        "  TLB periods:        42",
        "  Micro miss rate:    0.729   PTI",
        "  Main miss rate:     0.561   PTI",
        "  Branches:           33,438,664  [134,562,0",
        "  Mispredicted BR:    366,383  [1,474,37",
        "  BR periods:         42",
        "  Branch rate:        108.39",
        "  Mispredict ratio:   1.096  %",
    ];
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), labels.len(), "{text}");
    for (line, label) in lines.iter().zip(labels) {
        assert!(line.starts_with(label), "{line:?} begins with {label:?}");
    }
}

#[test]
fn rpistat_says_what_is_missing_and_why() {
    let text = rpistat(&example::without_pmu(), &example::provenance());
    assert_same("stat-rpistat-without-pmu.txt", &text);
    assert!(text.contains("  Cycles:             -\n"), "{text}");
    let simulated = rpistat(&example::simulated(), &example::provenance());
    assert!(simulated.contains("\n  tier    = sim: "), "{simulated}");
}
