// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests where results go: open files, pipes that close, files that cannot be replaced, and formats
//! that a record lacks.

use crate::rig::{Done, Folder, a_share_of_the_processors, command, linerate, record, refused};
use crate::why::{Started, has};
use linerate_record::{Body, fixtures};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, chown};
use std::process::{Command, Stdio};

/// Returns a directory with the stored record of a kind, `KIND.json`.
fn folder(kind: &str) -> Folder {
    let folder = Folder::new();
    let stored = fixtures::ALL.iter().find(|(name, _)| *name == kind).expect("it is stored").1;
    folder.write(&format!("{kind}.json"), stored);
    folder
}

/// Runs a shell script in the directory, with the program as `$0`.
fn shell(program: &str, folder: &Folder, line: &str) -> Done {
    let _share = a_share_of_the_processors();
    let linerate = command(&[]);
    let output = Command::new(program)
        .args(["-c", line])
        .arg(linerate.get_program())
        .current_dir(folder.file(""))
        .env("XDG_STATE_HOME", "/dev/null/state")
        .stdin(Stdio::null())
        .output()
        .expect("the shell starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Done { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn contents(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.file(name)).expect("it is there")
}

/// Asserts that the rest of a text, from its first brace on, is the record of a run.
#[track_caller]
fn assert_ends_with_a_run(text: &str) {
    let (_, json) = text.split_once('{').unwrap_or_else(|| panic!("no record: {text}"));
    assert!(matches!(record(&format!("{{{json}")).body, Body::Run(_)));
}

#[test]
fn open_files_are_appended_to_and_never_replaced() {
    let folder = folder("run");
    for (line, log) in [
        ("\"$0\" report -q run.json --record /dev/stdout >> log1", "log1"),
        ("\"$0\" report -q run.json --record /proc/self/fd/1 >> log2", "log2"),
        ("\"$0\" report -q run.json --record /dev/fd/3 > text 3>> log3", "log3"),
    ] {
        folder.write(log, "an old line\n");
        let inode = fs::metadata(folder.file(log)).expect("it is there").ino();
        let done = shell("sh", &folder, line);
        assert_eq!(done.status, Some(0), "{line}: {done:?}");
        let text = contents(&folder, log);
        assert!(text.starts_with("an old line\n"), "{line}: {text}");
        assert_ends_with_a_run(&text);
        assert_eq!(fs::metadata(folder.file(log)).expect("it is there").ino(), inode, "{line}");
    }
    folder.write("log", "an old line\n");
    let line = "{ \"$0\" stat -o /dev/stderr -- sh -c 'echo own >&2'; echo later >&2; } 2>> log";
    let done = shell("sh", &folder, line);
    assert_eq!(done.status, Some(0), "{done:?}");
    let text = contents(&folder, "log");
    assert!(text.starts_with("an old line\nown\n"), "{text}");
    assert!(text.contains("task_clock") && text.ends_with("\nlater\n"), "{text}");
    // Without O_APPEND, all writers share the position in the file.
    let line = "{ \"$0\" report -q run.json --record /dev/stdout; echo later; } > shared";
    assert_eq!(shell("sh", &folder, line).status, Some(0));
    let text = contents(&folder, "shared");
    assert_ends_with_a_run(text.strip_suffix("later\n").expect("the last line"));
}

#[test]
fn a_record_goes_through_a_pipe_by_any_name() {
    let folder = folder("run");
    let line = "\"$0\" report -q run.json --record /dev/stdout | cat";
    let done = shell("sh", &folder, line);
    assert_eq!((done.status, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    assert_ends_with_a_run(&done.stdout);
    if !has("bash") {
        return println!("SKIP: no bash here");
    }
    let line = "\"$0\" report -q run.json --record >(cat > copy) > text && wait $!";
    let done = shell("bash", &folder, line);
    assert_eq!((done.status, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    assert_ends_with_a_run(&contents(&folder, "copy"));
}

/// A mount point can be written, but not replaced.
#[test]
fn a_file_that_is_a_mount_point_is_written() {
    let folder = folder("run");
    folder.write("mounted", "an old record, which is longer than nothing");
    let mount = "mount --bind mounted mounted";
    let tried = Command::new("unshare")
        .args(["-rm", "sh", "-c", mount])
        .current_dir(folder.file(""))
        .stderr(Stdio::null())
        .status();
    if !tried.is_ok_and(|status| status.success()) {
        return println!("SKIP: mounts are not allowed here");
    }
    let line = format!(
        "exec unshare -rm sh -c '{mount} && exec \"$0\" report -q run.json --record mounted' \"$0\""
    );
    let done = shell("sh", &folder, &line);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(matches!(record(&contents(&folder, "mounted")).body, Body::Run(_)));
    let names = fs::read_dir(folder.file("")).expect("a folder").count();
    assert_eq!(names, 2, "no temporary file is left");
}

#[test]
fn a_file_keeps_its_owner() {
    const OTHER: u32 = 12_345;
    let folder = folder("run");
    let file = folder.write("mine.json", "old");
    if chown(&file, Some(OTHER), Some(OTHER)).is_err() {
        return println!("SKIP: only root may give files away");
    }
    let done = linerate(&["report", "-q", &folder.file("run.json"), "--record", &file]);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(matches!(record(&contents(&folder, "mine.json")).body, Body::Run(_)));
    let found = fs::metadata(&file).expect("it is there");
    assert_eq!((found.uid(), found.gid()), (OTHER, OTHER));
}

#[test]
fn windows_end_with_their_reader() {
    let _share = a_share_of_the_processors();
    let watched = Started::new("sleep", &["600"]);
    let linerate = command(&[]);
    // A program that does not end would have status 124.
    let mut child = Command::new("timeout")
        .arg("60")
        .arg(linerate.get_program())
        .args(["why", "-q", "-t", "200ms", "--every", "200ms", &watched.pid()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert!(lines.next().is_some_and(|line| line.is_ok()), "a window has a line");
    drop(lines);
    assert_eq!(child.wait().expect("it is a child").code(), Some(0));
}

#[test]
fn a_file_gets_every_window() {
    let folder = Folder::new();
    let file = folder.write("windows", "an old file, which is replaced");
    let watched = Started::new("sleep", &["4"]);
    let pid = watched.pid();
    let done =
        linerate(&["why", "-q", "--json", "-t", "200ms", "--every", "400ms", "-o", &file, &pid]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let text = contents(&folder, "windows");
    assert!(text.lines().count() >= 2, "{text}");
    for line in text.lines() {
        assert!(matches!(record(line).body, Body::Why(_)));
    }
}

/// A wrong format must not cost a measurement, nor the record of one.
#[test]
fn a_format_that_the_record_lacks_is_refused_before_the_command_runs() {
    let folder = Folder::new();
    let (ran, kept) = (folder.file("ran"), folder.file("kept.json"));
    for (status, arguments) in [
        (125, &["stat", "--format", "icicle"][..]),
        (2, &["profile", "--format", "rpistat"]),
        (2, &["why", "--format", "annotated"]),
    ] {
        let rest = ["--record", &kept, "--", "touch", &ran];
        let done = linerate(&[arguments, &rest].concat());
        assert_eq!((done.status, done.stdout.as_str()), (Some(status), ""), "{done:?}");
        assert!(done.stderr.contains(" needs a `linerate "), "{done:?}");
        assert!(!fs::exists(&ran).expect("a folder") && !fs::exists(&kept).expect("a folder"));
    }
    assert!(refused(&["doctor", "--format", "timeline"]).contains("linerate profile"));
}

/// A default for all commands must not fail those whose records lack the format.
#[test]
fn a_default_format_that_the_record_lacks_is_text() {
    let folder = folder("run");
    let with_default = |form: &str, arguments: &[&str]| {
        let _share = a_share_of_the_processors();
        let mut command = command(arguments);
        let output = command.env("LINERATE_FORMAT", form).output().expect("the program starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (status, text) = with_default("icicle", &["stat", "-o", "-", "--", "sh", "-c", "exit 3"]);
    assert_eq!(status, Some(3), "{text}");
    assert!(text.contains("task_clock"), "{text}");
    let run = folder.file("run.json");
    let (status, text) = with_default("rpistat", &["report", &run]);
    assert_eq!((status, text), (Some(0), linerate(&["report", &run]).stdout));
}

#[test]
fn a_record_on_stdout_replaces_the_report() {
    let folder = folder("run");
    let of = |arguments: &[&str]| {
        let done = linerate(arguments);
        assert_eq!(done.status, Some(0), "{done:?}");
        record(&done.stdout).body
    };
    let run = folder.file("run.json");
    assert!(matches!(of(&["report", &run, "--record", "-"]), Body::Run(_)));
    let watched = Started::new("sleep", &["600"]);
    let pid = watched.pid();
    let time = ["-q", "--time", "200ms", "--record", "-"];
    let counted = [&["stat", "--pid", &pid][..], &time].concat();
    assert!(matches!(of(&counted), Body::Stat(_)));
    let observed = [&["why", &pid][..], &time].concat();
    assert!(matches!(of(&observed), Body::Why(_)));
    let sampled = ["profile", "-o", "-", "-q", "-t", "300ms", "--record", "-"];
    let sampled = [&sampled[..], &["--", "sh", "-c", "while :; do :; done"]].concat();
    assert!(matches!(of(&sampled), Body::Profile(_)));
}

#[test]
fn a_format_that_would_be_ignored_is_refused() {
    let folder = Folder::new();
    let path = folder.write("path.toml", crate::rig::edge(&[]));
    for arguments in [
        &["kernels", "--list"][..],
        &["tcp", "--list"],
        &["explain", "--list"],
        &["run", "--check", &path],
        &["why", "--every", "1s", "1"],
    ] {
        let said = refused(&[arguments, &["--format", "csv"]].concat());
        assert!(said.contains(arguments[1]) && said.contains("drop --format"), "{said}");
    }
    let done = linerate(&["stat", "--list", "--format", "csv"]);
    assert_eq!((done.status, done.stdout.as_str()), (Some(125), ""), "{done:?}");
    let json = linerate(&["stat", "--list", "--format", "json"]);
    assert!(json.status == Some(0) && json.stdout.starts_with('{'), "{json:?}");
}

#[test]
fn stdin_is_read_for_one_input() {
    for arguments in [&["diff", "-", "-"][..], &["explain", "-", "--against", "-"]] {
        let said = refused(arguments);
        assert!(said.contains("are both `-`"), "{said}");
    }
}

#[test]
fn stat_fails_with_its_own_status_behind_other_options() {
    for (status, arguments) in [
        (125, &["stat", "--bogus"][..]),
        (125, &["--color=never", "stat", "--bogus"]),
        (125, &["--color", "never", "stat", "--bogus"]),
        (2, &["--color=never", "run", "--bogus"]),
        (2, &["--color", "never", "--bogus"]),
    ] {
        assert_eq!(linerate(arguments).status, Some(status), "{arguments:?}");
    }
}

/// Some shells set COLUMNS to 0 where they do not know the width.
#[test]
fn zero_columns_are_those_of_the_terminal() {
    if !has("script") {
        return println!("SKIP: no script(1) here");
    }
    let folder = folder("run");
    let report = |columns: &str| {
        let size = "stty cols 60 rows 24";
        let line = format!("{size}; COLUMNS={columns} '$0' report -q run.json");
        let done = shell("sh", &folder, &format!("script -qec \"{line}\" /dev/null"));
        assert_eq!(done.status, Some(0), "{done:?}");
        done.stdout
    };
    assert_eq!(report("0"), report("60"));
    assert_ne!(report("0"), report("100"));
}
