// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two profiles: which functions cost more or less, beyond sampling noise.
//!
//! A function's change is its cost in the later profile minus that in the earlier one. The two are
//! independent, so their errors add in quadrature. With 95 % intervals, one function in twenty
//! would seem to change by chance. Intervals are therefore widened until those of all `m` compared
//! functions hold simultaneously (Bonferroni), that is, each one excludes the true change with a
//! probability of at most `0.05 / m`. For a normal variable `Z`, `P(|Z| > z) <= exp(-z^2 / 2)`, so
//! `z = sqrt(2 ln(m / 0.05))` suffices; the recorded intervals have `z = 1.96`.
//!
//! ```text
//! unit = ns per packet if both profiles have it, else share of samples
//! for each function with LEAST samples or more in both profiles together:
//!     change = new + (-old), errors in quadrature, times z / 1.96
//!     verdict = more or less if the whole interval is on one side of 0
//! ```
//!
//! If only one of the profiles sampled the kernel, kernel functions are compared as one or, if the
//! time in the kernel is unknown in the other, left out.

use linerate_record::profile::{FunctionCost, ProfileReport};
use linerate_record::profile_diff::{
    ChangeVerdict, ComparedProfile, CostChange, CostUnit, FunctionChange, ProfileDiffReport,
};
use linerate_record::stats::{CONFIDENCE, Estimate};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// Minimum number of samples that a function must have in both profiles combined. With fewer, no
/// change could be detected, and every function compared widens the intervals of the others.
const LEAST: u64 = 20;

/// Half-width of a 95 % interval in standard errors.
const Z: f64 = 1.96;

/// Method stated with each change.
const METHOD: &str = "difference of two profiles; errors added in quadrature, intervals widened \
                      for multiple comparisons";

/// Common name for all functions of a file that have no symbol. Their addresses differ between
/// builds.
const NAMELESS: &str = "[functions without symbols]";

/// Name for the whole kernel, if only one of the profiles sampled it.
const WHOLE_KERNEL: &str = "[not in user mode]";
/// Module of kernel functions.
const KERNEL: &str = "kernel";

/// How kernel functions are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// Function by function.
    Functions,
    /// As one function, since one of the profiles has only their sum.
    AsOne,
    /// Not at all, since one of the profiles has no samples of the kernel and does not know how
    /// many are missing. Shares are relative to the samples in user mode.
    LeftOut,
}

impl Kernel {
    fn of(old: &ProfileReport, new: &ProfileReport) -> Self {
        // In user mode, the clock shows how much time was spent in the kernel, but cycles do not.
        let is_known = |report: &ProfileReport| {
            report.sampling.has_kernel || report.sampling.event == "cpu-clock"
        };
        match is_known(old) == is_known(new) {
            false => Self::LeftOut,
            true if old.sampling.has_kernel == new.sampling.has_kernel => Self::Functions,
            true => Self::AsOne,
        }
    }
}

/// Returns the differences in how the two profiles were sampled.
fn notes(old: &ProfileReport, new: &ProfileReport, kernel: Kernel) -> Vec<String> {
    let mut notes = Vec::new();
    if old.sampling.event != new.sampling.event {
        notes.push(format!(
            "the old profile sampled {}, the new one {}: where the CPU frequency varies, a share \
             of cycles differs from a share of CPU time",
            old.sampling.event, new.sampling.event
        ));
    }
    let which = if old.sampling.has_kernel { "old" } else { "new" };
    match kernel {
        Kernel::Functions => {}
        Kernel::AsOne => notes.push(format!(
            "the kernel was sampled in the {which} profile only: all kernel functions are compared \
             as a single entry, {WHOLE_KERNEL}"
        )),
        Kernel::LeftOut => notes.push(
            "one of the profiles has no kernel samples, so shares are relative to the samples in \
             user mode"
                .to_owned(),
        ),
    }
    notes
}

/// Entries of one function in each profile: none if the profile has no samples of the function,
/// several if functions are compared as one.
#[derive(Default)]
struct Pair<'a> {
    old: Vec<&'a FunctionCost>,
    new: Vec<&'a FunctionCost>,
}

/// Compares two profiles.
pub fn profile_diff(old: &ProfileReport, new: &ProfileReport) -> ProfileDiffReport {
    let kernel = Kernel::of(old, new);
    let unit = match has_costs(old) && has_costs(new) && kernel != Kernel::LeftOut {
        true => CostUnit::NsPerPacket,
        false => CostUnit::ShareOfSamples,
    };
    let pairs = pairs(old, new, kernel);
    let samples = |all: &[&FunctionCost]| all.iter().map(|one| one.samples).sum::<u64>();
    let is_compared = |pair: &Pair<'_>| samples(&pair.old) + samples(&pair.new) >= LEAST;
    let compared = pairs.values().filter(|pair| is_compared(pair)).count();
    let wider = (2.0 * (compared.max(1) as f64 / (1.0 - CONFIDENCE)).ln()).sqrt() / Z;
    let tier = old.tier().max(new.tier());
    let mut functions: Vec<FunctionChange> = pairs
        .iter()
        .filter(|(_, pair)| is_compared(pair))
        .map(|((name, module), pair)| {
            let costs = [(old, &pair.old), (new, &pair.new)].map(|(of, all)| {
                cost(of, all, unit).scale(if kernel == Kernel::LeftOut {
                    per_user(of)
                } else {
                    1.0
                })
            });
            FunctionChange {
                name: name.clone(),
                module: module.clone(),
                class: pair
                    .new
                    .iter()
                    .chain(&pair.old)
                    .next()
                    .map_or(linerate_record::profile::CostClass::Program, |function| {
                        function.class
                    }),
                samples: [samples(&pair.old), samples(&pair.new)],
                cost: change(costs, wider, unit, tier),
            }
        })
        .collect();
    let size = |one: &FunctionChange| one.cost.change.as_number().unwrap_or(0.0).abs();
    let is_open = |one: &FunctionChange| one.cost.verdict == ChangeVerdict::CannotTell;
    functions.sort_by(|a, b| {
        is_open(a).cmp(&is_open(b)).then(size(b).total_cmp(&size(a))).then(a.name.cmp(&b.name))
    });
    ProfileDiffReport {
        old: compared_profile(old),
        new: compared_profile(new),
        unit,
        total: change([total(old, unit), total(new, unit)], 1.0, unit, tier),
        functions,
        functions_left_out: (pairs.len() - compared) as u64,
        notes: notes(old, new, kernel),
    }
}

