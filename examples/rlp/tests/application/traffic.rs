// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the `a10` source's traffic with the capture it is made from.

use crate::rig::{capture, path, traffic};
use linerate_rlp::app::EXTENSION;
use linerate_rlp::frame::{self, Frame};
use linerate_rlp::{envelope, ppp};
use linerate_stage_api::source::Traffic;
use linerate_stage_api::testing::Path;
use std::collections::{BTreeMap, BTreeSet};

fn with(keys: &str) -> Path {
    path(&format!(
        "source = {{ kind = 'a10', file = 'edge.pcapng', {keys} }}\n[[stage]]\nkind = 'RLP'\n"
    ))
}

/// Returns each session's stream bytes in one pass.
fn streams(traffic: &Traffic) -> BTreeMap<u32, Vec<u8>> {
    let mut streams: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for index in 0..traffic.len() {
        let bytes = traffic.frame(index);
        if let Ok(packet) = envelope::parse(bytes) {
            streams.entry(packet.key).or_default().extend(&bytes[packet.payload]);
            continue;
        }
        let packet = frame::parse(bytes).expect("a packet of the access side");
        for one in packet.frames() {
            if let Frame::Data { sequence, bytes, .. } = one.expect("a valid frame") {
                let stream = streams.entry(packet.session).or_default();
                assert_eq!(stream.len(), sequence as usize);
                stream.extend(bytes);
            }
        }
    }
    streams
}

/// Decodes PPP streams and counts each packet, without flags, escapes, address, control and check
/// sequence.
fn packets(streams: &BTreeMap<u32, Vec<u8>>) -> BTreeMap<Vec<u8>, u64> {
    let mut packets = BTreeMap::new();
    for stream in streams.values() {
        for framed in stream.split(|byte| *byte == ppp::FLAG).filter(|f| !f.is_empty()) {
            let mut bytes = Vec::new();
            let mut escaped = false;
            for byte in framed {
                match (escaped, *byte) {
                    (false, 0x7d) => escaped = true,
                    (was, byte) => {
                        bytes.push(if was { byte ^ 0x20 } else { byte });
                        escaped = false;
                    }
                }
            }
            let sum = bytes.split_off(bytes.len() - 2);
            assert_eq!(ppp::check_sequence(bytes.iter().copied()).to_le_bytes(), sum[..]);
            assert_eq!(bytes[..2], [0xff, 0x03]);
            *packets.entry(bytes[4..].to_vec()).or_default() += 1;
        }
    }
    packets
}

/// Returns the capture's IP packets, with the number of times each occurs.
fn captured() -> BTreeMap<Vec<u8>, u64> {
    let mut packets = BTreeMap::new();
    let capture = capture();
    for index in 0..capture.len() {
        let frame = capture.frame(index);
        let length = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
        let bytes = match (frame[12], frame[13]) {
            (0x08, 0x00) => length(16),
            (0x86, 0xdd) => length(18) + 40,
            _ => continue,
        };
        *packets.entry(frame[14..14 + bytes].to_vec()).or_default() += 1;
    }
    packets
}

#[test]
fn the_streams_hold_the_packets_of_the_capture_either_way_and_in_any_size() {
    let captured = captured();
    for keys in ["bytes = 338", "bytes = 100", "sessions = 5", "bytes = 1400"] {
        for direction in ["forward", "reverse"] {
            let path = with(&format!("direction = '{direction}', {keys}"));
            let offered = traffic(&path);
            assert!(packets(&streams(&offered)) == captured, "{direction}, {keys}");
            assert_eq!(offered.input().left_out.keys().collect::<Vec<_>>(), ["not_ip"]);
        }
    }
}

