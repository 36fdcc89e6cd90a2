// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts about work that packets do not need.

use super::super::called::{Called, most_others, others, share_of_packets};
use super::super::facts::{Facts, Subject};
use super::super::kernel_parts;
use super::super::measure::Measure as M;
use super::super::measure::avoidable::{clamped, has_public_key, own_function, small_segments};
use super::{milliseconds, percent};
use linerate_record::units::{grouped, three_digits};
use linerate_record::why::ThreadActivity;

/// Placeholders that this module fills in.
#[cfg(test)]
pub(super) const NAMES: &[&str] = &[
    "other_calls",
    "other_calls_fix",
    "other_calls_too",
    "kernel_part_does",
    "kernel_part_fix",
    "kernel_part_functions",
    "own_function",
    "handshake",
    "as_handshakes",
    "mss",
    "full_mss",
    "mss_factor",
    "cwnd",
    "rtt",
    "round_trips",
];

pub(super) fn value<'a>(name: &str, facts: &Facts<'a>, subject: Subject<'a>) -> Option<String> {
    match name {
        "other_calls" => Some(other_calls(facts, most_others(facts)?)),
        "other_calls_fix" => Some(most_others(facts)?.purpose.fix.to_owned()),
        "other_calls_too" => {
            Some(other_calls_too(facts, facts.thread(subject)?).unwrap_or_default())
        }
        "kernel_part_does" | "kernel_part_fix" | "kernel_part_functions" => {
            kernel_part(name, facts, subject)
        }
        "own_function" => Some(own_function(facts, facts.thread(subject)?)?.name.clone()),
        "handshake" => Some(milliseconds(M::HandshakeMs.of(facts, subject)?.value)),
        "as_handshakes" => Some(as_handshakes(facts.thread(subject)?)),
        "mss" => Some(grouped(u64::from(small_segments(facts)?.0.mss))),
        "full_mss" => Some(grouped(small_segments(facts)?.1 as u64)),
        "mss_factor" => {
            let (tcp, full) = small_segments(facts)?;
            Some(three_digits(full / f64::from(tcp.mss)))
        }
        "cwnd" => Some(clamped(facts)?.cwnd.to_string()),
        "rtt" => Some(milliseconds(1e3 * clamped(facts)?.rtt_s)),
        "round_trips" => {
            let tcp = clamped(facts).filter(|tcp| tcp.rtt_s > 0.0)?;
            Some(grouped((tcp.busy_s / tcp.rtt_s) as u64))
        }
        _ => None,
    }
}

/// Returns what a thread in a crypto library may be doing: without names of functions, handshakes
/// look like hashes of passwords.
fn as_handshakes(thread: &ThreadActivity) -> String {
    match has_public_key(thread) {
        true => "as with full TLS handshakes, or with signatures".to_owned(),
        false => format!(
            "as with full TLS handshakes, or with password hashes (sudo linerate profile {} may \
             show which)",
            thread.pid
        ),
    }
}

fn other_calls(facts: &Facts<'_>, called: Called) -> String {
    format!(
        "{} {} times per second{}: {} % of its system calls are for that",
        called.purpose.does,
        grouped((called.times as f64 / facts.elapsed()) as u64),
        per_packet(facts, called),
        percent(called.share)
    )
}

/// Returns in brackets how often a program makes calls per packet; empty if packets are unknown.
fn per_packet(facts: &Facts<'_>, called: Called) -> String {
    match facts.packets_one_way().filter(|packets| *packets > 0) {
        Some(packets) => {
            format!(" ({} per packet)", three_digits(called.times as f64 / packets as f64))
        }
        None => String::new(),
    }
}

/// Returns a sentence about the system calls that batching does not save; `None` if there are few,
/// or if calls were not counted.
fn other_calls_too(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    /// Minimum fraction of the calls.
    const MATTERS: f64 = 0.1;
    let of_packets = share_of_packets(facts, thread).filter(|share| *share < 1.0 - MATTERS)?;
    let others = others(facts).into_iter().filter(|called| called.share >= MATTERS);
    let others =
        others.map(|called| format!("{}{}", called.purpose.does, per_packet(facts, called)));
    let others: Vec<String> = others.collect();
    let named = match others.is_empty() {
        true => String::new(),
        false => format!("; the program also {}", others.join(", and ")),
    };
    Some(format!(
        " Batches can save only {} % of these calls: the others do not pass packets{named}.",
        percent(of_packets)
    ))
}

fn kernel_part<'a>(name: &str, facts: &Facts<'a>, subject: Subject<'a>) -> Option<String> {
    let thread = facts.thread(subject)?;
    let (part, _) = kernel_parts::largest(facts, thread)?;
    Some(match name {
        "kernel_part_does" => part.does.to_owned(),
        "kernel_part_fix" => part.fix.to_owned(),
        _ => {
            let functions = kernel_parts::functions(thread, part);
            let each =
                functions.iter().map(|(name, share)| format!("{name} {} %", percent(*share)));
            each.collect::<Vec<_>>().join(", ")
        }
    })
}
