// SPDX-License-Identifier: MIT OR Apache-2.0
//! The texts of /proc, as values. Pure: text in, values out; a column that an older kernel does not
//! have, or a line that is damaged, is left out.

pub(crate) mod cpus;
pub(crate) mod net;
pub(crate) mod task;

#[cfg(test)]
mod tests;

/// The next number of a line of columns.
fn number<'t>(columns: &mut impl Iterator<Item = &'t str>) -> Option<u64> {
    columns.next()?.parse().ok()
}
