// SPDX-License-Identifier: MIT OR Apache-2.0
//! The instructions of one function, with the samples at each and their source lines. x86-64 only.
//!
//! ```text
//! choose a function: the hottest in a file, or the hottest with the wanted name
//! if the file has several functions of that name, choose the one with the most samples
//! decode it from its first byte; a sample belongs to the instruction that contains its address
//! keep the instructions around those with samples
//! ```

use super::Annotated;
use super::stacks::Resolved;
use crate::sampler::functions::Functions;
use crate::sampler::functions::lines::Lines;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction};
use linerate_record::profile::{AnnotatedFunction, InstructionCost, LineCost};
use linerate_record::profile::{ProfileReport, SourceLine};
use linerate_record::stats::sampled_share;
use linerate_record::why::Unread;
use linerate_record::{Figure, Tier};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Maximum size of a function in bytes.
const MOST_BYTES: u64 = 256 << 10;
/// Number of instructions kept before and after each instruction with samples.
const CONTEXT: usize = 6;
/// Maximum number of instructions with samples; those with the fewest samples are dropped.
const MOST_SAMPLED: usize = 4000;
const METHOD: &str = "samples at the instruction / samples in the function";
const LINE_METHOD: &str = "samples at the line's instructions / samples in the function";

/// Adds the instructions of the requested function to a report, or the reason why there are none.
pub(super) fn annotate(
    report: &mut ProfileReport,
    resolved: &Resolved,
    indices: &HashMap<u32, u32>,
    wanted: &Annotated,
) {
    let found = match wanted {
        Annotated::None => return,
        Annotated::Hottest => hottest(report, |_| true),
        Annotated::Named(name) => hottest(report, |one| one == name)
            .or_else(|| hottest(report, |one| one.contains(name.as_str()))),
    };
    let annotated = match found {
        None => Err(not_sampled(report, wanted)),
        Some(index) => {
            let number = indices.iter().find(|(_, at)| **at == index).map(|(number, _)| *number);
            let name = &report.functions[index as usize].name;
            let cannot = |reason: &str| format!("cannot read the instructions of {name}: {reason}");
            let code = number.map(|number| Code::of(resolved, number));
            let code = code.unwrap_or(Err("the function has no samples"));
            code.map(|code| code.annotated(index, report.tier())).map_err(cannot)
        }
    };
    match annotated {
        Ok(annotated) => report.annotated = Some(annotated),
        Err(reason) => {
            let what = "instructions".to_owned();
            report.unread.push(Unread { what, reason, fix: None });
        }
    }
}

/// Returns the index of the function with the most samples among the functions that `is_wanted`
/// selects and whose code is in a file.
fn hottest(report: &ProfileReport, is_wanted: impl Fn(&str) -> bool) -> Option<u32> {
    let is_in_file =
        |module: &str| module != crate::sampler::names::KERNEL && !module.starts_with('[');
    let found = report
        .functions
        .iter()
        .position(|one| one.samples > 0 && is_in_file(&one.module) && is_wanted(&one.name));
    found.map(|at| at as u32)
}

fn not_sampled(report: &ProfileReport, wanted: &Annotated) -> String {
    let sampled = report.functions.iter().filter(|one| one.samples > 0).take(5);
    let names: Vec<&str> = sampled.map(|one| one.name.as_str()).collect();
    let hottest = format!("the hottest functions are {}", names.join(", "));
    match wanted {
        Annotated::Named(name) => {
            format!("no samples in a function named '{name}' whose code is in a file; {hottest}")
        }
        _ => format!("no samples in a function whose code is in a file; {hottest}"),
    }
}

/// The code of a function, and its samples by address.
struct Code<'a> {
    functions: &'a Functions,
    file: &'a File,
    range: Range<u64>,
    bytes: Vec<u8>,
    samples: BTreeMap<u64, u64>,
}

