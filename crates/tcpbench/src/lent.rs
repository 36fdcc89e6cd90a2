// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes of a frame that stay in the sending stack's memory. The stack lends them through a trait,
//! so the wire does not depend on the stack.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;

/// A stack that lends its send buffers.
pub(crate) trait Lender {
    /// Takes back lent bytes that are no longer needed.
    ///
    /// # Safety
    /// `handle` must have been lent by this lender, and must be taken back only once.
    unsafe fn take_back(&self, handle: NonNull<c_void>);
}

/// Bytes lent by a stack. Dropping this value returns them, without allocating memory.
pub(crate) struct Lent {
    lender: Rc<dyn Lender>,
    handle: NonNull<c_void>,
    bytes: NonNull<[u8]>,
}

impl Lent {
    /// Wraps `bytes`, which the lender identifies by `handle`.
    ///
    /// # Safety
    /// Until `lender` has taken `handle` back, the bytes must stay in place and must not be
    /// written. `handle` must be taken back only through this value.
    pub(crate) unsafe fn new(
        lender: Rc<dyn Lender>,
        handle: NonNull<c_void>,
        bytes: NonNull<[u8]>,
    ) -> Self {
        Self { lender, handle, bytes }
    }

    /// Returns the lent bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes are not taken back while `self` exists, so the contract of `new` holds.
        unsafe { self.bytes.as_ref() }
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: lent by this lender, and dropped once.
        unsafe { self.lender.take_back(self.handle) };
    }
}
