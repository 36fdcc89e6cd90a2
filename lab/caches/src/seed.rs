// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeds from seeds.

use linerate_record::random::{GOLDEN, finish};

/// A seed for each of many things.
pub(crate) fn mix(seed: u64, of: u64) -> u64 {
    finish(seed ^ of.wrapping_add(1).wrapping_mul(GOLDEN))
}
