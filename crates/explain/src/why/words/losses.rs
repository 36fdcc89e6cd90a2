// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills in placeholders about packets lost between the interface and the program.

use super::super::facts::Facts;
use super::super::losses::{
    Fragmented, bad_checksums, discarded, fragmented, table_full, vanished,
};
use linerate_record::units::grouped;

/// Placeholders that this module fills in.
pub(super) const NAMES: &[&str] = &[
    "firewall_lost",
    "discarded_lost",
    "conntrack_lost",
    "reverse_path_lost",
    "bad_checksums",
    "reassembly_fails",
    "reassembled",
    "reassembly_reason",
    "reassembly_fix",
];

pub(super) fn value(name: &str, facts: &Facts<'_>) -> Option<String> {
    Some(match name {
        "firewall_lost" => grouped(vanished(facts)?.by_firewall?),
        "discarded_lost" => grouped(discarded(facts)?.by_firewall?),
        "conntrack_lost" => grouped(table_full(facts)?[0]),
        "reverse_path_lost" => grouped(facts.protocol("TcpExt.IPReversePathFilter")?),
        "bad_checksums" => grouped(bad_checksums(facts)?.0),
        "reassembly_fails" => grouped(fragmented(facts)?.failures),
        "reassembled" => grouped(fragmented(facts)?.complete),
        "reassembly_reason" => reason(&fragmented(facts)?).to_owned(),
        "reassembly_fix" => fix(&fragmented(facts)?).to_owned(),
        _ => return None,
    })
}

/// Returns whether most reassembly failures are due to fragments that did not arrive in time.
fn are_lost(of: &Fragmented) -> bool {
    2 * of.late >= of.failures
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
