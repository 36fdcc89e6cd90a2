// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes results from a thread's samples: its functions and, if it polls, its work.

use super::ThreadId;
use super::names::Names;
use super::polling::{self, CannotTell, Separated, Slice};
use linerate_record::stats::Estimate;
use linerate_record::why::{FunctionTime, MemoryUse};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// CPU time of a thread by function.
#[derive(Clone, Debug)]
pub struct ThreadProfile {
    /// The thread.
    pub id: ThreadId,
    /// Number of the thread's samples.
    pub samples: u64,
    /// The functions that the thread was sampled in, most frequent first, at most 32.
    pub functions: Vec<FunctionTime>,
    /// Share of the thread's CPU time spent on packets.
    pub busy: Figure,
    /// CPU time per packet, nanoseconds.
    pub cost_ns: Figure,
    /// Share of the poll loop's time in the kernel; `None` if no loop was found.
    pub polling_in_kernel: Option<f64>,
    /// The thread's memory use; `None` if there are too few samples.
    pub memory: Option<MemoryUse>,
    /// Share of the thread's samples at cipher and hash instructions; `None` if instructions are
    /// not decoded.
    pub cipher_instructions: Option<f64>,
}

const MAX_FUNCTIONS: usize = 32;
const METHOD: &str = "samples fitted against the program's packets";
const SEED: u64 = 0x6c69_6e65;

pub(super) fn profile(
    id: ThreadId,
    samples: u64,
    slices: &[Slice],
    names: &Names,
    asleep: f64,
    (memory, cipher_instructions): (Option<MemoryUse>, Option<f64>),
) -> ThreadProfile {
    let separated = polling::separate(slices, &names.places, asleep, SEED ^ u64::from(id.tid));
    ThreadProfile {
        id,
        samples,
        functions: functions(slices, names, separated.as_ref().ok()),
        busy: figure("ratio", &separated, |separated| separated.busy),
        cost_ns: figure("ns/packet", &separated, |separated| separated.cost_ns),
        polling_in_kernel: separated.as_ref().ok().map(|separated| separated.kernel_share),
        memory,
        cipher_instructions,
    }
}

fn figure(
    unit: &str,
    separated: &Result<Separated, CannotTell>,
    of: impl Fn(&Separated) -> Estimate,
) -> Figure {
    match separated {
        Ok(separated) => Figure::number(unit, of(separated), Tier::Sw, METHOD),
        Err(why) => Figure::absent(unit, Tier::Sw, METHOD, &why.to_string()),
    }
}

fn functions(slices: &[Slice], names: &Names, separated: Option<&Separated>) -> Vec<FunctionTime> {
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
