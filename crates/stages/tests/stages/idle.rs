// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a stage with nothing to do reports why, and that it reports nothing if even one
//! packet gave it something to do.

use crate::frames::*;
use crate::rig::{Rig, text, texts};
use linerate_stage_api::params::Value;
use linerate_stage_api::testing::Pool;

/// Returns two messages of a stage: after two copies of the frame `idle`, and after the frame
/// `busy`, if given.
fn idle_messages(
    kind: &'static str,
    given: &[(&'static str, Value)],
    idle: &[u8],
    busy: Option<Vec<u8>>,
) -> [Option<String>; 2] {
    let mut pool = Pool::new(8, 2048);
    let mut rig = Rig::new(&mut pool, &[(kind, given)]);
    rig.offer(&[idle.to_vec(), idle.to_vec()]);
    let before = rig.idle(2);
    let all = match busy {
        Some(busy) => 2 + rig.offer(&[busy]).len() as u64,
        None => 2,
    };
    [before, rig.idle(all)]
}

#[test]
fn says_which_parameter_matches_no_packet() {
    let inside = [("inside", text("192.168.0.0/16")), ("outside", text("198.51.100.8"))];
    let outbound = udp([192, 168, 0, 1], 1, B, 2, b"");
    assert_eq!(
        idle_messages("nat44", &inside, &udp(A, 1, B, 2, b""), Some(outbound)),
        [
            Some(
                "`inside` = 192.168.0.0/16 matches no source address, and `outside` = \
                 198.51.100.8 matches no destination address"
                    .to_owned()
            ),
            None
        ]
    );
    let rules = [("rules", texts(&["permit tcp from any to any"]))];
    assert_eq!(
        idle_messages("filter", &rules, &udp(A, 1, B, 2, b""), Some(tcp(A, 1, B, 2, b""))),
        [Some("no packet matches the only rule in `rules`".to_owned()), None]
    );
    let none = idle_messages("filter", &[], &udp(A, 1, B, 2, b""), None);
    assert_eq!(none[0].as_deref(), Some("`rules` is empty"));
    let local = [("local", text("198.51.100.8"))];
    let [decap, _] = idle_messages("gre_decap", &local, &udp(A, 1, B, 2, b""), None);
    assert_eq!(decap.as_deref(), Some("no GRE packet is sent to `local` = 198.51.100.8"));
    let l3 = [("l4", Value::Bool(false))];
    let [verify, both] =
        idle_messages("verify", &l3, &tcp6(A6, B6, 1, b""), Some(udp(A, 1, B, 2, b"")));
    assert!(verify.is_some_and(|why| why.contains("IPv6")) && both.is_none());
}

#[test]
fn forward_counts_the_routes_it_used() {
    let mac = "02:00:00:00:00:09";
    let given = [
        ("source_mac", text("02:00:00:00:00:01")),
        ("next_hop_mac", text(mac)),
        (
            "routes",
            texts(&["192.0.2.0/24 via 02:00:00:00:00:0a", "10.0.0.0/8 via 02:00:00:00:00:0b"]),
        ),
    ];
    let mut pool = Pool::new(8, 2048);
    let mut rig = Rig::new(&mut pool, &[("forward", &given)]);
    rig.offer(&[udp(A, 1, B, 2, b""), udp(A, 1, [198, 51, 100, 1], 2, b""), udp(A, 1, B, 3, b"")]);
    let counts = ["by_default_route", "by_route", "routes_used", "routes_unused"];
    assert_eq!(counts.map(|name| rig.count(name)), [Some(1), Some(2), Some(1), Some(1)]);
}
