// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the reader on hand-written and damaged files, with another reader as reference.

use super::*;
use proptest::prelude::*;

/// A packet read from a file, with a copy of its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    time_ns: u64,
    original_bytes: u32,
    bytes: Vec<u8>,
}

fn owned(time_ns: u64, original_bytes: u32, bytes: &[u8]) -> Owned {
    Owned { time_ns, original_bytes, bytes: bytes.to_vec() }
}

/// All packets in a file, with the other results of the scan.
#[derive(Debug)]
struct Whole {
    packets: Vec<Owned>,
    contents: Contents,
}

impl std::ops::Deref for Whole {
    type Target = Contents;

    fn deref(&self) -> &Contents {
        &self.contents
    }
}

fn read(file: &[u8]) -> Result<Whole, CaptureError> {
    let mut packets = Vec::new();
    let contents = scan(file, |packet| {
        packets.push(owned(packet.time_ns, packet.original_bytes, packet.bytes));
        Flow::Continue(())
    })?;
    assert_eq!(contents.packets, packets.len() as u64);
    Ok(Whole { packets, contents })
}

const FRAMES: [(u64, &[u8]); 4] = [
    (1_700_000_000_123_456_000, &[0x11; 60]),
    (1_700_000_000_123_457_000, &[0x22; 61]),
    (1_700_000_001_000_000_000, &[]),
    (1_700_000_001_000_001_000, &[0x33; 66]),
];

/// A file being written, in a given byte order.
struct File {
    bytes: Vec<u8>,
    big: bool,
}

impl File {
    fn new(big: bool) -> Self {
        Self { bytes: Vec::new(), big }
    }

    fn u16(&mut self, number: u16) -> &mut Self {
        self.bytes.extend(if self.big { number.to_be_bytes() } else { number.to_le_bytes() });
        self
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        self.bytes.extend(if self.big { number.to_be_bytes() } else { number.to_le_bytes() });
        self
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn pcap(&mut self, magic: u32, link: u32) -> &mut Self {
        self.u32(magic).u16(2).u16(4).u32(0).u32(0).u32(65535).u32(link)
    }

    fn record(&mut self, seconds: u64, ticks: u64, frame: &[u8]) -> &mut Self {
        let bytes = frame.len() as u32;
        self.u32(seconds as u32).u32(ticks as u32).u32(bytes).u32(bytes).raw(frame)
    }

    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::new(self.big);
        body(&mut inner);
        inner.bytes.resize(inner.bytes.len().next_multiple_of(4), 0);
        let bytes = inner.bytes.len() as u32 + 12;
        self.u32(kind).u32(bytes).raw(&inner.bytes).u32(bytes)
    }

    fn section(&mut self) -> &mut Self {
        self.block(0x0a0d_0d0a, |b| {
            b.u32(0x1a2b_3c4d).u16(1).u16(0).u32(u32::MAX).u32(u32::MAX);
        })
    }

    /// Appends an interface description. `options` are pairs of code and value.
    fn interface(&mut self, link: u16, snap: u32, options: &[(u16, &[u8])]) -> &mut Self {
        self.block(1, |b| {
            b.u16(link).u16(0).u32(snap);
            for (code, value) in options {
                b.u16(*code).u16(value.len() as u16).raw(value);
                b.bytes.resize(b.bytes.len().next_multiple_of(4), 0);
            }
        })
    }

    fn enhanced(&mut self, interface: u32, ticks: u64, frame: &[u8]) -> &mut Self {
        let bytes = frame.len() as u32;
        self.block(6, |b| {
            b.u32(interface).u32((ticks >> 32) as u32).u32(ticks as u32);
            b.u32(bytes).u32(bytes).raw(frame);
        })
    }
}

/// Returns pcap files of `FRAMES` in every byte order and resolution.
fn pcap_files() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for big in [false, true] {
        for (magic, ns_per_tick) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let mut file = File::new(big);
            file.pcap(magic, 1);
            for (time_ns, frame) in FRAMES {
                let ticks = time_ns % 1_000_000_000 / ns_per_tick;
                file.record(time_ns / 1_000_000_000, ticks, frame);
            }
            files.push(file.bytes);
        }
    }
    files
}

