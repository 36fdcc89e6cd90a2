// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels' performance targets, and whether this machine meets them.
//!
//! Every target is a ratio between two routines' times in the same rounds of one case, or the worst
//! such ratio over several cases. Missing a target is a result, not a failure: targets were set on
//! another machine. As evidence of the cause, the run prints both times, the core's issue width and
//! the bound's load rate. Causes that were not measured are worded as possibilities.

use crate::cases::{Case, SIZES};
use crate::lineup::{MEMCPY, SELECTED};
use crate::peers::MASKED_LOOP;
use crate::sweep::Measured;
use linerate_record::kernels::{Kernel, Mix, Role, State};
use linerate_record::stats::{CONFIDENCE, Estimate, interval_name};
use std::fmt::Write;

/// Variant for the previous generation of processors.
const AVX2: &str = "avx2";
/// Bound with loads as wide as those of [`AVX2`].
const LOAD256: &str = "load256";

/// Baseline that a routine is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rival {
    /// The fastest bound in the case.
    Bound,
    /// The fastest variant in the case.
    BestVariant,
    /// The routine with this name.
    Named(&'static str),
}

/// Required ratio of two times.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reach {
    /// Minimum ratio of the rival's time to the routine's.
    Speed(f64),
    /// Maximum ratio of the routine's time to the rival's.
    Time(f64),
}

/// A performance target: the ratio that a routine's time must reach relative to a rival's.
#[derive(Clone, Debug)]
pub struct Target {
    /// Description of the target.
    pub what: String,
    cases: Vec<Case>,
    routine: &'static str,
    rival: Rival,
    reach: Reach,
}

/// Measured ratio, and whether the target is met.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// The ratio, or the worst ratio if the target covers several cases.
    pub ratio: Estimate,
    /// Name of the routine that serves as the rival.
    pub rival: String,
    /// Case with the worst ratio.
    pub case: String,
    /// Index of the worst case among the measured cases.
    measured: usize,
    /// Ticks per call of the routine and of the rival.
    ticks: [f64; 2],
    /// Whether the target is met.
    pub is_met: bool,
}

/// Returns all performance targets.
pub fn targets() -> Vec<Target> {
    let mut all = Vec::new();
    let mut ask = |what: &str, cases: Vec<Case>, routine, rival, reach| {
        all.push(Target { what: what.to_owned(), cases, routine, rival, reach });
    };
    let sum = |size| vec![Case::aligned(Kernel::Checksum, size)];
    for (size, share) in [(1460, 0.72), (4096, 0.90), (8000, 0.93)] {
        let what = format!("checksum {size} aligned / load loop");
        ask(&what, sum(size), SELECTED, Rival::Bound, Reach::Speed(share));
    }
    let what = "checksum 1460, mean of 8 offsets / load loop";
    ask(what, vec![Case::mean(1460)], SELECTED, Rival::Bound, Reach::Speed(0.88));
    for (what, sizes, most) in [
        ("checksum 20-256 / fastest variant", 20..=256, 1.5),
        ("checksum >= 512 / fastest variant", 512..=u32::MAX, 1.1),
    ] {
        let sizes = SIZES.into_iter().filter(|size| sizes.contains(size));
        let cases = sizes.map(|size| Case::aligned(Kernel::Checksum, size)).collect();
        ask(what, cases, SELECTED, Rival::BestVariant, Reach::Time(most));
    }
    for mix in Mix::ALL {
        let case = vec![Case::mix(Kernel::Checksum, mix)];
        let what = format!("checksum {mix} / best variant");
        ask(&what, case.clone(), SELECTED, Rival::BestVariant, Reach::Time(1.05));
        let what = format!("checksum {mix} / {MASKED_LOOP}");
        ask(&what, case, SELECTED, Rival::Named(MASKED_LOOP), Reach::Time(0.95));
    }
    let what = "checksum 1460, avx2 / 256-bit load loop";
    ask(what, sum(1460), AVX2, Rival::Named(LOAD256), Reach::Speed(0.52));
    let both = Kernel::CopyChecksum;
    let memcpy = Rival::Named(MEMCPY);
    let what = "copy_checksum 1460 aligned / memcpy";
    ask(what, vec![Case::aligned(both, 1460)], SELECTED, memcpy, Reach::Time(0.95));
    let what = "copy_checksum 1460 src+14 dst+2 / memcpy";
    ask(what, vec![Case::misaligned(both, 1460, 14, 2)], SELECTED, memcpy, Reach::Time(1.0));
    let small = [64, 128, 256, 512, 576].map(|size| Case::aligned(both, size)).to_vec();
    ask("copy_checksum 64-576 / memcpy", small, SELECTED, memcpy, Reach::Time(1.25));
    let copy = vec![Case::aligned(Kernel::Copy, 1460)];
    ask("copy 1460 / memcpy", copy, SELECTED, memcpy, Reach::Time(0.95));
    let cold = vec![Case::cold(Kernel::Checksum, 1460)];
    ask("checksum 1460 cold / load loop", cold, SELECTED, Rival::Bound, Reach::Time(1.15));
    all
}

