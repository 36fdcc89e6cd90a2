// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the repair of frames, on hand-built segments and on random input.

use super::super::mtu::{MTUS, Mtus};
use super::*;
use proptest::prelude::*;

fn mtus<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Mtus {
    let mut seen = Mtus::default();
    frames.for_each(|frame| seen.see(frame));
    seen
}

fn wire_mtu<'a>(frames: impl Iterator<Item = &'a [u8]>) -> usize {
    mtus(frames).of_wire()
}

/// A minimal TCP segment.
#[derive(Clone, Debug)]
struct Segment {
    v6: bool,
    vlan: bool,
    identification: u16,
    number: u32,
    flags: u8,
    /// TCP options; a multiple of 4 bytes.
    options: Vec<u8>,
    payload: Vec<u8>,
}

/// Computes the RFC 1071 checksum, two bytes at a time.
fn plain_sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

impl Segment {
    fn plain(v6: bool, bytes: usize) -> Self {
        let payload = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
        let (identification, number) = (0xfffe, u32::MAX - 1000);
        Self { v6, vlan: false, identification, number, flags: 0x10, options: vec![], payload }
    }

    fn tcp(&self) -> Vec<u8> {
        let mut tcp = vec![0x12, 0x34, 0, 80];
        tcp.extend(self.number.to_be_bytes());
        tcp.extend([0, 0, 0, 9, ((20 + self.options.len()) as u8 / 4) << 4, self.flags, 1, 0]);
        tcp.extend([0; 4]);
        tcp.extend(&self.options);
        tcp.extend(&self.payload);
        tcp
    }

    fn frame(&self) -> Vec<u8> {
        self.framed(plain_sum)
    }

    /// Returns the frame as a sender passes it to an interface with checksum offload: the checksum
    /// field contains only the sum of the pseudo-header.
    fn unfinished(&self) -> Vec<u8> {
        // The checksummed bytes start with the pseudo-header.
        let pseudo_bytes = if self.v6 { 40 } else { 16 };
        self.framed(|summed| !plain_sum(&summed[..pseudo_bytes]))
    }

    /// Returns the frame with the TCP checksum computed by `sum` over pseudo-header and segment.
    fn framed(&self, sum: impl Fn(&[u8]) -> u16) -> Vec<u8> {
        let mut tcp = self.tcp();
        let (source, destination) = match self.v6 {
            true => (vec![0x20; 16], vec![0x21; 16]),
            false => (vec![10, 0, 0, 1], vec![10, 0, 0, 2]),
        };
        let addresses = [source, destination].concat();
        let mut summed = addresses.clone();
        summed.extend((tcp.len() as u32).to_be_bytes());
        summed.extend([0, 0, 0, 6]);
        summed.extend(&tcp);
        let sum = sum(&summed);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let mut frame = vec![2; 12];
        if self.vlan {
            frame.extend([0x81, 0, 0, 5]);
        }
        if self.v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((tcp.len() as u16).to_be_bytes());
            frame.extend([6, 64]);
            frame.extend(&addresses);
        } else {
            let mut header = vec![0x45, 0];
            header.extend(((tcp.len() + 20) as u16).to_be_bytes());
            header.extend(self.identification.to_be_bytes());
            header.extend([0x40, 0, 64, 6, 0, 0]);
            header.extend(&addresses);
            let sum = plain_sum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend([8, 0]);
            frame.extend(header);
        }
        frame.extend(tcp);
        frame
    }

    /// Returns the segments that an interface would send, with `step` payload bytes each.
    fn cut(&self, step: usize) -> Vec<Vec<u8>> {
        let count = self.payload.len().div_ceil(step);
        let piece = |(index, chunk): (usize, &[u8])| {
            let mut piece = self.clone();
            piece.payload = chunk.to_vec();
            piece.identification = self.identification.wrapping_add(index as u16);
            piece.number = self.number.wrapping_add((index * step) as u32);
            if index + 1 < count {
                piece.flags &= !0x09;
            }
            if index > 0 {
                piece.flags &= !0x80;
            }
            piece.frame()
        };
        self.payload.chunks(step).enumerate().map(piece).collect()
    }
}

fn cut(frame: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
    let joined = Joined::detect(frame, mtu)?;
    let (mut scratch, mut pieces) = (Vec::new(), Vec::new());
    joined.cut(&mut scratch, |piece| pieces.push(piece.to_vec()));
    assert_eq!(pieces.len() as u64, joined.segments());
    Some(pieces)
}

