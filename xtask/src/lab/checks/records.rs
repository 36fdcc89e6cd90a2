// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the probe's records in a guest: its description of the machine, and its own counts.

use super::{Finding, finding, question};
use crate::lab::guest::{Answer, Question};
use linerate_record::doctor::DoctorReport;
use linerate_record::stat::{EventCount, StatReport};
use linerate_record::{Body, Provenance, Record, Tier};

/// Loop iterations in the shorter of two runs that are otherwise identical. Both numbers have the
/// same number of digits, so that parsing them takes the same number of instructions.
const SHORT: u64 = 1_000_000;
const LONG: u64 = 9_000_000;

/// Instructions per iteration of `known loop`.
const PER_ITERATION: u64 = 2;

/// An event with a known count, an event that the emulator does not count, and two events counted
/// by the kernel. The record calls the first one [`INSTRUCTIONS`].
const KNOWN: &str = "instructions:u,l1d_misses,task_clock_ns,context_switches";
const INSTRUCTIONS: &str = "instructions";
const SWITCHES: &str = "context_switches";

/// Twelve events, more than any processor here can count at once. In user mode, all have the same
/// count: each counts instructions or cycles, and every instruction takes one cycle here.
const TWELVE: [&str; 12] = [
    "instructions",
    "cycles",
    "r8",
    "r11",
    "r08",
    "r011",
    "r008",
    "r0011",
    "r0008",
    "r00011",
    "r00008",
    "r000011",
];

/// Number of runs in which the twelve events are rotated, each with its own random seed.
const ROTATED: usize = 8;

/// The check fails if at least this many runs have an interval that misses the true value.
const TOO_MANY: usize = 6;

/// Maximum difference between the counts of two runs of one program: a few instructions out of
/// 10^8; a larger difference fails the check. If a counter were off for a time slice, 10^5
/// instructions would be missing. In one test, one of nine runs counted one instruction more than
/// the others.
const MOST_APART: u64 = 4;

/// A workload of about 0.3 s of guest time, in user and kernel mode, in phases of about 0.1 ms
/// each.
///
/// Without the phases, the program would be uniform after its first millisecond. The intervals of
/// the estimates would then be almost empty, even for events that were not on a counter during that
/// millisecond.
const MIXED: &str = "known mixed 1500 4";

pub(super) fn plan() -> Vec<Question> {
    let stat =
        |options: &str, command: &str| format!("linerate-probe stat --json {options} -- {command}");
    let known = |turns: u64| stat(&format!("-e {KNOWN}"), &format!("known loop {turns}"));
    let twelve = |run| format!("--seed {run} --slice 1ms -e {}:u", TWELVE.join(":u,"));
    let mut plan = vec![
        question("doctor", "linerate-probe doctor --json"),
        question("short", &known(SHORT)),
        question("short again", &known(SHORT)),
        question("long", &known(LONG)),
        question("alone", &stat(&format!("-e {INSTRUCTIONS}:u"), MIXED)),
    ];
    let rotated = |run| question(&name_of_rotated(run), &stat(&twelve(run), MIXED));
    plan.extend((1..=ROTATED).map(rotated));
    plan
}

fn name_of_rotated(run: usize) -> String {
    format!("rotated {run}")
}

pub(super) fn judge(answer: impl Fn(&str) -> Answer) -> Vec<Finding> {
    let stat = |name: &str| stat_of(&answer(name));
    let mut findings = vec![finding(doctor(&answer("doctor")))];
    findings.push(finding(known_loop(&stat("short"), &stat("short again"), &stat("long"))));
    findings.push(finding(what_is_not_counted(&stat("short"))));
    let reports = (1..=ROTATED).map(|run| stat(&name_of_rotated(run)));
    let reports = reports.collect::<Result<Vec<_>, _>>();
    findings.push(finding(reports.and_then(|reports| rotated(&stat("alone"), &reports))));
    findings
}

fn record_of(answer: &Answer) -> Result<Record, String> {
    let name = &answer.name;
    if answer.status != 0 {
        return Err(format!("{name}: status {}: {}", answer.status, answer.errors.trim()));
    }
    Record::from_json(&answer.output).map_err(|error| format!("{name}: {error}"))
}

fn stat_of(answer: &Answer) -> Result<StatReport, String> {
    match record_of(answer)?.body {
        Body::Stat(report) => Ok(*report),
        _ => Err(format!("{}: not a `stat` record", answer.name)),
    }
}

