// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `verify`: valid frames pass, and any flipped bit covered by a checksum is detected.

use crate::frames::*;
use crate::rig::{Fate, Rig};
use linerate_stage_api::params::Value;
use linerate_stage_api::testing::Pool;

fn valid_frames() -> Vec<Vec<u8>> {
    let mut frames = vec![
        frame!(ethernet().ipv6(A6, B6, 64).icmpv6_echo_request(3, 4), b"ping6"),
        frame!(ethernet().ipv4(A, B, 64).tcp(1, 2, 3, 4).options_raw(&[1; 8]).unwrap(), b"o"),
    ];
    for bytes in [0, 1, 2, 3, 31, 32, 33, 700, 1472] {
        let payload = Random(bytes as u64).bytes(bytes);
        frames.push(tcp(A, 1000, B, 80, &payload));
        frames.push(udp(A, 1000, B, 53, &payload));
        frames.push(echo(A, B, 9, &payload));
        frames.push(tcp6(A6, B6, 80, &payload));
        frames.push(udp6(A6, B6, 53, &payload));
    }
    frames
}

#[test]
fn valid_frames_pass_with_and_without_padding() {
    let mut pool = Pool::new(64, 2048);
    let mut rig = Rig::new(&mut pool, &[("verify", &[])]);
    for frame in valid_frames() {
        assert_eq!(rig.offer_one(&frame), Fate::Out(frame.clone()));
        let padded = [frame, vec![0xab; 7]].concat();
        assert_eq!(rig.offer_one(&padded), Fate::Out(padded.clone()));
    }
    assert_eq!(rig.count("unchecked_other_protocol"), Some(0));
    assert_eq!(rig.count("unchecked_udp_zero"), Some(0));
}

#[test]
fn every_flipped_bit_is_found() {
    let mut pool = Pool::new(64, 2048);
    let mut rig = Rig::new(&mut pool, &[("verify", &[])]);
    for frame in valid_frames().into_iter().filter(|f| f.len() < 120) {
        for bit in 14 * 8..frame.len() * 8 {
            let mut flipped = frame.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let fate = rig.offer_one(&flipped);
            let is_v6_header = frame[12] == 0x86 && (14..54).contains(&(bit / 8));
            match fate {
                Fate::Dropped(_) => {}
                // The IPv6 header has no checksum; only the fields in the pseudo-header are
                // covered.
                Fate::Out(_) if is_v6_header && (14..22).contains(&(bit / 8)) => {}
                Fate::Out(_) => panic!("bit {bit} of {frame:02x?}"),
            }
        }
    }
}

/// Includes bursts with more segments than one call sums, interleaved with packets that need no
/// sum.
#[test]
fn packets_of_a_burst_do_not_share_a_fate() {
    let mut pool = Pool::new(256, 2048);
    let mut rig = Rig::new(&mut pool, &[("verify", &[])]);
    let mut random = Random(11);
    let piece = fragments(&udp(A, 1, B, 2, &[7; 100]), 40).swap_remove(1);
    for packets in [1, 2, 7, 8, 9, 31, 32, 33, 64, 100, 256] {
        let mut one = |_| {
            let limit = [40, 300, 1400][random.below(3) as usize];
            let bytes = random.below(limit) as usize;
            match random.below(4) {
                0 => (piece.clone(), true),
                1 => (tcp(A, 5, B, 6, &random.bytes(bytes)), true),
                _ => {
                    let mut frame = udp6(A6, B6, 7, &random.bytes(bytes + 1));
                    let is_intact = random.below(2) == 0;
                    *frame.last_mut().expect("a payload") ^= u8::from(!is_intact);
                    (frame, is_intact)
                }
            }
        };
        let frames: Vec<(Vec<u8>, bool)> = (0..packets).map(&mut one).collect();
        let all: Vec<_> = frames.iter().map(|(frame, _)| frame.clone()).collect();
        let intact = frames.into_iter().filter(|(_, is_intact)| *is_intact);
        assert_eq!(rig.offer(&all), intact.map(|(frame, _)| frame).collect::<Vec<_>>());
    }
}

#[test]
fn causes() {
    let mut pool = Pool::new(64, 2048);
    let mut rig = Rig::new(&mut pool, &[("verify", &[])]);
    let good = tcp(A, 1, B, 2, b"data");
    let with = |at: usize| {
        let mut frame = good.clone();
        frame[at] ^= 0x10;
        frame
    };
    assert_eq!(rig.offer_one(&with(22)), Fate::Dropped("bad_l3_checksum"));
    assert_eq!(rig.offer_one(&with(55)), Fate::Dropped("bad_l4_checksum"));
    let zeroed = |mut frame: Vec<u8>, at: usize| {
        frame[at..at + 2].fill(0);
        frame
    };
    let v4 = zeroed(udp(A, 1, B, 2, b"x"), 40);
    assert_eq!(rig.offer_one(&v4), Fate::Out(v4.clone()));
    assert_eq!(rig.count("unchecked_udp_zero"), Some(1));
    let v6 = zeroed(udp6(A6, B6, 2, b"x"), 60);
    assert_eq!(rig.offer_one(&v6), Fate::Dropped("zero_udp_checksum_v6"));
    let mut rig_pool = Pool::new(4, 2048);
    let mut l3_only = Rig::new(&mut rig_pool, &[("verify", &[("l4", Value::Bool(false))])]);
    assert_eq!(l3_only.offer_one(&with(55)), Fate::Out(with(55)));
    assert_eq!(l3_only.offer_one(&with(22)), Fate::Dropped("bad_l3_checksum"));
    assert_eq!(l3_only.offer_one(&v6), Fate::Out(v6));
}

#[test]
fn bytes_behind_the_udp_datagram_are_not_covered() {
    let mut pool = Pool::new(4, 2048);
    let mut rig = Rig::new(&mut pool, &[("verify", &[])]);
    let short = udp(A, 1, B, 2, b"data");
    let mut frame = udp(A, 1, B, 2, b"data and more");
    // Give the longer packet the UDP length and checksum of the shorter datagram.
    frame[38..42].copy_from_slice(&short[38..42]);
    assert_eq!(rig.offer_one(&frame), Fate::Out(frame.clone()));
}

#[test]
fn what_cannot_be_checked_is_counted() {
    let mut pool = Pool::new(64, 2048);
    let mut rig = Rig::new(&mut pool, &[("verify", &[])]);
    let pieces = fragments(&udp(A, 1, B, 2, &[7; 100]), 40);
    assert_eq!(rig.offer(&pieces).len(), 3);
    assert_eq!(rig.count("unchecked_fragments"), Some(3));

    // With segments left, the checksum covers a destination address that is not in the IPv6 header
    // yet.
    let udp = [0, 1, 0, 2, 0, 8, 0x12, 0x34];
    let routing = |left| [17, 0, 4, left, 0, 0, 0, 0];
    let en_route = v6_with(43, &[&routing(1)], &udp);
    assert_eq!(rig.offer_one(&en_route), Fate::Out(en_route.clone()));
    assert_eq!(rig.count("unchecked_routing_header"), Some(1));
    let arrived = v6_with(43, &[&routing(0)], &udp);
    assert_eq!(rig.offer_one(&arrived), Fate::Dropped("bad_l4_checksum"));

    let other = v6_with(132, &[], &udp);
    assert_eq!(rig.offer_one(&other), Fate::Out(other.clone()));
    assert_eq!(rig.count("unchecked_other_protocol"), Some(1));
}
