// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines how much of the work is checksums and copies, and whether other variants of these
//! kernels would be faster.
//!
//! A choice is a variant by name, or `selected`: for each kernel, the variant that was selected on
//! the machine of the run. Over the calls that every worker logged and replayed:
//!
//! ```text
//! ticks(stage, c) = sum over its kernels of  ticks per packet x time of c's variant / time in use
//! total(c)        = sum over the workers' stages of  ticks(stage, c) x share of the path's packets
//! faster          = choices for which the interval of total(c) / total(in use) lies below 1
//! fastest         = the one in use if none is faster; else `selected`, which fits other machines
//!                   too, if it is faster and no interval lies below its own; else the one with
//!                   the least total(c)
//! load(worker, c) = load(worker) - what its stages save under c
//! path kpps(c)    = ticks per second / largest load(worker, c)
//! ```
//!
//! Intervals are combined by taking all ratios at their low ends, or all at their high ends.
//! Calls are replayed on warm data. They take less time than in a run with cold packets, but more
//! than in a run that overlapped them with other work. A choice is therefore only a proposal, to be
//! measured before it is kept.

use crate::profile::{estimate, given};
use crate::verdict::is_worth_it;
use linerate_path::model::SELECTED;
use linerate_record::kernels::Kernel;
use linerate_record::run::{KernelUse, RunReport, StageReport};
use linerate_record::stats::{CONFIDENCE, Estimate};
use linerate_record::tune::{KernelAdvice, KernelShare};
use linerate_record::units::{Kpps, three_digits};
use linerate_record::{Figure, Tier};

const METHOD: &str = "logged calls replayed on warm data";

/// Returns the fraction of each stage's time spent in each kernel (checksum, copy and any others
/// that the stage calls) in two runs, before and after a change of mapping. Includes source and
/// sink. `None` if neither run logged calls.
pub fn shares(before: &RunReport, after: &RunReport) -> Option<Vec<KernelShare>> {
    let uses = || [before, after].into_iter().flat_map(stages).filter_map(|s| s.kernels.as_ref());
    uses().next()?;
    let called = |kernel| uses().flatten().any(|one| one.kernel == kernel);
    let always = [Kernel::Checksum, Kernel::Copy];
    let kernels: Vec<Kernel> =
        Kernel::ALL.into_iter().filter(|k| always.contains(k) || called(*k)).collect();
    let mut names: Vec<&str> = Vec::new();
    for stage in stages(before) {
        let is_ring = stage.name == "ring in" || stage.name == "ring out";
        if !is_ring && !names.contains(&stage.name.as_str()) {
            names.push(&stage.name);
        }
    }
    let rows = names.into_iter().flat_map(|name| {
        kernels.iter().map(move |&kernel| KernelShare {
            stage: name.to_owned(),
            kernel,
            before: share(before, name, kernel),
            after: share(after, name, kernel),
        })
    });
    Some(rows.collect())
}

fn stages(run: &RunReport) -> impl Iterator<Item = &StageReport> {
    run.workers.iter().flat_map(|worker| &worker.stages)
}

/// Returns the fraction of a stage's service time spent in `kernel`, over all replicas.
fn share(run: &RunReport, name: &str, kernel: Kernel) -> Figure {
    const METHOD: &str = "ticks of the replayed calls, divided by the stage's service time";
    let absent = |reason: &str| Figure::absent("ratio", Tier::Sw, METHOD, reason);
    let mut calls = NOTHING;
    let mut service = NOTHING;
    let mut is_called = false;
    for stage in stages(run).filter(|stage| stage.name == name && stage.packets > 0) {
        let Some(uses) = &stage.kernels else {
            return absent("kernel calls were not logged in this run");
        };
        let packets = stage.packets as f64;
        match estimate(&stage.ticks_per_packet) {
            Ok(ticks) => service = service.plus(ticks.scale(packets)),
            Err(reason) => return absent(&reason),
        }
        if let Some(one) = uses.iter().find(|one| one.kernel == kernel) {
            is_called = true;
            match estimate(&one.ticks_per_packet) {
                Ok(ticks) => calls = calls.plus(ticks.scale(packets)),
                Err(reason) => return absent(&reason),
            }
        }
    }
    match is_called {
        _ if service.value <= 0.0 => absent("the stage received no packets"),
        false => Figure::exact("ratio", 0.0, Tier::Sw, "no calls in the logged iterations"),
        true => {
            let ends = [calls.low / service.high, calls.high / service.low.max(f64::MIN_POSITIVE)];
            let estimate = interval(calls.value / service.value, ends, calls.n);
            Figure::number("ratio", estimate, Tier::Sw, METHOD)
        }
    }
}

