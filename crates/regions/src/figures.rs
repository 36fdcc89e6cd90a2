// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts region totals into figures: subtracts the measurement overhead, and computes intervals.
//! Conclusions are drawn in `verdict`.
//!
//! This module only computes; it reads neither the clock nor counters.

use crate::stay::Stay;
use crate::tree::{Cost, Log, Node, Region, Totals};
use linerate_counters::event::Event;
use linerate_record::regions::{RegionEvent, RegionReport, RegionsReport};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};
use std::sync::Arc;

const METHOD: &str = "from entry to exit, measurement overhead subtracted";
/// Method stated for figures that have no interval because no overhead was subtracted from them.
const EXACT_METHOD: &str = "from entry to exit; exact, because measuring causes no events of this \
                            kind";
/// Prefix of the method description for counts read directly from registers.
const REGISTERS: &str = "registers";
const CLOSED: &str = "register access was revoked during the run: the module pmu_user was \
                      unloaded, or perf counted on this CPU; load the module, and run the program \
                      again";
const TAKEN: &str = "the counters were stopped at times: something else claimed them, or the \
                     thread moved to a core of another type; pin the thread to one CPU, and run \
                     the program again";
const COST_METHOD: &str = "median of 25 series of 16 empty regions";
const TICKS: &str = "ticks";

/// Maximum ratio of the real cost of an edge (region entry or exit) to its calibrated cost. The
/// real cost ranges from zero, if it overlaps with the program's own work, to this multiple.
/// Calibration runs edges back to back with warm caches. In a test in a VM with occasional steal
/// time, 100,000 empty regions nested in another region, with a system call per edge, added 1.8 to
/// 3.1 times the calibrated cost to the outer region.
const TIMES_CALIBRATED: f64 = 4.0;

/// Reports all threads' regions. `stays` has each thread's CPU time where known, `names` the region
/// names, `asked` the names of the requested events, and `resolved` the events that these names
/// resolve to on this machine.
pub(crate) fn report(
    logs: &[Arc<Log>],
    stays: &[Option<Stay>],
    ticks_per_ns: f64,
    names: &[String],
    asked: &[String],
    resolved: &[Result<Event, String>],
) -> RegionsReport {
    let tiers = logs.iter().flat_map(|log| log.outcomes.iter().flatten().copied());
    let reading = logs.first().map_or("timestamp counter only", |log| log.reading);
    let cost = logs.iter().find_map(|log| log.cost.get());
    RegionsReport {
        tier: tiers.min().unwrap_or(Tier::Sw),
        reading: reading.to_owned(),
        own_ticks: match cost {
            Some(cost) => Figure::number(TICKS, cost.pair.ticks, Tier::Sw, COST_METHOD),
            None => Figure::absent(TICKS, Tier::Sw, COST_METHOD, "no thread entered a region"),
        },
        regions: logs
            .iter()
            .zip(stays)
            .flat_map(|(log, stay)| {
                let (stay, cost) = (stay.as_ref(), log.cost.get()?);
                let thread = ThreadReport { log, cost, stay, ticks_per_ns, names, asked, resolved };
                Some(thread.regions())
            })
            .flatten()
            .collect(),
    }
}

/// What the figures of one thread are computed from.
pub(crate) struct ThreadReport<'a> {
    pub(crate) log: &'a Log,
    pub(crate) cost: &'a Cost,
    pub(crate) stay: Option<&'a Stay>,
    pub(crate) ticks_per_ns: f64,
    names: &'a [String],
    asked: &'a [String],
    pub(crate) resolved: &'a [Result<Event, String>],
}

/// A node with its own totals and the totals of the nodes nested in it.
pub(crate) struct Branch {
    pub(crate) node: Arc<Node>,
    pub(crate) name: String,
    pub(crate) totals: Totals,
    /// Summed totals of the direct children.
    inner: Totals,
    /// Number of visits to all nested nodes, at any depth.
    pub(crate) deep_visits: u64,
}