/// Returns the number of all samples divided by the number of samples in user mode.
fn per_user(report: &ProfileReport) -> f64 {
    let kernel = report.functions.iter().filter(|function| function.module == KERNEL);
    let kernel: f64 = kernel.filter_map(|function| function.share.as_number()).sum();
    1.0 / (1.0 - kernel).max(f64::EPSILON)
}

/// Returns whether a profile has per-packet costs.
fn has_costs(report: &ProfileReport) -> bool {
    let has_packets = report.packets.as_ref().is_some_and(|packets| packets.packets > 0);
    let mut sampled = report.functions.iter().filter(|function| function.samples > 0);
    has_packets && sampled.all(|function| function.ns_per_packet.as_number().is_some())
}

/// Pairs functions by name and the basename of their file. Directories are ignored, as two builds
/// of a program may be in different directories.
fn pairs<'a>(
    old: &'a ProfileReport,
    new: &'a ProfileReport,
    kernel: Kernel,
) -> BTreeMap<(String, String), Pair<'a>> {
    let mut pairs: BTreeMap<(String, String), Pair<'a>> = BTreeMap::new();
    let is_compared = |function: &&FunctionCost| {
        function.samples > 0 && (kernel != Kernel::LeftOut || function.module != KERNEL)
    };
    for function in old.functions.iter().filter(is_compared) {
        pairs.entry(key(function, kernel)).or_default().old.push(function);
    }
    for function in new.functions.iter().filter(is_compared) {
        pairs.entry(key(function, kernel)).or_default().new.push(function);
    }
    pairs
}

fn key(function: &FunctionCost, kernel: Kernel) -> (String, String) {
    if kernel == Kernel::AsOne && function.module == KERNEL {
        return (WHOLE_KERNEL.to_owned(), KERNEL.to_owned());
    }
    let module = function.module.rsplit('/').next().unwrap_or_default();
    let address = function.name.rsplit_once("+0x").map(|(_, address)| address);
    let is_nameless = address.is_some_and(|text| u64::from_str_radix(text, 16).is_ok());
    let name = if is_nameless { NAMELESS } else { &function.name };
    (name.to_owned(), module.to_owned())
}

/// Returns the total cost of functions that are compared as a single function. Their errors may be
/// correlated, so the errors are added.
fn cost(report: &ProfileReport, functions: &[&FunctionCost], unit: CostUnit) -> Estimate {
    let of = |function: &&FunctionCost| match unit {
        CostUnit::NsPerPacket => function.ns_per_packet.estimate(),
        CostUnit::ShareOfSamples => function.share.estimate(),
    };
    let none = Estimate { high: unseen(report, unit), ..Estimate::exactly(0.0) };
    functions.iter().filter_map(of).reduce(Estimate::plus).unwrap_or(none)
}

/// Returns the upper end of the cost of a function without samples: a function with a share of 3 /
/// n gets none of n samples in 5 % of all profiles (rule of three).
fn unseen(report: &ProfileReport, unit: CostUnit) -> f64 {
    let share = 3.0 / report.samples.max(1) as f64;
    match unit {
        CostUnit::NsPerPacket => share * total(report, unit).value,
        CostUnit::ShareOfSamples => share,
    }
}

/// Returns the total cost of all functions. Packets and CPU time are counted, not sampled.
fn total(report: &ProfileReport, unit: CostUnit) -> Estimate {
    let packets = report.packets.as_ref().map_or(1, |packets| packets.packets.max(1));
    match unit {
        CostUnit::NsPerPacket => Estimate::exactly(report.cpu_s * 1e9 / packets as f64),
        CostUnit::ShareOfSamples => Estimate::exactly(1.0),
    }
}

fn change([old, new]: [Estimate; 2], wider: f64, unit: CostUnit, tier: Tier) -> CostChange {
    let less = Estimate { value: -old.value, low: -old.high, high: -old.low, ..old };
    let narrow = new.plus_independent(less);
    let change = Estimate {
        low: narrow.value - wider * (narrow.value - narrow.low),
        high: narrow.value + wider * (narrow.high - narrow.value),
        ..narrow
    };
    let verdict = match (change.low, change.high) {
        (low, _) if low > 0.0 => ChangeVerdict::More,
        (_, high) if high < 0.0 => ChangeVerdict::Less,
        _ => ChangeVerdict::CannotTell,
    };
    let figure = |estimate, method| Figure::number(unit.name(), estimate, tier, method);
    CostChange {
        old: figure(old, "samples of the earlier profile"),
        new: figure(new, "samples of the later profile"),
        change: figure(change, METHOD),
        verdict,
    }
}

fn compared_profile(report: &ProfileReport) -> ComparedProfile {
    ComparedProfile {
        program: report.sampled.name.clone(),
        samples: report.samples,
        cpu_s: report.cpu_s,
        packets: report.packets.as_ref().map(|packets| packets.packets),
    }
}
