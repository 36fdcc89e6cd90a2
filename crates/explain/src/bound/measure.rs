// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures that rules refer to: measures in the record, and measures derived from them.

use crate::rule::filled;
use linerate_record::Tier;
use linerate_record::answers::Evidence;
use linerate_record::profile::{
    BoundEvidence, BoundMeasure as M, FunctionCost, ProfileReport, SimulatedFunction,
};
use linerate_record::stats::Estimate;
use linerate_record::units::{memory_size, three_digits};

/// The subject of a finding, the program or a function, with its evidence.
pub(super) struct Subject<'a> {
    pub(super) report: &'a ProfileReport,
    pub(super) evidence: &'a BoundEvidence,
}

/// A measure that a condition refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A measure in the record.
    Of(M),
    /// Fraction of samples that wait for loads or stores.
    MemoryWaits,
    /// Working set relative to the size of the L1 data cache.
    OverL1d,
    /// Working set relative to the size of the last-level cache. If the machine has several such
    /// caches, the working set of one thread.
    OverLastLevel,
    /// Size of the code in use relative to the size of the L2 cache.
    CodeOverL2,
    /// Data rate of the streams relative to this machine's read bandwidth with as many threads.
    StreamOverMemory,
}

/// Minimum share of user-mode samples in functions with simulated counts.
const MIN_SIMULATED: f64 = 0.8;
/// Minimum number of simulated instructions.
const MIN_INSTRUCTIONS: u64 = 100_000;

impl Subject<'_> {
    pub(super) fn is_program(&self) -> bool {
        self.evidence.function.is_none()
    }

    fn function(&self) -> Option<&FunctionCost> {
        self.report.functions.get(self.evidence.function? as usize)
    }

    /// Returns the memory that must fit in one last-level cache. Threads on other CPUs may use
    /// other caches.
    fn cached(&self) -> M {
        match self.report.limits.last_level_caches {
            None | Some(0 | 1) => M::WorkingSet,
            Some(_) => M::ThreadWorkingSet,
        }
    }

    fn estimate(&self, measure: M) -> Option<Estimate> {
        let figure = self.evidence.figure(measure)?;
        figure.estimate().or_else(|| figure.as_number().map(Estimate::exactly))
    }

    /// Returns simulated counts per 1000 instructions of the function or, for the program, of its
    /// user-mode functions, weighted by samples; `None` without a simulation, or if it covers too
    /// few of their instructions or samples.
    fn simulated(&self, count: fn(&SimulatedFunction) -> u64) -> Option<Estimate> {
        let simulated = &self.report.simulated.as_ref()?.functions;
        let own = |function: &FunctionCost| simulated.iter().find(|one| one.name == function.name);
        let functions: Vec<&FunctionCost> = match self.function() {
            Some(function) => vec![function],
            None => {
                let in_user_mode = |one: &&FunctionCost| one.module != "kernel";
                self.report.functions.iter().filter(in_user_mode).collect()
            }
        };
        let known = functions.iter().filter(|function| own(function).is_some());
        let known: u64 = known.map(|function| function.samples).sum();
        let all: u64 = functions.iter().map(|function| function.samples).sum();
        // Functions are weighted by their samples, so it does not matter if the simulation has a
        // different mix of functions, such as more setup.
        let mut value = 0.0;
        for function in &functions {
            let Some(one) = own(function) else { continue };
            let per_1000 = 1000.0 * count(one) as f64 / one.instructions.max(1) as f64;
            value += per_1000 * function.samples as f64 / known.max(1) as f64;
        }
        let instructions: u64 =
            functions.iter().filter_map(|one| own(one)).map(|one| one.instructions).sum();
        let is_enough = instructions >= MIN_INSTRUCTIONS
            && known as f64 >= MIN_SIMULATED * all as f64
            && all > 0;
        is_enough.then(|| Estimate::exactly(value))
    }
}