/// Returns the cases needed for the targets, without duplicates.
pub fn cases(targets: &[Target]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for case in targets.iter().flat_map(|target| &target.cases) {
        if !cases.contains(case) {
            cases.push(*case);
        }
    }
    cases
}

impl Target {
    /// Determines from the measurements whether the target is met.
    ///
    /// # Errors
    /// Returns the reason if a case was not measured, or if the routine or its rival was not timed.
    pub fn judge(&self, measured: &[Measured]) -> Result<Reached, String> {
        let mut worst: Option<Reached> = None;
        for case in &self.cases {
            let found = measured.iter().position(|measured| measured.case == *case);
            let found = found.ok_or_else(|| format!("not measured: {case}"))?;
            let reached = Reached { measured: found, ..self.judge_case(&measured[found])? };
            let is_worse = worst.as_ref().is_none_or(|worst| match self.reach {
                Reach::Speed(_) => reached.ratio.value < worst.ratio.value,
                Reach::Time(_) => reached.ratio.value > worst.ratio.value,
            });
            if is_worse {
                worst = Some(reached);
            }
        }
        worst.ok_or_else(|| "no case".to_owned())
    }

    fn judge_case(&self, measured: &Measured) -> Result<Reached, String> {
        let named = |name: &str| {
            let place = measured.routines.iter().position(|routine| routine.name == name);
            place.ok_or_else(|| format!("{name} was not timed on this processor"))
        };
        let fastest = |of: &dyn Fn(usize) -> bool| {
            let all = (0..measured.routines.len()).filter(|&which| of(which));
            measured.times.fastest(all).ok_or_else(|| "no routine to compare with".to_owned())
        };
        let routine = named(self.routine)?;
        let rival = match self.rival {
            Rival::Named(name) => named(name)?,
            Rival::Bound => fastest(&|which| measured.routines[which].is_bound)?,
            Rival::BestVariant => fastest(&|which| measured.routines[which].role == Role::Variant)?,
        };
        let ratio = match self.reach {
            Reach::Speed(_) => measured.times.ratio(rival, routine, CONFIDENCE),
            Reach::Time(_) => measured.times.ratio(routine, rival, CONFIDENCE),
        };
        let ratio = ratio.ok_or_else(|| "no round has valid times for both".to_owned())?;
        let is_met = match self.reach {
            Reach::Speed(least) => ratio.value >= least,
            Reach::Time(most) => ratio.value <= most,
        };
        let ticks = [routine, rival].map(|which| measured.times.median(which).unwrap_or(f64::NAN));
        let (rival, case) = (measured.routines[rival].name.clone(), measured.case.to_string());
        Ok(Reached { ratio, rival, case, measured: 0, ticks, is_met })
    }

