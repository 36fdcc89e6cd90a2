// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings whose size is given in bytes, so that they take the same amount of memory whatever the
//! page size.

use super::{Fields, Ring};
use crate::perf::Event;
use std::io;

impl Ring {
    /// Gives `event` a ring of at least `bytes` bytes, rounded up to a power-of-two number of
    /// pages.
    ///
    /// # Errors
    /// Returns the same errors as [`Ring::map`].
    pub fn map_bytes(event: &Event, bytes: usize, fields: Fields) -> io::Result<Self> {
        Self::map(event, bytes.div_ceil(crate::page_bytes()), fields)
    }
}
