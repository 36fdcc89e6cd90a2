// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the kernels and, with the feature `bench`, their bounds.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=native/include");
    println!("cargo::rerun-if-changed=native/kernels");
    // The kernels rely on neither an operating system nor a C library.
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

/// The compiler, with the flags that every file needs. It optimizes in every profile: without
/// inlining, vector operations become function calls, and tests that cover millions of lengths take
/// hours.
fn compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build.include("native/include").std("c11").opt_level(2).warnings(true).extra_warnings(true);
    build
}

/// The C files in a folder, sorted by name.
fn sources(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| {
        panic!(
            "{folder}: {e}; `native` must hold the C of the repository: where links are not \
             supported, put a copy of the folder in its place"
        )
    });
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("folder entries can be read").path())
        .filter(|path| path.extension() == Some(Path::new("c").as_os_str()))
        .collect();
    found.sort();
    found
}
