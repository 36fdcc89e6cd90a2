// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives the verdict on a region, or explains why no verdict is possible.
//!
//! ```text
//! busy = CPU time of the region if task_clock_ns is counted, otherwise its ticks
//! cost = (visits to the region + visits to regions inside it) * overhead of entry and exit
//! busy < 10 * cost:                                no verdict
//! task_clock_ns counted, busy < 95 % of the ticks: verdict from CPU time, and a note
//! not counted, thread off-CPU for > 5 % of ticks:  no verdict
//! ```
//!
//! This module only computes; it reads neither the clock nor counters.

use crate::figures::{Branch, ThreadReport};
use linerate_record::regions::RegionReport;
use linerate_record::units::{counted, three_digits};

/// A region gets a verdict only if its time is at least this multiple of its measurement overhead.
const TIMES_THE_COST: f64 = 10.0;

/// Fraction of a region's ticks that the thread may spend off-CPU without affecting the verdict.
const AWAY: f64 = 0.05;

const TASK_CLOCK: &str = "task_clock_ns";

/// The time spent in a region, as wall time and as CPU time.
struct Judged {
    ticks: f64,
    /// CPU time in ticks, if counted.
    busy: Option<f64>,
}

impl Judged {
    /// Returns the fraction of the region's ticks during which the thread was off its CPU; `None`
    /// if this is negligible or unknown.
    fn away(&self) -> Option<f64> {
        let away = 1.0 - self.busy?.max(0.0) / self.ticks;
        (self.ticks > 0.0 && away > AWAY).then_some(away)
    }

    /// Returns CPU time if the thread was off its CPU; otherwise the ticks, which are more precise.
    fn work(&self) -> f64 {
        self.away().and(self.busy).unwrap_or(self.ticks)
    }
}

