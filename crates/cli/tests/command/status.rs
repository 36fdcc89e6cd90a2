// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit status, and output on failure.

use crate::rig::{Folder, a_share_of_the_processors, answered, command, edge};
use crate::rig::{linerate, record, refused, split_path};
use linerate_record::Body;
use std::fs::{File, OpenOptions};
use std::process::Stdio;

/// Asserts that the status matches the rate in the record, or is 2 if the machine was too busy to
/// measure a rate, and that the profile is printed in any case.
fn assert_status_of_goal(folder: &Folder, file: &str, goal: &str, wanted_kpps: f64) {
    let kept = folder.file("record.json");
    let done = linerate(&["run", file, "--time", "100ms", "--goal", goal, "--record", &kept]);
    assert!(done.stdout.contains("gre_encap"), "{done:?}");
    let record = record(&std::fs::read_to_string(&kept).expect("the record is written"));
    let kpps = record.figures()["processed_kpps"].as_number();
    let expected = kpps.map_or(2, |kpps| i32::from(kpps < wanted_kpps));
    assert_eq!(done.status, Some(expected), "{kpps:?}: {done:?}");
    let is_undecided = done.stderr.contains(
        "cannot tell whether the goal is met: no rate was \
                                             measured",
    );
    assert_eq!(is_undecided, kpps.is_none(), "{done:?}");
}

#[test]
fn the_status_says_whether_a_goal_is_met() {
    let folder = Folder::new();
    let file = folder.write("path.toml", edge(&[]));
    assert_status_of_goal(&folder, &file, "1pps", 1e-3);
    assert_status_of_goal(&folder, &file, "900Gpps", 900e6);
    // The goal is the line rate in packets per second. A frame takes at most 1,538 bytes, including
    // the on-wire overhead.
    let slow = folder.write("slow.toml", edge(&[("\"100Gb/s\"", "\"1kb/s\"")]));
    assert_status_of_goal(&folder, &slow, "line", 1e-3);
    let fast = folder.write("fast.toml", edge(&[("\"100Gb/s\"", "\"900Tb/s\"")]));
    assert_status_of_goal(&folder, &fast, "line", 900e12 / 8.0 / 1538.0 / 1e3);
}

#[test]
fn the_verdict_on_a_latency_limit_is_printed() {
    let folder = Folder::new();
    let file = folder.write("path.toml", edge(&[]));
    for (limit, status, verdict) in [("1ns", 1, "1 ns: missed, with "), ("1000s", 0, "met, with ")]
    {
        let done = linerate(&["run", &file, "--time", "500ms", "--p99", limit]);
        let is_undecided = done.stderr.contains("cannot tell whether --p99 is met: ");
        let expected = if is_undecided { 2 } else { status };
        assert_eq!(done.status, Some(expected), "{done:?}");
        let is_printed = done.stderr.contains("linerate: p99 of at most ");
        assert_eq!(is_printed && done.stderr.contains(verdict), !is_undecided, "{done:?}");
    }
}

/// Returns a path whose second worker panics at the 777th packet it receives from the first.
fn broken(folder: &Folder) -> String {
    let text = split_path(&["parse", "fault"], "packets = 100000");
    let fault = "kind = \"fault\"\nname = \"guard\"\npacket = 777";
    let text = text.replace("kind = \"fault\"", fault).replace("[\"fault\"]", "[\"guard\"]");
    folder.write("broken.toml", text)
}

