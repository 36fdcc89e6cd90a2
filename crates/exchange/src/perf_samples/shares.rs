// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares of functions and kinds of work, with their intervals.

use linerate_record::profile::{ClassCost, CostClass, FunctionCost, ProfileReport};
use linerate_record::stats::{Estimate, share_interval};
use linerate_record::why::Unread;
use linerate_record::{Figure, Tier};
use std::collections::{BTreeSet, HashMap};

/// A sample of the chosen event.
pub(super) struct Sample {
    pub(super) time_ns: u64,
    pub(super) thread: u32,
    pub(super) chain: u32,
    /// Function of the sampled instruction.
    pub(super) leaf: u32,
    /// Period, in counts of the event.
    pub(super) weight: f64,
}

/// Maximum number of slices of the window, as for profiles that linerate samples.
const SLICES: u64 = 100;
const SLICE_MIN_NS: u64 = 10_000_000;
/// Maximum number of functions whose shares get an interval: those with the most samples.
const MOST_INTERVALS: usize = 512;
const SEED: u64 = 0x7065_7266;
const METHOD: &str = "samples in the function, weighted by their periods / all samples";
const NO_PACKETS: &str = "perf counts no packets";

/// Estimates the CPU time per sample, in nanoseconds, from the shortest gaps between two samples of
/// a thread. Longer gaps include time off the CPU.
pub(super) fn gap_ns(samples: &[Sample]) -> f64 {
    /// Quantile of the gaps that is returned: low, to exclude time off the CPU, but above the short
    /// gaps after changes of the period.
    const LOW: f64 = 0.1;
    let mut last = HashMap::<u32, u64>::new();
    let mut gaps: Vec<u64> = samples
        .iter()
        .filter_map(|sample| {
            let before = last.insert(sample.thread, sample.time_ns)?;
            Some(sample.time_ns - before).filter(|gap| *gap > 0)
        })
        .collect();
    gaps.sort_unstable();
    gaps.get((gaps.len() as f64 * LOW) as usize).map_or(1e6, |gap| *gap as f64)
}

/// Returns a note that samples have different weights; `None` if their periods are about equal.
pub(super) fn uneven(samples: &[Sample]) -> Option<Unread> {
    /// Minimum ratio of the largest and the smallest period of the middle 90 % of the samples.
    const UNEVEN: f64 = 1.25;
    let mut weights: Vec<f64> = samples.iter().map(|sample| sample.weight).collect();
    weights.sort_by(f64::total_cmp);
    let at = |share: f64| weights.get((weights.len() as f64 * share) as usize).copied();
    let (low, high) = (at(0.05)?, at(0.95)?);
    (high > UNEVEN * low).then(|| Unread {
        what: "equal_periods".to_owned(),
        reason: "perf changed the sampling period: shares are weighted by the period of each \
                 sample, but sample counts are not"
            .to_owned(),
        fix: Some("perf record -c PERIOD  # a fixed period".to_owned()),
    })
}

/// Weighted samples by slice of the window. The mean weight is 1.
pub(super) struct Shares<'a> {
    samples: &'a [Sample],
    mean: f64,
    slice_ns: u64,
    /// Weight of all samples, for each slice with samples.
    all: Vec<f64>,
    /// Weights by function, for each slice with samples.
    by_function: Vec<HashMap<u32, f64>>,
}

impl<'a> Shares<'a> {
    /// Divides samples, in the order of time, into slices.
    pub(super) fn new(samples: &'a [Sample]) -> Self {
        let total: f64 = samples.iter().map(|sample| sample.weight).sum();
        let mean = (total / samples.len().max(1) as f64).max(f64::MIN_POSITIVE);
        let first = samples.first().map_or(0, |sample| sample.time_ns);
        let last = samples.last().map_or(0, |sample| sample.time_ns);
        let slice_ns = ((last - first) / SLICES + 1).max(SLICE_MIN_NS);
        let mut shares = Self { samples, mean, slice_ns, all: Vec::new(), by_function: Vec::new() };
        let mut current = None;
        for sample in samples {
            let slice = (sample.time_ns - first) / shares.slice_ns;
            if current != Some(slice) {
                current = Some(slice);
                shares.all.push(0.0);
                shares.by_function.push(HashMap::new());
            }
            let weight = sample.weight / shares.mean;
            if let (Some(all), Some(one)) = (shares.all.last_mut(), shares.by_function.last_mut()) {
                *all += weight;
                *one.entry(sample.leaf).or_default() += weight;
            }
        }
        shares
    }

