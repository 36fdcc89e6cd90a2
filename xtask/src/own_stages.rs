// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the Rust template of `linerate new-stage`: builds it outside the workspace, as a user
//! would, but offline and with the dependency versions in the workspace's lock file. The C template
//! takes only a second and is tested in `cli`.

use crate::command::{cargo, finish, program, root, status};
use crate::outcome::{Outcome, judge};
use std::fs;
use std::path::Path;

/// Directory for the crate and its build output.
const FOLDER: &str = "target/own-stages";

/// Name of the stage.
const NAME: &str = "own-stage";

/// Generates the crate, tests and builds it, and runs and tunes its path.
pub(crate) fn check() -> Outcome {
    checked().into()
}

fn checked() -> Result<(), String> {
    let folder = root().join(FOLDER);
    let cannot = |error: std::io::Error| format!("{FOLDER}: {error}");
    fs::create_dir_all(&folder).map_err(cannot)?;
    let own = folder.join(NAME);
    if own.exists() {
        fs::remove_dir_all(&own).map_err(cannot)?;
    }
    let checkout = root().display().to_string();
    let arguments = ["run", "--quiet", "--locked", "--package", "linerate", "--manifest-path"];
    let manifest = root().join("Cargo.toml").display().to_string();
    let new = ["--", "new-stage", NAME, "--linerate", &checkout];
    let mut new = cargo(&[&arguments[..], &[&manifest], &new].concat());
    new.current_dir(&folder);
    judge(status(new))?;
    for arguments in [["test", "--offline"], ["build", "--offline"]] {
        let mut build = cargo(&arguments);
        build.current_dir(&own).env("CARGO_TARGET_DIR", folder.join("target"));
        // The crate has Cargo's default profile, whose debug information takes gigabytes.
        build.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
        judge(status(build))?;
    }
    let own_program = folder.join("target/debug").join(NAME);
    let path = own.join(format!("{NAME}.toml"));
    let (own_program, path) = (shown(&own_program), shown(&path));
    judge(status(program(&own_program, &["run", &path, "--time", "200ms"])))?;
    // On a busy machine, `tune` prints its record and ends with 2: cannot tell.
    let tuned = finish(program(&own_program, &["tune", &path, "--time", "200ms", "--json"]))?;
    match tuned.stdout.starts_with(b"{") {
        true => Ok(()),
        false => Err(format!("tune printed no record and ended with {}", tuned.status)),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