/// Checks that counting works with hardware events, and that the record says that times are
/// meaningless.
fn doctor(answer: &Answer) -> Result<String, String> {
    let Record { provenance, body, .. } = record_of(answer)?;
    let Body::Doctor(report) = body else {
        return Err("doctor: not a `doctor` record".to_owned());
    };
    let Provenance { emulated, hypervisor, cpu, .. } = provenance;
    let DoctorReport { best_tier, .. } = *report;
    let sentence = format!(
        "doctor: {} on {}, emulated: {}, best tier: {best_tier:?}",
        cpu.as_deref().unwrap_or("the record does not name the processor"),
        hypervisor.as_deref().unwrap_or("no hypervisor"),
        emulated.map_or("cannot tell".to_owned(), |emulated| emulated.to_string()),
    );
    if emulated == Some(true) && best_tier == Tier::Hw { Ok(sentence) } else { Err(sentence) }
}

fn event<'a>(report: &'a StatReport, name: &str) -> Result<&'a EventCount, String> {
    let found = report.events.iter().find(|event| event.name == name);
    found.ok_or_else(|| format!("the record has no event {name}"))
}

/// Returns a count that needed no estimation.
fn counted(report: &StatReport, name: &str) -> Result<u64, String> {
    let event = event(report, name)?;
    let reason = || event.count.reason.clone().unwrap_or_else(|| "no count".to_owned());
    match (event.raw, event.duty) {
        (Some(raw), Some(1.0)) => Ok(raw),
        (Some(_), duty) => Err(format!("{name}: on a counter for {duty:?} of the time")),
        (None, _) => Err(format!("{name}: {}", reason())),
    }
}

/// One run's counts: at least the program's instructions, and at most one more per context switch.
///
/// An instruction that is interrupted before it completes is restarted, and the emulator counts
/// both starts. Of eleven runs of the short loop, one counted one instruction more than the others.
/// It had as many page faults as they did, but was one of those with two context switches.
struct Counted {
    raw: u64,
    switches: u64,
}

impl Counted {
    fn from_report(report: &Result<StatReport, String>) -> Result<Self, String> {
        let report = report.as_ref()?;
        Ok(Self { raw: counted(report, INSTRUCTIONS)?, switches: counted(report, SWITCHES)? })
    }

    /// Returns whether this run may have executed exactly `added` instructions more than `other`,
    /// given the context switches of both.
    fn may_exceed(&self, other: &Self, added: u64) -> bool {
        let counted = i128::from(self.raw) - i128::from(other.raw);
        let added = i128::from(added);
        counted >= added - i128::from(other.switches)
            && counted <= added + i128::from(self.switches)
    }
}

/// Checks that additional loop iterations add exactly their instructions to the count. The rest of
/// the program, from its first instruction to its last, is the same each time.
fn known_loop(
    short: &Result<StatReport, String>,
    again: &Result<StatReport, String>,
    long: &Result<StatReport, String>,
) -> Result<String, String> {
    let [short, again, long] =
        [Counted::from_report(short)?, Counted::from_report(again)?, Counted::from_report(long)?];
    let holds =
        again.may_exceed(&short, 0) && long.may_exceed(&short, PER_ITERATION * (LONG - SHORT));
    let sentence = format!(
        "stat: {INSTRUCTIONS} of a program in user mode: {}, repeated {}; {} more iterations add \
         {}; the three runs were interrupted {}, {} and {} times, and each interruption may count \
         an instruction twice",
        short.raw,
        again.raw,
        LONG - SHORT,
        long.raw.wrapping_sub(short.raw),
        short.switches,
        again.switches,
        long.switches,
    );
    if holds { Ok(sentence) } else { Err(sentence) }
}

/// Checks that the event that the emulator does not count is absent, with a reason, and that a
/// software event was counted.
fn what_is_not_counted(short: &Result<StatReport, String>) -> Result<String, String> {
    let name = "l1d_misses";
    let report = short.as_ref()?;
    let software = event(report, "task_clock_ns")?;
    if software.count.as_number().is_none_or(|ns| ns <= 0.0) {
        return Err("task_clock_ns was not counted".to_owned());
    }
    let EventCount { count, .. } = event(report, name)?;
    match (count.as_number(), &count.reason) {
        (None, Some(reason)) => Ok(format!("stat: {name} is absent: {reason}")),
        (value, reason) => Err(format!("stat: {name}: {value:?}, {reason:?}")),
    }
}

