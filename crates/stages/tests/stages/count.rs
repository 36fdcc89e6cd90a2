// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `count`.

use crate::frames::*;
use crate::rig::Rig;
use linerate_stage_api::testing::Pool;

#[test]
fn counts_by_version_and_protocol() {
    let mut pool = Pool::new(64, 2048);
    let mut rig = Rig::new(&mut pool, &[("count", &[])]);
    assert_eq!(rig.count("smallest_bytes"), None);
    let frames = [
        tcp(A, 1, B, 2, b"four"),
        udp(A, 1, B, 2, b""),
        udp(A, 1, B, 2, &[0; 1000]),
        echo(A, B, 1, b""),
        tcp6(A6, B6, 1, b""),
        v6_with(132, &[], b"sctp"),
    ];
    assert_eq!(rig.offer(&frames), frames);
    let expected = [
        ("v4_tcp_packets", Some(1)),
        ("v4_tcp_bytes", Some(58)),
        ("v4_udp_packets", Some(2)),
        ("v4_udp_bytes", Some(42 + 1042)),
        ("v4_icmp_packets", Some(1)),
        ("v6_tcp_packets", Some(1)),
        ("v6_tcp_bytes", Some(74)),
        ("v6_other_packets", Some(1)),
        ("v6_udp_packets", None),
        ("unparsed_packets", None),
        ("smallest_bytes", Some(42)),
        ("largest_bytes", Some(1042)),
    ];
    for (name, count) in expected {
        assert_eq!(rig.count(name), count, "{name}");
    }
}