/// Returns a pcapng file of `FRAMES` in sections of different byte orders, with all block types.
fn pcapng_file(big: bool) -> Vec<u8> {
    let mut file = File::new(big);
    // Timestamps are in microseconds by default; the second interface uses nanoseconds.
    file.section().interface(1, 0, &[]).interface(1, 0, &[(2, b"veth0"), (9, &[9]), (0, &[])]);
    file.enhanced(0, FRAMES[0].0 / 1000, FRAMES[0].1);
    file.block(0x0bad, |b| {
        b.raw(&[0xff; 9]);
    });
    file.enhanced(1, FRAMES[1].0, FRAMES[1].1);
    let mut second = File::new(!big);
    second.section().interface(1, 64, &[]);
    second.block(2, |b| {
        let ticks = FRAMES[2].0 / 1000;
        b.u16(0).u16(7).u32((ticks >> 32) as u32).u32(ticks as u32).u32(0).u32(0);
    });
    second.block(3, |b| {
        b.u32(66).raw(&FRAMES[3].1[..64]);
    });
    file.raw(&second.bytes);
    file.bytes
}

fn all_files() -> Vec<Vec<u8>> {
    let mut files = pcap_files();
    files.extend([pcapng_file(false), pcapng_file(true)]);
    files
}

#[test]
fn every_pcap_variant_reads_the_same() {
    for file in pcap_files() {
        let capture = read(&file).unwrap();
        let expected = FRAMES.map(|(time_ns, bytes)| owned(time_ns, bytes.len() as u32, bytes));
        assert_eq!(capture.packets, expected);
        assert_eq!(capture.tail, Tail::Whole);
    }
}

#[test]
fn every_pcapng_block_is_read_in_both_orders() {
    for big in [false, true] {
        let file = pcapng_file(big);
        let capture = read(&file).unwrap();
        let expected = [
            (FRAMES[0].0, 60, FRAMES[0].1),
            (FRAMES[1].0, 61, FRAMES[1].1),
            (FRAMES[2].0, 0, FRAMES[2].1),
            // A packet without a timestamp, truncated to the snap length.
            (FRAMES[2].0, 66, &FRAMES[3].1[..64]),
        ]
        .map(|(time_ns, original_bytes, bytes)| owned(time_ns, original_bytes, bytes));
        assert_eq!(capture.packets, expected);
        assert_eq!((capture.damaged_blocks.packets, capture.tail), (0, Tail::Whole));
    }
}

#[test]
fn clocks_follow_their_interface() {
    let read_one = |options: &[(u16, &[u8])], ticks| {
        let mut file = File::new(true);
        file.section().interface(1, 0, options).enhanced(0, ticks, &[1; 14]);
        read(&file.bytes).unwrap().packets[0].time_ns
    };
    assert_eq!(read_one(&[], 5), 5_000);
    assert_eq!(read_one(&[(9, &[0])], 5), 5_000_000_000);
    assert_eq!(read_one(&[(9, &[12])], 5_999), 5);
    // 2^-10 seconds.
    assert_eq!(read_one(&[(9, &[0x8a])], 1536), 1_500_000_000);
    assert_eq!(read_one(&[(9, &[0xff])], u64::MAX), 0);
    assert_eq!(read_one(&[(9, &[0x7f])], u64::MAX), 0);
    assert_eq!(read_one(&[(9, &[0])], u64::MAX), u64::MAX);
    assert_eq!(read_one(&[(14, &100i64.to_be_bytes())], 5), 100_000_005_000);
    assert_eq!(read_one(&[(14, &(-100i64).to_be_bytes())], 5), 0);
    assert_eq!(read_one(&[(9, &[9]), (0, &[]), (9, &[0])], 5), 5, "options end at code 0");
}

