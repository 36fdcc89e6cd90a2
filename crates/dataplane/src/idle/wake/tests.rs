// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks all interleavings of the wake-up protocol on a model of the machine, and stress-tests the
//! code.

use super::*;
use crate::ring::ring;
use std::collections::BTreeSet;

/// A machine with one store buffer per thread, as on x86 (TSO). A thread's stores become visible to
/// the other thread in order, at any later time, but no later than at a barrier of the storing
/// thread. A load may thus execute before an earlier store is visible. This is the only reordering
/// that could break the protocol, on any architecture.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// Number of items published and state of the worker, as they are in memory.
    tail: u32,
    state: u32,
    event: u32,
    /// Stores that are still in a store buffer: the worker's to `state` and the neighbour's to
    /// `tail`.
    state_buffer: Option<u32>,
    tail_buffer: Option<u32>,
    /// Next step of each thread, and the numbers of items pushed and taken.
    worker: Worker,
    neighbour: Neighbour,
    pushed: u32,
    taken: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worker {
    Poll,
    Barrier,
    Recheck,
    Wait,
    TakeBack,
    Clear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Neighbour {
    Push,
    Fence,
    Check,
    Swap,
    Signal,
    Done,
}

/// How the two threads order their stores and loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The worker executes a barrier on all CPUs; the neighbour has no barrier.
    Everywhere,
    /// Both threads execute a fence between their store and their load.
    Fences,
    /// Only the worker executes a fence.
    WorkerOnly,
    /// Only the neighbour executes a fence.
    NeighbourOnly,
}

const ITEMS: u32 = 3;

const START: State = State {
    tail: 0,
    state: AWAKE,
    event: 0,
    state_buffer: None,
    tail_buffer: None,
    worker: Worker::Poll,
    neighbour: Neighbour::Push,
    pushed: 0,
    taken: 0,
};

impl State {
    /// Returns the states that follow when one buffered store becomes visible.
    fn drains(&self) -> Vec<Self> {
        let mut next = Vec::new();
        if let Some(state) = self.state_buffer {
            next.push(Self { state, state_buffer: None, ..self.clone() });
        }
        if let Some(tail) = self.tail_buffer {
            next.push(Self { tail, tail_buffer: None, ..self.clone() });
        }
        next
    }

    fn worker_steps(&self, order: Order) -> Option<Self> {
        let mut next = self.clone();
        next.worker = match self.worker {
            Worker::Poll if self.taken == ITEMS => return None,
            Worker::Poll if self.tail > self.taken => {
                next.taken += 1;
                Worker::Poll
            }
            // The worker decides to sleep (S1). Its store buffer is empty, because the code
            // executes a swap before it falls asleep again.
            Worker::Poll => {
                next.state_buffer = Some(ASLEEP);
                Worker::Barrier
            }
            Worker::Barrier => {
                if order != Order::NeighbourOnly {
                    next.state = self.state_buffer.unwrap_or(self.state);
                    next.state_buffer = None;
                }
                if order == Order::Everywhere {
                    next.tail = self.tail_buffer.unwrap_or(self.tail);
                    next.tail_buffer = None;
                }
                Worker::Recheck
            }
            Worker::Recheck if self.tail > self.taken => Worker::TakeBack,
            Worker::Recheck => Worker::Wait,
            Worker::Wait if self.event == 0 => return None,
            Worker::Wait => Worker::TakeBack,
            Worker::TakeBack => {
                // A swap first drains the store buffer of its own thread.
                let before = self.state_buffer.unwrap_or(self.state);
                next.state_buffer = None;
                next.state = AWAKE;
                if before == AWAKE { Worker::Clear } else { Worker::Poll }
            }
            Worker::Clear => {
                next.event = 0;
                Worker::Poll
            }
        };
        Some(next)
    }

    fn neighbour_steps(&self, order: Order) -> Option<Self> {
        let mut next = self.clone();
        next.neighbour = match self.neighbour {
            Neighbour::Done => return None,
            Neighbour::Push if self.pushed == ITEMS => Neighbour::Done,
            // The buffer has one entry: an earlier store must become visible first.
            Neighbour::Push if self.tail_buffer.is_some() => return None,
            Neighbour::Push => {
                next.pushed += 1;
                next.tail_buffer = Some(next.pushed);
                Neighbour::Fence
            }
            Neighbour::Fence => {
                if matches!(order, Order::Fences | Order::NeighbourOnly) {
                    next.tail = self.tail_buffer.unwrap_or(self.tail);
                    next.tail_buffer = None;
                }
                Neighbour::Check
            }
            Neighbour::Check if self.state == ASLEEP => Neighbour::Swap,
            Neighbour::Check => Neighbour::Push,
            Neighbour::Swap => {
                next.tail = self.tail_buffer.unwrap_or(self.tail);
                next.tail_buffer = None;
                next.state = AWAKE;
                if self.state == ASLEEP { Neighbour::Signal } else { Neighbour::Push }
            }
            Neighbour::Signal => {
                next.event += 1;
                Neighbour::Push
            }
        };
        Some(next)
    }
}