fn interval(value: f64, [low, high]: [f64; 2], n: u64) -> Estimate {
    Estimate { value, low, high, confidence: CONFIDENCE, n }
}

/// Zero, the starting value of sums.
const NOTHING: Estimate =
    Estimate { value: 0.0, low: 0.0, high: 0.0, confidence: CONFIDENCE, n: 0 };

/// A kernel as used by one stage on one worker.
struct Use<'a> {
    worker: usize,
    stage: &'a str,
    /// Ticks per packet entering the path, with the variant in use.
    ticks: f64,
    of: &'a KernelUse,
}

impl Use<'_> {
    /// Returns the time of the calls under `choice`, relative to the variant in use; `None` if the
    /// calls were not replayed with that variant.
    fn ratio(&self, choice: &str) -> Option<Estimate> {
        let is_it = |name: &str, selected| match choice {
            SELECTED => selected,
            other => name == other,
        };
        let found = self.of.variants.iter().find(|v| is_it(&v.variant, v.selected))?;
        estimate(&found.time_ratio).ok()
    }
}

/// A choice of variants, evaluated at the values of its time ratios or at one end of their
/// intervals; `None` for the variants in use.
type Choice<'a> = Option<(&'a str, End)>;

#[derive(Clone, Copy)]
enum End {
    Value,
    Low,
    High,
}

/// A run's kernel calls, with the run and the number of packets that entered its path.
struct Calls<'a> {
    run: &'a RunReport,
    entered: f64,
    uses: Vec<Use<'a>>,
}

impl<'a> Calls<'a> {
    /// Collects the timed kernel calls in `run`; `None` if no call was timed.
    fn from_run(run: &'a RunReport) -> Option<Self> {
        let entering = run.workers.iter().filter(|worker| worker.segment == 0);
        let entered: f64 = entering.map(given).sum();
        let mut uses = Vec::new();
        for (index, worker) in run.workers.iter().enumerate() {
            for stage in &worker.stages {
                for of in stage.kernels.iter().flatten() {
                    let share = stage.packets as f64 / entered;
                    if let Some(ticks) = of.ticks_per_packet.as_number().filter(|t| *t > 0.0) {
                        let ticks = ticks * share;
                        uses.push(Use { worker: index, stage: &stage.name, ticks, of });
                    }
                }
            }
        }
        (!uses.is_empty()).then_some(Self { run, entered, uses })
    }

    /// Returns the choices for which all calls were replayed: `selected`, and variants by name.
    fn choices(&self) -> Vec<&str> {
        let mut choices = vec![SELECTED];
        for variant in self.uses.iter().flat_map(|one| &one.of.variants) {
            if !choices.contains(&variant.variant.as_str()) {
                choices.push(&variant.variant);
            }
        }
        choices.retain(|choice| self.uses.iter().all(|one| one.ratio(choice).is_some()));
        choices
    }

