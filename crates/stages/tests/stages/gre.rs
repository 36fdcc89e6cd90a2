// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `gre_encap`, `gre_encap_sequenced` and `gre_decap`.

use crate::frames::*;
use crate::rig::{Fate, Rig, text};
use etherparse::{Ipv4Header, VlanId};
use linerate_stage_api::params::Value;
use linerate_stage_api::testing::Pool;

const LOCAL: &str = "203.0.113.1";
const REMOTE: &str = "203.0.113.9";

fn encap(key: i64) -> Vec<(&'static str, Value)> {
    vec![("local", text(LOCAL)), ("remote", text(REMOTE)), ("key", Value::Integer(key))]
}

/// Returns the parameters of `gre_decap` at the other end of the tunnel that [`encap`] enters.
fn decap(key: i64) -> Vec<(&'static str, Value)> {
    vec![("local", text(REMOTE)), ("remote", text(LOCAL)), ("key", Value::Integer(key))]
}

fn inner_frames() -> Vec<Vec<u8>> {
    let id = VlanId::try_new(5).unwrap();
    vec![
        tcp(A, 1, B, 2, b"data"),
        udp(A, 1, B, 2, &[7; 1000]),
        udp6(A6, B6, 2, b"data"),
        frame!(ethernet().single_vlan(id).ipv4(A, B, 9).udp(1, 2), b"x"),
        frame!(ethernet().double_vlan(id, id).ipv6(A6, B6, 9).udp(1, 2), b"x"),
    ]
}

/// Checks a frame's outer headers. Returns the IPv4 header, and the bytes from the GRE header on.
fn outer(frame: &[u8], l3: usize) -> (Ipv4Header, &[u8]) {
    assert_eq!(frame[l3 - 2..l3], [8, 0]);
    let (ip, rest) = Ipv4Header::from_slice(&frame[l3..]).expect("the outer header is complete");
    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    assert_eq!(usize::from(ip.total_len), frame.len() - l3);
    assert_eq!((ip.source, ip.destination), ([203, 0, 113, 1], [203, 0, 113, 9]));
    assert_eq!((ip.protocol.0, ip.time_to_live, ip.identification), (47, 64, 0));
    assert!(ip.dont_fragment && !ip.is_fragmenting_payload());
    (ip, rest)
}

#[test]
fn encapsulation_round_trips() {
    for key in [-1, 0, 0xffff_ffff] {
        for kind in ["gre_encap", "gre_encap_sequenced"] {
            let mut pool = Pool::new(8, 2048);
            let stages = [(kind, &encap(key)[..]), ("gre_decap", &decap(key)[..])];
            let mut rig = Rig::new(&mut pool, &stages);
            for frame in inner_frames() {
                let padded = [frame.clone(), vec![0; 9]].concat();
                assert_eq!(rig.offer_one(&padded), Fate::Out(frame));
            }
            assert_eq!(rig.count("untouched"), Some(0));
        }
    }
}

#[test]
fn outer_headers() {
    let mut pool = Pool::new(8, 2048);
    let mut rig = Rig::new(&mut pool, &[("gre_encap", &encap(-1))]);
    for (frame, l3) in inner_frames().iter().zip([14, 14, 14, 18, 22]) {
        let out = rig.offer_one(frame).out();
        assert_eq!(out[..l3 - 2], frame[..l3 - 2]);
        let (_, gre) = outer(&out, l3);
        assert_eq!(gre[..2], [0, 0]);
        assert_eq!(gre[2..4], frame[l3 - 2..l3]);
        assert_eq!(gre[4..], frame[l3..]);
    }
    let mut rig_pool = Pool::new(8, 2048);
    let mut keyed = Rig::new(&mut rig_pool, &[("gre_encap_sequenced", &encap(0x0102_0304))]);
    for number in 0..3 {
        let out = keyed.offer_one(&inner_frames()[0]).out();
        let (_, gre) = outer(&out, 14);
        assert_eq!(gre[..12], [0x30, 0, 8, 0, 1, 2, 3, 4, 0, 0, 0, number]);
        assert_eq!(gre[12..], inner_frames()[0][14..]);
    }
}

