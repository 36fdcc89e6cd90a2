// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rates and service demands against hand-computed values, from synthetic accounts.

use super::*;

/// Returns a thread with these slices: ns, bytes, CPU time in ns.
fn thread(slices: impl IntoIterator<Item = (u64, u64, u64)>) -> Thread {
    let slice = |(ns, bytes, cpu_ns)| Slice { ns, bytes, cpu_ns, requests: 0 };
    let slices: Vec<Slice> = slices.into_iter().map(slice).collect();
    let sum = |of: fn(&Slice) -> u64| slices.iter().map(of).sum();
    Thread {
        elapsed_ns: sum(|slice| slice.ns),
        bytes: sum(|slice| slice.bytes),
        cpu_ns: sum(|slice| slice.cpu_ns),
        slices,
        ..Thread::default()
    }
}

fn visit(sender: Vec<Thread>, receiver: Vec<Thread>) -> Visit {
    let account = |threads| Account { threads, ..Account::default() };
    Visit { sender: account(sender), receiver: account(receiver) }
}

fn received(connections: Vec<Thread>) -> Estimate {
    gbps(&[visit(Vec::new(), connections)]).estimate().expect("a rate")
}

/// Half of the datagrams are lost: per KB received, the sender used twice its CPU time per KB sent.
#[test]
fn both_sides_of_the_demand_are_per_kb_received() {
    let sender = thread((0..20).map(|_| (1000, 2048, 500)));
    let receiver = thread((0..20).map(|_| (1000, 1024, 300)));
    let visit = visit(vec![sender], vec![receiver]);
    let figure = demand(std::slice::from_ref(&visit));
    assert!((figure.as_number().unwrap() - 0.8).abs() < 1e-9, "{figure:?}");
    assert!((visit.demand() - 0.8).abs() < 1e-9);
    let one_side = per_kb(std::slice::from_ref(&visit), true);
    assert!((one_side.as_number().unwrap() - 0.25).abs() < 1e-9, "{one_side:?}");
}

#[test]
fn nothing_received_has_no_demand() {
    let slices = || thread((0..20).map(|_| (1000, 0, 300)));
    let visits = [visit(vec![slices()], vec![slices()])];
    assert!(demand(&visits).reason.is_some_and(|reason| reason.contains("received")));
    assert_eq!(per_kb(&visits, false).as_number(), None);
    assert_eq!(gbps(&[visit(Vec::new(), Vec::new())]).as_number(), None);
    assert_eq!(gbps(&visits).as_number(), Some(0.0));
}

/// What one connection loses, the other gains: their sum is as steady as the path.
#[test]
fn connections_that_share_a_path_have_the_interval_of_their_sum() {
    let bytes = |slice: u64| 1000 + 100 * (slice * 7 % 10);
    let one = || thread((0..20).map(|slice| (1000, bytes(slice), 0)));
    let other = thread((0..20).map(|slice| (1000, 2900 - bytes(slice), 0)));
    let steady = received(vec![one(), other]);
    assert!((steady.value - 8.0 * 2.9).abs() < 1e-9);
    assert!(steady.high - steady.low < 1e-9, "{steady:?}");
    // Connections that rise and fall together.
    let (alone, both) = (received(vec![one()]), received(vec![one(), one()]));
    assert!((both.low - 2.0 * alone.low).abs() < 1e-9 && both.low < both.value, "{both:?}");
    assert!((both.high - 2.0 * alone.high).abs() < 1e-9);
}

/// A thread that is blocked at the end of a slice has fewer and longer slices.
#[test]
fn slices_of_different_lengths_are_added_by_time() {
    let short = [(10, 100, 0), (10, 300, 0), (10, 500, 0), (10, 700, 0)];
    let long = [(30, 300, 0), (10, 900, 0)];
    let threads = [thread(short), thread(long)];
    let found = rates(&threads, 4, |slice| slice.bytes as f64);
    let expected = [20.0, 40.0, 60.0, 160.0];
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
    assert_eq!(windows(threads.iter()), 2);
    assert!((received(threads.to_vec()).value - 8.0 * 70.0).abs() < 1e-9);
}