#[test]
fn frames_and_naks_match_their_parameters() {
    for (direction, naks) in [("forward", 0.0), ("forward", 0.05), ("reverse", 0.0)] {
        let keys = format!("direction = '{direction}', naks = {naks}, bytes = 338, sessions = 64");
        let offered = traffic(&with(&keys));
        let lengths: BTreeSet<usize> = (0..offered.len()).map(|i| offered.frame(i).len()).collect();
        assert_eq!(lengths, [338].into(), "{keys}");
        let is_list = |index: &usize| match frame::parse(offered.frame(*index)) {
            Ok(packet) => packet.frames().all(|one| matches!(one, Ok(Frame::Nak(_)))),
            Err(_) => false,
        };
        let lists = (0..offered.len()).filter(is_list).count();
        let share = lists as f64 / offered.len() as f64;
        assert!((share - naks).abs() <= 0.02 * naks, "{share} of {naks}");
    }
}

#[test]
fn one_frame_per_packet_without_a_fixed_size() {
    let offered = traffic(&with("sessions = 64"));
    let packets: u64 = captured().values().sum();
    assert_eq!(offered.len() as u64, packets);
}

#[test]
fn what_does_not_fit_a_buffer_is_left_out_and_counted() {
    let short = traffic(&with("buffer_bytes = 600"));
    let left_out = short.input().left_out["too_long"].packets;
    assert!(left_out > 100);
    assert_eq!(short.len() as u64 + left_out, captured().values().sum::<u64>());
}

#[test]
fn keys_follow_the_first_and_sessions_suit_replicas() {
    let path = with("sessions = 64, first_key = 1000, bytes = 338");
    let offered = traffic(&path);
    let keys: Vec<u32> = streams(&offered).into_keys().collect();
    assert_eq!(keys, (1000..1064).collect::<Vec<_>>());
    let buckets: Vec<u8> = offered.frames().iter().map(|frame| frame.bucket).collect();
    assert!(buckets.iter().all(|bucket| (1000..1064).any(|key| key % 128 == u32::from(*bucket))));
    for replicas in [2, 4] {
        let share = linerate_stage_api::testing::coupled_share(&buckets, replicas);
        assert!(share * f64::from(replicas) < 1.1, "{replicas} replicas: {share}");
    }
}

#[test]
fn the_seed_alone_says_where_lists_stand() {
    let keys = |seed: u32| format!("naks = 0.02, bytes = 338, seed = {seed}");
    let all = |seed| {
        let offered = traffic(&with(&keys(seed)));
        (0..offered.len()).map(|i| offered.frame(i).to_vec()).collect::<Vec<_>>()
    };
    assert!(all(1) == all(1));
    assert!(all(1) != all(2));
}

/// Returns a source's error message for these keys: the first sentence, without the position in the
/// file.
fn refusal(keys: &str) -> String {
    let text =
        format!("source = {{ kind = 'a10', file = 'a', {keys} }}\n[[stage]]\nkind = 'RLP'\n");
    EXTENSION.read(&text, "test").err().map_or(String::new(), |problems| problems.to_string())
}

#[test]
fn keys_that_make_no_sense_are_refused_with_what_to_write() {
    let cases = [
        ("bytes = 59", "'bytes' is 59; it must be from 60 to 65407"),
        (
            "bytes = 3000",
            "frames of 3000 bytes exceed buffer_bytes = 2048; raise buffer_bytes (at most 65407) \
             or use shorter frames",
        ),
        ("sessions = 0", "'sessions' is 0; it must be from 1 to 65536"),
        (
            "sessions = 2, first_key = 4294967295",
            "2 sessions starting at key 4294967295 do not fit: the largest key is \
             4294967295; lower first_key to 4294967294 or less",
        ),
        ("naks = 0.6", "'naks' is 0.6; it must be from 0 to 0.5"),
        (
            "naks = 0.1, direction = 'reverse'",
            "NAK lists from terminals require a source in the forward direction; remove 'naks'",
        ),
        ("direction = 'back'", "'direction' cannot be 'back'; valid: 'forward', 'reverse'"),
    ];
    for (keys, expected) in cases {
        let found = refusal(keys);
        assert!(found.contains(expected), "{keys}: {found}");
    }
    assert_eq!(refusal("sessions = 1, first_key = 4294967295, naks = 0.5"), "");
}
