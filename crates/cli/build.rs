// SPDX-License-Identifier: MIT OR Apache-2.0
//! Embeds the commit and the compiler version for the provenance of records, and links gcc's
//! unwinder statically (docs/decisions/0109-starting-fast.md).

use std::path::Path;
use std::process::Command;

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}

/// Links gcc's unwinder archive, if it exists. Links the whole archive, so that no symbol comes
/// from the shared library.
fn link_unwinder() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let is_ours =
        variable("TARGET") == variable("HOST") && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    let is_static =
        variable("CARGO_CFG_TARGET_FEATURE").split(',').any(|name| name == "crt-static");
    let linker = std::env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    let archive = || first_line(&linker, &["-print-file-name=libgcc_eh.a"]);
    // If the archive does not exist, the compiler prints the file name without a directory.
    if is_ours && !is_static && archive().is_some_and(|path| path.contains('/')) {
        println!("cargo::rustc-link-lib=static:+whole-archive,-bundle=gcc_eh");
    }
}

/// Reruns this script when another commit is checked out. Queries Git for the location of HEAD,
/// because a worktree's HEAD is outside the repository root. Skips missing files, which would make
/// cargo rebuild every time.
fn watch_head() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(file) = first_line("git", &["rev-parse", "--git-path", name])
            && Path::new(&file).exists()
        {
            println!("cargo::rerun-if-changed={file}");
        }
    }
}

fn main() {
    link_unwinder();
    watch_head();
    if let Some(commit) = first_line("git", &["describe", "--always", "--dirty", "--abbrev=12"]) {
        println!("cargo::rustc-env=LINERATE_COMMIT={commit}");
    }
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let compiler = first_line(&rustc, &["--version"]).unwrap_or_else(|| "rustc".to_owned());
    println!("cargo::rustc-env=LINERATE_COMPILER={compiler}");
}