impl<'a> Code<'a> {
    fn of(resolved: &'a Resolved, number: u32) -> Result<Self, &'static str> {
        // Samples by address for each function with this number. Functions are identified by file
        // number, start and end.
        let mut parts = BTreeMap::<(u32, u64, u64), BTreeMap<u64, u64>>::new();
        for (_, spots, n) in &resolved.chains {
            let leaf = spots.last().filter(|spot| resolved.names.function_of(**spot) == number);
            let Some((file, offset)) = leaf.and_then(|leaf| resolved.spots.in_file(*leaf)) else {
                continue;
            };
            let Some(functions) = resolved.resolver.functions(file) else { continue };
            let address = functions.address_of(offset);
            let bounds = address.and_then(|at| Some((at, functions.bounds(at)?)));
            let Some((address, bounds)) = bounds else { continue };
            let part = parts.entry((file, bounds.start, bounds.end)).or_default();
            *part.entry(address).or_default() += n;
        }
        let of_part = |samples: &BTreeMap<u64, u64>| samples.values().sum::<u64>();
        let part = parts.into_iter().max_by_key(|(_, samples)| of_part(samples));
        let ((number, start, end), samples) = part.ok_or("the function's bounds are unknown")?;
        let range = start..end.min(start.saturating_add(MOST_BYTES));
        let file = resolved.spots.file_of(number).ok_or("its file cannot be read")?;
        let functions = resolved.resolver.functions(number).ok_or("its file has no symbols")?;
        if !is_64_bit(file) {
            return Err("its code is not 64-bit");
        }
        let bytes = functions.code(&range).ok_or("its file cannot be read")?;
        Ok(Self { functions, file, range, bytes, samples })
    }

    fn annotated(&self, function: u32, tier: Tier) -> AnnotatedFunction {
        let all: u64 = self.samples.values().sum();
        let decoded: Vec<(Instruction, u64)> = self.decoded();
        let kept = kept(&decoded.iter().map(|(_, n)| *n).collect::<Vec<u64>>());
        let is_sampled = |at: &usize| decoded[*at].1 > 0;
        let wanted = kept.iter().copied().chain((0..decoded.len()).filter(is_sampled));
        let addresses = wanted.map(|at| decoded[at].0.ip());
        let (lines, no_lines) = match Lines::read(self.file, addresses) {
            Ok(lines) => (lines, None),
            Err(reason) => (Lines::default(), Some(reason)),
        };
        let mut formatter = GasFormatter::new();
        let options = formatter.options_mut();
        options.set_uppercase_hex(false);
        options.set_branch_leading_zeros(false);
        options.set_space_after_operand_separator(true);
        let mut instructions = Vec::new();
        let mut last = None;
        for at in kept {
            let (instruction, samples) = &decoded[at];
            let share = sampled_share(*samples, all);
            instructions.push(InstructionCost {
                address: format!("{:#x}", instruction.ip()),
                text: self.text(instruction, &mut formatter),
                samples: *samples,
                share: (*samples > 0).then(|| Figure::number("ratio", share, tier, METHOD)),
                line: lines.of(instruction.ip()),
                is_after_gap: last.map_or(at > 0, |last| at > last + 1),
            });
            last = Some(at);
        }
        let lines = by_line(&decoded, &lines, all, tier);
        AnnotatedFunction { function, samples: all, instructions, lines, no_lines }
    }

    /// Returns the instructions, each with its samples.
    fn decoded(&self) -> Vec<(Instruction, u64)> {
        let decoder = Decoder::with_ip(64, &self.bytes, self.range.start, DecoderOptions::NONE);
        let of = |instruction: Instruction| {
            let samples = self.samples.range(instruction.ip()..instruction.next_ip());
            (instruction, samples.map(|(_, n)| n).sum())
        };
        decoder.into_iter().map(of).collect()
    }

    /// Formats an instruction in AT&T syntax. Calls show the name of the callee.
    fn text(&self, instruction: &Instruction, formatter: &mut GasFormatter) -> String {
        let mut text = String::new();
        formatter.format(instruction, &mut text);
        let is_call = instruction.flow_control() == FlowControl::Call;
        let is_jump = instruction.flow_control() == FlowControl::UnconditionalBranch;
        let target = instruction.near_branch_target();
        if is_call || is_jump && !self.range.contains(&target) {
            let called = self.functions.find(target).and_then(|called| called.name);
            text += &called.map_or_else(String::new, |name| format!(" <{name}>"));
        }
        text
    }
}

/// Returns the source lines of the instructions with samples, most samples first. `all` is the
/// number of samples in the function.
fn by_line(
    instructions: &[(Instruction, u64)],
    lines: &Lines,
    all: u64,
    tier: Tier,
) -> Vec<LineCost> {
    let mut samples = BTreeMap::<(String, u32), u64>::new();
    for (instruction, n) in instructions.iter().filter(|(_, n)| *n > 0) {
        if let Some(SourceLine { file, line }) = lines.of(instruction.ip()) {
            *samples.entry((file, line)).or_default() += n;
        }
    }
    let cost = |((file, line), samples)| {
        let share = Figure::number("ratio", sampled_share(samples, all), tier, LINE_METHOD);
        LineCost { line: SourceLine { file, line }, samples, share }
    };
    let mut costs: Vec<LineCost> = samples.into_iter().map(cost).collect();
    costs.sort_by_key(|cost| std::cmp::Reverse(cost.samples));
    costs
}

/// Returns the indices of the instructions to keep: those with samples and their neighbours.
fn kept(samples: &[u64]) -> Vec<usize> {
    let mut sampled: Vec<u64> = samples.iter().copied().filter(|n| *n > 0).collect();
    sampled.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
    let least = sampled.get(MOST_SAMPLED).copied().unwrap_or(0).saturating_add(1);
    let mut is_kept = vec![false; samples.len()];
    for (at, _) in samples.iter().enumerate().filter(|(_, n)| **n >= least) {
        let around = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(samples.len());
        is_kept[around].fill(true);
    }
    (0..samples.len()).filter(|at| is_kept[*at]).collect()
}

/// Returns whether a file is a 64-bit ELF file.
fn is_64_bit(file: &File) -> bool {
    const CLASS_AT: u64 = 4;
    let mut class = [0];
    file.read_exact_at(&mut class, CLASS_AT).is_ok() && class == [2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_around_samples_are_kept() {
        let mut samples = vec![0; 100];
        assert_eq!(kept(&samples), Vec::<usize>::new());
        (samples[2], samples[50]) = (9, 1);
        let near: Vec<usize> = (0..=8).chain(44..=56).collect();
        assert_eq!(kept(&samples), near);
        let all = kept(&[3; 10]);
        assert_eq!(all, (0..10).collect::<Vec<usize>>());
    }

    #[test]
    fn of_very_many_sampled_instructions_the_hottest_are_kept() {
        let mut samples = vec![1; 5000];
        samples[4000] = 500;
        assert_eq!(kept(&samples), (3994..=4006).collect::<Vec<usize>>());
    }
}
