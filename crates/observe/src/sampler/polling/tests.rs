// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic threads with a known cost, sampled at random. Results must be right; if no result is
//! possible, there must be none.

use super::*;
use linerate_record::random::Random;
use linerate_record::stats::coverage::least_hits;

const SAMPLES_PER_S: f64 = 999.0;
const TRIALS: u64 = 80;

/// A thread that polls.
#[derive(Clone)]
struct Program {
    /// Share of each function in the poll loop.
    poll: Vec<f64>,
    /// Share of each function in the work.
    work: Vec<f64>,
    /// CPU time per packet at no load, ns.
    cost_ns: f64,
    /// Saving per packet at full load, as a fraction.
    saved: f64,
    /// Fraction of time taken by the last function, regardless of load.
    other_job: f64,
    /// Smallest and largest offered load of a slice, as a busy share.
    busy: (f64, f64),
    /// Minimum fraction of time that the thread has a CPU.
    least_run: f64,
    slices: usize,
    slice_s: f64,
    /// Update interval of the packet counter in seconds; 0: counts are never late.
    period_s: f64,
}

impl Default for Program {
    fn default() -> Self {
        Self {
            poll: vec![0.7, 0.3, 0.0, 0.0],
            work: vec![0.0, 0.0, 0.6, 0.4],
            cost_ns: 250.0,
            saved: 0.0,
            other_job: 0.0,
            busy: (0.0, 0.9),
            least_run: 1.0,
            slices: 100,
            slice_s: 0.05,
            period_s: 0.0,
        }
    }
}

/// The true values for a window: CPU time per packet in ns, and busy share.
struct Truth {
    cost_ns: f64,
    busy: f64,
}

fn draw(random: &mut Random, shares: &[f64]) -> usize {
    let mut left = random.uniform() * shares.iter().sum::<f64>();
    let is_it = |share: &f64| {
        left -= share;
        left <= 0.0
    };
    shares.iter().position(is_it).unwrap_or(shares.len() - 1)
}

impl Program {
    fn places(&self) -> Vec<Place> {
        let place = |function| Place { function, is_kernel: false };
        (0..self.poll.len() as u32).map(place).collect()
    }

    /// Returns the slices of a window and the true values. A busy share above 1 means that the
    /// thread loses packets that were counted.
    fn watch(&self, random: &mut Random) -> (Vec<Slice>, Truth) {
        let (mut run_s, mut busy_s, mut packets) = (0.0, 0.0, 0.0);
        let mut slices = Vec::new();
        let mut offered = 0.0;
        for slice in 0..self.slices {
            // With late counts, the load is constant for 8 slices.
            if self.period_s == 0.0 || slice % 8 == 0 {
                offered = self.busy.0 + (self.busy.1 - self.busy.0) * random.uniform();
            }
            let busy = f64::min(offered, 1.0);
            let run = self.slice_s * (self.least_run + (1.0 - self.least_run) * random.uniform());
            let cost = self.cost_ns * (1.0 - self.saved * busy) / 1e9;
            let of_slice = (busy * run / cost).round();
            let counted = (offered * run / cost).round();
            let share = |f: usize| {
                let own = (1.0 - busy - self.other_job) * self.poll[f] + busy * self.work[f];
                own + if f + 1 == self.poll.len() { self.other_job } else { 0.0 }
            };
            let shares: Vec<f64> = (0..self.poll.len()).map(share).collect();
            let mut counts = vec![0u32; shares.len()];
            for _ in 0..(run * SAMPLES_PER_S + random.uniform()) as u64 {
                counts[draw(random, &shares)] += 1;
            }
            slices.push(Slice {
                run_ns: (run * 1e9) as u64,
                packets: Some(counted as u64),
                counts: (0..).zip(counts).collect(),
            });
            (run_s, busy_s, packets) = (run_s + run, busy_s + busy * run, packets + of_slice);
        }
        if self.period_s > 0.0 {
            self.delay(&mut slices);
        }
        (slices, Truth { cost_ns: busy_s / packets * 1e9, busy: busy_s / run_s })
    }

