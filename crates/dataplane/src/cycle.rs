// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round-robin order, in which a worker polls its ports and its input rings.

/// Returns the index after `index`, wrapping around at `count`. Avoids a division, which is slow.
#[inline]
pub(crate) fn following(index: usize, count: usize) -> usize {
    if index + 1 < count { index + 1 } else { 0 }
}
