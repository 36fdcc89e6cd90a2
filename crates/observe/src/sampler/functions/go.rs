// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of Go programs from `.gopclntab`, which the run-time system needs and stripping
//! therefore keeps. Go 1.18 or later.
//!
//! ```text
//! u32 magic, u8 0, u8 0, u8 size of the shortest instruction, u8 bytes of a word
//! words: number of functions, number of files, start of the code (older Go only),
//!        offsets of: function names, units, files, tables by address, functions
//! at the offset of functions: for each function, u32 offset of its code, u32 offset of its entry
//!        the offset of the end of the code
//!        entries: u32 offset of the code, i32 offset of the name, ...
//! ```
//!
//! Since Go 1.26, the start of the code is only in the module's description, which refers to this
//! table in its first word. In position-independent programs, the description consists of
//! relocations.

use super::read_at;
use object::{Endian, Endianness};
use std::fs::File;

/// A section of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) address: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// Sections that hold the table.
const TABLES: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Sections that may hold the module's description, the most specific first.
const MODULES: [&str; 4] = [".go.module", ".noptrdata", ".data.rel.ro", ".data"];
const RELOCATIONS: [&str; 2] = [".rela", ".rela.dyn"];
const MAGIC: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Maximum number of bytes to read at once.
const MOST_BYTES: u64 = 32 << 20;
const HEADER_BYTES: u64 = 72;
/// Indices of the words of the module's description that hold the lowest address, the highest
/// address and the start of the code.
const MODULE_WORDS: [u64; 3] = [20, 21, 22];

/// A function of a Go program: its code, and the location of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GoFunction {
    pub(super) start: u64,
    /// End address (exclusive).
    pub(super) end: u64,
    /// File offset of the offset of the function's name.
    pub(super) at: u64,
}

/// The functions of a Go program.
#[derive(Debug)]
pub(super) struct GoTable {
    pub(super) functions: Vec<GoFunction>,
    /// File offset and size of the names.
    names: (u64, u64),
    order: Endianness,
}

impl GoTable {
    /// Returns whether a section is needed by [`Self::read`].
    pub(super) fn needs(name: &str) -> bool {
        [&TABLES[..], &MODULES, &RELOCATIONS].iter().any(|names| names.contains(&name))
    }

    /// Reads the table; `None` if there is none, or if it is damaged or of an unknown version.
    pub(super) fn read(file: &File, places: &[Place], order: Endianness) -> Option<Self> {
        let table = places.iter().find(|place| TABLES.contains(&place.name.as_str()))?;
        let header = read_at(file, table.offset, HEADER_BYTES)?;
        let reader = Words { order, bytes: usize::from(*header.get(7)?) };
        let is_known = MAGIC.contains(&reader.u32(&header, 0)?)
            && header[4..6] == [0, 0]
            && matches!(reader.bytes, 4 | 8);
        let word = |index: usize| reader.word(&header, 8 + index * reader.bytes);
        let (number, names, functions) = (word(0)?, word(3)?, word(7)?);
        let bytes = number.checked_mul(8)?.checked_add(4)?;
        let is_inside =
            |at: u64, bytes: u64| at.checked_add(bytes).is_some_and(|end| end <= table.bytes);
        if !is_known || number == 0 || bytes > MOST_BYTES || !is_inside(functions, bytes) {
            return None;
        }
        let pairs = read_at(file, table.offset.checked_add(functions)?, bytes)?;
        let offset =
            |index: u64| reader.u32(&pairs, usize::try_from(index * 8).ok()?).map(u64::from);
        let ends = (offset(0)?, offset(number)?);
        let module = Module { file, places, reader, table: table.address, ends };
        let start = module.start().or_else(|| word(2).filter(|start| *start > 0))?;
        let function = |index: u64| {
            let entry = u64::from(reader.u32(&pairs, usize::try_from(index * 8 + 4).ok()?)?);
            let at = functions.checked_add(entry)?.checked_add(4)?;
            let (begin, end) = (offset(index)?, offset(index + 1)?);
            let is_valid = begin < end && is_inside(at, 4);
            is_valid.then_some(GoFunction {
                start: start.checked_add(begin)?,
                end: start.checked_add(end)?,
                at: table.offset.checked_add(at)?,
            })
        };
        let names = (table.offset.checked_add(names)?, table.bytes.checked_sub(names)?);
        Some(Self { functions: (0..number).filter_map(function).collect(), names, order })
    }

