// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that no input makes a stage panic or corrupts its accounting. The rig checks the
//! accounting after each stage.

use crate::frames::*;
use crate::rig::{Rig, text, texts};
use linerate_stage_api::params::Value;
use linerate_stage_api::testing::Pool;
use proptest::prelude::*;

/// Returns every kind except `parse` and `fault`, with parameters under which the frames below
/// exercise all of its branches.
fn every_stage() -> Vec<(&'static str, Vec<(&'static str, Value)>)> {
    let tunnel = |local, remote| vec![("local", text(local)), ("remote", text(remote))];
    let rules = [
        "permit tcp from any to any port 2-3",
        "deny any from 10.200.0.0/16 to any",
        "permit any from ::/1 to any",
    ];
    vec![
        ("count", vec![]),
        ("verify", vec![]),
        ("filter", vec![("rules", texts(&rules))]),
        (
            "nat44",
            vec![
                ("inside", text("10.0.0.0/8")),
                ("outside", text("198.51.100.8/31")),
                ("flows", Value::Integer(256)),
            ],
        ),
        (
            "forward",
            vec![
                ("source_mac", text("02:00:00:00:00:aa")),
                ("next_hop_mac", text("02:00:00:00:00:bb")),
            ],
        ),
        ("gre_encap", tunnel("203.0.113.1", "203.0.113.9")),
        ("gre_encap_sequenced", tunnel("203.0.113.9", "203.0.113.1")),
        ("gre_decap", vec![("local", text("203.0.113.1"))]),
        ("work", vec![]),
        ("chase", vec![("kib", Value::Integer(1))]),
    ]
}

/// Returns the kinds of stage that these tests do not cover.
fn missing() -> Vec<&'static str> {
    let here = every_stage();
    let is_here = |kind: &&str| {
        ["parse", "fault"].contains(kind) || here.iter().any(|(known, _)| known == kind)
    };
    linerate_stages::specs().iter().map(|spec| spec.kind).filter(|kind| !is_here(kind)).collect()
}

/// Offers frames to each stage alone after `parse`, and to all stages in sequence.
fn offer_everywhere(frames: &[Vec<u8>]) {
    let stages = every_stage();
    let stages: Vec<_> = stages.iter().map(|(kind, given)| (*kind, &given[..])).collect();
    let alone = stages.chunks(1);
    for chain in alone.chain([&stages[..]]) {
        let mut pool = Pool::new(frames.len().min(256), 2048);
        let mut rig = Rig::new(&mut pool, chain);
        for burst in frames.chunks(256) {
            rig.offer(burst);
        }
    }
}

/// Returns frames of every format that the stages handle.
fn seeds() -> Vec<Vec<u8>> {
    let pool = [198, 51, 100, 8];
    let inner = tcp(A, 1, B, 2, b"some data");
    let gre = {
        let mut outer = udp([203, 0, 113, 2], 0, [203, 0, 113, 1], 0, &inner[14..]);
        (outer[23], outer[34], outer[36], outer[37]) = (47, 0xb0, 8, 0);
        outer
    };
    let mut seeds = vec![
        inner.clone(),
        udp(A, 1, B, 2, &[9; 33]),
        udp(B, 1, pool, 1024, b"in"),
        echo(A, B, 5, b"ping"),
        echo_reply(B, pool, 1025, b"pong"),
        icmp_error(B, pool, 3, &udp(pool, 1024, B, 7, b"x"), 28),
        icmp_error(A, B, 11, &tcp(B, 7, A, 9, b"x"), 48),
        udp6(A6, B6, 7, b"six"),
        tcp6(A6, B6, 7, b"six"),
        v6_with(
            0,
            &[&[43, 0, 1, 4, 0, 0, 0, 0], &[44, 0, 4, 1, 0, 0, 0, 0], &[17, 0, 0, 1, 0, 0, 0, 1]],
            &[0, 1, 0, 2, 0, 8, 0, 0],
        ),
        gre,
    ];
    seeds.extend(fragments(&udp(A, 1, B, 2, &[7; 100]), 40));
    seeds
}

#[test]
fn every_truncation_of_every_shape() {
    assert_eq!(missing(), [""; 0], "give each a row with its parameters in every_stage()");
    let cuts = seeds().into_iter().flat_map(|frame| {
        let all = 0..=frame.len();
        all.map(move |bytes| frame[..bytes].to_vec()).collect::<Vec<_>>()
    });
    offer_everywhere(&cuts.collect::<Vec<_>>());
}

#[test]
fn every_byte_at_its_extremes() {
    let changed = seeds().into_iter().flat_map(|frame| {
        let values = [0u8, 1, 0x45, 0x4f, 0x60, 0x7f, 0x80, 0xff];
        let changes = (12..frame.len().min(90)).flat_map(move |at| values.map(|v| (at, v)));
        changes
            .map(|(at, value)| {
                let mut changed = frame.clone();
                changed[at] = value;
                changed
            })
            .collect::<Vec<_>>()
    });
    offer_everywhere(&changed.collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn mutated_and_random_frames(
        mutations in prop::collection::vec(
            (
                any::<prop::sample::Index>(),
                prop::collection::vec((12usize..120, any::<u8>()), 0..6),
                0usize..40,
            ),
            32,
        ),
        noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 16),
    ) {
        let seeds = seeds();
        let mut frames: Vec<Vec<u8>> = mutations
            .into_iter()
            .map(|(seed, changes, cut)| {
                let mut frame = seed.get(&seeds).clone();
                for (at, value) in changes {
                    if let Some(byte) = frame.get_mut(at) {
                        *byte = value;
                    }
                }
                frame.truncate(frame.len().saturating_sub(cut.saturating_sub(30)));
                frame
            })
            .collect();
        for (i, mut bytes) in noise.into_iter().enumerate() {
            if bytes.len() > 14 {
                // With a valid EtherType, the random bytes get past the Ethernet header.
                let ethertype = if i % 2 == 0 { [8, 0] } else { [0x86, 0xdd] };
                bytes[12..14].copy_from_slice(&ethertype);
                bytes[14] = if i % 2 == 0 { 0x45 } else { 0x60 };
            }
            frames.push(bytes);
        }
        offer_everywhere(&frames);
    }
}

#[test]
fn all_stages_in_a_row_let_good_packets_through() {
    let stages = every_stage();
    let stages: Vec<_> = stages.iter().map(|(kind, given)| (*kind, &given[..])).collect();
    let mut pool = Pool::new(8, 2048);
    let mut rig = Rig::new(&mut pool, &stages);
    let out = rig.offer(&[tcp(A, 1, B, 2, b"data"), udp6(A6, B6, 2, b"data")]);
    // Two GRE headers are added and one is removed.
    let lengths: Vec<_> = out.iter().map(Vec::len).collect();
    assert_eq!(lengths, [58 + 24, 66 + 24]);
}
