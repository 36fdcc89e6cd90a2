// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds functions in an ELF file, using its symbol tables and the table of a Go program or, if
//! there are none, the unwind table, which has the functions' bounds but not their names.
//!
//! Only the tables are read, and names are read on demand, since a program can be hundreds of
//! megabytes in size.

mod go;
pub(crate) mod lines;
mod mangling;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sections;
mod unwinding;

use go::{GoTable, Place};
use mangling::demangled;
use object::elf::{EM_ARM, FileHeader32, FileHeader64, PT_GNU_EH_FRAME, PT_LOAD, ProgramType};
use object::elf::{SHN_UNDEF, STT_FUNC};
use object::elf::{STB_GLOBAL, STT_GNU_IFUNC};
use object::read::elf::{ElfFile, FileHeader, ProgramHeader, SectionHeader, Sym, SymbolTable};
use object::{Endianness, FileKind, Object, ObjectSection, ReadCache, ReadRef};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use unwinding::Unwinding;

/// A loaded segment of a file.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    bytes: u64,
    address: u64,
}

/// A function symbol.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: u64,
    /// End address (exclusive).
    end: u64,
    name: Name,
    is_global: bool,
}

/// Location of the name of a function.
#[derive(Clone, Copy, Debug)]
enum Name {
    /// File offset of the name.
    At(u64),
    /// File offset of the offset of the name in the table of a Go program.
    OfGo(u64),
}

/// The functions of a file.
#[derive(Debug)]
pub(crate) struct Functions {
    file: File,
    segments: Vec<Segment>,
    /// Sorted by address.
    symbols: Vec<Symbol>,
    go: Option<GoTable>,
    unwinding: Option<Unwinding>,
}

/// The function found at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// First address of the function, before relocation.
    pub start: u64,
    /// Function name, if the file has one.
    pub name: Option<String>,
}

/// Maximum table size in bytes. Larger tables take too long to read.
const MAX_TABLE_BYTES: u64 = 64 << 20;
const MAX_NAME_BYTES: usize = 4096;

impl Functions {
    /// Reads the tables of an ELF file; `None` if the file is not an ELF file or is damaged.
    pub(crate) fn read(file: File) -> Option<Self> {
        let cache = ReadCache::new(&file);
        let Tables { segments, symbols, go, unwinding_at, order } =
            match FileKind::parse(&cache).ok()? {
                FileKind::Elf64 => tables::<FileHeader64<Endianness>, _>(&cache, &file)?,
                FileKind::Elf32 => tables::<FileHeader32<Endianness>, _>(&cache, &file)?,
                _ => return None,
            };
        let unwinding = unwinding_at.and_then(|segment| {
            let bytes = read_at(&file, segment.offset, segment.bytes.min(MAX_TABLE_BYTES))?;
            Unwinding::parse(bytes, segment.address, order)
        });
        Some(Self { file, segments, symbols, go, unwinding })
    }

    /// Returns the address of the byte at file offset `offset`.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        address_of(&self.segments, offset)
    }

    /// Returns the function that contains `address`.
    pub(crate) fn find(&self, address: u64) -> Option<Function> {
        if let Some(symbol) = self.symbol(address) {
            return Some(Function { start: symbol.start, name: self.name(symbol) });
        }
        Some(Function { start: self.unwound(address)?.start, name: None })
    }

    /// Returns the address range of the function that contains `address`.
    pub(crate) fn bounds(&self, address: u64) -> Option<Range<u64>> {
        let symbol = self.symbol(address).map(|symbol| symbol.start..symbol.end);
        symbol.or_else(|| self.unwound(address))
    }

    /// Returns the bytes in a range of addresses; fewer at the end of the segment.
    pub(crate) fn code(&self, range: &Range<u64>) -> Option<Vec<u8>> {
        let holds = |segment: &&Segment| range.start.wrapping_sub(segment.address) < segment.bytes;
        let segment = self.segments.iter().find(holds)?;
        let left = segment.bytes - (range.start - segment.address);
        let bytes = range.end.saturating_sub(range.start).min(left);
        read_at(&self.file, self.offset_of(range.start)?, bytes)
    }

    fn unwound(&self, address: u64) -> Option<Range<u64>> {
        let read = |at: u64| read_at(&self.file, self.offset_of(at)?, unwinding::ENTRY_BYTES);
        self.unwinding.as_ref()?.range_of(address, read)
    }

    fn symbol(&self, address: u64) -> Option<&Symbol> {
        let behind = self.symbols.partition_point(|symbol| symbol.start <= address);
        self.symbols[..behind].last().filter(|symbol| address < symbol.end)
    }

    fn name(&self, symbol: &Symbol) -> Option<String> {
        let at = match symbol.name {
            Name::At(at) => at,
            Name::OfGo(at) => self.go.as_ref()?.name_at(&self.file, at)?,
        };
        let mut bytes = [0; MAX_NAME_BYTES];
        let read = self.file.read_at(&mut bytes, at).ok()?;
        let length = bytes[..read].iter().position(|&byte| byte == 0).unwrap_or(read);
        let name = String::from_utf8_lossy(&bytes[..length]);
        (!name.is_empty()).then(|| demangled(&name))
    }

    fn offset_of(&self, address: u64) -> Option<u64> {
        let holds = |segment: &&Segment| address.wrapping_sub(segment.address) < segment.bytes;
        let segment = self.segments.iter().find(holds)?;
        Some(segment.offset.wrapping_add(address - segment.address))
    }
}