#[test]
fn a_stage_that_panics_is_named_and_leaves_its_profile() {
    let folder = Folder::new();
    let file = broken(&folder);
    let kept = folder.file("record.json");
    let done = linerate(&["run", &file, "--oversubscribe", "--record", &kept]);
    assert_eq!(done.status, Some(2), "{done:?}");
    let named = "tage `guard` on worker 1.0 panicked at packet 777: requested fault";
    assert!(done.stderr.contains(&format!("linerate: s{named}")), "{}", done.stderr);
    assert!(done.stdout.starts_with(&format!("failed      s{named}")), "{}", done.stdout);
    for word in ["source", "parse", "ring out", "ring in", "guard", "1.0"] {
        assert!(done.stdout.contains(word), "{word} not in {}", done.stdout);
    }
    let written = std::fs::read_to_string(&kept).expect("the record is written");
    let json = linerate(&["run", &file, "--oversubscribe", "--json"]);
    assert_eq!(json.status, Some(2));
    for text in [&written, &json.stdout] {
        let Body::Run(report) = record(text).body else { panic!("{text}") };
        let given = report.workers[1].stages.iter().map(|stage| stage.packets).max();
        let given = given.unwrap_or(0);
        assert!((778..100_000).contains(&given), "{given} packets reached the broken worker");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_a_failure() {
    let folder = Folder::new();
    let nowhere = folder.file("missing/file");
    let file = folder.write("path.toml", edge(&[]));
    let said = refused(&["run", &file, "--time", "100ms", "--record", &nowhere, "--quiet"]);
    assert!(said.contains("cannot write") && said.contains(&nowhere), "{said}");
    let sink = format!("[sink]\nkind = \"capture\"\nfile = {nowhere:?}\n[run]");
    let file = folder.write("sink.toml", edge(&[("[run]", sink.as_str())]));
    for more in [&["--time", "100ms"][..], &["--check"]] {
        let said = refused(&[&["run", &file], more].concat());
        assert!(said.contains("cannot write") && said.contains(&nowhere), "{said}");
    }
}

#[test]
fn a_full_disk_is_a_failure_and_a_reader_gone_is_none() {
    let folder = Folder::new();
    let file = folder.write("path.toml", edge(&[]));
    let table: [&[&str]; 5] = [
        &["stages"],
        &["schema", "path"],
        &["run", &file, "--check"],
        &["run", &file, "--time", "100ms", "--quiet"],
        &["run", &file, "--time", "100ms", "--quiet", "--json"],
    ];
    let _share = a_share_of_the_processors();
    for arguments in table {
        let mut child = command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!(
            (output.status.code(), &output.stderr[..]),
            (Some(0), &b""[..]),
            "{arguments:?}"
        );
        if let Ok(full) = OpenOptions::new().write(true).open("/dev/full") {
            let output = command(arguments).stdout(full).output().expect("the program ends");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}");
            assert!(said.contains("cannot write the result"), "{said}");
        }
    }
}

/// Runs the program from a shell, with `redirect` applied to its stdout. Returns its exit status
/// and stderr.
fn redirected(redirect: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("exec \"$0\" \"$@\" {redirect}"), env!("CARGO_BIN_EXE_linerate")])
        .args(arguments)
        .output()
        .expect("a shell starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_lost_result_is_a_failure() {
    let folder = Folder::new();
    let file = folder.write("path.toml", edge(&[]));
    let (kept, other) = (folder.file("record.json"), folder.file("stat.txt"));
    let table: [(i32, &[&str]); 6] = [
        (2, &["run", &file, "--time", "100ms", "--record", &kept]),
        (2, &["run", &file, "--check"]),
        (2, &["stages"]),
        (2, &["--help"]),
        (125, &["stat", "--help"]),
        (125, &["stat", "-o", "-", "--", "true"]),
    ];
    for (status, arguments) in table {
        let (found, said) = redirected(">&-", arguments);
        assert_eq!(found, Some(status), "{arguments:?}: {said}");
        assert!(
            said.contains("standard output is closed") && said.contains("> /dev/null"),
            "{said}"
        );
    }
    assert!(!std::path::Path::new(&kept).exists(), "the error is reported before any measurement");
    // Stdout is open, but not for writing.
    let (found, said) = redirected("1</dev/null", &["stages"]);
    assert_eq!(found, Some(2), "{said}");
    assert!(said.contains("cannot write the result"), "{said}");
    // Output to a file does not need stdout, and output to /dev/null is not an error.
    let elsewhere = ["stat", "--output", &other, "--", "true"];
    assert_eq!(redirected(">&-", &elsewhere).0, Some(0));
    assert_eq!(redirected(">&-", &["stat", "-q", "--", "true"]).0, Some(0), "printed to stderr");
    assert!(std::fs::read_to_string(&other).is_ok_and(|text| text.contains("task_clock")));
    for redirect in [">/dev/null", "1<>/dev/null"] {
        assert_eq!(redirected(redirect, &["stages"]), (Some(0), String::new()), "{redirect}");
    }
}

#[test]
fn warnings_and_results_do_not_mix() {
    let folder = Folder::new();
    let file = folder.write("path.toml", split_path(&["parse", "count"], "packets = 64"));
    let arguments = ["run", &file, "--oversubscribe", "--cpus", &crate::rig::a_processor()];
    let done = linerate(&arguments);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(done.stderr.contains("warning:") && !done.stdout.contains("warning:"), "{done:?}");
    let is_debug = done.stderr.contains("linerate: unoptimized build: ");
    assert_eq!(is_debug, cfg!(debug_assertions), "{done:?}");
    let quiet = linerate(&[&arguments[..], &["--quiet"]].concat());
    assert_eq!((quiet.status, quiet.stderr.as_str()), (Some(0), ""));
    assert!(!quiet.stdout.contains('\u{1b}'), "colours only for terminals: {}", quiet.stdout);
}

#[test]
fn the_record_in_the_file_is_the_one_on_stdout() {
    let folder = Folder::new();
    let file = folder.write("path.toml", edge(&[]));
    let kept = folder.file("record.json");
    let json = answered(0, &["run", &file, "--time", "100ms", "--json", "--record", &kept]);
    assert_eq!(std::fs::read_to_string(&kept).expect("the record is written"), json);
    let again = answered(0, &["run", &file, "--time", "100ms", "--record", &kept]);
    assert!(!again.starts_with('{') && again.contains("gre_encap"), "{again}");
    record(&std::io::read_to_string(File::open(&kept).expect("there")).expect("UTF-8"));
}
