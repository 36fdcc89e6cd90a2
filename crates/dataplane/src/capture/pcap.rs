// SPDX-License-Identifier: MIT OR Apache-2.0
//! The classic pcap format (draft-ietf-opsawg-pcap): a header of 24 bytes, then records of 16
//! bytes and a frame each.

use super::{ByteOrder, Capture, CaptureError, CapturedPacket, LinkType, Tail};
use std::io::{self, Write};

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const HEADER_BYTES: usize = 24;
const RECORD_BYTES: usize = 16;
const NS_PER_SECOND: u64 = 1_000_000_000;
/// What tcpdump calls unlimited; no Ethernet frame is longer.
const SNAP_BYTES: u32 = 262_144;

/// What the magic number says.
#[derive(Clone, Copy)]
pub(super) struct Format {
    order: ByteOrder,
    ns_per_tick: u64,
}

impl Format {
    /// The format of `file`, if it is pcap.
    pub(super) fn of(file: &[u8]) -> Option<Self> {
        [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| {
            let ns_per_tick = match order.u32(file, 0)? {
                MAGIC_MICROSECONDS => 1000,
                MAGIC_NANOSECONDS => 1,
                _ => return None,
            };
            Some(Self { order, ns_per_tick })
        })
    }
}

pub(super) fn read(file: &[u8], format: Format) -> Result<Capture<'_>, CaptureError> {
    let Some((header, mut rest)) = file.split_at_checked(HEADER_BYTES) else {
        return Err(CaptureError::HeaderCut(file.len()));
    };
    // The upper half of the field holds the length of the FCS.
    let link = format.order.u32(header, 20).map(|word| LinkType(word as u16));
    if let Some(link) = link.filter(|link| *link != LinkType::ETHERNET) {
        return Err(CaptureError::LinkType(link));
    }
    let mut capture = Capture::default();
    while !rest.is_empty() {
        let Some((packet, after)) = record(rest, format) else {
            capture.break_off(Tail::Truncated, file, rest);
            break;
        };
        capture.packets.push(packet);
        rest = after;
    }
    Ok(capture)
}

/// The record at the front of `rest` and what follows it; `None` when `rest` ends first.
fn record(rest: &[u8], format: Format) -> Option<(CapturedPacket<'_>, &[u8])> {
    let field = |at| format.order.u32(rest, at);
    let time_ns = u64::from(field(0)?) * NS_PER_SECOND + u64::from(field(4)?) * format.ns_per_tick;
    let (captured, original_bytes) = (field(8)?, field(12)?);
    let (bytes, after) = rest[RECORD_BYTES..].split_at_checked(captured as usize)?;
    Some((CapturedPacket { time_ns, original_bytes, bytes }, after))
}

/// Writes Ethernet frames to a pcap file with times in nanoseconds.
///
/// Two writes to the sink per frame, unbuffered; no allocation.
pub struct PcapWriter<W: Write> {
    sink: W,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the header of the file.
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

    /// Writes one frame, captured whole at `time_ns` nanoseconds since 1970-01-01 UTC. The format
    /// has 32 bits for seconds: later than 2106 reads as the last second of its range.
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

    /// Flushes the sink and gives it back.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.flush()?;
        Ok(self.sink)
    }
}
