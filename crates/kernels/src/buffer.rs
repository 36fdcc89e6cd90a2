// SPDX-License-Identifier: MIT OR Apache-2.0
//! Byte ranges in the layout of `struct lr_csum_buffer`, for calls that sum several buffers.

use crate::Sum;
use core::fmt;
use core::marker::PhantomData;

/// Bytes to be summed by [`checksum::burst`](crate::checksum::burst); empty by default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Buffer<'b> {
    src: *const u8,
    bytes: usize,
    borrowed: PhantomData<&'b [u8]>,
}

// SAFETY: a buffer is a shared slice, which may be sent to other threads.
unsafe impl Send for Buffer<'_> {}
// SAFETY: as above; a buffer has no interior mutability.
unsafe impl Sync for Buffer<'_> {}

impl<'b> Buffer<'b> {
    /// Creates a buffer that refers to these bytes, without copying them.
    #[inline]
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self { src: bytes.as_ptr(), bytes: bytes.len(), borrowed: PhantomData }
    }

    /// Returns the bytes that the buffer refers to.
    #[inline]
    pub const fn bytes(&self) -> &'b [u8] {
        // SAFETY: pointer and length are those of a slice that stays borrowed for 'b; `new`, the
        // only constructor, ensures this.
        unsafe { core::slice::from_raw_parts(self.src, self.bytes) }
    }
}

impl Default for Buffer<'_> {
    #[inline]
    fn default() -> Self {
        Self::new(&[])
    }
}

impl fmt::Debug for Buffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffer").field(&self.bytes()).finish()
    }
}

/// Panics if there are not as many buffers as sums: the C functions take a single count for both.
#[inline]
#[track_caller]
pub(crate) fn assert_equal_counts(buffers: &[Buffer<'_>], sums: &[Sum]) {
    let (buffers, sums) = (buffers.len(), sums.len());
    assert!(buffers == sums, "{buffers} buffers, but {sums} sums");
}
