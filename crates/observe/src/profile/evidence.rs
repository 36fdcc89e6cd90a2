// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evidence of what bounds the program and its hottest functions: the share of samples for each
//! cause of a stall, the memory and code in use, access streams, and bytes contended between cores.

use super::operands::{Operand, operands};
use super::regions::Regions;
use super::result::Sampled;
use super::sleepers::Asleep;
use super::streams::{Instruction, Visit, streams};
use super::waited::Kind;
use crate::sampler::accesses::{
    self, Access, LINE_BYTES, Memory, blocks_in_use, memory_use, shared_lines,
};
use crate::sampler::names::KERNEL;
use linerate_record::profile::{
    BoundEvidence, BoundMeasure as M, CostClass, MeasuredValue, MemoryKind, MemoryShare,
    ProfileReport,
};
use linerate_record::stats::{Estimate, share_interval};
use linerate_record::why::SharedLine;
use linerate_record::{Figure, Tier};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum number of functions for which evidence is reported.
const MAX_FUNCTIONS: usize = 5;
/// Minimum share of the samples for a function's evidence to be reported.
const MIN_SHARE: f64 = 0.05;
/// Minimum number of samples on a cache line for a thread to count as contending for the line.
const MIN_CONTENDED: u64 = 4;
const SEED: u64 = 0x626f_756e;
const SAMPLES: &str = "share of all samples";
const DECODED: &str = "share of all samples, classified by decoding the preceding instruction";
const ADDRESSES: &str = "addresses computed from sampled registers";
/// Functions through which system calls and page faults enter the kernel.
const ENTRIES: [&str; 4] = ["do_syscall_64", "x64_sys_call", "invoke_syscall", "el0_svc_common"];
const FAULTS: [&str; 4] =
    ["asm_exc_page_fault", "exc_page_fault", "do_user_addr_fault", "do_mem_abort"];
/// Prefixes of the names of futex functions.
const FUTEXES: [&str; 4] = ["futex_", "do_futex", "__x64_sys_futex", "__arm64_sys_futex"];

/// Adds the evidence to the report, along with memory usage derived from sampled addresses.
pub(super) fn add(
    report: &mut ProfileReport,
    sampled: &Sampled,
    (asleep, regions): (&Asleep, &Regions),
) {
    let found = Found::new(report, sampled);
    let hottest = report.functions.iter().take(MAX_FUNCTIONS);
    let hottest = hottest.filter(|one| one.share.as_number().is_some_and(|x| x >= MIN_SHARE));
    let functions: Vec<u32> = (0..hottest.count() as u32).collect();
    let mut evidence = vec![found.evidence(report, None)];
    evidence[0].measures.extend(asleep.measures());
    evidence.extend(functions.iter().map(|&index| found.evidence(report, Some(index))));
    report.memory = found.memory(report.tier(), regions);
    report.shared_lines = found.shared_lines();
    report.asleep_on = asleep.asleep_on();
    report.evidence = evidence;
}

/// Call chains, operands and contended cache lines found in the samples.
struct Found<'a> {
    sampled: &'a Sampled,
    operands: Vec<Operand>,
    /// Call chains, indexed by chain number.
    chains: Vec<Chain>,
    /// Number of samples in each slice, for the slices whose user-mode samples are all in
    /// `operands`.
    all: Vec<f64>,
    /// Cache lines with bytes that one thread writes and another uses.
    contended: HashSet<(Memory, u64)>,
}

/// Properties of a call chain.
#[derive(Clone, Copy)]
struct Chain {
    /// Index in the report of the chain's innermost function.
    function: u32,
    is_user: bool,
    is_call: bool,
    is_fault: bool,
    is_lock: bool,
    is_copy: bool,
}

