// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests files that commands read and write. Naming a file twice, or one that cannot be written,
//! must not lose data.

use crate::rig::{Done, EDGE_CAPTURE, Folder, command, linerate};
use linerate_record::Record;
use std::fs;
use std::os::unix::fs::symlink;

/// Creates a directory with a one-stage path that replays a copy of the edge capture.
fn folder() -> Folder {
    let folder = Folder::new();
    fs::copy(EDGE_CAPTURE, folder.file("in.pcapng")).expect("it can be copied");
    folder.write("path.toml", PATH);
    folder
}

const PATH: &str =
    "[source]\nkind = \"capture\"\nfile = \"in.pcapng\"\n[[stage]]\nkind = \"parse\"\n";

/// Returns all files of a directory with their contents.
fn contents(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(folder.file(""))
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).expect("it can be read"))
        })
        .collect();
    all.sort();
    all
}

/// Runs a command that must fail before changing any file.
fn refused(folder: &Folder, arguments: &[&str], why: &str) {
    let before = contents(folder);
    let done = linerate(arguments);
    assert!(matches!(done.status, Some(2 | 125)), "{arguments:?}: {done:?}");
    assert!(done.stdout.is_empty() && done.stderr.contains(why), "{arguments:?}: {done:?}");
    assert_eq!(contents(folder), before, "{arguments:?}");
}

const OVERWRITES: &str = "would overwrite";
const SAME: &str = "name the same file";

#[test]
fn run_and_tune_overwrite_neither_path_nor_capture() {
    let folder = folder();
    let [path, capture, link] = ["path.toml", "in.pcapng", "link"].map(|name| folder.file(name));
    symlink("in.pcapng", &link).expect("a link");
    for output in [&path, &capture, &link] {
        refused(&folder, &["run", "--time", "100ms", "--record", output, &path], OVERWRITES);
        refused(&folder, &["tune", "--time", "100ms", "--record", output, &path], OVERWRITES);
        refused(&folder, &["tune", "--time", "100ms", "--out", output, &path], OVERWRITES);
    }
    let out = folder.file("out");
    refused(&folder, &["tune", "--out", &out, "--record", &out, &path], SAME);
}

#[test]
fn a_sink_overwrites_neither_path_nor_capture() {
    for name in ["in.pcapng", "path.toml"] {
        let folder = folder();
        let file = folder.file(name);
        let sink = format!("[sink]\nkind = \"capture\"\nfile = \"{file}\"\npackets = 10\n");
        let path = folder.write("path.toml", format!("{PATH}{sink}"));
        refused(&folder, &["run", "--time", "100ms", &path], OVERWRITES);
        refused(&folder, &["run", "--check", &path], OVERWRITES);
    }
}

