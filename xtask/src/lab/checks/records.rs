// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of the probe in a guest: what it says of the machine, and counts by its own machinery.

use super::{Finding, finding, question};
use crate::lab::guest::{Answer, Guest, Question};
use linerate_record::doctor::DoctorReport;
use linerate_record::stat::{EventCount, StatReport};
use linerate_record::{Body, Provenance, Record, Tier};

/// Turns of the loop in two runs that differ in nothing else, not even in the digits to be read.
const SHORT: u64 = 1_000_000;
const LONG: u64 = 9_000_000;

/// Instructions per turn of `known loop`.
const PER_TURN: u64 = 2;

/// The event whose count is known, one that the emulator does not count, and one that the kernel
/// counts. In the record the first is called [`INSTRUCTIONS`].
const KNOWN: &str = "instructions:u,l1d_misses,task_clock_ns";
const INSTRUCTIONS: &str = "instructions";

/// Twelve events, which no processor here counts at once. In user mode, all of them count the same:
/// instructions, and cycles, which are instructions here.
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

/// Some 0.3 s of the guest's time, of user and kernel mode in phases of about 0.1 ms each.
///
/// Phases, because a program that is the same all the time but for its first millisecond has
/// estimates with hardly any interval, and only the set whose turn that was knows of it.
fn mixed(guest: &Guest) -> String {
    format!("known mixed 1500 {}", guest.calls_per_phase)
}

pub(super) fn plan(guest: &Guest) -> Vec<Question> {
    let stat =
        |options: &str, command: &str| format!("linerate-probe stat --json {options} -- {command}");
    let known = |turns: u64| stat(&format!("-e {KNOWN}"), &format!("known loop {turns}"));
    let twelve = format!("--slice 1ms -e {}:u", TWELVE.join(":u,"));
    vec![
        question("doctor", "linerate-probe doctor --json"),
        question("short", &known(SHORT)),
        question("short again", &known(SHORT)),
        question("long", &known(LONG)),
        question("alone", &stat(&format!("-e {INSTRUCTIONS}:u"), &mixed(guest))),
        question("rotated", &stat(&twelve, &mixed(guest))),
    ]
}

pub(super) fn judge(answer: impl Fn(&str) -> Answer) -> Vec<Finding> {
    let stat = |name: &str| stat_of(&answer(name));
    let mut findings = vec![finding(doctor(&answer("doctor")))];
    findings.push(finding(known_loop(&stat("short"), &stat("short again"), &stat("long"))));
    findings.push(finding(what_is_not_counted(&stat("short"))));
    findings.push(finding(rotated(&stat("alone"), &stat("rotated"))));
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
        _ => Err(format!("{}: not a record of stat", answer.name)),
    }
}

/// Counting works with hardware events, and the record says that times mean nothing.
fn doctor(answer: &Answer) -> Result<String, String> {
    let Record { provenance, body, .. } = record_of(answer)?;
    let Body::Doctor(report) = body else {
        return Err("doctor: not a record of doctor".to_owned());
    };
    let Provenance { emulated, hypervisor, cpu, .. } = provenance;
    let DoctorReport { best_tier, .. } = *report;
    let sentence = format!(
        "doctor: {} on {}, emulated: {}, best tier: {best_tier:?}",
        cpu.as_deref().unwrap_or("a processor without a name"),
        hypervisor.as_deref().unwrap_or("no hypervisor"),
        emulated.map_or("cannot tell".to_owned(), |emulated| emulated.to_string()),
    );
    if emulated == Some(true) && best_tier == Tier::Hw { Ok(sentence) } else { Err(sentence) }
}

fn event<'a>(report: &'a StatReport, name: &str) -> Result<&'a EventCount, String> {
    let found = report.events.iter().find(|event| event.name == name);
    found.ok_or_else(|| format!("the record has no event {name}"))
}

