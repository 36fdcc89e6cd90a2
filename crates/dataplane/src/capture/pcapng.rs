// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pcapng format (draft-ietf-opsawg-pcapng): blocks with a leading and a trailing length.
//!
//! ```text
//! until the file ends
//!     find the end of the block; if its two lengths differ, stop reading the file
//!     section header        discard the interfaces, use the byte order of this section
//!     interface description store link type, snap length and clock
//!     packet (3 kinds)      find its interface; deliver it, or count the reason for skipping it
//!     anything else         skip
//! ```

use super::input::Input;
use super::{
    ByteOrder, CaptureError, CapturedPacket, Flow, Link, LinkType, PACKET_BYTES_MAX, Scan, Tail,
};
use std::io::Read;
use std::ops::Range;

/// Block type of section headers, which is the same in both byte orders.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const SECTION_HEADER: u32 = u32::from_le_bytes(MAGIC);
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Size of a block without its body: type, length, and trailing length.
const BLOCK_OVERHEAD_BYTES: usize = 12;
const SECTION_HEADER_BYTES: usize = 28;

const OPTION_END: u16 = 0;
const OPTION_IF_TSRESOL: u16 = 9;
const OPTION_IF_FCSLEN: u16 = 13;
const OPTION_IF_TSOFFSET: u16 = 14;

/// A capture interface, as described in the current section of the file.
struct Interface {
    link: Link,
    snap_bytes: u32,
    clock: Clock,
}

/// An interface's clock: resolution and offset.
#[derive(Clone, Copy)]
struct Clock {
    /// The `if_tsresol` byte: a resolution `r` means `10^r` ticks per second or, if the top bit is
    /// set, 2 to the power of the lower seven bits.
    resolution: u8,
    offset_s: i64,
}

impl Clock {
    /// Converts ticks to nanoseconds since 1970-01-01 UTC, saturating.
    fn time_ns(self, ticks: u64) -> u64 {
        let exponent = u32::from(self.resolution & 0x7f);
        let per_second: Option<u128> = match self.resolution & 0x80 {
            0 => 10u128.checked_pow(exponent),
            _ => Some(1 << exponent),
        };
        // If 10^exponent does not fit in 128 bits, the quotient is 0, because 2^64 * 10^9 < 10^29 <
        // 2^128.
        let since_offset = per_second.map_or(0, |n| u128::from(ticks) * 1_000_000_000 / n);
        let time = since_offset as i128 + i128::from(self.offset_s) * 1_000_000_000;
        time.clamp(0, u64::MAX.into()) as u64
    }
}

/// The next item in a pcapng file.
enum Found {
    /// A block: its type, and the range of its body in the buffer.
    Block(u32, Range<usize>),
    /// A non-packet block that was skipped because it is too long to buffer.
    Skipped,
    End,
    Broken(Tail),
}

/// State of the current section that is needed to read the blocks that follow.
struct Section {
    order: ByteOrder,
    /// Interfaces described so far; `None` for an interface whose description is invalid.
    interfaces: Vec<Option<Interface>>,
    /// Time of the previous packet, in nanoseconds.
    time_ns: u64,
}

/// A packet and its location in its block.
struct Packet {
    link: Link,
    time_ns: u64,
    original_bytes: u32,
    /// Range of the packet within the block's body.
    at: Range<usize>,
}

/// Reads a pcapng file and passes its packets to the callback. The first 4 bytes of the file are
/// already in the buffer.
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
    /// Reads the next item, whose first bytes may already be in the buffer.
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

    /// Processes the block at `at` in the buffer, delivering its packet if it has one.
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

    /// Iterates over options as pairs of code and value. Stops at an option that extends beyond its
    /// block.
    fn options<'b>(&self, mut rest: &'b [u8]) -> impl Iterator<Item = (u16, &'b [u8])> + use<'b> {
        let order = self.order;
        std::iter::from_fn(move || {
            let (code, bytes) = (order.u16(rest, 0)?, usize::from(order.u16(rest, 2)?));
            let value = rest.get(4..4 + bytes)?;
            rest = rest.get(4 + bytes.next_multiple_of(4)..).unwrap_or_default();
            (code != OPTION_END).then_some((code, value))
        })
    }

    /// Returns the length of the FCS at the end of each packet of an interface.
    fn fcs_bytes(&self, options: &[u8]) -> u8 {
        let mut given = self.options(options).filter(|(code, _)| *code == OPTION_IF_FCSLEN);
        given.next().and_then(|(_, value)| value.first().copied()).unwrap_or(0)
    }

    /// Returns the clock described by an interface's options. By default, a clock counts
    /// microseconds since 1970.
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

    /// Parses an enhanced or obsolete packet block. Fields: interface (and drops), time, captured
    /// length, original length, frame.
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

    /// Parses a simple packet block, which always belongs to the first interface. Fields: original
    /// length, frame.
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