#[test]
fn a_cut_file_keeps_the_packets_before_the_cut() {
    for file in all_files() {
        let whole = read(&file).unwrap().packets;
        let is_pcapng = file.starts_with(&pcapng::MAGIC);
        for cut in 0..file.len() {
            match read(&file[..cut]) {
                Ok(capture) => {
                    assert!(whole.starts_with(&capture.packets), "cut to {cut} bytes");
                    assert!(matches!(capture.tail, Tail::Whole | Tail::Truncated));
                    let next = capture.packets.len();
                    let cut_at_block = capture.tail == Tail::Whole;
                    assert!(next < whole.len() || cut_at_block, "cut to {cut} bytes");
                }
                Err(CaptureError::Empty) => assert_eq!(cut, 0),
                Err(CaptureError::NotACapture(first)) => assert!(cut < 4 && first == file[..cut]),
                Err(CaptureError::HeaderCut(bytes)) => {
                    assert!(bytes == cut && cut < if is_pcapng { 28 } else { 24 });
                }
                Err(CaptureError::NoPackets(_)) => assert!(cut < file.len() / 2),
                Err(error) => panic!("cut to {cut} bytes: {error}"),
            }
        }
    }
}

#[test]
fn damage_costs_no_more_than_it_hits() {
    let mut file = File::new(false);
    file.section().interface(1, 0, &[]).interface(105, 0, &[]);
    file.enhanced(0, 1, &[1; 20]);
    // Undeliverable: captured length beyond the block, undescribed interface or link type.
    let at = file.bytes.len();
    file.enhanced(0, 2, &[2; 20]).enhanced(7, 3, &[3; 20]).enhanced(1, 4, &[4; 20]);
    file.bytes[at + 20..at + 24].copy_from_slice(&u32::MAX.to_le_bytes());
    file.block(6, |b| {
        b.u32(0);
    });
    file.block(1, |b| {
        b.u16(1);
    });
    file.enhanced(2, 5, &[5; 20]).enhanced(0, 6, &[6; 20]);
    let read_frames = |bytes: &[u8]| {
        let capture = read(bytes).unwrap();
        let firsts: Vec<u8> = capture.packets.iter().map(|p| p.bytes[0]).collect();
        (firsts, capture.other_link_types.packets, capture.damaged_blocks.packets, capture.tail)
    };
    assert_eq!(read_frames(&file.bytes), (vec![1, 6], 1, 5, Tail::Whole));
    let last = file.bytes.len() - 4;
    for length in [0u32, 11, 53, 56] {
        let mut broken = file.bytes.clone();
        broken[last..].copy_from_slice(&length.to_le_bytes());
        assert_eq!(read_frames(&broken), (vec![1], 1, 5, Tail::Damaged));
    }
}

#[test]
fn giant_lengths_are_a_cut_tail() {
    let mut file = File::new(false);
    file.pcap(0xa1b2_c3d4, 1).record(1, 1, &[1; 60]);
    for (length, tail) in [(u32::MAX, Tail::Damaged), (1 << 20, Tail::Truncated)] {
        let mut file = File { bytes: file.bytes.clone(), big: false };
        file.u32(2).u32(2).u32(length).u32(length).raw(&[2; 60]);
        let capture = read(&file.bytes).unwrap();
        assert_eq!((capture.packets.len(), capture.tail), (1, tail));
        assert_eq!(capture.unread, Some(UnreadTail { offset: 24 + 76, bytes: 76 }));
    }
}

/// Returns a pcap file with one record.
fn pcap_of(magic: u32, link: u32, record: &[u8]) -> Vec<u8> {
    let mut file = File::new(false);
    file.pcap(magic, link);
    match magic == 0xa1b2_cd34 {
        true => {
            let bytes = record.len() as u32;
            file.u32(1).u32(1).u32(bytes).u32(bytes).u32(7).u16(0x0800).u16(0).raw(record);
        }
        false => drop(file.record(1, 1, record)),
    }
    file.bytes
}

