// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pcapng format (draft-ietf-opsawg-pcapng): blocks with a leading and a trailing length.
//!
//! ```text
//! until the file ends
//!     frame the block: its two lengths agree, or the rest of the file is given up
//!     section header        forget the interfaces, take the byte order from here on
//!     interface description remember link type, snap length and clock
//!     packet (3 kinds)      look up its interface; keep it, or count why not
//!     anything else         skip
//! ```

use super::input::Input;
use super::{
    ByteOrder, CaptureError, CapturedPacket, Flow, Link, LinkType, PACKET_BYTES_MAX, Scan, Tail,
};
use std::io::Read;
use std::ops::Range;

/// Type of a section header block; identical in both byte orders.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const SECTION_HEADER: u32 = u32::from_le_bytes(MAGIC);
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Bytes of a block other than its body: type, length, and trailing length.
const BLOCK_OVERHEAD_BYTES: usize = 12;
const SECTION_HEADER_BYTES: usize = 28;

const OPTION_END: u16 = 0;
const OPTION_IF_TSRESOL: u16 = 9;
const OPTION_IF_FCSLEN: u16 = 13;
const OPTION_IF_TSOFFSET: u16 = 14;

/// Properties of an interface that packets were recorded on.
struct Interface {
    link: Link,
    snap_bytes: u32,
    clock: Clock,
}

/// Clock of an interface: resolution and offset.
#[derive(Clone, Copy)]
struct Clock {
    /// Ticks per second: 10 to this power or, if the highest bit is set, 2 to the power of the
    /// remaining bits.
    resolution: u8,
    offset_s: i64,
}

impl Clock {
    /// Returns nanoseconds since 1970 at `ticks`, clamped to the range of the type.
    fn time_ns(self, ticks: u64) -> u64 {
        let exponent = u32::from(self.resolution & 0x7f);
        let per_second: Option<u128> = match self.resolution & 0x80 {
            0 => 10u128.checked_pow(exponent),
            _ => Some(1 << exponent),
        };
        // 2^64 * 10^9 < 10^29 < 2^128, so the quotient is 0 if 10^exponent does not fit.
        let since_offset = per_second.map_or(0, |n| u128::from(ticks) * 1_000_000_000 / n);
        let time = since_offset as i128 + i128::from(self.offset_s) * 1_000_000_000;
        time.clamp(0, u64::MAX.into()) as u64
    }
}

/// Next item of a pcapng file.
enum Found {
    /// A block: its type, and the range of its body in the buffer.
    Block(u32, Range<usize>),
    /// A non-packet block that was too long to keep and has been skipped.
    Skipped,
    End,
    Broken(Tail),
}

/// State of the current section, needed for later blocks.
struct Section {
    order: ByteOrder,
    /// The interfaces described so far; `None` for an unreadable description.
    interfaces: Vec<Option<Interface>>,
    /// Time of the previous packet, in nanoseconds.
    time_ns: u64,
}

/// A packet in a block.
struct Packet {
    link: Link,
    time_ns: u64,
    original_bytes: u32,
    /// Range of the packet in the body of the block.
    at: Range<usize>,
}

/// Reads the file, whose first 4 bytes are in the buffer.
pub(super) fn scan<R: Read, F: FnMut(&CapturedPacket<'_>) -> Flow>(
    scan: &mut Scan<R, F>,
) -> Result<(), CaptureError> {
    if !scan.input.take_more(SECTION_HEADER_BYTES - 4)? {
        return Err(CaptureError::HeaderCut(scan.input.buffer().len()));
    }
    let mut section = Section { order: ByteOrder::Little, interfaces: Vec::new(), time_ns: 0 };
    let mut offset = 0;
    loop {
        match section.next_block(&mut scan.input)? {
            Found::End => return Ok(()),
            Found::Broken(tail) => return scan.break_off(tail, offset),
            Found::Skipped => {}
            Found::Block(kind, body) => {
                if section.take(scan, kind, body).is_break() {
                    return Ok(());
                }
            }
        }
        offset = scan.input.offset();
        scan.input.take(0)?;
    }
}

impl Section {
    /// Reads the next item; the buffer may contain its beginning.
    fn next_block<R: Read>(&mut self, input: &mut Input<R>) -> Result<Found, CaptureError> {
        let missing = BLOCK_OVERHEAD_BYTES.saturating_sub(input.buffer().len());
        if !input.take_more(missing)? {
            let is_end = input.buffer().is_empty();
            return Ok(if is_end { Found::End } else { Found::Broken(Tail::Truncated) });
        }
        if input.buffer().starts_with(&MAGIC) {
            self.order = match ByteOrder::Little.u32(input.buffer(), 8) {
                Some(BYTE_ORDER_MAGIC) => ByteOrder::Little,
                Some(word) if word.swap_bytes() == BYTE_ORDER_MAGIC => ByteOrder::Big,
                _ => return Ok(Found::Broken(Tail::Damaged)),
            };
        }
        let order = self.order;
        let kind = order.u32(input.buffer(), 0).unwrap_or_default();
        let bytes = order.u32(input.buffer(), 4).unwrap_or_default() as usize;
        let taken = input.buffer().len();
        if bytes < taken || !bytes.is_multiple_of(4) {
            return Ok(Found::Broken(Tail::Damaged));
        }
        if bytes > PACKET_BYTES_MAX {
            let is_packet = [ENHANCED_PACKET, OBSOLETE_PACKET, SIMPLE_PACKET].contains(&kind);
            return Ok(match is_packet {
                true => Found::Broken(Tail::Damaged),
                false if input.skip((bytes - taken) as u64)? => Found::Skipped,
                false => Found::Broken(Tail::Truncated),
            });
        }
        if !input.take_more(bytes - taken)? {
            return Ok(Found::Broken(Tail::Truncated));
        }
        Ok(match order.u32(input.buffer(), bytes - 4) == order.u32(input.buffer(), 4) {
            true => Found::Block(kind, 8..bytes - 4),
            false => Found::Broken(Tail::Damaged),
        })
    }

