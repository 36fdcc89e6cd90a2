// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source lines of addresses in a file, from its DWARF line tables.
//!
//! ```text
//! find the units of the addresses: in .debug_aranges, otherwise in the root entry of each unit
//! run the line program of these units, keeping only the rows of the addresses
//! ```
//!
//! Nothing else is kept, and no section is read as a whole, because the debug information of a
//! program can be larger than the memory that a profiler may take
//! (docs/decisions/0530).

mod paged;

use gimli::{DebugInfoOffset, Dwarf, Reader, RunTimeEndian, Section, SectionId};
use gimli::{Unit, UnitHeader, UnitType};
use linerate_record::profile::SourceLine;
use object::{CompressionFormat, Object, ObjectSection, ReadCache};
use paged::{Bytes, Source};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::rc::Rc;

/// Maximum number of bytes read in the index of units, and in the root entries of all units.
const MOST_SEARCHED: u64 = 128 << 20;
/// Maximum number of bytes read of a unit before its line program: abbreviations, root entry, and
/// the lists of files and directories.
const MOST_OF_UNIT: u64 = 1 << 20;
/// Maximum number of bytes read in all line programs together.
const MOST_OF_PROGRAMS: u64 = 128 << 20;

/// The source lines of some addresses of a file.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    files: Vec<String>,
    /// Index of the file, and line, by address.
    found: HashMap<u64, (usize, u32)>,
}

impl Lines {
    /// Reads the source lines of `addresses`, as they are before relocation. Addresses without a
    /// line are left out.
    ///
    /// # Errors
    /// Returns the reason if the file has no usable line tables.
    pub(crate) fn read(file: &File, addresses: impl Iterator<Item = u64>) -> Result<Self, String> {
        let own = file.try_clone().map_err(|error| format!("it cannot be read: {error}"))?;
        let source = Source::new(own);
        let dwarf = sections(file, &source)?;
        let wanted = addresses.map(|address| (address, None)).collect();
        let mut search =
            Search { source, dwarf, wanted, left: MOST_OF_PROGRAMS, lines: Self::default() };
        let damaged =
            |error: gimli::Error| format!("its debug information is damaged or too large: {error}");
        let read = search.indexed_units().and_then(|()| search.all_units());
        let Search { wanted, mut lines, .. } = search;
        lines.found =
            wanted.into_iter().filter_map(|(address, line)| Some((address, line?))).collect();
        match read {
            Err(error) if lines.found.is_empty() => Err(damaged(error)),
            _ => Ok(lines),
        }
    }

    /// Returns the source line of an address passed to [`Self::read`], if it has one.
    pub(crate) fn of(&self, address: u64) -> Option<SourceLine> {
        let (file, line) = *self.found.get(&address)?;
        Some(SourceLine { file: self.files.get(file)?.clone(), line })
    }
}

/// Locates the debug sections of a file.
fn sections(file: &File, source: &Rc<Source>) -> Result<Dwarf<Bytes>, String> {
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache);
    let elf = elf.map_err(|error| format!("not an ELF file: {error}"))?;
    let order = match elf.is_little_endian() {
        true => RunTimeEndian::Little,
        false => RunTimeEndian::Big,
    };
    let load = |id: SectionId| -> Result<Bytes, String> {
        let none = Ok(Bytes::new(source, order, 0, 0));
        let Some(section) = elf.section_by_name(id.name()) else { return none };
        let Ok(range) = section.compressed_file_range() else { return none };
        if range.format != CompressionFormat::None {
            return Err("its debug information is compressed".to_owned());
        }
        let bytes = usize::try_from(range.uncompressed_size);
        let bytes = bytes.ok().filter(|bytes| range.offset.checked_add(*bytes as u64).is_some());
        bytes.map_or(none, |bytes| Ok(Bytes::new(source, order, range.offset, bytes)))
    };
    let dwarf = Dwarf::load(load)?;
    match dwarf.debug_line.reader().is_empty() {
        true => Err("the file has no line tables (compile with -g)".to_owned()),
        false => Ok(dwarf),
    }
}

/// A search for the lines of addresses.
struct Search {
    source: Rc<Source>,
    dwarf: Dwarf<Bytes>,
    /// Addresses with the index of the file and the line found.
    wanted: BTreeMap<u64, Option<(usize, u32)>>,
    /// Number of bytes of line programs that may still be read.
    left: u64,
    lines: Lines,
}

impl Search {
    /// Searches the units that `.debug_aranges` lists for an address.
    fn indexed_units(&mut self) -> gimli::Result<()> {
        self.source.allow(MOST_SEARCHED);
        let mut units = BTreeSet::new();
        let mut headers = self.dwarf.debug_aranges.headers();
        // A damaged index is no loss: all units are searched next.
        while let Ok(Some(header)) = headers.next() {
            let mut entries = header.entries();
            while let Ok(Some(entry)) = entries.next() {
                let range = entry.range();
                if range.begin < range.end && self.is_missing(range.begin, range.end) {
                    units.insert(header.debug_info_offset().0);
                }
            }
        }
        let mut left = MOST_SEARCHED;
        for offset in units {
            if left == 0 || self.wanted.values().all(Option::is_some) {
                break;
            }
            self.source.allow(MOST_OF_UNIT.min(left));
            let header = self.dwarf.debug_info.header_from_offset(DebugInfoOffset(offset));
            if let Ok(header) = header {
                left = left.saturating_sub(self.unit(header)?);
            }
        }
        Ok(())
    }

