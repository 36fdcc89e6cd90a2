// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up memory hierarchies whose sizes and latencies are known, to check detectors with.

#![forbid(unsafe_code)]
