// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use proptest::prelude::*;

const INSIDE: Accounting =
    Accounting { leaves_out_interrupts: Some(false), leaves_out_stolen: false };
const OUTSIDE: Accounting =
    Accounting { leaves_out_interrupts: Some(true), leaves_out_stolen: true };

/// Returns slices of 100 ms with the given run time and delay in ms, and user and system time in
/// ticks.
fn slices(run: u64, delay: u64, user: u64, system: u64) -> Vec<Slice> {
    let slice = |number| Slice {
        number,
        wall_ns: 100_000_000,
        run_ns: run * 1_000_000,
        delay_ns: delay * 1_000_000,
        user_ticks: user,
        system_ticks: system,
        cpu: 0,
    };
    (0..10).map(slice).collect()
}

fn around(interrupts: f64, stolen: f64, throttled_ms: f64) -> Vec<Around> {
    let cpu = CpuShares { interrupts: Some(interrupts), stolen, stolen_of_all: stolen };
    vec![Around { cpu, throttled_ns: throttled_ms * 1e6 }; 10]
}

/// Returns a budget in percent: user, kernel, interrupts, waiting, throttled, stolen, asleep and
/// rest.
fn percent(
    slices: &[Slice],
    around: &[Around],
    never_slept: bool,
    accounting: Accounting,
) -> Vec<i64> {
    let times = budget(slices, around, never_slept, accounting, true);
    times.iter().map(|time| (time.share.as_number().unwrap() * 100.0).round() as i64).collect()
}

