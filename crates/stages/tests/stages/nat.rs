// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `nat44` in both directions, for every distribution of buckets over replicas, against a
//! slow model.

use crate::frames::*;
use crate::rig::{Fate, Rig, build_error, text};
use linerate_stage_api::BUCKETS;
use linerate_stage_api::params::Value;
use linerate_stage_api::testing::Pool;
use std::collections::{BTreeSet, HashMap};

const POOL: V4 = [198, 51, 100, 8];

fn nat(outside: &str, flows: i64, full: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("inside", text("10.0.0.0/8")),
        ("outside", text(outside)),
        ("flows", Value::Integer(flows)),
        ("full", text(full)),
    ]
}

/// Runs `test` with a NAT that has one outside address with all of its ports.
fn with_nat(test: impl FnOnce(&mut Rig<'_>)) {
    let given = nat("198.51.100.8", 64_512, "evict");
    let mut pool = Pool::new(8, 2048);
    test(&mut Rig::new(&mut pool, &[("nat44", &given)]));
}

/// Returns the reply to a packet: source and destination are swapped, and an ICMP echo request
/// becomes an echo reply.
fn answer(frame: &[u8], payload: &[u8]) -> Vec<u8> {
    let ((s, sp), (d, dp)) = ends(frame);
    match frame[23] {
        6 => tcp(d, dp, s, sp, payload),
        17 => udp(d, dp, s, sp, payload),
        _ => echo_reply(d, s, sp, payload),
    }
}

#[test]
fn there_and_back() {
    with_nat(|rig| {
        for bytes in [0, 1, 2, 100, 999] {
            let payload = Random(bytes).bytes(bytes as usize);
            for frame in [
                tcp(A, 1000, B, 80, &payload),
                udp(A, 1000, B, 53, &payload),
                echo(A, B, 1000, &payload),
            ] {
                let out = rig.offer_one(&frame).out();
                assert_valid(&out);
                let ((source, port), destination) = ends(&out);
                assert_eq!(source, POOL);
                assert!(port >= 1024);
                if frame[23] != 1 {
                    assert_eq!(destination, ends(&frame).1);
                }
                let back = rig.offer_one(&answer(&out, &payload)).out();
                assert_valid(&back);
                assert_eq!(back, answer(&frame, &payload));
            }
        }
        assert_eq!(rig.count("mappings_made"), Some(3));
        assert_eq!(rig.count("outbound"), Some(15));
        assert_eq!(rig.count("inbound"), Some(15));
    });
}

#[test]
fn mapping_and_filtering_do_not_depend_on_the_peer() {
    with_nat(|rig| {
        let first = ends(&rig.offer_one(&udp(A, 1000, B, 53, b"")).out()).0;
        let other_peer = ends(&rig.offer_one(&udp(A, 1000, [8, 8, 8, 8], 9, b"")).out()).0;
        assert_eq!(first, other_peer);
        let stranger = udp([9, 9, 9, 9], 7, first.0, first.1, b"in");
        assert_eq!(ends(&rig.offer_one(&stranger).out()).1, (A, 1000));
        // TCP and UDP are mapped separately.
        let stranger = tcp([9, 9, 9, 9], 7, first.0, first.1, b"in");
        assert_eq!(rig.offer_one(&stranger), Fate::Dropped("no_mapping"));
    });
}

#[test]
fn what_is_not_translated() {
    with_nat(|rig| {
        let inside: V4 = [10, 9, 9, 9];
        for frame in [
            udp(A, 1, inside, 2, b""),
            udp(B, 1, A, 2, b""),
            udp(B, 1, [9, 9, 9, 9], 2, b""),
            udp6(A6, B6, 1, b""),
        ] {
            assert_eq!(rig.offer_one(&frame), Fate::Out(frame.clone()));
        }
        assert_eq!(rig.count("untouched"), Some(4));
        let mut sctp = udp(A, 1, B, 2, b"");
        sctp[23] = 132;
        let hairpin = udp(A, 1, POOL, 2, b"");
        let drops = [
            (hairpin, "hairpin"),
            (sctp, "not_translatable"),
            (udp(A, 1, [224, 0, 0, 251], 2, b""), "not_translatable"),
            (echo_reply(A, B, 5, b""), "not_translatable"),
            (echo(B, POOL, 1024, b""), "not_translatable"),
            (udp(B, 1, POOL, 2000, b""), "no_mapping"),
            (udp(B, 1, POOL, 80, b""), "no_mapping"),
        ];
        for (frame, cause) in drops {
            assert_eq!(rig.offer_one(&frame), Fate::Dropped(cause));
        }
    });
}

#[test]
fn udp_checksums_of_zero() {
    with_nat(|rig| {
        let mut none = udp(A, 1000, B, 53, b"data");
        none[40..42].fill(0);
        let out = rig.offer_one(&none).out();
        assert_eq!(out[40..42], [0, 0]);
        let mut back = answer(&out, b"data");
        back[40..42].fill(0);
        assert_eq!(rig.offer_one(&back).out()[40..42], [0, 0]);
        // For one value of the 16-bit payload word, the checksum comes out as zero.
        let mut ones = 0;
        for word in 0..=u16::MAX {
            let mut frame = udp(A, 1000, B, 53, &[0, 0]);
            let sum = u32::from(u16::from_be_bytes([frame[40], frame[41]])) + u32::from(!word);
            frame[42..44].copy_from_slice(&word.to_be_bytes());
            let sum = ((sum & 0xffff) + (sum >> 16)) as u16;
            frame[40..42].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
            if word % 997 == 0 {
                assert_valid(&frame);
            }
            let out = rig.offer_one(&frame).out();
            assert_ne!(out[40..42], [0, 0], "{word}");
            if out[40..42] == [0xff, 0xff] {
                ones += 1;
                assert_valid(&out);
            }
        }
        assert!(ones >= 1);
    });
}

#[test]
fn fragments_leave_in_any_order_and_do_not_enter() {
    with_nat(|rig| {
        let whole = udp(A, 1000, B, 53, &Random(5).bytes(200));
        let mapped = rig.offer_one(&whole).out();
        let mut pieces = fragments(&whole, 64);
        pieces.rotate_left(2);
        let mut out: Vec<_> = pieces.iter().map(|piece| rig.offer_one(piece).out()).collect();
        out.rotate_right(2);
        // Together, the fragments are the complete translated packet, including its checksum.
        let payload: Vec<u8> = out.iter().flat_map(|piece| piece[34..].to_vec()).collect();
        assert_eq!(payload, mapped[34..]);
        for piece in &out {
            assert_eq!(ends(piece).0.0, POOL);
            assert_valid(piece);
        }
        for piece in fragments(&answer(&mapped, &[1; 100]), 64) {
            assert_eq!(rig.offer_one(&piece), Fate::Dropped("fragment"));
        }
    });
}

#[test]
fn errors_about_packets_that_left() {
    with_nat(|rig| {
        let router = [172, 30, 0, 1];
        for frame in
            [tcp(A, 1000, B, 80, b"data"), udp(A, 1000, B, 53, b"data"), echo(A, B, 1000, b"data")]
        {
            let out = rig.offer_one(&frame).out();
            for bytes in [28, 40, 48, 500] {
                for icmp_type in [3, 11, 12] {
                    let error = icmp_error(router, POOL, icmp_type, &out, bytes);
                    let back = rig.offer_one(&error).out();
                    assert_valid(&back);
                    // The result must be the error that the inside host would have received without
                    // NAT.
                    assert_eq!(back, icmp_error(router, A, icmp_type, &frame, bytes));
                }
            }
            // A redirect must not be forwarded; a truncated or damaged quote is useless.
            let refused = Fate::Dropped("not_translatable");
            assert_eq!(rig.offer_one(&icmp_error(router, POOL, 5, &out, 28)), refused);
            assert_eq!(rig.offer_one(&icmp_error(router, POOL, 3, &out, 27)), refused);
            let mut damaged = out.clone();
            damaged[22] ^= 1;
            assert_eq!(rig.offer_one(&icmp_error(router, POOL, 3, &damaged, 28)), refused);
        }
        let unknown = udp(POOL, 4000, B, 53, b"");
        let error = icmp_error(router, POOL, 3, &unknown, 28);
        assert_eq!(rig.offer_one(&error), Fate::Dropped("no_mapping"));
        // The quoted source must be the address the error is sent to.
        let foreign = udp([9, 9, 9, 9], 4000, B, 53, b"");
        let error = icmp_error(router, POOL, 3, &foreign, 28);
        assert_eq!(rig.offer_one(&error), Fate::Dropped("not_translatable"));
    });
}

#[test]
fn errors_about_packets_that_came_in() {
    with_nat(|rig| {
        for frame in
            [tcp(A, 1000, B, 80, b"data"), udp(A, 1000, B, 53, b"data"), echo(A, B, 1000, b"data")]
        {
            let outside = answer(&rig.offer_one(&frame).out(), b"data");
            let inside = rig.offer_one(&outside).out();
            // The error is from the host itself, or from an inside router without a mapping.
            for sender in [A, [10, 77, 0, 1]] {
                let error = icmp_error(sender, B, 3, &inside, 48);
                let out = rig.offer_one(&error).out();
                assert_valid(&out);
                assert_eq!(out, icmp_error(POOL, B, 3, &outside, 48));
            }
        }
        let error = icmp_error(A, B, 3, &udp(B, 53, A, 4321, b""), 28);
        assert_eq!(rig.offer_one(&error), Fate::Dropped("no_mapping"));
        let error = icmp_error(A, B, 3, &udp(B, 53, [9, 9, 9, 9], 4321, b""), 28);
        assert_eq!(rig.offer_one(&error), Fate::Dropped("not_translatable"));
    });
}

/// The owner of a port, and the time of its last use.
type Owner = ((V4, u16), u64);

/// A model of the NAT: one list of port owners per group of ports, searched linearly.
struct Model {
    /// The owner of each position, by bucket, pool address and protocol.
    groups: HashMap<(u16, V4, u8), Vec<Owner>>,
    clock: u64,
    positions: usize,
    evict: bool,
}

impl Model {
    /// Returns the outside port of `inside`. `bucket` and `outside` (the pool address) are those
    /// that the stage uses for the inside address.
    fn map(&mut self, inside: (V4, u16), protocol: u8, bucket: u16, outside: V4) -> Option<u16> {
        self.clock += 1;
        let owners = self.groups.entry((bucket, outside, protocol)).or_default();
        let position = match owners.iter().position(|(owner, _)| *owner == inside) {
            Some(position) => position,
            None if owners.len() < self.positions => {
                owners.push((inside, 0));
                owners.len() - 1
            }
            None if self.evict => (0..owners.len()).min_by_key(|i| owners[*i].1).unwrap(),
            None => return None,
        };
        owners[position] = (inside, self.clock);
        Some(1024 + bucket + 128 * position as u16)
    }

    fn owner(&self, outside: (V4, u16), protocol: u8) -> Option<(V4, u16)> {
        let group = self.groups.get(&(outside.1 % 128, outside.0, protocol))?;
        let position = usize::from(outside.1.checked_sub(1024)? / 128);
        group.get(position).map(|(owner, _)| *owner)
    }
}

/// Returns a random packet. Most are from one of a few inside endpoints; the others are to ports of
/// the pool.
fn random_packet(random: &mut Random, hosts: u32, ports: u32) -> Vec<u8> {
    let inside = [10, 0, random.below(hosts) as u8, 1];
    let port = 1000 + random.below(ports) as u16;
    let pool_address = [198, 51, 100, 8 + random.below(2) as u8];
    let pool_port = 1024 + random.below(2000) as u16;
    match random.below(8) {
        0 | 1 => tcp(inside, port, B, 80, b"x"),
        2 | 3 => udp(inside, port, B, 53, b"x"),
        4 => echo(inside, B, port, b"x"),
        5 => tcp(B, 80, pool_address, pool_port, b"x"),
        6 => udp(B, 53, pool_address, pool_port, b"x"),
        _ => echo_reply(B, pool_address, pool_port, b"x"),
    }
}

#[test]
fn equals_a_slow_model() {
    // With 512 flows over 256 groups per protocol, a group has only two ports, so groups run out of
    // ports.
    for (flows, full, seed) in [(64_512, "evict", 1), (512, "evict", 2), (512, "drop", 3)] {
        let given = nat("198.51.100.8/31", flows, full);
        let mut pool = Pool::new(8, 2048);
        let mut rig = Rig::new(&mut pool, &[("nat44", &given)]);
        let mut random = Random(seed);
        let positions = (flows as usize).div_ceil(256).min(504);
        let mut model =
            Model { groups: HashMap::new(), clock: 0, positions, evict: full == "evict" };
        let mut pairs: HashMap<V4, V4> = HashMap::new();
        let mut refused = 0;
        for _ in 0..4000 {
            let frame = random_packet(&mut random, 40, 12);
            let (source, destination) = ends(&frame);
            let fate = rig.offer_one(&frame);
            if source.0[0] == 10 {
                let bucket = u16::from(rig.bucket(&frame));
                let Fate::Out(out) = fate else {
                    assert_eq!(fate, Fate::Dropped("no_ports"));
                    // The model needs the pool address, which is known only after a packet from
                    // this source has been translated.
                    let Some(outside) = pairs.get(&source.0) else {
                        continue;
                    };
                    assert_eq!(model.map(source, frame[23], bucket, *outside), None);
                    refused += 1;
                    continue;
                };
                let outside = ends(&out).0;
                assert_eq!(*pairs.entry(source.0).or_insert(outside.0), outside.0, "pairing");
                assert_eq!(model.map(source, frame[23], bucket, outside.0), Some(outside.1));
                assert_valid(&out);
            } else {
                match (fate, model.owner(destination, frame[23])) {
                    (Fate::Out(out), Some(owner)) => {
                        assert_eq!(ends(&out).1, owner);
                        assert_valid(&out);
                    }
                    (Fate::Dropped("no_mapping"), None) => {}
                    (fate, owner) => panic!("{fate:?}, {owner:?}"),
                }
            }
        }
        let evicted = rig.count("mappings_evicted").unwrap();
        assert_eq!(evicted > 100, flows == 512 && full == "evict", "{evicted}");
        assert_eq!(refused > 100, full == "drop", "{refused}");
        assert_eq!(pairs.values().collect::<BTreeSet<_>>().len(), 2);
    }
}

#[test]
fn replicas_give_the_same_bytes() {
    let given = nat("198.51.100.8/31", 512, "evict");
    let mut random = Random(9);
    let frames: Vec<_> = (0..3000).map(|_| random_packet(&mut random, 200, 20)).collect();
    let run = |replicas: u8, spread: &dyn Fn(u8) -> u8| -> Vec<Fate> {
        let mut pools: Vec<_> = (0..replicas).map(|_| Pool::new(2, 256)).collect();
        let mut rigs: Vec<_> =
            pools.iter_mut().map(|pool| Rig::new(pool, &[("nat44", &given)])).collect();
        let mut offer = |frame: &Vec<u8>| {
            let replica = spread(rigs[0].bucket(frame));
            rigs[usize::from(replica)].offer_one(frame)
        };
        frames.iter().map(&mut offer).collect()
    };
    let one = run(1, &|_| 0);
    assert!(one.iter().filter(|fate| matches!(fate, Fate::Out(_))).count() > 1500);
    assert_eq!(run(2, &|bucket| bucket % 2), one);
    assert_eq!(run(3, &|bucket| bucket % 3), one);
    assert_eq!(run(4, &|bucket| bucket / 32), one);
}

#[test]
fn replies_meet_the_replica_of_their_mapping() {
    with_nat(|rig| {
        let mut buckets = BTreeSet::new();
        for host in 0..=255 {
            let inside = [10, 0, 0, host];
            for frame in
                [tcp(inside, 1, B, 2, b""), udp(inside, 1, B, 2, b""), echo(inside, B, 1, b"")]
            {
                let bucket = rig.bucket(&frame);
                assert!(usize::from(bucket) < BUCKETS);
                let out = rig.offer_one(&frame).out();
                assert_eq!(rig.bucket(&answer(&out, b"")), bucket);
                assert_eq!(rig.bucket(&icmp_error(B, POOL, 3, &out, 28)), bucket);
                let received = rig.offer_one(&answer(&out, b"")).out();
                assert_eq!(rig.bucket(&icmp_error([10, 3, 3, 3], B, 3, &received, 28)), bucket);
                buckets.insert(bucket);
            }
        }
        assert!(buckets.len() > 100, "addresses are spread: {}", buckets.len());
    });
}

#[test]
fn a_packet_in_another_bucket_is_dropped() {
    // The source sees only the outer addresses of a tunnel, and derives the bucket from them.
    let tunnel = [("local", text("203.0.113.1")), ("remote", text("203.0.113.9"))];
    let other_end = [("local", text("203.0.113.9"))];
    let given = nat("198.51.100.8", 64_512, "evict");
    let frame = udp(A, 1000, B, 53, b"");
    let mut pool = Pool::new(4, 2048);
    let mut rig = Rig::new(&mut pool, &[("gre_encap", &tunnel)]);
    let tunnelled = rig.offer_one(&frame).out();
    let mut pool = Pool::new(4, 2048);
    let mut rig = Rig::new(&mut pool, &[("gre_decap", &other_end), ("nat44", &given)]);
    assert_ne!(rig.bucket(&frame), 0);
    rig.offer_one(&frame).out();
    assert_eq!(rig.offer_one(&tunnelled), Fate::Dropped("misdirected"));
}

#[test]
fn wrong_parameters() {
    let error = |inside: &str, outside: &str| {
        build_error(("nat44", &[("inside", text(inside)), ("outside", text(outside))]))
    };
    assert!(error("10.0.0.0/8", "198.51.100.0/27").starts_with("outside: more than 16"));
    assert!(error("10.0.0.0/8", "0.0.0.0/0").starts_with("outside: more than 16"));
    assert!(error("10.0.0.0/8", "10.1.0.0/28").starts_with("outside: overlaps"));
    assert!(error("10.0.0.1", "10.0.0.0/28").starts_with("outside: overlaps"));
    assert!(error("2001:db8::/32", "198.51.100.0").starts_with("inside: "));
}
