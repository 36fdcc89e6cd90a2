// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel is told about memory.

/// Asks for huge pages behind `octets` octets from `start`; a refusal changes nothing but speed.
pub fn advise_huge_pages(start: *mut u8, octets: usize) {
    // SAFETY: MADV_HUGEPAGE changes no content; the kernel rejects ranges that are not mapped.
    unsafe {
        libc::madvise(start.cast(), octets, libc::MADV_HUGEPAGE);
    }
}
