// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests clear leads, ties, and leads whose interval leaves them undecided.

use super::*;
use linerate_record::kernels::{Kernel, State, Timing};

/// Returns the row of a routine whose calls take `cycles`, with an interval of plus or minus
/// `reach` times that.
fn row(role: Role, name: &str, size: u64, cycles: f64, reach: f64) -> Row {
    Row {
        kernel: Kernel::Checksum,
        variant: name.to_owned(),
        role,
        size: Some(size),
        mix: None,
        mean_bytes: size as f64,
        src_offset: Some(0),
        dst_offset: None,
        page_distance: None,
        offsets: None,
        state: State::Warm,
        timing: Timing::Throughput,
        cycles: Some(cycles),
        cycles_low: Some(cycles * (1.0 - reach)),
        cycles_high: Some(cycles * (1.0 + reach)),
        ticks: None,
        ticks_low: None,
        ticks_high: None,
        n: 41,
        bytes_per_cycle: None,
        bound: None,
        of_bound: None,
        of_bound_low: None,
        of_bound_high: None,
        reason: None,
    }
}

/// Names of the routines ahead of the selected one, which takes 100 cycles at every size, with the
/// sizes at which they lead.
type Leads = Vec<(String, Vec<u64>)>;

fn ahead(others: &[Row], of: fn(&Block<'_>) -> Leads) -> Leads {
    let sizes = [20, 64];
    let selected = sizes.map(|size| row(Role::Selected, "selected", size, 100.0, 0.01));
    let rows: Vec<Row> = selected.into_iter().chain(others.iter().cloned()).collect();
    of(&blocks(&rows)[0])
}

fn named(leads: Vec<Lead<'_>>) -> Vec<(String, Vec<u64>)> {
    let sizes = |lead: &Lead<'_>| lead.loads.iter().filter_map(|load| load.size()).collect();
    leads.iter().map(|lead| (lead.name.to_owned(), sizes(lead))).collect()
}

fn variants(block: &Block<'_>) -> Vec<(String, Vec<u64>)> {
    named(variants_ahead(block, "avx2", Unit::Cycles).unwrap_or_default())
}

fn peers(block: &Block<'_>) -> Vec<(String, Vec<u64>)> {
    named(peers_ahead(block, Unit::Cycles))
}

#[test]
fn a_variant_is_worth_a_name_from_a_gain_of_five_percent_with_its_whole_interval() {
    let variant = |size, cycles, reach| row(Role::Variant, "adc", size, cycles, reach);
    let clear = [variant(20, 90.0, 0.01), variant(64, 97.0, 0.01)];
    assert_eq!(ahead(&clear, variants), [("adc".to_owned(), vec![20])]);
    assert_eq!(ahead(&[variant(20, 90.0, 0.08)], variants), [], "the interval reaches below");
    let itself = row(Role::Variant, "avx2", 20, 50.0, 0.01);
    assert_eq!(ahead(&[itself], variants), [], "it is the selected variant");
}

#[test]
fn a_peer_leads_if_it_is_faster_at_all_but_by_more_than_a_tie() {
    let peer = |size, cycles| row(Role::Peer, "libc", size, cycles, 0.0);
    assert_eq!(ahead(&[peer(20, 96.0), peer(64, 99.5)], peers), [("libc".to_owned(), vec![20])]);
}

#[test]
fn the_fastest_of_those_ahead_leads() {
    let fast = row(Role::Variant, "fast", 20, 80.0, 0.01);
    let faster = row(Role::Variant, "faster", 20, 70.0, 0.01);
    assert_eq!(ahead(&[fast, faster], variants), [("faster".to_owned(), vec![20])]);
}
