// SPDX-License-Identifier: MIT OR Apache-2.0
//! A10 packets, checked with the crate etherparse where possible.

use etherparse::Ipv4HeaderSlice;
use linerate_rlp::envelope::{Ends, Envelope, Fault, HEADER_BYTES, parse, write_header};
use proptest::prelude::*;

const ENDS: Ends =
    Ends { ethernet: [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], ipv4: [192, 0, 2, 1, 198, 51, 100, 7] };

fn packet(key: u32, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut header = [0xa5; HEADER_BYTES];
    assert!(write_header(&mut header, &ENDS, key, sequence, payload.len()));
    [&header, payload].concat()
}

/// Applies a change to a valid packet and corrects the IPv4 checksum.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = packet(7, 8, &[9; 30]);
    change(&mut packet);
    let bytes = usize::from(packet.get(14).unwrap_or(&0) & 0x0f) * 4;
    if let Some(header) = packet.get_mut(14..14 + bytes)
        && bytes >= 20
    {
        header[10..12].fill(0);
        let sum: u32 =
            header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let folded = (folded & 0xffff) + (folded >> 16);
        header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    }
    packet
}

#[test]
fn each_fault_is_named() {
    let fault = |change: fn(&mut Vec<u8>)| parse(&changed(change)).expect_err("a fault");
    assert_eq!(fault(|p| p.truncate(13)), Fault::CutHeader);
    assert_eq!(fault(|p| p[12] = 0x86), Fault::NotIpv4);
    assert_eq!(fault(|p| p.truncate(33)), Fault::CutHeader);
    assert_eq!(fault(|p| p[14] = 0x65), Fault::BadHeader);
    assert_eq!(fault(|p| p[14] = 0x44), Fault::BadHeader);
    assert_eq!(fault(|p| p[16..18].copy_from_slice(&19_u16.to_be_bytes())), Fault::BadHeader);
    assert_eq!(fault(|p| p.truncate(75)), Fault::BadHeader);
    assert_eq!(fault(|p| p[20] = 0x20), Fault::Fragment);
    assert_eq!(fault(|p| p[21] = 1), Fault::Fragment);
    assert_eq!(fault(|p| p[23] = 17), Fault::NotGre);
    assert_eq!(fault(|p| p[16..18].copy_from_slice(&31_u16.to_be_bytes())), Fault::CutHeader);
    for bit in (0..16).filter(|bit| ![2, 3].contains(bit)) {
        let other = changed(|p| p[34 + bit / 8] ^= 0x80 >> (bit % 8));
        assert_eq!(parse(&other), Err(Fault::BadFlags), "bit {bit} is set");
    }
    assert_eq!(fault(|p| p[34] = 0x20), Fault::BadFlags);
    assert_eq!(fault(|p| p[34] = 0x10), Fault::BadFlags);
    assert_eq!(fault(|p| p[36..38].copy_from_slice(&[0x88, 0xd2])), Fault::BadProtocol);
    let mut damaged = packet(7, 8, &[9; 30]);
    damaged[24] ^= 1;
    assert_eq!(parse(&damaged), Err(Fault::BadChecksum));
    assert!(parse(&changed(|_| ())).is_ok());
}

#[test]
fn options_are_skipped_and_padding_is_left_alone() {
    let with_options = changed(|p| {
        p[14] = 0x46;
        p[16..18].copy_from_slice(&66_u16.to_be_bytes());
        p.splice(34..34, [1; 4]);
        p.extend([0xee; 10]);
    });
    let found = parse(&with_options).expect("in order");
    assert_eq!(found, Envelope { key: 7, sequence: 8, payload: 50..80 });
    assert_eq!(with_options[50..80], [9; 30]);
}

#[test]
fn more_than_a_packet_holds_is_not_written() {
    let mut header = [0xa5; HEADER_BYTES];
    assert!(!write_header(&mut header, &ENDS, 1, 2, 65_536 - 32));
    assert_eq!(header, [0xa5; HEADER_BYTES]);
    assert!(write_header(&mut header, &ENDS, 1, 2, 65_535 - 32));
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        key: u32,
        sequence: u32,
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        padding in 0..30_usize,
    ) {
        let mut packet = packet(key, sequence, &bytes);
        packet.resize(packet.len() + padding, 0);
        let end = HEADER_BYTES + bytes.len();
        let expected = Envelope { key, sequence, payload: HEADER_BYTES..end };
        prop_assert_eq!(parse(&packet), Ok(expected));
        let header = Ipv4HeaderSlice::from_slice(&packet[14..]).expect("etherparse reads it");
        prop_assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
        prop_assert_eq!(usize::from(header.total_len()), end - 14);
        prop_assert_eq!([header.source(), header.destination()].concat(), ENDS.ipv4);
    }

    #[test]
    fn one_wrong_bit_in_the_ip_header_is_found(bit in 0..160_usize) {
        let mut packet = packet(7, 8, &[9; 30]);
        packet[14 + bit / 8] ^= 1 << (bit % 8);
        prop_assert!(parse(&packet).is_err());
    }

    /// Arbitrary bytes never cause a panic; if they parse, the payload is within the frame and
    /// etherparse accepts the headers.
    #[test]
    fn whatever_comes_is_read_or_refused(
        places in prop::collection::vec((0..90_usize, any::<u8>()), 0..4), cut in 0..90_usize,
    ) {
        let packet = changed(|p| {
            for (at, byte) in places {
                if let Some(old) = p.get_mut(at) { *old = byte; }
            }
        });
        let packet = &packet[..cut.min(packet.len())];
        if let Ok(found) = parse(packet) {
            let header = Ipv4HeaderSlice::from_slice(&packet[14..]).expect("etherparse reads it");
            prop_assert_eq!(header.protocol().0, 47);
            prop_assert!(!header.is_fragmenting_payload());
            let start = 14 + header.slice().len() + 12;
            prop_assert_eq!(found.payload, start..14 + usize::from(header.total_len()));
            prop_assert_eq!(&packet[start - 12..start - 8], &[0x30, 0, 0x88, 0x81]);
        }
    }
}
