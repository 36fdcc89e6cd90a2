// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of programs with known CPU time shares: loops in this program, and commands.

use linerate_observe::ObserveError;
use linerate_observe::profile::{
    Annotated, CallGraph, ProfileRequest, ProfileTarget, SampleRate, profile,
};
use linerate_record::profile::{CostClass, ProfileReport};
use linerate_trial::Watch;
use std::ffi::OsString;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Tests profile this process, so no other test may run in it at the same time.
static ALONE: Mutex<()> = Mutex::new(());

fn spin(iterations: u64) {
    for i in 0..iterations {
        black_box(i);
    }
}

#[inline(never)]
fn known_three() {
    spin(black_box(30_000));
    black_box(());
}

#[inline(never)]
fn known_two() {
    spin(black_box(20_000));
    black_box(());
}

#[inline(never)]
fn known_one() {
    spin(black_box(10_000));
    black_box(());
}

fn request(target: ProfileTarget, millis: u64, rate: SampleRate) -> ProfileRequest {
    let class_of = |_: &str, _: &str| CostClass::Program;
    let window = Duration::from_millis(millis);
    ProfileRequest {
        target,
        window,
        rate,
        call_graph: CallGraph::Auto,
        interface: None,
        class_of,
        annotated: Annotated::None,
        has_timeline: false,
    }
}

/// Returns the profile of a command; `None`, with a note, if sampling is forbidden.
fn of_command(words: &[&str], millis: u64) -> Option<ProfileReport> {
    let words = words.iter().map(OsString::from).collect();
    let request = request(ProfileTarget::Command(words), millis, SampleRate::PerSecond(1999));
    permitted(profile(&request, &Watch::unattended()))
}

fn permitted(profile: Result<ProfileReport, ObserveError>) -> Option<ProfileReport> {
    match profile {
        Ok(profile) => Some(profile),
        Err(ObserveError::NotSampled { reason, .. }) => {
            println!("SKIP: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the number of samples in functions whose names end with `name`, or in their callees.
fn samples_in(profile: &ProfileReport, name: &str) -> u64 {
    let found = profile.functions.iter().filter(|function| function.name.ends_with(name));
    found.map(|function| function.samples_with_callees).sum()
}

/// Returns whether `hits` out of `all` samples fit a share, allowing 4.5 standard deviations, plus
/// a few samples for programs with phases.
fn fits(hits: u64, all: u64, share: f64) -> bool {
    let deviation = (share * (1.0 - share) * all as f64).sqrt();
    (hits as f64 - share * all as f64).abs() < 4.5 * deviation + 3.0
}

#[test]
fn loops_have_the_shares_of_their_lengths() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let stop = &AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name("known-loops".to_owned());
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                known_three();
                known_two();
                known_one();
            }
        };
        worker.spawn_scoped(scope, work).unwrap();
        let own = ProfileTarget::Pids(vec![std::process::id()]);
        let found =
            profile(&request(own, 1500, SampleRate::Nanoseconds(1_000_000)), &Watch::unattended());
        stop.store(true, Ordering::Relaxed);
        found
    });
    let Some(found) = permitted(found) else { return };
    let [three, two, one] =
        ["known_three", "known_two", "known_one"].map(|name| samples_in(&found, name));
    let all = three + two + one;
    assert!(all > 200, "{all} samples of {}", found.samples);
    for (hits, share) in [(three, 3.0 / 6.0), (two, 2.0 / 6.0), (one, 1.0 / 6.0)] {
        assert!(fits(hits, all, share), "{three} {two} {one}");
    }
    assert!(found.threads.iter().any(|thread| thread.name == "known-loops"), "{:?}", found.threads);
    assert_eq!(found.lost_samples, 0);
    let calls: u64 = found.calls.iter().map(|node| node.samples).sum();
    let functions: u64 = found.functions.iter().map(|function| function.samples).sum();
    assert_eq!((calls, functions), (found.samples, found.samples));
}

/// Alternates between work and sleep thousands of times per second, and starts a program after a
/// while.
fn switch_often(stop: &AtomicBool) {
    let mut child = None;
    for turn in 0_u32.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // Ten times, so that little of the time is spent in switches, with interrupts off, where
        // the kernel cannot sample.
        for _ in 0..10 {
            known_three();
            known_one();
        }
        std::thread::sleep(Duration::from_micros(50));
        // After 200 ms or more, when the threads have been observed.
        if turn == 2000 {
            let line = "head -c 200000000 /dev/zero | sha256sum > /dev/null";
            child = std::process::Command::new("sh").args(["-c", line]).spawn().ok();
        }
    }
    let ended = child.map(|mut child| child.wait());
    assert!(matches!(ended, Some(Ok(_))), "{ended:?}");
}

#[test]
fn threads_that_switch_often_are_sampled_by_cpu_with_what_they_start() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let stop = &AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name("switches".to_owned());
        worker.spawn_scoped(scope, || switch_often(stop)).unwrap();
        // Wait until the thread has started.
        std::thread::sleep(Duration::from_millis(50));
        let own = ProfileTarget::Pids(vec![std::process::id()]);
        // A higher rate would not help: in some virtual machines, a sample takes 140 us with
        // interrupts off, during which no other sample can be taken.
        let found = profile(&request(own, 3000, SampleRate::PerSecond(499)), &Watch::unattended());
        stop.store(true, Ordering::Relaxed);
        found
    });
    let Some(found) = permitted(found) else { return };
    if !found.sampling.is_by_cpu {
        println!("SKIP: CPUs cannot be sampled here, or cycles are sampled instead");
        return;
    }
    let [three, one] = ["known_three", "known_one"].map(|name| samples_in(&found, name));
    assert!(three + one > 50, "{three} {one} of {}", found.samples);
    assert!(fits(three, three + one, 0.75), "{three} {one}");
    for name in ["switches", "sha256sum"] {
        let thread = found.threads.iter().find(|thread| thread.name == name);
        assert!(thread.is_some_and(|thread| thread.samples > 20), "{name}: {:?}", found.threads);
    }
    // There are no samples of other programs, which run on the same CPUs.
    let ids = [std::process::id()];
    let is_own = |pid: &u32| ids.contains(pid) || found.sampled.pids.contains(pid);
    assert!(found.threads.iter().all(|thread| is_own(&thread.pid)));
    assert!(found.sampled.pids.len() <= 4, "{:?}", found.sampled.pids);
    // The CPU time is counted, not sampled; each sample stands for a period of it.
    let sampled_s = found.samples as f64 / found.sampling.rate_hz;
    let counted_s = found.cpu_s;
    assert!((sampled_s / counted_s - 1.0).abs() < 0.2, "{sampled_s} s sampled of {counted_s} s");
}