impl Measure {
    /// Returns the measure's value; `None` if it was not measured.
    pub(super) fn of(self, subject: &Subject<'_>) -> Option<Estimate> {
        let limits = &subject.report.limits;
        let over = |measure, size: Option<u64>| {
            let size = size.filter(|size| *size > 0)?;
            Some(subject.estimate(measure)?.scale(1.0 / size as f64))
        };
        match self {
            Self::Of(M::Mispredictions) => subject.simulated(|one| one.mispredictions),
            Self::Of(M::InstructionMisses) => subject.simulated(|one| one.l1i_misses),
            Self::Of(M::DataMisses) => subject.simulated(|one| one.l1d_misses),
            Self::Of(M::LastLevelMisses) => subject.simulated(|one| one.last_level_misses),
            Self::Of(measure) => subject.estimate(measure),
            Self::MemoryWaits => {
                Some(subject.estimate(M::Loads)?.plus(subject.estimate(M::Stores)?))
            }
            Self::OverL1d => over(M::WorkingSet, limits.l1d_bytes),
            Self::OverLastLevel => over(subject.cached(), limits.last_level_bytes),
            Self::CodeOverL2 => over(M::CodeSize, limits.l2_bytes),
            Self::StreamOverMemory => {
                let most = limits.read_bytes_per_s.filter(|rate| *rate > 0.0)?;
                Some(subject.estimate(M::StreamRate)?.scale(1.0 / most))
            }
        }
    }

    /// Returns the evidence tier of the measure; `None` if it was not measured.
    pub(super) fn tier(self, subject: &Subject<'_>) -> Option<Tier> {
        let of = |measure| Some(subject.evidence.figure(measure)?.tier);
        match self {
            Self::Of(
                M::Mispredictions | M::InstructionMisses | M::DataMisses | M::LastLevelMisses,
            ) => Some(Tier::Sim),
            Self::Of(measure) => of(measure),
            Self::MemoryWaits => of(M::Loads),
            Self::OverL1d => of(M::WorkingSet),
            Self::OverLastLevel => of(subject.cached()),
            Self::CodeOverL2 => of(M::CodeSize),
            Self::StreamOverMemory => of(M::StreamRate),
        }
    }

    /// Returns the measure as evidence for a finding.
    pub(super) fn evidence(self, subject: &Subject<'_>, source: &str) -> Option<Evidence> {
        let estimate = self.of(subject)?;
        let tier = self.tier(subject).map_or("", Tier::name);
        let source = format!("{tier}; threshold: {source}");
        Some(Evidence::of(self.title(), estimate, self.unit(), &source))
    }

    fn title(self) -> &'static str {
        match self {
            Self::Of(measure) => measure.title(),
            Self::MemoryWaits => "waiting for loads and stores",
            Self::OverL1d => "working set relative to L1d",
            Self::OverLastLevel => "working set relative to the last-level cache",
            Self::CodeOverL2 => "code in use relative to L2",
            Self::StreamOverMemory => "stream rate relative to memory bandwidth",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Of(M::WorkingSet | M::ThreadWorkingSet | M::CodeSize) => "bytes",
            Self::Of(M::StreamRate) => "bytes/s",
            Self::Of(M::WorkingThreads) => "threads",
            Self::Of(
                M::Mispredictions | M::InstructionMisses | M::DataMisses | M::LastLevelMisses,
            ) => "per 1000 instructions",
            _ => "ratio",
        }
    }

    fn shown(self, subject: &Subject<'_>) -> Option<String> {
        let value = self.of(subject)?.value;
        Some(match self.unit() {
            "bytes" => memory_size(value),
            "bytes/s" => format!("{} GB/s", three_digits(value / 1e9)),
            "ratio" if value <= 1.0 => format!("{} %", three_digits(100.0 * value)),
            _ => three_digits(value),
        })
    }
}

/// Returns whether most of the subject's samples are in the kernel.
pub(super) fn is_in_kernel(subject: &Subject<'_>) -> bool {
    Measure::Of(M::UserMode).of(subject).is_some_and(|user| user.high < 0.5)
}

