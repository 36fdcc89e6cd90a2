// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate stat`: counted and missing events, exit statuses. Which events are available depends
//! on the machine: each has a count or a reason. No test asserts a time.

mod cpus;
mod destination;
mod hot;
mod left_alone;

use crate::rig::{Done, Folder, a_share_of_the_processors, command, is_ignored, linerate, record};
use crate::validator::Validator;
use linerate_record::stat::{EventCount, ExitStatus, StatReport, StatTarget};
use linerate_record::{Body, Record, Tier};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus as Status, Stdio};
use std::sync::RwLockReadGuard;

/// The events counted if neither -e nor -m is given.
const DEFAULT_EVENTS: [&str; 8] = [
    "task_clock_ns",
    "context_switches",
    "migrations",
    "page_faults",
    "cycles",
    "instructions",
    "branches",
    "branch_misses",
];

fn stat(arguments: &[&str]) -> Done {
    linerate(&[&["stat"], arguments].concat())
}

/// Runs `linerate stat -o -`, which must exit with `status` and an empty stderr; returns its
/// output.
#[track_caller]
fn answered(status: i32, arguments: &[&str]) -> String {
    let done = stat(&[&["-q", "-o", "-"], arguments].concat());
    assert_eq!((done.status, done.stderr.as_str()), (Some(status), ""), "{arguments:?}: {done:?}");
    done.stdout
}

/// Runs `linerate stat`, which must fail before it starts the command; returns the error message.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let Done { status, stdout, stderr } = stat(arguments);
    assert_eq!((status, stdout.as_str()), (Some(125), ""), "{arguments:?}: {stderr}");
    assert!(!stderr.contains("panicked at"), "{arguments:?}: {stderr}");
    assert!(stderr.starts_with("linerate: ") || stderr.starts_with("error: "), "{stderr}");
    stderr
}

fn report_of(record: &Record) -> &StatReport {
    match &record.body {
        Body::Stat(report) => report,
        _ => panic!("a record of counters"),
    }
}

/// Returns the record of a run that must exit with `status`.
#[track_caller]
fn counted(status: i32, arguments: &[&str]) -> Record {
    let json = answered(status, &[&["--json"], arguments].concat());
    let record = record(&json);
    assert_whole(&record, &json);
    record
}

/// Asserts that the record conforms to the schema, and that every event and metric is a named
/// figure with a value or a reason.
#[track_caller]
fn assert_whole(record: &Record, json: &str) {
    let value: Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(Validator::new(&linerate_record::schema_json()).verdict(&value), Ok(()), "{json}");
    let report = report_of(record);
    for event in &report.events {
        assert_eq!(record.figures().get(&event.name), Some(&event.count), "{event:?}");
        let is_there = event.count.as_number().is_some();
        assert_eq!(is_there, event.count.reason.is_none(), "{event:?}");
        assert!(is_there == event.duty.is_some(), "{event:?}");
        assert!(event.duty.is_none_or(|duty| duty > 0.0 && duty <= 1.0), "{event:?}");
        let bare = &value["summary"][&event.name];
        assert_eq!(bare.as_f64(), event.count.as_number(), "{event:?}");
        assert!(bare.is_number() || bare.is_null(), "{bare}");
    }
    for metric in &report.metrics {
        assert_eq!(record.figures().get(&metric.name), Some(&metric.figure), "{metric:?}");
    }
}

fn event<'a>(report: &'a StatReport, name: &str) -> &'a EventCount {
    let found = report.events.iter().find(|event| event.name == name);
    found.unwrap_or_else(|| panic!("{name} is in {report:?}"))
}

/// Returns the count of an event, which every machine must support.
fn count(report: &StatReport, name: &str) -> f64 {
    event(report, name).count.as_number().unwrap_or_else(|| panic!("{name} in {report:?}"))
}

#[test]
fn a_command_is_counted_and_what_is_missing_has_its_reason() {
    let record = counted(0, &["--", "true"]);
    let report = report_of(&record);
    let names: Vec<&str> = report.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, DEFAULT_EVENTS);
    assert!(count(report, "task_clock_ns") > 0.0 && count(report, "page_faults") > 0.0);
    assert_eq!(report.target, StatTarget::Command { argv: vec!["true".to_owned()] });
    assert_eq!(report.ended, Some(ExitStatus { status: Some(0), signal: None }));
    assert!(report.elapsed_s > 0.0 && !report.interrupted && !report.tier_asked);
    assert_ne!(report.tier, Tier::Sim, "simulation only on request");
    for name in ["elapsed_s", "user_s", "system_s", "cpus_used"] {
        assert!(record.figures()[name].as_number().is_some(), "{name}");
    }
}

