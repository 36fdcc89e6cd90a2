// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `why` record.

use super::{Derive, Lists, emulated, named};
use crate::figure::{Figure, Figures, Tier, bare};
use crate::provenance::Provenance;
use crate::stats::{CONFIDENCE, Estimate, block_bootstrap_ratio};
use crate::warning::Warning;
use crate::why::ledger::{PacketLedger, ledger};
use crate::why::{CpuCounts, Observation, ThreadActivity, ThreadState, WhyFinding, WhyReport};
use serde_json::{Value, json};

/// Observer overhead, as a share of one CPU (0 to 1), above which `why` and `profile` warn: beyond
/// it, a packet-processing program on the same CPU loses more throughput than a typical code change
/// gains. The report states smaller overheads without a warning.
pub(super) const OBSERVER_SHARE: f64 = 0.05;

/// Window length in seconds below which a warning is issued. CPU quotas have a period of 0.1 s by
/// default, so a window this long covers only ten periods.
const WINDOW_S: f64 = 1.0;

/// Seed of the block bootstrap for the packet rate.
const SEED: u64 = 1;

impl Derive for WhyReport {
    /// Returns the first finding and its predicted gain, the packet rate and losses, the busiest
    /// thread's load, and the observer overhead.
    fn figures(&self) -> Figures {
        const RULES: &str = "rules applied to the observation";
        let unexplained =
            || Figure::absent("text", Tier::Sw, RULES, "the record contains only the observation");
        let first = self.findings.first();
        let text = |text: fn(&WhyFinding) -> &str| {
            first.map_or_else(unexplained, |first| Figure::text(text(first), Tier::Sw, RULES))
        };
        let gain = || {
            Figure::absent(
                "percent",
                Tier::Model,
                RULES,
                "the record contains only the observation",
            )
        };
        let ledger = ledger(&self.observation);
        let observer = &self.observation.observer;
        let method = observer.method.clone();
        named([
            ("finding", text(|first| first.cause.name())),
            ("sentence", text(|first| &first.sentence)),
            ("gain_percent", first.map_or_else(gain, |first| first.gain.percent.clone())),
            ("packets_lost", packets_lost(&ledger)),
            ("lost_where", lost_where(&ledger)),
            ("busy_share", busy_share(&self.observation)),
            ("overhead_percent", observer.scaled(100.0, "percent", &method)),
            ("packets_per_s", packets_per_s(&self.observation)),
        ])
    }

    /// Returns the threads, the CPUs, the findings, the keywords of the remarks and the packet
    /// ledger.
    fn lists(&self) -> Lists {
        let ledger = ledger(&self.observation);
        let rows = serde_json::to_value(&ledger.rows).unwrap_or(Value::Null);
        Lists::from([
            ("threads", self.observation.threads.iter().map(thread).collect()),
            ("cpus", self.observation.cpus.iter().map(cpu).collect()),
            ("findings", self.findings.iter().map(finding).collect()),
            ("remarks", self.remarks.iter().map(|remark| remark.id.name()).collect()),
            ("ledger", rows),
        ])
    }

