// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate tcp`: contents of its record, rejected options, lists. No test asserts a time, and
//! none needs lwIP.

use crate::rig::{Folder, answered, linerate, record, refused};
use crate::validator::Validator;
use linerate_record::tcp::TcpReport;
use linerate_record::{Body, Figure};
use serde_json::Value;

/// Fields that scripts find for every pattern, `null` where not applicable.
const SUMMARY: [&str; 7] = [
    "gbps_per_cpu_s",
    "of_bound",
    "over_c",
    "over_scalar",
    "share_checksum",
    "share_copy",
    "round_trip_cpu_ns",
];

const SMOLTCP: [&str; 5] = ["tcp", "--stack", "smoltcp", "--time", "200ms"];

fn measured(arguments: &[&str]) -> (TcpReport, Value) {
    let text = answered(0, &[&SMOLTCP[..], &["--json"], arguments].concat());
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(Validator::new(&linerate_record::schema_json()).verdict(&json), Ok(()));
    match record(&text).body {
        Body::Tcp(report) => (*report, json),
        _ => panic!("a record of TCP stacks"),
    }
}

/// Asserts that a figure, if present, is positive. A missing figure must have a reason, as other
/// programs may have used up the CPU.
fn assert_positive(figure: &Figure) {
    match figure.as_number() {
        Some(number) => assert!(number > 0.0, "{figure:?}"),
        None => assert!(figure.reason.is_some(), "{figure:?}"),
    }
}

#[test]
fn every_pattern_has_all_values_for_scripts() {
    let (report, json) = measured(&["--set", "document,selected"]);
    let patterns = &report.stacks[0].patterns;
    assert_eq!(patterns.len(), 5, "{patterns:?}");
    for pattern in patterns {
        let summary = &json["summary"]["smoltcp"][&pattern.name];
        for name in SUMMARY {
            assert!(summary.get(name).is_some(), "{}, {name}: {summary}", pattern.name);
        }
        assert!(pattern.name != "response" || summary["gbps_per_cpu_s"].is_null(), "{summary}");
        for set in &pattern.sets {
            [&set.segments_per_cpu_s, &set.of_bound].into_iter().for_each(assert_positive);
        }
        let sets: Vec<&str> = pattern.sets.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(sets, ["document", "selected", "off"], "the bound is always measured");
        let proof = pattern.proof;
        assert!(proof.segments > 1000 && proof.lost > 0 && proof.corrupted > 0, "{proof:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_segments() {
    let proof = |seed| {
        let (report, _) = measured(&["--pattern", "mixed", "--set", "selected", "--seed", seed]);
        report.stacks[0].patterns[0].proof
    };
    assert_eq!(proof("7"), proof("7"));
    assert_ne!(proof("7"), proof("8"));
}

#[test]
fn what_is_named_twice_takes_part_once() {
    let (report, _) = measured(&["--pattern", "bulk,bulk", "--set", "off,selected,off"]);
    let [pattern] = report.stacks[0].patterns.as_slice() else { panic!("{report:?}") };
    let sets: Vec<&str> = pattern.sets.iter().map(|set| set.name.as_str()).collect();
    assert_eq!(sets, ["off", "selected"]);
}

#[test]
fn names_that_are_unknown_are_answered_with_the_list() {
    for (option, listed) in
        [("--stack", "smoltcp"), ("--pattern", "jumbo"), ("--set", "portable"), ("--mix", "imix")]
    {
        let said = refused(&["tcp", option, "nonesuch"]);
        assert!(said.contains("nonesuch") && said.contains(listed), "{option}: {said}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for (option, value) in [
        ("--buffer", "100"),
        ("--buffer", "5000000"),
        ("--time", "0s"),
        ("--cpu", "100000"),
        ("--mix", "0:1"),
        ("--wire", "string"),
        ("--svg", "/dev/null/plots"),
        ("--record", "/dev/null/record"),
    ] {
        let said = refused(&["tcp", option, value]);
        assert!(said.contains(value), "{option} {value}: {said}");
    }
}

#[test]
fn the_list_has_every_name() {
    let text = answered(0, &["tcp", "--list"]);
    for name in ["smoltcp 0.14", "interactive", "document", "portable", "imix"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    assert!(text.contains("lwip"), "either listed, or skipped with a remedy: {text}");
}

#[test]
fn plots_are_written_to_the_requested_folder() {
    let folder = Folder::new();
    let plots = folder.file("plots/of/tcp");
    let arguments = ["--pattern", "bulk", "--set", "selected", "--histograms", "--svg", &plots];
    let done = linerate(&[&SMOLTCP[..], &arguments].concat());
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(done.stdout.contains("calls of copy"), "{}", done.stdout);
    // Shares can be determined even on a busy machine; rates may be missing.
    let plot = std::fs::read_to_string(format!("{plots}/tcp-smoltcp-shares.svg")).expect("a plot");
    assert!(plot.starts_with("<svg") || plot.starts_with("<?xml"), "{plot}");
}