#[test]
fn the_table_has_every_event_and_the_reasons_of_those_that_are_missing() {
    let record = counted(0, &["--", "true"]);
    let text = answered(0, &["--", "true"]);
    for event in &report_of(&record).events {
        let row = text.lines().find(|line| line.starts_with(&event.name));
        let row = row.unwrap_or_else(|| panic!("{}: {text}", event.name));
        let cell = row.split_whitespace().nth(1).unwrap_or_default();
        match event.count.as_number() {
            Some(_) => assert!(cell.starts_with(|c: char| c.is_ascii_digit()), "{row}"),
            None => assert_eq!(cell, "-", "{row}"),
        }
    }
    let any_missing = report_of(&record).events.iter().any(|e| e.count.as_number().is_none());
    assert_eq!(text.contains("not counted "), any_missing, "{text}");
    assert!(!text.contains('\u{1b}'), "colours are for terminals: {text}");
}

#[test]
fn the_status_is_that_of_the_command() {
    assert!(answered(0, &["--", "sh", "-c", "exit 0"]).contains("elapsed"));
    assert!(answered(7, &["--", "sh", "-c", "exit 7"]).contains("\nended       with status 7\n"));
    let killed = answered(137, &["--", "sh", "-c", "kill -9 $$"]);
    assert!(killed.contains("\nended       killed by signal 9 (SIGKILL)\n"), "{killed}");
    let record = counted(143, &["--", "sh", "-c", "kill -15 $$"]);
    assert_eq!(report_of(&record).ended, Some(ExitStatus { status: None, signal: Some(15) }));
}

#[test]
fn an_unstartable_command_yields_no_counts() {
    let folder = Folder::new();
    let data = folder.write("data", "no program");
    for (status, name) in [(127, "no-such-command-anywhere"), (127, "/no/such/file"), (126, &data)]
    {
        let done = stat(&["--", name]);
        assert_eq!((done.status, done.stdout.as_str()), (Some(status), ""), "{name}: {done:?}");
        assert!(done.stderr.starts_with("linerate: ") && done.stderr.contains(name), "{done:?}");
        let done = stat(&["--json", "-o", "-", "--", name]);
        assert_eq!(done.status, Some(status), "{name}: {done:?}");
        let record = record(&done.stdout);
        assert_whole(&record, &done.stdout);
        assert_eq!(report_of(&record).ended, None, "{done:?}");
        assert!(report_of(&record).events.iter().all(|event| event.count.reason.is_some()));
    }
}

#[test]
fn names_that_mean_nothing_are_refused_with_the_nearest() {
    let marker = Folder::new();
    let file = marker.file("ran");
    let said = refused(&["-e", "instrucions", "--", "touch", &file]);
    assert!(said.contains("instrucions") && said.contains("instructions"), "{said}");
    let said = refused(&["-m", "cahce", "--", "touch", &file]);
    assert!(said.contains("cahce") && said.contains("cache"), "{said}");
    let said = refused(&["-e", "cpu/event=0x1", "--", "touch", &file]);
    assert!(said.contains("cpu/event=0x1"), "{said}");
    refused(&["-e", "rxyz", "--", "touch", &file]);
    refused(&["--per", "nothing_like_it", "--", "touch", &file]);
    refused(&["--tier", "sim", "--caches", "none_of_these", "--", "touch", &file]);
    refused(&["--tier", "sim", "--caches", "g4,l9=1K/1/32", "--", "touch", &file]);
    refused(&["--tier", "sim", "--simulator", "gem5", "--", "touch", &file]);
    refused(&["--simulator", "qemu", "--", "touch", &file]);
    assert!(!std::path::Path::new(&file).exists(), "nothing runs before all options are checked");
}

#[test]
fn command_lines_that_make_no_sense_are_refused_as_env_does() {
    let table: [&[&str]; 8] = [
        &[],
        &["--bad", "--", "true"],
        &["-e", "", "--", "true"],
        &["--interval", "1us", "--", "true"],
        &["--tier", "model", "--", "true"],
        &["--per", "0", "--", "true"],
        &["--pid", "1", "--", "true"],
        &["--format", "html", "--", "true"],
    ];
    for arguments in table {
        refused(arguments);
    }
    let help = linerate(&["stat", "--help"]);
    assert_eq!(help.status, Some(0));
    assert!(help.stdout.contains("--tier sim"), "{help:?}");
}