impl<'a> Found<'a> {
    fn new(report: &ProfileReport, sampled: &'a Sampled) -> Self {
        let resolved = &sampled.resolved;
        let until = resolved.kept_until;
        let mut operands = operands(resolved);
        operands.retain(|one| (one.slice as usize) < until);
        let sum = |slice: &HashMap<u32, u64>| slice.values().sum::<u64>() as f64;
        let of = |spots: &[u32]| chain_of(report, sampled, spots);
        let contended = contended(&operands);
        Self {
            sampled,
            chains: resolved.chains.iter().map(|(_, spots, _)| of(spots)).collect(),
            all: resolved.by_chain.iter().take(until).map(sum).collect(),
            operands,
            contended,
        }
    }

    /// Returns the evidence for a function, given its index in the report, or for the whole
    /// program.
    fn evidence(&self, report: &ProfileReport, function: Option<u32>) -> BoundEvidence {
        let tier = report.tier();
        let is_it = |index: u32| function.is_none_or(|function| function == index);
        let all = self.of_chains(|chain| is_it(chain.function));
        // The slices with operands, which are all unless there are very many samples.
        let share = |measure, hits: &[f64], method: &str| {
            let all = &all[..hits.len()];
            let figure = match all.iter().sum::<f64>() > 0.0 {
                true => Figure::number("ratio", share_interval(hits, all, SEED), tier, method),
                false => Figure::absent("ratio", tier, method, "too many samples to keep"),
            };
            MeasuredValue { measure, figure }
        };
        let mut measures = Vec::new();
        let of_chains: [(M, Test<Chain>, bool); 5] = [
            (M::UserMode, |chain| chain.is_user, false),
            (M::UnderSystemCalls, |chain| chain.is_call, true),
            (M::InPageFaults, |chain| chain.is_fault, true),
            (M::InLocks, |chain| chain.is_lock, true),
            (M::InCopies, |chain| chain.is_copy, true),
        ];
        let no_kernel = match report.sampling.has_kernel {
            false => Some("the kernel was not sampled"),
            true if self.sampled.resolved.names.hides_kernel => {
                Some("the kernel hides the names of its functions")
            }
            true => None,
        };
        for (measure, has, is_of_kernel) in of_chains {
            measures.push(match no_kernel.filter(|_| is_of_kernel) {
                Some(reason) => {
                    let figure = Figure::absent("ratio", tier, SAMPLES, reason);
                    MeasuredValue { measure, figure }
                }
                None => {
                    let hits = self.of_chains(|chain| is_it(chain.function) && has(chain));
                    share(measure, &hits, SAMPLES)
                }
            });
        }
        let own: Vec<&Operand> =
            self.operands.iter().filter(|one| is_it(self.index_of(one))).collect();
        for (measure, has) in KINDS {
            let hits = self.of_operands(&own, has);
            measures.push(share(measure, &hits, DECODED));
        }
        let at_contended = |one: &Operand| {
            let line = one.access.map(|access| (access.memory, access.at / LINE_BYTES));
            line.is_some_and(|line| self.contended.contains(&line))
        };
        measures.push(share(M::ContendedBytes, &self.of_operands(&own, at_contended), ADDRESSES));
        let most = most_frequent(&own);
        let at_most = |one: &Operand| most.is_some() && address_of(one) == most;
        measures.push(share(M::OneAddress, &self.of_operands(&own, at_most), ADDRESSES));
        measures.extend(self.of_addresses(&own, tier, report.elapsed_s));
        BoundEvidence { function, measures }
    }

