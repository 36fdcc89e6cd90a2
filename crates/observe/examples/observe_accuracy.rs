// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the accuracy of process and socket readings: observes programs of known behaviour for a
//! second each, and prints lines for the accuracy suite. The argument is the number of windows
//! (default 3).
//!
//! On a busy machine, a program that wants all of a CPU's time does not get it. Threads known never
//! to sleep are therefore checked for running and waiting time combined.

use linerate_observe::{Request, Target, observe};
use linerate_record::accuracy::Check;
use linerate_record::stats::median;
use linerate_record::why::{Observation, SocketKind, ThreadActivity, ThreadState};
use linerate_trial::Watch;
use std::ffi::OsString;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(1);
const SPIN: &str = "while :; do :; done";

fn main() {
    let windows = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(3);
    let checks = [spins(windows), sleeps(windows), shares_a_cpu(windows), own_cost(windows)];
    for check in checks.into_iter().chain([throttled(windows), overflows(windows)]) {
        println!("{check}");
    }
}

fn watch(target: Target) -> Option<Observation> {
    let request = Request { target, window: WINDOW, line_bits_per_s: None };
    observe(&request, &Watch::unattended()).ok()
}

fn command(words: &[&str]) -> Option<Observation> {
    watch(Target::Command(words.iter().map(OsString::from).collect()))
}

fn share(thread: &ThreadActivity, state: ThreadState) -> f64 {
    let time = thread.time.iter().find(|time| time.state == state);
    time.and_then(|time| time.share.as_number()).unwrap_or(0.0)
}

/// Checks the median reading over all windows; skips the check if there is none.
fn check(
    name: &str,
    windows: u64,
    of: impl Fn() -> Option<f64>,
    judge: impl Fn(f64, u64) -> Check,
) -> Check {
    let values: Vec<f64> = (0..windows).filter_map(|_| of()).collect();
    match median(&values) {
        Some(value) => judge(value, values.len() as u64),
        None => Check::skip(name, "the program could not be started or watched"),
    }
}

fn spins(windows: u64) -> Check {
    let name = "observe.spins_without_sleep";
    let rest = || {
        let found = command(&["sh", "-c", SPIN])?;
        let thread = found.threads.first()?;
        let asleep = share(thread, ThreadState::Asleep);
        Some(asleep.abs() + share(thread, ThreadState::Unaccounted).abs())
    };
    let judge = |value, n| Check::at_most(name, value, n, 0.03, "the program never sleeps");
    check(name, windows, rest, judge)
}

fn sleeps(windows: u64) -> Check {
    let name = "observe.sleeps_in_nanosleep";
    let asleep = || {
        let found = command(&["sleep", "60"])?;
        let on = found.threads.first()?.asleep_on.first()?.clone();
        Some(if on.on.contains("nanosleep") { on.share } else { 0.0 })
    };
    let judge = |value, n| Check::at_least(name, value, n, 0.97, "the program only sleeps");
    check(name, windows, asleep, judge)
}

fn shares_a_cpu(windows: u64) -> Check {
    let name = "observe.waits_half_of_the_time";
    let script = format!("taskset -c 0 sh -c '{SPIN}' & taskset -c 0 sh -c '{SPIN}' & wait");
    let waiting = || {
        let found = command(&["sh", "-c", &script])?;
        let two = found.threads.get(..2)?;
        Some(two.iter().map(|thread| share(thread, ThreadState::Waiting)).fold(1.0, f64::min))
    };
    let judge = |value, n| Check::at_least(name, value, n, 0.45, "two threads compete for one CPU");
    check(name, windows, waiting, judge)
}

fn own_cost(windows: u64) -> Check {
    let name = "observe.own_cost_cpus";
    let cost = || command(&["sh", "-c", SPIN])?.observer.as_number();
    // The limit is twice the target, because these windows are short and this may be a debug build.
    let judge = |value, n| Check::at_most(name, value, n, 0.05, "windows of one second");
    check(name, windows, cost, judge)
}

/// A control group with a quota of 20 % of a CPU, removed on drop.
struct Group(String);

impl Group {
    fn new() -> Option<Self> {
        let id = std::process::id();
        for (folder, file, text) in [
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "20000"),
            ("/sys/fs/cgroup", "cpu.max", "20000 100000"),
        ] {
            let path = format!("{folder}/linerate-accuracy-{id}");
            if !Path::new(folder).join("cgroup.procs").exists() || fs::create_dir(&path).is_err() {
                continue;
            }
            let group = Self(path);
            if fs::write(format!("{}/{file}", group.0), text).is_ok() {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes may take a moment to leave the group.
        std::thread::sleep(Duration::from_millis(50));
        drop(fs::remove_dir(&self.0));
    }
}

fn throttled(windows: u64) -> Check {
    let name = "observe.throttled_by_a_quota";
    let Some(group) = Group::new() else {
        return Check::skip(name, "no cgroup can be created here");
    };
    let script = format!("echo $$ > {}/cgroup.procs; exec sh -c '{SPIN}'", group.0);
    let error = || {
        let mut child = std::process::Command::new("sh").args(["-c", &script]).spawn().ok()?;
        std::thread::sleep(Duration::from_millis(100));
        let found = watch(Target::Pids(vec![child.id()]));
        drop(child.kill());
        drop(child.wait());
        let found = found?;
        let stopped = found.quotas.first()?.throttled_s / found.elapsed_s;
        Some((share(found.threads.first()?, ThreadState::Throttled) - stopped).abs())
    };
    let why = "the cgroup has one thread, so both times are equal";
    check(name, windows, error, |value, n| Check::at_most(name, value, n, 0.05, why))
}

fn overflows(windows: u64) -> Check {
    let name = "observe.drops_of_a_socket";
    let error = || {
        let receiver = UdpSocket::bind("127.0.0.1:0").ok()?;
        receiver.set_nonblocking(true).ok()?;
        let sender = UdpSocket::bind("127.0.0.1:0").ok()?;
        sender.connect(receiver.local_addr().ok()?).ok()?;
        let own = std::process::id();
        let watching = std::thread::spawn(move || watch(Target::Pids(vec![own])));
        std::thread::sleep(WINDOW / 2);
        let sent = (0..5000).filter(|_| sender.send(&[0; 100]).is_ok()).count();
        let found = watching.join().ok()??;
        let mut buffer = [0; 200];
        let received = std::iter::from_fn(|| receiver.recv(&mut buffer).ok()).count();
        let local = receiver.local_addr().ok()?.to_string();
        let socket = found
            .sockets
            .iter()
            .find(|socket| socket.kind == SocketKind::Udp && socket.local == local)?;
        Some(socket.drops?.abs_diff((sent - received) as u64) as f64)
    };
    let why = "the packets sent minus those received are the drops";
    check(name, windows, error, |value, n| Check::at_most(name, value, n, 0.0, why))
}
