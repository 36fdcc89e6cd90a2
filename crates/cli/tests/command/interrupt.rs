// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that Ctrl-C ends a command early, with a report of the measurements so far.

use crate::records::assert_conserved;
use crate::rig::{Done, EDGE_STAGES, EDGE_WORKERS, Folder};
use crate::rig::{a_share_of_the_processors, command, edge, record, workers};
use linerate_record::Body;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time after which a command is considered hung, which is shorter than the requested duration.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the name of the signal with which to interrupt the program: INT (2), or TERM (15) if it
/// was started with INT ignored, as by a shell in the background. `None` until it handles signals,
/// INT first.
fn interruption(child: &Child) -> Option<&'static str> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    let status = status.unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_caught = |number: u32| caught.is_some_and(|mask| mask >> (number - 1) & 1 == 1);
    let found = [(2, "INT"), (15, "TERM")].into_iter().find(|&(number, _)| is_caught(number));
    found.map(|(_, name)| name)
}

/// Waits until `holds` returns true.
fn wait_until(mut holds: impl FnMut() -> bool, what: &str) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what} takes longer than {PATIENCE:?}");
        sleep(Duration::from_millis(10));
    }
}

/// Returns the CPU time used so far by all the program's threads, in milliseconds: utime plus stime
/// from proc(5), in ticks of 10 ms on all machines.
fn cpu_ms(child: &Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // The program's name is in parentheses and may contain any character.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split(' ').collect();
    let ticks = |field: usize| fields.get(field).and_then(|ticks| ticks.parse().ok()).unwrap_or(0);
    (ticks(12) + ticks(13)) * 10
}

/// Starts a command, interrupts it after `work_ms` of CPU time, and waits for it to exit. CPU time
/// does not depend on other programs, and the requested work takes several times as long.
fn interrupted(arguments: &[&str], work_ms: u64) -> Done {
    let _share = a_share_of_the_processors();
    let mut command = command(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the program starts");
    let read = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || std::io::read_to_string(&mut pipe).expect("UTF-8"))
    };
    let stdout = read(Box::new(child.stdout.take().expect("it is piped")));
    let stderr = read(Box::new(child.stderr.take().expect("it is piped")));
    let mut signal = None;
    let listens = || {
        signal = interruption(&child);
        signal.is_some()
    };
    wait_until(listens, "to listen to signals");
    wait_until(|| cpu_ms(&child) >= work_ms, "to get the processor");
    let signal = signal.expect("it listens");
    let kill = ["-c", "kill -s \"$0\" \"$1\"", signal, &child.id().to_string()];
    assert!(Command::new("sh").args(kill).status().expect("sh runs").success());
    let start = Instant::now();
    while start.elapsed() < PATIENCE && child.try_wait().is_ok_and(|status| status.is_none()) {
        sleep(Duration::from_millis(10));
    }
    // No effect on a process that has exited. One that is still running is killed and has no exit
    // status.
    child.kill().expect("a child can be ended");
    let status = child.wait().expect("a child can be waited for").code();
    let [stdout, stderr] = [stdout, stderr].map(|reader| reader.join().expect("it read"));
    Done { status, stdout, stderr }
}

#[test]
fn a_run_is_reported_as_far_as_it_came() {
    let folder = Folder::new();
    let split = workers(&EDGE_STAGES, &[(3, 1), (4, 2)]);
    let file = folder.write("path.toml", edge(&[(EDGE_WORKERS, split.as_str())]));
    let common = ["run", &file, "--time", "600s", "--oversubscribe"];
    for work in [0, 700] {
        let done = interrupted(&[&common[..], &["--json"]].concat(), work);
        assert_eq!(done.status, Some(2), "{}", done.stderr);
        assert!(done.stderr.contains("linerate: interrupted"), "{}", done.stderr);
        let Body::Run(report) = record(&done.stdout).body else { panic!("{}", done.stdout) };
        assert!(report.interrupted && report.elapsed_s < 600.0);
        assert_conserved(&report);
    }
    let done = interrupted(&common, 500);
    assert_eq!(done.status, Some(2), "{}", done.stderr);
    assert!(done.stdout.contains("stopped early"), "{}", done.stdout);
    assert!(done.stdout.contains("gre_encap"), "{}", done.stdout);
}

#[test]
fn a_run_by_count_is_reported_as_far_as_it_came() {
    let folder = Folder::new();
    let endless = edge(&[("time = \"2s\"", "packets = 9000000000000")]);
    let file = folder.write("path.toml", endless);
    let done = interrupted(&["run", &file, "--json"], 300);
    assert_eq!(done.status, Some(2), "{}", done.stderr);
    let Body::Run(report) = record(&done.stdout).body else { panic!("{}", done.stdout) };
    assert!(report.interrupted && report.workers[0].stages[0].packets > 0);
    assert_conserved(&report);
}

#[test]
fn a_tuning_prints_what_it_has_and_says_that_it_is_not_done() {
    let folder = Folder::new();
    let file = folder.write("path.toml", edge(&[]));
    let out = folder.file("tuned.toml");
    let arguments = ["tune", &file, "--time", "10s", "--json", "--out", &out];
    let done = interrupted(&arguments, 800);
    assert_eq!(done.status, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("linerate: interrupted"), "{}", done.stderr);
    let Body::Tune(report) = record(&done.stdout).body else { panic!("{}", done.stdout) };
    assert_eq!(report.chosen, None);
    assert_conserved(&report.baseline);
    assert!(!std::fs::exists(&out).expect("the folder can be read"), "nothing was tuned");
}

#[test]
fn a_sweep_of_the_kernels_prints_the_cases_it_has() {
    for work in [0, 500] {
        let done = interrupted(&["kernels", "--json"], work);
        assert_eq!(done.status, Some(2), "{}", done.stderr);
        assert!(done.stderr.contains("linerate: interrupted"), "{}", done.stderr);
        let Body::Kernels(report) = record(&done.stdout).body else { panic!("{}", done.stdout) };
        assert!(report.interrupted, "{report:?}");
    }
}

/// Interrupts the measurement before or after its first results.
#[test]
fn a_measurement_of_memory_prints_what_it_has() {
    for work in [0, 300] {
        let done = interrupted(&["memory", "--no-store", "--json"], work);
        assert_eq!(done.status, Some(2), "{}", done.stderr);
        if done.stdout.is_empty() {
            assert!(done.stderr.contains("stopped before anything was measured"), "{done:?}");
            continue;
        }
        assert!(done.stderr.contains("linerate: interrupted"), "{}", done.stderr);
        let Body::Memory(report) = record(&done.stdout).body else { panic!("{}", done.stdout) };
        assert!(report.conditions.interrupted && !report.curves.is_empty(), "{report:?}");
    }
}