    /// Searches all units until each address has a line.
    fn all_units(&mut self) -> gimli::Result<()> {
        let mut left = MOST_SEARCHED;
        let mut headers = self.dwarf.debug_info.units();
        while self.wanted.values().any(Option::is_none) {
            self.source.allow(MOST_OF_UNIT.min(left));
            let Some(header) = headers.next()? else { break };
            left = left.saturating_sub(self.unit(header)?);
        }
        Ok(())
    }

    /// Returns whether an address whose line has not been found is in this range.
    fn is_missing(&self, begin: u64, end: u64) -> bool {
        self.wanted.range(begin..end).any(|(_, line)| line.is_none())
    }

    /// Reads the lines of a unit if it contains an address whose line has not been found. Returns
    /// the number of bytes read before the line program. Units that cannot be read are skipped.
    fn unit(&mut self, header: UnitHeader<Bytes>) -> gimli::Result<u64> {
        let has_code = matches!(
            header.type_(),
            UnitType::Compilation | UnitType::Partial | UnitType::Skeleton(_)
        );
        if !has_code {
            return Ok(0);
        }
        self.source.allow(MOST_OF_UNIT);
        let unit = Unit::new(&self.dwarf, header);
        let is_wanted = unit.as_ref().is_ok_and(|unit| self.is_wanted(unit));
        let read = MOST_OF_UNIT - self.source.left();
        if let (Ok(unit), true) = (unit, is_wanted) {
            self.source.allow(self.left);
            let rows = self.rows(unit);
            self.left = self.source.left();
            // A damaged unit is skipped; without bytes left, no other can be read.
            if self.left == 0 {
                rows?;
            }
        }
        Ok(read)
    }

    /// Returns whether a unit contains an address whose line has not been found. A unit with a line
    /// program but without ranges may contain any address.
    fn is_wanted(&self, unit: &Unit<Bytes>) -> bool {
        let Ok(mut ranges) = self.dwarf.unit_ranges(unit) else { return false };
        let mut has_ranges = false;
        while let Ok(Some(range)) = ranges.next() {
            if range.begin < range.end && self.is_missing(range.begin, range.end) {
                return true;
            }
            has_ranges |= range.begin < range.end;
        }
        !has_ranges && unit.line_program.is_some()
    }

    /// Runs the line program of a unit. A row applies up to the address of the next row.
    fn rows(&mut self, mut unit: Unit<Bytes>) -> gimli::Result<()> {
        let Some(program) = unit.line_program.take() else { return Ok(()) };
        let mut files = HashMap::<u64, Option<usize>>::new();
        let mut rows = program.rows();
        let mut last: Option<(u64, u64, u32)> = None;
        while let Some((header, row)) = rows.next_row()? {
            let end = row.address();
            if let Some((begin, file, line)) = last.filter(|(begin, ..)| *begin < end)
                && line > 0
                && self.is_missing(begin, end)
            {
                let Self { dwarf, lines, .. } = self;
                let file = *files.entry(file).or_insert_with(|| {
                    lines.files.push(name(dwarf, &unit, header, file)?);
                    Some(lines.files.len() - 1)
                });
                let places = self.wanted.range_mut(begin..end).map(|(_, place)| place);
                for place in places.filter(|place| place.is_none()) {
                    *place = file.map(|file| (file, line));
                }
            }
            let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
            last = (!row.end_sequence()).then_some((end, row.file_index(), line));
        }
        Ok(())
    }
}

/// Returns the path of a file of a unit.
fn name(
    dwarf: &Dwarf<Bytes>,
    unit: &Unit<Bytes>,
    header: &gimli::LineProgramHeader<Bytes>,
    file: u64,
) -> Option<String> {
    let file = header.file(file)?;
    let text = |value| {
        let text = dwarf.attr_string(unit, value).ok()?;
        Some(text.to_string_lossy().ok()?.into_owned())
    };
    let mut path = String::new();
    if let Some(folder) = &unit.comp_dir {
        path = folder.to_string_lossy().ok()?.into_owned();
    }
    // Directory 0 is that of the unit.
    if file.directory_index() != 0
        && let Some(folder) = file.directory(header)
    {
        path = joined(path, &text(folder)?);
    }
    Some(joined(path, &text(file.path_name())?))
}

/// Appends a path to a folder, unless the path is absolute.
fn joined(folder: String, path: &str) -> String {
    match folder.is_empty() || path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{}/{path}", folder.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests;
