// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which a worker polls its ports and rings: in a cycle.

/// Returns the index after `index` of `count`, without a division.
#[inline]
pub(crate) fn following(index: usize, count: usize) -> usize {
    if index + 1 < count { index + 1 } else { 0 }
}