#[test]
fn a_segment_of_the_wire_is_not_cut() {
    for v6 in [false, true] {
        let headers = if v6 { 60 } else { 40 };
        assert_eq!(cut(&Segment::plain(v6, 1500 - headers).frame(), 1500), None);
        let longer = cut(&Segment::plain(v6, 1501 - headers).frame(), 1500).unwrap();
        assert_eq!(longer.iter().map(Vec::len).collect::<Vec<_>>(), [1514, 15 + headers]);
    }
}

#[test]
fn what_no_interface_joins_is_not_cut() {
    let mut odd = vec![];
    for flags in [0x12, 0x14, 0x30] {
        odd.push(Segment { flags, ..Segment::plain(false, 4000) }.frame());
    }
    let plain = Segment::plain(false, 4000).frame();
    let changed = |at: usize, value: u8| {
        let mut frame = plain.clone();
        frame[at] = value;
        frame
    };
    // Frames that must not be split: UDP, a fragment, a length beyond the frame, a TCP header below
    // the minimum length.
    odd.extend([changed(23, 17), changed(20, 0x20), changed(16, 0xff), changed(46, 0x40)]);
    for frame in odd {
        assert_eq!(cut(&frame, 1500), None, "{:?}", &frame[..54]);
    }
}

#[test]
fn a_length_of_zero_means_the_whole_frame() {
    let segment = Segment::plain(false, 4000);
    let mut frame = segment.frame();
    (frame[16], frame[17]) = (0, 0);
    assert_eq!(cut(&frame, 1500), Some(segment.cut(1460)));
}

#[test]
fn the_mtu_is_what_most_syns_announce() {
    let syn = |v6, mss: u16| {
        let [high, low] = mss.to_be_bytes();
        let options = vec![1, 3, 3, 7, 2, 4, high, low];
        Segment { flags: 0x02, options, ..Segment::plain(v6, 0) }.frame()
    };
    let of = |frames: &[Vec<u8>]| wire_mtu(frames.iter().map(Vec::as_slice));
    assert_eq!(of(&[]), 1500);
    assert_eq!(of(&[syn(false, 65_495)]), 1500, "a loopback interface");
    assert_eq!(of(&[syn(false, 8960), syn(true, 8940), syn(false, 1460)]), 9000);
    assert_eq!(of(&[syn(false, 1412)]), 1452);
    let endless = Segment { flags: 2, options: vec![9, 0, 0, 0], ..Segment::plain(false, 0) };
    assert_eq!(of(&[endless.frame(), vec![8; 20]]), 1500);
}

/// A connection uses the smaller of the segment sizes announced by its endpoints. An endpoint whose
/// SYN is missing from the capture is assumed to have announced the link MTU.
#[test]
fn each_connection_has_its_mtu() {
    let syn = |port: u8, mss: u16, is_back: bool| {
        let [high, low] = mss.to_be_bytes();
        let options = vec![2, 4, high, low];
        let mut frame = Segment { flags: 2, options, ..Segment::plain(false, 0) }.frame();
        frame[35] = port;
        if is_back {
            turn(&mut frame);
        }
        frame
    };
    let data = |port: u8, is_back: bool| {
        let mut frame = Segment::plain(false, 0).frame();
        frame[35] = port;
        if is_back {
            turn(&mut frame);
        }
        frame
    };
    let frames = [
        (1, 1460, false),
        (1, 1360, true),
        (2, 8960, false),
        (2, 8960, true),
        (3, 8960, false),
        (4, 1460, false),
        (5, 1460, true),
    ];
    let frames = frames.map(|(port, mss, is_back)| syn(port, mss, is_back));
    let mtus = mtus(frames.iter().map(Vec::as_slice));
    for (port, expected) in [(1, 1400), (2, 9000), (3, 9000), (4, 1500), (5, 1500), (6, 9000)] {
        for is_back in [false, true] {
            assert_eq!(mtus.of(&data(port, is_back)), expected, "{port} {is_back}");
        }
    }
    assert_eq!(mtus.of(&[0; 60]), mtus.of_wire());
}

/// Swaps sender and receiver of a frame without a VLAN tag.
fn turn(frame: &mut [u8]) {
    let (source, destination) = frame[26..34].split_at_mut(4);
    source.swap_with_slice(destination);
    let (source, destination) = frame[34..38].split_at_mut(2);
    source.swap_with_slice(destination);
}

