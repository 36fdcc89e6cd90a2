// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

fn figure(value: f64) -> Figure {
    Figure::exact("ratio", value, Tier::Sw, "test")
}

pub(crate) fn thread(user: f64, kernel: f64) -> ThreadActivity {
    let time = |state, value| ThreadTime { state, share: figure(value) };
    ThreadActivity {
        pid: 1,
        tid: 2,
        name: "worker".to_owned(),
        ran_on: vec![0],
        allowed: vec![0],
        elapsed_s: 5.0,
        time: vec![
            time(ThreadState::User, user),
            time(ThreadState::Kernel, kernel),
            time(ThreadState::Waiting, 1.0 - user - kernel),
        ],
        asleep_on: Vec::new(),
        ran_instead: Vec::new(),
        waits_us_log2: Vec::new(),
        voluntary_switches: 0,
        involuntary_switches: 0,
        minor_faults: 0,
        major_faults: 0,
        system_calls: None,
        functions: Vec::new(),
        samples: 0,
        busy: figure(0.25),
        cost_ns: figure(100.0),
        io_calls: None,
        lock_wait: None,
        memory: None,
        cipher_instructions: None,
        nice: None,
        policy: None,
        tracer: None,
        execs: None,
        sleep_samples: None,
    }
}

#[test]
fn user_time_is_divided_into_work_and_polling_and_still_sums() {
    let mut divided = thread(0.6, 0.2);
    divide_user(&mut divided, 0.5);
    let states: Vec<ThreadState> = divided.time.iter().map(|time| time.state).collect();
    use ThreadState::{Kernel, Polling, Waiting, Work};
    assert_eq!(states, [Work, Polling, Kernel, Waiting]);
    let sum: f64 = divided.time.iter().filter_map(|time| time.share.as_number()).sum();
    assert!((sum - 1.0).abs() < 1e-9);
    // Three quarters of 0.8 are polling, half of that in the kernel.
    assert!((share(&divided, Polling) - 0.3).abs() < 1e-9);
}

#[test]
fn polling_takes_no_more_than_user_time() {
    let mut divided = thread(0.1, 0.8);
    divide_user(&mut divided, 0.0);
    assert_eq!(share(&divided, ThreadState::Polling), 0.1);
    assert_eq!(share(&divided, ThreadState::Work), 0.0);
}

#[test]
fn a_thread_without_a_busy_share_stays_as_it_is() {
    let mut same = thread(0.5, 0.1);
    same.busy = Figure::absent("ratio", Tier::Sw, "test", "it sleeps");
    let before = same.clone();
    divide_user(&mut same, 0.0);
    assert_eq!(same, before);
}

#[test]
fn system_calls_have_names_or_numbers() {
    assert_eq!(call_name(-1), "-1");
    assert_eq!(call_name(987_654), "987654");
}
