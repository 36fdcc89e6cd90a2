// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters around regions of a program: code between two reads.
//!
//! Left out: what a region means.