    /// Returns the file offset of the name of a function.
    pub(super) fn name_at(&self, file: &File, at: u64) -> Option<u64> {
        let word = read_at(file, at, 4)?;
        let offset = u64::from(self.order.read_u32(word.try_into().ok()?));
        (offset < self.names.1).then(|| self.names.0.checked_add(offset))?
    }
}

/// Reads words of a program.
#[derive(Clone, Copy)]
struct Words {
    order: Endianness,
    /// Size of a word.
    bytes: usize,
}

impl Words {
    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        Some(self.order.read_u32(*bytes.get(at..)?.first_chunk()?))
    }

    fn word(self, bytes: &[u8], at: usize) -> Option<u64> {
        match self.bytes {
            4 => self.u32(bytes, at).map(u64::from),
            _ => Some(self.order.read_u64(*bytes.get(at..)?.first_chunk()?)),
        }
    }
}

/// A search for the module's description.
struct Module<'a> {
    file: &'a File,
    places: &'a [Place],
    reader: Words,
    /// Address of the table.
    table: u64,
    /// Offsets of the first byte and of the end of the code.
    ends: (u64, u64),
}

impl Module<'_> {
    /// Returns the address of the start of the code.
    fn start(&self) -> Option<u64> {
        let read = |names: &[&str]| {
            let places = self.places.iter().filter(|one| names.contains(&one.name.as_str()));
            let small = places.filter(|place| place.bytes <= MOST_BYTES).cloned();
            small.collect::<Vec<Place>>()
        };
        let in_place = read(&MODULES).into_iter().find_map(|place| {
            let bytes = read_at(self.file, place.offset, place.bytes)?;
            let word = |at: usize| self.reader.word(&bytes, at);
            let mut words = (0..bytes.len()).step_by(self.reader.bytes);
            words.find_map(|at| {
                let is_it = word(at)? == self.table;
                let of_module = |index: u64| word(at + index as usize * self.reader.bytes);
                is_it.then(|| self.checked(MODULE_WORDS.map(of_module))).flatten().map(Some)
            })?
        });
        in_place.or_else(|| {
            read(&RELOCATIONS)
                .into_iter()
                .find_map(|place| self.relocated(&read_at(self.file, place.offset, place.bytes)?))
        })
    }

    /// Returns the start of the code from 64-bit relocations: address, kind, value.
    fn relocated(&self, bytes: &[u8]) -> Option<u64> {
        const BYTES: usize = 24;
        let words = Words { bytes: 8, ..self.reader };
        let pair = |one: &[u8]| Some((words.word(one, 0)?, words.word(one, 16)?));
        let all = || bytes.chunks_exact(BYTES).filter_map(pair);
        let modules = all().filter(|(_, value)| *value == self.table).map(|(address, _)| address);
        modules.take(8).find_map(|module| {
            let mut found = MODULE_WORDS.map(|index| (module.wrapping_add(index * 8), None));
            for (address, value) in all() {
                if let Some(one) = found.iter_mut().find(|one| one.0 == address) {
                    one.1 = Some(value);
                }
            }
            self.checked(found.map(|(_, value)| value))
        })
    }

    /// Returns the start of the code if the addresses agree with the table.
    fn checked(&self, [lowest, highest, start]: [Option<u64>; 3]) -> Option<u64> {
        let start = start?;
        let is_at = |address: Option<u64>, offset| start.checked_add(offset) == address;
        (is_at(lowest, self.ends.0) && is_at(highest, self.ends.1)).then_some(start)
    }
}

#[cfg(test)]
mod tests;
