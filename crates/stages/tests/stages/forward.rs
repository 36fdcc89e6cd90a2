// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `forward`.

use crate::frames::*;
use crate::rig::{Fate, Rig, build_error, text, texts};
use linerate_stage_api::params::Value;
use linerate_stage_api::testing::Pool;

fn router() -> [(&'static str, Value); 3] {
    [
        ("source_mac", text("02:00:00:00:00:aa")),
        ("next_hop_mac", text("02:00:00:00:00:bb")),
        (
            "routes",
            texts(&[
                "198.51.100.0/24 via 02:00:00:00:00:cc",
                "2001:db8:2::/48 via 02:00:00:00:00:dd",
            ]),
        ),
    ]
}

#[test]
fn decrements_and_rewrites() {
    let mut pool = Pool::new(4, 2048);
    let mut rig = Rig::new(&mut pool, &[("forward", &router())]);
    let frames = [
        (tcp(A, 1, B, 2, b"data"), 0xbb),
        (udp(A, 1, [198, 51, 100, 9], 2, b"data"), 0xcc),
        (udp6(A6, B6, 2, b"data"), 0xdd),
        (udp6(B6, A6, 2, b"data"), 0xbb),
    ];
    for (frame, hop) in frames {
        let out = rig.offer_one(&frame).out();
        assert_valid(&out);
        let mut expected = frame.clone();
        expected[..12].copy_from_slice(&[2, 0, 0, 0, 0, hop, 2, 0, 0, 0, 0, 0xaa]);
        if frame[12] == 0x08 {
            expected[22] -= 1;
            expected[24..26].copy_from_slice(&out[24..26]);
        } else {
            expected[21] -= 1;
        }
        assert_eq!(out, expected);
    }
}

#[test]
fn every_ttl_keeps_the_checksum_right() {
    let mut pool = Pool::new(4, 2048);
    let mut rig = Rig::new(&mut pool, &[("forward", &router())]);
    for ttl in 0..=255 {
        for last in [3, 77, 200] {
            let frame = frame!(ethernet().ipv4([10, 1, 2, last], B, ttl).udp(1, 2), b"x");
            match rig.offer_one(&frame) {
                Fate::Out(out) => assert_valid(&out),
                Fate::Dropped(cause) => assert_eq!((cause, ttl < 2), ("ttl_expired", true)),
            }
        }
    }
    let v6 = frame!(ethernet().ipv6(A6, B6, 1).udp(1, 2), b"");
    assert_eq!(rig.offer_one(&v6), Fate::Dropped("ttl_expired"));
}

#[test]
fn addresses_that_must_not_be_forwarded() {
    let mut pool = Pool::new(4, 2048);
    let mut rig = Rig::new(&mut pool, &[("forward", &router())]);
    let martians = [[0, 0, 0, 0], [0, 1, 2, 3], [127, 0, 0, 1], [240, 0, 0, 1], [169, 254, 1, 1]];
    for martian in martians {
        let martian_drop = Fate::Dropped("martian");
        assert_eq!(rig.offer_one(&udp(martian, 1, B, 2, b"")), martian_drop, "{martian:?}");
        assert_eq!(rig.offer_one(&udp(A, 1, martian, 2, b"")), martian_drop, "{martian:?}");
    }
    for group in [[224, 0, 0, 5], [239, 255, 255, 255], [255; 4]] {
        assert_eq!(rig.offer_one(&udp(group, 1, B, 2, b"")), Fate::Dropped("martian"));
        assert_eq!(rig.offer_one(&udp(A, 1, group, 2, b"")), Fate::Dropped("not_unicast"));
    }
    for ordinary in [[1, 0, 0, 1], [126, 9, 9, 9], [128, 0, 0, 1], [223, 9, 9, 9], [169, 253, 9, 9]]
    {
        rig.offer_one(&udp(ordinary, 1, ordinary, 2, b"")).out();
    }
    let v6 = |first: u16, last: u8| -> V6 {
        let mut address = [0; 16];
        address[..2].copy_from_slice(&first.to_be_bytes());
        address[15] = last;
        address
    };
    for martian in [v6(0, 0), v6(0, 1), v6(0xfe80, 1), v6(0xfebf, 1)] {
        assert_eq!(rig.offer_one(&udp6(martian, B6, 2, b"")), Fate::Dropped("martian"));
        assert_eq!(rig.offer_one(&udp6(A6, martian, 2, b"")), Fate::Dropped("martian"));
    }
    assert_eq!(rig.offer_one(&udp6(v6(0xff02, 1), B6, 2, b"")), Fate::Dropped("martian"));
    assert_eq!(rig.offer_one(&udp6(A6, v6(0xff02, 1), 2, b"")), Fate::Dropped("not_unicast"));
    rig.offer_one(&udp6(v6(0xfec0, 1), v6(0xfd00, 1), 2, b"")).out();
}

#[test]
fn without_a_default_route() {
    let mut pool = Pool::new(4, 2048);
    let mut given = router();
    given[1].1 = text("");
    let mut rig = Rig::new(&mut pool, &[("forward", &given)]);
    assert_eq!(rig.offer_one(&udp(A, 1, B, 2, b"")), Fate::Dropped("no_route"));
    rig.offer_one(&udp(A, 1, [198, 51, 100, 9], 2, b"")).out();
    given[2].1 = texts(&[]);
    assert!(build_error(("forward", &given)).starts_with("next_hop_mac: no route"));
    given[2].1 = texts(&["10.0.0.0/8 by 02:00:00:00:00:cc"]);
    assert!(build_error(("forward", &given)).contains("PREFIX via MAC"));
}
