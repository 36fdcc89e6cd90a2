// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reverse path delivers bytes in order, and requests holes in rounds until they are abandoned.

use crate::rig::{access, counted, data, defaults, drops, example, frames, path, ran, traffic};
use linerate_rlp::envelope;
use linerate_rlp::frame::{self, Frame};
use linerate_stage_api::testing::{Kept, Outcome};
use std::collections::BTreeMap;

/// Returns the bytes delivered to the serving node in A10 packets, by session. Asserts that
/// sequence numbers are consecutive.
fn delivered(kept: &Kept) -> BTreeMap<u32, Vec<u8>> {
    let mut streams: BTreeMap<u32, (u32, Vec<u8>)> = BTreeMap::new();
    for (_, _, bytes) in kept.iter().filter(|(_, _, bytes)| !frame::is_access(bytes)) {
        let packet = envelope::parse(bytes).expect("a valid envelope");
        let (number, stream) = streams.entry(packet.key).or_default();
        assert_eq!(packet.sequence, *number, "session {}", packet.key);
        *number += 1;
        stream.extend(&bytes[packet.payload]);
    }
    streams.into_iter().map(|(key, (_, stream))| (key, stream)).collect()
}

/// Returns the NAK lists sent to terminals: session, and each range's first byte and length.
fn asked(kept: &Kept) -> Vec<(u32, Vec<(u32, u32)>)> {
    let lists = kept.iter().filter(|(_, _, bytes)| frame::is_access(bytes));
    let read = |bytes: &[u8]| {
        let list = frame::parse(bytes).expect("a valid packet");
        let mut all = list.frames();
        let Some(Ok(Frame::Nak(ranges))) = all.next() else { panic!("it asks for something") };
        assert!(all.next().is_none());
        (list.session, ranges.iter().map(|range| (range.first, range.bytes)).collect())
    };
    lists.map(|(_, _, bytes)| read(bytes)).collect()
}

#[test]
fn the_example_brings_every_byte_in_order_whatever_the_mapping() {
    const PACKETS: u64 = 20_000;
    let mut path = example("rlp-reverse");
    let offered = traffic(&path);
    let mut expected: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for position in 0..PACKETS as usize {
        let packet = frame::parse(offered.frame(position % offered.len())).expect("sound");
        for one in packet.frames() {
            let Ok(Frame::Data { bytes, .. }) = one else { panic!("data only") };
            expected.entry(packet.session).or_default().extend(bytes);
        }
    }
    for (replicas, ends) in [(1, ["ATIF_RX", "PDSN_TX"]), (2, ["ATIF_RXTX", "PDSN_RXTX"])] {
        path.mapping.segments.iter_mut().for_each(|segment| segment.replicas = replicas);
        for (stage, kind) in [(0, ends[0]), (2, ends[1])] {
            path.stages[stage].kind = kind.to_owned();
            path.stages[stage].params = defaults(kind);
        }
        let outcome = ran(&path, &offered, PACKETS);
        assert_eq!(drops(&outcome), BTreeMap::new());
        assert!(delivered(&outcome.kept) == expected, "{ends:?} x{replicas}");
        assert_eq!(outcome.kept.len() as u64, PACKETS, "a packet for each");
    }
}

/// Runs session 1's packets through the reverse path; `rlp` are the parameters of `RLP`.
fn reverse(rlp: &str, given: &[Vec<u8>]) -> Outcome {
    let text = format!(
        "source = {{ kind = 'a10', file = 'none', direction = 'reverse' }}\n[[stage]]\nkind = \
         'ATIF_RX'\n[[stage]]\nkind = 'RLP'\n{rlp}\n[[stage]]\nkind = 'PDSN_TX'\n"
    );
    let path = path(&text);
    ran(&path, &frames(&path, given), given.len() as u64)
}

/// Returns a data frame of 100 bytes, starting at byte `hundreds * 100`.
fn hundred(hundreds: u32) -> Vec<u8> {
    data(1, hundreds * 100, &[hundreds as u8; 100])
}

