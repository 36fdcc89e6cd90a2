// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the data files to static tables, so that nothing is parsed at program start. Invalid
//! data fails the build with an error that names the file and the key.

#[path = "build/mod.rs"]
pub mod build;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/formula.rs");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let written = build::read(Path::new("data")).and_then(|data| {
        let source = build::generate(&data)?;
        let write = |name: &str, text: &str| {
            let path = Path::new(&out).join(name);
            std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        write("tables.rs", &source.tables)?;
        write("metrics.rs", &source.metrics)
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("cargo::error={error}");
            ExitCode::FAILURE
        }
    }
}
