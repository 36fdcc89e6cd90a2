// SPDX-License-Identifier: MIT OR Apache-2.0
//! What developers run: ci, schema, evidence.
fn main() {}