fn bytes_of(hundreds: &[u8]) -> Vec<u8> {
    hundreds.iter().flat_map(|value| [*value; 100]).collect()
}

#[test]
fn a_hole_is_requested_at_once_and_filled() {
    let given = [hundred(0), hundred(2), hundred(3), hundred(1), hundred(4)];
    let outcome = reverse("", &given);
    assert_eq!(drops(&outcome), BTreeMap::new());
    assert_eq!(delivered(&outcome.kept)[&1], bytes_of(&[0, 1, 2, 3, 4]));
    assert_eq!(asked(&outcome.kept), [(1, vec![(100, 100)])]);
    assert_eq!((counted(&outcome, "holes"), counted(&outcome, "aborts")), (1, 0));
}

#[test]
fn rounds_run_on_packets_and_the_last_one_gives_up() {
    // Bytes 100 to 199 never arrive. There are two rounds of one list each, four packets apart.
    let mut given: Vec<_> = [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map(hundred).to_vec();
    given.push(hundred(1));
    let outcome = reverse("nak_rounds = '1,1'\nround_packets = 4", &given);
    assert_eq!(asked(&outcome.kept), [(1, vec![(100, 100)]), (1, vec![(100, 100)])]);
    assert_eq!(delivered(&outcome.kept)[&1], bytes_of(&[0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]));
    assert_eq!((counted(&outcome, "aborts"), counted(&outcome, "bytes_aborted")), (1, 100));
    let late: Vec<_> = drops(&outcome).into_iter().collect();
    assert_eq!(late.len(), 1);
    assert!(["late", "duplicate"].contains(&late[0].0.1.as_str()), "{late:?}");
}

#[test]
fn frames_that_come_twice_are_dropped() {
    let outcome = reverse("", &[hundred(0), hundred(0), hundred(1)]);
    let found: Vec<_> = drops(&outcome).into_iter().collect();
    assert_eq!(found, [(("RLP".to_owned(), "duplicate".to_owned()), 1)]);
    assert_eq!(delivered(&outcome.kept)[&1], bytes_of(&[0, 1]));
}

#[test]
fn frames_far_from_all_others_are_dropped() {
    let outcome = reverse("", &[hundred(0), hundred(20_000_000), hundred(1)]);
    let found: Vec<_> = drops(&outcome).into_iter().collect();
    assert_eq!(found, [(("RLP".to_owned(), "jump".to_owned()), 1)]);
    assert_eq!(delivered(&outcome.kept)[&1], bytes_of(&[0, 1]));
}

#[test]
fn an_idle_frame_reveals_a_lost_end() {
    let idle = access(1, |writer| assert!(writer.idle(200)));
    let outcome = reverse("", &[hundred(0), idle, hundred(1)]);
    assert_eq!(asked(&outcome.kept), [(1, vec![(100, 100)])]);
    assert_eq!(delivered(&outcome.kept)[&1], bytes_of(&[0, 1]));
}

#[test]
fn bearer_packets_respect_the_maximum_size() {
    // A hole before 900 bytes; once it is filled, the bytes are delivered 150 at a time.
    let mut given: Vec<_> = (1..10).map(hundred).collect();
    given.push(hundred(0));
    given.extend((10..16).map(hundred));
    let outcome = reverse("bearer_bytes = 150", &given);
    let lengths = outcome.kept.iter().filter(|(_, _, bytes)| !frame::is_access(bytes));
    let longest = lengths.map(|(_, _, bytes)| bytes.len()).max();
    assert_eq!(longest, Some(envelope::HEADER_BYTES + 150));
    let stream = &delivered(&outcome.kept)[&1];
    assert_eq!(*stream, bytes_of(&(0..16).collect::<Vec<_>>())[..stream.len()]);
    assert_eq!(stream.len(), 7 * 150);
}
