// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel is told about memory.

use crate::Error;

/// Asks for huge pages behind `octets` octets from `start`, a multiple of the page size. A refusal
/// changes nothing but speed, and so may a grant: pages get their size at the first touch.
///
/// # Errors
/// `start` is no multiple of the page size, or the kernel has no huge pages.
pub fn advise_huge_pages(start: *mut u8, octets: usize) -> Result<(), Error> {
    // SAFETY: MADV_HUGEPAGE changes no content; the kernel rejects ranges that are not mapped.
    match unsafe { libc::madvise(start.cast(), octets, libc::MADV_HUGEPAGE) } {
        0 => Ok(()),
        _ => Err(Error::last(
            "madvise",
            format!("MADV_HUGEPAGE, {octets} octets"),
            "align the range to pages, or do without where the kernel has no huge ones",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_begins_within_a_page_is_refused() {
        let mut octets = vec![0_u8; 3 << 20];
        let within = octets.as_ptr().align_offset(4096) + 16;
        let error = advise_huge_pages(octets[within..].as_mut_ptr(), 2 << 20);
        assert!(matches!(error, Err(Error::Call { errno: libc::EINVAL, .. })), "{error:?}");
    }
}