    /// Counts packets only at the end of each period.
    fn delay(&self, slices: &mut [Slice]) {
        let mut handled = vec![0.0];
        for slice in slices.iter() {
            handled.push(handled[handled.len() - 1] + slice.packets.unwrap_or(0) as f64);
        }
        let counted = |end: usize| {
            let in_periods = (end as f64 * self.slice_s / self.period_s).floor() * self.period_s;
            let at = in_periods / self.slice_s;
            let next = handled[(at as usize + 1).min(handled.len() - 1)];
            (handled[at as usize] + at.fract() * (next - handled[at as usize])) as u64
        };
        for (end, slice) in (1..).zip(slices) {
            slice.packets = Some(counted(end) - counted(end - 1));
        }
    }

    /// Returns the answers for many windows, each with its true values.
    fn answers(&self) -> Vec<(Result<Separated, CannotTell>, Truth)> {
        let answer = |trial: u64| {
            let (slices, truth) = self.watch(&mut Random::new(trial));
            (separate(&slices, &self.places(), 0.0, trial), truth)
        };
        (0..TRIALS).map(answer).collect()
    }
}

/// Compares the answers for `program` with the truth. At least `answered` of the windows must have
/// an answer, and 95 % of these, less the sampling error, an interval that contains the truth.
fn assert_right(name: &str, program: &Program, answered: f64) {
    let answers = program.answers();
    let given: Vec<(&Separated, &Truth)> =
        answers.iter().filter_map(|(answer, truth)| Some((answer.as_ref().ok()?, truth))).collect();
    let n = given.len() as u64;
    assert!(n as f64 >= answered * TRIALS as f64, "{name}: {n} of {TRIALS}: {:?}", answers[0].0);
    let holds = |estimate: &Estimate, truth: f64| estimate.low <= truth && truth <= estimate.high;
    let hits = |f: &dyn Fn(&Separated, &Truth) -> bool| {
        given.iter().filter(|(found, truth)| f(found, truth)).count() as u64
    };
    let least = least_hits(n, CONFIDENCE, 0.001);
    let costs = hits(&|found, truth| holds(&found.cost_ns, truth.cost_ns));
    let busy = hits(&|found, truth| holds(&found.busy, truth.busy));
    assert!(costs >= least && busy >= least, "{name}: {costs} and {busy} of {n}, least {least}");
    let far = |found: &Separated, truth: &Truth| (found.busy.value - truth.busy).abs() > 0.1;
    assert_eq!(hits(&far), 0, "{name}: busy share off by more than 0.1");
}

/// Compares the costs of individual functions with the truth.
fn assert_functions_right(name: &str, program: &Program) {
    let answers = program.answers();
    let (mut all, mut hits) = (0, 0);
    let places = program.places();
    for (trial, (answer, truth)) in (0..).zip(&answers) {
        let (slices, _) = &program.watch(&mut Random::new(trial));
        let Ok(found) = answer else { continue };
        let of_all = found.work_ns(slices, &places, |_| true, 1).unwrap();
        assert!((of_all.value / found.cost_ns.value - 1.0).abs() < 0.01, "{name}: {of_all:?}");
        for function in 0..places.len() as u32 {
            let cost = found.work_ns(slices, &places, |one| one == function, 1);
            let Some(cost) = cost else { continue };
            let true_ns = truth.cost_ns * program.work[function as usize];
            all += 1;
            hits += u64::from(cost.low <= true_ns && true_ns <= cost.high);
        }
    }
    assert!(all >= TRIALS, "{name}: {all}");
    assert!(hits >= least_hits(all, CONFIDENCE, 0.001), "{name}: {hits} of {all}");
}

