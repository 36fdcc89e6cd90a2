// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds callers in a stack copy using the unwind rows in `.eh_frame`, for programs without frame
//! pointers. x86-64 only.
//!
//! ```text
//! for each frame, starting with that of the sample:
//!     register the file of its code with the unwinder, once per process and file
//!     find the frame of its caller from rip, rsp, rbp and words of the copy
//! until the first frame of the thread, the end of the copy, or a missing row
//! ```
//!
//! Code without rows, such as that of JIT compilers, is assumed to keep a frame pointer.

use super::events::UserState;
use crate::sampler::functions::sections::UnwindSections;
use crate::sampler::names::Spots;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of frames per chain, the same as the kernel's own limit.
const MAX_FRAMES: usize = 127;
/// Maximum total size of all files' unwind rows, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Indices of rbp and rsp in a sample's registers.
const BP: usize = 6;
const SP: usize = 7;

/// A chain found in a stack copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// User-mode addresses of the sample and its callers, innermost first.
    pub(super) addresses: Vec<u64>,
    /// Number of bytes of the stack that were needed; `None` if the chain does not reach the
    /// thread's first function.
    pub(super) bytes: Option<usize>,
}

/// Unwinding state of all processes.
#[derive(Default)]
pub(super) struct Unwinders {
    processes: HashMap<u32, Process>,
    cache: CacheX86_64,
    /// Unwind rows by file number.
    files: HashMap<u32, Option<Arc<UnwindSections>>>,
    bytes: u64,
}

#[derive(Default)]
struct Process {
    unwinder: UnwinderX86_64<Arc<[u8]>>,
    /// Address ranges of code that is registered with the unwinder or has no unwind rows.
    known: Vec<Range<u64>>,
}

impl Unwinders {
    /// Returns the call chain of a sample.
    pub(super) fn chain(&mut self, spots: &mut Spots, pid: u32, user: &UserState) -> Chain {
        let (sp, bp) = (user.registers[SP], user.registers[BP]);
        let mut registers = UnwindRegsX86_64::new(user.ip, sp, bp);
        let mut bytes = 0;
        let mut read = |address: u64| {
            let at = address.checked_sub(sp).and_then(|at| usize::try_from(at).ok()).ok_or(())?;
            let word = user.stack.get(at..).and_then(|rest| rest.first_chunk()).ok_or(())?;
            bytes = bytes.max(at + word.len());
            Ok(u64::from_ne_bytes(*word))
        };
        let mut frame = FrameAddress::from_instruction_pointer(user.ip);
        let mut addresses = vec![user.ip];
        while addresses.len() < MAX_FRAMES {
            self.learn(spots, pid, frame.address_for_lookup());
            let process = self.processes.entry(pid).or_default();
            let caller =
                process.unwinder.unwind_frame(frame, &mut registers, &mut self.cache, &mut read);
            let Ok(caller) = caller else { break };
            let Some(caller) = caller.and_then(FrameAddress::from_return_address) else {
                return Chain { addresses, bytes: Some(bytes) };
            };
            addresses.push(caller.address());
            frame = caller;
        }
        Chain { addresses, bytes: None }
    }

    /// Drops the unwinding state of a process. Call when the process maps other code or starts
    /// another program.
    pub(super) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Registers the unwind rows for the code at an address.
    fn learn(&mut self, spots: &mut Spots, pid: u32, address: u64) {
        let process = self.processes.entry(pid).or_default();
        if process.known.iter().any(|range| range.contains(&address)) {
            return;
        }
        // Read the mappings again if the address is outside all known ones.
        let _ = spots.spot(pid, address, false);
        let Some((mapping, file)) = spots.module(pid, address) else { return };
        process.known.push(mapping.start..mapping.end);
        let left = MAX_BYTES.saturating_sub(self.bytes);
        let sections = self.files.entry(file).or_insert_with(|| {
            let sections = UnwindSections::read(spots.file_of(file)?)?;
            self.bytes += sections.bytes();
            (sections.bytes() <= left).then(|| Arc::new(sections))
        });
        let Some(sections) = sections else { return };
        // The mapping begins at a page boundary, where the file may still belong to the previous
        // segment, so the offset of the code itself is looked up.
        let offset = mapping.offset + (address - mapping.start);
        let Some(unrelocated) = sections.address_of(offset) else { return };
        let base = address.wrapping_sub(unrelocated);
        let of = |section: &Option<crate::sampler::functions::sections::Section>| {
            (section.as_ref().map(|one| one.range()), section.as_ref().map(|one| one.bytes.clone()))
        };
        let (eh_frame_svma, eh_frame) = of(&sections.eh_frame);
        let (eh_frame_hdr_svma, eh_frame_hdr) = of(&sections.eh_frame_hdr);
        let info = ExplicitModuleSectionInfo {
            text_svma: sections.text.clone(),
            got_svma: sections.got.clone(),
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            ..ExplicitModuleSectionInfo::default()
        };
        let range = mapping.start..mapping.end;
        process.unwinder.add_module(Module::new(mapping.path, range, base, info));
    }
}