    /// Measures memory use, code size and streams from the samples of a function or of the program.
    fn of_addresses(&self, own: &[&Operand], tier: Tier, elapsed_s: f64) -> Vec<MeasuredValue> {
        let accesses: Vec<Access> = own.iter().filter_map(|one| one.access).collect();
        let code: Vec<Access> = own.iter().map(|one| one.code).collect();
        let too_few = "too few samples have an address";
        let value = |measure, unit: &str, estimate: Option<Estimate>| MeasuredValue {
            measure,
            figure: estimate.map_or_else(
                || Figure::absent(unit, tier, ADDRESSES, too_few),
                |estimate| Figure::number(unit, estimate, tier, ADDRESSES),
            ),
        };
        let used = memory_use(&accesses, own.len() as u64);
        let working_set = used.and_then(|used| used.working_set_bytes.estimate());
        let of_thread = most_accesses(own);
        let of_thread = memory_use(&of_thread, of_thread.len() as u64);
        let of_thread = of_thread.and_then(|used| used.working_set_bytes.estimate());
        let lines = blocks_in_use(&code, LINE_BYTES).map(|lines| lines.scale(LINE_BYTES as f64));
        let found = streams(&visits(own));
        let (hits, steps) = found.steps;
        let streamed = (steps > 0).then(|| {
            let (hits, steps) = ([hits as f64 / 8.0; 8], [steps as f64 / 8.0; 8]);
            share_interval(&hits, &steps, SEED)
        });
        let period_s = self.sampled.period_ns.max(1) as f64 / 1e9;
        let threads = &self.sampled.resolved.threads;
        let rate = found.rate(|thread| threads[thread as usize].samples, period_s, elapsed_s);
        vec![
            value(M::WorkingSet, "bytes", working_set),
            value(M::ThreadWorkingSet, "bytes", of_thread),
            value(M::CodeSize, "bytes", lines),
            value(M::Streamed, "ratio", streamed),
            value(M::StreamRate, "bytes/s", rate),
        ]
    }

    fn index_of(&self, operand: &Operand) -> u32 {
        self.sampled.indices.get(&operand.function).copied().unwrap_or(u32::MAX)
    }

    /// Returns, for each slice, the number of samples of the chains that `is_it` selects.
    fn of_chains(&self, is_it: impl Fn(&Chain) -> bool) -> Vec<f64> {
        let of_slice = |slice: &HashMap<u32, u64>| {
            let own = slice.iter().filter(|(number, _)| is_it(&self.chains[**number as usize]));
            own.map(|(_, samples)| *samples as f64).sum::<f64>() + 0.0
        };
        self.sampled.resolved.by_chain.iter().map(of_slice).collect()
    }

    /// Returns, for each slice, the number of operands in `own` that `is_it` selects.
    fn of_operands(&self, own: &[&Operand], is_it: impl Fn(&Operand) -> bool) -> Vec<f64> {
        let mut hits = vec![0.0; self.all.len()];
        for one in own.iter().filter(|one| is_it(one)) {
            if let Some(slice) = hits.get_mut(one.slice as usize) {
                *slice += 1.0;
            }
        }
        hits
    }

    /// Returns, for each kind of memory, the share of samples taken while stalled on it.
    fn memory(&self, tier: Tier, regions: &Regions) -> Vec<MemoryShare> {
        let mut by_kind = BTreeMap::<MemoryKind, Vec<f64>>::new();
        for one in &self.operands {
            let Some(access) = one.access.filter(|_| waits_for_memory(one)) else { continue };
            let hits =
                by_kind.entry(regions.kind(&access)).or_insert_with(|| vec![0.0; self.all.len()]);
            if let Some(slice) = hits.get_mut(one.slice as usize) {
                *slice += 1.0;
            }
        }
        let share = |(kind, hits): (MemoryKind, Vec<f64>)| MemoryShare {
            kind,
            samples: hits.iter().sum::<f64>() as u64,
            share: Figure::number("ratio", share_interval(&hits, &self.all, SEED), tier, ADDRESSES),
        };
        let mut shares: Vec<MemoryShare> = by_kind.into_iter().map(share).collect();
        shares.sort_by_key(|one| (std::cmp::Reverse(one.samples), one.kind));
        shares
    }