#[test]
fn costs_of_functions_are_covered() {
    assert_functions_right("four functions", &Program::default());
    let shared = Program { work: vec![0.0, 0.1, 0.6, 0.3], ..Program::default() };
    assert_functions_right("work enters the loop", &shared);
    assert_functions_right("light", &Program { cost_ns: 60.0, ..Program::default() });
}

/// Asserts that hardly any cost interval misses the true cost by more than 10 %.
fn assert_cost_not_confidently_wrong(name: &str, program: &Program) {
    let is_wrong = |(answer, truth): &(Result<Separated, CannotTell>, Truth)| {
        let far = |found: &Separated| {
            found.cost_ns.low > truth.cost_ns * 1.1 || found.cost_ns.high < truth.cost_ns * 0.9
        };
        answer.as_ref().is_ok_and(far)
    };
    let answers = program.answers();
    let wrong = answers.iter().filter(|answer| is_wrong(answer)).count() as u64;
    let silent = answers.iter().filter(|(answer, _)| answer.is_err()).count();
    assert!(wrong <= TRIALS / 20, "{name}: {wrong} wrong, {silent} silent");
}

/// Asserts that hardly any interval misses the true busy share by more than 0.05.
fn assert_not_confidently_wrong(name: &str, program: &Program) {
    let is_wrong = |(answer, truth): &(Result<Separated, CannotTell>, Truth)| {
        answer.as_ref().is_ok_and(|found| {
            found.busy.low > truth.busy + 0.05 || found.busy.high < truth.busy - 0.05
        })
    };
    let wrong = program.answers().iter().filter(|answer| is_wrong(answer)).count() as u64;
    // With correct 95 % intervals, 1 in 20 is wrong, and rarely more.
    assert!(wrong <= TRIALS - least_hits(TRIALS, CONFIDENCE, 0.001), "{name}: {wrong} wrong");
}

#[test]
fn cost_and_busy_share_are_covered_for_several_costs() {
    for cost_ns in [40.0, 250.0, 2_000.0] {
        let program = Program { cost_ns, ..Program::default() };
        assert_right(&format!("{cost_ns} ns"), &program, 0.95);
    }
}

#[test]
fn they_are_covered_for_several_mixes_of_functions() {
    let one_each = Program { poll: vec![1.0, 0.0], work: vec![0.0, 1.0], ..Program::default() };
    assert_right("one function each", &one_each, 0.95);
    // The work enters a function of the loop: the receive function copies.
    let shared = Program {
        poll: vec![0.5, 0.5, 0.0, 0.0],
        work: vec![0.0, 0.1, 0.6, 0.3],
        ..Program::default()
    };
    assert_right("a shared function", &shared, 0.9);
    let mut many = Program { poll: vec![0.05; 40], work: vec![0.0; 40], ..Program::default() };
    many.poll[20..].fill(0.0);
    many.work[20..].fill(0.05);
    assert_right("many functions", &many, 0.9);
}

/// Asserts that the cost is within 10 % of the truth in at least 9 of 10 windows of 10 s.
fn assert_precise(name: &str, program: &Program) {
    let program = Program { slice_s: 0.1, ..program.clone() };
    let is_close = |(answer, truth): &(Result<Separated, CannotTell>, Truth)| {
        answer.as_ref().is_ok_and(|found| (found.cost_ns.value / truth.cost_ns - 1.0).abs() <= 0.1)
    };
    let close = program.answers().iter().filter(|answer| is_close(answer)).count() as u64;
    assert!(close >= TRIALS * 9 / 10, "{name}: {close} of {TRIALS}");
}

#[test]
fn the_cost_is_within_a_tenth_even_at_small_loads() {
    for most in [0.5, 0.9] {
        let program = Program { busy: (0.0, most), ..Program::default() };
        assert_precise(&format!("up to {most}"), &program);
        // The first function of the loop is also part of the work.
        let shared =
            Program { poll: vec![0.3, 0.7, 0.0, 0.0], work: vec![0.1, 0.0, 0.5, 0.4], ..program };
        assert_precise(&format!("shared, up to {most}"), &shared);
    }
}

