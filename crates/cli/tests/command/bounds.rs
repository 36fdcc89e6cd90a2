// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests resource limits: endless files, memory, file sizes, threads. A failure is reported in one
//! sentence and leaves no files behind.

use crate::rig::{Done, Folder, a_share_of_the_processors, answered, command, linerate, refused};
use linerate_record::Body;
use linerate_record::stat::StatTarget;
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// Runs the program from a shell, after a shell command that sets a limit.
fn limited(limit: &str, environment: &[(&str, &str)], arguments: &[&str]) -> Done {
    let _share = a_share_of_the_processors();
    let program = env!("CARGO_BIN_EXE_linerate");
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("{limit} && exec \"$@\""), "sh", program])
        .args(arguments)
        .env("XDG_STATE_HOME", "/dev/null/state")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("there is a shell");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Done { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn files_without_an_end_are_refused_by_their_first_bytes() {
    let folder = Folder::new();
    let path =
        folder.write("path.toml", "[source]\nkind = \"generator\"\n[[stage]]\nkind = \"parse\"\n");
    for endless in ["/dev/zero", "/dev/urandom"] {
        for arguments in [
            &["run", endless][..],
            &["run", "--check", endless],
            &["tune", endless],
            &["tune", "--from", endless],
            &["plan", endless],
            &["plan", &path, "--from", endless],
            &["budget", "--from", endless],
            &["budget", "--machine", endless],
            &["explain", endless],
            &["export", endless, "--format", "csv"],
            &["report", endless],
            &["regions", endless],
            &["import", endless],
        ] {
            let said = refused(arguments);
            assert!(said.contains(endless), "{arguments:?}: {said}");
        }
        let done = linerate(&["stat", "--baseline", endless, "--", "true"]);
        assert_eq!((done.status, done.stdout.as_str()), (Some(125), ""), "{done:?}");
        let text = format!(
            "[source]\nkind = \"capture\"\nfile = \"{endless}\"\n[[stage]]\nkind = \"parse\"\n"
        );
        let said = refused(&["run", "--check", &folder.write("endless.toml", text)]);
        assert!(said.contains(endless), "{said}");
    }
}

#[test]
fn of_many_mistakes_the_first_are_shown() {
    let folder = Folder::new();
    let stages = "[[stage]]\nkind = \"parse\"\n".repeat(10_000);
    let keys: String = (0..10_000).map(|n| format!("key{n} = {n}\n")).collect();
    let syntax = "a = = 1\n".repeat(10_000);
    for text in [format!("[source]\nkind = \"generator\"\n{stages}"), keys, syntax] {
        let said = refused(&["run", "--check", &folder.write("path.toml", text)]);
        assert!(said.lines().count() <= 3 * 20 + 5, "{} lines", said.lines().count());
        assert!(said.contains("more mistakes") || said.contains("the limit is"), "{said}");
    }
}

#[test]
fn memory_that_is_refused_ends_a_command_with_a_sentence() {
    let folder = Folder::new();
    let chase = "[source]\nkind = \"generator\"\n[[stage]]\nkind = \"chase\"\nkib = 1048576\n";
    let chase = folder.write("chase.toml", chase);
    let tight = "ulimit -v 1000000";
    for (limit, arguments) in [
        ("ulimit -v 60000", &["tcp", "-q", "--stack", "smoltcp", "--time", "300ms"][..]),
        (tight, &["run", "-q", "--time", "200ms", &chase]),
        (tight, &["run", "--check", &chase]),
    ] {
        let done = limited(limit, &[], arguments);
        assert_eq!(done.status, Some(2), "{limit} {arguments:?}: {done:?}");
        assert!(done.stderr.starts_with("linerate: "), "{arguments:?}: {}", done.stderr);
        assert!(done.stderr.contains("out of memory"), "{arguments:?}: {}", done.stderr);
    }
}

/// The memory walked to evict the caches fits the limit of 98 MiB, however large the caches are.
#[test]
fn kernels_take_no_more_memory_than_they_may() {
    let arguments = ["kernels", "--quick", "-q", "--kernel", "fill", "--json"];
    let done = limited("ulimit -v 100000", &[], &arguments);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(done.stdout.contains("available memory limits the footprint to "), "{done:?}");
}

#[test]
fn a_limit_of_file_sizes_is_an_error_and_leaves_no_file() {
    let folder = Folder::new();
    let state = folder.file("state");
    fs::create_dir(&state).expect("a folder");
    let record = folder.file("record.json");
    let arguments = ["memory", "-q", "--quick", "--max", "1M", "--record", &record];
    let done = limited("ulimit -f 0", &[("XDG_STATE_HOME", &state)], &arguments);
    assert_eq!(done.status, Some(2), "{done:?}");
    assert!(done.stderr.contains("File too large"), "{}", done.stderr);
    assert!(!fs::exists(&record).expect("the folder can be read"));
    let left = fs::read_dir(format!("{state}/linerate")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "files are left in the state folder");
}

/// Signals that the program handles must not be ignored in commands it starts.
#[test]
fn a_counted_command_still_dies_of_the_limit_of_file_sizes() {
    let folder = Folder::new();
    let script = format!("exec dd if=/dev/zero of={} bs=1M count=1 2>&1", folder.file("out"));
    let done = limited("ulimit -f 1", &[], &["stat", "-q", "--", "sh", "-c", &script]);
    assert_eq!(done.status, Some(128 + 25), "{done:?}");
}

#[test]
fn threads_that_are_refused_end_a_command_with_a_sentence() {
    let unprivileged = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let probe = std::process::Command::new("setpriv").args(unprivileged).arg("true").output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        println!("SKIP: only root and setpriv(1) can become a user whose threads are limited");
        return;
    }
    let program = env!("CARGO_BIN_EXE_linerate");
    for arguments in [
        &["tcp", "-q", "--stack", "smoltcp", "--pattern", "bulk", "--time", "300ms"][..],
        &["doctor", "-q"],
    ] {
        let output = std::process::Command::new("setpriv")
            .args(unprivileged)
            .args(["sh", "-c", "ulimit -u 1 && exec \"$@\"", "sh", program])
            .args(arguments)
            .env("XDG_STATE_HOME", "/dev/null/state")
            .output()
            .expect("setpriv has just run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        let is_told = output.status.code() == Some(0) || !said.is_empty();
        assert!(output.status.code().is_some() && is_told, "{arguments:?}: {output:?}");
    }
}

#[test]
fn json_output_is_json() {
    let folder = Folder::new();
    let path = folder.write("path.toml", crate::rig::edge(&[]));
    for (arguments, key) in [
        (&["run", "--check", "--json", &path][..], Some("packets")),
        (&["tcp", "--list", "--json"], Some("patterns")),
        (&["kernels", "--list", "--json"], Some("variants")),
        (&["stat", "--list", "--json"], Some("events")),
        (&["explain", "--list", "--json"], None),
    ] {
        let json: Value = serde_json::from_str(&answered(0, arguments)).expect("JSON");
        assert!(key.is_none_or(|key| json.get(key).is_some()), "{arguments:?}: {json}");
    }
}

#[test]
fn no_escape_sequence_of_a_name_reaches_the_terminal() {
    let folder = Folder::new();
    let name = folder.file("a\u{1b}[2J\u{202e}b.json");
    let stored = include_str!("../../../record/fixtures/run.json");
    for arguments in [
        &["run", &name][..],
        &["run", "--kernels", "\u{1b}[2J", &folder.write("path.toml", crate::rig::edge(&[]))],
        &["explain", &name],
    ] {
        let said = refused(arguments);
        assert!(!said.contains(['\u{1b}', '\u{202e}']) && said.contains("\\u001b"), "{said:?}");
    }
    let said = refused(&["tune", "--\u{1b}[2J\u{202e}"]);
    assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
    let done = linerate(&["stat", "--tier", "sw", "-o", "-", "--", "true", "\u{1b}[2J"]);
    assert!(done.status == Some(0) && !done.stdout.contains('\u{1b}'), "{done:?}");
    // JSON keeps the original characters, except in the command line, which is for a shell.
    let json = linerate(&["stat", "--json", "-o", "-", "--", "true", "\u{7f}\u{1b}"]).stdout;
    let record = crate::rig::record(&json);
    assert!(record.provenance.command.ends_with(r" $'\177\033'"), "{json}");
    let Body::Stat(report) = record.body else { panic!("{json}") };
    let argv = ["true", "\u{7f}\u{1b}"].map(str::to_owned).to_vec();
    assert_eq!(report.target, StatTarget::Command { argv });
    let blank = folder.write("r e.json", stored);
    let said = answered(0, &["explain", &blank]);
    assert!(said.contains(&format!("linerate explain '{blank}'")), "{said}");
}

#[test]
fn an_option_without_effect_is_refused() {
    let folder = Folder::new();
    let path = folder.write("path.toml", crate::rig::edge(&[]));
    let record = folder.file("record.json");
    for arguments in [
        &["run", "--check", "--record", &record, &path][..],
        &["run", "--check", "--audit", &path],
        &["explain", "--list", "--record", &record],
        &["tcp", "--list", "--stack", "smoltcp"],
        &["kernels", "--list", "--quick"],
        &["export", &record, "--format", "csv", "--machine", "t1"],
    ] {
        refused(arguments);
        assert!(!fs::exists(&record).expect("the folder can be read"), "{arguments:?}");
    }
    for arguments in
        [&["stat", "--list", "--seed", "1"][..], &["stat", "--caches", "os", "--", "true"]]
    {
        let output = command(arguments).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
    }
}
