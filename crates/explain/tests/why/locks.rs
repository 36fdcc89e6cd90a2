// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that wait for a mutex whose holder is known.

use crate::example::explain;
use crate::example::{observation, share, thread};
use linerate_record::why::Cause::*;
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{Observation, SleepTime, ThreadActivity, ThreadTime, WhyFinding};

fn first(seen: &Observation) -> WhyFinding {
    explain(seen).remove(0)
}

fn sleep(on: &str, object: &str, share: f64) -> SleepTime {
    SleepTime { on: on.to_owned(), share, object: Some(object.to_owned()), holder: None }
}

fn at_mutex(address: &str, holder: u32, share: f64) -> SleepTime {
    SleepTime { holder: Some(holder), ..sleep("futex", &format!("mutex {address}"), share) }
}

fn asleep(tid: u32, on: SleepTime, wakes: u64) -> ThreadActivity {
    let mut thread = thread("worker", tid, &[(User, 1.0 - on.share), (Asleep, on.share)]);
    (thread.pid, thread.asleep_on, thread.voluntary_switches) = (100, vec![on], wakes);
    thread
}

/// Returns a program whose thread 101 holds a mutex for which three others wait.
fn behind(holder: SleepTime) -> Observation {
    let mut threads = vec![asleep(101, holder, 500)];
    threads.extend((102..105).map(|tid| asleep(tid, at_mutex("0x7f00", 101, 0.9), 500)));
    observation(threads)
}

#[test]
fn the_holder_of_a_mutex_is_named_with_what_it_does() {
    let finding = first(&behind(sleep("ioctl", "/dev/accelerator", 0.8)));
    assert_eq!(finding.cause, UserLock, "{}", finding.sentence);
    let parts = [
        "2.7 of them",
        "(mutex 0x7f00)",
        "held by thread worker (101), which sleeps in \
                  ioctl (/dev/accelerator)",
    ];
    assert!(parts.iter().all(|part| finding.sentence.contains(part)), "{}", finding.sentence);
}

#[test]
fn the_followers_of_a_thread_that_waits_for_requests_are_idle() {
    let finding = first(&behind(sleep("accept4", "tcp 0.0.0.0:80", 0.8)));
    assert_ne!(finding.cause, UserLock, "{}", finding.sentence);
}

#[test]
fn threads_that_wait_for_each_other_are_in_a_deadlock() {
    let idle = asleep(100, sleep("accept4", "unix /run/server", 1.0), 0);
    let mut seen = observation(vec![idle]);
    seen.threads.push(asleep(101, at_mutex("0x7f40", 102, 1.0), 0));
    seen.threads.extend((102..105).map(|tid| asleep(tid, at_mutex("0x7f00", 101, 1.0), 0)));
    let finding = first(&seen);
    assert_eq!(finding.cause, UserLock, "{}", finding.sentence);
    assert!(finding.sentence.contains("a deadlock"), "{}", finding.sentence);
    assert!(finding.fix.is_some_and(|fix| fix.contains("same order")), "{}", finding.sentence);
    // If the holder of the second mutex makes progress, this is a chain and not a deadlock, and
    // that holder is reported.
    seen.threads[2].asleep_on = vec![sleep("fsync", "/var/log/requests", 0.8)];
    let lock = explain(&seen).into_iter().find(|finding| finding.cause == UserLock).unwrap();
    let holder = "held by thread worker (102), which sleeps in fsync (/var/log/requests)";
    assert!(lock.sentence.contains(holder), "{}", lock.sentence);
    // A thread may also wait for itself.
    let itself = observation(vec![asleep(100, at_mutex("0x7f00", 100, 1.0), 0)]);
    assert!(first(&itself).sentence.contains("a deadlock"), "{}", first(&itself).sentence);
}

#[test]
fn threads_that_sleep_on_a_condition_variable_do_not_contend() {
    let with = |object: Option<&str>| {
        let mut seen = crate::seeds::user_lock();
        for thread in &mut seen.threads {
            thread.asleep_on[0].object = object.map(str::to_owned);
        }
        explain(&seen).swap_remove(0)
    };
    assert_eq!(with(Some("mutex 0x7f00")).cause, UserLock);
    assert_ne!(with(Some("futex 0x7f00")).cause, UserLock);
    // Unknown, because the calls' arguments could not be read.
    let unknown = with(None);
    assert_eq!(unknown.cause, CannotTell, "{}", unknown.sentence);
    assert!(unknown.sentence.contains("user_lock"), "{}", unknown.sentence);
}

#[test]
fn waits_for_kernel_locks_whose_holders_wait_for_cpus_are_not_contention() {
    let with = |waiting: f64| {
        let mut seen = crate::seeds::kernel_lock();
        for one in &mut seen.threads {
            one.time = [(Kernel, 0.9 - waiting), (Waiting, waiting), (Asleep, 0.1)]
                .map(|(state, value)| ThreadTime { state, share: share(value) })
                .to_vec();
        }
        explain(&seen).swap_remove(0).cause
    };
    assert_eq!(with(0.05), KernelLock);
    assert_ne!(with(0.4), KernelLock);
}

#[test]
fn a_busy_thread_with_an_idle_twin_may_have_all_the_flows() {
    let mut seen = crate::seeds::single_thread();
    let finding = first(&seen);
    assert_eq!(finding.cause, SingleThread, "{}", finding.sentence);
    assert!(!finding.sentence.contains("is idle"), "{}", finding.sentence);
    let name = seen.threads[0].name.clone();
    let mut twin = thread(&name, 999, &[(Asleep, 1.0)]);
    twin.asleep_on = vec![sleep("epoll_wait", "[eventpoll]", 1.0)];
    seen.threads.push(twin);
    let finding = first(&seen);
    assert_eq!(finding.cause, SingleThread, "{}", finding.sentence);
    assert!(finding.sentence.contains(&format!("named {name} is idle")), "{}", finding.sentence);
}

#[test]
fn sleeps_that_cannot_be_read_may_be_waits_for_a_lock() {
    let with = |is_unread: bool| {
        let mut seen = crate::seeds::user_lock();
        for thread in &mut seen.threads {
            thread.asleep_on.clear();
            thread.samples = 2000;
            thread.functions =
                crate::example::functions(&[("libc.so.6", "pthread_mutex_lock", 0.25)]);
        }
        if is_unread {
            seen.unread.push(linerate_record::why::Unread {
                what: "system_calls_asleep".to_owned(),
                reason: "by hand".to_owned(),
                fix: None,
            });
        }
        explain(&seen).swap_remove(0).sentence
    };
    assert!(with(true).contains("user_lock"), "{}", with(true));
    assert!(!with(false).contains("user_lock"), "{}", with(false));
}