#[test]
fn a_process_or_processor_that_is_not_there_is_refused() {
    let said = refused(&["--pid", "4194305"]);
    assert!(said.contains("4194305"), "{said}");
    let said = refused(&["--cpu", "4000", "--time", "10ms"]);
    assert!(said.contains("4000"), "{said}");
}

#[test]
fn strict_does_not_accept_a_missing_event() {
    let folder = Folder::new();
    let file = folder.file("ran");
    let events = ["-e", "cycles,task_clock_ns"];
    let lenient = counted(0, &[&events[..], &["--", "true"]].concat());
    let cycles = event(report_of(&lenient), "cycles");
    let strict = [&events[..], &["--strict", "--", "touch", &file]].concat();
    match &cycles.count.reason {
        None => drop(answered(0, &strict)),
        Some(reason) => {
            let said = refused(&strict);
            assert!(said.contains("cycles") && said.contains(reason.as_str()), "{reason}: {said}");
            assert!(!std::path::Path::new(&file).exists(), "did not run");
        }
    }
    answered(0, &["--strict", "-e", "task_clock_ns", "--", "true"]);
}

#[test]
fn counts_per_unit_of_work() {
    let record = counted(0, &["-e", "page_faults", "--per", "1000", "--", "true"]);
    let report = report_of(&record);
    let faults = event(report, "page_faults");
    let per = faults.per_unit.as_ref().and_then(linerate_record::Figure::as_number);
    assert_eq!(per, faults.count.as_number().map(|count| count / 1000.0));
    assert_eq!(report.unit_of_work.as_ref().map(|unit| unit.name.as_str()), Some("unit"));
    let per_event = counted(0, &["-e", "task_clock_ns", "--per", "page_faults", "--", "true"]);
    let report = report_of(&per_event);
    let clock = event(report, "task_clock_ns").per_unit.as_ref().and_then(|f| f.as_number());
    let wanted = count(report, "task_clock_ns") / count(report, "page_faults");
    assert!(clock.is_some_and(|clock| (clock / wanted - 1.0).abs() < 1e-9), "{clock:?} {wanted}");
}

#[test]
fn repeats_the_command_as_requested() {
    let folder = Folder::new();
    let file = folder.file("runs");
    let script = format!("echo run >> {file}");
    let record = counted(0, &["--repeat", "9", "--", "sh", "-c", &script]);
    let runs = std::fs::read_to_string(&file).expect("it ran").lines().count();
    assert_eq!((report_of(&record).repetitions, runs), (9, 9));
    let faults = &event(report_of(&record), "page_faults").count;
    let (low, high) = (faults.low.expect("nine runs"), faults.high.expect("nine runs"));
    assert!(faults.as_number().is_some_and(|value| low <= value && value <= high), "{faults:?}");
}

const BUSY: &str = "while :; do :; done";

#[test]
fn intervals_add_up() {
    let arguments = ["--interval", "50ms", "--time", "400ms", "-e", "task_clock_ns"];
    let record = counted(143, &[&arguments[..], &["--", "sh", "-c", BUSY]].concat());
    let report = report_of(&record);
    assert!(report.intervals.len() >= 3, "{:?}", report.intervals);
    let sum: f64 = report.intervals.iter().filter_map(|i| i.counts[0].as_number()).sum();
    let whole = count(report, "task_clock_ns");
    assert!((sum / whole - 1.0).abs() < 1e-6, "{sum} of {whole}");
    for pair in report.intervals.windows(2) {
        assert_eq!(pair[0].to_s, pair[1].from_s);
    }
    let live = stat(&[&arguments[..], &["--", "sh", "-c", BUSY]].concat());
    let rows = live.stderr.lines().filter(|line| line.contains(" s  ")).count();
    assert!(rows >= 3, "{live:?}");
}

#[test]
fn a_process_that_runs_already_is_counted() {
    let mut busy = Command::new("sh").args(["-c", BUSY]).spawn().expect("sh starts");
    let pid = busy.id().to_string();
    let done = stat(&["-q", "--json", "--pid", &pid, "--time", "100ms", "--threads"]);
    busy.kill().expect("it runs");
    busy.wait().expect("it ends");
    assert_eq!(done.status, Some(0), "{done:?}");
    let record = record(&done.stdout);
    assert_whole(&record, &done.stdout);
    let report = report_of(&record);
    assert_eq!(report.target, StatTarget::Process { pid: pid.parse().expect("a number") });
    assert!(count(report, "task_clock_ns") > 0.0, "{report:?}");
    assert!(report.threads.iter().any(|thread| thread.tid.to_string() == pid), "{report:?}");
    assert_eq!(report.ended, None);
}