    fn warnings(&self, provenance: &Provenance) -> Vec<Warning> {
        let observation = &self.observation;
        let low = observation.observer.low.or(observation.observer.as_number());
        let costly = low.filter(|share| *share > OBSERVER_SHARE);
        let share = observation.observer.as_number();
        let costly = costly.and(share).map(|share| Warning::CostlyObserver { share });
        let seconds = observation.elapsed_s;
        let short = (seconds < WINDOW_S).then_some(Warning::ShortWindow { seconds });
        let mut names: Vec<String> =
            observation.unread.iter().map(|unread| unread.what.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let unread = (!names.is_empty()).then_some(Warning::NotRead { names });
        emulated(provenance).into_iter().chain(costly).chain(short).chain(unread).collect()
    }
}

fn packets_lost(ledger: &PacketLedger) -> Figure {
    const METHOD: &str = "losses in the ledger that may include the program's packets";
    match ledger.lost() {
        Some(lost) => Figure::exact("packets", lost as f64, Tier::Sw, METHOD),
        None => Figure::absent("packets", Tier::Sw, METHOD, "no packet or loss counters were read"),
    }
}

fn lost_where(ledger: &PacketLedger) -> Figure {
    const METHOD: &str = "largest loss in the ledger";
    match ledger.largest() {
        Some(place) => {
            let text = format!("{} {}: {}", place.row.layer.name(), place.row.of, place.reason);
            Figure::text(&text, Tier::Sw, METHOD)
        }
        None => Figure::absent("text", Tier::Sw, METHOD, "no losses were counted"),
    }
}

/// Returns the thread with the highest demand for CPU time; ties go to the lowest thread ID. `None`
/// without threads.
pub(crate) fn busiest(observation: &Observation) -> Option<&ThreadActivity> {
    let order = |a: &&ThreadActivity, b: &&ThreadActivity| {
        a.demand().total_cmp(&b.demand()).then(b.tid.cmp(&a.tid))
    };
    observation.threads.iter().max_by(order)
}

/// Returns the share of time that the busiest thread spends on work rather than polling, 0 to 1.
fn busy_share(observation: &Observation) -> Figure {
    const METHOD: &str = "on-CPU time of the busiest thread, minus its polling";
    let Some(thread) = busiest(observation) else {
        return Figure::absent("ratio", Tier::Sw, METHOD, "no threads were watched");
    };
    let on_cpu = thread.share_of(ThreadState::is_on_cpu);
    if thread.busy.as_number().is_some() {
        return thread.busy.scaled(on_cpu, "ratio", METHOD);
    }
    match thread.share(ThreadState::Polling).and_then(Figure::as_number) {
        Some(polling) => Figure::exact("ratio", on_cpu - polling, Tier::Sw, METHOD),
        None => Figure::exact("ratio", on_cpu, Tier::Sw, METHOD),
    }
}

fn packets_per_s(observation: &Observation) -> Figure {
    const METHOD: &str = "packets / window length";
    let slices = &observation.packets_per_s;
    let unit = "packets/s";
    match &observation.packets {
        Some(count) if observation.elapsed_s > 0.0 => {
            let value = count.packets as f64 / observation.elapsed_s;
            if slices.is_empty() {
                return Figure::exact(unit, value, Tier::Sw, METHOD);
            }
            // The slices differ a little in length, so their mean is not exactly the rate.
            let mean = block_bootstrap_ratio(slices, &vec![1.0; slices.len()], CONFIDENCE, SEED);
            let (low, high) = (mean.low.min(value), mean.high.max(value));
            Figure::number(unit, Estimate { value, low, high, ..mean }, Tier::Sw, METHOD)
        }
        _ => Figure::absent(unit, Tier::Sw, METHOD, "no counter covers the program's packets"),
    }
}

fn thread(thread: &ThreadActivity) -> Value {
    let time = thread.time.iter().map(|time| (time.state.name().to_owned(), bare(&time.share)));
    json!({
        "pid": thread.pid,
        "tid": thread.tid,
        "name": thread.name,
        "cpu": thread.ran_on.first(),
        "time": time.collect::<serde_json::Map<_, _>>(),
        "busy": bare(&thread.busy),
        "cost_ns": bare(&thread.cost_ns),
    })
}

fn cpu(cpu: &CpuCounts) -> Value {
    json!({
        "cpu": cpu.cpu,
        "user": cpu.user,
        "system": cpu.system,
        "interrupts": cpu.interrupts,
        "stolen": cpu.stolen,
        "idle": cpu.idle,
    })
}

fn finding(finding: &WhyFinding) -> Value {
    let gain = &finding.gain.percent;
    json!({
        "cause": finding.cause.name(),
        "sentence": finding.sentence,
        "gain_percent": bare(gain),
        "gain_low": gain.low,
        "gain_high": gain.high,
        "fix": finding.fix,
        "wrong_if": finding.wrong_if,
    })
}
