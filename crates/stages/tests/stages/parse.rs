// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `parse`: which frames it accepts and rejects, and whether another parser finds the same
//! headers.

use crate::frames::*;
use crate::rig::{Fate, build};
use etherparse::{SlicedPacket, VlanId};
use linerate_stage_api::testing::Pool;
use linerate_stage_api::{Burst, StageContext};
use linerate_stage_api::{Fragment, Layers};
use proptest::prelude::*;

/// Returns what `parse` finds in each frame: the headers, or the drop cause.
fn parse(frames: &[Vec<u8>]) -> Vec<Result<Layers, &'static str>> {
    let causes = linerate_stages::kind("parse").unwrap().spec.drop_causes;
    let mut stage = build(("parse", &[])).unwrap();
    let mut pool = Pool::new(1, 4096);
    let mut spare = pool.packets(0);
    let (mut burst, mut context) = (Burst::new(), StageContext::default());
    let mut one = |frame: &Vec<u8>| {
        let mut packet = spare.pop().unwrap();
        assert!(packet.fill(frame));
        burst.push(packet);
        let before = context.account.clone();
        stage.process(&mut burst, &mut context);
        let found = burst.iter().next().map(|p| p.meta().layers);
        spare.extend(burst.drain());
        found.ok_or_else(|| {
            let grown = |i: &usize| context.account.drops[*i] != before.drops[*i];
            causes[(0..causes.len()).find(grown).unwrap()]
        })
    };
    frames.iter().map(&mut one).collect()
}

fn parse_one(frame: Vec<u8>) -> Result<Layers, &'static str> {
    parse(&[frame]).remove(0)
}

fn layers(l3: u16, l4: u16, l3_end: usize, ip_version: u8, protocol: u8) -> Layers {
    let fragment = Fragment::Whole;
    Layers { l3, l4, l3_end: l3_end as u16, ip_version, protocol, fragment }
}

#[test]
fn plain_and_tagged_frames() {
    let plain = udp(A, 1, B, 2, b"hello");
    let end = plain.len();
    assert_eq!(parse_one(plain.clone()), Ok(layers(14, 34, end, 4, 17)));
    let mut padded = plain;
    padded.resize(60, 0);
    assert_eq!(parse_one(padded), Ok(layers(14, 34, end, 4, 17)));

    let id = VlanId::try_new(5).unwrap();
    let one = frame!(ethernet().single_vlan(id).ipv4(A, B, 9).tcp(1, 2, 3, 4), b"x");
    assert_eq!(parse_one(one.clone()), Ok(layers(18, 38, one.len(), 4, 6)));
    let two =
        frame!(ethernet().double_vlan(id, id).ipv6(A6, B6, 9).icmpv6_echo_request(1, 2), b"x");
    assert_eq!(parse_one(two.clone()), Ok(layers(22, 62, two.len(), 6, 58)));
    let mut three = two;
    three.splice(12..12, [0x88, 0xa8, 0, 1]);
    assert_eq!(parse_one(three), Err("not_ip"));
}

