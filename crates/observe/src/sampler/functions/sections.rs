// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the ELF sections needed for stack unwinding, and determines whether functions keep frame
//! pointers. x86-64 only.

use super::{Segment, read_at, segments};
use gimli::{BaseAddresses, CallFrameInstruction, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::ElfFile;
use object::{Endianness, Object, ObjectSection, ReadCache};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// A section: its address before relocation, and its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub address: u64,
    pub bytes: Arc<[u8]>,
}

impl Section {
    pub(crate) fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.bytes.len() as u64)
    }
}

/// Sections of a file needed for unwinding.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnwindSections {
    segments: Vec<Segment>,
    pub eh_frame: Option<Section>,
    pub eh_frame_hdr: Option<Section>,
    /// Address ranges of the code and the global offset table, which other sections refer to.
    pub text: Option<Range<u64>>,
    pub got: Option<Range<u64>>,
}

/// Maximum size of a section to read. In a 100 MB program, `.eh_frame` takes 10 MB.
const MAX_BYTES: u64 = 32 << 20;
/// Maximum number of functions to check for frame pointers.
const MAX_FUNCTIONS: usize = 20_000;
/// Minimum fraction of code with a frame pointer in a program built with frame pointers. Even
/// there, leaf functions have no frame, and startup and linkage code never keeps a frame pointer.
const MOST_OF_CODE: f64 = 0.75;

impl UnwindSections {
    /// Reads the sections of a file; `None` if it is not a 64-bit ELF file.
    pub(crate) fn read(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let elf = ElfFile::<FileHeader64<Endianness>, _>::parse(&cache).ok()?;
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            let (offset, bytes) = section.file_range()?;
            let bytes = read_at(file, offset, (bytes <= MAX_BYTES).then_some(bytes)?)?;
            Some(Section { address: section.address(), bytes: bytes.into() })
        };
        let range = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        };
        Some(Self {
            segments: segments(&elf, PT_LOAD),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
            text: range(".text"),
            got: range(".got"),
        })
    }

    /// Returns the address, before relocation, of the byte at file offset `offset`.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        super::address_of(&self.segments, offset)
    }

    /// Returns the size of the unwind sections in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let sections = [&self.eh_frame, &self.eh_frame_hdr].into_iter().flatten();
        sections.map(|section| section.bytes.len() as u64).sum()
    }

    /// Returns whether most of the code keeps a frame pointer, that is, its unwind rows find frames
    /// from rbp; `None` without rows.
    pub(crate) fn has_frame_pointers(&self) -> Option<bool> {
        let section = self.eh_frame.as_ref()?;
        let frames = EhFrame::new(&section.bytes, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(section.address);
        let bases = self.text.iter().fold(bases, |bases, text| bases.set_text(text.start));
        let (mut all, mut with) = (0_u64, 0_u64);
        let mut entries = frames.entries(&bases);
        for _ in 0..MAX_FUNCTIONS {
            let Ok(Some(entry)) = entries.next() else { break };
            let CieOrFde::Fde(function) = entry else { continue };
            let Ok(function) = function.parse(EhFrame::cie_from_offset) else { continue };
            all = all.saturating_add(function.len());
            let mut rows = function.instructions(&frames, &bases);
            let mut is_kept = false;
            while let Ok(Some(row)) = rows.next() {
                is_kept |= matches!(
                    row,
                    CallFrameInstruction::DefCfaRegister { register: gimli::X86_64::RBP }
                        | CallFrameInstruction::DefCfa { register: gimli::X86_64::RBP, .. }
                );
            }
            with = with.saturating_add(if is_kept { function.len() } else { 0 });
        }
        (all > 0).then_some(with as f64 > MOST_OF_CODE * all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own() -> UnwindSections {
        UnwindSections::read(&File::open("/proc/self/exe").unwrap()).unwrap()
    }

    #[test]
    fn the_sections_of_this_program_are_found() {
        let own = own();
        let (frames, index) = (own.eh_frame.clone().unwrap(), own.eh_frame_hdr.clone().unwrap());
        assert!(frames.bytes.len() > index.bytes.len());
        assert_eq!(index.bytes[0], 1);
        assert!(own.bytes() > 1000);
        assert!(UnwindSections::read(&File::open("/proc/self/maps").unwrap()).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn damaged_rows_are_read_to_an_end(
            damage in prop::collection::vec((any::<u16>(), any::<u8>()), 1..20)
        ) {
            let mut own = own();
            let section = own.eh_frame.as_mut().unwrap();
            let mut bytes = section.bytes[..section.bytes.len().min(1 << 16)].to_vec();
            for (at, byte) in damage {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            section.bytes = bytes.into();
            let _ = own.has_frame_pointers();
        }
    }
}