fn address_of(segments: &[Segment], offset: u64) -> Option<u64> {
    let holds = |segment: &&Segment| offset.wrapping_sub(segment.offset) < segment.bytes;
    let segment = segments.iter().find(holds)?;
    Some(segment.address.wrapping_add(offset - segment.offset))
}

fn read_at(file: &File, offset: u64, bytes: u64) -> Option<Vec<u8>> {
    let mut buffer = vec![0; usize::try_from(bytes).ok()?];
    let read = file.read_at(&mut buffer, offset).ok()?;
    buffer.truncate(read);
    Some(buffer)
}

/// The segments, the functions, the location of the unwind table, and the byte order.
struct Tables {
    segments: Vec<Segment>,
    symbols: Vec<Symbol>,
    go: Option<GoTable>,
    unwinding_at: Option<Segment>,
    order: Endianness,
}

/// Returns the tables of a file.
fn tables<'a, Elf, R>(data: R, file: &File) -> Option<Tables>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'a>,
{
    let elf = ElfFile::<Elf, R>::parse(data).ok()?;
    let mut symbols = Vec::new();
    for table in [elf.elf_symbol_table(), elf.elf_dynamic_symbol_table()] {
        symbols.extend(functions_of(&elf, table).into_iter().flatten());
    }
    let go = GoTable::read(file, &places(&elf), elf.endian());
    let of_go = go.as_ref().map(|go| go.functions.as_slice()).unwrap_or_default();
    symbols.extend(of_go.iter().map(|one| Symbol {
        start: one.start,
        end: one.end,
        name: Name::OfGo(one.at),
        is_global: false,
    }));
    symbols.sort_by_key(|symbol: &Symbol| (symbol.start, !symbol.is_global));
    symbols.dedup_by_key(|symbol| symbol.start);
    // A symbol without a size, as in hand-written assembly, extends to the next one.
    for at in 0..symbols.len() {
        let next = symbols.get(at + 1).map_or(u64::MAX, |symbol| symbol.start);
        let symbol = &mut symbols[at];
        symbol.end = if symbol.end > symbol.start { symbol.end.min(next) } else { next };
    }
    Some(Tables {
        segments: segments(&elf, PT_LOAD),
        symbols,
        go,
        unwinding_at: segments(&elf, PT_GNU_EH_FRAME).first().copied(),
        order: elf.endian(),
    })
}

/// Returns the sections that the table of a Go program needs.
fn places<'a, Elf, R>(elf: &ElfFile<'a, Elf, R>) -> Vec<Place>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'a>,
{
    let place = |section: object::read::elf::ElfSection<'a, '_, Elf, R>| {
        let name = section.name().ok().filter(|name| GoTable::needs(name))?.to_owned();
        let (offset, bytes) = section.file_range()?;
        Some(Place { name, address: section.address(), offset, bytes })
    };
    elf.sections().filter_map(place).collect()
}

/// Returns the segments of type `kind`.
fn segments<'a, Elf, R>(elf: &ElfFile<'a, Elf, R>, kind: ProgramType) -> Vec<Segment>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'a>,
{
    let endian = elf.endian();
    let headers = elf.elf_program_headers().iter();
    let of_kind = headers.filter(|header| header.p_type(endian) == kind);
    let segment = |header: &Elf::ProgramHeader| Segment {
        offset: header.p_offset(endian).into(),
        bytes: header.p_filesz(endian).into(),
        address: header.p_vaddr(endian).into(),
    };
    of_kind.map(segment).collect()
}

fn functions_of<'a, Elf, R>(
    elf: &ElfFile<'a, Elf, R>,
    table: &SymbolTable<'a, Elf, R>,
) -> Option<Vec<Symbol>>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'a>,
{
    let endian = elf.endian();
    let strings = elf.elf_section_table().section(table.string_section()).ok()?;
    let names: u64 = strings.sh_offset(endian).into();
    let is_function = |symbol: &&Elf::Sym| {
        let is_code = matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC);
        is_code && symbol.st_shndx(endian) != SHN_UNDEF
    };
    // Bit 0 of an ARM function's address marks Thumb code (ELF for the ARM Architecture, 5.5.3).
    let mask = if elf.elf_header().e_machine(endian) == EM_ARM { !1 } else { !0 };
    let function = |symbol: &Elf::Sym| {
        let start: u64 = symbol.st_value(endian).into() & mask;
        let size: u64 = symbol.st_size(endian).into();
        Symbol {
            start,
            end: start.saturating_add(size),
            name: Name::At(names.saturating_add(symbol.st_name(endian).into())),
            is_global: symbol.st_bind() == STB_GLOBAL,
        }
    };
    Some(table.symbols().iter().filter(is_function).map(function).collect())
}

#[cfg(test)]
mod tests;
