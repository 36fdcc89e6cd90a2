// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values for the placeholders in texts of remarks.

use super::super::facts::{Facts, Subject};
use super::super::functions::{file_name, is_nameless};
use super::super::measure::Measure;
use super::super::words::{label, percent};
use super::sign::{Sign, libc_function, most_written, own_function};
use linerate_record::stats::Estimate;
use linerate_record::units::{grouped, memory_size, three_digits};
use linerate_record::why::{FunctionTime, ThreadActivity};

/// Placeholders that a text may contain.
#[cfg(test)]
pub(super) const NAMES: &[&str] = &[
    "busiest",
    "pid",
    "asleep",
    "socket",
    "port",
    "queue",
    "queue_waits",
    "timers",
    "cpu",
    "interrupts",
    "interrupt_us",
    "file",
    "file_bytes",
    "per_packet",
    "write_calls",
    "own_function",
    "own_file",
    "own_share",
    "function",
    "function_share",
    "samples",
];

/// Returns the value of a placeholder; `None` if there is none.
pub(super) fn value<'a>(name: &str, facts: &Facts<'a>, subject: Subject<'a>) -> Option<String> {
    let of = |sign: Sign| sign.of(facts, subject).map(|one| one.value);
    let busiest = facts.busiest();
    let hottest = || libc_function(facts, busiest?);
    match (name, subject) {
        ("busiest", _) => busiest.map(label),
        ("pid", _) => Some(busiest.map_or_else(|| "PID".to_owned(), pid)),
        ("asleep", _) => of(Sign::BusiestAsleep).map(percent),
        ("socket", Subject::Socket(socket)) => Some(socket.local.clone()),
        ("port", Subject::Socket(socket)) => Some(socket.local.rsplit(':').next()?.to_owned()),
        ("queue", _) => of(Sign::AcceptQueue).map(three_digits),
        ("queue_waits", _) => of(Sign::Of(Measure::QueueWaits)).map(percent),
        ("timers", _) => of(Sign::TimerInterrupts).map(|rate| grouped(rate as u64)),
        ("cpu", Subject::Cpu(cpu)) => Some(cpu.cpu.to_string()),
        ("interrupts", _) => of(Sign::Of(Measure::CpuInterrupts)).map(percent),
        ("interrupt_us", _) => of(Sign::InterruptUs).map(three_digits),
        ("file", _) => Some(most_written(facts)?.path.clone()),
        ("file_bytes", _) => of(Sign::LogBytes).map(memory_size),
        ("per_packet", _) => Some(of(Sign::LogBytesPerPacket).map_or_else(String::new, |bytes| {
            format!(" ({} bytes per packet)", three_digits(bytes))
        })),
        ("write_calls", _) => of(Sign::WriteCalls).map(|rate| grouped(rate as u64)),
        ("own_function", _) => Some(own_function(facts, busiest?)?.name.clone()),
        ("own_file", _) => Some(file_name(own_function(facts, busiest?)?).to_owned()),
        ("own_share", _) => Some(within(Sign::OwnFunction.of(facts, subject)?)),
        ("function", _) => hottest().map(place),
        ("function_share", _) => Some(within(Sign::LibcFunction.of(facts, subject)?)),
        ("samples", _) => Some(grouped(busiest?.samples)),
        _ => None,
    }
}

/// Names a function and its library. The name of a function without a symbol has the library's.
fn place(function: &FunctionTime) -> String {
    let name = &function.name;
    match is_nameless(function) {
        true => format!("{name}, which has no symbol"),
        false => format!("{name} of {}", file_name(function)),
    }
}

fn pid(thread: &ThreadActivity) -> String {
    thread.pid.to_string()
}

/// Formats a share with its interval: `26 % (22 to 30 %)`.
fn within(share: Estimate) -> String {
    let Estimate { value, low, high, .. } = share;
    format!("{} % ({} to {} %)", percent(value), percent(low.max(0.0)), percent(high.min(1.0)))
}
