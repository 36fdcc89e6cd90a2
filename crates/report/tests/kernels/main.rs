// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendering of a `kernels` record. Golden files: see `common`.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/drawing.rs"]
mod drawing;
mod example;
mod svg;
mod text;
