// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access-side packets: what is written can be parsed, and invalid packets are rejected by cause.

use linerate_rlp::frame::{
    ByteRange, FRAME_HEADER_BYTES, Fault, Frame, MAX_FRAME_BYTES, MAX_RANGES, NakList,
    PACKET_HEADER_BYTES, Writer, is_access, parse,
};
use proptest::prelude::*;

const ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

/// An owned frame, for comparison.
#[derive(Clone, Debug, PartialEq)]
enum Plain {
    Data(u32, Vec<u8>, bool),
    Idle(u32),
    Nak(Vec<ByteRange>),
}

fn plain(frame: Frame<'_>) -> Plain {
    match frame {
        Frame::Data { sequence, bytes, again } => Plain::Data(sequence, bytes.to_vec(), again),
        Frame::Idle { sequence } => Plain::Idle(sequence),
        Frame::Nak(ranges) => Plain::Nak(ranges.iter().collect()),
    }
}

/// Generates ascending, disjoint ranges from distances and lengths.
fn ranges() -> impl Strategy<Value = Vec<ByteRange>> {
    let steps = prop::collection::vec((0..9_000_u32, 1..9_000_u32), 1..=MAX_RANGES);
    (any::<u32>(), steps).prop_map(|(first, steps)| {
        let mut at = first;
        let place = |(gap, bytes)| {
            let first = at.wrapping_add(gap);
            at = first.wrapping_add(bytes);
            ByteRange { first, bytes }
        };
        steps.into_iter().map(place).collect()
    })
}

fn frames() -> impl Strategy<Value = Vec<Plain>> {
    let bytes = prop::collection::vec(any::<u8>(), 1..MAX_FRAME_BYTES);
    let frame = prop_oneof![
        (any::<u32>(), bytes, any::<bool>()).prop_map(|(n, o, again)| Plain::Data(n, o, again)),
        any::<u32>().prop_map(Plain::Idle),
        ranges().prop_map(Plain::Nak),
    ];
    prop::collection::vec(frame, 0..12)
}

fn list(ranges: &[ByteRange]) -> NakList {
    let mut list = NakList::default();
    assert!(ranges.iter().all(|range| list.push(*range)));
    list
}

fn write(writer: &mut Writer<'_>, frame: &Plain) -> bool {
    match frame {
        Plain::Data(sequence, bytes, again) => {
            let (head, tail) = bytes.split_at(bytes.len() / 3);
            writer.data(*sequence, [head, tail], *again)
        }
        Plain::Idle(sequence) => writer.idle(*sequence),
        Plain::Nak(ranges) => writer.nak(&list(ranges)),
    }
}

proptest! {
    #[test]
    fn what_fits_is_written_and_read(frames in frames(), room in 22..6_000_usize, session: u32) {
        let mut packet = vec![0xa5; room];
        let mut writer = Writer::new(&mut packet).expect("room for the header");
        let written: Vec<Plain> =
            frames.into_iter().filter(|frame| write(&mut writer, frame)).collect();
        prop_assert_eq!(usize::from(writer.frames()), written.len());
        let bytes = writer.finish(&ETHERNET, session);
        prop_assert!(packet[bytes..].iter().all(|byte| *byte == 0xa5), "nothing behind it");
        let access = parse(&packet).expect("in order");
        prop_assert_eq!(access.session, session);
        let read: Result<Vec<_>, _> = access.frames().map(|frame| frame.map(plain)).collect();
        prop_assert_eq!(read, Ok(written));
        for cut in [0, 13, 14, 21, bytes - 1] {
            prop_assert!(parse(&packet[..cut.min(bytes - 1)]).is_err());
        }
    }

    #[test]
    fn a_list_is_ascending_and_apart(
        ranges in prop::collection::vec((0..100_u32, 0..9_u32), 0..60), first: u32,
    ) {
        let mut list = NakList::default();
        let mut end = 0;
        for (at, bytes) in ranges {
            let range = ByteRange { first: first.wrapping_add(at), bytes };
            let is_empty = list.ranges().is_empty();
            let fits = bytes > 0 && list.ranges().len() < MAX_RANGES && (is_empty || at >= end);
            prop_assert_eq!(list.push(range), fits);
            if fits { end = at + bytes; }
        }
    }

    /// Arbitrary bytes after a valid header are parsed or rejected, and never read beyond the end.
    #[test]
    fn whatever_comes_is_read_or_refused(
        count: u8, bytes in prop::collection::vec(prop_oneof![0..5_u8, any::<u8>()], 0..200),
    ) {
        let packet = raw(count, &bytes);
        let access = parse(&packet).expect("the header is in order");
        let mut used = 0;
        let mut read = 0;
        for frame in access.frames() {
            let Ok(frame) = frame else { break };
            used += FRAME_HEADER_BYTES + match frame {
                Frame::Data { bytes, .. } => bytes.len(),
                Frame::Idle { .. } => 0,
                Frame::Nak(ranges) => 8 * ranges.iter().count(),
            };
            read += 1;
        }
        prop_assert!(used <= bytes.len() && read <= usize::from(count));
    }
}

/// Returns a packet with arbitrary bytes after a valid header.
fn raw(count: u8, bytes: &[u8]) -> Vec<u8> {
    let mut packet = ETHERNET.to_vec();
    packet.extend([0x88, 0xb5, 1, count]);
    packet.extend((bytes.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0, 9]);
    packet.extend(bytes);
    packet
}

