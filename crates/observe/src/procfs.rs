// SPDX-License-Identifier: MIT OR Apache-2.0
//! The texts of /proc, as values. Pure: text in, values out; a column that an older kernel does not
//! have, or a line that is damaged, is left out.

pub(crate) mod task;
