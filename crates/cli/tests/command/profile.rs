// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate profile`: its record, its output formats, and rejected input.

use crate::rig::{Folder, command, linerate, record, refused};
use crate::why::has;
use linerate_record::{Body, Scalar};
use std::process::{Command, Stdio};

const BUSY: [&str; 3] = ["--", "sha256sum", "/dev/zero"];

/// Profiles a busy command; returns the record.
fn sampled(arguments: &[&str]) -> linerate_record::Record {
    let words = [&["profile", "--json", "--quiet", "-t", "400ms"], arguments, &BUSY].concat();
    let done = linerate(&words);
    assert_eq!((done.status, done.stdout.as_str()), (Some(0), ""), "{done:?}");
    record(&done.stderr)
}

#[test]
fn a_profile_has_what_scripts_rely_on() {
    let record = sampled(&["-F", "1999"]);
    let Body::Profile(report) = &record.body else { panic!("{record:?}") };
    assert!(report.samples > 20 && report.sampled.is_command, "{report:?}");
    let summary = record.summary();
    for name in ["hottest", "hottest_share", "samples", "lost_samples", "bound_by"] {
        assert!(summary.contains_key(name), "{name}: {summary:?}");
    }
    let functions = summary["functions"].as_array().expect("a list");
    let first = &functions[0];
    for name in ["name", "module", "share", "low", "high", "ns_per_packet", "class"] {
        assert!(first.get(name).is_some(), "{name}: {first}");
    }
    let [share, low, high] = ["share", "low", "high"].map(|name| first[name].as_f64().unwrap());
    assert!(0.0 <= low && low <= share && share <= high && high <= 1.0, "{first}");
    let packets = &report.functions[0].ns_per_packet;
    assert_eq!(packets.value, Scalar::Absent);
    assert!(packets.reason.as_deref().is_some_and(|reason| reason.contains("--iface")));
}

#[test]
fn costs_are_per_packet_of_an_interface() {
    let record = sampled(&["--iface", "lo"]);
    let Body::Profile(report) = &record.body else { panic!("{record:?}") };
    let packets = report.packets.as_ref().expect("lo was named");
    let cost = &report.functions[0].ns_per_packet;
    match packets.packets {
        0 => assert_eq!(cost.reason.as_deref(), Some("no packets were counted")),
        n => {
            let all = report.cpu_s * 1e9 / n as f64;
            assert!(cost.as_number().is_some_and(|ns| ns > 0.0 && ns <= all), "{cost:?}");
        }
    }
}

