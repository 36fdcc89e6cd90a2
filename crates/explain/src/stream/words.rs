// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills in the placeholders in rule texts, and states whether checksums were computed.

use super::measure::{Facts, Measure};
use crate::rule::filled;
use linerate_record::stream::{StreamPathKind, StreamReport, StreamSide};
use linerate_record::units::{BitsPerSecond, memory_size, three_digits};

/// Placeholders that a text may contain.
#[cfg(test)]
pub(super) const NAMES: &[&str] = &[
    "gbps",
    "sender_cpu",
    "receiver_cpu",
    "busier",
    "sender_cpus",
    "receiver_cpus",
    "busier_cpus",
    "waiting",
    "receiver_waiting",
    "switches",
    "sleeps",
    "cpu",
    "window_limited",
    "send_buffer_limited",
    "send_buffer",
    "receive_buffer",
    "window",
    "rtt",
    "bdp",
    "held_back",
    "round_trip",
    "sender_paused",
    "receiver_paused",
    "retransmitted",
    "pacing",
    "qdisc",
    "drops",
    "lost",
    "sent",
    "interface",
    "where",
    "call_share",
    "call_cost",
    "byte_share",
    "bytes_per_call",
    "message",
    "larger",
    "per_kb",
];

/// Returns `text` with every `{name}` replaced by its value, or by `-` if it has none.
pub(super) fn fill(text: &str, facts: &Facts<'_>) -> String {
    filled(text, |name| value(name, facts))
}

/// Describes the limit with this keyword.
pub(super) fn limit(keyword: &str) -> &str {
    match keyword {
        "sender_cpu" => "the sender's CPU",
        "receiver_cpu" => "the receiver's CPU",
        "cpu" => "the busier side's CPU",
        "receive_window" => "the receiver's window",
        "send_buffer" => "the send buffer",
        "receive_buffer" => "the receive buffer",
        "congestion_window" => "the congestion window",
        "rate_limit" => "the rate limit",
        "sender_pause" => "the sender's pauses",
        "receiver_pause" => "the receiver's pauses",
        "round_trip" => "the round trip",
        "wake_ups" => "the two ends' waits for each other",
        other => other,
    }
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

fn value(name: &str, facts: &Facts<'_>) -> Option<String> {
    of_sides(name, facts).or_else(|| of_path(name, facts))
}

fn of_sides(name: &str, facts: &Facts<'_>) -> Option<String> {
    let point = facts.point;
    let share = |measure: Measure| measure.of(facts).map(|value| percent(value.value));
    let cpu = |side| facts.cpu_share(side).map(percent);
    let is_sender = facts.is_sender_busier();
    match name {
        "gbps" => point.gbps.as_number().map(|gbps| BitsPerSecond(gbps * 1e9).to_string()),
        "sender_cpu" => cpu(&point.sender),
        "receiver_cpu" => cpu(&point.receiver),
        "sender_cpus" => cpus(facts, &point.sender),
        "receiver_cpus" => cpus(facts, &point.receiver),
        "busier" => Some(if is_sender { "sender" } else { "receiver" }.to_owned()),
        "busier_cpus" => busier_cpus(facts),
        "waiting" => share(Measure::Waiting),
        "receiver_waiting" => Some(percent(point.receiver.waiting? / facts.threads())),
        "switches" => Some(three_digits(facts.switches())),
        "sleeps" => {
            Measure::SenderSwitchesPerCall.of(facts).map(|switches| three_digits(switches.value))
        }
        "cpu" => point.sender.cpus.first().map(ToString::to_string),
        "sender_paused" => share(Measure::SenderPaused),
        "receiver_paused" => share(Measure::ReceiverPaused),
        "send_buffer" => point.sender.buffer_bytes.map(|bytes| memory_size(bytes as f64)),
        "receive_buffer" => point.receiver.buffer_bytes.map(|bytes| memory_size(bytes as f64)),
        "call_share" => share(Measure::CallShare),
        "byte_share" => Measure::CallShare.of(facts).map(|share| percent(1.0 - share.value)),
        "call_cost" => facts.costs().map(|costs| format!("{} us", three_digits(costs.call_us))),
        "bytes_per_call" => {
            let bytes = Measure::BytesPerCall.of(facts)?.value;
            Some(format!("{} bytes", three_digits(bytes)))
        }
        "message" => Some(format!("{} bytes", point.message_bytes)),
        "larger" => Some(memory_size((16_384.0_f64).max(point.message_bytes as f64 * 4.0))),
        "per_kb" => {
            let demand = point.cpu_us_per_kb.as_number()?;
            Some(format!("{} us/KB", three_digits(demand)))
        }
        "round_trip" => {
            let us = point.round_trip_us.as_number()?;
            Some(format!("{} ms", three_digits(us / 1e3)))
        }
        _ => None,
    }
}

/// Describes the CPU time of a side: `98 % of a CPU`, or `98 % of 4 CPUs` if it can use several.
fn cpus(facts: &Facts<'_>, side: &StreamSide) -> Option<String> {
    let of = match facts.usable(side) {
        1 => "of a CPU".to_owned(),
        cpus => format!("of {cpus} CPUs"),
    };
    Some(format!("{} {of}", percent(facts.cpu_share(side)?)))
}

/// Describes the CPU time of the busier side. Mentions the other side if only both together use
/// their CPUs fully.
fn busier_cpus(facts: &Facts<'_>) -> Option<String> {
    let busier = facts.busier();
    let own = cpus(facts, busier)?;
    match (facts.pooled_share(), facts.demand_of(busier)?) {
        (Some(both), own_demand) if both > own_demand => {
            Some(format!("{own} ({} with the other side, on the same CPUs)", percent(both)))
        }
        _ => Some(own),
    }
}

fn of_path(name: &str, facts: &Facts<'_>) -> Option<String> {
    let (point, report) = (facts.point, facts.report);
    let tcp = point.tcp.as_ref();
    let share = |measure: Measure| measure.of(facts).map(|value| percent(value.value));
    match name {
        "window_limited" => share(Measure::WindowLimited),
        "send_buffer_limited" => share(Measure::SendBufferLimited),
        "held_back" => share(Measure::HeldBack),
        "retransmitted" => share(Measure::Retransmitted),
        "window" => Some(memory_size(tcp?.peer_window_bytes? as f64)),
        "rtt" => Some(format!("{} us", three_digits(tcp?.min_rtt_us))),
        // Of one connection, since each has its own buffers.
        "bdp" => {
            let fastest = Facts { point: facts.fastest_alike()?, ..*facts };
            Some(memory_size(fastest.bdp_bytes(tcp?.rtt_us)?))
        }
        "pacing" => Some(BitsPerSecond(facts.pacing()?).to_string()),
        "qdisc" => Some(BitsPerSecond(report.path.qdisc_bits_per_s?).to_string()),
        "drops" => share(Measure::BufferDrops),
        "lost" => share(Measure::LostInTransit),
        "sent" => Some(point.udp.as_ref()?.sent.to_string()),
        "interface" => report.path.interface.clone(),
        "where" => Some(place(report).to_owned()),
        _ => None,
    }
}

/// Describes where the sender's interface is: ` at the server`, or empty if it is on this machine.
fn place(report: &StreamReport) -> &'static str {
    let is_there = report.reverse && report.path.kind == StreamPathKind::Network;
    if is_there { " at the server" } else { "" }
}

