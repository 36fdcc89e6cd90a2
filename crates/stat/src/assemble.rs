// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns runs into figures: counts, counts per unit of work, metrics, times.
//!
//! A value from one run has an interval only if it was scaled. A value from several runs is the
//! median over the runs, and has an interval only if there are at least six.

use crate::measured::Measured;
use crate::requested::{RUNS_IDLE, Requested, RequestedMetric, TASK_CLOCK};
use crate::row::{COUNTED, counted};
use crate::run::{Run, ns};
use crate::{Per, Request, What, usage};
use linerate_counters::rotation::EventTally;
use linerate_linux::child::Ended;
use linerate_record::stat::{
    Environment, EventCount, ExitStatus, MetricValue, RotationReport, StatReport, StatTarget,
    UnitOfWork,
};
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;
use std::ffi::OsString;

const CLOCK: &str = "monotonic clock";

/// Why user and system time are missing if the time limit stopped counting before the command
/// exited.
const UNTIL_ITS_END: &str = "counting stopped before the command exited, but the kernel reports \
                             only the command's total time";

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Combines the values of one or more runs into a figure. Simulated values that are all equal are
/// exact. Other values that are all equal have an interval of zero width, because they might have
/// differed.
fn over_runs(unit: &str, estimates: &[Estimate], tier: Tier, method: &str) -> Figure {
    let same = match (estimates, tier) {
        ([only], _) => Some(*only),
        ([first, rest @ ..], Tier::Sim) if rest.iter().all(|one| one == first) => {
            Some(Estimate { n: estimates.len() as u64, ..*first })
        }
        _ => None,
    };
    match same {
        Some(exact) if exact.low == exact.high => {
            Figure { n: exact.n, ..Figure::exact(unit, exact.value, tier, method) }
        }
        Some(scaled) => Figure::number(unit, scaled, tier, method),
        None => {
            let values: Vec<f64> = estimates.iter().map(|estimate| estimate.value).collect();
            Figure::number(unit, median_interval(&values, CONFIDENCE), tier, method)
        }
    }
}

/// All runs for a request.
pub(crate) struct Runs<'a> {
    pub(crate) request: &'a Request,
    pub(crate) asked: &'a Requested,
    /// Completed runs; at least one.
    pub(crate) runs: &'a [Run],
    /// The last run, if it was interrupted by a signal after others had completed.
    pub(crate) cut_short: Option<&'a Run>,
}

/// Builds the report, without the comparison with a baseline.
pub(crate) fn report(runs: &Runs<'_>, measured: &Measured) -> StatReport {
    let (request, last, ground) = (runs.request, runs.last(), &measured.ground);
    let ended = runs.ended();
    let events = runs.events();
    StatReport {
        target: target(&request.what),
        tier: last.tier.or(request.tier).unwrap_or(Tier::Sw),
        tier_asked: request.tier.is_some(),
        event_table: ground.table.to_owned(),
        is_known_processor: ground.is_known_processor,
        caches: ground.caches.clone(),
        elapsed_s: runs.elapsed_s(),
        ended: ended.map(|ended| ExitStatus { status: ended.status, signal: ended.signal }),
        interrupted: last.interrupted || runs.cut_short.is_some(),
        is_time_up: runs.runs.iter().any(|run| run.is_time_up),
        environment: environment(&request.what),
        repetitions: runs.runs.len() as u64,
        unit_of_work: runs.unit_of_work(&events),
        rotation: runs.rotation(),
        metrics: runs.metrics(),
        intervals: last.intervals.clone(),
        threads: last.threads.clone(),
        baseline: Vec::new(),
        baseline_of: None,
        times: runs.times(),
        remarks: measured.warnings.clone(),
        hot: None,
        events,
    }
}

/// Returns the size of the command's environment, which it inherits from this program.
fn environment(what: &What) -> Option<Environment> {
    if !matches!(what, What::Command { .. }) {
        return None;
    }
    let bytes = |(name, value): (OsString, OsString)| (name.len() + value.len() + 2) as u64;
    let variables: Vec<u64> = std::env::vars_os().map(bytes).collect();
    Some(Environment { variables: variables.len() as u64, bytes: variables.iter().sum() })
}

fn target(what: &What) -> StatTarget {
    match what {
        What::Command { argv } => {
            let argv = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            StatTarget::Command { argv }
        }
        What::Process(pid) => StatTarget::Process { pid: *pid },
        What::Cpus(cpus) => StatTarget::Cpus { cpus: cpus.clone() },
    }
}

