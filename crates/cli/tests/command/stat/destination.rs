// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests where the `stat` report goes: stdout, stderr or a file.

use super::*;

#[test]
fn the_report_goes_to_the_requested_destination() {
    let folder = Folder::new();
    let (kept, printed) = (folder.file("record.json"), folder.file("printed.json"));
    let done = stat(&["--record", &kept, "--json", "-o", &printed, "--", "echo", "hello"]);
    assert_eq!((done.status, done.stdout.as_str()), (Some(0), "hello\n"), "{done:?}");
    let read = |file: &str| std::fs::read_to_string(file).expect("it is written");
    assert_eq!(read(&kept), read(&printed));
    let text = answered(0, &["--record", &kept, "--", "true"]);
    assert!(text.starts_with("counted     `true`\n"), "{text}");
    record(&read(&kept));
    for option in ["--record", "-o", "--baseline"] {
        let marker = folder.file("ran");
        let nowhere = folder.file("missing/file");
        let said = refused(&[option, &nowhere, "--", "touch", &marker]);
        assert!(said.contains(&nowhere), "{said}");
        assert!(!std::path::Path::new(&marker).exists(), "nothing runs");
    }
}

#[test]
fn stdout_is_the_command_s_alone() {
    let done = stat(&["-q", "--", "echo", "hello"]);
    assert_eq!((done.status, done.stdout.as_str()), (Some(0), "hello\n"), "{done:?}");
    assert!(done.stderr.starts_with("counted     `echo hello`\n"), "{done:?}");
    // The JSON contains the warnings, so none are printed before or after it.
    let done = stat(&["--json", "-e", "task_clock_ns,cycles", "--", "echo", "hello"]);
    assert_eq!((done.status, done.stdout.as_str()), (Some(0), "hello\n"), "{done:?}");
    assert_whole(&record(&done.stderr), &done.stderr);
}

/// Without a command, stdout is free.
#[test]
fn what_runs_no_command_prints_to_stdout() {
    let own = std::process::id().to_string();
    for arguments in [&["-q", "--time", "10ms", "--pid", &own][..], &["-q", "--list"]] {
        let done = stat(arguments);
        assert_eq!((done.status, done.stderr.as_str()), (Some(0), ""), "{done:?}");
        assert!(done.stdout.contains("task_clock_ns"), "{done:?}");
    }
}

#[test]
fn a_process_without_any_countable_event_is_a_failure() {
    let mut ended = Command::new("true").spawn().expect("true starts");
    let pid = ended.id().to_string();
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    while !state().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let done = stat(&["-q", "--pid", &pid, "--time", "50ms"]);
    ended.wait().expect("it has ended");
    assert_eq!(done.status, Some(125), "{done:?}");
    assert!(done.stderr.starts_with("linerate: nothing could be counted: "), "{done:?}");
}

#[test]
fn a_full_disk_is_a_failure_of_stat() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let _share = a_share_of_the_processors();
    let output = command(&["stat", "-o", "-", "--", "true"]).stdout(full).output();
    let output = output.expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("cannot write the result"), "{said}");
}
