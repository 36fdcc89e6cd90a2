// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `linerate new-stage`: the templates, the C stage in a path, and invalid stages.
//! The program with the template in Rust is in tests/own_stage; `cargo xtask ci` builds it as a
//! user does.

use crate::rig::{
    Done, Folder, answered, command, linerate, record, refused, report, split_path, tuned,
};
use linerate_record::Body;
use linerate_record::run::{RunReport, StageReport};
use std::path::Path;
use std::process::{Command, Output};

#[path = "../../templates/rust/src/lib.rs"]
#[allow(unreachable_pub, reason = "a crate of its own for users")]
mod ttl;

/// A C stage that misbehaves as specified by its parameter `act`.
const ROGUE: &str = include_str!("../../../plugin/tests/stages/rogue.c");

fn made(folder: &Folder, arguments: &[&str]) -> Output {
    let mut command = command(&[&["new-stage"], arguments].concat());
    command.current_dir(folder.file("")).output().expect("the program starts")
}

fn make(folder: &str, arguments: &[&str]) {
    let done = Command::new("make").arg("-C").arg(folder).args(arguments).output();
    let done = done.expect("make is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let warnings = String::from_utf8_lossy(&done.stderr);
    assert!(!warnings.contains("warning"), "{warnings}");
}

/// Compiles a stage in C; returns the object's path.
fn compile(folder: &Folder, source: &str, flags: &[&str]) -> String {
    let object = folder.file("libstage.so");
    let source = folder.write("stage.c", source);
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../plugin/include");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-fPIC", "-shared", include, "-o", &object, &source]).args(flags);
    let done = cc.output().expect("a C compiler is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    object
}

/// Returns the file of a path with three stages: `parse`, the stage in `libstage.so`, and `count`.
fn with_stage(folder: &Folder, parameters: &str, run: &str) -> String {
    let stage = format!("[[stage]]\nkind = \"plugin\"\nfile = \"./libstage.so\"\n{parameters}\n");
    let text = format!(
        "[source]\nkind = \"generator\"\n[[stage]]\nkind = \"parse\"\n{stage}[[stage]]\nkind = \
         \"count\"\n[run]\n{run}\n"
    );
    folder.write("path.toml", text)
}

fn stage<'r>(report: &'r RunReport, name: &str) -> &'r StageReport {
    let mut stages = report.workers.iter().flat_map(|worker| &worker.stages);
    stages.find(|stage| stage.name == name).expect("it ran")
}

#[test]
fn a_kind_of_the_template_is_a_valid_extension() {
    assert!(ttl::EXTENSION.stage("ttl").is_some());
}

#[test]
fn the_template_in_c_is_built_checked_run_and_tuned() {
    let folder = Folder::new();
    let done = made(&folder, &["--lang", "c", "my-stage"]);
    assert!(done.status.success(), "{done:?}");
    let inside = folder.file("my-stage");
    make(&inside, &["CFLAGS=-O2 -Werror -pedantic"]);
    make(&inside, &["check"]);
    let path = format!("{inside}/my-stage.toml");
    let listed = answered(0, &["stages", &format!("{inside}/libmy_stage.so")]);
    assert!(listed.contains("min_ttl = 1 to 255, default 2"), "{listed}");
    let run = report(&["run", &path, "--time", "100ms", "--audit", "--json"]);
    let stage = stage(&run, "my-stage");
    assert!(stage.packets > 0 && stage.ledger.input == stage.ledger.output, "{stage:?}");
    assert_eq!(stage.counts["forwarded"], stage.packets);
    let out = folder.file("better.toml");
    if tuned(&[&path, "--time", "100ms"], Some(&out)).is_some() {
        // The shared object is found from another folder, too.
        report(&["run", &out, "--time", "50ms", "--oversubscribe", "--json"]);
    }
    let again = made(&folder, &["--lang", "c", "my-stage"]);
    assert_eq!(again.status.code(), Some(2), "an existing folder is left alone");
}