/// Placeholders in rule texts, with the measures that replace them.
const NAMES: [(&str, Measure); 24] = [
    ("user", Measure::Of(M::UserMode)),
    ("calls", Measure::Of(M::UnderSystemCalls)),
    ("faults", Measure::Of(M::InPageFaults)),
    ("locks", Measure::Of(M::InLocks)),
    ("copies", Measure::Of(M::InCopies)),
    ("loads", Measure::Of(M::Loads)),
    ("dependent", Measure::Of(M::DependentLoads)),
    ("memory", Measure::MemoryWaits),
    ("long", Measure::Of(M::LongArithmetic)),
    ("simple", Measure::Of(M::SimpleInstructions)),
    ("pauses", Measure::Of(M::Pauses)),
    ("behind", Measure::Of(M::BehindBranches)),
    ("straight", Measure::Of(M::StraightLoops)),
    ("contended", Measure::Of(M::ContendedBytes)),
    ("working_set", Measure::Of(M::WorkingSet)),
    ("over_cache", Measure::OverLastLevel),
    ("streamed", Measure::Of(M::Streamed)),
    ("rate", Measure::Of(M::StreamRate)),
    ("of_memory", Measure::StreamOverMemory),
    ("code", Measure::Of(M::CodeSize)),
    ("saturation", Measure::Of(M::Saturation)),
    ("futex", Measure::Of(M::AsleepOnFutex)),
    ("mispredictions", Measure::Of(M::Mispredictions)),
    ("instruction_misses", Measure::Of(M::InstructionMisses)),
];

/// Returns `text` with every `{name}` replaced by its value, or by `-` if it has none.
pub(super) fn fill(text: &str, subject: &Subject<'_>) -> String {
    filled(text, |name| value(name, subject))
}

fn value(name: &str, subject: &Subject<'_>) -> Option<String> {
    match name {
        "subject" => Some(match subject.function() {
            Some(function) => format!("`{}`", function.name),
            None => subject.report.sampled.name.clone(),
        }),
        "working_set" => {
            let known = Measure::Of(M::WorkingSet).shown(subject);
            Some(known.unwrap_or_else(|| "unknown size".to_owned()))
        }
        "cached" => {
            let cached = subject.cached();
            let of = if cached == M::ThreadWorkingSet { " per thread" } else { "" };
            Some(Measure::Of(cached).shown(subject)? + of)
        }
        "readers" => Some(match subject.report.limits.read_threads {
            None | Some(1) => "one thread".to_owned(),
            Some(threads) => format!("{threads} threads"),
        }),
        "longest" => {
            let Some(first) = subject.report.asleep_on.first() else {
                return Some("system calls that could not be identified".to_owned());
            };
            let on = first.object.as_ref().map_or_else(String::new, |of| format!(" ({of})"));
            Some(format!("{}{on}", first.on))
        }
        _ => {
            let (_, measure) = NAMES.iter().find(|(known, _)| *known == name)?;
            measure.shown(subject)
        }
    }
}

/// Returns the three largest shares, each with its name, as text.
pub(super) fn summary(subject: &Subject<'_>) -> String {
    const SHARES: [M; 10] = [
        M::UnderSystemCalls,
        M::InPageFaults,
        M::InLocks,
        M::InCopies,
        M::Loads,
        M::Stores,
        M::LongArithmetic,
        M::SimpleInstructions,
        M::Atomics,
        M::BehindBranches,
    ];
    let share = |measure: &M| Some((subject.estimate(*measure)?.value, *measure));
    let mut shares: Vec<(f64, M)> = SHARES.iter().filter_map(share).collect();
    shares.sort_by(|a, b| b.0.total_cmp(&a.0));
    let part = |(value, measure): &(f64, M)| {
        format!("{} % {}", three_digits(100.0 * value), measure.title())
    };
    shares.iter().take(3).map(part).collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::rules::rules;
    use super::*;
    use crate::rule::names;

    #[test]
    fn every_placeholder_has_a_value() {
        let others = ["subject", "longest", "cached", "readers"];
        let is_known =
            |name| others.contains(&name) || NAMES.iter().any(|(known, _)| *known == name);
        for rule in rules() {
            let texts = [rule.sentence, rule.wrong_if, rule.next, rule.suspicion, rule.measure];
            for name in texts.into_iter().flat_map(names) {
                assert!(is_known(name), "{{{name}}} in {rule:?}");
            }
        }
    }
}
