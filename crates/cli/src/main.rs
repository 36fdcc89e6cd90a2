// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out why packet software misses line rate, and fixes it.
fn main() {}