impl Branch {
    /// Returns whether the node is a region that the program entered, rather than the root or the
    /// calibration node.
    pub(crate) fn is_region(&self) -> bool {
        self.node.parent.is_some() && self.node.region != Region::CALIBRATION
    }
}

impl ThreadReport<'_> {
    fn regions(&self) -> Vec<RegionReport> {
        let branches = self.branches();
        let of_program = branches.iter().filter(|branch| branch.is_region());
        of_program.map(|branch| self.region(branch, &branches)).collect()
    }

    /// Returns all of the log's nodes with names and totals, in order of creation.
    ///
    /// Children's totals are added to their parents from the last node to the first, since a parent
    /// is older than its children.
    fn branches(&self) -> Vec<Branch> {
        let mut branches: Vec<Branch> = Vec::new();
        for node in self.log.nodes() {
            let own = self.names.get(node.region.0 as usize).map_or("?", String::as_str);
            let outer = node.parent.and_then(|parent| branches.get(parent));
            let name = match outer {
                Some(outer) if outer.node.parent.is_some() => format!("{}/{own}", outer.name),
                _ => own.to_owned(),
            };
            let totals = node.totals();
            branches.push(Branch { node, name, totals, inner: Totals::default(), deep_visits: 0 });
        }
        for index in (0..branches.len()).rev() {
            let (totals, deep) = (branches[index].totals, branches[index].deep_visits);
            let Some(parent) = branches[index].node.parent else { continue };
            let outer = &mut branches[parent];
            outer.deep_visits += totals.visits + deep;
            outer.inner.visits += totals.visits;
            outer.inner.ticks += totals.ticks;
            for (sum, count) in outer.inner.counts.iter_mut().zip(totals.counts) {
                *sum = sum.wrapping_add(count);
            }
        }
        branches
    }

    fn region(&self, branch: &Branch, branches: &[Branch]) -> RegionReport {
        let Totals { visits, units, .. } = branch.totals;
        let all = self.ticks(branch);
        let own = corrected_own(&branch.totals, &branch.inner, self.cost);
        let mut report = RegionReport {
            name: branch.name.clone(),
            tid: self.log.tid,
            visits,
            units,
            ticks: figure(TICKS, all, visits, Tier::Sw),
            own_ticks: figure(TICKS, own, visits, Tier::Sw),
            events: self.events(branch),
            is_sampled: false,
            verdict: String::new(),
        };
        report.verdict = self.verdict(&report, branch, branches);
        report
    }

    /// Returns the ticks in a region, without measurement overhead.
    pub(crate) fn ticks(&self, branch: &Branch) -> Estimate {
        let (inside, pair) = (self.cost.inside.ticks, self.cost.pair.ticks);
        let Totals { visits, ticks, .. } = branch.totals;
        corrected(ticks, visits, branch.deep_visits, inside, pair)
    }

    /// Returns each requested event's count in a region, or why it has none.
    fn events(&self, branch: &Branch) -> Vec<RegionEvent> {
        let mut place = 0;
        let mut events = Vec::new();
        for (name, event) in self.asked.iter().zip(self.resolved) {
            let absent = |reason: &str| Figure::absent("events", Tier::Sw, METHOD, reason);
            let (name, count) = match event {
                Err(reason) => (name.clone(), absent(reason)),
                Ok(event) => {
                    place += 1;
                    (event.name.clone(), self.count(branch, event, place - 1))
                }
            };
            events.push(RegionEvent { name, count });
        }
        events
    }

    fn count(&self, branch: &Branch, event: &Event, place: usize) -> Figure {
        let absent = |reason: &str| Figure::absent(event.unit, Tier::Sw, METHOD, reason);
        let tier = match &self.log.outcomes[place] {
            Ok(tier) => *tier,
            Err(refusal) => {
                let fix = refusal.fix.as_ref().map(|fix| format!("; try: {fix}"));
                return absent(&format!("{}{}", refusal.sentence, fix.unwrap_or_default()));
            }
        };
        let is_by_registers = self.log.registers[place];
        if self.log.has_lost_counters() {
            return absent(if is_by_registers { CLOSED } else { TAKEN });
        }
        if let Some(reason) = is_by_registers.then(|| self.not_its_own(&branch.totals)).flatten() {
            return absent(&reason);
        }
        let count = self.corrected_count(branch, place);
        let count = figure(event.unit, count, branch.totals.visits, tier);
        match is_by_registers {
            true => Figure { method: format!("{REGISTERS}, {}", count.method), ..count },
            false => count,
        }
    }

    /// Returns why a region's register counts may be wrong: they include the counts of other
    /// threads, or may have wrapped. `None` if neither applies.
    fn not_its_own(&self, totals: &Totals) -> Option<String> {
        let Totals { visits, left, long, .. } = *totals;
        if left > 0 {
            return Some(format!(
                "the thread left its CPU in {left} of {visits} visits, so its registers also \
                 counted other threads; try: sudo chrt --fifo 1 taskset -c CPU COMMAND  # on a \
                 dedicated CPU"
            ));
        }
        (long > 0).then(|| {
            format!(
                "in {long} of {visits} visits the registers went unread for so long ({} ms) that \
                 the 32-bit counts may have wrapped; nest regions inside this one",
                self.log.apart_ms
            )
        })
    }

    /// Returns an event's count in a region, without measurement overhead. `place` is the event's
    /// index in the log.
    pub(crate) fn corrected_count(&self, branch: &Branch, place: usize) -> Estimate {
        let (visits, deep) = (branch.totals.visits, branch.deep_visits);
        let (inside, pair) = (self.cost.inside.counts[place], self.cost.pair.counts[place]);
        corrected(branch.totals.counts[place], visits, deep, inside, pair)
    }
}

