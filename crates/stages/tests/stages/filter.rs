// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `filter`, compared with a slow interpreter of the same rules.

use crate::frames::*;
use crate::rig::{Fate, Rig, build_error, text, texts};
use linerate_stage_api::testing::Pool;

/// One side of a rule: address and prefix length, then first and last port; `None` for any.
type Side = (Option<(V4, u32)>, Option<(u16, u16)>);

/// A filter rule evaluated by plain comparisons instead of masks.
#[derive(Clone, Debug)]
struct Model {
    permit: bool,
    protocol: Option<u8>,
    /// The source and the destination side.
    sides: [Side; 2],
}

impl Model {
    fn random(random: &mut Random) -> Self {
        let mut protocol = [None, Some(6), Some(17), Some(1)][random.below(4) as usize];
        let mut side = || {
            let prefix = (random.below(3) > 0).then(|| {
                let length = [8, 16, 24, 31, 32][random.below(5) as usize];
                let address = u32::from_be_bytes(address(random));
                ((address & (u32::MAX << (32 - length))).to_be_bytes(), length)
            });
            let ports = (random.below(3) == 0).then(|| {
                let first = random.below(5) as u16;
                (first, first + random.below(3) as u16)
            });
            (prefix, ports)
        };
        let sides = [side(), side()];
        if sides.iter().any(|s| s.1.is_some()) && protocol != Some(17) {
            protocol = Some(6);
        }
        Self { permit: random.below(2) == 0, protocol, sides }
    }

    fn text(&self) -> String {
        let permit = if self.permit { "permit" } else { "deny" };
        let protocol = match self.protocol {
            None => "any".into(),
            Some(6) => "tcp".into(),
            Some(17) => "udp".into(),
            Some(n) => n.to_string(),
        };
        let side = |(prefix, ports): &Side| {
            let prefix = match prefix {
                None => "any".into(),
                Some(([a, b, c, d], 32)) => format!("{a}.{b}.{c}.{d}"),
                Some(([a, b, c, d], length)) => format!("{a}.{b}.{c}.{d}/{length}"),
            };
            match ports {
                None => prefix,
                Some((a, b)) if a == b => format!("{prefix} port {a}"),
                Some((a, b)) => format!("{prefix} port {a}-{b}"),
            }
        };
        format!("{permit} {protocol} from {} to {}", side(&self.sides[0]), side(&self.sides[1]))
    }

    fn matches(&self, protocol: u8, ends: [(V4, u16); 2]) -> bool {
        let inside = |address: V4, prefix: V4, length: u32| {
            (0..length as usize).all(|bit| {
                let byte = |a: V4| a[bit / 8] >> (7 - bit % 8) & 1;
                byte(address) == byte(prefix)
            })
        };
        self.protocol.is_none_or(|p| p == protocol)
            && self.sides.iter().zip(ends).all(|((prefix, ports), (address, port))| {
                prefix.is_none_or(|(p, length)| inside(address, p, length))
                    && ports.is_none_or(|(first, last)| first <= port && port <= last)
            })
    }
}

/// Returns an address from a small set, so that rules match often.
fn address(random: &mut Random) -> V4 {
    [10, random.below(2) as u8, random.below(2) as u8, random.below(4) as u8]
}

#[test]
fn equals_a_slow_reading_of_the_rules() {
    let mut random = Random(1);
    for round in 0..60 {
        let rules: Vec<_> = (0..random.below(20)).map(|_| Model::random(&mut random)).collect();
        let rule_texts: Vec<_> = rules.iter().map(Model::text).collect();
        let rule_refs: Vec<_> = rule_texts.iter().map(String::as_str).collect();
        let default = ["permit", "deny"][round % 2];
        let given = [("rules", texts(&rule_refs)), ("default", text(default))];
        let mut pool = Pool::new(4, 256);
        let mut rig = Rig::new(&mut pool, &[("filter", &given)]);
        for _ in 0..60 {
            let ends = [(); 2].map(|()| (address(&mut random), random.below(7) as u16));
            let [(s, sp), (d, dp)] = ends;
            let (protocol, frame) = match random.below(3) {
                0 => (6, tcp(s, sp, d, dp, b"")),
                1 => (17, udp(s, sp, d, dp, b"")),
                _ => (1, echo(s, d, sp, b"")),
            };
            let first = rules.iter().find(|rule| rule.matches(protocol, ends));
            let permit = first.map_or(default == "permit", |rule| rule.permit);
            let expected = if permit { Fate::Out(frame.clone()) } else { Fate::Dropped("denied") };
            assert_eq!(rig.offer_one(&frame), expected, "{protocol} {ends:?} {rule_texts:#?}");
        }
        let counted: u64 = ["permitted_by_rule", "denied_by_rule", "by_default"]
            .map(|name| rig.count(name).unwrap())
            .iter()
            .sum();
        assert_eq!(counted, 60);
    }
}