#[test]
fn service_is_copied_out() {
    let mut pool = Pool::new(8, 2048);
    let mut rig = Rig::new(&mut pool, &[("gre_encap", &encap(-1))]);
    let (mut v4, mut v6) = (tcp(A, 1, B, 2, b"data"), udp6(A6, B6, 2, b"data"));
    v4[15] = 0xb9;
    (v6[14], v6[15]) = (0x6b, 0x9f);
    for frame in [v4, v6] {
        assert_eq!(rig.offer_one(&frame).out()[15], 0xb9);
    }
}

#[test]
fn the_mtu_is_kept() {
    let mut pool = Pool::new(8, 2048);
    let mut rig = Rig::new(&mut pool, &[("gre_encap", &encap(-1))]);
    let longest = udp(A, 1, B, 2, &[0; 1500 - 24 - 28]);
    assert_eq!(rig.offer_one(&longest).out().len(), 1514);
    let longer = udp(A, 1, B, 2, &[0; 1500 - 24 - 27]);
    assert_eq!(rig.offer_one(&longer), Fate::Dropped("too_big"));
}

#[test]
fn headroom_runs_out() {
    // 128 bytes of headroom hold five outer headers of 24 bytes.
    let mut pool = Pool::new(8, 2048);
    let given = encap(-1);
    let stages = [("gre_encap", &given[..]); 6];
    let frame = tcp(A, 1, B, 2, b"data");
    let mut rig = Rig::new(&mut pool, &stages[..5]);
    assert_eq!(rig.offer_one(&frame).out().len(), frame.len() + 120);
    let mut pool = Pool::new(8, 2048);
    let mut rig = Rig::new(&mut pool, &stages);
    assert_eq!(rig.offer_one(&frame), Fate::Dropped("no_headroom"));
}

/// Returns a hand-built GRE packet; `gre` is its GRE header.
fn gre(source: V4, tos: u8, gre: &[u8], payload: &[u8]) -> Vec<u8> {
    let bytes = gre.len() + payload.len();
    let mut ip =
        Ipv4Header::new(bytes as u16, 64, etherparse::IpNumber::GRE, source, [203, 0, 113, 9])
            .unwrap();
    (ip.dscp, ip.ecn) = ((tos >> 2).try_into().unwrap(), (tos & 3).try_into().unwrap());
    ip.header_checksum = ip.calc_header_checksum();
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0], &ip.to_bytes()[..], gre, payload].concat()
}

const PEER: V4 = [203, 0, 113, 1];