#[test]
fn packets_without_an_ethernet_header_get_one() {
    let v4: Vec<u8> = [&[0x45, 0, 0, 40][..], &[7; 36]].concat();
    let v6: Vec<u8> = [&[0x60, 0, 0, 0, 0, 8][..], &[7; 42]].concat();
    let cooked = [0, 0, 0, 1, 0, 6, 10, 11, 12, 13, 14, 15, 0, 0, 8, 0];
    let cooked_2 = [0x86, 0xdd, 0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 10, 11, 12, 13, 14, 15, 0, 0];
    let netlink = [0, 4, 3, 56, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0];
    let ours = [2, 0, 0, 0, 0, 1];
    let sender = [10, 11, 12, 13, 14, 15];
    for (link, header, packet, source) in [
        (113, &cooked[..], &v4, sender),
        (276, &cooked_2[..], &v6, sender),
        (101, &[], &v4, ours),
        (12, &[], &v6, ours),
        (228, &[], &v4, ours),
        (229, &[], &v6, ours),
        (0, &[2, 0, 0, 0], &v4, ours),
        (0, &[0, 0, 0, 30], &v6, ours),
        (108, &[0, 0, 0, 24], &v6, ours),
    ] {
        let ethertype = if packet == &v4 { [8, 0] } else { [0x86, 0xdd] };
        let file = pcap_of(0xa1b2_c3d4, link, &[header, packet].concat());
        let capture = read(&file).unwrap();
        let [found] = &capture.packets[..] else { panic!("{link}: {capture:?}") };
        assert_eq!(found.bytes[6..12], source, "{link}");
        assert_eq!((&found.bytes[12..14], &found.bytes[14..]), (&ethertype[..], &packet[..]));
        assert_eq!((found.original_bytes as usize, capture.framed), (found.bytes.len(), 1));
    }
    for (link, nothing) in
        [(113, &netlink[..]), (113, &cooked[..15]), (0, &[9; 40]), (101, &[0x15])]
    {
        let refused = read(&pcap_of(0xa1b2_c3d4, link, nothing));
        assert!(matches!(refused, Err(CaptureError::LinkType(_))), "{link}: {refused:?}");
    }
}

#[test]
fn check_sequences_are_taken_off() {
    let frame: Vec<u8> = (0..64).collect();
    let pcap = pcap_of(0xa1b2_c3d4, 0x2400_0001, &frame);
    let mut pcapng = File::new(false);
    pcapng.section().interface(1, 0, &[(13, &[4])]).enhanced(0, 1, &frame);
    for file in [pcap, pcapng.bytes] {
        let found = &read(&file).unwrap().packets[0];
        assert_eq!((found.original_bytes, &found.bytes[..]), (60, &frame[..60]));
    }
}

#[test]
fn the_modified_format_has_longer_records() {
    let found = read(&pcap_of(0xa1b2_cd34, 1, &[5; 60])).unwrap();
    assert_eq!((found.packets[0].bytes.len(), found.tail), (60, Tail::Whole));
}

#[test]
fn a_scan_stops_at_its_limit() {
    for file in all_files() {
        let mut seen = 0;
        let contents = scan(&file[..], |_| {
            seen += 1;
            if seen == 2 { Flow::Break(()) } else { Flow::Continue(()) }
        });
        assert_eq!((seen, contents.unwrap().packets), (2, 2));
    }
}

/// Non-packet blocks of any length are skipped without reading the whole file into memory.
#[test]
fn long_blocks_are_passed_over() {
    let mut file = File::new(false);
    file.section().interface(1, 0, &[]);
    file.block(0x0bad, |b| {
        b.raw(&vec![0; PACKET_BYTES_MAX + 4]);
    });
    file.enhanced(0, 1, &[1; 60]);
    let capture = read(&file.bytes).unwrap();
    assert_eq!((capture.packets.len(), capture.tail), (1, Tail::Whole));
}

#[test]
fn errors_say_what_and_what_next() {
    let error = |bytes: &[u8]| read(bytes).unwrap_err();
    assert_eq!(error(&[]), CaptureError::Empty);
    assert!(error(&[0x1f, 0x8b, 8, 0, 0]).to_string().contains("gunzip"));
    let text = error(b"GET / HTTP").to_string();
    assert!(text.contains("[47, 45, 54, 20]") && text.contains("editcap"), "{text}");
    for big in [false, true] {
        let mut raw = File::new(big);
        raw.pcap(0xa1b2_c3d4, 105).record(1, 1, &[0x45; 40]);
        assert_eq!(error(&raw.bytes), CaptureError::LinkType(LinkType(105)));
        let mut cooked = File::new(big);
        cooked.section().interface(113, 0, &[]).enhanced(0, 1, &[0; 40]);
        assert_eq!(error(&cooked.bytes), CaptureError::LinkType(LinkType(113)));
        assert!(error(&cooked.bytes).to_string().contains("Linux cooked (113)"));
        let mut idle = File::new(big);
        idle.section().interface(113, 0, &[]);
        assert_eq!(error(&idle.bytes), CaptureError::NoPackets(Tail::Whole));
    }
}