#[test]
fn a_small_part_of_the_loop_in_a_function_of_the_work_is_covered() {
    for share in [0.01, 0.03, 0.08] {
        let program = Program {
            poll: vec![0.6, 0.4 - share, share, 0.0],
            busy: (0.0, 0.6),
            ..Program::default()
        };
        assert_right(&format!("{share} of the loop"), &program, 0.9);
    }
}

#[test]
fn a_receive_call_whose_empty_replies_alone_are_poll_only_is_covered() {
    let program = Program {
        poll: vec![0.25, 0.3, 0.25, 0.2, 0.0, 0.0],
        work: vec![0.0, 0.12, 0.1, 0.08, 0.5, 0.2],
        busy: (0.0, 0.8),
        slice_s: 0.1,
        ..Program::default()
    };
    assert_right("receive call", &program, 0.6);
}

#[test]
fn they_are_covered_where_the_thread_is_preempted() {
    let program = Program { least_run: 0.2, ..Program::default() };
    assert_right("preempted", &program, 0.95);
}

#[test]
fn they_are_covered_where_load_is_never_absent() {
    let program = Program { busy: (0.2, 0.8), ..Program::default() };
    assert_right("20 to 80 %", &program, 0.9);
    let saturated = Program { busy: (0.5, 1.0), ..Program::default() };
    assert_not_confidently_wrong("50 to 100 %", &saturated);
}

#[test]
fn packets_beyond_what_a_thread_can_do_are_not_handled() {
    for most in [1.2, 1.6, 2.5] {
        let program = Program { busy: (0.0, most), ..Program::default() };
        assert_right(&format!("offered up to {most}"), &program, 0.7);
    }
}

#[test]
fn packets_that_are_counted_late_do_not_make_it_cheaper() {
    for period_s in [0.02, 0.03, 0.04, 0.07, 0.11, 0.25] {
        let program = Program { period_s, ..Program::default() };
        assert_cost_not_confidently_wrong(&format!("every {period_s} s"), &program);
    }
}

#[test]
fn a_further_job_of_the_thread_widens_the_interval() {
    let small = Program { other_job: 0.08, busy: (0.0, 0.85), ..Program::default() };
    assert_right("8 % for another job", &small, 0.6);
    let large = Program { other_job: 0.4, busy: (0.0, 0.55), ..Program::default() };
    assert_not_confidently_wrong("40 % for another job", &large);
}

#[test]
fn packets_that_get_cheaper_with_load_are_fitted_below_the_bend_or_refused() {
    for saved in [0.3, 0.6, 0.9] {
        let program = Program { saved, ..Program::default() };
        assert_not_confidently_wrong(&format!("{saved} cheaper"), &program);
    }
}

#[test]
fn a_constant_load_cannot_be_taken_apart() {
    let program = Program { busy: (0.49, 0.51), ..Program::default() };
    for (answer, _) in program.answers() {
        assert_eq!(answer, Err(CannotTell::LoadDoesNotVary));
    }
}

/// A thread that is always busy with two kinds of packets. The more of them are expensive, the
/// fewer packets per second, so the functions for expensive ones look like a poll loop.
#[test]
fn a_saturated_thread_with_two_kinds_of_packets_does_not_poll() {
    for expensive in [3.0, 8.0] {
        let wrong = (0..TRIALS)
            .filter(|&trial| {
                let mut random = Random::new(trial);
                let slice = |_| {
                    let share = random.uniform();
                    let packets = 50e6 / 250.0 * ((1.0 - share) + share / expensive);
                    let of_expensive = (0..50).filter(|_| random.uniform() < share).count() as u32;
                    Slice {
                        run_ns: 50_000_000,
                        packets: Some(packets as u64),
                        counts: vec![(0, of_expensive), (1, 50 - of_expensive)],
                    }
                };
                let slices: Vec<Slice> = (0..100).map(slice).collect();
                let places = [0, 1].map(|function| Place { function, is_kernel: false });
                separate(&slices, &places, 0.0, trial).is_ok_and(|found| found.busy.high < 0.95)
            })
            .count() as u64;
        assert!(wrong <= TRIALS / 20, "{expensive} times as expensive: {wrong} wrong");
    }
}

