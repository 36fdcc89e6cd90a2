// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pcapng format (draft-ietf-opsawg-pcapng): blocks, each with its length in front and behind.
//!
//! ```text
//! until the file ends
//!     frame the block: its two lengths agree, or the rest of the file is given up
//!     section header        forget the interfaces, take the byte order from here on
//!     interface description remember link type, snap length and clock
//!     packet (3 kinds)      look up its interface; keep it, or count why not
//!     anything else         skip
//! ```

use super::{ByteOrder, Capture, CaptureError, CapturedPacket, LinkType, Tail};

/// The type of a section header block; it reads the same in both byte orders.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const SECTION_HEADER: u32 = u32::from_le_bytes(MAGIC);
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Type, length, length again.
const BLOCK_OVERHEAD_BYTES: usize = 12;
const SECTION_HEADER_BYTES: usize = 28;

const OPTION_END: u16 = 0;
const OPTION_IF_TSRESOL: u16 = 9;
const OPTION_IF_TSOFFSET: u16 = 14;

/// What packets need to know of the interface they were recorded on.
struct Interface {
    link: LinkType,
    snap_bytes: u32,
    clock: Clock,
}

/// How an interface counts time.
#[derive(Clone, Copy)]
struct Clock {
    /// Ticks per second: 10 to this power, or with the highest bit set 2 to the rest.
    resolution: u8,
    offset_s: i64,
}

impl Clock {
    /// Nanoseconds since 1970 at `ticks`, at the ends of the range when it lies outside.
    fn time_ns(self, ticks: u64) -> u64 {
        let exponent = u32::from(self.resolution & 0x7f);
        let per_second: Option<u128> = match self.resolution & 0x80 {
            0 => 10u128.checked_pow(exponent),
            _ => Some(1 << exponent),
        };
        // 2^64 * 10^9 < 10^29 < 2^128, so where 10^exponent does not fit, the quotient is 0.
        let since_offset = per_second.map_or(0, |n| u128::from(ticks) * 1_000_000_000 / n);
        let time = since_offset as i128 + i128::from(self.offset_s) * 1_000_000_000;
        time.clamp(0, u64::MAX.into()) as u64
    }
}

struct Block<'a> {
    kind: u32,
    body: &'a [u8],
}

struct Reader<'a> {
    order: ByteOrder,
    /// Of the current section; `None` where the description was unreadable.
    interfaces: Vec<Option<Interface>>,
    /// The first link type other than Ethernet that a packet had.
    other_link: Option<LinkType>,
    capture: Capture<'a>,
}

pub(super) fn read(file: &[u8]) -> Result<Capture<'_>, CaptureError> {
    if file.len() < SECTION_HEADER_BYTES {
        return Err(CaptureError::HeaderCut(file.len()));
    }
    let mut reader = Reader {
        order: ByteOrder::Little,
        interfaces: Vec::new(),
        other_link: None,
        capture: Capture::default(),
    };
    let mut rest = file;
    while !rest.is_empty() {
        match reader.next_block(rest) {
            Ok((block, after)) => {
                reader.take(&block);
                rest = after;
            }
            Err(tail) => {
                reader.capture.break_off(tail, file, rest);
                break;
            }
        }
    }
    match reader.other_link {
        Some(link) if reader.capture.packets.is_empty() => Err(CaptureError::LinkType(link)),
        _ => Ok(reader.capture),
    }
}

impl<'a> Reader<'a> {
    /// The block at the front of `rest` and what follows it, or how the file ends here.
    fn next_block(&mut self, rest: &'a [u8]) -> Result<(Block<'a>, &'a [u8]), Tail> {
        let number = |order: ByteOrder, at| order.u32(rest, at).ok_or(Tail::Truncated);
        if rest.starts_with(&MAGIC) {
            self.order = match number(ByteOrder::Little, 8)? {
                BYTE_ORDER_MAGIC => ByteOrder::Little,
                word if word.swap_bytes() == BYTE_ORDER_MAGIC => ByteOrder::Big,
                _ => return Err(Tail::Damaged),
            };
        }
        let kind = number(self.order, 0)?;
        let bytes = number(self.order, 4)? as usize;
        if bytes < BLOCK_OVERHEAD_BYTES || !bytes.is_multiple_of(4) {
            return Err(Tail::Damaged);
        }
        let (block, after) = rest.split_at_checked(bytes).ok_or(Tail::Truncated)?;
        if self.order.u32(block, bytes - 4) != self.order.u32(block, 4) {
            return Err(Tail::Damaged);
        }
        Ok((Block { kind, body: &block[8..bytes - 4] }, after))
    }