#[test]
fn a_profile_is_exported_for_other_viewers() {
    let folder = Folder::new();
    let file = &folder.file("profile.json");
    let made =
        linerate(&[&["profile", "--quiet", "-t", "300ms", "--record", file], &BUSY[..]].concat());
    assert_eq!(made.status, Some(0), "{made:?}");
    let export = |format| linerate(&["export", file, "--format", format]);
    let folded = export("folded").stdout;
    let first = folded.lines().next().expect("a stack");
    assert!(first.starts_with("sha256sum;"), "{first}");
    let svg = export("flame-graph").stdout;
    assert!(svg.starts_with("<svg ") && svg.contains("<title>sha256sum"), "{svg}");
    let script = export("perf-script").stdout;
    assert!(script.starts_with("sha256sum ") && script.contains("(sha256sum)"), "{script}");
    assert_eq!(export("csv").status, Some(0));
    let gzip = format!("\"$0\" export '{file}' --format pprof | gzip -dc | grep -ac sha256sum");
    let program = crate::rig::command(&[]);
    let done = Command::new("sh")
        .args(["-c", &gzip])
        .arg(program.get_program())
        .stdin(Stdio::null())
        .output()
        .expect("sh starts");
    assert!(done.status.success(), "{done:?}");
    let refused = linerate(&["export", "--format", "flame-graph", "/dev/null"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
}

#[test]
fn the_instructions_of_the_hottest_function_have_its_samples() {
    if cfg!(not(target_arch = "x86_64")) {
        return println!("SKIP: instructions are decoded on x86-64 only");
    }
    let record = sampled(&["--annotate", "-F", "1999"]);
    let Body::Profile(report) = &record.body else { panic!("{record:?}") };
    let annotated = report.annotated.as_ref().unwrap_or_else(|| panic!("{:?}", report.unread));
    let function = &report.functions[annotated.function as usize];
    assert_eq!(annotated.samples, function.samples, "{function:?}");
    let of_instructions: u64 = annotated.instructions.iter().map(|one| one.samples).sum();
    assert_eq!(of_instructions, annotated.samples);
    let address = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let addresses: Vec<u64> =
        annotated.instructions.iter().map(|one| address(&one.address)).collect();
    assert!(addresses.is_sorted_by(|a, b| a < b), "{addresses:?}");
    assert!(annotated.instructions.iter().all(|one| !one.text.contains("(bad)")), "{annotated:?}");
    // A function without samples is named in the record, which is complete otherwise.
    let none = sampled(&["--annotate=no_such_function"]);
    let Body::Profile(report) = &none.body else { panic!("{none:?}") };
    assert!(report.annotated.is_none() && report.samples > 0);
    let reasons: Vec<&str> = report.unread.iter().map(|one| one.reason.as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("'no_such_function'")), "{reasons:?}");
}

#[test]
fn a_timeline_has_every_sample_once_and_all_slices() {
    let record = sampled(&["--timeline", "--iface", "lo"]);
    let Body::Profile(report) = &record.body else { panic!("{record:?}") };
    let timeline = report.timeline.as_ref().expect("it was asked for");
    for thread in &timeline.threads {
        let samples: u64 = thread.samples.iter().map(|&n| u64::from(n)).sum();
        assert_eq!(samples, report.threads[thread.thread as usize].samples);
    }
    // The first slice may begin before the window, which begins at 0.
    for pair in timeline.slices[1..].windows(2) {
        let gap = pair[1].begins_s - pair[0].begins_s - pair[0].seconds;
        assert!(gap.abs() < 1e-6, "{pair:?}");
    }
    assert!(timeline.slices.iter().all(|slice| slice.lost.is_some() && slice.packets.is_some()));
    assert!(timeline.losses.as_ref().is_some_and(|counter| counter.contains("on lo")));
}

#[test]
fn views_of_a_record_are_printed_again() {
    let folder = Folder::new();
    let file = &folder.file("profile.json");
    let words = ["profile", "--quiet", "-t", "300ms", "--timeline", "--record", file];
    let made = linerate(&[&words[..], &BUSY].concat());
    assert!(
        made.status == Some(0) && made.stderr.contains("scale       one column is"),
        "{made:?}"
    );
    let report = |form| linerate(&["report", file, "--quiet", "--format", form]);
    let icicle = report("icicle").stdout;
    assert!(icicle.contains("sha256sum") && icicle.contains("a column is"), "{icicle}");
    assert!(report("timeline").stdout.contains("one cell is"));
    let svg = linerate(&["export", file, "--format", "timeline"]).stdout;
    assert!(svg.starts_with("<svg ") && svg.contains("class=\"l4\""), "{svg}");
    let none = report("annotated").stdout;
    assert!(none.contains("linerate profile --annotate"), "{none}");
    let doctor = linerate(&["doctor", "--quiet", "--format", "icicle"]);
    assert!(doctor.stderr.contains("needs a `linerate profile` record"), "{doctor:?}");
}

/// Go's pprof reads the same format as Parca, Pyroscope and speedscope.
#[test]
fn go_reads_the_exported_profile() {
    if !has("go") {
        return;
    }
    let folder = Folder::new();
    let (file, exported) = (&folder.file("profile.json"), &folder.file("p.pb.gz"));
    let words = ["profile", "--quiet", "-t", "300ms", "--record", file];
    assert_eq!(linerate(&[&words[..], &BUSY].concat()).status, Some(0));
    let export = crate::rig::command(&["export", file, "--format", "pprof"]).output();
    std::fs::write(exported, export.expect("it starts").stdout).expect("a file");
    let read = Command::new("go").args(["tool", "pprof", "-raw", exported]).output();
    let read = read.expect("go starts");
    let text = String::from_utf8_lossy(&read.stdout);
    if !read.status.success() && text.is_empty() {
        return println!("SKIP: go has no pprof: {}", String::from_utf8_lossy(&read.stderr));
    }
    assert!(text.contains("cpu/nanoseconds"), "{text}");
    // The first mapping is the executable, whose name go prints as that of the profile.
    let mappings = text.split("Mappings").nth(1).expect("mappings");
    let first = mappings.lines().find(|line| line.starts_with("1: ")).expect("a mapping");
    assert!(first.contains(" sha256sum"), "{text}");
}

/// Without Valgrind, the command does not even start.
#[test]
fn a_missing_simulator_is_reported_before_sampling() {
    let folder = Folder::new();
    let ran = folder.file("ran");
    let line = format!(": > {ran}; while :; do :; done");
    let words = ["profile", "--sim", "-q", "-t", "300ms", "--", "/bin/sh", "-c", &line];
    let output = command(&words).env("PATH", folder.file("")).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--sim: "), "{said}");
    assert!(!std::fs::exists(&ran).expect("a folder"), "{said}");
}

#[test]
fn what_cannot_be_sampled_is_refused_in_a_sentence() {
    assert!(refused(&["profile", "4100000"]).contains("it has ended, or never existed"));
    assert!(refused(&["profile", "--name", "no-such-name"]).contains("`ps -e` lists the names"));
    let none = refused(&["profile", "--", "no-such-command-anywhere"]);
    assert!(none.contains("cannot start 'no-such-command-anywhere': No such"), "{none}");
    let none = refused(&["profile", "-t", "200ms", "--period", "10000000000", "--", "sleep", "5"]);
    assert!(none.contains("no samples: sleep used "), "{none}");
    let none = refused(&["profile", "--iface", "no-such-if", "--", "sleep", "5"]);
    assert!(none.contains("no interface 'no-such-if' here; available: "), "{none}");
    let thread = refused(&["profile", "--record", "/nonexistent/x.json", "--", "sleep", "5"]);
    assert!(thread.contains("/nonexistent/x.json"), "{thread}");
}

/// Profiles as a user who may not sample the kernel.
#[test]
fn without_privileges_user_mode_is_sampled_and_the_rest_said() {
    let program = crate::rig::command(&[]);
    let program = program.get_program();
    let unprivileged = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let can = Command::new("setpriv").args(unprivileged).arg("true").output();
    if !can.is_ok_and(|output| output.status.success()) {
        return println!("SKIP: only root and setpriv(1) can become another user");
    }
    let words = ["profile", "--json", "--quiet", "-t", "500ms", "--", "sha256sum", "/dev/zero"];
    let done = Command::new("setpriv")
        .args(unprivileged)
        .arg(program)
        .args(words)
        .env("XDG_STATE_HOME", "/dev/null/state")
        .stdin(Stdio::null())
        .output()
        .expect("setpriv has just run");
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("Permission denied") || said.contains("cannot sample") {
        return println!("SKIP: this user may not run the program, or sample: {said}");
    }
    assert_eq!(done.status.code(), Some(0), "{said}");
    let Body::Profile(report) = record(&said).body else { panic!("{said}") };
    if report.sampling.has_kernel {
        return println!("SKIP: the kernel may be sampled by any user here");
    }
    let refused = report.unread.iter().find(|one| one.what == "kernel_samples");
    assert!(refused.is_some_and(|one| one.fix.is_some()), "{:?}", report.unread);
    // Reading zeros takes time in the kernel.
    let of_kernel = report.functions.iter().find(|one| one.name == "[not in user mode]");
    assert!(of_kernel.is_some_and(|one| one.samples > 0), "{:?}", report.functions);
}

/// Samples a busy command with perf for a moment; returns the text of `perf script`, or `None`,
/// with a note, without perf.
fn sampled_by_perf(folder: &Folder) -> Option<String> {
    let data = folder.file("perf.data");
    let perf = |words: &[&str]| Command::new("perf").args(words).stdin(Stdio::null()).output();
    let record = ["record", "-q", "-e", "cpu-clock", "-F", "999", "-g", "-o", &data, "--"];
    let busy = ["timeout", "0.6", "sha256sum", "/dev/zero"];
    // perf ends with the status of the command, which is ended by timeout(1).
    let recorded = perf(&[&record[..], &busy].concat()).ok();
    let script = recorded.and_then(|_| perf(&["script", "-i", &data]).ok());
    let script = script.filter(|done| done.status.success() && !done.stdout.is_empty());
    if script.is_none() {
        println!("SKIP: no samples by perf");
    }
    script.map(|done| String::from_utf8_lossy(&done.stdout).into_owned())
}

#[test]
fn samples_of_perf_are_imported_as_a_profile() {
    let folder = Folder::new();
    let Some(text) = sampled_by_perf(&folder) else { return };
    let (text, file) = (folder.write("perf.txt", &text), folder.file("imported.json"));
    let imported = linerate(&["import", &text, "--record", &file]);
    assert_eq!(imported.status, Some(0), "{imported:?}");
    assert!(imported.stdout.contains("as in the output of perf script"), "{imported:?}");
    let json = linerate(&["import", &text, "--json", "--quiet"]);
    let record = record(&json.stdout);
    let Body::Profile(report) = &record.body else { panic!("{record:?}") };
    assert_eq!(report.sampling.event, "cpu-clock");
    // 999 samples in each second of CPU time.
    assert!(
        report.samples > 20 && (900.0..1100.0).contains(&report.sampling.rate_hz),
        "{report:?}"
    );
    let skipped = report.unread.iter().find(|one| one.what == "lines");
    assert_eq!(skipped, None);
    let summary = record.summary();
    let first = &summary["functions"].as_array().expect("a list")[0];
    let [share, low, high] = ["share", "low", "high"].map(|name| first[name].as_f64().unwrap());
    assert!(0.5 < share && low < share && share < high, "{first}");
    assert!(linerate(&["export", &file, "--format", "folded"]).stdout.contains(';'));
    let data = folder.file("perf.data");
    assert!(refused(&["import", &data]).contains("perf script -i FILE | linerate import -"));
    for option in [["--machine", "t1"], ["--packets", "9"]] {
        let words = [&["import", &text][..], &option].concat();
        assert!(refused(&words).contains("does not apply to samples"));
    }
}