    /// Processes the block at `at` in the buffer, and delivers its packet.
    fn take<R: Read, F: FnMut(&CapturedPacket<'_>) -> Flow>(
        &mut self,
        scan: &mut Scan<R, F>,
        kind: u32,
        at: Range<usize>,
    ) -> Flow {
        let body = &scan.input.buffer()[at.clone()];
        let packet = match kind {
            SECTION_HEADER => {
                self.interfaces.clear();
                return Flow::Continue(());
            }
            INTERFACE_DESCRIPTION => {
                let interface = self.interface(body);
                if interface.is_none() {
                    scan.contents.damaged_blocks.add(1, body.len() as u64);
                }
                self.interfaces.push(interface);
                return Flow::Continue(());
            }
            ENHANCED_PACKET => {
                let interface = self.order.u32(body, 0);
                interface.and_then(|i| self.timed_packet(body, i as usize))
            }
            OBSOLETE_PACKET => {
                let interface = self.order.u16(body, 0);
                interface.and_then(|i| self.timed_packet(body, i.into()))
            }
            SIMPLE_PACKET => self.simple_packet(body),
            _ => return Flow::Continue(()),
        };
        let Some(packet) = packet else {
            scan.contents.damaged_blocks.add(1, body.len() as u64);
            return Flow::Continue(());
        };
        self.time_ns = packet.time_ns;
        let within = at.start + packet.at.start..at.start + packet.at.end;
        scan.hand_out(packet.link, packet.time_ns, packet.original_bytes, within)
    }

    fn interface(&self, body: &[u8]) -> Option<Interface> {
        let options = body.get(8..)?;
        let link_type = LinkType(self.order.u16(body, 0)?);
        Some(Interface {
            link: Link { link_type, fcs_bytes: self.fcs_bytes(options) },
            snap_bytes: self.order.u32(body, 4)?,
            clock: self.clock(options),
        })
    }

    /// Returns options as code and value. An option that exceeds its block ends the list.
    fn options<'b>(&self, mut rest: &'b [u8]) -> impl Iterator<Item = (u16, &'b [u8])> + use<'b> {
        let order = self.order;
        std::iter::from_fn(move || {
            let (code, bytes) = (order.u16(rest, 0)?, usize::from(order.u16(rest, 2)?));
            let value = rest.get(4..4 + bytes)?;
            rest = rest.get(4 + bytes.next_multiple_of(4)..).unwrap_or_default();
            (code != OPTION_END).then_some((code, value))
        })
    }

    /// Returns the length of the FCS at the end of each packet recorded on an interface.
    fn fcs_bytes(&self, options: &[u8]) -> u8 {
        let mut given = self.options(options).filter(|(code, _)| *code == OPTION_IF_FCSLEN);
        given.next().and_then(|(_, value)| value.first().copied()).unwrap_or(0)
    }

    /// Returns an interface's clock according to its options: microseconds since 1970 by default.
    fn clock(&self, options: &[u8]) -> Clock {
        let mut clock = Clock { resolution: 6, offset_s: 0 };
        for (code, value) in self.options(options) {
            match code {
                OPTION_IF_TSRESOL => clock.resolution = *value.first().unwrap_or(&6),
                OPTION_IF_TSOFFSET => {
                    clock.offset_s = self.order.u64(value, 0).unwrap_or(0) as i64;
                }
                _ => {}
            }
        }
        clock
    }

    /// Parses an enhanced or obsolete packet block, whose fields are: interface (and drops), time,
    /// captured length, original length, frame.
    fn timed_packet(&self, body: &[u8], interface: usize) -> Option<Packet> {
        let interface = self.interfaces.get(interface)?.as_ref()?;
        let field = |at| self.order.u32(body, at);
        let ticks = u64::from(field(4)?) << 32 | u64::from(field(8)?);
        let (captured, original_bytes) = (field(12)? as usize, field(16)?);
        let at = 20..captured.checked_add(20)?;
        body.get(at.clone())?;
        let time_ns = interface.clock.time_ns(ticks);
        Some(Packet { link: interface.link, time_ns, original_bytes, at })
    }

    /// Parses a simple packet block, whose fields are: original length, frame. It was recorded on
    /// the first interface.
    fn simple_packet(&self, body: &[u8]) -> Option<Packet> {
        let interface = self.interfaces.first()?.as_ref()?;
        let original_bytes = self.order.u32(body, 0)?;
        let captured = match interface.snap_bytes {
            0 => original_bytes,
            snap => original_bytes.min(snap),
        };
        let at = 4..(captured as usize).checked_add(4)?;
        body.get(at.clone())?;
        Some(Packet { link: interface.link, time_ns: self.time_ns, original_bytes, at })
    }
}