impl<'a> Runs<'a> {
    /// Combines a request with its measured runs.
    pub(crate) fn new(request: &'a Request, measured: &'a Measured) -> Self {
        let Measured { asked, runs, cut_short, .. } = measured;
        Self { request, asked, runs, cut_short: cut_short.as_ref() }
    }
}

impl Runs<'_> {
    /// Returns the last completed run.
    pub(crate) fn last(&self) -> &Run {
        self.runs.last().expect("at least one run has completed")
    }

    /// Returns the command's exit status: that of the first failed run, else of the last run.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let all = self.runs.iter().chain(self.cut_short);
        let ended: Vec<Ended> = all.filter_map(|run| run.command?.ok()).collect();
        ended.iter().find(|ended| ended.status != Some(0)).or(ended.last()).copied()
    }

    /// Describes how a value was obtained if the event was counted in `counted` of the runs.
    fn method(&self, counted: usize) -> String {
        match self.runs.len() {
            1 => COUNTED.to_owned(),
            runs if runs == counted => format!("median of {runs} runs"),
            runs => format!("median of the {counted} of {runs} runs that counted the event"),
        }
    }

    /// Returns the counts of all events, in the requested order.
    pub(crate) fn events(&self) -> Vec<EventCount> {
        (0..self.asked.events.len()).map(|place| self.event(place)).collect()
    }

    fn event(&self, place: usize) -> EventCount {
        let asked = &self.asked.events[place];
        let tallies: Vec<EventTally> =
            self.runs.iter().filter_map(|run| run.tallies.tally(place)).collect();
        let is_rotating = !self.last().sets.is_empty();
        let mut raw: Vec<u64> = tallies.iter().map(|tally| tally.raw).collect();
        raw.sort_unstable();
        let share = tallies.iter().map(|tally| tally.duty).sum::<f64>() / tallies.len() as f64;
        let periods = tallies.iter().map(|tally| tally.periods).sum();
        EventCount {
            name: asked.name.clone(),
            native: asked.native.clone(),
            raw: raw.get(raw.len().saturating_sub(1) / 2).copied(),
            count: self.count(place, &tallies),
            duty: (!tallies.is_empty()).then_some(share),
            periods: (is_rotating && !tallies.is_empty()).then_some(periods),
            per_unit: self.unit_name().map(|unit| self.per_unit(place, unit)),
            fix: match tallies.is_empty() {
                true => {
                    self.last().refusals[place].as_ref().and_then(|refusal| refusal.fix.clone())
                }
                false => None,
            },
        }
    }

    fn count(&self, place: usize, tallies: &[EventTally]) -> Figure {
        let (unit, tier) = (self.asked.events[place].unit, self.last().tiers[place]);
        match tallies {
            [] => Figure::absent(unit, tier, COUNTED, self.reason(place)),
            [_] if self.last().from_usage.contains(&place) => {
                Figure::exact(unit, tallies[0].estimate.value, tier, usage::METHOD)
            }
            [only] if self.runs.len() == 1 => counted(unit, only, tier),
            _ => {
                let estimates: Vec<Estimate> = tallies.iter().map(|tally| tally.estimate).collect();
                over_runs(unit, &estimates, tier, &self.method(estimates.len()))
            }
        }
    }

    /// Returns whether an event was counted in every run.
    fn is_whole(&self, place: usize) -> bool {
        self.runs.iter().all(|run| run.tallies.tally(place).is_some())
    }

    /// Returns the most recent reason why an event was not counted.
    fn reason(&self, place: usize) -> &str {
        let refusal = self.runs.iter().rev().find_map(|run| run.refusals[place].as_ref());
        refusal.map_or("it was never scheduled on a counter", |refusal| refusal.sentence.as_str())
    }

    /// Computes a value derived from the events.
    fn derived(
        &self,
        unit: &str,
        tier: Tier,
        formula: impl Fn(&[f64]) -> Option<f64>,
    ) -> Option<Figure> {
        let estimates = self.runs.iter().map(|run| run.tallies.derive(&formula));
        let estimates: Vec<Estimate> = estimates.collect::<Option<_>>()?;
        let method = match self.runs.len() {
            1 => "computed from counts".to_owned(),
            runs => self.method(runs),
        };
        Some(over_runs(unit, &estimates, tier, &method))
    }

    /// Returns the name of the unit of work.
    pub(crate) fn unit_name(&self) -> Option<&str> {
        match &self.request.per {
            None => None,
            Some(Per::Event(_)) => Some(self.asked.events[self.asked.unit?].name.as_str()),
            Some(Per::Units(_)) => Some(super::UNIT),
        }
    }

    /// Returns the unit of work that counts are divided by.
    pub(crate) fn unit_of_work(&self, events: &[EventCount]) -> Option<UnitOfWork> {
        let name = self.unit_name()?.to_owned();
        let count = match (&self.request.per, self.asked.unit) {
            (Some(Per::Units(units)), _) => Figure::exact("units", *units, Tier::Sw, "as given"),
            (_, unit) => events[unit?].count.clone(),
        };
        Some(UnitOfWork { name, count })
    }

    fn per_unit(&self, place: usize, name: &str) -> Figure {
        let unit = format!("{}/{name}", self.asked.events[place].unit);
        let tiers = &self.last().tiers;
        let (tier, figure) = match (&self.request.per, self.asked.unit) {
            (Some(Per::Units(units)), _) => {
                let tier = tiers[place];
                (tier, self.derived(&unit, tier, |counts| Some(counts[place] / units)))
            }
            (_, Some(work)) => {
                let tier = tiers[place].max(tiers[work]);
                (tier, self.derived(&unit, tier, |counts| Some(counts[place] / counts[work])))
            }
            (_, None) => (tiers[place], None),
        };
        figure.unwrap_or_else(|| {
            let reason = match self.asked.unit {
                _ if !self.is_whole(place) => self.reason(place).to_owned(),
                Some(work) if !self.is_whole(work) => {
                    format!("the unit of work was not counted: {}", self.reason(work))
                }
                _ => "the number of units of work is 0".to_owned(),
            };
            Figure::absent(&unit, tier, COUNTED, &reason)
        })
    }

    /// Computes the requested metrics from all runs' counts.
    pub(crate) fn metrics(&self) -> Vec<MetricValue> {
        self.asked.metrics.iter().map(|asked| self.metric(asked)).collect()
    }

    fn metric(&self, asked: &RequestedMetric) -> MetricValue {
        let metric = asked.metric;
        let names = asked.formula.events();
        let places: Vec<Option<usize>> = names.iter().map(|name| self.asked.place(name)).collect();
        let tiers = places.iter().flatten().map(|place| self.last().tiers[*place]);
        let tier = tiers.max().unwrap_or(Tier::Sw);
        let figure = self.derived(metric.unit, tier, |counts| {
            asked.formula.value(|name| {
                let place = self.asked.place(name)?;
                Some(counts[place]).filter(|count| count.is_finite())
            })
        });
        let is_of_idle_clock =
            matches!(self.request.what, What::Cpus(_)) && names.contains(&TASK_CLOCK);
        let absent = || {
            let missing = places.iter().flatten().find(|place| !self.is_whole(**place));
            let reason = match missing {
                Some(&place) => {
                    format!("needs {}: {}", self.asked.events[place].name, self.reason(place))
                }
                None if is_of_idle_clock => format!("needs {TASK_CLOCK}: {RUNS_IDLE}"),
                None => format!("{} is undefined for these counts", metric.formula),
            };
            Figure::absent(metric.unit, tier, "computed from counts", &reason)
        };
        MetricValue {
            name: metric.name.to_owned(),
            set: asked.set.to_owned(),
            formula: metric.formula.to_owned(),
            figure: figure.unwrap_or_else(absent),
            prose: [metric.prose, metric.limits].join(" ").trim_end().to_owned(),
        }
    }

    /// Describes how events shared the counters; `None` if they were not multiplexed.
    pub(crate) fn rotation(&self) -> Option<RotationReport> {
        let last = self.last();
        let name = |place: &usize| self.asked.events[*place].name.clone();
        (!last.sets.is_empty()).then(|| RotationReport {
            sets: last.sets.iter().map(|set| set.iter().map(name).collect()).collect(),
            slice_ns: ns(self.request.slice),
            slices: self.runs.iter().map(|run| run.tallies.slices()).sum(),
            scaled_by: last.scaled_by.as_ref().map_or_else(|| "time".to_owned(), name),
        })
    }

    /// Computes the reported times (elapsed, user, system, ...), by name.
    pub(crate) fn times(&self) -> BTreeMap<String, Figure> {
        if let Some((tier, reason)) = self.why_no_times() {
            let absent = Figure::absent("s", tier, CLOCK, reason);
            return BTreeMap::from([(super::ELAPSED.to_owned(), absent)]);
        }
        let elapsed: Vec<f64> = self.runs.iter().map(|run| seconds(run.elapsed_ns)).collect();
        let mut times =
            BTreeMap::from([(super::ELAPSED.to_owned(), self.time("s", &elapsed, CLOCK))]);
        let ended: Vec<Ended> = self.runs.iter().filter_map(|run| run.command?.ok()).collect();
        let of = |time: fn(&Ended) -> u64| -> Vec<f64> {
            ended.iter().map(|ended| seconds(time(ended))).collect()
        };
        let all =
            [("user_s", of(|ended| ended.user_ns)), ("system_s", of(|ended| ended.system_ns))];
        for (name, values) in all.iter().filter(|(_, values)| !values.is_empty()) {
            let figure = match self.is_time_up() {
                true => Figure::absent("s", Tier::Sw, usage::METHOD, UNTIL_ITS_END),
                false => self.time("s", values, usage::METHOD),
            };
            times.insert((*name).to_owned(), figure);
        }
        if let Some((used, method)) = self.cpus_used(&elapsed) {
            times.insert("cpus_used".to_owned(), self.time("processors", &used, method));
        }
        times
    }

    fn is_time_up(&self) -> bool {
        self.runs.iter().any(|run| run.is_time_up)
    }

    fn why_no_times(&self) -> Option<(Tier, &'static str)> {
        if self.request.tier == Some(Tier::Sim) {
            return Some((Tier::Sim, "the simulator's run time is not the command's"));
        }
        let is_begun = !matches!(self.last().command, Some(Err(_)));
        (!is_begun).then_some((Tier::Sw, "the command could not be started"))
    }

    fn time(&self, unit: &str, values: &[f64], method: &str) -> Figure {
        match values {
            [only] => Figure::exact(unit, *only, Tier::Sw, method),
            _ => {
                let method = format!("{method}, {}", self.method(values.len()));
                Figure::number(unit, median_interval(values, CONFIDENCE), Tier::Sw, &method)
            }
        }
    }

    /// Returns CPU time divided by elapsed time. Undefined when counting whole CPUs, because the
    /// ratio would always be the number of CPUs.
    fn cpus_used(&self, elapsed: &[f64]) -> Option<(Vec<f64>, &'static str)> {
        let place = self.asked.place(TASK_CLOCK);
        let clock =
            place.filter(|place| !self.last().from_usage.contains(place)).and_then(|place| {
                let tally = |run: &Run| Some(run.tallies.tally(place)?.estimate.value / 1e9);
                self.runs.iter().map(tally).collect::<Option<Vec<f64>>>()
            });
        // The kernel's CPU times start at fork(2), unlike those of events and the elapsed time.
        let since_fork = |run: &Run| {
            let ended = run.command?.ok().filter(|_| !run.is_time_up && run.since_fork_ns > 0)?;
            Some((ended.user_ns + ended.system_ns) as f64 / run.since_fork_ns as f64)
        };
        match (&self.request.what, clock) {
            (What::Cpus(_), _) => None,
            (_, Some(clock)) => {
                let used = clock.into_iter().zip(elapsed).map(|(clock, elapsed)| clock / elapsed);
                Some((used.collect(), "task_clock_ns divided by elapsed time"))
            }
            _ => {
                let used: Option<Vec<f64>> = self.runs.iter().map(since_fork).collect();
                used.map(|used| (used, "user and system time divided by the time since fork(2)"))
            }
        }
    }

    /// Returns the total elapsed time of all runs in seconds.
    pub(crate) fn elapsed_s(&self) -> f64 {
        self.runs.iter().map(|run| run.elapsed_ns as f64 / 1e9).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A count without variation is as comparable with a baseline as any other.
    #[test]
    fn equal_counts_of_several_runs_have_an_interval_of_no_width() {
        let figure = |runs: usize, tier| {
            over_runs("events", &vec![Estimate::exactly(120.0); runs], tier, "counted")
        };
        let six = figure(6, Tier::Sw);
        assert_eq!((six.low, six.high, six.confidence), (Some(120.0), Some(120.0), Some(0.95)));
        assert_eq!((six.as_number(), six.n), (Some(120.0), 6));
        let five = figure(5, Tier::Sw);
        assert_eq!((five.low, five.high, five.confidence), (None, None, Some(0.95)));
        for exact in [figure(1, Tier::Sw), figure(6, Tier::Sim)] {
            assert_eq!((exact.low, exact.high, exact.confidence), (None, None, None));
        }
    }
}