    /// Returns the cache lines that several threads use and at least one writes, and the
    /// instructions that access them.
    fn shared_lines(&self) -> Vec<SharedLine> {
        let resolved = &self.sampled.resolved;
        let mut by_thread = vec![Vec::new(); resolved.threads.len()];
        for one in &self.operands {
            by_thread[one.thread as usize].extend(one.access);
        }
        let mut samples = vec![0; resolved.threads.len()];
        for ((thread, _), n) in resolved.of_threads.iter().take(resolved.kept_until).flatten() {
            samples[*thread as usize] += n;
        }
        let threads = resolved.threads.iter().zip(&by_thread).zip(samples);
        let threads: Vec<accesses::Sampled<'_>> = threads
            .map(|((thread, accesses), samples)| accesses::Sampled {
                tid: thread.tid,
                samples,
                accesses,
            })
            .collect();
        shared_lines(&threads, |spot| {
            let offset = resolved.names.locations.get(spot as usize).copied().flatten();
            let name = &resolved.names.functions[resolved.names.function_of(spot) as usize].name;
            offset.map_or_else(|| name.clone(), |at| format!("{name}+{:#x}", at.offset))
        })
    }
}

/// Returns whether a sample counts towards a measure.
type Test<T> = fn(&T) -> bool;

/// Measures of user-mode samples, each with a test on the instruction that the thread was stalled
/// on.
const KINDS: [(M, Test<Operand>); 10] = [
    (M::Decoded, |one| one.waited.is_some()),
    (M::Loads, |one| is_kind(one, &[Kind::Load, Kind::DependentLoad])),
    (M::DependentLoads, |one| is_kind(one, &[Kind::DependentLoad])),
    (M::Stores, |one| is_kind(one, &[Kind::Store])),
    (M::LongArithmetic, |one| is_kind(one, &[Kind::Long])),
    (M::SimpleInstructions, |one| is_kind(one, &[Kind::Simple])),
    (M::Atomics, |one| is_kind(one, &[Kind::Atomic])),
    (M::Pauses, |one| is_kind(one, &[Kind::Pause])),
    (M::BehindBranches, |one| one.waited.is_some_and(|waited| waited.is_behind)),
    (M::StraightLoops, |one| one.waited.is_some_and(|waited| waited.is_straight)),
];

fn is_kind(operand: &Operand, kinds: &[Kind]) -> bool {
    operand.waited.is_some_and(|waited| kinds.contains(&waited.kind))
}

fn waits_for_memory(operand: &Operand) -> bool {
    is_kind(operand, &[Kind::Load, Kind::DependentLoad, Kind::Store, Kind::Atomic])
}

fn chain_of(report: &ProfileReport, sampled: &Sampled, spots: &[u32]) -> Chain {
    let names = &sampled.resolved.names;
    let name = |spot: &u32| &names.functions[names.function_of(*spot) as usize];
    let innermost = spots.last().map(|spot| names.function_of(*spot));
    let function = innermost.and_then(|number| sampled.indices.get(&number).copied());
    let function = function.unwrap_or(u32::MAX);
    let class = report.functions.get(function as usize).map(|one| one.class);
    let has = |list: &[&str]| {
        let of_kernel = spots.iter().map(name).filter(|name| name.file == KERNEL);
        of_kernel.into_iter().any(|one| list.contains(&one.name.as_str()))
    };
    let is_futex = spots
        .iter()
        .map(name)
        .any(|one| one.file == KERNEL && FUTEXES.iter().any(|begin| one.name.starts_with(begin)));
    let is_user = spots.last().map(name).is_some_and(|name| name.file != KERNEL);
    let is_fault = has(&FAULTS) || class == Some(CostClass::PageFault);
    Chain {
        function,
        is_user,
        is_call: !is_fault && has(&ENTRIES),
        is_fault,
        is_lock: is_futex || class == Some(CostClass::Lock),
        is_copy: class == Some(CostClass::Copy),
    }
}

fn address_of(operand: &Operand) -> Option<(Memory, u64)> {
    operand.access.map(|access| (access.memory, access.at))
}

/// Returns the most frequently accessed address.
fn most_frequent(own: &[&Operand]) -> Option<(Memory, u64)> {
    let mut counts = BTreeMap::<(Memory, u64), u64>::new();
    for address in own.iter().filter_map(|one| address_of(one)) {
        *counts.entry(address).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(address, _)| address)
}