    fn take(&mut self, block: &Block<'a>) {
        let packet = match block.kind {
            SECTION_HEADER => return self.interfaces.clear(),
            INTERFACE_DESCRIPTION => {
                let interface = self.interface(block.body);
                if interface.is_none() {
                    self.capture.damaged_blocks.add(1, block.body.len() as u64);
                }
                return self.interfaces.push(interface);
            }
            ENHANCED_PACKET => {
                let interface = self.order.u32(block.body, 0);
                interface.and_then(|i| self.timed_packet(block.body, i as usize))
            }
            OBSOLETE_PACKET => {
                let interface = self.order.u16(block.body, 0);
                interface.and_then(|i| self.timed_packet(block.body, i.into()))
            }
            SIMPLE_PACKET => self.simple_packet(block.body),
            _ => return,
        };
        match packet {
            Some((LinkType::ETHERNET, packet)) => self.capture.packets.push(packet),
            Some((other, packet)) => {
                self.capture.other_link_types.add(1, packet.original_bytes.into());
                self.other_link.get_or_insert(other);
            }
            None => self.capture.damaged_blocks.add(1, block.body.len() as u64),
        }
    }

    fn interface(&self, body: &[u8]) -> Option<Interface> {
        Some(Interface {
            link: LinkType(self.order.u16(body, 0)?),
            snap_bytes: self.order.u32(body, 4)?,
            clock: self.clock(body.get(8..)?),
        })
    }

    /// The clock the options of an interface describe: microseconds since 1970 unless they say
    /// otherwise. An option that does not fit its block ends the list.
    fn clock(&self, mut options: &[u8]) -> Clock {
        let mut clock = Clock { resolution: 6, offset_s: 0 };
        while let (Some(code), Some(bytes)) =
            (self.order.u16(options, 0), self.order.u16(options, 2))
        {
            let bytes = usize::from(bytes);
            let Some(value) = options.get(4..4 + bytes) else {
                break;
            };
            match code {
                OPTION_END => break,
                OPTION_IF_TSRESOL => clock.resolution = *value.first().unwrap_or(&6),
                OPTION_IF_TSOFFSET => {
                    clock.offset_s = self.order.u64(value, 0).unwrap_or(0) as i64;
                }
                _ => {}
            }
            options = options.get(4 + bytes.next_multiple_of(4)..).unwrap_or_default();
        }
        clock
    }

    /// An enhanced or obsolete packet: interface (and drops), time, captured length, length, frame.
    fn timed_packet(
        &self,
        body: &'a [u8],
        interface: usize,
    ) -> Option<(LinkType, CapturedPacket<'a>)> {
        let interface = self.interfaces.get(interface)?.as_ref()?;
        let field = |at| self.order.u32(body, at);
        let ticks = u64::from(field(4)?) << 32 | u64::from(field(8)?);
        let (captured, original_bytes) = (field(12)? as usize, field(16)?);
        let bytes = body.get(20..)?.get(..captured)?;
        let time_ns = interface.clock.time_ns(ticks);
        Some((interface.link, CapturedPacket { time_ns, original_bytes, bytes }))
    }

    /// A simple packet: length, frame, recorded on the first interface.
    fn simple_packet(&self, body: &'a [u8]) -> Option<(LinkType, CapturedPacket<'a>)> {
        let interface = self.interfaces.first()?.as_ref()?;
        let original_bytes = self.order.u32(body, 0)?;
        let captured = match interface.snap_bytes {
            0 => original_bytes,
            snap => original_bytes.min(snap),
        };
        let bytes = body.get(4..)?.get(..captured as usize)?;
        let time_ns = self.capture.packets.last().map_or(0, |packet| packet.time_ns);
        Some((interface.link, CapturedPacket { time_ns, original_bytes, bytes }))
    }
}
