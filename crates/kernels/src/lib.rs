// SPDX-License-Identifier: MIT OR Apache-2.0
//! Internet checksum, copy, copy with checksum, and fill, as fast as the machine's loads and
//! stores.
//!
//! The kernels are written in C (`native/`), with one variant per instruction set; the first call
//! selects a variant by CPU features. This crate is their safe interface: slices delimit what may
//! be read and written, exclusive references keep source and destination disjoint, and lengths are
//! checked.
//!
//! - [`checksum`]: sums of packet payloads and headers, and checksum updates.
//! - [`copy_checksum`], [`copy()`], [`fill`]: moving bytes, with or without a checksum.
//! - [`Kernels`], [`variants`], [`force`]: selecting a variant by name, for callers that choose
//!   one themselves.
//!
//! ```
//! use linerate_kernels::{Sum, copy_checksum};
//!
//! let payload = [7; 1460];
//! let mut segment = [0; 1460];
//! let sum = copy_checksum(&mut segment, &payload, Sum::ZERO);
//! assert_eq!(sum.fold(), 0x0a0a);
//! ```
//!
//! All functions may be called from any number of threads at once. Lengths are in bytes and may
//! have any value, including zero; no alignment is needed. Buffers are assumed to be in ordinary
//! cacheable memory.
//!
//! Not covered: parsing or building packets and headers, and memory shared with devices.
//!
//! # Environment
//! Needs a C compiler to build and only `core` at run time. Most variants use vector registers:
//! where the caller must not use them (in some operating-system kernels or interrupt handlers), use
//! the [`Kernels`] of a variant whose [`Variant::is_vector`] is false.
//!
//! # Features
//! - `bench`: the module `bench`, with every variant and the machine's speed bounds behind one call
//!   interface, for measuring. Needs an allocator and the C library. Off by default.

#![no_std]

#[cfg(feature = "bench")]
extern crate alloc;

pub mod checksum;

#[cfg(feature = "bench")]
pub mod bench;

mod buffer;
mod ffi;
mod sum;
mod variant;

pub use sum::Sum;
pub use variant::{Kernel, Kernels, Variant, VariantError, force, variants};

use variant::assert_equal_lengths;

/// Copies `src` to `dst` with the selected kernel.
///
/// # Panics
/// Panics if the lengths differ.
#[inline]
#[track_caller]
pub fn copy(dst: &mut [u8], src: &[u8]) {
    assert_equal_lengths(dst, src);
    // SAFETY: the line above ensures that both slices have the given length; their types ensure
    // that they are disjoint, since one is exclusive.
    unsafe { ffi::lr_copy(dst.as_mut_ptr(), src.as_ptr(), src.len()) };
}

/// Copies `src` to `dst` with the selected kernel and returns what [`checksum::partial`]`(src,
/// sum)` would have returned, reading the data only once.
///
/// # Panics
/// Panics if the lengths differ.
#[inline]
#[track_caller]
pub fn copy_checksum(dst: &mut [u8], src: &[u8], sum: Sum) -> Sum {
    assert_equal_lengths(dst, src);
    let (to, from) = (dst.as_mut_ptr(), src.as_ptr());
    // SAFETY: as in `copy`.
    Sum::from_raw(unsafe { ffi::lr_copy_csum_partial(to, from, src.len(), sum.raw()) })
}

/// Sets every byte of `dst` to `value` with the selected kernel.
#[inline]
pub fn fill(dst: &mut [u8], value: u8) {
    // SAFETY: the slice's type ensures that its whole length can be written.
    unsafe { ffi::lr_fill(dst.as_mut_ptr(), value, dst.len()) };
}