    /// Returns reasons for a missed target that follow from the measurements.
    fn reasons(&self, reached: &Reached, all: &[Measured]) -> Vec<String> {
        let measured = &all[reached.measured];
        let (clock, unit) = match measured.cycles_per_tick {
            Ok(clock) => (clock, "cycles"),
            Err(_) => (1.0, "ticks"),
        };
        let [own, rival] = reached.ticks.map(|ticks| ticks * clock);
        let (routine, name) = (self.routine, &reached.rival);
        let mut parts =
            vec![format!("{routine} takes {own:.1} {unit}, and {name} takes {rival:.1} {unit}")];
        if reached.ratio.low <= self.threshold() && self.threshold() <= reached.ratio.high {
            parts.push("the target is within the confidence interval".to_owned());
        }
        parts.extend(shared(measured, widths(all).1));
        let is_load = name.strip_prefix("load").and_then(|bits| bits.parse::<f64>().ok());
        if let Some(bits) = is_load.filter(|_| measured.case.state == State::Warm) {
            let per_cycle = measured.mean_bytes / (bits / 8.0) / rival;
            let unit = unit.trim_end_matches('s');
            parts.push(format!("{name} executes {per_cycle:.2} {bits}-bit loads per {unit}"));
            const VECTOR_OVERHEAD: &str =
                "a vectorized sum needs two or three more operations per load";
            parts.push(format!("{VECTOR_OVERHEAD}, and about twenty more per call"));
        }
        parts.extend(self.possibility(name));
        parts
    }

    /// Returns a possible cause of a missed target that this run did not measure.
    fn possibility(&self, rival: &str) -> Option<String> {
        match self.rival {
            Rival::Bound if rival.starts_with("load") => None,
            Rival::Named(LOAD256) => None,
            Rival::Named(MEMCPY) | Rival::Bound => Some(format!(
                "{rival} is from the C library, which may be tuned for this processor"
            )),
            Rival::BestVariant => Some(format!(
                "one routine is selected for all lengths, but {rival} can be called by name"
            )),
            Rival::Named(_) => Some(
                "with unpredictable lengths, a single-loop routine has the fewest mispredictions"
                    .to_owned(),
            ),
        }
    }

    /// Returns the required ratio.
    fn threshold(&self) -> f64 {
        match self.reach {
            Reach::Speed(ratio) | Reach::Time(ratio) => ratio,
        }
    }

    /// Formats the requirement, such as `>= 0.72`.
    pub fn asked(&self) -> String {
        match self.reach {
            Reach::Speed(least) => format!(">= {least:.2}"),
            Reach::Time(most) => format!("<= {most:.2}"),
        }
    }
}