#[test]
fn checksums_left_to_the_interface_are_computed() {
    for (v6, vlan) in [(false, false), (false, true), (true, false), (true, true)] {
        for bytes in [0, 1, 1000, 1440] {
            let segment = Segment { vlan, ..Segment::plain(v6, bytes) };
            let (whole, mut unfinished) = (segment.frame(), segment.unfinished());
            assert_eq!(completed(&unfinished), Some(whole.clone()), "v6 {v6}, {bytes} bytes");
            assert_eq!(completed(&whole), None);
            // Link-layer padding is not part of the checksum.
            unfinished.extend([0xee; 3]);
            let done = completed(&unfinished).expect("left to the interface");
            assert_eq!(done, [&whole[..], &[0xee; 3]].concat());
            let l4 = whole.len() - bytes - 20;
            unfinished[l4 + 16] ^= 0x55;
            assert_eq!(completed(&unfinished), None, "a wrong checksum is not completed");
        }
    }
}

#[test]
fn padding_fills_with_zeros_and_mends_the_checksum() {
    for v6 in [false, true] {
        let mut segment = Segment { options: vec![1; 12], ..Segment::plain(v6, 1200) };
        let captured = segment.frame()[..96].to_vec();
        let header = segment.frame().len() - 1200;
        segment.payload[96 - header..].fill(0);
        assert_eq!(padded(&captured, header + 1200), Some(segment.frame()), "v6 {v6}");
        assert_eq!(padded(&captured[..header - 1], header + 1200), None, "a header is truncated");
        assert_eq!(padded(&captured, 1 << 20), None);
    }
    let arp = [&[0xff; 12][..], &[8, 6], &[1; 20]].concat();
    assert_eq!(padded(&arp, 60).map(|frame| frame.len()), Some(60));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn cut_segments_equal_those_built_one_by_one(
        (v6, vlan) in any::<(bool, bool)>(),
        identification in any::<u16>(),
        number in any::<u32>(),
        flags in any::<u8>(),
        words in 0..=10_usize,
        bytes in 1..20_000_usize,
        mtu in 576..3000_usize,
    ) {
        let segment = Segment {
            vlan,
            identification,
            number,
            flags: flags & !0x26,
            options: vec![1; 4 * words],
            ..Segment::plain(v6, bytes)
        };
        let headers = if v6 { 40 } else { 20 } + 20 + 4 * words;
        let mut frame = segment.frame();
        // Either a complete frame followed by link-layer padding, or a coalesced frame with
        // checksum offload.
        let l4 = frame.len() - bytes - 4 * words - 20;
        frame[l4 + 16] ^= 0x55;
        frame.extend([0xee; 3]);
        let expected = (headers + bytes > mtu).then(|| segment.cut(mtu - headers));
        prop_assert_eq!(cut(&frame, mtu), expected);
    }

    /// Damaged frames are split, padded or left unchanged without panics, and no segment exceeds
    /// the MTU.
    #[test]
    fn damaged_frames_never_panic(
        (v6, vlan) in any::<(bool, bool)>(),
        damage in prop::collection::vec((0..90_usize, any::<u8>()), 0..8),
        kept in 0..3000_usize,
        original in 0..70_000_usize,
    ) {
        let mut frame = Segment { vlan, ..Segment::plain(v6, 2600) }.frame();
        for (at, byte) in damage {
            frame[at] = byte;
        }
        frame.truncate(kept);
        for piece in cut(&frame, 576).into_iter().flatten() {
            prop_assert!(piece.len() <= 576 + 14 + 16, "{} bytes", piece.len());
        }
        if let Some(whole) = completed(&frame) {
            prop_assert_eq!(whole.len(), frame.len());
        }
        if let Some(whole) = padded(&frame, original.max(frame.len())) {
            prop_assert_eq!(whole.len(), original.max(frame.len()));
        }
        let mtu = wire_mtu(std::iter::once(frame.as_slice()));
        prop_assert!(MTUS.contains(&mtu));
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        for ethertype in [[8, 0], [0x86, 0xdd], [0x81, 0]] {
            let frame = [&[2; 12][..], &ethertype, &noise].concat();
            drop(cut(&frame, 20));
            drop(completed(&frame));
            drop(padded(&frame, frame.len() + 9));
        }
    }
}
