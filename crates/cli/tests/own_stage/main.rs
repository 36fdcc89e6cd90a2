// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the program with a stage from another crate. The stage is the template of `linerate
//! new-stage`, so this also tests that the template compiles. With [`IS_PROGRAM`] set, this file is
//! that program; otherwise, it tests the program by starting itself.

use linerate_record::{Body, Record};
use std::process::{Command, ExitCode};

#[path = "../../templates/rust/src/lib.rs"]
#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "a crate of its own for users, whose unit tests run in tests/command"
)]
mod ttl;

const PATH: &str = include_str!("../../templates/path.toml.in");

/// Environment variable of the program that the tests start. Arguments cannot serve this purpose,
/// because a test runner may pass some.
const IS_PROGRAM: &str = "LINERATE_TEST_IS_PROGRAM";

fn main() -> ExitCode {
    if std::env::var_os(IS_PROGRAM).is_some() {
        return linerate::main(&[&ttl::EXTENSION]);
    }
    the_stage_is_listed_and_in_the_schema();
    a_path_with_it_runs_and_keeps_its_account();
    errors_name_its_parameters();
    it_is_tuned();
    println!("own stage: ok");
    ExitCode::SUCCESS
}

/// Runs the program. Returns its exit status, stdout and stderr.
fn program(arguments: &[&str]) -> (Option<i32>, String, String) {
    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new(own);
    command.args(arguments).env(IS_PROGRAM, "1").env("XDG_STATE_HOME", "/dev/null/state");
    let output = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("the program prints UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Writes the template's path. Returns its folder, which is removed on drop, and its file name.
fn path(stage: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let file = folder.path().join("ttl.toml");
    std::fs::write(&file, PATH.replace("@STAGE@", stage)).expect("the folder can be written");
    let file = file.to_str().expect("UTF-8 paths").to_owned();
    (folder, file)
}

fn the_stage_is_listed_and_in_the_schema() {
    let (status, text, _) = program(&["stages", "ttl"]);
    assert_eq!(status, Some(0));
    assert!(text.contains("min_ttl = 1 to 255, default 2"), "{text}");
    let (_, schema, _) = program(&["schema", "path"]);
    assert!(schema.contains("\"min_ttl\""));
}

fn a_path_with_it_runs_and_keeps_its_account() {
    let (_folder, path) = path("kind = \"ttl\"");
    let (status, json, stderr) =
        program(&["run", &path, "--time", "100ms", "--audit", "--oversubscribe", "--json"]);
    assert_eq!(status, Some(0), "{stderr}");
    let Body::Run(report) = Record::from_json(&json).expect("a record").body else {
        panic!("a record of run")
    };
    let stages = report.workers.iter().flat_map(|worker| &worker.stages);
    let ttl = stages.into_iter().find(|stage| stage.name == "ttl").expect("it ran");
    assert!(ttl.packets > 0 && ttl.ledger.input == ttl.ledger.output, "{ttl:?}");
    assert_eq!(ttl.counts["forwarded"], ttl.packets);
}

fn errors_name_its_parameters() {
    let (_folder, path) = path("kind = \"ttl\"\nmin = 3");
    let (status, stdout, stderr) = program(&["run", &path]);
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("unknown key 'min'") && stderr.contains("min_ttl"), "{stderr}");
}

fn it_is_tuned() {
    let (_folder, path) = path("kind = \"ttl\"");
    let (status, json, stderr) = program(&["tune", &path, "--time", "100ms", "--json"]);
    if status == Some(2) && stderr.contains("linerate: cannot tell") {
        println!("SKIP: the machine is too busy to tune: {}", stderr.trim());
        return;
    }
    assert_eq!(status, Some(0), "{stderr}");
    assert!(matches!(Record::from_json(&json).expect("a record").body, Body::Tune(_)));
}