/// A count that nothing had to be estimated for.
fn counted(report: &Result<StatReport, String>, name: &str) -> Result<u64, String> {
    let event = event(report.as_ref()?, name)?;
    let reason = || event.count.reason.clone().unwrap_or_else(|| "no count".to_owned());
    match (event.raw, event.duty) {
        (Some(raw), Some(1.0)) => Ok(raw),
        (Some(_), duty) => Err(format!("{name}: on a counter for {duty:?} of the time")),
        (None, _) => Err(format!("{name}: {}", reason())),
    }
}

/// What the loop adds to a program is exact; the rest of the program, from its first instruction to
/// its last, is the same each time.
fn known_loop(
    short: &Result<StatReport, String>,
    again: &Result<StatReport, String>,
    long: &Result<StatReport, String>,
) -> Result<String, String> {
    let name = INSTRUCTIONS;
    let [short, again, long] = [counted(short, name)?, counted(again, name)?, counted(long, name)?];
    let (added, expected) = (long.wrapping_sub(short), PER_TURN * (LONG - SHORT));
    let sentence = format!(
        "stat: {name} of a program in user mode {short}, once more {again}; {} turns more add \
         {added}",
        LONG - SHORT
    );
    if short == again && added == expected { Ok(sentence) } else { Err(sentence) }
}

/// An event that the emulator does not count is absent with a reason, and others are not.
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

/// The intervals of estimates hold what an event counts that is alone, exactly and each time.
///
/// The events of a set share their slices, so their estimates are right or wrong together. An
/// interval of 95 % misses in one of twenty runs, so one set in three may miss; that two do has a
/// probability below 1 %.
fn rotated(
    alone: &Result<StatReport, String>,
    rotated: &Result<StatReport, String>,
) -> Result<String, String> {
    let truth = counted(alone, INSTRUCTIONS)? as f64;
    let report = rotated.as_ref()?;
    let rotation = report.rotation.as_ref().ok_or("stat: nothing took turns")?;
    let (mut missed, mut widest, mut worst) = (Vec::new(), 0.0f64, 0.0f64);
    for set in &rotation.sets {
        let (share, error) = estimates(report, set, truth)?;
        (widest, worst) = (widest.max(share), worst.max(error));
        if error > share {
            missed.push(set.join(" "));
        }
    }
    let always: Vec<&str> = TWELVE
        .into_iter()
        .filter(|name| !rotation.sets.concat().iter().any(|n| n == name))
        .collect();
    for name in &always {
        if counted(rotated, name)? as f64 != truth {
            return Err(format!("stat: {name} was always on a counter, and is not {truth}"));
        }
    }
    let sentence = format!(
        "stat: {} events, {} of them always on a counter and exact, {} in {} sets: estimates at \
         most {:.2} % off {truth}, intervals at most +- {:.2} %, missed by sets: {}",
        TWELVE.len(),
        always.len(),
        TWELVE.len() - always.len(),
        rotation.sets.len(),
        worst * 100.0,
        widest * 100.0,
        missed.len(),
    );
    if missed.len() <= 1 { Ok(sentence) } else { Err(format!("{sentence}: {}", missed.join(", "))) }
}

/// Of the estimates of a set: half the width of the widest interval, and the largest error, as
/// shares of the truth; where an interval is not symmetric, on the side of the truth.
fn estimates(report: &StatReport, set: &[String], truth: f64) -> Result<(f64, f64), String> {
    let (mut widest, mut worst) = (0.0f64, 0.0f64);
    for name in set {
        let EventCount { count, duty, .. } = event(report, name)?;
        let (Some(value), Some(low), Some(high)) = (count.as_number(), count.low, count.high)
        else {
            return Err(format!("{name}: no estimate with an interval: {:?}", count.reason));
        };
        if duty.is_none_or(|duty| duty >= 1.0) {
            return Err(format!("{name}: nobody else had its counter: duty {duty:?}"));
        }
        let reach = if truth > value { high - value } else { value - low };
        widest = widest.max(reach / truth);
        worst = worst.max((value - truth).abs() / truth);
    }
    Ok((widest, worst))
}