/// Visits every reachable state. Returns the number of states, and a state in which no step is
/// possible although items are left, if there is one.
fn explore(order: Order) -> (usize, Option<State>) {
    let (mut seen, mut open, mut stuck) = (BTreeSet::from([START]), vec![START], None);
    while let Some(state) = open.pop() {
        let mut next = state.drains();
        next.extend(state.worker_steps(order));
        next.extend(state.neighbour_steps(order));
        if next.is_empty() && state.taken < ITEMS {
            stuck = Some(state);
        }
        for state in next {
            if seen.insert(state.clone()) {
                open.push(state);
            }
        }
    }
    (seen.len(), stuck)
}

#[test]
fn no_interleaving_loses_a_wake_up() {
    for order in [Order::Everywhere, Order::Fences] {
        let (states, stuck) = explore(order);
        assert!(states > 200, "{order:?}: {states} states");
        assert_eq!(stuck, None, "{order:?}");
    }
}

#[test]
fn one_barrier_alone_loses_wake_ups() {
    for order in [Order::WorkerOnly, Order::NeighbourOnly] {
        let (_, stuck) = explore(order);
        let stuck = stuck.unwrap_or_else(|| panic!("{order:?} should lose a wake-up"));
        assert_eq!((stuck.worker, stuck.neighbour), (Worker::Wait, Neighbour::Done));
        assert!(stuck.tail > stuck.taken, "no item is waiting: {stuck:?}");
    }
}

/// Pushes items one at a time, so that they hit different points of the worker's path to sleep.
/// Sleeps time out only long after the test should have ended, so a lost wake-up hangs the test.
fn stress(fences: bool, items: u32) -> u64 {
    let (mut producer, mut consumer) = ring::<u32>(64);
    let waker = Waker::new().unwrap();
    let waker = Arc::new(Waker { fences: fences || waker.fences, ..waker });
    let neighbour = Arc::clone(&waker);
    let thread = std::thread::spawn(move || {
        let mut random = linerate_record::random::Random::new(7);
        for item in 0..items {
            while producer.push(item).is_err() {
                std::thread::yield_now();
            }
            neighbour.notify();
            (0..random.below(400)).for_each(|_| std::hint::spin_loop());
        }
        producer.close();
        neighbour.notify();
    });
    let mut sleeper = Sleeper::new(&waker, std::iter::empty());
    let (mut expected, mut sleeps) = (0, 0);
    while !consumer.is_finished() {
        while let Some(item) = consumer.pop() {
            assert_eq!(item, expected);
            expected += 1;
        }
        let is_ready = || !consumer.is_empty() || consumer.is_finished();
        let slept = sleeper.sleep(is_ready, Duration::from_secs(600));
        assert!(!matches!(slept, Slept::InFull | Slept::Failed), "{slept:?}");
        sleeps += u64::from(slept == Slept::Woken);
    }
    assert_eq!(expected, items);
    thread.join().unwrap();
    sleeps
}

#[test]
fn every_push_to_a_sleeping_worker_wakes_it() {
    for fences in [false, true] {
        assert!(stress(fences, 30_000) > 0, "the worker never slept");
    }
}

#[test]
fn a_wake_up_before_the_sleep_is_not_lost_and_one_after_it_is_not_kept() {
    let waker = Arc::new(Waker::new().unwrap());
    let mut sleeper = Sleeper::new(&waker, std::iter::empty());
    let short = Duration::from_millis(1);
    waker.notify();
    assert_eq!(sleeper.sleep(|| false, short), Slept::InFull, "no signal for an awake worker");
    let woken = sleeper.sleep(
        || {
            waker.notify();
            false
        },
        Duration::from_secs(600),
    );
    assert_eq!(woken, Slept::Woken);
    assert_eq!(sleeper.sleep(|| true, short), Slept::NotAtAll);
    assert_eq!(sleeper.sleep(|| false, short), Slept::InFull);
}
