// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `linerate memory`: contents of its record on any machine, rejected options, behaviour with
//! little memory, and use of its profile by other commands. No test asserts a time.

use crate::rig::{Done, Folder, a_share_of_the_processors, answered, command, edge, linerate};
use crate::rig::{record, refused};
use crate::validator::Validator;
use linerate_record::doctor::{Observation, Verdict};
use linerate_record::memory::{
    Effort, MemoryReport, OsVerdict, PageKind, PagesVerdict, Unresolved,
};
use linerate_record::{Body, Figure, Record, Tier};
use serde_json::Value;
use std::process::Command;
use std::sync::OnceLock;

/// A command that uses little memory, runs briefly and does not store a profile.
const SMALL: [&str; 5] = ["memory", "--quick", "--max", "8M", "--no-store"];

fn report(record: &Record) -> &MemoryReport {
    match &record.body {
        Body::Memory(report) => report,
        _ => panic!("a record of memory"),
    }
}

fn parsed(json: &str) -> MemoryReport {
    report(&record(json)).clone()
}

/// Returns a measurement that several tests share.
fn small() -> &'static str {
    static JSON: OnceLock<String> = OnceLock::new();
    JSON.get_or_init(|| answered(0, &[&SMALL[..], &["--json"]].concat()))
}

#[test]
fn the_record_is_valid_and_has_all_values_for_scripts() {
    let json: Value = serde_json::from_str(small()).expect("JSON");
    assert_eq!(Validator::new(&linerate_record::schema_json()).verdict(&json), Ok(()));
    assert_eq!(json["kind"], "memory");
    let summary = &json["summary"];
    let levels = summary["levels"].as_array().expect("levels");
    assert!(!levels.is_empty(), "{summary}");
    for level in levels {
        for field in ["name", "size_bytes", "size_low", "size_high", "low", "high"] {
            assert!(level.get(field).is_some(), "{field}: {level}");
        }
        assert!(level["latency_ns"].as_f64().is_some_and(|ns| ns > 0.0), "{level}");
        assert!(level.get("latency_cycles").is_some(), "{level}");
    }
    assert!(summary["tlb"].is_array() && summary["pages"].is_object(), "{summary}");
    assert!(summary["noise"].is_object() && summary["timer"]["source"].is_string(), "{summary}");
    for view in summary["os_view"].as_array().expect("views") {
        assert!(view["verdict"].is_string(), "{view}");
    }
}

#[test]
fn figures_that_are_there_have_intervals_that_hold_them() {
    let report = parsed(small());
    let conditions = &report.conditions;
    assert_eq!((conditions.effort, conditions.interrupted), (Effort::Quick, false));
    assert!(conditions.max_bytes <= 8 << 20 && !conditions.max_reason.is_empty(), "{conditions:?}");
    assert!(conditions.windows >= conditions.windows_dropped && conditions.elapsed_s > 0.0);
    for level in &report.levels {
        for figure in [&level.size_bytes, &level.latency_ns, &level.latency_cycles] {
            holds(figure);
        }
    }
    let ns: Vec<f64> = report.levels.iter().filter_map(|t| t.latency_ns.as_number()).collect();
    assert!(ns.windows(2).all(|pair| pair[0] < pair[1]), "latencies do not increase: {ns:?}");
    for curve in &report.curves {
        assert!(curve.points.windows(2).all(|pair| pair[0].bytes < pair[1].bytes));
        for point in &curve.points {
            assert!(point.bytes <= 8 << 20, "{point:?}");
            assert!(point.bytes == point.lines * conditions.line_bytes, "{point:?}");
        }
    }
    for histogram in &report.histograms {
        let sum: u64 = histogram.bins.iter().map(|bin| bin.count).sum();
        assert_eq!(sum, histogram.samples);
    }
}

