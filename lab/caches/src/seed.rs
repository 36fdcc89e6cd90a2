// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derivation of seeds.

use linerate_record::random::{GOLDEN, finish};

/// Derives an independent seed for each value of `of`.
pub(crate) fn mix(seed: u64, of: u64) -> u64 {
    finish(seed ^ of.wrapping_add(1).wrapping_mul(GOLDEN))
}
