// SPDX-License-Identifier: MIT OR Apache-2.0
//! The classic pcap format (draft-ietf-opsawg-pcap): a 24-byte file header, then one 16-byte header
//! per frame.

use super::{
    ByteOrder, CaptureError, CapturedPacket, Flow, Link, LinkType, PACKET_BYTES_MAX, Scan, Tail,
};
use std::io::{self, Read, Write};

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Magic number of a pcap variant with 24-byte record headers, which some Linux distributions use.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;
const HEADER_BYTES: usize = 24;
const RECORD_BYTES: usize = 16;
const MODIFIED_RECORD_BYTES: usize = 24;
const NS_PER_SECOND: u64 = 1_000_000_000;
/// Snap length with which tcpdump captures whole packets; no Ethernet frame is longer.
const SNAP_BYTES: u32 = 262_144;
/// Flag in the link-type field. If it is set, the top four bits contain the FCS length in units of
/// 2 bytes.
const HAS_FCS: u32 = 1 << 26;

/// Format details encoded in a pcap file's magic number.
#[derive(Clone, Copy)]
pub(super) struct Format {
    order: ByteOrder,
    ns_per_tick: u64,
    record_bytes: usize,
}

impl Format {
    /// Returns the format of a file starting with these bytes; `None` if it is not pcap.
    pub(super) fn from_magic(first: &[u8]) -> Option<Self> {
        [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| {
            let (ns_per_tick, record_bytes) = match order.u32(first, 0)? {
                MAGIC_MICROSECONDS => (1000, RECORD_BYTES),
                MAGIC_NANOSECONDS => (1, RECORD_BYTES),
                MAGIC_MODIFIED => (1000, MODIFIED_RECORD_BYTES),
                _ => return None,
            };
            Some(Self { order, ns_per_tick, record_bytes })
        })
    }

    /// Returns the link type and FCS length from the file header.
    fn link(self, header: &[u8]) -> Link {
        let word = self.order.u32(header, 20).unwrap_or(0);
        let fcs_bytes = if word & HAS_FCS != 0 { (word >> 28) as u8 * 2 } else { 0 };
        Link { link_type: LinkType(word as u16), fcs_bytes }
    }

    /// Returns the timestamp, captured length and original length from a record header.
    fn record(self, header: &[u8]) -> Option<(u64, u32, u32)> {
        let field = |at| self.order.u32(header, at);
        let ns = u64::from(field(4)?) * self.ns_per_tick;
        Some((u64::from(field(0)?) * NS_PER_SECOND + ns, field(8)?, field(12)?))
    }
}

/// Reads a pcap file to its end. The magic number has already been read.
pub(super) fn scan<R: Read, F: FnMut(&CapturedPacket<'_>) -> Flow>(
    scan: &mut Scan<R, F>,
    format: Format,
) -> Result<(), CaptureError> {
    if !scan.input.take_more(HEADER_BYTES - 4)? {
        return Err(CaptureError::HeaderCut(scan.input.buffer().len()));
    }
    let link = format.link(scan.input.buffer());
    if !link.link_type.is_known() {
        return Err(CaptureError::LinkType(link.link_type));
    }
    loop {
        let offset = scan.input.offset();
        let is_whole = scan.input.take(format.record_bytes)?;
        if scan.input.buffer().is_empty() {
            return Ok(());
        }
        let record = format.record(scan.input.buffer()).filter(|_| is_whole);
        let Some((time_ns, captured, original)) = record else {
            return scan.break_off(Tail::Truncated, offset);
        };
        let captured = captured as usize;
        if captured > PACKET_BYTES_MAX {
            return scan.break_off(Tail::Damaged, offset);
        }
        if !scan.input.take(captured)? {
            return scan.break_off(Tail::Truncated, offset);
        }
        if scan.hand_out(link, time_ns, original, 0..captured).is_break() {
            return Ok(());
        }
    }
}

/// Writes Ethernet frames to a pcap file with nanosecond timestamps.
///
/// Each frame takes two writes to the sink, which should be buffered. No memory is allocated.
pub struct PcapWriter<W: Write> {
    sink: W,
}

impl<W: Write> PcapWriter<W> {
    /// Creates a writer and writes the file header.
    pub fn new(mut sink: W) -> io::Result<Self> {
        let mut header = [0; HEADER_BYTES];
        header[0..4].copy_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
        header[4..6].copy_from_slice(&2u16.to_le_bytes());
        header[6..8].copy_from_slice(&4u16.to_le_bytes());
        header[16..20].copy_from_slice(&SNAP_BYTES.to_le_bytes());
        header[20..24].copy_from_slice(&u32::from(LinkType::ETHERNET.0).to_le_bytes());
        sink.write_all(&header)?;
        Ok(Self { sink })
    }

    /// Writes an untruncated frame with its time of capture, in nanoseconds since 1970-01-01 UTC.
    /// The format has only 32 bits for the seconds, so times after 2106 are clamped.
    pub fn write(&mut self, time_ns: u64, frame: &[u8]) -> io::Result<()> {
        let bytes = u32::try_from(frame.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "frame over 4 GiB"))?;
        let seconds = u32::try_from(time_ns / NS_PER_SECOND).unwrap_or(u32::MAX);
        let mut record = [0; RECORD_BYTES];
        record[0..4].copy_from_slice(&seconds.to_le_bytes());
        record[4..8].copy_from_slice(&((time_ns % NS_PER_SECOND) as u32).to_le_bytes());
        record[8..12].copy_from_slice(&bytes.to_le_bytes());
        record[12..16].copy_from_slice(&bytes.to_le_bytes());
        self.sink.write_all(&record)?;
        self.sink.write_all(frame)
    }

    /// Flushes the sink and returns it.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.flush()?;
        Ok(self.sink)
    }
}
