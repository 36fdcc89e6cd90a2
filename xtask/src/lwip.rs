// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds lwIP as a plug-in for the TCP benchmark, using its Makefile. The plug-in goes to cargo's
//! output directory, where crates/tcpbench/src/lwip/plugin.rs loads it, next to a hash that reveals
//! a damaged file.

#[path = "../../crates/tcpbench/src/lwip/plugin/seal.rs"]
mod seal;

use crate::command::{output, program, root, status};
use crate::fetch;
use crate::outcome::{Outcome, judge};
use seal::fnv1a;
use std::fs;
use std::path::{Path, PathBuf};

const MAKEFILE: &str = "crates/tcpbench/lwip";

/// Builds the plug-in from already downloaded source.
pub(crate) fn build(settings: &[&str]) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = root().join(target).join("lwip");
    let to = format!("BUILD={}", folder.display());
    let arguments = ["--no-print-directory", "-s", "-C", MAKEFILE, &to];
    judge(status(program("make", &[&arguments[..], settings].concat())))
        .map_err(|why| format!("make -C {MAKEFILE}: {why}"))?;
    let objects = objects(&folder)?;
    objects.iter().try_for_each(|object| seal(object))?;
    println!("{}: {} lwIP objects for `linerate tcp`", folder.display(), objects.len());
    Ok(())
}

/// Downloads the source if absent and builds the plug-in, with warnings as errors.
pub(crate) fn check() -> Outcome {
    if let Err(why) = output(program("make", &["--version"])) {
        return Outcome::Skipped(why);
    }
    if let Err(why) = fetch::lwip_if_absent() {
        return Outcome::Skipped(format!("lwIP could not be fetched: {why}"));
    }
    build(&["WERROR=-Werror"]).into()
}

/// Returns the shared objects (`.so`) in a directory.
fn objects(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let at = |error| format!("{}: {error}", folder.display());
    let mut objects = Vec::new();
    for entry in fs::read_dir(folder).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.extension().is_some_and(|extension| extension == "so") {
            objects.push(path);
        }
    }
    Ok(objects)
}

/// Writes an object's hash to a `.seal` file next to it.
fn seal(object: &Path) -> Result<(), String> {
    let bytes = fs::read(object).map_err(|error| format!("{}: {error}", object.display()))?;
    fetch::write(&object.with_extension("seal"), &format!("{:016x}\n", fnv1a(&bytes)))
}
