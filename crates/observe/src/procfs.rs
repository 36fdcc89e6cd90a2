// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parsers for /proc files. All functions except `user` are pure. They skip malformed lines, and
//! accept lines without the columns that older kernels lack.

pub(crate) mod cpus;
pub(crate) mod net;
pub(crate) mod task;

use std::os::unix::fs::MetadataExt;

#[cfg(test)]
mod tests;

/// Returns the effective user ID of this process.
pub(crate) fn user() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|found| found.uid())
}

/// Returns the next number from a line of columns.
fn number<'t>(columns: &mut impl Iterator<Item = &'t str>) -> Option<u64> {
    columns.next()?.parse().ok()
}
