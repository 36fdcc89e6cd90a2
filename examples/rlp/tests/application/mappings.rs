// SPDX-License-Identifier: MIT OR Apache-2.0
//! The four example paths deliver the same, correct bytes to every session.

use crate::rig::{counted, drops, example, ran, traffic};
use linerate_rlp::frame::{self, Frame};
use linerate_rlp::{app::KINDS, envelope};
use linerate_stage_api::source::Traffic;
use linerate_stage_api::testing::Kept;
use std::collections::BTreeMap;

/// More than two passes over the capture, so that sequence numbers must continue.
const PACKETS: u64 = 20_000;

/// Returns the packets kept by the sinks, grouped by session, in order.
fn by_session(kept: &Kept) -> BTreeMap<u32, Vec<Vec<u8>>> {
    let mut sessions: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
    for (_, _, bytes) in kept.iter() {
        let access = frame::parse(bytes).expect("a packet of the access side");
        sessions.entry(access.session).or_default().push(bytes.to_vec());
    }
    sessions
}

/// Returns each session's stream bytes in the first `packets` packets of the repeated traffic: what
/// the terminals should receive.
fn streams(traffic: &Traffic, packets: u64) -> BTreeMap<u32, Vec<u8>> {
    let mut streams: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for position in 0..packets as usize {
        let bytes = traffic.frame(position % traffic.len());
        if let Ok(envelope) = envelope::parse(bytes) {
            streams.entry(envelope.key).or_default().extend(&bytes[envelope.payload]);
        }
    }
    streams
}

#[test]
fn all_four_paths_give_the_same_bytes_to_each_session() {
    let first = example("rlp-config1");
    let offered = traffic(&first);
    assert!(PACKETS > 2 * offered.len() as u64);
    let expected = by_session(&ran(&first, &offered, PACKETS).kept);
    assert_eq!(expected.len(), 64);
    for name in ["rlp-config2", "rlp-merged", "rlp-replicated"] {
        let path = example(name);
        assert_eq!(path.source, first.source, "{name}: the same packets");
        let outcome = ran(&path, &offered, PACKETS);
        assert!(by_session(&outcome.kept) == expected, "{name} delivers something else");
    }
}

#[test]
fn sessions_receive_the_packets_in_order_and_retransmissions() {
    let path = example("rlp-config2");
    let offered = traffic(&path);
    let outcome = ran(&path, &offered, PACKETS);
    assert_eq!(drops(&outcome), BTreeMap::new(), "everything offered is valid");
    let streams = streams(&offered, PACKETS);
    let mut again = 0;
    for (session, packets) in by_session(&outcome.kept) {
        let stream = &streams[&session];
        let mut next = 0;
        for bytes in &packets {
            for one in frame::parse(bytes).expect("checked").frames() {
                let Ok(Frame::Data { sequence, bytes, again: is_again }) = one else {
                    panic!("{one:?} to session {session}")
                };
                let first = sequence as usize;
                assert_eq!(bytes, &stream[first..first + bytes.len()], "session {session}");
                if is_again {
                    again += 1;
                    assert!(first + bytes.len() <= next, "sent again before it was sent");
                } else {
                    assert_eq!(first, next, "session {session}");
                    next += bytes.len();
                }
            }
        }
        assert!(stream.len() - next < 128, "what is left fills no frame");
    }
    assert_eq!(again, counted(&outcome, "frames_again"));
    assert!(again > PACKETS / 200, "{again} frames for some {} lists", PACKETS / 100);
}

#[test]
fn workers_that_serve_both_sides_look_at_the_other() {
    let path = example("rlp-config1");
    let outcome = ran(&path, &traffic(&path), 5_000);
    let bursts = 5_000 / u64::from(path.run.burst);
    // Each of the two joined stages polls once per iteration.
    assert!(counted(&outcome, "looks_at_other_side") >= 2 * bursts);
}

#[test]
fn kind_and_cause_names_are_unique_and_parameters_valid() {
    use linerate_stage_api::spec::{Default, ParamKind};
    use std::collections::BTreeSet;
    let names: BTreeSet<&str> = KINDS.iter().map(|kind| kind.spec.kind).collect();
    assert_eq!(names.len(), 7);
    for kind in KINDS {
        let spec = kind.spec;
        let causes: BTreeSet<&&str> = spec.drop_causes.iter().collect();
        assert_eq!(causes.len(), spec.drop_causes.len(), "{}", spec.kind);
        for param in spec.params {
            if let (ParamKind::Integer { min, max }, Default::Integer(value)) =
                (param.kind, param.default)
            {
                assert!((min..=max).contains(&value), "{}.{}", spec.kind, param.name);
            }
        }
    }
}