/// Returns a region's measured total `shown` minus the overhead of `visits` visits to it, at
/// `inside` each, and of `deep` visits to regions nested in it, at `pair` each (see the module
/// `cost`).
///
/// Real overhead may differ from calibrated overhead: the low end of the interval subtracts
/// [`TIMES_CALIBRATED`] times the overhead, and the high end subtracts nothing.
fn corrected(shown: u64, visits: u64, deep: u64, inside: Estimate, pair: Estimate) -> Estimate {
    let (shown, visits, deep) = (shown as f64, visits as f64, deep as f64);
    Estimate {
        value: shown - visits * inside.value - deep * pair.value,
        low: shown - TIMES_CALIBRATED * (visits * inside.high + deep * pair.high),
        high: shown,
        confidence: inside.confidence.min(pair.confidence),
        n: visits as u64,
    }
}

/// Returns the ticks spent in a region itself, outside the regions nested in it, with the
/// measurement overhead subtracted as in `corrected`.
fn corrected_own(totals: &Totals, inner: &Totals, cost: &Cost) -> Estimate {
    let (inside, pair) = (cost.inside.ticks, cost.pair.ticks);
    // What a visit to an inner region adds to the enclosing region, apart from what the inner
    // region itself measures.
    let around = Estimate {
        value: pair.value - inside.value,
        low: (pair.low - inside.high).max(0.0),
        high: (pair.high - inside.low).max(0.0),
        ..pair
    };
    let shown = totals.ticks.saturating_sub(inner.ticks);
    corrected(shown, totals.visits, inner.visits, inside, around)
}

/// Builds a figure and its interval from a corrected total. The figure is exact if no overhead was
/// subtracted.
fn figure(unit: &str, estimate: Estimate, visits: u64, tier: Tier) -> Figure {
    if visits == 0 {
        return Figure::absent(unit, tier, METHOD, "entered but not yet left");
    }
    if estimate.value < 0.0 {
        let reason = "the count is below the calibrated measurement overhead: what remains is \
                      noise; make the region enclose more work";
        return Figure::absent(unit, tier, METHOD, reason);
    }
    if estimate.low == estimate.high {
        let exact = Figure::exact(unit, estimate.value, tier, EXACT_METHOD);
        return Figure { n: visits, ..exact };
    }
    Figure::number(unit, Estimate { low: estimate.low.max(0.0), ..estimate }, tier, METHOD)
}

#[cfg(test)]
mod tests;