#[test]
fn options_and_extension_headers() {
    let mut ip = etherparse::Ipv4Header::new(8, 64, etherparse::IpNumber::UDP, A, B).unwrap();
    ip.options = [1u8; 12].as_slice().try_into().unwrap();
    let ip = etherparse::IpHeaders::Ipv4(ip, etherparse::Ipv4Extensions::default());
    let options = frame!(ethernet().ip(ip).udp(1, 2), b"");
    assert_eq!(parse_one(options), Ok(layers(14, 46, 54, 4, 17)));

    let udp = [0, 1, 0, 2, 0, 8, 0, 0];
    let hop_by_hop = [60, 0, 1, 4, 0, 0, 0, 0];
    let destination = [43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let routing = [51, 0, 4, 0, 0, 0, 0, 0];
    let authentication = [17, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    let all: [&[u8]; 4] = [&hop_by_hop, &destination, &routing, &authentication];
    assert_eq!(parse_one(v6_with(0, &all, &udp)), Ok(layers(14, 98, 106, 6, 17)));
    assert_eq!(parse_one(v6_with(59, &[], b"")), Ok(layers(14, 54, 54, 6, 59)));

    // Errors: hop-by-hop options that are not first, and chains that are too long or truncated.
    let again = [0, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(parse_one(v6_with(60, &[&again, &hop_by_hop], &udp)), Err("ext_chain"));
    let more = [60, 0, 1, 4, 0, 0, 0, 0];
    let last = [17, 0, 1, 4, 0, 0, 0, 0];
    let chain = |n: usize| [vec![more.as_slice(); n - 1], vec![last.as_slice()]].concat();
    assert_eq!(parse_one(v6_with(60, &chain(8), &udp)), Ok(layers(14, 118, 126, 6, 17)));
    assert_eq!(parse_one(v6_with(60, &chain(9), &udp)), Err("ext_chain"));
    assert_eq!(parse_one(v6_with(60, &[&more], b"")), Err("cut_header"));
}

#[test]
fn fragments_of_both_versions() {
    let whole = udp(A, 1, B, 2, &[7; 100]);
    let found = parse(&fragments(&whole, 40));
    let kinds: Vec<_> = found.iter().map(|l| l.unwrap().fragment).collect();
    assert_eq!(kinds, [Fragment::First, Fragment::Later, Fragment::Later]);

    let udp = [0, 1, 0, 2, 0, 99, 0, 0];
    let fragment = |offset_and_more: u8| [17, 0, 0, offset_and_more, 0, 0, 0, 1];
    let kind = |byte, payload: &[u8]| parse_one(v6_with(44, &[&fragment(byte)], payload));
    assert_eq!(kind(1, &udp).unwrap().fragment, Fragment::First);
    assert_eq!(kind(8, b"x").unwrap().fragment, Fragment::Later);
    assert_eq!(kind(9, b"x").unwrap().l4, 62);
    // An atomic fragment is a complete packet, so its lengths must be consistent.
    assert_eq!(kind(0, &udp), Err("bad_header"));
    assert_eq!(kind(0, &[0, 1, 0, 2, 0, 8, 0, 0]).unwrap().fragment, Fragment::Whole);
    // A first fragment without the complete transport header, and a fragment within another.
    assert_eq!(kind(1, b"1234567"), Err("cut_header"));
    let nested = [44, 0, 0, 1, 0, 0, 0, 1];
    assert_eq!(parse_one(v6_with(44, &[&nested, &fragment(0)], &udp)), Err("ext_chain"));
    let tiny = &fragments(&tcp(A, 1, B, 2, b"data"), 8)[0];
    assert_eq!(parse_one(tiny.clone()), Err("cut_header"));
}

#[test]
fn refusals() {
    let good = tcp(A, 1, B, 2, b"data");
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        parse_one(frame)
    };
    assert!(parse_one(good.clone()).is_ok());
    assert_eq!(with(13, 0x06), Err("not_ip"));
    assert_eq!(with(14, 0x65), Err("bad_header"), "version");
    assert_eq!(with(14, 0x44), Err("bad_header"), "header length below 5");
    assert_eq!(with(16, 0xff), Err("bad_header"), "total length beyond the frame");
    assert_eq!(with(17, 19), Err("bad_header"), "total length below the header");
    assert_eq!(with(17, 39), Err("cut_header"), "TCP header cut");
    assert_eq!(with(46, 0x40), Err("bad_header"), "data offset below 5");
    assert_eq!(with(46, 0xf0), Err("cut_header"), "data offset beyond the packet");
    let good = udp6(A6, B6, 9, b"data");
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        parse_one(frame)
    };
    assert_eq!(with(14, 0x40), Err("bad_header"), "version");
    assert_eq!(with(19, 13), Err("bad_header"), "payload length beyond the frame");
    assert_eq!(with(59, 7), Err("bad_header"), "UDP length below 8");
    assert_eq!(with(59, 13), Err("bad_header"), "UDP length beyond the packet");
}

#[test]
fn every_truncation_is_refused() {
    let frames = [tcp(A, 1, B, 2, b"data"), udp6(A6, B6, 9, b"data"), echo(A, B, 5, b"data")];
    for whole in frames {
        for bytes in 0..whole.len() {
            let cause = parse_one(whole[..bytes].to_vec()).unwrap_err();
            let expected = match (bytes, whole[12]) {
                (..14, _) | (..34, 0x08) | (..54, 0x86) => "cut_header",
                _ => "bad_header",
            };
            assert_eq!(cause, expected, "{bytes}");
        }
    }
}

/// Checks that `etherparse` finds the same headers.
fn assert_agrees(frame: &[u8], layers: &Layers) {
    let Ok(other) = SlicedPacket::from_ethernet(frame) else {
        // `etherparse` is stricter about extension headers and ICMP lengths, but it must accept the
        // IP header.
        let ip = etherparse::IpSlice::from_slice(&frame[layers.l3.into()..]);
        assert!(ip.is_ok() || layers.l4 > layers.l3 + 20, "{frame:02x?}");
        return;
    };
    let Some(ip) = other.net.and_then(|net| net.ip_payload_ref().cloned()) else {
        panic!("`parse` found IP, but the frame has none: {frame:02x?}");
    };
    let l4 = ip.payload.as_ptr() as usize - frame.as_ptr() as usize;
    let end = l4 + ip.payload.len();
    if layers.fragment != Fragment::Later && layers.protocol != 51 {
        assert_eq!((l4, end), (layers.l4.into(), layers.l3_end.into()), "{frame:02x?}");
        assert_eq!(ip.ip_number.0, layers.protocol, "{frame:02x?}");
    }
    assert_eq!(ip.fragmented, layers.fragment != Fragment::Whole, "{frame:02x?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn agrees_with_another_parser(
        which in 0usize..5,
        changes in prop::collection::vec((12usize..70, any::<u8>()), 0..4),
    ) {
        let mut frame = match which {
            0 => tcp(A, 1, B, 2, b"some data"),
            1 => udp(A, 1, B, 2, &[1; 40]),
            2 => udp6(A6, B6, 5, &[2; 20]),
            3 => echo(A, B, 5, &[3; 30]),
            _ => v6_with(0, &[&[17, 0, 1, 4, 0, 0, 0, 0]], &[0, 1, 0, 2, 0, 8, 0, 0]),
        };
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        if let Ok(layers) = parse_one(frame.clone()) {
            assert_agrees(&frame, &layers);
        }
    }
}

#[test]
fn a_refused_frame_is_counted_with_its_bytes() {
    let mut pool = Pool::new(4, 2048);
    let mut rig = crate::rig::Rig::new(&mut pool, &[]);
    assert_eq!(rig.offer_one(&[0; 60]), Fate::Dropped("not_ip"));
    assert_eq!(rig.offer_one(&[]), Fate::Dropped("cut_header"));
}
