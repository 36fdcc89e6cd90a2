// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parsers for /proc files. Pure functions; columns missing in older kernels and damaged lines are
//! skipped.

pub(crate) mod cpus;
pub(crate) mod net;
pub(crate) mod task;

#[cfg(test)]
mod tests;

/// The next number in a line of columns.
fn number<'t>(columns: &mut impl Iterator<Item = &'t str>) -> Option<u64> {
    columns.next()?.parse().ok()
}