    /// Returns the number of slices with samples.
    pub(super) fn number(&self) -> usize {
        self.all.len()
    }

    /// Returns the share of `hits`, the weights of some samples for each slice.
    fn figure(&self, hits: &[f64], has_interval: bool, tier: Tier) -> Figure {
        let estimate = match has_interval {
            true => share_interval(hits, &self.all, SEED),
            false => {
                let all: f64 = self.all.iter().sum();
                Estimate::of_ends(hits.iter().sum::<f64>() / all, None, None, all as u64)
            }
        };
        Figure::number("ratio", estimate, tier, METHOD)
    }

    /// Adds the functions to the report, most samples first. Returns a map from a function's number
    /// in `names` to its index in the report.
    pub(super) fn functions(
        &self,
        report: &mut ProfileReport,
        names: &[(String, String)],
        chains: &[(u32, Vec<u32>)],
        class_of: fn(&str, &str) -> CostClass,
    ) -> HashMap<u32, u32> {
        let (mut own, mut with_callees) = (HashMap::<u32, u64>::new(), HashMap::new());
        let mut of_chains = HashMap::<u32, u64>::new();
        for sample in self.samples {
            *own.entry(sample.leaf).or_default() += 1;
            *of_chains.entry(sample.chain).or_default() += 1;
        }
        for (chain, samples) in &of_chains {
            // Recursive functions count once.
            for function in chains[*chain as usize].1.iter().copied().collect::<BTreeSet<u32>>() {
                *with_callees.entry(function).or_default() += samples;
            }
        }
        let mut order: Vec<(u32, u64)> = with_callees.into_iter().collect();
        let count = |number: &u32| own.get(number).copied().unwrap_or(0);
        order.sort_by_key(|(number, with_callees)| {
            let reverse = std::cmp::Reverse;
            (reverse(count(number)), reverse(*with_callees), *number)
        });
        let tier = report.tier();
        for (at, (number, with_callees)) in order.iter().enumerate() {
            let (name, module) = &names[*number as usize];
            let has_interval = at < MOST_INTERVALS && count(number) > 0;
            let of_slice = |slice: &HashMap<u32, f64>| slice.get(number).copied().unwrap_or(0.0);
            let hits: Vec<f64> = self.by_function.iter().map(of_slice).collect();
            report.functions.push(FunctionCost {
                name: name.clone(),
                module: module.clone(),
                class: class_of(name, module),
                samples: count(number),
                share: self.figure(&hits, has_interval, tier),
                samples_with_callees: *with_callees,
                ns_per_packet: Figure::absent("ns/packet", tier, METHOD, NO_PACKETS),
                is_polling: None,
            });
        }
        order.into_iter().map(|(number, _)| number).zip(0..).collect()
    }

    /// Returns the kinds of work with samples, most samples first. `indices` maps the number of a
    /// function to its index in the report.
    pub(super) fn classes(
        &self,
        report: &ProfileReport,
        indices: &HashMap<u32, u32>,
    ) -> Vec<ClassCost> {
        let tier = report.tier();
        let class_of = |number: u32| report.functions[indices[&number] as usize].class;
        let cost = |class: CostClass| {
            let is_it = |one: &&FunctionCost| one.class == class;
            let samples = report.functions.iter().filter(is_it).map(|one| one.samples).sum();
            let ns_per_packet = Figure::absent("ns/packet", tier, METHOD, NO_PACKETS);
            let of_slice = |slice: &HashMap<u32, f64>| {
                let of_class = slice.iter().filter(|(number, _)| class_of(**number) == class);
                of_class.map(|(_, weight)| weight).sum()
            };
            let hits: Vec<f64> = self.by_function.iter().map(of_slice).collect();
            let share = self.figure(&hits, true, tier);
            ClassCost { class, samples, share, ns_per_packet }
        };
        let mut classes: Vec<ClassCost> = CostClass::ALL.into_iter().map(cost).collect();
        classes.retain(|one| one.samples > 0);
        classes.sort_by_key(|one| std::cmp::Reverse(one.samples));
        classes
    }
}
