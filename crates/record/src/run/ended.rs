// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the place at which all packets of a run ended: a stage that dropped or consumed them, or
//! interfaces that refused them.

use super::{DeadEnd, RunReport, StageReport, WorkerReport};
use std::collections::BTreeMap;

/// Fraction of a stage's packets, 0 to 1: if the stage drops or consumes at least this fraction, it
/// may be reported even though a later stage drops or consumes the rest.
const NEARLY_ALL: f64 = 0.9;

impl RunReport {
    /// Returns the stage that received packets but let none through, by design or by mistake. If an
    /// earlier stage dropped or consumed nearly all of its packets, and more than this stage,
    /// returns the earlier stage instead. If interfaces refused all packets that reached the sink,
    /// returns the sink, even if stages dropped packets before it. `None` if a packet was
    /// delivered, no packets were offered, or some were still in flight.
    pub fn dead_end(&self) -> Option<DeadEnd> {
        let mut workers: Vec<&WorkerReport> = self.workers.iter().collect();
        workers.sort_by_key(|worker| worker.segment);
        let stages = || workers.iter().flat_map(|worker| &worker.stages);
        let of = |name: &str| -> Vec<&StageReport> {
            stages().filter(|stage| stage.name == name).collect()
        };
        let input = |name: &str| sum(&of(name), |stage| stage.ledger.input.packets);
        let through = |name: &str| match name {
            // The sink delivers all packets except those that its interfaces refuse.
            DeadEnd::SINK => sum(&of(name), |stage| {
                stage.ledger.input.packets.saturating_sub(stage.ledger.dropped().packets)
            }),
            _ => sum(&of(name), |stage| {
                stage.ledger.output.packets + stage.ledger.held.packets + stage.bypassed
            }),
        };
        let mut names: Vec<&str> = Vec::new();
        // The other ends of a worker (source, rings) let every packet through, so only a stage or
        // the sink can match.
        for name in stages().map(|stage| stage.name.as_str()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let last = names.iter().position(|name| input(name) > 0 && through(name) == 0)?;
        let ended = |name: &str| {
            sum(&of(name), |stage| (stage.ledger.dropped() + stage.ledger.consumed).packets)
        };
        let ends_most = |name: &&&str| ended(name) as f64 >= NEARLY_ALL * input(name) as f64;
        // Packets that interfaces refused went through all stages.
        let stages = if names[last] == DeadEnd::SINK { &[] } else { &names[..last] };
        let earlier = stages.iter().filter(ends_most).max_by_key(|name| ended(name));
        let name = earlier.filter(|name| ended(name) > ended(names[last])).unwrap_or(&names[last]);
        Some(DeadEnd {
            stage: (*name).to_owned(),
            packets: input(name),
            causes: causes(&of(name)),
            passed: through(name),
        })
    }
}

fn sum(all: &[&StageReport], part: fn(&StageReport) -> u64) -> u64 {
    all.iter().copied().map(part).sum()
}

/// Returns the causes for which the replicas of a stage dropped packets, most frequent first; empty
/// if they consumed more packets than they dropped.
fn causes(replicas: &[&StageReport]) -> Vec<String> {
    let consumed = sum(replicas, |stage| stage.ledger.consumed.packets);
    if consumed > sum(replicas, |stage| stage.ledger.dropped().packets) {
        return Vec::new();
    }
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for (cause, tally) in replicas.iter().flat_map(|stage| &stage.ledger.drops) {
        *causes.entry(cause).or_default() += tally.packets;
    }
    let mut causes: Vec<(&str, u64)> = causes.into_iter().filter(|(_, n)| *n > 0).collect();
    causes.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
    causes.into_iter().map(|(cause, _)| cause.to_owned()).collect()
}