#[test]
fn refusals() {
    let mut pool = Pool::new(8, 2048);
    let mut rig = Rig::new(&mut pool, &[("gre_decap", &decap(7))]);
    let inner = &udp(A, 1, B, 2, b"data")[14..];
    let mut fate = |header: &[u8]| match rig.offer_one(&gre(PEER, 0, header, inner)) {
        Fate::Out(_) => "out",
        Fate::Dropped(cause) => cause,
    };
    assert_eq!(fate(&[0x20, 0, 8, 0, 0, 0, 0, 7]), "out");
    assert_eq!(fate(&[0x20, 0, 8, 0, 0, 0, 0, 8]), "bad_key");
    assert_eq!(fate(&[0, 0, 8, 0]), "bad_key");
    assert_eq!(fate(&[0x60, 0, 8, 0, 0, 0, 0, 7]), "bad_flags");
    assert_eq!(fate(&[0x28, 0, 8, 0, 0, 0, 0, 7]), "bad_flags");
    assert_eq!(fate(&[0x24, 0, 8, 0, 0, 0, 0, 7]), "bad_flags");
    assert_eq!(fate(&[0x20, 1, 8, 0, 0, 0, 0, 7]), "bad_flags");
    // Reserved bits are ignored (RFC 2784, 2.2).
    assert_eq!(fate(&[0x22, 0xf8, 8, 0, 0, 0, 0, 7]), "out");
    assert_eq!(fate(&[0x20, 0, 0x88, 0x47, 0, 0, 0, 7]), "bad_protocol");
    assert_eq!(fate(&[0xa0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 7]), "bad_checksum");
    assert_eq!(fate(&[0x20, 0, 0x86, 0xdd, 0, 0, 0, 7]), "cut_header");
    let stranger = gre([203, 0, 113, 2], 0, &[0x20, 0, 8, 0, 0, 0, 0, 7], inner);
    assert_eq!(rig.offer_one(&stranger), Fate::Dropped("unknown_peer"));
    let whole = gre(PEER, 0, &[0x20, 0, 8, 0, 0, 0, 0, 7], inner);
    for piece in fragments(&whole, 16) {
        assert_eq!(rig.offer_one(&piece), Fate::Dropped("fragment"));
    }
    for frame in [udp(A, 1, B, 2, b""), gre(PEER, 0, &[], b"")] {
        let fate = rig.offer_one(&frame);
        let expected = if frame[23] == 47 { Fate::Dropped("cut_header") } else { Fate::Out(frame) };
        assert_eq!(fate, expected);
    }
    assert_eq!(rig.count("untouched"), Some(1));
}

#[test]
fn a_right_checksum_is_accepted_with_a_sequence_number() {
    let mut pool = Pool::new(8, 2048);
    let mut rig = Rig::new(&mut pool, &[("gre_decap", &decap(-1))]);
    let inner = udp(A, 1, B, 2, b"odd");
    let mut header = [0x90, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 99];
    let mut sum = 0u32;
    for pair in [&header[..], &inner[14..]].concat().chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |o| u32::from(*o));
    }
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[4..6].copy_from_slice(&sum.to_be_bytes());
    let mut expected = inner.clone();
    expected[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    assert_eq!(rig.offer_one(&gre(PEER, 0, &header, &inner[14..])), Fate::Out(expected));
}

#[test]
fn congestion_is_carried_in() {
    let mut pool = Pool::new(8, 2048);
    let mut rig = Rig::new(&mut pool, &[("gre_decap", &decap(-1))]);
    // RFC 6040, figure 4: the ECN field after decapsulation, with a row per inner field and a
    // column per outer field; `None` if the packet is dropped.
    let table = [
        [Some(0), Some(0), Some(0), None],
        [Some(1), Some(1), Some(1), Some(3)],
        [Some(2), Some(1), Some(2), Some(3)],
        [Some(3), Some(3), Some(3), Some(3)],
    ];
    for (inner, row) in table.into_iter().enumerate() {
        for (outer, expected) in row.into_iter().enumerate() {
            let mut ip = Ipv4Header::new(8, 64, etherparse::IpNumber::UDP, A, B).unwrap();
            ip.ecn = (inner as u8).try_into().unwrap();
            let ip = etherparse::IpHeaders::Ipv4(ip, etherparse::Ipv4Extensions::default());
            let v4 = frame!(ethernet().ip(ip).udp(1, 2), b"");
            let mut v6 = udp6(A6, B6, 2, b"data");
            v6[15] |= (inner as u8) << 4;
            for (frame, ethertype) in [(v4, [8, 0]), (v6, [0x86, 0xdd])] {
                let header = [0, 0, ethertype[0], ethertype[1]];
                match (rig.offer_one(&gre(PEER, outer as u8, &header, &frame[14..])), expected) {
                    (Fate::Out(out), Some(ecn)) => {
                        assert_valid(&out);
                        let shift = if ethertype[0] == 8 { 0 } else { 4 };
                        assert_eq!(out[15] >> shift & 3, ecn);
                    }
                    (Fate::Dropped(cause), None) => assert_eq!(cause, "congestion"),
                    (fate, _) => panic!("{inner} in {outer}: {fate:?}"),
                }
            }
        }
    }
}