/// Returns the fault at which iteration over the frames ends.
fn fault(count: u8, bytes: &[u8]) -> Option<Fault> {
    parse(&raw(count, bytes)).expect("the header is in order").frames().find_map(Result::err)
}

#[test]
fn each_fault_of_a_frame_is_named() {
    let idle = [3, 0, 0, 0, 1, 2, 3, 4];
    assert_eq!(fault(1, &idle), None);
    assert_eq!(fault(0, &idle), Some(Fault::BadHeader), "bytes of no frame");
    assert_eq!(fault(2, &idle), Some(Fault::Cut), "a frame of no bytes");
    assert_eq!(fault(1, &idle[..7]), Some(Fault::Cut));
    assert_eq!(fault(1, &[3, 1, 0, 0, 1, 2, 3, 4]), Some(Fault::BadHeader));
    assert_eq!(fault(1, &[3, 0, 0, 1, 1, 2, 3, 4, 5]), Some(Fault::BadLength));
    assert_eq!(fault(1, &[0, 0, 0, 0, 1, 2, 3, 4]), Some(Fault::BadKind));
    assert_eq!(fault(1, &[5, 0, 0, 0, 1, 2, 3, 4]), Some(Fault::BadKind));
    assert_eq!(fault(1, &[1, 0, 0, 0, 1, 2, 3, 4]), Some(Fault::BadLength));
    assert_eq!(fault(1, &[1, 0, 0, 2, 1, 2, 3, 4, 5]), Some(Fault::Cut));
    let long = [&[2, 0, 4, 1, 1, 2, 3, 4][..], &[0; MAX_FRAME_BYTES + 1]].concat();
    assert_eq!(fault(1, &long), Some(Fault::BadLength));
}

#[test]
fn each_fault_of_a_list_is_named() {
    let nak = |number: u32, ranges: &[[u32; 2]]| {
        let mut bytes = vec![4, 0];
        bytes.extend((ranges.len() as u16 * 8).to_be_bytes());
        bytes.extend(number.to_be_bytes());
        bytes.extend(ranges.iter().flatten().flat_map(|word| word.to_be_bytes()));
        fault(1, &bytes)
    };
    assert_eq!(nak(0, &[[5, 1], [6, 1], [u32::MAX / 2, 1]]), None);
    assert_eq!(nak(0, &[[u32::MAX, 1], [0, 1]]), None, "numbers go round");
    assert_eq!(nak(1, &[[5, 1]]), Some(Fault::BadHeader));
    assert_eq!(nak(0, &[]), Some(Fault::BadNak));
    assert_eq!(nak(0, &[[5, 0]]), Some(Fault::BadNak));
    assert_eq!(nak(0, &[[5, 2], [6, 1]]), Some(Fault::BadNak), "one into the other");
    assert_eq!(nak(0, &[[5, 2], [3, 1]]), Some(Fault::BadNak), "out of order");
    assert_eq!(nak(0, &[[5, u32::MAX]]), Some(Fault::BadNak));
    assert_eq!(nak(0, &[[5, 1], [6, 1 << 31]]), Some(Fault::BadNak));
    assert_eq!(nak(0, &[[5, 1], [4 + (1 << 31), 1]]), None);
    assert_eq!(nak(0, &[[5, 1], [5 + (1 << 31), 1]]), Some(Fault::BadNak));
    let many: Vec<[u32; 2]> = (0..=MAX_RANGES as u32).map(|at| [2 * at, 1]).collect();
    assert_eq!(nak(0, &many[1..]), None);
    assert_eq!(nak(0, &many), Some(Fault::BadNak));
    let odd = [4, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 7];
    assert_eq!(fault(1, &odd), Some(Fault::BadNak));
}

#[test]
fn each_fault_of_a_packet_is_named() {
    let packet = raw(0, &[]);
    assert_eq!(parse(&packet).map(|access| access.session), Ok(9));
    assert_eq!(packet.len(), PACKET_HEADER_BYTES);
    let fault = |at: usize, byte| {
        let mut other = packet.clone();
        other[at] = byte;
        parse(&other).map(|_| ()).expect_err("a fault")
    };
    assert_eq!(fault(12, 8), Fault::NotAccess);
    assert_eq!(fault(14, 2), Fault::BadVersion);
    assert_eq!(fault(17, 1), Fault::Cut);
    assert!(!is_access(&packet[..13]) && is_access(&packet[..14]));
    assert_eq!(parse(&packet[..21]).map(|_| ()), Err(Fault::Cut));
}

#[test]
fn a_writer_refuses_what_does_not_fit() {
    assert!(Writer::new(&mut [0; PACKET_HEADER_BYTES - 1]).is_none());
    let mut packet = vec![0; 70_000];
    let mut writer = Writer::new(&mut packet).expect("room");
    assert!(!writer.data(0, [&[], &[]], false));
    assert!(!writer.data(0, [&[1], &[0; MAX_FRAME_BYTES]], false));
    assert!(!writer.nak(&NakList::default()));
    let full = [0; MAX_FRAME_BYTES];
    let fits = (0..100).take_while(|_| writer.data(0, [&full, &[]], true)).count();
    assert_eq!(fits, usize::from(u16::MAX) / (MAX_FRAME_BYTES + FRAME_HEADER_BYTES));
    assert_eq!(parse(&vec![0; 3][..]).map(|_| ()), Err(Fault::NotAccess));
    let mut small = vec![0; 70_000];
    let mut writer = Writer::new(&mut small).expect("room");
    assert_eq!((0..300).filter(|_| writer.idle(1)).count(), 255, "frames are counted in 8 bits");
}