/// States whether payload checksums were computed, and why.
pub(super) fn checksum(report: &StreamReport) -> String {
    let path = &report.path;
    let interface = path.interface.as_deref().unwrap_or("the interface");
    let name = format!("{interface}{}", place(report));
    match (path.kind, path.software_checksum) {
        (StreamPathKind::Loopback, _) => {
            "No payload checksum was computed: loopback skips it.".to_owned()
        }
        (_, Some(true)) => format!(
            "Payload checksums were computed in software: tx-checksumming is off on {name}."
        ),
        (StreamPathKind::Namespaces, Some(false)) => format!(
            "No payload checksum was computed: checksum offload is on for {name}, which is virtual \
             and never needs the checksum."
        ),
        (_, Some(false)) => {
            format!("Payload checksums were left to the hardware of {name} (tx-checksumming on).")
        }
        (_, None) => format!(
            "Unknown whether payload checksums were computed: the offloads of {name} could not be \
             read."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::explain;
    use super::*;
    use linerate_record::fixtures;

    /// Returns the sentence of a stream through eth7.
    fn sentence(kind: StreamPathKind, software_checksum: Option<bool>, reverse: bool) -> String {
        let mut report = StreamReport { reverse, ..fixtures::stream() };
        report.path.kind = kind;
        report.path.interface = Some("eth7".to_owned());
        report.path.software_checksum = software_checksum;
        explain(&mut report);
        report.path.checksum
    }

    #[test]
    fn a_sentence_names_what_computed_the_checksums() {
        use StreamPathKind::{Loopback, Namespaces, Network};
        for (kind, is_software, reverse, end) in [
            (Loopback, Some(false), true, "loopback skips it."),
            (Namespaces, Some(true), true, "in software: tx-checksumming is off on eth7."),
            (Namespaces, Some(false), false, "which is virtual and never needs the checksum."),
            (Network, Some(true), false, "tx-checksumming is off on eth7."),
            (Network, Some(true), true, "tx-checksumming is off on eth7 at the server."),
            (Network, Some(false), true, "of eth7 at the server (tx-checksumming on)."),
            (Network, None, false, "the offloads of eth7 could not be read."),
        ] {
            let sentence = sentence(kind, is_software, reverse);
            assert!(sentence.ends_with(end), "{sentence}");
        }
    }

    #[test]
    fn stored_records_have_the_same_sentence() {
        let mut report = fixtures::stream();
        let stored = std::mem::take(&mut report.path.checksum);
        explain(&mut report);
        assert_eq!(report.path.checksum, stored);
    }
}
