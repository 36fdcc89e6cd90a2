// SPDX-License-Identifier: MIT OR Apache-2.0
//! Embeds the commit and the compiler version, for the provenance of records.

use std::process::Command;

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}

fn main() {
    println!("cargo::rerun-if-changed=../.git/HEAD");
    println!("cargo::rerun-if-changed=../.git/logs/HEAD");
    if let Some(commit) = first_line("git", &["describe", "--always", "--dirty", "--abbrev=12"]) {
        println!("cargo::rustc-env=LINERATE_COMMIT={commit}");
    }
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let compiler = first_line(&rustc, &["--version"]).unwrap_or_else(|| "rustc".to_owned());
    println!("cargo::rustc-env=LINERATE_COMPILER={compiler}");
}
