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

/// Twelve events, which no processor here counts at once. In user mode, all of them count what the
/// loop carries out: instructions, and cycles, which are instructions here.
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

/// 0.4 s of the guest's time.
const ROTATED: u64 = 200_000_000;

pub(super) fn plan() -> Vec<Question> {
    let stat = |options: &str, turns: u64| {
        format!("linerate-probe stat --json {options} -- known loop {turns}")
    };
    vec![
        question("doctor", "linerate-probe doctor --json"),
        question("short", &stat(&format!("-e {KNOWN}"), SHORT)),
        question("short again", &stat(&format!("-e {KNOWN}"), SHORT)),
        question("long", &stat(&format!("-e {KNOWN}"), LONG)),
        question("rotated", &stat(&format!("--slice 1ms -e {}:u", TWELVE.join(":u,")), ROTATED)),
    ]
}

pub(super) fn judge(guest: &Guest, answer: impl Fn(&str) -> Answer) -> Vec<Finding> {
    let stat = |name: &str| stat_of(&answer(name));
    let mut findings = vec![finding(doctor(&answer("doctor")))];
    findings.push(finding(known_loop(&stat("short"), &stat("short again"), &stat("long"))));
    findings.push(finding(what_is_not_counted(guest, &stat("short"))));
    findings.push(finding(rotated(&stat("short"), &stat("rotated"))));
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
        "stat: {name} of a program in user mode {short}, once more {again}; {} turns more add {added}",
        LONG - SHORT
    );
    if short == again && added == expected { Ok(sentence) } else { Err(sentence) }
}

/// An event that the emulator does not count is absent with a reason; the Cortex-A7's driver cannot
/// know, and opens it.
fn what_is_not_counted(
    guest: &Guest,
    short: &Result<StatReport, String>,
) -> Result<String, String> {
    let name = "l1d_misses";
    let report = short.as_ref()?;
    let software = event(report, "task_clock_ns")?;
    if software.count.as_number().is_none_or(|ns| ns <= 0.0) {
        return Err("task_clock_ns was not counted".to_owned());
    }
    let EventCount { count, .. } = event(report, name)?;
    match (count.as_number(), &count.reason, guest.counts_in_vain) {
        (None, Some(reason), false) => Ok(format!("stat: {name}: {reason}")),
        (Some(0.0), _, true) => Ok(format!("stat: {name} is opened, and QEMU leaves it at 0")),
        (value, reason, _) => Err(format!("stat: {name}: {value:?}, {reason:?}")),
    }
}

/// Every estimate's interval holds the count that is known, while no event was counted all the time.
fn rotated(
    short: &Result<StatReport, String>,
    rotated: &Result<StatReport, String>,
) -> Result<String, String> {
    let outside_the_loop = counted(short, INSTRUCTIONS)? - PER_TURN * SHORT;
    let truth = (outside_the_loop + PER_TURN * ROTATED) as f64;
    let report = rotated.as_ref()?;
    let (mut missed, mut widest, mut worst) = (Vec::new(), 0.0f64, 0.0f64);
    for name in TWELVE {
        let EventCount { count, duty, .. } = event(report, name)?;
        let (Some(value), Some(low), Some(high)) = (count.as_number(), count.low, count.high)
        else {
            return Err(format!("{name}: no estimate with an interval: {:?}", count.reason));
        };
        if duty.is_none_or(|duty| duty >= 1.0) {
            return Err(format!("{name}: nobody else had its counter: duty {duty:?}"));
        }
        if !(low..=high).contains(&truth) {
            missed.push(format!("{name} {low:.0} to {high:.0}"));
        }
        widest = widest.max((high - low) / 2.0 / truth);
        worst = worst.max((value / truth - 1.0).abs());
    }
    let sets = report.rotation.as_ref().map_or(0, |rotation| rotation.sets.len());
    let sentence = format!(
        "stat: {} events in {sets} sets, {truth:.0} each: estimates at most {:.4} % off, within \
         intervals of at most +- {:.4} %",
        TWELVE.len(),
        worst * 100.0,
        widest * 100.0,
    );
    if missed.is_empty() {
        Ok(sentence)
    } else {
        Err(format!("{sentence}; not {}", missed.join(", ")))
    }
}