#[test]
fn the_locale_changes_no_number() {
    let folder = Folder::new();
    let kept = folder.file("record.json");
    let _share = a_share_of_the_processors();
    let output = command(&["stat", "-q", "-o", "-", "--record", &kept, "--", "true"])
        .env("LC_ALL", "de_DE.UTF-8")
        .env("LANG", "de_DE.UTF-8")
        .output()
        .expect("it ends");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let record = record(&std::fs::read_to_string(&kept).expect("it is written"));
    let clock = count(report_of(&record), "task_clock_ns") as u64;
    let row = text.lines().find(|line| line.starts_with("task_clock_ns")).expect("a row");
    let cell = row.split_whitespace().nth(1).expect("a count");
    assert_eq!(cell.replace(',', "").parse(), Ok(clock), "{row}");
}

/// Returns whether Valgrind is installed; prints a note if not.
pub(crate) fn simulates() -> bool {
    let there = Command::new("valgrind").arg("--version").output().is_ok();
    if !there {
        println!("SKIP simulated counts: no valgrind");
    }
    there
}

const SIM: [&str; 4] = ["--tier", "sim", "-e", "instructions,dtlb_misses"];

#[test]
fn a_simulation_says_so_and_what_it_does_not_know() {
    if !simulates() {
        return;
    }
    let record = counted(0, &[&SIM[..], &["--", "true"]].concat());
    let report = report_of(&record);
    let tlb = event(report, "dtlb_misses");
    assert_eq!((report.tier, report.tier_asked), (Tier::Sim, true));
    assert!(report.caches.is_some() && tlb.count.reason.is_some(), "{tlb:?}");
    assert_eq!(event(report, "instructions").count.tier, Tier::Sim);
    assert!(count(report, "instructions") > 10_000.0);
    let text = answered(0, &[&SIM[..], &["--", "true"]].concat());
    assert!(text.contains("\ntier        sim: ") && text.contains("\ncaches "), "{text}");
}

/// Counts seven of rpistat's nine events by simulating the ARM1176's caches and TLBs. The other two
/// need a clock.
#[test]
fn an_arm1176_is_simulated_with_its_tlbs() {
    let sim = ["--tier", "sim", "--simulator", "qemu", "--machine", "arm1176"];
    let there = Command::new(format!("qemu-{}", std::env::consts::ARCH)).arg("--version").output();
    if there.is_err() {
        println!("SKIP simulated TLBs: no qemu-user");
        return;
    }
    let record = counted(0, &[&sim[..], &["-m", "rpistat", "--", "true"]].concat());
    let report = report_of(&record);
    let absent: Vec<&str> =
        report.events.iter().filter(|e| e.raw.is_none()).map(|e| e.name.as_str()).collect();
    assert_eq!(absent, ["cycles", "ibuf_stall_cycles"]);
    assert!(count(report, "micro_tlb_misses") >= count(report, "main_tlb_misses") / 2.0);
    let text = answered(0, &[&sim[..], &["--details", "--", "true"]].concat());
    assert!(text.contains("\ntlbs        ITLB 10 entries"), "{text}");
    let rpistat = answered(0, &[&sim[..], &["--format", "rpistat", "--", "true"]].concat());
    assert!(rpistat.contains("Cycles:             -\n"), "{rpistat}");
    assert!(!rpistat.contains("MicroTLB misses:    -"), "{rpistat}");
}

