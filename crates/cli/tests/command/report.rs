// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate report`: of every kind of record, what the command printed that made it.

use crate::regions;
use crate::rig::{Done, Folder, answered, edge, linerate, record, refused};

/// Makes a record, prints it again, and compares: to the byte, with the warnings.
#[track_caller]
fn assert_shown_again(folder: &Folder, name: &str, arguments: &[&str], more: &[&str]) -> String {
    let file = folder.file(&format!("{name}.json"));
    let at = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
    let mut words = arguments.to_vec();
    words.splice(at..at, ["--record", &file]);
    let Done { status, stdout, stderr } = linerate(&words);
    assert!(matches!(status, Some(0 | 1)), "{words:?}: {status:?} {stderr}");
    let again = linerate(&[&["report", &file], more].concat());
    assert_eq!(again.status, Some(0), "{again:?}");
    assert_eq!(again.stdout, stdout, "{words:?}");
    assert!(stderr.ends_with(&again.stderr) || stderr.contains(&again.stderr), "{stderr}");
    assert_readable_elsewhere(&file);
    file
}

/// As Markdown it has no line of a terminal's table, and every kind has figures to export.
#[track_caller]
fn assert_readable_elsewhere(file: &str) {
    let markdown = answered(0, &["report", "--format", "markdown", file]);
    assert!(markdown.starts_with("```\n") && !markdown.contains("\n\n\n"), "{markdown}");
    assert!(markdown.contains("\n- ") || markdown.contains("\n| "), "{markdown}");
    let csv = answered(0, &["export", "--format", "csv", file]);
    assert!(csv.lines().count() > 1, "{file}: {csv}");
    let json = answered(0, &["report", "--json", file]);
    assert_eq!(json, std::fs::read_to_string(file).expect("it was written"));
}

#[test]
fn what_measures_packets_is_shown_again() {
    let folder = Folder::new();
    let path = folder.write("edge.toml", edge(&[]));
    let run = ["run", &path, "--time", "200ms", "--cpus", "0"];
    let run = assert_shown_again(&folder, "run", &run, &[]);
    assert_shown_again(&folder, "plan", &["plan", &path, "--from", &run], &[]);
    assert_shown_again(&folder, "budget", &["budget", "--from", &run, "--clock", "2.5"], &[]);
    assert_shown_again(&folder, "explain", &["explain", &run], &[]);
    let flows = edge(&[("rate = \"100Gb/s\"", "rate = \"1Gb/s\"\nports = 4")]);
    let flows = folder.write("flows.toml", flows);
    let flows = ["run", &flows, "--time", "200ms", "--cpus", "0"];
    assert_shown_again(&folder, "flows", &flows, &[]);
}

#[test]
fn a_tuning_is_shown_again() {
    let folder = Folder::new();
    let path = folder.write("edge.toml", edge(&[]));
    let file = folder.file("tune.json");
    let done = linerate(&["tune", &path, "--time", "200ms", "--record", &file]);
    assert!(!done.stdout.is_empty(), "{done:?}");
    assert_eq!(answered(0, &["report", &file]), done.stdout);
    assert_readable_elsewhere(&file);
}

#[test]
fn what_measures_machines_is_shown_again() {
    let folder = Folder::new();
    assert_shown_again(&folder, "doctor", &["doctor"], &[]);
    let memory = ["memory", "--quick", "--max", "8M", "--no-store"];
    assert_shown_again(&folder, "memory", &memory, &[]);
    assert_shown_again(&folder, "memory-all", &[&memory[..], &["--all"]].concat(), &["--all"]);
    let kernels = ["kernels", "--quick", "--kernel", "checksum", "--state", "warm"];
    assert_shown_again(&folder, "kernels", &kernels, &[]);
    let sizes = [&kernels[..], &["--size", "64,65,66,67,1460"]].concat();
    assert_shown_again(&folder, "kernels-sizes", &sizes, &[]);
    let tcp = ["tcp", "--stack", "smoltcp", "--pattern", "bulk", "--time", "100ms"];
    assert_shown_again(&folder, "tcp", &tcp, &[]);
    assert_shown_again(&folder, "tcp-all", &[&tcp[..], &["--histograms"]].concat(), &["--all"]);
}

#[test]
fn counts_are_shown_again() {
    let folder = Folder::new();
    assert_shown_again(&folder, "stat", &["stat", "-o", "-", "--", "true"], &[]);
    let explained = ["stat", "-o", "-", "--explain", "--", "true"];
    assert_shown_again(&folder, "explained", &explained, &["--all"]);
    let rpistat = ["stat", "-o", "-", "--format", "rpistat", "--", "true"];
    assert_shown_again(&folder, "rpistat", &rpistat, &["--format", "rpistat"]);
    let refusal = refused(&["report", "--format", "rpistat", &regions::recorded(&folder)]);
    assert!(refusal.contains("not a record of stat"), "{refusal}");
}

#[test]
fn what_others_measured_is_shown_again() {
    const DUMP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/netra-sample.dump");
    let folder = Folder::new();
    assert_shown_again(&folder, "import", &["import", DUMP, "--machine", "t1"], &[]);
    let file = regions::recorded(&folder);
    assert_eq!(answered(0, &["report", &file]), answered(0, &["regions", &file]));
    assert_readable_elsewhere(&file);
}

#[test]
fn a_record_that_was_changed_is_refused_by_name() {
    let folder = Folder::new();
    let file = assert_shown_again(&folder, "budget", &["budget", "--clock", "2.5"], &[]);
    let json = std::fs::read_to_string(&file).expect("it was written");
    assert!(record(&json).figures().contains_key("ns_per_packet"));
    let other = json.replacen("\"clock_ghz\": 2.5", "\"clock_ghz\": 5.0", 1);
    assert!(linerate(&["report", &folder.write("other.json", other)]).status == Some(0));
    let wrong = json.replacen("\"warnings\": []", "\"warnings\": [{\"code\": \"emulated\"}]", 1);
    let refusal = refused(&["report", &folder.write("wrong.json", wrong)]);
    assert!(refusal.contains("`warnings` does not follow"), "{refusal}");
}
