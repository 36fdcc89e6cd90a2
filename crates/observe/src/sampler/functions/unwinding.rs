// SPDX-License-Identifier: MIT OR Apache-2.0
//! Function bounds from `.eh_frame_hdr`, the sorted index for stack unwinding (Linux Standard Base,
//! "DWARF Extensions"), which survives stripping.
//!
//! ```text
//! u8 version = 1, u8 encodings of: address of .eh_frame, number of entries, table
//! address of .eh_frame, number of entries
//! table: (first address of a function, address of its entry in .eh_frame), by first address
//! ```
//!
//! Linkers write the table as pairs of 32-bit offsets from the index itself. Other encodings are
//! not supported.

use object::{Endian, Endianness};
use std::ops::Range;

/// The index of an ELF file.
#[derive(Debug)]
pub(super) struct Unwinding {
    bytes: Vec<u8>,
    order: Endianness,
    /// Address of the index, before relocation.
    address: u64,
    /// Start of the table.
    table: usize,
    /// Number of entries.
    entries: usize,
}

/// DW_EH_PE_datarel | DW_EH_PE_sdata4.
const PAIRS_OF_DISTANCES: u8 = 0x3b;
/// DW_EH_PE_omit.
const OMITTED: u8 = 0xff;
const PAIR_BYTES: usize = 8;
/// Size of the fixed fields at the start of an FDE in `.eh_frame`: length, CIE pointer, function
/// address, function length.
pub(super) const ENTRY_BYTES: u64 = 16;

impl Unwinding {
    /// Parses the index; `None` if it is damaged or its table has another encoding.
    pub(super) fn parse(bytes: Vec<u8>, address: u64, order: Endianness) -> Option<Self> {
        let &[version, frame, count, table] = bytes.first_chunk()?;
        if version != 1 || table != PAIRS_OF_DISTANCES {
            return None;
        }
        let count_at = 4 + encoded_bytes(frame)?;
        let entries = match encoded_bytes(count)? {
            4 => word(&bytes, count_at, order)? as usize,
            _ => return None,
        };
        let table = count_at + 4;
        let room = bytes.len().checked_sub(table)? / PAIR_BYTES;
        Some(Self { address, table, entries: entries.min(room), bytes, order })
    }

    /// Returns the address range of the function that contains `address`, according to its entry.
    /// `read` returns the file's bytes at an address.
    pub(super) fn range_of(
        &self,
        address: u64,
        read: impl Fn(u64) -> Option<Vec<u8>>,
    ) -> Option<Range<u64>> {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.pair(middle)?.0 <= address { low = middle + 1 } else { high = middle }
        }
        let (start, entry_at) = self.pair(low.checked_sub(1)?)?;
        let end = read(entry_at).and_then(|entry| end(&entry, entry_at, start, self.order));
        // If the entry's format is not supported, assume that the function ends where the next one
        // starts.
        let end = end.or_else(|| self.pair(low).map(|next| next.0));
        let range = start..end?;
        range.contains(&address).then_some(range)
    }

    /// Returns the first address of the function at an index of the table, and the address of its
    /// entry in `.eh_frame`.
    fn pair(&self, index: usize) -> Option<(u64, u64)> {
        if index >= self.entries {
            return None;
        }
        let at = self.table + index * PAIR_BYTES;
        let distance = |at| Some(i64::from(word(&self.bytes, at, self.order)? as i32));
        let from_here = |distance: i64| self.address.wrapping_add_signed(distance);
        Some((from_here(distance(at)?), from_here(distance(at + 4)?)))
    }
}

/// Returns the end of the function from an entry with 32-bit relative addresses; `None` if the
/// entry does not match the start.
fn end(entry: &[u8], entry_at: u64, start: u64, order: Endianness) -> Option<u64> {
    let distance = i64::from(word(entry, 8, order)? as i32);
    let said = entry_at.wrapping_add(8).wrapping_add_signed(distance);
    (said == start).then_some(start.checked_add(u64::from(word(entry, 12, order)?))?)
}

fn encoded_bytes(encoding: u8) -> Option<usize> {
    match encoding & 0x0f {
        _ if encoding == OMITTED => None,
        0x02 | 0x0a => Some(2),
        0x03 | 0x0b => Some(4),
        0x04 | 0x0c => Some(8),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize, order: Endianness) -> Option<u32> {
    Some(order.read_u32(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ORDER: Endianness = Endianness::Big;

    /// Returns a big-endian index at 0x1000 with functions at 0x2000 (0x20 bytes) and 0x3000, whose
    /// entries are at 0x5000 and 0x5010.
    fn index() -> Vec<u8> {
        let words = [0u32, 2, 0x1000, 0x4000, 0x2000, 0x4010];
        let bytes = words.iter().flat_map(|word| word.to_be_bytes());
        [1, 0x1b, 0x03, PAIRS_OF_DISTANCES].into_iter().chain(bytes).collect()
    }

    fn entry(at: u64, start: u64, length: u32) -> Vec<u8> {
        let distance = start.wrapping_sub(at + 8) as u32;
        [0, 0, distance, length].iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
    }

    fn read(at: u64) -> Option<Vec<u8>> {
        match at {
            0x5000 => Some(entry(at, 0x2000, 0x20)),
            0x5010 => Some(entry(at, 0x3000, 0x40)),
            _ => None,
        }
    }

    #[test]
    fn functions_are_found_within_their_bounds() {
        let unwinding = Unwinding::parse(index(), 0x1000, ORDER).unwrap();
        let range = |address| unwinding.range_of(address, read);
        assert_eq!(range(0x2000), Some(0x2000..0x2020));
        assert_eq!(range(0x201f), Some(0x2000..0x2020));
        assert_eq!(range(0x2020), None);
        assert_eq!(range(0x303f), Some(0x3000..0x3040));
        assert_eq!(range(0x3040), None);
        assert_eq!(range(0x1fff), None);
    }

    #[test]
    fn without_its_entry_a_function_ends_where_the_next_begins() {
        let unwinding = Unwinding::parse(index(), 0x1000, ORDER).unwrap();
        assert_eq!(unwinding.range_of(0x2fff, |_| None), Some(0x2000..0x3000));
        assert_eq!(unwinding.range_of(0x3000, |_| None), None);
    }

    proptest! {
        #[test]
        fn any_index_is_read(
            damage in prop::collection::vec((0usize..28, any::<u8>()), 0..6),
            length in 0usize..29,
            address: u64,
        ) {
            let mut bytes = index();
            for (at, byte) in damage {
                bytes[at] = byte;
            }
            bytes.truncate(length);
            if let Some(unwinding) = Unwinding::parse(bytes, address, ORDER) {
                let _ = unwinding.range_of(address, read);
            }
        }
    }
}
