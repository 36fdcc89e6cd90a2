// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use linerate_linux::{thread_cpu_time_ns, thread_id};

/// Number of a thread that does not exist.
const NO_THREAD: u32 = 4_100_000;

/// Returns events for the first of `tids` that can be sampled, not yet opened; `None`, with a note,
/// if sampling is forbidden.
fn chosen(tids: &[u32]) -> Option<Events> {
    let events = Events::choose(tids, 0, SampleRate::Nanoseconds(1_000_000), 0);
    if let Err(error) = &events {
        eprintln!("SKIP: {error}");
    }
    events.ok()
}

#[test]
fn threads_that_have_ended_own_no_rings() {
    let root = &Root::new(std::path::Path::new("/"));
    let cpus = root.cpu_list("sys/devices/system/cpu/online").unwrap();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || wait.recv());
    let tids = threads(root, &[std::process::id()]);
    assert!(tids.len() >= 2);
    let Some(mut events) = chosen(&tids) else { return };
    let tids: Vec<u32> = std::iter::once(NO_THREAD).chain(tids).collect();
    events.open_threads(&tids, &cpus).unwrap();
    drop(done);
    let _ = other.join();
    assert_eq!(events.rings.len(), cpus.len());
    assert!(events.threads.len() >= 2);
    assert!(events.threads.iter().all(|of_thread| of_thread.len() == cpus.len()));
    assert_eq!(events.unread(), []);
}

#[test]
fn threads_whose_events_are_refused_are_listed_and_not_sampled_in_part() {
    let root = &Root::new(std::path::Path::new("/"));
    let cpus = root.cpu_list("sys/devices/system/cpu/online").unwrap();
    let own = threads(root, &[std::process::id()]);
    let Some(mut events) = chosen(&own) else { return };
    events.open_threads(&own[..1], &cpus).unwrap();
    // The kernel refuses stack copies whose size is no multiple of 8.
    events.stack_bytes = 7;
    events.open_threads(&[own[0], own[0]], &cpus).unwrap();
    assert_eq!((events.threads.len(), events.rings.len()), (1, cpus.len()));
    let unread = events.unread();
    assert!(unread[0].reason.starts_with("2 threads were not sampled: "), "{unread:?}");
}

#[test]
fn samples_and_cpu_time_before_the_window_do_not_count() {
    let root = &Root::new(std::path::Path::new("/"));
    let cpus = root.cpu_list("sys/devices/system/cpu/online").unwrap();
    let spin = |ns: u64| {
        let end = linerate_linux::thread_cpu_time_ns() + ns;
        while linerate_linux::thread_cpu_time_ns() < end {}
    };
    // Only this thread, since the other tests of this process run at the same time.
    let tid = std::fs::read_link("/proc/thread-self").unwrap();
    let tid: u32 = tid.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let Some(mut events) = chosen(&[tid]) else { return };
    events.open_threads(&[tid], &cpus).unwrap();
    let samples = |events: &mut Events| {
        let mut samples = 0;
        events.drain(|item| samples += u64::from(matches!(item.what, What::Sample { .. })));
        samples
    };
    spin(100_000_000);
    let mut others = 0;
    events.begin(|_| others += 1);
    assert_eq!(others, 0);
    let found = (events.run_ns(), samples(&mut events));
    assert!(found.0 < 50_000_000 && found.1 < 50, "{found:?}");
    spin(100_000_000);
    let found = (events.run_ns(), samples(&mut events));
    assert!(found.0 > 80_000_000 && found.1 > 20, "{found:?}");
}

#[test]
fn samples_are_a_fixed_number_of_events_apart() {
    let kind = Kind { per_second: 3e9, ..Kind::new(CYCLES, "cycles") };
    assert_eq!(kind.every(1_000_000), Every::Events(3_000_000));
    assert_eq!(Kind::new(CPU_CLOCK, CPU_CLOCK_NAME).every(1_000_000), Every::Events(1_000_000));
}

#[test]
fn periods_vary_little_and_no_longer_than_a_fiftieth_of_the_time() {
    let root = &Root::new(std::path::Path::new("/"));
    let cpus = root.cpu_list("sys/devices/system/cpu/online").unwrap();
    let own = threads(root, &[std::process::id()]);
    let Some(mut events) = chosen(&own) else { return };
    events.open_threads(&vec![own[0]; 100], &cpus).unwrap();
    let mut periods = Vec::new();
    for _ in 0..100 {
        // No time at all since the last call, which is enough for one event.
        events.varied_ns = u64::MAX;
        events.vary();
        periods.push(events.period_ns());
    }
    assert!(periods.iter().all(|period| (900_000..=1_100_000).contains(period)), "{periods:?}");
    periods.dedup();
    assert!(periods.len() < 10, "each pass takes several calls: {periods:?}");
    events.varied_ns = 0;
    events.vary();
    assert_eq!(events.varied, 0);
}

#[test]
fn the_period_of_an_event_changes_only_after_enough_samples() {
    let root = &Root::new(std::path::Path::new("/"));
    let cpus = root.cpu_list("sys/devices/system/cpu/online").unwrap();
    let own = [thread_id()];
    let Some(mut events) = chosen(&own) else { return };
    events.open_threads(&own, &cpus).unwrap();
    let mut changes_after = |cpu_ms: u64| {
        let until_ns = thread_cpu_time_ns() + 1_000_000 * cpu_ms;
        while thread_cpu_time_ns() < until_ns {}
        let before = events.changed_ns.clone();
        // Enough time for all events.
        events.varied_ns = 0;
        events.vary();
        events.changed_ns.iter().zip(before).filter(|(now, before)| **now > *before).count()
    };
    changes_after(0);
    assert_eq!(changes_after(4), 0, "4 samples are too few for a change");
    // On two or more CPUs, the thread may have run on several of them.
    assert!(changes_after(60 * cpus.len() as u64) > 0);
}
