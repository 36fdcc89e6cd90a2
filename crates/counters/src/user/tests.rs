// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of user-mode reads with synthetic pages and with a real page of this kernel.

use super::*;
use proptest::prelude::*;
use std::cell::Cell;

/// A synthetic kernel and processor with known true counts, which may change the page at any time.
struct Scene {
    /// Changes at each access to the page or the processor; the last entry repeats.
    moments: Vec<Moment>,
    at: Cell<usize>,
    sequence: Cell<u32>,
    fields: Cell<PageFields>,
    /// True count.
    truth: Cell<u64>,
    /// True count at which the hardware counter was 0.
    counter_began: Cell<u64>,
}

/// Changes between two accesses: events are counted, and the kernel may change the page.
#[derive(Clone, Copy, Debug)]
struct Moment {
    counted: u16,
    change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    None,
    /// The event moves to a counter with this index and width, which starts at `start`.
    Moved {
        index: u32,
        width: u16,
        start: u64,
    },
    TakenOff,
}

fn mask(width: u16) -> u64 {
    u64::MAX >> (64 - width)
}

impl Scene {
    fn new(moments: Vec<Moment>) -> Self {
        let scene = Self {
            moments,
            at: Cell::new(0),
            sequence: Cell::new(0),
            fields: Cell::new(PageFields { can_read_counter: true, ..PageFields::default() }),
            truth: Cell::new(0),
            counter_began: Cell::new(0),
        };
        scene.change(Change::Moved { index: 1, width: 48, start: 0 });
        scene
    }

    fn pass(&self) {
        let last = Moment { counted: 1, change: Change::None };
        let moment = self.moments.get(self.at.get()).copied().unwrap_or(last);
        self.at.set(self.at.get() + 1);
        if self.fields.get().index != 0 {
            self.truth.set(self.truth.get() + u64::from(moment.counted));
        }
        self.change(moment.change);
    }

    /// Changes the page as the kernel does: the counter starts at `start`, a signed number of
    /// `width` bits, and `offset` compensates for that.
    fn change(&self, change: Change) {
        let mut fields = self.fields.get();
        match change {
            Change::None => return,
            Change::TakenOff => {
                (fields.index, fields.offset) = (0, self.truth.get() as i64);
            }
            Change::Moved { index, width, start } => {
                let unused = 64 - u32::from(width);
                let start = (start << unused) as i64 >> unused;
                (fields.index, fields.width) = (index, width);
                fields.offset = (self.truth.get() as i64).wrapping_sub(start);
                self.counter_began.set(self.truth.get().wrapping_sub(start as u64));
            }
        }
        self.fields.set(fields);
        self.sequence.set(self.sequence.get().wrapping_add(2));
    }
}

impl KernelPage for Scene {
    fn sequence(&self) -> u32 {
        self.pass();
        self.sequence.get()
    }

    fn fields(&self) -> PageFields {
        self.pass();
        self.fields.get()
    }
}

impl Registers for Scene {
    fn counter(&self, index: u32) -> Option<u64> {
        self.pass();
        let fields = self.fields.get();
        // The counter belongs to another event, so its value is meaningless.
        let stale = index != fields.index;
        let shown = self.truth.get().wrapping_sub(self.counter_began.get());
        (index <= 31).then(|| if stale { 0xdead_beef } else { shown & mask(fields.width) })
    }

    fn ticks(&self) -> u64 {
        self.truth.get()
    }
}

fn read(scene: &Scene) -> Option<u64> {
    settled(scene, |fields| count(fields, scene))?
}

