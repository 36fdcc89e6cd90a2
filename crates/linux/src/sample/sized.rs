// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings of a size in bytes, which take the same memory whatever the size of a page.

use super::{Fields, Ring};
use crate::perf::Event;
use std::io;

impl Ring {
    /// Gives `event` a ring of at least `bytes` bytes, rounded up to a power of two pages.
    ///
    /// # Errors
    /// Returns the same errors as [`Ring::map`].
    pub fn map_bytes(event: &Event, bytes: usize, fields: Fields) -> io::Result<Self> {
        Self::map(event, bytes.div_ceil(crate::page_bytes()), fields)
    }
}
