// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the program as run from the command line.

use std::fs::{File, OpenOptions};
use std::process::{Command, Output, Stdio};

fn probe(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate-probe"));
    command.args(arguments.split_whitespace());
    command
}

fn output(arguments: &str) -> Output {
    probe(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Opens a file to which every write fails.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_command_that_is_not_there_gives_one_line() {
    let Output { status, stdout, stderr } = output("stat -- ./no-such-command");
    assert_eq!((status.code(), text(&stdout)), (Some(127), ""));
    let stderr = text(&stderr);
    assert!(stderr.starts_with("linerate-probe: cannot run `./no-such-command`: "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn the_record_of_a_command_that_is_not_there_is_one_of_nulls() {
    let Output { status, stdout, .. } = output("stat --json -e task_clock_ns -- ./no-such-command");
    assert_eq!(status.code(), Some(127));
    let record = linerate_record::Record::from_json(text(&stdout)).unwrap();
    assert_eq!(record.figures()["task_clock_ns"].as_number(), None);
}

#[test]
fn a_command_that_ran_gives_lines_and_its_status() {
    let Output { status, stdout, .. } =
        probe("stat -e task_clock_ns -- sh -c").arg("exit 3").output().unwrap();
    assert_eq!(status.code(), Some(3));
    let names: Vec<&str> =
        text(&stdout).lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["task_clock_ns", "elapsed_s"]);
}

#[test]
fn doctor_names_no_command_that_the_probe_has_not() {
    let Output { status, stdout, .. } = output("doctor");
    assert_eq!(status.code(), Some(0));
    for line in text(&stdout).lines() {
        let advice = line.split_once("; try: ").map_or("", |(_, advice)| advice);
        let is_own = ["--tier sim", "--list", "linerate why"].iter().all(|s| !advice.contains(s));
        assert!(is_own || advice.starts_with("# with linerate: "), "{line}");
        assert!(!line.starts_with("sim ") && !line.starts_with("model "), "{line}");
        assert!(!line.starts_with("packet_sockets") && !line.contains("why --demo"), "{line}");
    }
}

/// A closed pipe or a full disk results in an exit status, not a panic.
#[test]
fn outputs_that_take_nothing_end_in_a_status() {
    let status = |arguments: &str, stderr: File| {
        probe(arguments).stdout(Stdio::null()).stderr(stderr).status().unwrap().code()
    };
    assert_eq!(status("cure", full()), Some(2));
    assert_eq!(status("stat -- ./no-such-command", full()), Some(127));
    let written = probe("doctor").stdout(full()).output().unwrap();
    assert_eq!(written.status.code(), Some(2));
    assert!(text(&written.stderr).starts_with("linerate-probe: cannot write to standard output"));
    let exec = ["-c", "exec \"$0\" stat -- true >&-", env!("CARGO_BIN_EXE_linerate-probe")];
    let closed = Command::new("sh").args(exec).output().unwrap();
    assert_eq!(closed.status.code(), Some(125));
    assert!(text(&closed.stderr).starts_with("linerate-probe: cannot write to standard output"));
}