#[test]
fn the_template_in_rust_names_its_dependencies() {
    let folder = Folder::new();
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let done = made(&folder, &["my-stage", "--linerate", checkout]);
    assert!(done.status.success(), "{done:?}");
    let manifest = std::fs::read_to_string(folder.file("my-stage/Cargo.toml")).expect("written");
    assert!(manifest.contains("crates/stage-api\" }"), "{manifest}");
    let done = made(&folder, &["other", "--linerate", "https://example.org/linerate"]);
    assert!(done.status.success(), "{done:?}");
    let manifest = std::fs::read_to_string(folder.file("other/Cargo.toml")).expect("written");
    assert!(manifest.contains("git = \"https://example.org/linerate\""), "{manifest}");
    for (arguments, expected) in [
        (["x", "--linerate", "/none"], "neither a linerate checkout"),
        (["X", "--linerate", checkout], "invalid name 'X'"),
    ] {
        let done = made(&folder, &arguments);
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn drops_consumption_and_changed_lengths_are_accounted_for() {
    let folder = Folder::new();
    compile(&folder, ROGUE, &[]);
    for act in ["drop", "consume", "grow", "shrink", "both"] {
        let path = with_stage(&folder, &format!("act = \"{act}\""), "packets = 1000");
        let run = report(&["run", &path, "--audit", "--json"]);
        let stage = stage(&run, "rogue");
        assert_eq!(stage.packets, 1000, "{act}");
        let dropped: u64 = stage.drops.values().sum();
        let expected = [("drop", 500, 500), ("consume", 500, 0)];
        let (left, drops) = expected
            .iter()
            .find(|(name, ..)| *name == act)
            .map_or((1000, 0), |&(_, left, drops)| (left, drops));
        assert_eq!((stage.ledger.output.packets, dropped), (left, drops), "{act}: {stage:?}");
    }
}

#[test]
fn a_crash_and_nonsense_are_named_by_stage_and_packet() {
    let folder = Folder::new();
    compile(&folder, ROGUE, &[]);
    let cases = [
        ("segv", "crashed", "SIGSEGV at address 0x10"),
        ("abort", "crashed", "SIGABRT"),
        ("divide", "crashed", "SIG"),
        ("verdict", "failed", "invalid verdict 7"),
        ("cause", "failed", "drop cause 5 is out of range; causes declared by the stage: 1"),
        ("length", "failed", "a frame of 65535 bytes"),
        ("offsets", "failed", "header offsets"),
    ];
    for (act, verb, expected) in cases {
        let path = with_stage(&folder, &format!("act = \"{act}\"\nfrom = 100"), "packets = 1000");
        let Done { status, stdout, stderr } =
            linerate(&["run", &path, "--audit", "--json", "--quiet"]);
        assert_eq!(status, Some(2), "{act}: {stderr}");
        let named = format!("tage `rogue` on worker 0.0 {verb} at packet 100: ");
        assert!(stderr.contains(&named), "{act}: {stderr}");
        assert!(stderr.contains(expected), "{act}: {stderr}");
        let Body::Run(run) = record(&stdout).body else { panic!("{act}: {stdout}") };
        assert!(stage(&run, "rogue").packets > 100, "{act}: what was measured is printed");
        let details = linerate(&["run", &path, "--audit"]).stdout;
        assert!(details.starts_with(&format!("failed      s{named}")), "{act}: {details}");
        let screen = command(&["run", &path, "--audit"]).env("LINERATE_DETAILS", "0").output();
        let screen = screen.expect("the program starts");
        let [shown, warned] = [screen.stdout, screen.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(shown.starts_with(&format!("S{named}")), "{act}: {shown}");
        assert!(!(shown + &warned).contains("run longer"), "{act}: {warned}");
    }
}

#[test]
fn objects_that_are_no_stages_are_refused() {
    let folder = Folder::new();
    let missing = refused(&["run", &with_stage(&folder, "", "packets = 10")]);
    assert!(missing.contains("path.toml:") && missing.contains("No such file"), "{missing}");
    assert!(missing.contains("file = \"./libstage.so\""), "{missing}");
    folder.write("libstage.so", "no object");
    let text = refused(&["run", &with_stage(&folder, "", "packets = 10")]);
    assert!(text.contains("as a shared object"), "{text}");
    let sources = [
        ("int other;", "does not define `linerate_stage`"),
        ("const unsigned linerate_stage[64] = {2};", "was built for version 2"),
        ("const unsigned linerate_stage[64] = {1};", "`name` is NULL"),
    ];
    for (source, expected) in sources {
        // Use a new file each time, because a loaded object is not loaded again.
        let folder = Folder::new();
        compile(&folder, source, &[]);
        let stderr = refused(&["run", &with_stage(&folder, "", "packets = 10")]);
        assert!(stderr.contains(expected), "{stderr}");
        let listed = refused(&["stages", &folder.file("libstage.so")]);
        assert!(listed.contains(expected), "{listed}");
    }
}

#[test]
fn parameters_of_an_object_are_checked_like_others() {
    let folder = Folder::new();
    compile(&folder, ROGUE, &[]);
    let cases = [
        ("act = \"pass\"\nfrm = 1", "did you mean 'from'?"),
        ("act = \"pass\"\nfrom = -1", "'from'"),
        ("act = 1", "'act'"),
        ("", "'act' is missing"),
        ("act = \"unheard\"", "its `init` returned 1: unknown act unheard"),
        ("act = \"init\"", "its `init` crashed: SIGSEGV"),
    ];
    for (parameters, expected) in cases {
        let stderr = refused(&["run", &with_stage(&folder, parameters, "packets = 10")]);
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    }
    let path = folder.write("none.toml", split_path(&["plugin"], "packets = 1"));
    assert!(refused(&["run", &path]).contains("'file' is missing"));
    assert!(Path::new(&path).exists());
}