/// Formats the core's measured issue width, then the targets as a table (name, required, measured
/// with its interval, rival, verdict), then possible reasons for missed targets.
pub fn table(targets: &[Target], measured: &[Measured]) -> String {
    let mut text = format!(
        "{}\n\n{:45} {:>8} {:>9} {:>17}  {:6} {}\n",
        core(measured),
        "target",
        "asked",
        "measured",
        interval_name(),
        "",
        "against"
    );
    let mut notes = String::new();
    for target in targets {
        let line = match target.judge(measured) {
            Ok(reached) => {
                if !reached.is_met {
                    notes += &format!("- {}\n", target.what);
                    for part in target.reasons(&reached, measured) {
                        notes += &format!("    {part}\n");
                    }
                }
                let Reached { ratio, rival, case, is_met, .. } = reached;
                let verdict = if is_met { "met" } else { "MISSED" };
                let worst =
                    if target.cases.len() > 1 { format!("; {case}") } else { String::new() };
                let interval = format!("{:.3} to {:.3}", ratio.low, ratio.high);
                format!("{:9.3} {interval:>17}  {verdict:6} {rival}{worst}", ratio.value)
            }
            Err(reason) => format!("{:>9} {:>17}  {:6} {reason}", "-", "-", "-"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:45} {:>8} {line}", target.what, target.asked());
    }
    if !notes.is_empty() {
        let _ = write!(text, "\nMissed targets, with the likely reasons:\n{notes}");
    }
    text
}

/// Describes the core's measured issue width (additions per cycle) over a run.
fn core(measured: &[Measured]) -> String {
    let ends = |m: &Measured| m.additions_per_cycle.clone();
    let (Some(first), Some(last)) = (measured.first().map(ends), measured.last().map(ends)) else {
        return "Nothing was measured.".to_owned();
    };
    match (first, last) {
        (Ok([before, _]), Ok([_, after])) => {
            let (least, most) = widths(measured);
            format!(
                "The core executed {before:.1} independent additions per cycle before the first \
                 case, {after:.1} after the last case, and {least:.1} to {most:.1} around each \
                 case.\nIf the core can issue more than that, an SMT sibling may have used its \
                 execution units throughout."
            )
        }
        (Err(reason), _) | (_, Err(reason)) => {
            format!("The core's issue width is unknown: {reason}.")
        }
    }
}

/// Returns the minimum and maximum additions per cycle over the given cases.
fn widths(measured: &[Measured]) -> (f64, f64) {
    let all = measured.iter().flat_map(|m| m.additions_per_cycle.iter().flatten().copied());
    all.fold((f64::INFINITY, 0.0), |(least, most), width| (width.min(least), width.max(most)))
}

/// Returns a note that an SMT sibling may have used the core's execution units during a case, if
/// the number of additions per cycle measured around the case is clearly below the best of the run.
fn shared(measured: &Measured, most: f64) -> Option<String> {
    let [before, after] = *measured.additions_per_cycle.as_ref().ok()?;
    let least = before.min(after);
    (least < SHARED_BELOW * most).then(|| {
        format!(
            "the core executed {least:.1} additions per cycle around this case, but up to \
             {most:.1} in this run: an SMT sibling may have been active"
        )
    })
}

/// If the additions per cycle measured around a case are below this fraction of the highest rate in
/// the run, an SMT sibling probably used the core. On an unshared core, measurements stay above
/// this fraction.
const SHARED_BELOW: f64 = 0.85;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Timed;
    use linerate_trial::Samples;

    /// Returns nine rounds in which every routine always takes the given number of ticks.
    fn times(ticks: [f64; 4]) -> Samples<f64> {
        Samples::new(ticks.map(|ticks| vec![Ok(ticks); 9]).to_vec(), 1)
    }

    /// Returns a case with four routines: `selected` takes 20 ticks, `avx2` 25, `load256` 10 and
    /// `memcpy` 16.
    fn measured(case: Case) -> Measured {
        let routine = |name: &str, role, is_bound| Timed { name: name.to_owned(), role, is_bound };
        Measured {
            case,
            mean_bytes: 1460.0,
            routines: vec![
                routine("selected", Role::Selected, false),
                routine("avx2", Role::Variant, false),
                routine("load256", Role::Bound, true),
                routine("memcpy", Role::Bound, true),
            ],
            times: times([20.0, 25.0, 10.0, 16.0]),
            cycles_per_tick: Ok(1.0),
            additions_per_cycle: Ok([6.0, 5.5]),
        }
    }

    fn target(routine: &'static str, rival: Rival, reach: Reach) -> Target {
        let cases = vec![Case::aligned(Kernel::Checksum, 1460)];
        Target { what: "synthetic".to_owned(), cases, routine, rival, reach }
    }

    #[test]
    fn a_speed_is_the_rivals_time_over_ones_own() {
        let all = [measured(Case::aligned(Kernel::Checksum, 1460))];
        for (routine, rival, reach, ratio, is_met) in [
            ("selected", Rival::Bound, Reach::Speed(0.5), 0.5, true),
            ("selected", Rival::Bound, Reach::Speed(0.51), 0.5, false),
            ("avx2", Rival::Named("load256"), Reach::Speed(0.3), 0.4, true),
            ("selected", Rival::Named("memcpy"), Reach::Time(1.25), 1.25, true),
            ("selected", Rival::BestVariant, Reach::Time(0.7), 0.8, false),
        ] {
            let reached = target(routine, rival, reach).judge(&all).expect("all is there");
            assert_eq!(
                (reached.ratio.value, reached.is_met),
                (ratio, is_met),
                "{routine} {rival:?}"
            );
        }
    }

    #[test]
    fn of_several_cases_the_worst_counts() {
        let [small, large] = [64, 1460].map(|size| Case::aligned(Kernel::Checksum, size));
        let slow = times([40.0, 25.0, 10.0, 16.0]);
        let all = [Measured { times: slow, ..measured(small) }, measured(large)];
        for (reach, ratio) in [(Reach::Speed(0.5), 0.25), (Reach::Time(1.0), 4.0)] {
            let cases = vec![large, small];
            let both = Target { cases, ..target("selected", Rival::Bound, reach) };
            let reached = both.judge(&all).expect("both are there");
            assert_eq!((reached.ratio.value, reached.is_met), (ratio, false));
            assert_eq!(reached.case, small.to_string());
        }
    }

    #[test]
    fn reports_missing_measurements() {
        let all = [measured(Case::aligned(Kernel::Checksum, 1460))];
        let absent = target("avx512", Rival::Bound, Reach::Speed(1.0)).judge(&all);
        assert!(absent.expect_err("no such routine").contains("avx512"));
        let nothing = target("selected", Rival::Bound, Reach::Speed(1.0)).judge(&[]);
        assert!(nothing.expect_err("nothing measured").contains("not measured"));
        let table = table(&targets(), &all);
        let [_core, _shared, _, _head, lines @ ..] = &table.lines().collect::<Vec<_>>()[..] else {
            panic!("{table}");
        };
        let is_table = |line: &&&str| !line.is_empty();
        assert_eq!(lines.iter().take_while(is_table).count(), targets().len());
        assert!(table.contains("not measured"), "{table}");
    }

    #[test]
    fn a_target_that_is_missed_has_its_reasons_from_the_run() {
        let aligned = measured(Case::aligned(Kernel::Checksum, 1460));
        let cold = Measured {
            additions_per_cycle: Ok([6.0, 3.0]),
            cycles_per_tick: Err("moved".to_owned()),
            ..measured(Case::cold(Kernel::Checksum, 1460))
        };
        let all = [aligned, cold];
        let asked = |share| target("selected", Rival::Bound, Reach::Speed(share));
        let missed = table(&[asked(0.6), asked(0.5)], &all);
        let head = "The core executed 6.0 independent additions per cycle before the first case, \
                    3.0 after the last case, and 3.0 to 6.0 ";
        assert!(missed.starts_with(head), "{missed}");
        let reason = "- synthetic\n    selected takes 20.0 cycles, \
                      and load256 takes 10.0 cycles\n    load256 executes 4.56";
        assert_eq!(missed.matches("- synthetic").count(), 1, "only what is missed: {missed}");
        assert!(missed.contains(reason) && !missed.contains("at best"), "{missed}");
        let of_cold = Target { cases: vec![all[1].case], ..asked(0.6) };
        let missed = table(&[of_cold], &all);
        let reason = "selected takes 20.0 ticks, and load256 takes 10.0 ticks\n    \
                      the core executed 3.0 additions per cycle";
        assert!(missed.contains(reason) && !missed.contains("256-bit"), "{missed}");
        let best = target("selected", Rival::BestVariant, Reach::Time(0.7));
        assert!(table(&[best], &all).contains("avx2 can be called by name"));
        assert!(!table(&[asked(0.5)], &all).contains("Missed"));
    }

    /// The full sweep contains every case used by a target, so that `linerate kernels` shows them
    /// too.
    #[test]
    fn targets_are_about_cases_of_the_sweep() {
        let sweep = crate::cases::Scope::full().cases();
        for case in cases(&targets()) {
            assert!(sweep.contains(&case), "{case}");
        }
    }
}
