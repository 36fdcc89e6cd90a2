// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest distribution's compiler, and programs built with it.
//!
//! rustup's compilers cannot use the distribution's standard libraries, and the distribution's
//! compiler cannot use rustup's, so compiler and libraries come from one source package. cargo is
//! the one already in use.

use super::packages::{Package, Packages};
use super::{Obstacle, cache};
use crate::command::{cargo, root, status};
use crate::fetch::write;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of all packages built from the compiler's source package.
const VERSION: &str = "1.85.0+dfsg3-1~deb12u3";

const fn of_compiler(name: &'static str, architecture: &'static str) -> Package {
    Package { name, architecture, version: VERSION, current: None }
}

/// The compiler, its back-end library, and the standard library for build scripts.
const COMPILER: [Package; 4] = [
    of_compiler("rustc-web", "amd64"),
    of_compiler("libstd-rust-web-1.85", "amd64"),
    of_compiler("libstd-rust-web-dev", "amd64"),
    Package {
        name: "libllvm19",
        architecture: "amd64",
        version: "1:19.1.7-3~deb12u1",
        current: None,
    },
];

/// Programs in the probe's workspace that run in guests.
const PROGRAMS: [&str; 3] = ["linerate-probe", "known", "self_measurement"];

/// Returns the compiler as a command for cargo, if it has been unpacked.
pub(crate) fn installed() -> Option<PathBuf> {
    let command = command_file();
    command.exists().then_some(command)
}

fn command_file() -> PathBuf {
    cache().join("rustc-1.85")
}

fn prefix() -> PathBuf {
    cache().join("compiler")
}

/// Unpacks the compiler with the standard library for an architecture.
fn unpack(packages: &mut Packages, architecture: &'static str) -> Result<PathBuf, Obstacle> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(Obstacle::Missing("the lab's compiler runs on x86-64 only".to_owned()));
    }
    packages.unpack(&COMPILER, &prefix())?;
    packages.unpack(&[of_compiler("libstd-rust-web-dev", architecture)], &prefix())?;
    let command = command_file();
    if !command.exists() {
        write(&command, &wrapper(&prefix()))?;
        set_permissions(&command, Permissions::from_mode(0o755))
            .map_err(|error| format!("{}: {error}", command.display()))?;
    }
    Ok(command)
}

/// Returns a script that starts the compiler with the libraries it was unpacked with.
fn wrapper(prefix: &Path) -> String {
    let usr = prefix.join("usr");
    let usr = usr.display();
    format!(
        "#!/bin/sh\n\
         LD_LIBRARY_PATH='{usr}/lib/x86_64-linux-gnu:{usr}/lib' exec '{usr}/bin/rustc' \"$@\"\n"
    )
}

/// Returns a cargo command that uses this compiler and a separate target directory.
pub(crate) fn cargo_with(compiler: &Path, arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    command.env("CARGO_TARGET_DIR", root().join(target).join("lab"));
    command.env("RUSTC", compiler);
    // Flags and wrappers in the environment are meant for the current compiler, not for this one.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"]
    {
        command.env_remove(name);
    }
    command
}

/// Builds the programs that run in guests and returns their files. Takes the target, and the
/// distribution's name for the target's architecture.
pub(crate) fn build(
    packages: &mut Packages,
    triple: &str,
    architecture: &'static str,
) -> Result<Vec<PathBuf>, Obstacle> {
    let compiler = unpack(packages, architecture)?;
    let arguments =
        ["build", "--quiet", "--release", "--locked", "--workspace", "--target", triple];
    let mut command = cargo_with(&compiler, &arguments);
    // Run cargo in the probe's directory, because it looks for its configuration in the working
    // directory and the directories above.
    command.current_dir(root().join("probe"));
    let target = command.get_envs().find(|(name, _)| *name == "CARGO_TARGET_DIR");
    let target = target.and_then(|(_, value)| value).map(PathBuf::from).unwrap_or_default();
    match status(command)? {
        0 => Ok(PROGRAMS.map(|name| target.join(triple).join("release").join(name)).to_vec()),
        code => Err(Obstacle::Failed(format!("the probe was not built: exit status {code}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::wrapper;
    use std::path::Path;

    #[test]
    fn the_compiler_finds_its_own_libraries() {
        let script = wrapper(Path::new("/a b/compiler"));
        assert!(
            script.starts_with("#!/bin/sh\nLD_LIBRARY_PATH='/a b/compiler/usr/lib/"),
            "{script}"
        );
        assert!(script.ends_with("exec '/a b/compiler/usr/bin/rustc' \"$@\"\n"), "{script}");
    }
}
