// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invalid packets: each is dropped for a named cause and does not affect later ones.

use crate::rig::{a10, access, data, drops, frames, nak, path, ran};
use linerate_rlp::envelope::{ETHERNET_BYTES, HEADER_BYTES};
use linerate_rlp::frame::{self, Frame, PACKET_HEADER_BYTES};

/// The two forward paths: with separate RX and TX stages, and with joined ones.
const SIDES: [[&str; 2]; 2] = [["PDSN_RX", "ATIF_TX"], ["PDSN_RXTX", "ATIF_RXTX"]];

/// Runs `given` through a forward path whose `RLP` stage has the parameters `rlp`. Expects the
/// drops `expected` (stage and cause, sorted) and `sent` new and retransmitted data frames.
#[track_caller]
fn forward(rlp: &str, given: &[Vec<u8>], expected: &[(&str, &str)], sent: [usize; 2]) {
    for [pdsn, atif] in SIDES {
        let text = format!(
            "source = {{ kind = 'a10', file = 'none' }}\n[[stage]]\nkind = '{pdsn}'\n[[stage]]\n\
             kind = 'RLP'\n{rlp}\n[[stage]]\nkind = '{atif}'\n"
        );
        let path = path(&text);
        let outcome = ran(&path, &frames(&path, given), given.len() as u64);
        let found: Vec<(String, String, u64)> =
            drops(&outcome).into_iter().map(|((stage, cause), n)| (stage, cause, n)).collect();
        let side = |stage: &str| if stage == "PDSN" { pdsn.to_owned() } else { stage.to_owned() };
        let expected: Vec<(String, String, u64)> =
            expected.iter().map(|&(stage, cause)| (side(stage), cause.to_owned(), 1)).collect();
        assert_eq!(found, expected);
        let mut frames = [0; 2];
        for (_, _, bytes) in outcome.kept.iter() {
            for one in frame::parse(bytes).expect("ATIF_TX sends valid packets").frames() {
                match one.expect("valid frames") {
                    Frame::Data { again, .. } => frames[usize::from(again)] += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(frames, sent, "{pdsn}");
    }
}

/// Overwrites a valid packet at offset `at` with `bytes`.
fn with(mut packet: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    packet[at..at + bytes.len()].copy_from_slice(bytes);
    packet
}

/// Recomputes the IPv4 header checksum with a simple sum of words.
fn summed(mut packet: Vec<u8>) -> Vec<u8> {
    let header = &mut packet[ETHERNET_BYTES..ETHERNET_BYTES + 20];
    header[10..12].fill(0);
    let words = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum = words.fold(0, |sum, word| (sum + word) % 0xffff);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet
}

/// Asserts that a bad A10 packet between two valid ones is dropped for `cause`.
#[track_caller]
fn envelope(bad: Vec<u8>, cause: &str) {
    let given = [a10(1, 0, &[7; 128]), bad, a10(1, 1, &[8; 128])];
    forward("", &given, &[("PDSN", cause)], [2, 0]);
}

#[test]
fn wrong_protocols() {
    let sound = || a10(1, 1, &[5; 128]);
    envelope(with(sound(), 12, &[0x86, 0xdd]), "not_ipv4");
    envelope(summed(with(sound(), ETHERNET_BYTES + 9, &[17])), "not_gre");
    envelope(with(sound(), ETHERNET_BYTES + 22, &[0x88, 0xd2]), "bad_protocol");
    envelope(with(sound(), ETHERNET_BYTES + 22, &[0x08, 0x00]), "bad_protocol");
}

#[test]
fn bad_gre_flags() {
    // No key; no sequence number; a checksum; routing; a reserved bit; version 1.
    for flags in [[0x10, 0], [0x20, 0], [0xb0, 0], [0x70, 0], [0x32, 0], [0x30, 1]] {
        envelope(with(a10(1, 1, &[5; 128]), ETHERNET_BYTES + 20, &flags), "bad_flags");
    }
}

#[test]
fn headers_that_are_damaged_or_cut() {
    let sound = || a10(1, 1, &[5; 128]);
    envelope(with(sound(), ETHERNET_BYTES + 10, &[0xab, 0xcd]), "bad_checksum");
    envelope(summed(with(sound(), ETHERNET_BYTES + 2, &[0xff, 0xff])), "bad_header");
    envelope(summed(with(sound(), ETHERNET_BYTES + 6, &[0x20, 0])), "fragment");
    envelope(sound()[..ETHERNET_BYTES + 10].to_vec(), "cut_header");
    let no_room_for_gre = summed(with(sound(), ETHERNET_BYTES + 2, &[0, 31]));
    envelope(no_room_for_gre, "cut_header");
}

#[test]
fn unknown_keys() {
    let keys = "first_key = 10\nkeys = 3\n";
    let bytes = [1; 128];
    let given = [a10(9, 0, &bytes), a10(10, 0, &bytes), a10(12, 0, &bytes)];
    forward(keys, &given, &[("RLP", "unknown_key")], [2, 0]);
    forward(keys, &[a10(13, 0, &bytes)], &[("RLP", "unknown_key")], [0, 0]);
    // A NAK list from a terminal that nothing has been sent to.
    forward(keys, &[nak(10, &[(0, 1)])], &[("RLP", "unknown_key")], [0, 0]);
}

#[test]
fn sessions_beyond_the_limit() {
    let bytes = [1; 128];
    // Keys 1, 129 and 257 share an RSS bucket; key 2 has another.
    let given = [a10(1, 0, &bytes), a10(129, 0, &bytes), a10(257, 0, &bytes), a10(2, 0, &bytes)];
    forward("sessions_per_bucket = 2", &given, &[("RLP", "sessions_full")], [3, 0]);
}

#[test]
fn packets_that_come_twice_or_late() {
    let bytes = [1; 128];
    let numbers = [0, 1, 1, 3, 2, 4];
    let given: Vec<_> = numbers.iter().map(|&number| a10(1, number, &bytes)).collect();
    forward("", &given, &[("RLP", "duplicate"), ("RLP", "late")], [4, 0]);
}

#[test]
fn sequence_jumps() {
    let bytes = [1; 128];
    let numbers = [0, 1, 0x8000_0000, 2, 3];
    let given: Vec<_> = numbers.iter().map(|&number| a10(1, number, &bytes)).collect();
    forward("", &given, &[("RLP", "jump")], [4, 0]);
    // After a restart of the peer, packets are accepted from the second one on.
    let numbers = [0, 1, 0x8000_0000, 0x8000_0001, 0x8000_0002];
    let given: Vec<_> = numbers.iter().map(|&number| a10(1, number, &bytes)).collect();
    forward("", &given, &[("RLP", "jump")], [4, 0]);
}

#[test]
fn more_bytes_than_a_stream_keeps() {
    let rlp = "ring_bytes = 256\nframe_bytes = 128";
    let given = [a10(1, 0, &[1; 300]), a10(1, 1, &[1; 256])];
    forward(rlp, &given, &[("RLP", "stream_full")], [2, 0]);
}

#[test]
fn naks_for_what_was_never_sent() {
    // Of 200 bytes received, 128 are sent; the rest wait until they fill a frame.
    let given = |first, bytes| [a10(1, 0, &[1; 200]), nak(1, &[(first, bytes)])];
    for (first, bytes) in [(128, 1), (100, 29), (1 << 30, 128), (0x9000_0000, 5)] {
        let cause = if first == 0x9000_0000 { "nak_gone" } else { "nak_unsent" };
        forward("", &given(first, bytes), &[("RLP", cause)], [1, 0]);
    }
    forward("", &given(0, 128), &[], [1, 1]);
}

#[test]
fn naks_for_what_is_long_gone() {
    let rlp = "ring_bytes = 256\nframe_bytes = 128";
    let mut given: Vec<_> = (0..4).map(|number| a10(1, number, &[1; 128])).collect();
    given.push(nak(1, &[(0, 128)]));
    forward(rlp, &given, &[("RLP", "nak_gone")], [4, 0]);
    // If part of a range has been overwritten, the rest is retransmitted.
    given[4] = nak(1, &[(200, 100)]);
    forward(rlp, &given, &[], [4, 1]);
}

#[test]
fn absurd_nak_lists() {
    let sent = || a10(1, 0, &[1; 256]);
    let list = || nak(1, &[(0, 10), (20, 10)]);
    let at = PACKET_HEADER_BYTES + frame::FRAME_HEADER_BYTES;
    let length = PACKET_HEADER_BYTES + 2;
    let bad = |packet: Vec<u8>, cause: &str| {
        forward("", &[sent(), packet], &[("RLP", cause)], [2, 0]);
    };
    bad(with(list(), at, &40_u32.to_be_bytes()), "bad_nak");
    bad(with(list(), at + 8, &5_u32.to_be_bytes()), "bad_nak");
    bad(with(list(), at + 4, &[0; 4]), "bad_nak");
    bad(with(list(), at + 4, &[0xff; 4]), "bad_nak");
    bad(with(list(), length, &15_u16.to_be_bytes()), "bad_nak");
    bad(with(list(), length, &0xffff_u16.to_be_bytes()), "bad_access");
    bad(with(list(), PACKET_HEADER_BYTES, &[99]), "bad_access");
    bad(with(list(), ETHERNET_BYTES, &[2]), "bad_access");
    // A frame count that is too high, and one of zero.
    bad(with(list(), ETHERNET_BYTES + 1, &[2]), "bad_access");
    bad(access(1, |_| ()), "nothing");
}

#[test]
fn more_requests_than_the_queue_holds() {
    // A packet with 70 lists of one byte each: the queue holds 64, and the answer has the bytes
    // requested first.
    let mut list = linerate_rlp::frame::NakList::default();
    for index in 0..linerate_rlp::frame::MAX_RANGES as u32 {
        assert!(list.push(linerate_rlp::frame::ByteRange { first: index * 2, bytes: 1 }));
    }
    let many = access(1, |writer| (0..3).for_each(|_| assert!(writer.nak(&list))));
    let given = [a10(1, 0, &[1; 256]), many];
    forward("", &given, &[], [2, 64]);
}

#[test]
fn what_no_stage_of_the_application_has_checked() {
    let direct = "source = { kind = 'a10', file = 'none' }\n[[stage]]\nkind = 'RLP'\n[[stage]]\n\
                  kind = 'ATIF_TX'\n";
    let path = path(direct);
    let given = [a10(1, 0, &[1; 128]), vec![0xff; 60]];
    let outcome = ran(&path, &frames(&path, &given), 2);
    let found: Vec<_> = drops(&outcome).into_iter().collect();
    assert_eq!(found, [(("RLP".to_owned(), "unchecked".to_owned()), 2)]);
}

#[test]
fn what_rlp_has_not_made_is_not_sent() {
    for (kinds, given) in [
        (["PDSN_RX", "ATIF_TX"], a10(1, 0, &[1; 128])),
        (["ATIF_RX", "PDSN_TX"], vec![0; 60]),
        (["PDSN_RX", "PDSN_TX"], data(1, 0, &[1; 50])),
    ] {
        let [first, last] = kinds;
        let text = format!(
            "source = {{ kind = 'a10', file = 'none' }}\n[[stage]]\nkind = '{first}'\n[[stage]]\n\
             kind = '{last}'\n"
        );
        let path = path(&text);
        let outcome = ran(&path, &frames(&path, &[given]), 1);
        assert!(outcome.kept.is_empty(), "{kinds:?}");
        let found: Vec<_> = drops(&outcome).into_keys().collect();
        let expected = match first {
            "ATIF_RX" => (first.to_owned(), "not_access".to_owned()),
            _ => (last.to_owned(), "not_framed".to_owned()),
        };
        assert_eq!(found, [expected]);
    }
}

#[test]
fn any_bytes_are_dropped_or_served() {
    // Valid packets with one byte changed: nothing panics, and the ledger balances.
    let sound = [a10(1, 0, &[1; 300]), nak(1, &[(0, 200)]), data(1, 0, &[3; 100])];
    let changed = |packet: &Vec<u8>| {
        let bytes = packet.len().min(HEADER_BYTES + 20);
        let one = |at| [0, 1, 0x7f, 0xff].map(|value| with(packet.clone(), at, &[value]));
        (0..bytes).flat_map(one).collect::<Vec<_>>()
    };
    let mut given: Vec<Vec<u8>> = sound.iter().flat_map(changed).collect();
    given.extend(sound.iter().flat_map(|packet| (1..packet.len()).map(|n| packet[..n].to_vec())));
    for kinds in [["PDSN_RXTX", "ATIF_RXTX"], ["ATIF_RXTX", "PDSN_RXTX"]] {
        let text = format!(
            "source = {{ kind = 'a10', file = 'none' }}\n[[stage]]\nkind = '{}'\n[[stage]]\nkind = \
             'RLP'\nring_bytes = 1024\n[[stage]]\nkind = '{}'\n",
            kinds[0], kinds[1]
        );
        let path = path(&text);
        let outcome = ran(&path, &frames(&path, &given), given.len() as u64);
        assert!(!outcome.kept.is_empty());
        assert!(drops(&outcome).values().sum::<u64>() > 100);
    }
}