impl ThreadReport<'_> {
    /// Returns the verdict on a region: its share of the enclosing region, and CPI.
    pub(crate) fn verdict(
        &self,
        report: &RegionReport,
        branch: &Branch,
        branches: &[Branch],
    ) -> String {
        let mut parts = Vec::new();
        match self.judge(branch, branches) {
            Err(reason) => parts.push(format!("cannot tell: {reason}")),
            Ok(judged) => {
                parts.push(self.share(&judged, branch, branches));
                parts.extend(judged.away().map(|away| self.was_away(away)));
                parts.extend(cycles_per_instruction(report));
            }
        }
        if branch.totals.lost > 0 {
            let lost = counted(branch.totals.lost, "visit");
            parts.push(format!(
                "{lost} to nested regions not recorded, because regions are nested too deeply or \
                 there are too many"
            ));
        }
        parts.join("; ")
    }

    /// Returns the time in a region, or why no verdict on it is possible.
    fn judge(&self, branch: &Branch, branches: &[Branch]) -> Result<Judged, String> {
        if branch.totals.visits == 0 {
            return Err("entered but not yet left".to_owned());
        }
        let edges = branch.totals.visits + branch.deep_visits;
        let cost = edges as f64 * self.cost.pair.ticks.value;
        let judged = Judged { ticks: self.ticks(branch).value, busy: self.busy(branch) };
        let work = judged.work();
        if work <= 0.0 || work < TIMES_THE_COST * cost {
            let reason = too_small(branch, work, cost);
            return Err(match judged.away() {
                Some(away) => format!("{reason}; {}", self.was_away(away)),
                None => reason,
            });
        }
        match judged.busy.is_none().then(|| self.disturbed(judged.ticks, branches)).flatten() {
            Some(reason) => Err(reason),
            None => Ok(judged),
        }
    }

    /// Returns the CPU time in a region in ticks, if `task_clock_ns` was counted.
    fn busy(&self, branch: &Branch) -> Option<f64> {
        let place = self.resolved.iter().flatten().position(|event| event.name == TASK_CLOCK)?;
        let is_counted = self.log.outcomes[place].is_ok() && !self.log.has_lost_counters();
        is_counted.then(|| self.corrected_count(branch, place).value * self.ticks_per_ns)
    }

    fn was_away(&self, part: f64) -> String {
        format!(
            "the thread was off-CPU for {} % of the region's ticks ({}); CPU time is used instead",
            three_digits(part * 100.0),
            self.switches()
        )
    }

    /// Describes how many involuntary context switches the thread had, inside and outside its
    /// regions.
    fn switches(&self) -> String {
        match self.stay.and_then(|stay| stay.switches) {
            Some(switches) => format!(
                "{switches} involuntary context switches of the thread in \
                                       total"
            ),
            None => "unknown number of context switches".to_owned(),
        }
    }

    /// Returns why the thread may have been off its CPU for part of the `ticks` in a region,
    /// according to the kernel's accounting of the whole thread, which does not distinguish
    /// regions.
    fn disturbed(&self, ticks: f64, branches: &[Branch]) -> Option<String> {
        let stay = self.stay?;
        let advice = "count task_clock_ns as well, or give the thread a dedicated CPU";
        let switches = self.switches();
        let is_outermost = |b: &&Branch| b.is_region() && b.node.parent == Some(0);
        let all: f64 = branches.iter().filter(is_outermost).map(|b| b.totals.ticks as f64).sum();
        let least = (all - stay.on_processor) / all;
        if all > 0.0 && least > AWAY {
            return Some(format!(
                "the thread was off-CPU for at least {} % of the ticks in its regions \
                 ({switches}); {advice}",
                three_digits(least * 100.0)
            ));
        }
        let away = (stay.wall - stay.on_processor).max(0.0);
        let waited = match (stay.waited, stay.switches) {
            (Some(waited), _) => waited.min(away),
            (None, Some(0)) => 0.0,
            (None, _) => away,
        };
        (waited > AWAY * ticks).then(|| {
            format!(
                "the thread waited {} ticks for a CPU after its first region began ({switches}), \
                 up to {} % of the ticks of this region; {advice}",
                three_digits(waited),
                three_digits((waited / ticks).min(1.0) * 100.0)
            )
        })
    }

    /// Describes the region's share of the enclosing region. For an outermost region, or if the
    /// share is unknown, describes the time per visit instead.
    fn share(&self, judged: &Judged, branch: &Branch, branches: &[Branch]) -> String {
        let visit = || {
            format!("{} ticks a visit", three_digits(judged.work() / branch.totals.visits as f64))
        };
        let outer = branch.node.parent.map(|parent| &branches[parent]);
        let outer = outer.filter(|outer| outer.is_region() && outer.totals.visits > 0);
        let Some(outer) = outer else { return visit() };
        let Ok(around) = self.judge(outer, branches) else {
            return format!(
                "{}; the share of {} is unknown, because that region has no verdict",
                visit(),
                outer.name
            );
        };
        let is_away = judged.away().or(around.away()).is_some();
        let (part, whole, unit) = match (judged.busy, around.busy) {
            (Some(part), Some(whole)) if is_away => (part, whole, "CPU time"),
            _ => (judged.ticks, around.ticks, "ticks"),
        };
        format!("{} % of the {unit} of {}", three_digits(part / whole * 100.0), outer.name)
    }
}

/// Explains that a region is too short compared with its overhead.
fn too_small(branch: &Branch, work: f64, cost: f64) -> String {
    let (visits, deep) = (branch.totals.visits as f64, branch.deep_visits);
    let (what, advice) = match deep {
        0 => ("it".to_owned(), "make the region enclose more work, or use a Sampler"),
        _ => (
            format!("it and the {deep} visits to nested regions"),
            "measure without the small nested regions",
        ),
    };
    if work <= 0.0 {
        let shown = three_digits(branch.totals.ticks as f64);
        return format!(
            "the region's {shown} ticks are no more than the {} ticks of calibrated overhead for \
             measuring {what}; {advice}",
            three_digits(cost)
        );
    }
    format!(
        "a visit takes {} ticks, less than ten times the {} ticks of overhead for measuring \
         {what}; {advice}",
        three_digits(work / visits),
        three_digits(cost / visits)
    )
}

fn cycles_per_instruction(report: &RegionReport) -> Option<String> {
    let count = |name| {
        let event = report.events.iter().find(|event| event.name == name)?;
        event.count.as_number().filter(|count| *count > 0.0)
    };
    let ratio = count("cycles")? / count("instructions")?;
    Some(format!("{} cycles per instruction", three_digits(ratio)))
}