/// Uses an empty environment, as recommended for repeatable counts. This works even without a
/// `PATH`.
#[test]
fn a_simulation_needs_no_environment() {
    if !["/bin/valgrind", "/usr/bin/valgrind"].iter().any(|file| Path::new(file).exists()) {
        println!("SKIP simulation without PATH: no valgrind in /bin and /usr/bin");
        return;
    }
    let mut call = command(&["stat", "-q", "-o", "-", "--tier", "sim", "--", "true"]);
    let output = call.env_clear().output().expect("the program starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("(simulated)"), "{output:?}");
}

#[test]
fn a_baseline_finds_a_tenth_of_a_percent() {
    if !simulates() {
        return;
    }
    let folder = Folder::new();
    let kept = folder.file("record.json");
    let count_it =
        |extra: &[&str]| stat(&[&SIM[..], extra, &["-q", "-o", "-", "--", "true"]].concat());
    assert_eq!(count_it(&["--record", &kept]).status, Some(0));
    let same = count_it(&["--baseline", &kept]);
    assert_eq!(same.status, Some(0), "{same:?}");
    assert!(same.stdout.contains("no regression"), "{same:?}");
    let mut earlier = record(&std::fs::read_to_string(&kept).expect("it is written"));
    let Body::Stat(report) = &mut earlier.body else { panic!("a record of counts") };
    let of = |event: &&mut EventCount| event.name == "instructions";
    let figure = &mut report.events.iter_mut().find(of).expect("there").count;
    let before = figure.as_number().expect("a count") / 1.0012;
    figure.value = linerate_record::Scalar::Number(before.floor());
    let faster = folder.write("faster.json", earlier.to_json_pretty().expect("a record"));
    let worse = count_it(&["--baseline", &faster]);
    assert_eq!(worse.status, Some(1), "{worse:?}");
    assert!(worse.stdout.contains("regression"), "{worse:?}");
    assert_eq!(count_it(&["--baseline", &faster, "--threshold", "1"]).status, Some(0));
    let other = folder.write("other.json", "{}");
    assert!(refused(&["--baseline", &other, "--", "true"]).contains("not a linerate record"));
}

/// A regression gate must not pass if nothing was compared.
#[test]
fn fails_if_no_count_is_comparable_with_the_baseline() {
    let folder = Folder::new();
    let kept = folder.file("record.json");
    let once = ["-e", "task_clock_ns,page_faults"];
    answered(0, &[&once[..], &["--record", &kept, "--", "true"]].concat());
    let again =
        [&once[..], &["-o", "-", "--baseline", &kept, "--", "sh", "-c", "exit 0\n"]].concat();
    let done = stat(&again);
    assert_eq!(done.status, Some(125), "{done:?}");
    assert!(done.stderr.contains("0 of 3 figures are comparable"), "{done:?}");
    for told in [
        "0 of 3 figures could be judged: no verdict",
        "not judged: no interval",
        "the baseline measured a different target: `true`",
        r"counted     `sh -c $'exit 0\n'`",
    ] {
        assert!(done.stdout.contains(told), "{told}: {done:?}");
    }
    assert!(!done.stdout.contains("environment"), "{done:?}");
    let larger = command(&[&["stat"], &again[..]].concat())
        .env("ONE_VARIABLE_MORE", "x")
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&larger.stdout).replace("\n            ", " ");
    assert!(text.contains("the baseline's environment had "), "{text}");
    assert!(text.contains("env -i"), "{text}");
    let own = ["--baseline", &kept, "--", "sh", "-c", "exit 3"];
    assert_eq!(stat(&own).status, Some(3), "the command's own status");
}

#[test]
fn reports_the_end_of_the_time_limit() {
    let text = answered(128 + 15, &["--time", "50ms", "--", "sleep", "60"]);
    let ended = "\nended       killed by signal 15 (SIGTERM); the --time limit was reached: ";
    assert!(text.contains(ended), "{text}");
    let report = answered(0, &["--time", "10ms", "--pid", &std::process::id().to_string()]);
    assert!(report.contains("\nended       the --time limit was reached: "), "{report}");
}

#[test]
fn every_line_of_a_refusal_says_who_refuses() {
    let done = stat(&["-e", "cyclse,no-such-event", "--", "true"]);
    assert_eq!((done.status, done.stderr.lines().count()), (Some(125), 2), "{done:?}");
    assert!(done.stderr.lines().all(|line| line.starts_with("linerate: ")), "{done:?}");
}

#[test]
fn rpistat_is_printed_in_its_layout() {
    let text = answered(0, &["--format", "rpistat", "--", "true"]);
    assert!(text.starts_with("rpistat: true\n"), "{text}");
    for label in ["  Cycles:  ", "  IBUF stall cycles:  ", "  Mispredict ratio:  "] {
        assert!(text.contains(label), "{label}: {text}");
    }
}

#[test]
fn events_and_sets_are_listed() {
    let text = answered(0, &["--list"]);
    for name in ["task_clock_ns", "-m cache", "-m rpistat", "ipc"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let list: Value = serde_json::from_str(&answered(0, &["--list", "--json"])).expect("JSON");
    let events = list["events"].as_array().expect("events");
    assert!(events.iter().any(|event| event["name"] == "page_faults"), "{list}");
    for event in events {
        let is_prose = event["prose"].as_str().is_some_and(|prose| !prose.is_empty());
        assert!(is_prose || event["absent"].is_string(), "{event}");
    }
    for set in list["sets"].as_array().expect("sets") {
        for metric in set["metrics"].as_array().expect("metrics") {
            assert!(metric["formula"].is_string() && metric["prose"].is_string(), "{metric}");
        }
    }
}
