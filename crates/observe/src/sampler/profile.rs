// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives a thread's profile from its samples: time by function and, if it polls, time spent on
//! packets.

use super::ThreadId;
use super::names::Names;
use super::polling::{CannotTell, Separated, Slice};
use linerate_record::stats::Estimate;
use linerate_record::why::{FunctionTime, MemoryUse};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// A thread's CPU time by function.
#[derive(Clone, Debug)]
pub struct ThreadProfile {
    /// The thread.
    pub id: ThreadId,
    /// Number of the thread's samples.
    pub samples: u64,
    /// Functions in which the thread was sampled, most frequent first; at most 32.
    pub functions: Vec<FunctionTime>,
    /// Fraction of the thread's CPU time spent on packets.
    pub busy: Figure,
    /// CPU time per packet, in nanoseconds.
    pub cost_ns: Figure,
    /// Fraction of the poll loop's time spent in the kernel; `None` if no loop was found.
    pub polling_in_kernel: Option<f64>,
    /// Memory use; `None` if there are too few samples.
    pub memory: Option<MemoryUse>,
    /// Fraction of samples on cipher and hash instructions; `None` if instructions are not decoded.
    pub cipher_instructions: Option<f64>,
}

const MAX_FUNCTIONS: usize = 32;
const METHOD: &str = "linear fit of sample counts against the program's packet counts";
pub(super) const SEED: u64 = 0x6c69_6e65;

/// Returns a thread's profile over `slices`. `separated` is the result of separating work from
/// polling, and `busy` the fraction of CPU time spent on work.
pub(super) fn profile(
    id: ThreadId,
    slices: &[&Slice],
    names: &Names,
    (separated, busy): (&Result<Separated, CannotTell>, Result<Estimate, CannotTell>),
) -> ThreadProfile {
    let separated = separated.as_ref();
    ThreadProfile {
        id,
        samples: slices.iter().map(|slice| slice.samples()).sum(),
        functions: functions(slices, names, separated.ok()),
        busy: figure("ratio", busy),
        cost_ns: figure("ns/packet", separated.map(|found| found.cost_ns).map_err(|e| *e)),
        polling_in_kernel: separated.ok().map(|separated| separated.kernel_share),
        memory: None,
        cipher_instructions: None,
    }
}

fn figure(unit: &str, estimate: Result<Estimate, CannotTell>) -> Figure {
    match estimate {
        Ok(estimate) => Figure::number(unit, estimate, Tier::Sw, METHOD),
        Err(why) => Figure::absent(unit, Tier::Sw, METHOD, &why.to_string()),
    }
}

fn functions(slices: &[&Slice], names: &Names, separated: Option<&Separated>) -> Vec<FunctionTime> {
    let mut counts = BTreeMap::<u32, u64>::new();
    for &(place, count) in slices.iter().flat_map(|slice| &slice.counts) {
        *counts.entry(names.places[place as usize].function).or_default() += u64::from(count);
    }
    let all: u64 = counts.values().sum();
    let mut counts: Vec<(u32, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|&(function, count)| (std::cmp::Reverse(count), function));
    counts.truncate(MAX_FUNCTIONS);
    let time = |(function, count): (u32, u64)| {
        let name = &names.functions[function as usize];
        FunctionTime {
            name: name.name.clone(),
            file: name.file.clone(),
            share: count as f64 / all as f64,
            is_polling: separated.and_then(|found| found.is_polling.get(&function).copied()),
        }
    };
    counts.into_iter().map(time).collect()
}