#[test]
fn programs_that_a_command_starts_are_sampled_and_named() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Two programs in succession, each in its own process, which exits.
    let line = "head -c 300000000 /dev/zero | sha256sum; head -c 300000000 /dev/zero | md5sum";
    let Some(found) = of_command(&["sh", "-c", line], 20_000) else { return };
    assert_eq!(found.sampled.ended.as_deref(), Some("exit status 0"));
    for name in ["sha256sum", "md5sum"] {
        let thread = found.threads.iter().find(|thread| thread.name == name);
        let thread = thread.unwrap_or_else(|| panic!("{name}: {:?}", found.threads));
        assert!(thread.samples > 20, "{thread:?}");
        // The process has exited by the time its functions are looked up.
        let module = |module: &str| module.contains(name) || module.contains("libcrypto");
        let of_it = found.functions.iter().filter(|function| module(&function.module));
        assert!(of_it.map(|function| function.samples).sum::<u64>() > 10, "{name}");
    }
    assert!(found.sampled.pids.len() >= 5, "{:?}", found.sampled.pids);
}

#[test]
fn time_of_processes_too_short_for_a_sample_is_said() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let line = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done";
    let words = ["sh", "-c", line].map(OsString::from).to_vec();
    // A sample is due every 5 ms, but the processes run for about 1 ms each.
    let request =
        request(ProfileTarget::Command(words), 20_000, SampleRate::Nanoseconds(5_000_000));
    match profile(&request, &Watch::unattended()) {
        // The shell itself may be too short for a sample.
        Err(ObserveError::NoSamples { .. }) => {}
        Err(ObserveError::NotSampled { reason, .. }) => println!("SKIP: {reason}"),
        Err(error) => panic!("{error}"),
        Ok(found) if found.cpu_s < 0.25 => println!("SKIP: {} s is too little", found.cpu_s),
        Ok(found) => {
            let said = found.unread.iter().any(|unread| unread.what == "short_threads");
            assert!(said, "{} samples of {} s", found.samples, found.cpu_s);
        }
    }
}

#[test]
fn a_program_under_a_wrapper_is_named_after_the_process_that_works() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let words = ["timeout", "9", "sha256sum", "/dev/zero"];
    let Some(found) = of_command(&words, 500) else { return };
    assert_eq!(found.sampled.name, "sha256sum");
}

#[test]
fn a_program_that_becomes_another_is_named_by_that() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(found) = of_command(&["sh", "-c", "exec sha256sum /dev/zero"], 500) else { return };
    assert_eq!(found.sampled.name, "sha256sum");
    assert_eq!((found.sampled.pids.len(), &found.sampled.ended), (1, &None));
    let unknown = samples_in(&found, "[unknown]");
    assert!(unknown * 20 <= found.samples, "{unknown} of {}", found.samples);
}

#[test]
fn cpu_time_after_the_window_does_not_count() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // The shell ignores SIGTERM, so it goes on for 2 s after the window.
    let line = "trap '' TERM; while :; do :; done";
    let Some(found) = of_command(&["sh", "-c", line], 500) else { return };
    assert!(found.cpu_s <= 1.02 * found.elapsed_s, "{} s of {} s", found.cpu_s, found.elapsed_s);
    assert!(found.unread.iter().all(|unread| unread.what != "short_threads"));
}

#[test]
fn a_program_that_does_nothing_has_no_profile() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let own = ProfileTarget::Command(["sleep", "5"].map(OsString::from).to_vec());
    // The first sample would be due after 10 s of CPU time.
    let found =
        profile(&request(own, 200, SampleRate::Nanoseconds(10_000_000_000)), &Watch::unattended());
    match found {
        Err(ObserveError::NotSampled { reason, .. }) => println!("SKIP: {reason}"),
        Err(error) => assert!(error.to_string().starts_with("no samples: sleep used "), "{error}"),
        Ok(found) => panic!("{found:?}"),
    }
}

#[test]
fn what_cannot_be_sampled_is_refused() {
    // Until execve(2) fails, the process of the command that cannot be started is a child of this
    // one.
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let refused = |target| {
        let request = request(target, 100, SampleRate::PerSecond(99));
        profile(&request, &Watch::unattended()).unwrap_err()
    };
    let command = ProfileTarget::Command(vec!["no-such-command-anywhere".into()]);
    assert!(matches!(refused(command), ObserveError::NotStarted { .. }));
    assert_eq!(refused(ProfileTarget::Pids(Vec::new())), ObserveError::NoProcess);
    assert_eq!(refused(ProfileTarget::Pids(vec![4_100_000])), ObserveError::Gone(4_100_000));
    let name = "no-such-name".to_owned();
    assert_eq!(refused(ProfileTarget::Name(name.clone())), ObserveError::NoSuchName(name));
}