    /// Returns the ticks per packet entering the path for the calls selected by `which` under
    /// `choice`.
    fn ticks(&self, choice: &str, which: impl Fn(&Use<'_>) -> bool) -> Estimate {
        let mut sum = NOTHING;
        for one in self.uses.iter().filter(|one| which(one)) {
            if let Some(ratio) = one.ratio(choice) {
                sum = sum.plus(ratio.scale(one.ticks));
            }
        }
        sum
    }

    /// Returns the ticks per packet entering the path for the calls selected by `which`, with the
    /// variants in use.
    fn in_use(&self, which: impl Fn(&Use<'_>) -> bool) -> f64 {
        self.uses.iter().filter(|one| which(one)).map(|one| one.ticks).sum()
    }

    /// Returns the additional ticks per packet entering the path if the calls selected by `which`
    /// use `choice`; negative for a gain. `choice` also determines whether time ratios are taken at
    /// their value or at an interval end.
    fn change(&self, choice: Choice<'_>, which: impl Fn(&Use<'_>) -> bool) -> f64 {
        let Some((choice, end)) = choice else { return 0.0 };
        let now = self.in_use(&which);
        let then = self.ticks(choice, &which);
        let then = match end {
            End::Value => then.value,
            End::Low => then.low,
            End::High => then.high,
        };
        then - now
    }

    /// Returns the path's rate in kpps under `choice` if the busiest worker never waits.
    fn path_kpps(&self, choice: Choice<'_>) -> f64 {
        let loads = self.run.workers.iter().enumerate().filter_map(|(index, worker)| {
            let load = worker.ticks_per_packet.as_number()? * given(worker) / self.entered;
            Some((load + self.change(choice, |one| one.worker == index)).max(f64::MIN_POSITIVE))
        });
        self.run.ticks_per_s / loads.fold(0.0, f64::max) / 1e3
    }

    /// Returns the rate in kpps of a worker that runs only the stage `name`, under `choice`.
    fn stage_kpps(&self, name: &str, choice: Choice<'_>) -> f64 {
        let ticks = self.stage_ticks(name) + self.change(choice, |one| one.stage == name);
        self.run.ticks_per_s / (ticks / self.processed(name)) / 1e3
    }

    /// Returns a stage's ticks per packet entering the path, over all replicas.
    fn stage_ticks(&self, name: &str) -> f64 {
        let ticks = stages(self.run)
            .filter(|stage| stage.name == name)
            .filter_map(|stage| Some(stage.ticks_per_packet.as_number()? * stage.packets as f64));
        ticks.sum::<f64>() / self.entered
    }

    /// Returns the fraction of packets entering the path that a stage processes.
    fn processed(&self, name: &str) -> f64 {
        let packets = stages(self.run).filter(|s| s.name == name).map(|s| s.packets as f64);
        packets.sum::<f64>() / self.entered
    }
}

/// Returns the best kernels for the calls in `run`; `None` if no call was timed.
pub fn advise(run: &RunReport) -> Option<KernelAdvice> {
    let calls = Calls::from_run(run)?;
    let in_use = run.kernels.as_deref().unwrap_or(SELECTED);
    let total = calls.in_use(|_| true);
    let ratio = |choice: &str| calls.ticks(choice, |_| true).scale(1.0 / total);
    let rated = calls.choices().into_iter().map(|choice| (choice, ratio(choice)));
    let faster: Vec<(&str, Estimate)> =
        rated.filter(|(choice, ratio)| *choice != in_use && ratio.high < 1.0).collect();
    let least = faster.iter().min_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let selected = faster.iter().find(|(choice, _)| *choice == SELECTED);
    let as_good = selected.filter(|(_, ratio)| least.is_none_or(|l| l.1.high >= ratio.low));
    let faster = as_good.or(least).copied();
    let stage = most_changed(&calls, faster.map(|(choice, _)| choice));
    let (path_kpps, stage_kpps) = (calls.path_kpps(None), calls.stage_kpps(stage, None));
    let with = |end| (calls.path_kpps(end), calls.stage_kpps(stage, end));
    let (path_fastest, stage_fastest) = match faster {
        None => (model(path_kpps, None), model(stage_kpps, None)),
        Some((choice, _)) => {
            let [value, low, high] =
                [End::Value, End::High, End::Low].map(|e| with(Some((choice, e))));
            (model(value.0, Some([low.0, high.0])), model(value.1, Some([low.1, high.1])))
        }
    };
    let gain = path_fastest.as_number().map_or(1.0, |fastest| fastest / path_kpps);
    let mut advice = KernelAdvice {
        in_use: in_use.to_owned(),
        fastest: faster.map_or(in_use, |(choice, _)| choice).to_owned(),
        time_ratio: match faster {
            Some((_, ratio)) => Figure::number("ratio", ratio, Tier::Sw, METHOD),
            None => Figure::exact("ratio", 1.0, Tier::Sw, METHOD),
        },
        stage: stage.to_owned(),
        stage_kpps: model(stage_kpps, None),
        stage_fastest_kpps: stage_fastest,
        path_kpps: model(path_kpps, None),
        path_fastest_kpps: path_fastest,
        worth_trying: is_worth_it(gain, 1.0),
        sentence: String::new(),
    };
    advice.sentence = sentence(&advice, &calls);
    Some(advice)
}

/// Returns the stage whose cost `choice` reduces most; without a choice, the one that spends most
/// time in calls.
fn most_changed<'a>(calls: &Calls<'a>, choice: Option<&str>) -> &'a str {
    let ticks = |name: &str| match choice {
        Some(choice) => -calls.change(Some((choice, End::Value)), |one| one.stage == name),
        None => calls.in_use(|one| one.stage == name),
    };
    let all = calls.uses.iter().map(|one| one.stage);
    all.max_by(|a, b| ticks(a).total_cmp(&ticks(b))).unwrap_or("source")
}