fn changes() -> impl Strategy<Value = Change> {
    // These start values leave room for all counts before the sign changes, as the kernel's start
    // values do.
    let near_zero = any::<u16>().prop_map(|x| u64::from(x).wrapping_sub(40_000));
    prop_oneof![
        6 => Just(Change::None),
        1 => Just(Change::TakenOff),
        3 => (1u32..=31, 32u16..=64, near_zero)
            .prop_map(|(index, width, start)| Change::Moved { index, width, start }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// Whatever the kernel changes during a read, the result is the true count at some time during
    /// the read. If there is no result, the event was not on a counter and would be read through
    /// the kernel.
    #[test]
    fn a_read_is_the_truth_at_some_moment(
        moments in prop::collection::vec((any::<u16>(), changes()), 0..40),
    ) {
        let on_none = moments.iter().any(|(_, change)| *change == Change::TakenOff);
        let scene = Scene::new(
            moments.into_iter().map(|(counted, change)| Moment { counted, change }).collect(),
        );
        for _ in 0..12 {
            let before = scene.truth.get();
            match read(&scene) {
                Some(count) => prop_assert!(
                    (before..=scene.truth.get()).contains(&count), "{count}"
                ),
                None => prop_assert!(on_none),
            }
        }
    }

    /// The reference is the same formula computed in 128 bits, which cannot overflow.
    #[test]
    fn times_are_those_of_the_clock(
        now in 0u64..1 << 56, mult in 1u32.., shift in 1u16..=32, noted in 0u64..1 << 40,
        on_counter in any::<bool>(),
    ) {
        let scene = Scene::new(Vec::new());
        scene.truth.set(now);
        let since = (u128::from(now) * u128::from(mult)) >> shift;
        // The kernel's offset sets the clock back to the last update of the page, `noted` ns ago.
        let offset = u128::from(noted).wrapping_sub(since) as u64;
        let fields = PageFields {
            can_read_time: true, index: on_counter.into(), enabled_ns: 700, running_ns: 500,
            time_mult: mult, time_shift: shift, time_offset: offset, ..PageFields::default()
        };
        let times = times(&fields, &scene).unwrap();
        prop_assert_eq!(times.enabled_ns, 700 + noted);
        prop_assert_eq!(times.running_ns, if on_counter { 500 + noted } else { 500 });
    }
}

#[test]
fn a_short_clock_is_extended_from_the_last_note() {
    let scene = Scene::new(Vec::new());
    // The 32-bit clock wrapped 11 ticks ago, and the page was updated 21 ticks ago.
    scene.truth.set(11);
    let fields = PageFields {
        can_read_time: true,
        is_time_short: true,
        time_cycles: 0x5_ffff_fff6,
        time_mask: 0xffff_ffff,
        time_mult: 1,
        time_offset: 0u64.wrapping_sub(0x5_ffff_fff6),
        ..PageFields::default()
    };
    assert_eq!(times(&fields, &scene).unwrap().enabled_ns, 21);
    assert_eq!(times(&PageFields { can_read_time: false, ..fields }, &scene), None);
}

#[test]
fn what_cannot_be_read_is_left_to_the_kernel() {
    let scene = Scene::new(Vec::new());
    let good = scene.fields.get();
    assert!(count(&good, &scene).is_some());
    for bad in [
        PageFields { can_read_counter: false, ..good },
        PageFields { index: 0, ..good },
        PageFields { index: 33, ..good },
        PageFields { width: 0, ..good },
        PageFields { width: 65, ..good },
    ] {
        assert_eq!(count(&bad, &scene), None, "{bad:?}");
    }
}

#[test]
fn a_page_that_never_settles_is_given_up() {
    let moved = Change::Moved { index: 2, width: 48, start: 0 };
    let scene = Scene::new(vec![Moment { counted: 1, change: moved }; 1000]);
    assert_eq!(read(&scene), None);
}

#[test]
fn a_counter_that_starts_below_zero_is_extended_with_its_sign() {
    let change = Change::Moved { index: 3, width: 40, start: u64::MAX - 99 };
    let scene = Scene::new(vec![
        Moment { counted: 7, change },
        Moment { counted: 50, change: Change::None },
    ]);
    let count = read(&scene).unwrap();
    assert!((57..60).contains(&count), "{count}");
}

/// Checks the page of a software event, which is never on a hardware counter. If this machine has
/// hardware counters, a user-mode read and read(2) must agree.
#[test]
fn this_kernels_page_agrees_with_read() {
    use linerate_linux::perf::{HARDWARE, SOFTWARE, Selector, Target};
    let open = |selector| {
        let request = Request { disabled: false, exclude_kernel: true, ..Request::new(selector) };
        perf::open(&with_user_access(request), Target::CurrentThread, None)
    };
    let Ok(software) = open(Selector::new(SOFTWARE, 2)) else {
        println!("SKIP: software events are refused");
        return;
    };
    assert_eq!(UserCounter::map(&software).unwrap().count(), None);
    let Ok(instructions) = open(Selector::new(HARDWARE, 1)) else {
        println!("SKIP: instructions are refused");
        return;
    };
    let counter = UserCounter::map(&instructions).unwrap();
    let before = instructions.read().unwrap().values()[0];
    let Some(count) = counter.count() else {
        println!("SKIP: no reads from user space");
        return;
    };
    let after = instructions.read().unwrap().values()[0];
    assert!((before..=after).contains(&count), "{before} {count} {after}");
}