/// Checks that the intervals of the estimates contain the count of an event that is counted alone,
/// and that this count is the same each time.
fn rotated(alone: &Result<StatReport, String>, reports: &[StatReport]) -> Result<String, String> {
    let truth = counted(alone.as_ref()?, INSTRUCTIONS)?;
    let runs = reports.iter().map(|report| Rotated::from_report(report, truth));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let first = runs.first().ok_or("stat: no events were multiplexed")?;
    let most = |of: fn(&Rotated) -> f64| runs.iter().map(of).fold(0.0, f64::max) * 100.0;
    let missed: Vec<&str> = runs.iter().filter_map(|run| run.missed.as_deref()).collect();
    let sentence = format!(
        "stat: {} events, {} of them always on a counter and exact, the others multiplexed in {} \
         sets: estimates within {:.2} % of the true count, {truth}, with intervals of at most +- \
         {:.2} %; in {} of {} runs, an interval does not contain the true count",
        TWELVE.len(),
        first.always,
        first.sets,
        most(|run| run.worst),
        most(|run| run.widest),
        missed.len(),
        runs.len(),
    );
    if missed.len() < TOO_MANY { Ok(sentence) } else { Err(format!("{sentence}: {missed:?}")) }
}

/// A run with rotated events.
struct Rotated {
    /// Number of events that were on a counter throughout.
    always: usize,
    sets: usize,
    /// Largest half-width of any interval, relative to the true value.
    widest: f64,
    /// Largest error of any estimate, relative to the true value.
    worst: f64,
    /// The events of a set in which an interval does not contain the true value; `None` if there is
    /// no such set.
    missed: Option<String>,
}

impl Rotated {
    fn from_report(report: &StatReport, truth: u64) -> Result<Self, String> {
        let rotation = report.rotation.as_ref().ok_or("stat: no events were multiplexed")?;
        let takes_turns = |name: &&str| rotation.sets.iter().flatten().any(|n| n == name);
        let (turns, always): (Vec<&str>, Vec<&str>) = TWELVE.into_iter().partition(takes_turns);
        for name in &always {
            let count = counted(report, name)?;
            if count.abs_diff(truth) > MOST_APART {
                return Err(format!(
                    "stat: {name} was always on a counter, but its count is {count}, not {truth}"
                ));
            }
        }
        if turns.is_empty() {
            return Err("stat: no events were multiplexed".to_owned());
        }
        let sets = rotation.sets.len();
        let mut run = Self { always: always.len(), sets, widest: 0.0, worst: 0.0, missed: None };
        for set in &rotation.sets {
            let (share, error) = estimates(report, set, truth as f64)?;
            (run.widest, run.worst) = (run.widest.max(share), run.worst.max(error));
            if error > share {
                run.missed = Some(set.join(" "));
            }
        }
        Ok(run)
    }
}

/// Returns the largest half-width of the intervals of a set's estimates, and the largest error,
/// both relative to the true value. The half-width is measured on the side of the true value.
fn estimates(report: &StatReport, set: &[String], truth: f64) -> Result<(f64, f64), String> {
    let (mut widest, mut worst) = (0.0f64, 0.0f64);
    for name in set {
        let EventCount { count, duty, .. } = event(report, name)?;
        let (Some(value), Some(low), Some(high)) = (count.as_number(), count.low, count.high)
        else {
            return Err(format!("{name}: no estimate with an interval: {:?}", count.reason));
        };
        if duty.is_none_or(|duty| duty >= 1.0) {
            return Err(format!("{name}: never shared its counter: duty {duty:?}"));
        }
        let reach = if truth > value { high - value } else { value - low };
        widest = widest.max(reach / truth);
        worst = worst.max((value - truth).abs() / truth);
    }
    Ok((widest, worst))
}

#[cfg(test)]
mod tests {
    use super::Counted;

    #[test]
    fn a_count_is_exact_but_for_instructions_that_were_interrupted() {
        let run = |raw, switches| Counted { raw, switches };
        let short = run(100, 1);
        for (raw, switches, added, expected) in [
            (100, 0, 0, true),
            (99, 0, 0, true),
            (98, 0, 0, false),
            (101, 0, 0, false),
            (101, 1, 0, true),
            (2100, 0, 2000, true),
            (2105, 5, 2000, true),
            (2106, 5, 2000, false),
            (2098, 5, 2000, false),
        ] {
            assert_eq!(run(raw, switches).may_exceed(&short, added), expected, "{raw} {switches}");
        }
    }
}
