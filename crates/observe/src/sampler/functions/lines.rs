// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source lines of addresses in a file, from its DWARF line tables.

use addr2line::Context;
use gimli::{Dwarf, EndianSlice, RunTimeEndian, SectionId};
use linerate_record::profile::SourceLine;
use object::{CompressionFormat, Object, ObjectSection, ReadCache};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Maximum total size of the sections read, in bytes.
const MOST_BYTES: u64 = 192 << 20;

/// Debug sections of a file.
pub(crate) struct Sections {
    bytes: HashMap<&'static str, Vec<u8>>,
    order: RunTimeEndian,
}

/// The line tables of a file.
pub(crate) struct Lines<'a> {
    context: Context<EndianSlice<'a, RunTimeEndian>>,
}

impl Sections {
    /// Reads the sections of a file.
    ///
    /// # Errors
    /// Returns the reason if there are no usable line tables.
    pub(crate) fn read(file: &File) -> Result<Self, String> {
        let cache = ReadCache::new(file);
        let elf = object::File::parse(&cache);
        let elf = elf.map_err(|error| format!("not an ELF file: {error}"))?;
        let order = match elf.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        let mut left = MOST_BYTES;
        let mut sections = HashMap::new();
        let load = |id: SectionId| -> Result<EndianSlice<'_, RunTimeEndian>, String> {
            let none = Ok(EndianSlice::new(&[], order));
            let Some(section) = elf.section_by_name(id.name()) else { return none };
            let range = section.compressed_file_range();
            let Ok(range) = range else { return none };
            if range.format != CompressionFormat::None {
                return Err("its debug information is compressed".to_owned());
            }
            left = left.checked_sub(range.uncompressed_size).ok_or_else(|| {
                format!("its debug information is larger than {} MiB", MOST_BYTES >> 20)
            })?;
            let mut data = vec![0; range.uncompressed_size as usize];
            let cannot = |error| format!("its debug information cannot be read: {error}");
            file.read_exact_at(&mut data, range.offset).map_err(cannot)?;
            sections.insert(id.name(), data);
            none
        };
        // gimli requests the sections that it needs.
        Dwarf::load(load)?;
        match sections.get(SectionId::DebugLine.name()) {
            Some(lines) if !lines.is_empty() => Ok(Self { bytes: sections, order }),
            _ => Err("the file has no line tables (compile with -g)".to_owned()),
        }
    }

    /// Returns the line tables.
    ///
    /// # Errors
    /// Returns an error if the tables are damaged.
    pub(crate) fn lines(&self) -> Result<Lines<'_>, String> {
        let damaged = |error: gimli::Error| format!("its debug information is damaged: {error}");
        let load = |id: SectionId| {
            let data = self.bytes.get(id.name()).map_or(&[][..], |data| data);
            Ok(EndianSlice::new(data, self.order))
        };
        let dwarf = Dwarf::load(load).map_err(damaged)?;
        Ok(Lines { context: Context::from_dwarf(dwarf).map_err(damaged)? })
    }
}

impl Lines<'_> {
    /// Returns the source line of an address, if it has one.
    pub(crate) fn of(&self, address: u64) -> Option<SourceLine> {
        let found = self.context.find_location(address).ok()??;
        Some(SourceLine { file: found.file?.to_owned(), line: found.line.filter(|n| *n > 0)? })
    }
}