#[track_caller]
fn holds(figure: &Figure) {
    match figure.as_number() {
        Some(value) => {
            assert!(figure.low.is_none_or(|low| low <= value), "{figure:?}");
            assert!(figure.high.is_none_or(|high| value <= high), "{figure:?}");
        }
        None => assert!(figure.reason.is_some(), "{figure:?}"),
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_what_can() {
    for (arguments, words) in [
        (&["--max", "-5"][..], "`-5` does not begin with a number"),
        (&["--max", "1e9"], "unknown unit"),
        (&["--max", "64MB"], "decimal units are not supported"),
        (&["--max", "16777216T"], "out of range"),
        (&["--max", "0"], "not enough memory"),
        (&["--max", "1"], "1 is not enough memory"),
        (&["--max", "262143"], "the minimum is 256 KiB (262144 bytes)"),
        (&["--max", "4K"], "not enough memory"),
        (&["--cpu", "99999"], "not available to this process"),
        (&["--cpu", "-1"], "invalid CPU number '-1'"),
        (&["--pages", "giant"], "expected base or huge"),
        (&["--quick", "--full"], "cannot be used with"),
        (&["--record", "/nowhere/at/all.json"], "cannot write"),
        (&["--svg", "/dev/null/plots"], "cannot create the directory"),
        (&["surplus"], "surplus"),
    ] {
        let said = refused(&[&["memory", "--no-store"], arguments].concat());
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

/// A limit beyond the machine's memory causes neither swapping nor an error.
#[test]
fn requests_are_limited_to_the_machine() {
    let largest = u64::MAX.to_string();
    let json = answered(0, &["memory", "--quick", "--max", &largest, "--no-store", "--json"]);
    let conditions = parsed(&json).conditions;
    assert!(conditions.max_bytes < 1 << 44, "{conditions:?}");
    assert!(!conditions.max_reason.is_empty(), "{conditions:?}");
}

/// Runs `linerate` through another program that restricts it.
fn through(program: &str, arguments: &[&str], of_memory: &[&str]) -> std::process::Output {
    let memory = command(of_memory);
    let envs = memory.get_envs().filter_map(|(name, value)| Some((name, value?)));
    Command::new(program)
        .args(arguments)
        .arg(memory.get_program())
        .args(memory.get_args())
        .envs(envs)
        .output()
        .expect("it starts")
}

#[test]
fn respects_the_address_space_limit() {
    let limited = ["-c", "ulimit -v 300000 && exec \"$@\"", "sh"];
    let of_memory = ["memory", "--quick", "--no-store", "--json"];
    let done = through("sh", &limited, &of_memory);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    let conditions = parsed(&String::from_utf8_lossy(&done.stdout)).conditions;
    assert!(conditions.max_bytes < 300_000 << 10, "{conditions:?}");
}

#[test]
fn one_processor_is_enough() {
    let cpu = crate::rig::a_processor();
    let of_memory = [&SMALL[..], &["--json"]].concat();
    if Command::new("taskset").arg("--version").output().is_err() {
        println!("SKIP: there is no taskset(1)");
        return;
    }
    let done = through("taskset", &["-c", &cpu], &of_memory);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    let report = parsed(&String::from_utf8_lossy(&done.stdout));
    assert_eq!(report.conditions.cpu.to_string(), cpu);
    assert!(report.bandwidth.iter().all(|row| row.threads == 1), "{:?}", report.bandwidth);
    assert!(report.loaded.iter().all(|row| row.threads == 0), "{:?}", report.loaded);
}

/// Base pages are used on request, and so are huge pages if the system grants them. Otherwise, the
/// report explains why not.
#[test]
fn requested_pages_are_used_or_refused_with_a_reason() {
    let of =
        |pages: &str| parsed(&answered(0, &[&SMALL[..], &["--json", "--pages", pages]].concat()));
    assert_eq!(of("base").pages.used, PageKind::Base);
    let pages = of("huge").pages;
    let is_given = !matches!(pages.verdict, PagesVerdict::NotOffered | PagesVerdict::NotGranted);
    assert!(pages.used == PageKind::Huge || !is_given, "{pages:?}");
    assert!(!pages.sentence.is_empty());
}

#[test]
fn people_get_a_report_and_a_plot() {
    let folder = Folder::new();
    let (plots, kept) = (folder.file("plots"), folder.file("memory.json"));
    let files = ["--svg", &plots, "--record", &kept];
    let done = linerate(&[&SMALL[..], &files].concat());
    assert_eq!(done.status, Some(0), "{done:?}");
    let report = parsed(&std::fs::read_to_string(&kept).expect("a record"));
    for level in &report.levels {
        assert!(done.stdout.contains(&level.name), "{}: {}", level.name, done.stdout);
    }
    let svg = std::fs::read_to_string(format!("{plots}/memory.svg")).expect("a plot");
    assert!(svg.starts_with("<svg") || svg.starts_with("<?xml"), "{svg}");
    let all = answered(0, &[&SMALL[..], &["--all", "-q"]].concat());
    assert!(all.lines().count() > done.stdout.lines().count(), "{all}");
}

/// The tables of `linerate memory` cannot be split, so a width below 80 columns is treated as 80.
#[test]
fn lines_have_the_requested_width_for_memory() {
    for (columns, wanted) in [("60", 80), ("90", 90)] {
        let mut memory = command(&[&SMALL[..], &["--all", "-q"]].concat());
        let done = memory.env("COLUMNS", columns).output().expect("the program starts");
        let text = String::from_utf8(done.stdout).expect("UTF-8");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| (70..=wanted).contains(&widest)), "{text}");
    }
}

/// A directory for a command's state, that is, its stored profile.
struct Home(Folder);

impl Home {
    fn run(&self, arguments: &[&str]) -> Done {
        let mut command = command(arguments);
        let output = command.env("XDG_STATE_HOME", self.0.file("state")).output();
        let output = output.expect("the program starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Done { status: output.status.code(), stdout, stderr }
    }

    /// Returns the file with the stored profile, if there is one.
    fn profile(&self) -> Option<std::path::PathBuf> {
        let files = std::fs::read_dir(self.0.file("state/linerate")).ok()?;
        let files: Vec<_> = files.map(|entry| entry.expect("a file").path()).collect();
        assert!(files.len() <= 1, "one machine, one file: {files:?}");
        files.into_iter().next()
    }

    /// Returns the file in which this machine's profile would be stored.
    fn place(&self) -> String {
        let sentence = self.reported().sentence;
        let place = sentence
            .split_once("(the profile would be stored in ")
            .and_then(|(_, rest)| rest.split_once("):"));
        place.expect("there is none yet").0.to_owned()
    }

    /// Returns the observation of `doctor` about the profile.
    fn reported(&self) -> Observation {
        let record = record(&self.run(&["doctor", "--json"]).stdout);
        let Body::Doctor(report) = record.body else { panic!("a record of doctor") };
        report.observations.into_iter().find(|o| o.name == "memory_profile").expect("it is there")
    }

    /// Returns a home with this machine's profile after applying `change`, suitable or not.
    fn with_profile(change: impl Fn(&mut MemoryReport)) -> Self {
        let home = Self(Folder::new());
        let mut profile = record(small());
        let Body::Memory(report) = &mut profile.body else { panic!("a record of memory") };
        change(report);
        let json = profile.to_json_pretty().expect("finite numbers");
        let file = std::path::PathBuf::from(home.place());
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it can be made");
        std::fs::write(&file, json).expect("it can be written");
        home
    }
}

#[test]
fn a_profile_is_kept_unless_it_is_none() {
    let home = Home(Folder::new());
    for arguments in [&SMALL[..], &SMALL[..4]] {
        let done = home.run(arguments);
        assert_eq!(done.status, Some(0), "{done:?}");
        assert_eq!(home.profile(), None, "{arguments:?}");
        let note = "note:       not stored as this machine's profile, since limited by --max";
        let has_note = done.stderr.contains(note);
        assert_eq!(has_note, arguments.len() == 4, "{done:?}");
    }
    let before = home.reported();
    assert_eq!(
        (before.value.as_deref(), before.fix.as_deref()),
        (Some("none"), Some("linerate memory"))
    );
    let done = home.run(&["memory", "--quick"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    // On a busy machine, there may be no profile; the command then reports the reason.
    match home.profile() {
        Some(file) => {
            let said = format!("note:       stored as this machine's profile: {}", file.display());
            assert!(done.stderr.contains(&said), "{done:?}");
        }
        None => {
            let said = "note:       not stored as this machine's profile, since ";
            assert!(done.stderr.contains(said), "{done:?}");
        }
    }
}

#[test]
fn doctor_reports_the_state_of_the_profile() {
    let last = |verdict| move |report: &mut MemoryReport| last_level(report, verdict);
    let good = Home::with_profile(last(OsVerdict::Agrees)).reported();
    assert!(good.value.is_some_and(|age| age.ends_with(" old")) && good.fix.is_none());
    let unseen = Home::with_profile(last(OsVerdict::Unseen)).reported();
    assert_eq!(unseen.verdict, Verdict::Advice, "{unseen:?}");
    assert!(unseen.sentence.contains("but the size of L"), "{unseen:?}");
    let home = Home::with_profile(|_| ());
    std::fs::write(home.profile().expect("it is there"), "no record").expect("it can be written");
    assert_eq!(home.reported().value.as_deref(), Some("unreadable"));
}

#[test]
fn a_profile_that_cannot_be_kept_fails_nothing() {
    let folder = Folder::new();
    let file = folder.write("file", "");
    let mut memory = command(&["memory", "--quick"]);
    let done = memory.env("XDG_STATE_HOME", file).output().expect("the program starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("not stored as this machine's profile"), "{said}");
}

/// Makes all levels agree with the OS, except the last, which gets the given verdict.
fn last_level(report: &mut MemoryReport, verdict: OsVerdict) {
    report.os_view.iter_mut().for_each(|view| view.verdict = OsVerdict::Agrees);
    if let Some(view) = report.os_view.iter_mut().rfind(|view| view.stated_bytes.is_some()) {
        view.verdict = verdict;
    }
}

/// Makes all levels agree with the OS, except the last, for which 6 MiB were found.
fn smaller(report: &mut MemoryReport) {
    last_level(report, OsVerdict::Agrees);
    let figure = Figure::exact("B", f64::from(6 << 20), Tier::Sw, "synthetic");
    if let Some(view) = report.os_view.iter_mut().rfind(|view| view.stated_bytes.is_some()) {
        (view.found_bytes, view.verdict) = (figure, OsVerdict::Smaller);
    }
}

#[test]
fn simulated_caches_are_those_of_the_profile() {
    const SIMULATED: [&str; 8] =
        ["stat", "--tier", "sim", "-e", "instructions,l1d_misses", "--json", "-o", "-"];
    let simulated = |home: &Home, more: &[&str]| {
        let done = home.run(&[&SIMULATED[..], more, &["--", "true"]].concat());
        if done.stderr.contains("Valgrind") || done.stderr.contains("the kernel reports no") {
            println!("SKIP: {}", done.stderr);
            return None;
        }
        assert_eq!(done.status, Some(0), "{done:?}");
        let record = record(&done.stdout);
        let Body::Stat(stat) = record.body else { panic!("a record of stat") };
        Some((stat.caches.expect("they were simulated"), done.stderr))
    };
    let none = Home(Folder::new());
    let Some((stated, said)) = simulated(&none, &[]) else { return };
    assert_eq!((stated.name.as_str(), said.as_str()), ("this machine", ""));
    let refused = none.run(&["stat", "--tier", "sim", "--caches", "profile", "--", "true"]);
    assert!(
        refused.status == Some(125) && refused.stderr.contains("linerate memory"),
        "{refused:?}"
    );

    let home = Home::with_profile(smaller);
    let (measured, said) = simulated(&home, &[]).expect("as before");
    assert_eq!(measured.name, "this machine, as measured");
    assert!(measured.ll.bytes <= 6 << 20 && measured.d1 == stated.d1, "{measured:?}");
    assert!(said.contains("caches measured") && said.contains("--caches os"), "{said}");
    assert_eq!(simulated(&home, &["--caches", "profile"]).expect("as before").0, measured);
    assert_eq!(simulated(&home, &["--caches", "os"]).expect("as before").0, stated);
    let unseen = Home::with_profile(|report| last_level(report, OsVerdict::Unseen));
    let (as_stated, _) = simulated(&unseen, &["--caches", "profile"]).expect("as before");
    let note = "i1 as reported; d1 measured, same as reported; ll as reported, not measured";
    assert!(as_stated.note.ends_with(note), "{as_stated:?}");

    // A run compared with a baseline simulates the caches of the baseline.
    let kept = home.0.file("baseline.json");
    for (caches, wanted) in [("os", &stated), ("profile", &measured)] {
        simulated(&home, &["--caches", caches, "--record", &kept]).expect("as before");
        let again = simulated(&home, &["--baseline", &kept, "--threshold", "50%"]);
        assert_eq!(&again.expect("as before").0, wanted, "{caches}");
    }
}

/// Uses a profile with caches too small for more than a few packets.
#[test]
fn a_run_reports_the_cost_of_packets_beyond_the_cache() {
    let tiny = |report: &mut MemoryReport| {
        let sizes = [Some(1024.0), Some(2048.0), None];
        let mut levels: Vec<_> = std::iter::repeat_n(report.levels[0].clone(), 3).collect();
        for ((level, name), size) in levels.iter_mut().zip(["L1", "L2", "memory"]).zip(sizes) {
            level.name = name.to_owned();
            level.size_bytes = match size {
                Some(bytes) => Figure::exact("B", bytes, Tier::Sw, "synthetic"),
                None => Figure::absent("B", Tier::Sw, "synthetic", "it is memory"),
            };
            level.latency_ns = Figure::exact("ns", 80.0, Tier::Sw, "synthetic");
        }
        report.levels = levels;
        report.costs.clear();
        report.unresolved.clear();
    };
    let home = Home::with_profile(tiny);
    let file = home.0.write("path.toml", edge(&[("time = \"2s\"", "packets = 1000")]));
    let record_file = home.0.file("record.json");
    let done = home.run(&["run", &file, "-q", "--record", &record_file]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let text = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(", more than L2 (2 KiB by `linerate memory`, "), "{text}");
    assert!(text.contains("waits up to 80 ns"), "{text}");
    let kept = record(&std::fs::read_to_string(&record_file).expect("a record"));
    assert_eq!(kept.figures()["packets_miss_ns"].as_number(), Some(80.0));
    assert!(kept.figures()["packets_bytes"].as_number().is_some_and(|bytes| bytes > 1e6));

    let moved = Home::with_profile(|report| {
        tiny(report);
        let (cause, sentence) = ("moved".to_owned(), "it moved".to_owned());
        report.unresolved =
            vec![Unresolved { from_bytes: 4096, to_bytes: 1 << 40, cause, sentence }];
    });
    let done = moved.run(&["run", &file, "-q"]);
    let wanted = "the cache level that holds the packets is unknown: ";
    assert!(done.stdout.contains(wanted), "{}", done.stdout);

    let without = linerate(&["run", &file, "-q", "--json"]);
    let figures = record(&without.stdout).figures();
    let reason = figures["packets_level"].reason.clone();
    assert!(reason.is_some_and(|reason| reason.contains("linerate memory")), "{figures:?}");
}

/// Walks the chain that --events simulates; caches without it would be ignored.
#[test]
fn simulated_events_have_a_program_of_their_own() {
    assert_eq!(answered(0, &["memory", "--chase", "4096:64:000000001000"]), "");
    assert!(refused(&["memory", "--chase", "10:64:1"]).contains("out of range"));
    assert!(refused(&["memory", "--caches", "g4"]).contains("add --events"));
    let typo = [&SMALL[..], &["--events", "--caches", "typo"]].concat();
    assert!(refused(&typo).contains("typo"));
}

/// Without a simulator, the measurement is printed and recorded nevertheless.
#[test]
fn a_simulation_that_fails_loses_no_measurement() {
    let folder = Folder::new();
    let nowhere = folder.file("");
    let without = |more: &[&str]| {
        let _share = a_share_of_the_processors();
        let mut command = command(&[&SMALL[..], &["-q", "--json", "--events"], more].concat());
        let output = command.env("PATH", &nowhere).output().expect("the program starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, stdout, stderr) = without(&[]);
    if stderr.contains("stopped before anything was measured") {
        return println!("SKIP: the machine is too busy to measure");
    }
    let report = parsed(&stdout);
    if !report.events.is_empty() {
        return println!("SKIP: events are counted here");
    }
    assert_eq!(status, Some(2), "{stderr}");
    let why = report.events_reason.expect("a reason");
    assert!(why.starts_with("not simulated: "), "{why}");
    assert!(stderr.contains(&why["not simulated: ".len()..]), "{stderr}");
    // Where a simulation is certain to be required, nothing is measured before it fails.
    let (status, stdout, stderr) = without(&["--caches", "arm1176"]);
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
}
