// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters on machines that cannot build the whole of linerate: `doctor` and `stat`.
#![forbid(unsafe_code)]

fn main() {}
