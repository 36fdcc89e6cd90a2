// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creates the stored records in `linerate_record::fixtures`, one of each kind, by running linerate
//! on this machine.

use crate::command::{cargo, output, root};
use std::process::Command;

const FOLDER: &str = "crates/record/fixtures";

/// Folder in which records are made.
const MADE_IN: &str = "target/fixtures";

/// Kinds of records, with the arguments that produce them. The records are small: tests depend on
/// their structure.
const COMMANDS: &[(&str, &[&str])] = &[
    ("run", &["run", "examples/edge.toml", "--time", "200ms", "--cpus", "0"]),
    ("tune", &["tune", "examples/edge.toml", "--time", "200ms"]),
    ("plan", &["plan", "examples/edge.toml", "--from", "target/fixtures/run.json"]),
    ("budget", &["budget", "--from", "target/fixtures/run.json", "--clock", "2.5"]),
    ("answers", &["explain", "target/fixtures/run.json"]),
    ("strands", &["import", "examples/netra-sample.dump", "--machine", "t1"]),
    ("kernels", &["kernels", "--quick", "--kernel", "checksum", "--size", "64,1460"]),
    ("memory", &["memory", "--quick", "--max", "1M", "--no-store"]),
    ("tcp", &["tcp", "--stack", "smoltcp", "--pattern", "bulk", "--time", "100ms"]),
    ("stream", &["stream", "--buffer", "auto,32K", "--message", "1K,64K", "--time", "800ms"]),
    ("doctor", &["doctor"]),
    (
        "profile_diff",
        &["diff", "crates/record/fixtures/profile.json", "crates/record/fixtures/profile.json"],
    ),
];

/// Other kinds of records, whose commands [`write()`] builds.
const OTHERS: [&str; 4] = ["stat", "why", "profile", "regions"];

/// Re-measures all records, or those named. Tests that compare values in a record may need new
/// expected values.
pub(crate) fn write(named: &[String]) -> Result<(), String> {
    let (made_in, folder) = (root().join(MADE_IN), root().join(FOLDER));
    std::fs::create_dir_all(&made_in).map_err(|error| format!("{MADE_IN}: {error}"))?;
    let kinds = || COMMANDS.iter().map(|(kind, _)| *kind).chain(OTHERS);
    if let Some(unknown) = named.iter().find(|name| !kinds().any(|kind| kind == name.as_str())) {
        return Err(format!("unknown record kind `{unknown}`"));
    }
    let is_wanted = |kind: &str| named.is_empty() || named.iter().any(|name| name == kind);
    for kind in kinds().filter(|kind| is_wanted(kind)) {
        let arguments = COMMANDS.iter().find(|(name, _)| *name == kind);
        output(match (kind, arguments) {
            (_, Some((_, arguments))) => linerate(arguments, kind, &[]),
            ("stat", None) => linerate(&["stat"], kind, &["--", "true"]),
            ("profile", None) => {
                linerate(&["profile", "-t", "1s"], kind, &["--", "sha256sum", "/dev/zero"])
            }
            ("why", None) => linerate(&["why", "-t", "1s"], kind, &["--", "sleep", "5"]),
            _ => regions(),
        })?;
    }
    for name in kinds().filter(|kind| is_wanted(kind)).map(|kind| format!("{kind}.json")) {
        let at = |error: std::io::Error| format!("{FOLDER}/{name}: {error}");
        let record = std::fs::read_to_string(made_in.join(&name)).map_err(at)?;
        if record.contains(&*root().to_string_lossy()) {
            return Err(format!(
                "{MADE_IN}/{name} contains the path of the repository: {}",
                root().display()
            ));
        }
        std::fs::write(folder.join(&name), record).map_err(at)?;
        println!("{FOLDER}/{name}");
    }
    Ok(())
}

fn linerate(arguments: &[&str], kind: &str, end: &[&str]) -> Command {
    let run = ["run", "--quiet", "--locked", "--package", "linerate", "--"];
    let file = format!("{MADE_IN}/{kind}.json");
    let mut command = cargo(&[&run, arguments, &["--quiet", "--record", &file], end].concat());
    // Hides the profile of this machine. Otherwise, the records would contain its values, and
    // `doctor` would print its path.
    command.env("XDG_STATE_HOME", "/nonexistent");
    command
}

/// Returns the command for the example program that counts events in its own regions.
fn regions() -> Command {
    let example = ["--package", "linerate-regions", "--example", "self_measurement"];
    let run = ["run", "--quiet", "--locked"];
    let mut command = cargo(&[&run[..], &example, &["--", "matmul", "60"]].concat());
    command.env("LINERATE_REGIONS", root().join(MADE_IN).join("regions.json"));
    command
}