#[test]
fn what_is_written_is_read() {
    let mut writer = PcapWriter::new(Vec::new()).unwrap();
    for (time_ns, frame) in FRAMES {
        writer.write(time_ns + 1, frame).unwrap();
    }
    let file = writer.finish().unwrap();
    let capture = read(&file).unwrap();
    let read_back: Vec<_> = capture.packets.iter().map(|p| (p.time_ns, &p.bytes[..])).collect();
    assert_eq!(read_back, FRAMES.map(|(time_ns, frame)| (time_ns + 1, frame)));
    assert_eq!(packets_of_peer(&file), read_back);
}

/// Returns the packets as read by the pcap-parser crate, which supports only some tick rates.
fn packets_of_peer(file: &[u8]) -> Vec<(u64, &[u8])> {
    use pcap_parser::{Block, LegacyPcapSlice, PcapBlockOwned, PcapNGSlice};
    let mut packets = Vec::new();
    if file.starts_with(&pcapng::MAGIC) {
        let mut ns_per_tick = Vec::new();
        for block in PcapNGSlice::from_slice(file).unwrap() {
            match block.unwrap() {
                PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                    ns_per_tick.push(1_000_000_000 / interface.ts_resolution().unwrap());
                }
                PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                    let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                    let end = packet.caplen as usize;
                    let time_ns = ticks * ns_per_tick[packet.if_id as usize];
                    packets.push((time_ns, &packet.data[..end]));
                }
                _ => {}
            }
        }
    } else {
        let slice = LegacyPcapSlice::from_slice(file).unwrap();
        let ns_per_tick = if slice.header.is_nanosecond_precision() { 1 } else { 1000 };
        for block in slice {
            if let PcapBlockOwned::Legacy(packet) = block.unwrap() {
                let ticks = u64::from(packet.ts_usec) * ns_per_tick;
                packets.push((u64::from(packet.ts_sec) * 1_000_000_000 + ticks, packet.data));
            }
        }
    }
    packets
}

#[test]
fn another_reader_agrees_on_the_recorded_capture() {
    let file = include_bytes!("../../../../examples/edge.pcapng");
    let capture = read(file).unwrap();
    assert_eq!((capture.damaged_blocks.packets, capture.tail), (0, Tail::Whole));
    let ours: Vec<_> = capture.packets.iter().map(|p| (p.time_ns, &p.bytes[..])).collect();
    assert_eq!(ours, packets_of_peer(file));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Arbitrary bytes yield disjoint packets within the file, in order, or an error, but never a
    /// panic.
    #[test]
    fn damaged_files_never_panic(
        which in 0usize..6,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
        insert in prop::option::of((any::<prop::sample::Index>(), any::<u32>())),
    ) {
        let mut file = all_files().swap_remove(which);
        for (at, byte) in &damage {
            let at = at.index(file.len());
            file[at] = *byte;
        }
        if let Some((at, word)) = insert {
            let at = at.index(file.len());
            file.splice(at..at, word.to_le_bytes());
        }
        file.truncate(cut.index(2 * file.len()).min(file.len()));
        match read(&file) {
            Ok(capture) => assert_within(&capture, &file),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn noise_behind_a_header_never_panics(
        which in 0usize..6,
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut file = all_files().swap_remove(which);
        file.truncate(48);
        file.extend(noise);
        if let Ok(capture) = read(&file) {
            assert_within(&capture, &file);
        }
    }
}

/// Asserts that the packets, without synthetic Ethernet headers, are no longer than the file.
fn assert_within(capture: &Whole, file: &[u8]) {
    let bytes: usize = capture.packets.iter().map(|packet| packet.bytes.len()).sum();
    assert!(bytes <= file.len() + 14 * capture.framed as usize, "packets overlap");
}
