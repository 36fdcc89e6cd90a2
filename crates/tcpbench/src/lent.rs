// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frame bytes that stay with the sending stack, so that the wire is independent of the stack.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;

/// A stack that lends its send buffers.
pub(crate) trait Lender {
    /// Takes back bytes that are no longer needed.
    ///
    /// # Safety
    /// `handle` was lent by this lender, and is taken back once.
    unsafe fn take_back(&self, handle: NonNull<c_void>);
}

/// Bytes lent by a stack; given back on drop, without allocation.
pub(crate) struct Lent {
    lender: Rc<dyn Lender>,
    handle: NonNull<c_void>,
    bytes: NonNull<[u8]>,
}

impl Lent {
    /// `bytes`, which the lender knows as `handle`.
    ///
    /// # Safety
    /// Until `lender` has taken `handle` back, the bytes stay in place and are not written; it is
    /// taken back only through this value.
    pub(crate) unsafe fn new(
        lender: Rc<dyn Lender>,
        handle: NonNull<c_void>,
        bytes: NonNull<[u8]>,
    ) -> Self {
        Self { lender, handle, bytes }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: not taken back while `self` is there, so the contract of `new` holds.
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
