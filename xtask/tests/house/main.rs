// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules for the source tree, applied by plain `cargo test`. What the compiler, clippy and rustfmt
//! can check is left to them.
#![forbid(unsafe_code)]

mod arrows;
mod book;
mod circles;
mod decisions;
mod homes;
mod links;
mod package;
mod prose;
mod style;
mod suites;
mod tidy;
mod tree;