#[test]
fn a_thread_without_a_poll_loop_is_not_given_one() {
    // A single function, regardless of load, and functions whose shares do not depend on load.
    for share in [1.0, 0.5] {
        let program = Program {
            poll: vec![share, 1.0 - share],
            work: vec![share, 1.0 - share],
            ..Program::default()
        };
        let told = program.answers().iter().filter(|(answer, _)| answer.is_ok()).count() as u64;
        assert!(told <= TRIALS / 20, "{told} of {TRIALS}");
    }
}

#[test]
fn what_is_missing_is_said() {
    let program = Program::default();
    let (slices, _) = program.watch(&mut Random::new(1));
    let places = program.places();
    assert_eq!(separate(&slices, &places, 0.3, 1), Err(CannotTell::Sleeps(0.3)));
    let few = separate(&slices[..18], &places, 0.0, 1);
    assert!(matches!(few, Err(CannotTell::TooFewSamples(1..1000))), "{few:?}");
    let changed = |packets| -> Vec<Slice> {
        slices.iter().map(|slice| Slice { packets, ..slice.clone() }).collect()
    };
    assert_eq!(separate(&changed(None), &places, 0.0, 1), Err(CannotTell::NoPacketCounter));
    assert_eq!(separate(&changed(Some(0)), &places, 0.0, 1), Err(CannotTell::NoPackets));
    assert_eq!(separate(&[], &[], 0.0, 1), Err(CannotTell::TooFewSamples(0)));
}

#[test]
fn functions_of_the_loop_are_named() {
    let program = Program::default();
    let (slices, _) = program.watch(&mut Random::new(7));
    let found = separate(&slices, &program.places(), 0.0, 7).unwrap();
    let expected = BTreeMap::from([(0, true), (1, true), (2, false), (3, false)]);
    assert_eq!((found.is_polling, found.kernel_share), (expected, 0.0));
}

#[test]
fn a_loop_and_its_work_in_one_function_are_taken_apart_by_place() {
    let program = Program::default();
    let (slices, truth) = program.watch(&mut Random::new(3));
    let places = vec![Place { function: 0, is_kernel: false }; 4];
    let found = separate(&slices, &places, 0.0, 3).unwrap();
    assert!((found.busy.value - truth.busy).abs() < 0.05, "{found:?}");
    assert!(found.is_polling.is_empty());
}

#[test]
fn the_busy_share_of_later_slices_follows_from_the_cost() {
    let (slices, truth) = Program::default().watch(&mut Random::new(5));
    let found = separate(&slices, &Program::default().places(), 0.0, 1).expect("it varies");
    let over =
        |run_ns, packets| found.busy_over(&[Slice { run_ns, packets, counts: Vec::new() }; 1]);
    let half = (0.5e9 / truth.cost_ns) as u64;
    let busy = over(1_000_000_000, Some(half)).expect("packets are counted");
    assert!(busy.low <= 0.5 && 0.5 <= busy.high && busy.high < 0.7, "{busy:?}");
    let full = over(1_000_000_000, Some(8 * half)).expect("packets are counted");
    assert_eq!((full.value, full.high), (1.0, 1.0));
    assert_eq!(over(1_000_000_000, Some(0)).expect("none").value, 0.0);
    assert_eq!(over(1_000_000_000, None), Err(CannotTell::NoPacketCounter));
    assert_eq!(over(0, Some(1)), Err(CannotTell::NoCpuTime));
}
