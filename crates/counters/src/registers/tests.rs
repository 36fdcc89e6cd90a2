// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests register reads with synthetic registers and known counts.

use super::module::tests::{TEXT, event};
use super::open::stands_still;
use super::*;
use crate::refusal::{Refusal, RegisterRefusal};
use linerate_linux::perf::{RAW, Selector};
use linerate_linux::{allowed_cpus, pin_current_thread};
use linerate_record::Tier;
use proptest::prelude::*;

/// A synthetic CPU with running counters, and a thread that occasionally leaves it.
#[derive(Debug, Default)]
struct Made {
    /// Events on the CPU, caused by any thread.
    happened: Cell<u64>,
    now_ns: Cell<u64>,
    switches: Cell<u64>,
    is_closed: Cell<bool>,
}

impl Made {
    fn run(&self, events: u64, ns: u64) {
        self.happened.set(self.happened.get().wrapping_add(events));
        self.now_ns.set(self.now_ns.get() + ns);
    }
}

impl Bank for &Made {
    fn counter(&self, number: u32) -> Option<u64> {
        let wide = number == CYCLE_COUNTER && cfg!(target_arch = "aarch64");
        let happened = self.happened.get();
        (!self.is_closed.get()).then_some(if wide { happened } else { happened & 0xffff_ffff })
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn switches(&self) -> u64 {
        self.switches.get()
    }
}

/// Event between two reads.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// The thread causes this many events within this many ns.
    Own(u64, u64),
    /// The thread is off the CPU while other threads cause events; events, ns.
    Away(u64, u64),
}

fn work() -> impl Strategy<Value = Work> {
    let rate = MOST_PER_NS[1];
    let own = (1u64..100_000_000, 0..rate).prop_map(move |(ns, rate)| Work::Own(ns * rate, ns));
    let long = (0u64..1 << 36).prop_map(|events| Work::Own(events, events / 4));
    let away = (0u64..1 << 36).prop_map(|events| Work::Away(events, events / 4));
    prop_oneof![8 => own, 1 => long, 1 => away]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// For any sequence and any number of wraps, counts between reads with equal marks belong to
    /// the thread itself.
    #[test]
    fn counts_are_the_threads_own_or_the_marks_differ(
        start: u64, works in prop::collection::vec(work(), 1..12),
    ) {
        let made = Made { happened: Cell::new(start), ..Made::default() };
        made.now_ns.set(1 << 40);
        let registers = Registers::new(&made, &[(3, 0)]).unwrap();
        let mut first = Counts::default();
        let before = registers.first(&mut first).unwrap();
        let mut own = 0u64;
        let mut should_differ = false;
        for work in works {
            match work {
                Work::Own(events, ns) => {
                    own += events;
                    should_differ |= ns >= registers.apart_ns;
                    made.run(events, ns);
                }
                Work::Away(events, ns) => {
                    made.switches.set(made.switches.get() + 1);
                    should_differ = true;
                    made.run(events, ns);
                }
            }
            let mut second = Counts::default();
            let after = registers.second(&mut second).unwrap();
            prop_assert_eq!(after != before, should_differ);
            if after == before {
                prop_assert_eq!(second[3].wrapping_sub(first[3]), own);
            }
        }
    }
}

#[test]
fn a_gap_before_the_first_of_two_reads_does_not_invalidate_them() {
    let made = Made::default();
    let registers = Registers::new(&made, &[(0, 0), (1, CYCLE_COUNTER)]).unwrap();
    made.run(1 << 33, 1 << 34);
    let (mut first, mut second) = (Counts::default(), Counts::default());
    let before = registers.first(&mut first).unwrap();
    made.run(77, 100);
    assert_eq!(registers.second(&mut second), Some(before));
    assert_eq!((second[0] - first[0], second[1] - first[1]), (77, 77));
    assert!(registers.has(0) && registers.has(1) && !registers.has(2));
}

#[test]
fn a_closed_register_has_no_count() {
    let made = Made::default();
    let registers = Registers::new(&made, &[(0, 2)]).unwrap();
    made.is_closed.set(true);
    assert_eq!(registers.first(&mut Counts::default()), None);
    assert_eq!(registers.second(&mut Counts::default()), None);
    assert!(Registers::new(&made, &[(0, 2)]).is_none());
}

#[test]
fn detects_a_stuck_register() {
    /// Counts its reads: counter 0 returns the number of reads so far, counter 1 is stuck, and the
    /// others are not accessible.
    struct Reads(Cell<u64>);
    impl Bank for Reads {
        fn counter(&self, number: u32) -> Option<u64> {
            self.0.set(self.0.get() + 1);
            (number < 2).then_some(if number == 1 { 7 } else { self.0.get() })
        }
        fn now_ns(&self) -> u64 {
            0
        }
        fn switches(&self) -> u64 {
            0
        }
    }
    let still = [0, 1, 2].map(|number| stands_still(&Reads(Cell::new(0)), number));
    assert_eq!(still, [false, true, false], "inaccessible registers are reported differently");
    let stops = |code| module::never_stops(&event("e", Selector::new(RAW, code)));
    assert_eq!([0x08, 0x11, 0x03].map(stops), [true, true, false]);
}

/// Even at the maximum rate, at most 2^32 events occur within the maximum time between two reads.
#[test]
fn reads_are_never_too_far_apart() {
    for number in [0, CYCLE_COUNTER] {
        let counter = Counter::new(0, number);
        let [cycles, events] = MOST_PER_NS.map(u128::from);
        let rate = if number == CYCLE_COUNTER { cycles } else { events };
        let most = u128::from(counter.apart_ns()) * rate;
        assert!(counter.is_wide || most <= 1 << 32, "{counter:?}");
    }
}

/// Returns why `instructions` are refused on a thread that may run on one CPU only (`pinned`), or
/// on all CPUs.
fn refused(pmu_user: &PmuUser, pinned: bool) -> Refusal {
    let events = [event("instructions", Selector::new(RAW, 8))];
    std::thread::scope(|scope| {
        let ask = || {
            if pinned {
                pin_current_thread(allowed_cpus().unwrap()[0]).unwrap();
            }
            let mut outcomes = [Ok(Tier::Sw)];
            assert!(open(pmu_user, &events, false, &mut outcomes).is_none());
            outcomes[0].clone().unwrap_err()
        };
        scope.spawn(ask).join().unwrap()
    })
}

#[test]
fn a_thread_that_may_run_anywhere_is_refused() {
    let allowed = allowed_cpus().unwrap();
    if allowed.len() < 2 {
        println!("SKIP: this process has one CPU");
        return;
    }
    let refusal = refused(&Module::read(TEXT), false);
    assert_eq!(refusal, Refusal::Register(RegisterRefusal::NotOnOneCpu { allowed }));
}

#[test]
fn text_that_is_not_understood_opens_nothing() {
    let refusal = refused(&Module::read(&TEXT[..TEXT.len() - 1]), true);
    let why = RegisterRefusal::NotUnderstood { line: 6, reason: "is incomplete" };
    assert_eq!(refusal, Refusal::Register(why));
}

#[test]
fn the_module_is_found_below_a_root() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(Module::loaded(root.path()), None);
    std::fs::create_dir(root.path().join("proc")).unwrap();
    std::fs::write(root.path().join(FILE), TEXT).unwrap();
    assert_eq!(Module::loaded(root.path()), Some(Module::read(TEXT)));
    // The file exists but is not valid text, so the module is loaded and holds the counters.
    std::fs::write(root.path().join(FILE), [0xff]).unwrap();
    assert!(Module::loaded(root.path()).is_some_and(|text| text.is_err()));
}