/// Returns the accesses of the thread with the most accesses.
fn most_accesses(own: &[&Operand]) -> Vec<Access> {
    let mut threads = BTreeMap::<u32, Vec<Access>>::new();
    for one in own {
        threads.entry(one.thread).or_default().extend(one.access);
    }
    threads.into_values().max_by_key(Vec::len).unwrap_or_default()
}

/// Groups accesses by thread and instruction, in time order.
fn visits(own: &[&Operand]) -> Vec<Instruction> {
    let mut found = BTreeMap::<(u32, u32), Vec<Visit>>::new();
    for one in own {
        if let Some(access) = one.access {
            let visit = Visit { ordinal: one.ordinal, at: access.at };
            found.entry((one.thread, one.spot)).or_default().push(visit);
        }
    }
    found.into_iter().map(|((thread, _), visits)| Instruction { thread, visits }).collect()
}

/// A thread's samples on a cache line, with bit masks of the bytes that it uses and writes.
#[derive(Clone, Copy, Default)]
struct LineUse {
    samples: u64,
    used: u64,
    written: u64,
}

/// Returns the cache lines with bytes that one thread writes and another uses.
fn contended(operands: &[Operand]) -> HashSet<(Memory, u64)> {
    let mut lines = HashMap::<(Memory, u64), BTreeMap<u32, LineUse>>::new();
    for one in operands {
        let Some(access) = one.access else { continue };
        let first = access.at % LINE_BYTES;
        let bytes = u64::from(access.bytes).min(LINE_BYTES - first);
        let mask = (u64::MAX >> (64 - bytes)) << first;
        let line = lines.entry((access.memory, access.at / LINE_BYTES)).or_default();
        let by_thread = line.entry(one.thread).or_default();
        by_thread.samples += 1;
        by_thread.used |= mask;
        by_thread.written |= if access.is_write { mask } else { 0 };
    }
    let is_contended = |threads: &BTreeMap<u32, LineUse>| {
        let often: Vec<&LineUse> =
            threads.values().filter(|one| one.samples >= MIN_CONTENDED).collect();
        often.iter().enumerate().any(|(at, one)| {
            let others = often.iter().enumerate().filter(|(other, _)| *other != at);
            others.map(|(_, other)| other).any(|other| one.written & other.used != 0)
        })
    };
    lines.into_iter().filter(|(_, threads)| is_contended(threads)).map(|(line, _)| line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::stacks::tests::two_slices;
    use linerate_record::fixtures;

    /// Returns the figure for a measure of the program.
    fn figure(sampled: &Sampled, measure: M) -> Figure {
        let mut report = fixtures::profile();
        report.sampling.has_kernel = true;
        let evidence = Found::new(&report, sampled).evidence(&report, None);
        evidence.figure(measure).unwrap().clone()
    }

    fn sampled() -> Sampled {
        Sampled { resolved: two_slices(), indices: HashMap::new(), period_ns: 1_000_000 }
    }

    #[test]
    fn operands_are_compared_with_the_samples_of_their_slices() {
        let mut sampled = sampled();
        assert_eq!(figure(&sampled, M::Decoded).estimate().map(|share| share.n), Some(30));
        sampled.resolved.kept_until = 1;
        assert_eq!(figure(&sampled, M::Decoded).estimate().map(|share| share.n), Some(15));
        assert_eq!(figure(&sampled, M::UserMode).estimate().map(|share| share.n), Some(30));
        sampled.resolved.kept_until = 0;
        assert_eq!(figure(&sampled, M::Decoded).as_number(), None);
    }

    #[test]
    fn a_kernel_without_names_is_not_classified() {
        let mut sampled = sampled();
        sampled.resolved.names.hides_kernel = true;
        for measure in [M::UnderSystemCalls, M::InPageFaults, M::InLocks, M::InCopies] {
            assert_eq!(figure(&sampled, measure).as_number(), None, "{measure:?}");
        }
        assert!((figure(&sampled, M::UserMode).as_number().unwrap() - 2.0 / 3.0).abs() < 1e-9);
        sampled.resolved.names.hides_kernel = false;
        assert_eq!(figure(&sampled, M::InLocks).as_number(), Some(0.0));
    }
}
