// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the kernels and, with the feature `bench`, the upper-bound loops.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=native/include");
    println!("cargo::rerun-if-changed=native/kernels");
    // The kernels need neither an operating system nor a C library.
    compiler()
        .flag("-ffreestanding")
        .files(sources("native/kernels"))
        .files(sources("native/kernels/isa"))
        .compile("linerate_kernels");
    if std::env::var_os("CARGO_FEATURE_BENCH").is_some() {
        println!("cargo::rerun-if-changed=native/bounds");
        compiler().files(sources("native/bounds")).compile("linerate_bounds");
    }
}

/// Returns the C compiler with the flags common to all files. It optimizes even in debug builds:
/// without inlining, every vector intrinsic would be a function call, and tests that cover millions
/// of lengths would take hours.
fn compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build.include("native/include").std("c11").opt_level(2).warnings(true).extra_warnings(true);
    build
}

/// Returns the C files in a directory, sorted by name.
fn sources(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| {
        panic!(
            "{folder}: {e}; `native` must be a link to the repository's `native` folder or, where \
             symbolic links are not supported, a copy of that folder"
        )
    });
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder's entries are readable").path())
        .filter(|path| path.extension() == Some(Path::new("c").as_os_str()))
        .collect();
    found.sort();
    found
}