#[test]
fn versions_do_not_mix() {
    let rules = [
        "deny tcp from 2001:db8:1::/48 to any port 80",
        "permit any from 10.0.0.0/8 to any",
        "deny icmp6 from any to any",
    ];
    let mut pool = Pool::new(4, 2048);
    let mut rig = Rig::new(&mut pool, &[("filter", &[("rules", texts(&rules))])]);
    let denied = Fate::Dropped("denied");
    assert_eq!(rig.offer_one(&tcp6(A6, B6, 80, b"")), denied);
    rig.offer_one(&tcp6(A6, B6, 81, b"")).out();
    rig.offer_one(&tcp6(B6, A6, 80, b"")).out();
    rig.offer_one(&tcp(A, 80, B, 80, b"")).out();
    let ping = frame!(ethernet().ipv6(A6, B6, 64).icmpv6_echo_request(3, 4), b"");
    assert_eq!(rig.offer_one(&ping), denied);
    assert_eq!(rig.count("permitted_by_rule"), Some(1));
    assert_eq!(rig.count("denied_by_rule"), Some(2));
    assert_eq!(rig.count("by_default"), Some(2));
}

#[test]
fn later_fragments_match_no_ports() {
    let rules = ["permit udp from any to any port 53", "deny any from 10.9.0.0/16 to any"];
    let offer = |policy: &str, source: V4, port: u16| -> Vec<Fate> {
        let given =
            [("rules", texts(&rules)), ("default", text("deny")), ("fragments", text(policy))];
        let mut pool = Pool::new(4, 2048);
        let mut rig = Rig::new(&mut pool, &[("filter", &given)]);
        let pieces = fragments(&udp(source, 9, B, port, &[7; 50]), 32);
        pieces.iter().map(|piece| rig.offer_one(piece)).collect()
    };
    let (denied, refused) = (Fate::Dropped("denied"), Fate::Dropped("fragment"));
    assert!(matches!(offer("permit", A, 53)[..], [Fate::Out(_), Fate::Out(_)]));
    // The verdict on the first fragment depends on its ports, that on the later one on `fragments`.
    assert!(matches!(&offer("permit", A, 54)[..], [first, Fate::Out(_)] if *first == denied));
    assert!(matches!(&offer("deny", A, 53)[..], [Fate::Out(_), later] if *later == refused));
    assert!(matches!(&offer("permit", [10, 9, 0, 1], 53)[..], [Fate::Out(_), l] if *l == denied));
}

#[test]
fn a_fragment_that_could_overwrite_tcp_flags_is_dropped() {
    let mut piece = fragments(&tcp(A, 1, B, 2, &[7; 60]), 40).remove(1);
    let mut pool = Pool::new(4, 2048);
    let rules = ["permit any from any to any"];
    let mut rig = Rig::new(&mut pool, &[("filter", &[("rules", texts(&rules))])]);
    rig.offer_one(&piece).out();
    piece[21] = 1;
    assert_eq!(rig.offer_one(&piece), Fate::Dropped("fragment"));
    let v6 = v6_with(44, &[&[6, 0, 0, 8, 0, 0, 0, 1]], &[0; 20]);
    assert_eq!(rig.offer_one(&v6), Fate::Dropped("fragment"));
    let v6 = v6_with(44, &[&[6, 0, 0, 16, 0, 0, 0, 1]], &[0; 20]);
    rig.offer_one(&v6).out();
}

#[test]
fn a_wrong_rule_is_named() {
    let rules = texts(&["permit any from any to any", "permit tcp from any"]);
    let error = build_error(("filter", &[("rules", rules)]));
    assert_eq!(error, "rules[1]: \"permit tcp from any\" ends too early; expected to");
}
