// SPDX-License-Identifier: MIT OR Apache-2.0
//! The declarations in `native/include/linerate/*.h` that this crate uses.
//!
//! All functions read and write exactly the given bytes, need no alignment, accept null if the
//! length is 0, and may be called from any number of threads.

use crate::{Sum, buffer::Buffer};
use core::ffi::{CStr, c_char, c_int, c_uint};

pub(crate) type CsumPartial = unsafe extern "C" fn(*const u8, usize, u32) -> u32;
pub(crate) type CsumBurst = unsafe extern "C" fn(*const Buffer<'_>, *mut Sum, usize);
pub(crate) type CopyCsumPartial = unsafe extern "C" fn(*mut u8, *const u8, usize, u32) -> u32;
pub(crate) type Copy = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;
pub(crate) type Fill = unsafe extern "C" fn(*mut u8, u8, usize) -> *mut u8;

/// `struct lr_variant`, member by member; see the C header for the documentation.
#[derive(Clone, core::marker::Copy)]
#[repr(C)]
pub(crate) struct Variant {
    name: *const c_char,
    isa: *const c_char,
    pub(crate) vector: c_int,
    pub(crate) compiled: c_int,
    supported: Option<unsafe extern "C" fn() -> c_int>,
    preferred: c_uint,
    pub(crate) csum_partial: Option<CsumPartial>,
    pub(crate) csum_burst: Option<CsumBurst>,
    pub(crate) copy_csum_partial: Option<CopyCsumPartial>,
    pub(crate) copy: Option<Copy>,
    pub(crate) fill: Option<Fill>,
}

// SAFETY: the descriptors and the strings they point to are constants of the program: the C code
// declares them `const`.
unsafe impl Sync for Variant {}
// SAFETY: as above; nothing in a descriptor is tied to a thread.
unsafe impl Send for Variant {}

impl Variant {
    pub(crate) fn name(&self) -> &'static str {
        text(self.name)
    }

    pub(crate) fn isa(&self) -> &'static str {
        text(self.isa)
    }

    /// Returns whether this CPU supports the functions.
    pub(crate) fn supported(&self) -> bool {
        // SAFETY: variant.h ensures that the function only queries the processor and touches no
        // memory.
        self.supported.is_some_and(|supported| unsafe { supported() } != 0)
    }
}

fn text(at: *const c_char) -> &'static str {
    // SAFETY: `at` is a string constant in the C code; the tables, and a test that walks them,
    // ensure this.
    let text = unsafe { CStr::from_ptr(at) };
    text.to_str().expect("variant names are ASCII")
}

unsafe extern "C" {
    #[link_name = "lr_variants"]
    static VARIANTS: [&'static Variant; 0];
    #[link_name = "lr_variant_count"]
    static VARIANT_COUNT: usize;

    safe fn lr_variant_current() -> Variant;
    fn lr_variant_force(name: *const c_char) -> c_int;

    pub(crate) fn lr_csum_partial(src: *const u8, bytes: usize, sum: u32) -> u32;
    pub(crate) fn lr_csum_burst(buffers: *const Buffer<'_>, sums: *mut Sum, count: usize);
    pub(crate) fn lr_copy_csum_partial(dst: *mut u8, src: *const u8, bytes: usize, sum: u32)
    -> u32;
    pub(crate) fn lr_copy(dst: *mut u8, src: *const u8, bytes: usize) -> *mut u8;
    pub(crate) fn lr_fill(dst: *mut u8, value: u8, bytes: usize) -> *mut u8;
    pub(crate) fn lr_checksum16(src: *const u8, bytes: usize, sum: u32, byte_swap: c_int) -> u16;
}

/// Returns all variants, simplest first.
pub(crate) fn variants() -> &'static [&'static Variant] {
    // SAFETY: `lr_variants` holds `lr_variant_count` pointers to constants; ensured by table.c.
    unsafe { core::slice::from_raw_parts((&raw const VARIANTS).cast(), VARIANT_COUNT) }
}

#[cfg(feature = "bench")]
unsafe extern "C" {
    #[link_name = "lr_bounds"]
    static BOUNDS: [&'static Variant; 0];
    #[link_name = "lr_bound_count"]
    static BOUND_COUNT: usize;

    #[link_name = "lr_document"]
    safe static DOCUMENT: Variant;
    #[link_name = "lr_wrong_by_a_carry"]
    safe static WRONG_BY_A_CARRY: Variant;

    /// Reads every whole 32-bit word in the given bytes, which must be readable.
    pub(crate) fn lr_bench_header(src: *const u8, bytes: usize, sum: u32) -> u32;
}

/// Returns all bounds, narrowest first.
#[cfg(feature = "bench")]
pub(crate) fn bounds() -> &'static [&'static Variant] {
    // SAFETY: `lr_bounds` holds `lr_bound_count` pointers to constants; ensured by its table.c.
    unsafe { core::slice::from_raw_parts((&raw const BOUNDS).cast(), BOUND_COUNT) }
}

/// Returns the variant that implements checksum and copy in plain C.
#[cfg(feature = "bench")]
pub(crate) fn document() -> &'static Variant {
    &DOCUMENT
}

/// Like [`document`], but with a checksum that is wrong by one carry.
#[cfg(feature = "bench")]
pub(crate) fn wrong_by_a_carry() -> &'static Variant {
    &WRONG_BY_A_CARRY
}

/// Returns the current target of the dispatch functions.
pub(crate) fn current() -> Variant {
    lr_variant_current()
}

/// Makes the dispatch functions use the given variant from the table or, if `None`, the best
/// variant for each kernel. Returns `false` only if this CPU does not support the variant.
pub(crate) fn force(variant: Option<&'static Variant>) -> bool {
    let name = variant.map_or(core::ptr::null(), |v| v.name);
    // SAFETY: `name` is null or a string constant in the C code, from `variants`.
    unsafe { lr_variant_force(name) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_table_make_sense() {
        assert!(!variants().is_empty());
        for (i, v) in variants().iter().enumerate() {
            let name = v.name();
            assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric()), "{name}");
            assert!(!v.isa().is_empty(), "{name}");
            assert!(variants()[..i].iter().all(|other| other.name() != name), "{name} twice");
            assert!(matches!(v.vector, 0 | 1) && matches!(v.compiled, 0 | 1), "{name}");
            assert!(v.preferred < 16, "{name}");
            assert!(v.supported.is_some(), "{name}");
            let functions = [
                v.csum_partial.is_some(),
                v.csum_burst.is_some(),
                v.copy_csum_partial.is_some(),
                v.copy.is_some(),
                v.fill.is_some(),
            ];
            assert_eq!(functions, [v.compiled == 1; 5], "{name}");
            assert!(v.compiled == 1 || !v.supported(), "{name}");
        }
        assert!(variants()[0].supported(), "the simplest variant runs everywhere");
    }

    #[test]
    fn every_function_has_a_variant_selected() {
        let now = current();
        assert_eq!(now.compiled, 1);
        assert!(now.csum_partial.is_some() && now.csum_burst.is_some());
        assert!(now.copy_csum_partial.is_some());
        assert!(now.copy.is_some() && now.fill.is_some());
    }
}