/// Creates a figure for a predicted rate, with interval ends if known.
fn model(kpps: f64, ends: Option<[f64; 2]>) -> Figure {
    const METHOD: &str = "service times minus the time saved in kernel calls";
    match ends {
        Some(ends) => Figure::number("kpps", interval(kpps, ends, 1), Tier::Model, METHOD),
        None => Figure::exact("kpps", kpps, Tier::Model, METHOD),
    }
}

fn sentence(advice: &KernelAdvice, calls: &Calls<'_>) -> String {
    let KernelAdvice { fastest, stage, time_ratio, .. } = advice;
    let in_use = called(&advice.in_use, calls);
    if *fastest == advice.in_use {
        return format!("{in_use} is as fast as any variant for this path's calls");
    }
    let number = |figure: &Figure| figure.as_number().unwrap_or(f64::NAN);
    let rate = |figure: &Figure| Kpps(number(figure)).to_string();
    let ends = time_ratio.low.zip(time_ratio.high).map_or(String::new(), |(low, high)| {
        format!(" ({} to {})", three_digits(low), three_digits(high))
    });
    let ratio = three_digits(number(time_ratio)) + &ends;
    let (now, then) = (&advice.path_kpps, &advice.path_fastest_kpps);
    if !advice.worth_trying {
        let gain = 100.0 * (number(then) / number(now) - 1.0);
        return format!(
            "keep {in_use}: the fastest alternative, `{fastest}`, takes {ratio} times as long in \
             kernel calls and would speed up this path by {gain:.1} % (tier model)"
        );
    }
    format!(
        "`{fastest}` takes only {ratio} of the time of {in_use} for this path's kernel calls: \
         `{stage}`, alone on a worker, would handle {} instead of {}, and the path {} instead of \
         {} (tier model)",
        rate(&advice.stage_fastest_kpps),
        rate(&advice.stage_kpps),
        rate(then),
        rate(now),
    )
}

/// Describes a choice; for `selected`, with the variants it stands for.
fn called(choice: &str, calls: &Calls<'_>) -> String {
    if choice != SELECTED {
        return format!("`{choice}`");
    }
    let mut meant: Vec<String> = Vec::new();
    for one in &calls.uses {
        let text = format!("{} {}", one.of.kernel, one.of.variant);
        if !meant.contains(&text) {
            meant.push(text);
        }
    }
    meant.sort_unstable();
    format!("`{choice}` ({})", meant.join(", "))
}
