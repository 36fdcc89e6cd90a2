// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills in placeholders about packets lost between the interface and the program, and about how
//! packets are counted.

use super::super::facts::{Facts, Subject};
use super::super::losses::{
    Fragmented, bad_checksums, discarded, fragmented, long_chains, table_full, vanished,
};
use super::super::measure::Measure;
use linerate_record::units::{grouped, three_digits};

/// Placeholders that this module fills in.
#[cfg(test)]
pub(super) const NAMES: &[&str] = &[
    "firewall_lost",
    "discarded_lost",
    "conntrack_lost",
    "conntrack_state",
    "conntrack_fix",
    "reverse_path_lost",
    "bad_checksums",
    "reassembly_fails",
    "reassembled",
    "reassembly_reason",
    "reassembly_fix",
    "drain_faster",
    "per_packet",
];

pub(super) fn value(name: &str, facts: &Facts<'_>) -> Option<String> {
    Some(match name {
        "firewall_lost" => grouped(vanished(facts)?.by_firewall?),
        "discarded_lost" => grouped(discarded(facts)?.by_firewall?),
        "conntrack_lost" => grouped(table_full(facts)?[0]),
        "conntrack_state" => match has_long_chains(facts) {
            true => "has too few buckets for its entries".to_owned(),
            false => "is full".to_owned(),
        },
        "conntrack_fix" => conntrack_fix(facts).to_owned(),
        "reverse_path_lost" => grouped(facts.protocol("TcpExt.IPReversePathFilter")?),
        "bad_checksums" => grouped(bad_checksums(facts)?.0),
        "reassembly_fails" => grouped(fragmented(facts)?.failures),
        "reassembled" => grouped(fragmented(facts)?.complete),
        "reassembly_reason" => reason(&fragmented(facts)?).to_owned(),
        "reassembly_fix" => fix(&fragmented(facts)?).to_owned(),
        "drain_faster" => drain_faster(facts).to_owned(),
        "per_packet" => per_packet(facts),
        _ => return None,
    })
}

/// Returns advice on emptying a receive buffer faster.
fn drain_faster(facts: &Facts<'_>) -> &'static str {
    /// Minimum CPU time of child processes that ended, relative to that of the program.
    const MUCH: f64 = 0.3;
    let children = Measure::ChildrenShare.of(facts, Subject::Program);
    match children.is_some_and(|share| share.value >= MUCH) {
        true => "receive in one process that keeps running, and pass the packets to others",
        false => "receive in batches (recvmmsg), which empties the buffer faster",
    }
}

/// Returns the unit of a number of system calls per packet, which is relative to the packets of the
/// busier direction. If both directions were counted together, adds the number of calls per packet
/// received or sent.
fn per_packet(facts: &Facts<'_>) -> String {
    /// Minimum difference between both numbers of packets.
    const DIFFERENT: f64 = 1.02;
    let both = facts.observation.packets.as_ref().map_or(0, |count| count.packets) as f64;
    let busier = facts.packets_one_way().unwrap_or(0) as f64;
    let calls = Measure::CallsPerPacket.of(facts, Subject::Program);
    match calls {
        Some(calls) if busier > 0.0 && both >= DIFFERENT * busier => format!(
            "per packet of the busier direction ({} per packet received or sent)",
            three_digits(calls.value * busier / both)
        ),
        _ => "per packet".to_owned(),
    }
}

/// Returns whether most reassembly failures are due to fragments that did not arrive in time.
fn are_lost(of: &Fragmented) -> bool {
    2 * of.late >= of.failures
}

/// Returns whether most of the drops by the connection tracking table are due to long hash chains,
/// not to the limit on its entries.
fn has_long_chains(facts: &Facts<'_>) -> bool {
    let chains = long_chains(facts).unwrap_or(0);
    chains > 0 && table_full(facts).is_some_and(|[least, _]| 2 * chains >= least)
}

/// Returns how to keep the connection tracking table from dropping packets.
pub(in super::super) fn conntrack_fix(facts: &Facts<'_>) -> &'static str {
    match has_long_chains(facts) {
        true => {
            "Raise net.netfilter.nf_conntrack_buckets (a power of two, about the number of entries \
             in net.netfilter.nf_conntrack_count), or exempt the traffic from tracking (an nft \
             rule with notrack in a raw prerouting chain)"
        }
        false => {
            "Raise net.netfilter.nf_conntrack_max, or exempt the traffic from tracking (an nft \
             rule with notrack in a raw prerouting chain)"
        }
    }
}

fn reason(of: &Fragmented) -> &'static str {
    match are_lost(of) {
        true => "Some of their fragments did not arrive in time (net.ipv4.ipfrag_time)",
        false => {
            "Their fragments were rejected: the memory for fragments is full \
             (net.ipv4.ipfrag_high_thresh), or the fragments are invalid"
        }
    }
}

fn fix(of: &Fragmented) -> &'static str {
    match are_lost(of) {
        true => "find out where fragments are lost on the path",
        false => "raise net.ipv4.ipfrag_high_thresh",
    }
}
