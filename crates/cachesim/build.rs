// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the plugin as a shared object for this target.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=plugin");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let object = folder.join("cachesim.so");
    // Optimize in every profile: the plugin runs for each instruction of a simulated program.
    let compiler = cc::Build::new().std("c11").opt_level(3).debug(false).pic(true).get_compiler();
    let mut command = compiler.to_command();
    command.args(["-Wall", "-Wextra", "-flto", "-fvisibility=hidden"]);
    // No C library is linked, because the emulator's may differ from this target's (musl).
    command.args(["-shared", "-nostdlib", "-o"]).arg(&object).args(sources());
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// Returns the C files, sorted by name.
fn sources() -> Vec<PathBuf> {
    let entries = fs::read_dir("plugin").expect("the crate contains its C files");
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder's entries are readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    found.sort();
    found
}