#[test]
fn commands_that_read_records_overwrite_none() {
    let folder = folder();
    let [path, record] = ["path.toml", "record.json"].map(|name| folder.file(name));
    let done = linerate(&["run", "-q", "--time", "200ms", "--record", &record, &path]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let machine = folder.write("machine.toml", "");
    for arguments in [
        &["budget", "--from", &record, "--record", &record][..],
        &["budget", "--machine", &machine, "--record", &machine],
        &["explain", &record, "--record", &record],
        &["explain", &record, "--against", &path, "--record", &path],
        &["import", &record, "--record", &record],
        &["plan", "--from", &record, "--record", &record, &path],
        &["report", &record, "--record", &record],
        &["stat", "--baseline", &record, "--record", &record, "--", "true"],
        &["stat", "--baseline", &record, "-o", &record, "--", "true"],
    ] {
        refused(&folder, arguments, OVERWRITES);
    }
    let new = folder.file("new");
    refused(&folder, &["stat", "--record", &new, "-o", &new, "--", "true"], SAME);
}

/// Asserts that the result was printed to stdout, with an error about the file that could not be
/// written.
fn printed_output_and_errors(done: &Done, file: &str) {
    assert!(!done.stdout.is_empty() && matches!(done.status, Some(2 | 125)), "{done:?}");
    assert!(done.stderr.contains(&format!("cannot write {file}: ")), "{done:?}");
}

#[test]
fn a_result_that_cannot_be_written_is_printed() {
    const FULL: &str = "/dev/full";
    let folder = folder();
    let [path, record] = ["path.toml", "record.json"].map(|name| folder.file(name));
    let done = linerate(&["run", "-q", "--time", "200ms", "--record", &record, &path]);
    assert_eq!(done.status, Some(0), "{done:?}");
    for arguments in [
        &["run", "-q", "--time", "100ms", "--record", FULL, &path][..],
        &["budget", "--clock", "2", "--record", FULL],
        &["explain", &record, "--record", FULL],
        &["report", &record, "--record", FULL],
        &["stat", "-o", "-", "--record", FULL, "--", "true"],
        &["doctor", "--record", FULL],
        &["kernels", "-q", "--quick", "--kernel", "fill", "--size", "64", "--record", FULL],
    ] {
        printed_output_and_errors(&linerate(arguments), FULL);
    }
}

#[test]
fn two_files_that_cannot_be_written_are_both_named() {
    let folder = folder();
    let (plots, plot) = (folder.file("plots"), folder.file("plots/budget.svg"));
    std::fs::create_dir_all(&plot).expect("a folder in the place of the plot");
    let files = ["--svg", &plots, "--record", "/dev/full"];
    let done = linerate(&[&["budget", "--clock", "2"][..], &files].concat());
    printed_output_and_errors(&done, "/dev/full");
    assert!(done.stderr.contains(&format!("cannot write {plot}")), "{done:?}");
}

#[test]
fn plots_take_a_folder() {
    let folder = folder();
    let path = folder.file("path.toml");
    for command in [
        &["kernels", "--quick"][..],
        &["tcp"],
        &["memory", "--quick"],
        &["budget", "--clock", "2"],
        &["plan", &path],
    ] {
        refused(&folder, &[command, &["--svg", &path]].concat(), "--svg takes a directory");
        let file = folder.file("plot.svg");
        refused(&folder, &[command, &["--svg", &file]].concat(), "looks like a file name");
    }
}

#[test]
fn options_that_were_replaced_name_the_new_one() {
    let folder = folder();
    let path = folder.file("path.toml");
    refused(&folder, &["plan", &path, "--plot", "plan.svg"], "--svg DIR writes");
    refused(&folder, &["budget", "--ceilings", "ceilings.svg"], "--svg DIR writes");
}

/// `-` means stdin or stdout wherever a file is expected.
#[test]
fn a_dash_is_standard_input_and_output() {
    let folder = folder();
    let path = folder.file("path.toml");
    let piped = |line: &str| {
        let program = env!("CARGO_BIN_EXE_linerate");
        let done = std::process::Command::new("sh")
            .args(["-c", line, program, &path])
            .current_dir(folder.file(""))
            .env("XDG_STATE_HOME", "/dev/null/state")
            .output()
            .expect("there is a shell");
        assert_eq!(done.status.code(), Some(0), "{line}: {done:?}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    assert!(piped("\"$0\" run --check - < \"$1\"").contains("1 stage, 1 worker"));
    let record = piped("\"$0\" run -q --time 60ms --record - \"$1\"");
    assert!(Record::from_json(&record).is_ok(), "{record}");
    let shown = piped("\"$0\" run -q --time 60ms --record - \"$1\" | \"$0\" report -");
    assert!(shown.contains("parse"), "{shown}");
    let from = "\"$0\" run -q --time 60ms --json \"$1\" | \"$0\" budget --clock 2 --from -";
    assert!(piped(from).contains("packet"));
    let sink = "[sink]\nkind = \"capture\"\nfile = \"-\"\npackets = 3\n[run]\npackets = 9\n";
    folder.write("sink.toml", format!("{PATH}{sink}"));
    assert!(
        piped("\"$0\" run -q sink.toml 2> report | wc -c")
            .trim()
            .parse::<u64>()
            .is_ok_and(|n| n > 24)
    );
    let report = fs::read_to_string(folder.file("report")).expect("the report is on stderr");
    assert!(report.contains("parse"), "{report}");
    let names: Vec<String> = contents(&folder).into_iter().map(|(name, _)| name).collect();
    assert!(!names.iter().any(|name| name == "-"), "{names:?}");
    refused(&folder, &["tune", "--record", "-", "--out", "-", &path], SAME);
}

#[test]
fn tune_with_out_names_the_file_that_it_wrote() {
    let folder = folder();
    let [path, out] = ["path.toml", "better.toml"].map(|name| folder.file(name));
    let mut tune = command(&["tune", "--time", "200ms", "--out", &out, &path]);
    let done = tune.env_remove("LINERATE_DETAILS").output().expect("the program starts");
    let screen = String::from_utf8(done.stdout).expect("the program prints UTF-8");
    assert!(!screen.contains("--out") && !screen.contains("TUNED"), "{screen}");
    // A busy machine, or one where no mapping is faster, has nothing to recommend.
    let is_faster = screen.contains("\nafter  ");
    let advice = format!("\ndo          linerate run {out}  # run the path with this mapping");
    assert_eq!(screen.contains(&advice), is_faster, "{screen}");
}
