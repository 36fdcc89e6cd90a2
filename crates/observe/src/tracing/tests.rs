// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// This thread makes system calls and wakes from sleep on a busy CPU, as some kernels report no
/// events on idle ones. Events are read often, as other tests fill the buffer of all threads.
#[test]
fn the_own_thread_is_traced_where_that_is_permitted() {
    let id = ThreadId { pid: std::process::id(), tid: linerate_linux::thread_id() };
    let cpus: Vec<u32> = linerate_linux::allowed_cpus().unwrap_or_default();
    let (mut tracing, unread) = Tracing::start(&[id], &cpus, false);
    let is_on_host = tracing.scheduler.is_some();
    assert_eq!(unread.iter().any(|one| one.what == "scheduler_of_host"), !is_on_host);
    if let Some(refused) = unread.iter().find(|one| one.what != "scheduler_of_host") {
        assert!(!refused.reason.is_empty());
        println!("SKIP: {}: {}", refused.what, refused.reason);
        return;
    }
    let Some(&cpu) = cpus.first() else { return println!("SKIP: no CPU is allowed") };
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            linerate_linux::pin_current_thread(cpu).unwrap();
            while !is_done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        linerate_linux::pin_current_thread(cpu).unwrap();
        for sleep in 1..=40 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            if sleep % 8 == 0 {
                tracing.end_slice();
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let traced = tracing.finish(|number| number.to_string());
    let own = &traced.threads[&id.tid];
    assert!(own.system_calls >= Some(40), "{own:?}");
    let waits = own.waits_us_log2.iter().sum::<u64>();
    assert!(if is_on_host { waits > 10 } else { waits == 0 }, "{own:?}");
    let calls = traced.events.iter().find(|event| event.event == SYSTEM_CALLS);
    assert_eq!(calls.map(|event| event.count), own.system_calls);
}

/// Calls that fail, as those of a program that polls its socket, receive nothing.
#[test]
fn successful_receive_calls_are_counted() {
    use std::net::UdpSocket;
    let id = ThreadId { pid: std::process::id(), tid: linerate_linux::thread_id() };
    let (mut tracing, _) = Tracing::start(&[id], &[], true);
    let is_counted =
        tracing.tallies.iter().any(|tally| tally.wanted.filter.is_some() && tally.is_open());
    if !is_counted {
        return println!("SKIP: system calls cannot be traced");
    }
    tracing.begin();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    let mut received = 0;
    for turn in 0..90 {
        if turn % 3 == 0 {
            socket.send_to(b"x", address).unwrap();
        }
        received += u64::from(socket.recv(&mut [0; 4]).is_ok());
    }
    assert_eq!(received, 30);
    tracing.end_slice();
    let traced = tracing.finish(|number| number.to_string());
    let is_it = |event: &&KernelEvent| event.filter.as_deref() == Some(KernelEvent::RECEIVED);
    assert_eq!(traced.events.iter().find(is_it).map(|event| event.count), Some(30));
}

#[test]
fn cpus_that_are_not_traced_are_reported() {
    assert_eq!(not_traced(MAX_CPUS), []);
    let unread = not_traced(MAX_CPUS + 1);
    assert_eq!(unread[0].what, "scheduler_of_other_cpus");
    assert_eq!(unread[1].reason, "only the first 64 of 65 CPUs were traced");
}

#[test]
fn scheduler_events_are_read_only_where_their_thread_ids_are_valid() {
    let unread = |link: &str| in_pid_namespace(Some(Path::new(link)));
    assert_eq!((unread("pid:[4026531836]"), in_pid_namespace(None)), (None, None));
    assert_eq!(unread("pid:[4026532281]").unwrap().what, "scheduler_of_host");
}

#[test]
fn what_came_before_the_window_is_not_counted() {
    let id = ThreadId { pid: std::process::id(), tid: linerate_linux::thread_id() };
    let (mut tracing, _) = Tracing::start(&[id], &[], false);
    for _ in 0..5000 {
        std::thread::yield_now();
    }
    tracing.begin();
    tracing.end_slice();
    let traced = tracing.finish(|number| number.to_string());
    let calls = traced.threads.get(&id.tid).and_then(|own| own.system_calls);
    match calls {
        Some(calls) => assert!(calls < 1000, "{calls}"),
        None => println!("SKIP: system calls cannot be counted here"),
    }
}

#[test]
fn each_call_of_a_loop_has_its_share() {
    let id = ThreadId { pid: std::process::id(), tid: linerate_linux::thread_id() };
    let (mut tracing, _) = Tracing::start(&[id], &[], false);
    tracing.begin();
    let path = Path::new("/proc/self/exe");
    for turn in 0..400 {
        // Four calls: sched_yield, readlink (twice), sched_yield.
        std::thread::yield_now();
        assert!(path.read_link().is_ok());
        assert!(path.read_link().is_ok());
        std::thread::yield_now();
        if turn % 50 == 0 {
            tracing.end_slice();
        }
    }
    tracing.end_slice();
    let traced = tracing.finish(|number| number.to_string());
    let calls = traced.events.iter().filter(|event| event.event == SYSTEM_CALLS);
    let counts: Vec<u64> = calls.filter(|one| one.filter.is_some()).map(|one| one.count).collect();
    if counts.is_empty() {
        return println!("SKIP: system calls cannot be counted here");
    }
    // The other calls are those of reading the events.
    assert!(counts.len() >= 2 && counts[..2].iter().all(|count| *count > 400), "{counts:?}");
}