#[test]
fn a_thread_that_computes_is_in_user_mode() {
    let shares = percent(&slices(100, 0, 10, 0), &around(0.0, 0.0, 0.0), true, INSIDE);
    assert_eq!(shares, [100, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn what_is_neither_run_nor_waited_is_sleep() {
    let shares = percent(&slices(30, 10, 1, 2), &around(0.0, 0.0, 0.0), false, INSIDE);
    assert_eq!(shares, [10, 20, 0, 10, 0, 0, 60, 0]);
}

#[test]
fn interrupts_are_absent_if_they_are_not_known_for_the_run_time() {
    let slices = slices(50, 0, 3, 2);
    let interrupts = |unknown: usize| {
        let mut around = around(0.1, 0.0, 0.0);
        around[..unknown].iter_mut().for_each(|one| one.cpu.interrupts = None);
        budget(&slices, &around, false, INSIDE, false)[2].share.as_number()
    };
    assert_eq!([interrupts(0), interrupts(1)].map(|share| share.is_some()), [true; 2]);
    assert_eq!(interrupts(2), None);
}

#[test]
fn waits_from_before_a_thread_was_read_are_left_out() {
    let shares = percent(&slices(70, 40, 7, 0), &around(0.0, 0.0, 0.0), false, INSIDE);
    assert_eq!(shares, [70, 0, 0, 30, 0, 0, 0, 0]);
    // A thread that was observed for 1 ms, after it had waited for 4 ms.
    let short = Slice { wall_ns: 1_000_000, ..slices(0, 4, 0, 0)[0] };
    let shares = percent(&[short], &around(0.0, 0.0, 0.0)[..1], false, INSIDE);
    assert_eq!(shares, [0, 0, 0, 100, 0, 0, 0, 0]);
    let shares = percent(&slices(104, 0, 10, 0), &around(0.0, 0.0, 0.0), true, INSIDE);
    assert_eq!(shares, [100, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn interrupts_are_taken_out_of_the_kernels_part_first() {
    let shares = percent(&slices(100, 0, 7, 3), &around(0.12, 0.0, 0.0), true, INSIDE);
    assert_eq!(shares, [70, 18, 12, 0, 0, 0, 0, 0]);
    // Even with unfortunate ticks, kernel time is never negative.
    let shares = percent(&slices(100, 0, 10, 0), &around(0.12, 0.0, 0.0), true, INSIDE);
    assert_eq!(shares, [88, 0, 12, 0, 0, 0, 0, 0]);
}

#[test]
fn a_thread_that_never_sleeps_shows_what_its_run_time_leaves_out() {
    // 12 % of the CPU went to interrupts, and 12 % of the thread's time is missing: they are the
    // same time.
    let shares = percent(&slices(88, 0, 9, 0), &around(0.1364, 0.0, 0.0), true, INSIDE);
    assert_eq!(shares, [88, 0, 12, 0, 0, 0, 0, 0]);
    // Nothing is known about the missing time.
    let shares = percent(&slices(88, 0, 9, 0), &around(0.0, 0.0, 0.0), true, INSIDE);
    assert_eq!(shares, [88, 0, 0, 0, 0, 0, 0, 12]);
}

#[test]
fn of_one_that_sleeps_the_configuration_says_it() {
    let (slices, around) = (slices(80, 0, 8, 0), around(0.125, 0.0, 0.0));
    assert_eq!(percent(&slices, &around, false, OUTSIDE), [80, 0, 10, 0, 0, 0, 10, 0]);
    assert_eq!(percent(&slices, &around, false, INSIDE), [70, 0, 10, 0, 0, 0, 20, 0]);
    let cpu = CpuShares { interrupts: Some(0.0), stolen: 0.2, stolen_of_all: 0.2 };
    let stolen = vec![Around { cpu, ..around[0] }; 10];
    assert_eq!(percent(&slices, &stolen, false, OUTSIDE), [80, 0, 0, 0, 0, 20, 0, 0]);
}

#[test]
fn a_slice_of_few_ticks_does_not_multiply_what_was_stolen() {
    // One tick in ten was stolen, and no other was busy: apparently, the CPU was stolen whenever
    // anything wanted to run.
    let cpu = CpuShares { interrupts: Some(0.0), stolen: 1.0, stolen_of_all: 0.1 };
    let mut around = around(0.0, 0.0, 0.0);
    around[0].cpu = cpu;
    let shares = percent(&slices(30, 0, 3, 0), &around, false, OUTSIDE);
    assert_eq!(shares, [30, 0, 0, 0, 0, 1, 69, 0]);
}

#[test]
fn distinguishes_a_quota_from_other_threads() {
    let shares = percent(&slices(20, 80, 2, 0), &around(0.0, 0.0, 75.0), true, INSIDE);
    assert_eq!(shares, [20, 0, 0, 5, 75, 0, 0, 0]);
    // The group was stopped for longer than this thread waited.
    let shares = percent(&slices(20, 30, 2, 0), &around(0.0, 0.0, 75.0), false, INSIDE);
    assert_eq!(shares, [20, 0, 0, 0, 30, 0, 50, 0]);
}

#[test]
fn configurations_are_read_and_without_one_interrupts_are_unknown() {
    let text = "# CONFIG_IRQ_TIME_ACCOUNTING is not set\nCONFIG_PARAVIRT_TIME_ACCOUNTING=y\n";
    let expected = Accounting { leaves_out_interrupts: Some(false), leaves_out_stolen: true };
    assert_eq!(Accounting::of(Some(text)), expected);
    assert_eq!(Accounting::of(None), Accounting { leaves_out_interrupts: None, ..expected });
    let set = Accounting::of(Some("CONFIG_IRQ_TIME_ACCOUNTING=y"));
    assert_eq!(set.leaves_out_interrupts, Some(true));
}

#[test]
fn intervals_come_from_slices_and_few_slices_have_none() {
    let times = budget(&slices(50, 0, 1, 1), &around(0.0, 0.0, 0.0), false, INSIDE, true);
    assert!(times[0].share.low.is_some() && times[0].share.n == 10);
    let times = budget(&slices(50, 0, 1, 1)[..1], &around(0.0, 0.0, 0.0)[..1], false, INSIDE, true);
    assert_eq!((times[0].share.low, times[0].share.as_number()), (None, Some(0.25)));
    let times = budget(&[], &[], false, INSIDE, true);
    assert!(times[0].share.reason.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn budgets_sum_to_one(
        slices in prop::collection::vec(
            (1u64..200, 0u64..200, 0u64..200, 0u64..20, 0u64..20), 1..20,
        ),
        interrupts in 0.0f64..1.0,
        stolen in 0.0f64..1.0,
        throttled in 0.0f64..300.0,
        never_slept: bool,
        leaves_out: bool,
    ) {
        let slices: Vec<Slice> = slices.iter().map(|&(wall, run, delay, user, system)| Slice {
            number: 0,
            wall_ns: wall * 1_000_000,
            run_ns: run * 1_000_000,
            delay_ns: delay * 1_000_000,
            user_ticks: user,
            system_ticks: system,
            cpu: 0,
        }).collect();
        let around = vec![around(interrupts, stolen, throttled)[0]; slices.len()];
        let accounting =
            Accounting { leaves_out_interrupts: Some(leaves_out), leaves_out_stolen: !leaves_out };
        let times = budget(&slices, &around, never_slept, accounting, false);
        let sum: f64 = times.iter().filter_map(|time| time.share.as_number()).sum();
        prop_assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        let throttled = times[4].share.as_number().unwrap();
        let delay: u64 = slices.iter().map(|slice| slice.delay_ns).sum();
        let wall: u64 = slices.iter().map(|slice| slice.wall_ns).sum();
        prop_assert!(throttled <= delay as f64 / wall as f64 + 1e-9);
    }
}

#[test]
fn an_unknown_configuration_widens_the_intervals() {
    let (slices, around) = (slices(60, 0, 3, 3), around(0.25, 0.0, 0.0));
    let of = |accounting: Accounting, never_slept| {
        budget(&slices, &around, never_slept, accounting, true)
    };
    let unknown = Accounting { leaves_out_interrupts: None, ..INSIDE };
    let ends = |times: &[ThreadTime], state| {
        let share = &times.iter().find(|time| time.state == state).unwrap().share;
        let percent = |x: Option<f64>| (100.0 * x.unwrap()).round() as i64;
        [percent(share.low), percent(share.as_number()), percent(share.high)]
    };
    // 15 % are interrupts: in the run time of 60 %, or beyond it.
    let times = of(unknown, false);
    assert_eq!(ends(&times, ThreadState::Asleep), [25, 40, 40]);
    assert_eq!(ends(&times, ThreadState::Kernel), [15, 15, 30]);
    // The configuration, or a thread that never slept, leaves no doubt.
    for (accounting, never_slept) in [(INSIDE, false), (OUTSIDE, false), (unknown, true)] {
        let times = of(accounting, never_slept);
        let [low, value, high] = ends(&times, ThreadState::Interrupts);
        assert_eq!([low, high], [value; 2]);
        let kernel = times.iter().find(|time| time.state == ThreadState::Kernel).unwrap();
        assert_eq!(kernel.share.low, kernel.share.high);
    }
}
