// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks how accurately the routines' time shares are measured, for the accuracy suite. Routines
//! of known duration are measured like any others, and their shares are compared with the true
//! shares.

use crate::endpoint::Stack;
use crate::error::Error;
use crate::lwip::Lwip;
use crate::measure::filling;
use crate::pattern::Pattern;
use crate::routines::{Reading, Seam, Set, empty_call_ticks, slowed};
use crate::sampling::{Sampler, sampler_cpu};
use crate::session::{Session, Setup};
use crate::shares::{PART, ROUNDS, Shares, shares};
use crate::smol::Smoltcp;
use crate::stream::Stream;
use linerate_machine::ticks::{ticks_in_order, ticks_per_s};
use linerate_machine::topology::Topology;
use linerate_record::Figure;
use linerate_record::accuracy::Check;
use linerate_record::stats::median;
use std::rc::Rc;

/// Maximum error of a share, as an absolute difference between fractions.
const POINTS: f64 = 0.05;

/// Limits on the time measured for calls that are timed one by one, relative to the time that the
/// same calls take as a dependent chain. The ratio may exceed 1 because serializing reads delay the
/// surrounding code.
const LATE: (f64, f64) = (0.7, 1.6);

/// Checks the shares with `measurements` runs per stack and pattern, and the timing of calls whose
/// result arrives late. Requires two CPUs: one to run on, and one to sample from.
///
/// # Errors
/// Returns an error if a session fails.
pub fn checks(measurements: usize) -> Result<Vec<Check>, Error> {
    let cpus = linerate_linux::allowed_cpus().unwrap_or_default();
    let own = cpus.first().filter(|own| linerate_linux::pin_current_thread(**own).is_ok());
    let other = own.and_then(|own| sampler_cpu(&Topology::read(&cpus), *own));
    let sampler = other.and_then(|cpu| Sampler::new(cpu, 1));
    let mut checks = late().to_vec();
    let lwip = Lwip::new();
    for pattern in [Pattern::Bulk, Pattern::Mixed] {
        checks.extend(of_stack(&Smoltcp, pattern, sampler.as_ref(), measurements)?);
        match lwip.check(pattern.segment()) {
            Ok(()) => checks.extend(of_stack(&lwip, pattern, sampler.as_ref(), measurements)?),
            Err(error) => {
                checks.push(Check::skip(&format!("shares.{pattern}.lwip"), &error.to_string()));
            }
        }
    }
    Ok(checks)
}

/// Runs a stack with routines of known duration, and measures their shares by timing and by
/// sampling.
fn of_stack(
    stack: &dyn Stack,
    pattern: Pattern,
    sampler: Option<&Sampler>,
    measurements: usize,
) -> Result<[Check; 2], Error> {
    let setup = Setup::for_pattern(pattern);
    let set = Set::from_routines(slowed::routines());
    let stream = Rc::new(Stream::new(1, setup.buffer_bytes()));
    let mut session = Session::new(&setup, [stack, stack], &set, &stream)?;
    let amount = filling(&mut session)?;
    let (mut timed, mut sampled) = (Vec::new(), Vec::new());
    for measurement in 0..measurements as u64 {
        let Shares { timed: by_time, sampled: by_looks, .. } =
            shares(&mut session, amount, sampler, 1 + measurement)?;
        let truth = truth(&mut session, amount)?;
        timed.push(error(&by_time, truth));
        sampled.push(error(&by_looks, truth));
    }
    let name = |method| format!("shares.{pattern}.{}.{method}", stack.name().replace(' ', "_"));
    Ok([check(&name("timed"), &timed), check(&name("sampled"), &sampled)])
}

/// Checks the median error; skipped if half or more of the measurements failed.
fn check(name: &str, errors: &[Result<f64, String>]) -> Check {
    let known: Vec<f64> = errors.iter().flatten().copied().collect();
    if 2 * known.len() <= errors.len() {
        let why = errors.iter().find_map(|error| error.as_ref().err());
        return Check::skip(name, why.map_or("no measurement succeeded", String::as_str));
    }
    let error = median(&known).unwrap_or(f64::NAN);
    let what = "median over measurements of the largest error among the three shares";
    Check::at_most(name, error, known.len() as u64, POINTS, what)
}

/// Returns the largest error of the three shares, or why one of them is unknown.
fn error(shares: &[Figure; 3], truth: Option<[f64; 3]>) -> Result<f64, String> {
    let truth = truth.ok_or("other programs used the CPU")?;
    let mut largest: f64 = 0.0;
    for (figure, truth) in shares.iter().zip(truth) {
        let share = figure.as_number();
        let share = share.ok_or_else(|| figure.reason.clone().unwrap_or_default())?;
        largest = largest.max((share - truth).abs());
    }
    Ok(largest)
}

/// Returns the routines' true shares from clean slices; `None` if there were too few.
fn truth(session: &mut Session, amount: u64) -> Result<Option<[f64; 3]>, Error> {
    let per_ns = ticks_per_s() / 1e9;
    let mut shares: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        let before = slowed::taken();
        let slice = session.run((amount / PART).max(1))?;
        let after = slowed::taken();
        if slice.dropped.is_none() {
            let whole = slice.cpu_ns as f64 * per_ns;
            let all = shares.iter_mut().zip(before.into_iter().zip(after));
            all.for_each(|(all, (then, now))| all.push((now - then) as f64 / whole));
        }
    }
    let is_enough = shares[0].len() >= ROUNDS as usize / 4;
    let medians = || shares.each_ref().map(|all| median(all).unwrap_or(f64::NAN));
    Ok(is_enough.then(medians))
}

/// Checks that timing with serializing reads covers a call until its result is available, and
/// counts this time only once.
fn late() -> [Check; 2] {
    const CALLS: u32 = 200;
    const ROUNDS: u64 = 41;
    let bytes = [0; 16];
    let mut seam = Seam::new(slowed::late());
    let mut ratio = || {
        // A dependent chain: each sum is the next one's initial value.
        let start = ticks_in_order();
        let sum = (0..CALLS).fold(1, |sum, _| seam.checksum(&bytes, sum));
        let alone = (ticks_in_order() - start) as f64;
        seam.watch(Some(Reading::Waiting));
        let sums = (0..CALLS).fold(0, |sums, _| sums | seam.checksum(&bytes, sum));
        std::hint::black_box(sums);
        let tally = seam.tallies().checksum;
        seam.watch(None);
        (tally.ticks as f64 - empty_call_ticks(Reading::Waiting) * f64::from(CALLS)) / alone
    };
    let ratios: Vec<f64> = (0..ROUNDS).map(|_| ratio()).collect();
    let ratio = median(&ratios).unwrap_or(f64::NAN);
    let why = "median ratio of the ticks taken by individually timed calls to those taken by the \
               same calls back to back";
    [
        Check::at_least("shares.late_call_is_timed", ratio, ROUNDS, LATE.0, why),
        Check::at_most("shares.late_call_is_timed_once", ratio, ROUNDS, LATE.1, why),
    ]
}
