// SPDX-License-Identifier: MIT OR Apache-2.0
//! Release artifacts under `target/packages`: static binaries with checksums, completions and man
//! pages, a Debian package and an RPM package. Those that this machine cannot build are reported as
//! skipped. Programs and packages are tested in otherwise empty root directories.

mod packages;

use crate::command::{cargo, output, program, root};
use crate::outcome::{Outcome, judge};
use std::fs;
use std::path::{Path, PathBuf};

/// Folder of the products. Cargo keeps the intermediate files of the profile in `target/dist`.
const FOLDER: &str = "target/packages";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// A processor that the program is built for.
struct Target {
    /// rustc target triple; the C library is linked statically.
    triple: &'static str,
    /// C compilers for the target, one of which must be installed.
    compilers: &'static [&'static str],
    /// Debian package that provides one of `compilers`.
    compiler_package: &'static str,
    /// Architecture names used by Debian and by rpm.
    packaged: [&'static str; 2],
}

const TARGETS: [Target; 2] = [
    Target {
        triple: "x86_64-unknown-linux-musl",
        compilers: &["musl-gcc"],
        compiler_package: "musl-tools",
        packaged: ["amd64", "x86_64"],
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        compilers: &["aarch64-linux-musl-gcc", "aarch64-linux-gnu-gcc"],
        compiler_package: "gcc-aarch64-linux-gnu",
        packaged: ["arm64", "aarch64"],
    },
];

/// Commands that must work in a root directory that contains only the program.
const BARE: [&[&str]; 4] = [
    &["--version"],
    &["stages"],
    &["budget", "--machine", "t1", "--quiet"],
    &["kernels", "--list"],
];

/// Commands that write to the root directory and measure; not tried under emulation.
const BARE_RUN: [&[&str]; 2] =
    [&["example", "/example"], &["run", "/example/edge.toml", "--time", "200ms", "--quiet"]];

/// Builds and tests the packages; skipped if this machine lacks a requirement of any target.
pub(crate) fn check() -> Outcome {
    let lacking: Vec<String> = TARGETS.iter().filter_map(|one| compiler(one).err()).collect();
    if !lacking.is_empty() {
        return Outcome::Skipped(lacking.join("; "));
    }
    match run() {
        Ok(skips) => Outcome::Passed(skips),
        Err(why) => Outcome::Failed(why),
    }
}

/// What this machine cannot build or try, with the reason. Each line is printed when it is noted.
#[derive(Default)]
struct Skips(Vec<String>);

impl Skips {
    fn note(&mut self, what: &str) {
        let line = format!("SKIP: {what}");
        println!("{line}");
        self.0.push(line);
    }
}

/// Builds, packages and tests everything that this machine can. Returns what it cannot.
///
/// # Errors
/// Returns an error if a build fails, or if a program does not work in a bare root directory.
pub(crate) fn run() -> Result<Vec<String>, String> {
    let mut skips = Skips::default();
    let compilers = TARGETS.map(|target| (compiler(&target), target));
    for (found, target) in &compilers {
        match found {
            Ok(compiler) => println!("{}: compiler {compiler}", target.triple),
            Err(lacking) => skips.note(&format!("{}: {lacking}", target.triple)),
        }
    }
    if compilers.iter().all(|(found, _)| found.is_err()) {
        return Err("nothing can be built: install what one of the targets lacks".to_owned());
    }
    let folder = root().join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| cannot(&folder, &error))?;
    }
    make(&folder)?;
    let mut archives = Vec::new();
    for (found, target) in &compilers {
        if let Ok(compiler) = found {
            archives.extend(of_target(target, compiler, &folder, &mut skips)?);
        }
    }
    let names: Vec<&str> = archives.iter().map(String::as_str).collect();
    let mut sums = program("sha256sum", &names);
    let sums = output({
        sums.current_dir(&folder);
        sums
    })?;
    write(&folder.join("SHA256SUMS"), &sums)?;
    print!("{}", String::from_utf8_lossy(&sums));
    Ok(skips.0)
}

/// Returns a target's C compiler. The error states everything that is missing, and the commands
/// that install it.
fn compiler(target: &Target) -> Result<&'static str, String> {
    let installed = output(program("rustup", &["target", "list", "--installed"]))?;
    let installed = String::from_utf8_lossy(&installed);
    let has_library = installed.lines().any(|line| line == target.triple);
    let is_there = |name: &&&str| output(program(name, &["--version"])).is_ok();
    let found = target.compilers.iter().find(is_there).copied();
    found.filter(|_| has_library).ok_or_else(|| lacking(target, has_library, found.is_some()))
}

/// Describes what a target lacks, and how to install it.
fn lacking(target: &Target, has_library: bool, has_compiler: bool) -> String {
    let library = || format!("rustup target add {}", target.triple);
    let compiler = || {
        format!(
            "a C compiler: {} (Debian: sudo apt-get install {})",
            target.compilers.join(" or "),
            target.compiler_package
        )
    };
    let parts = [(!has_library).then(library), (!has_compiler).then(compiler)];
    format!("needs {}", parts.into_iter().flatten().collect::<Vec<_>>().join(" and "))
}

/// README of the archives and packages, which do not contain the pages that the repository's README
/// refers to.
const README: &str = "\
# linerate

linerate finds out why packet software misses line rate, and fixes it.

    linerate why --demo      an example, without root: a program that loses packets
    linerate why PID         why a running program misses line rate
    linerate example         write an example path, edge.toml, and its capture
    linerate tune edge.toml  find the bottleneck of the path, and a better mapping
    linerate doctor          what this machine can measure, and what unlocks the rest

The program is statically linked: copy it to any directory in PATH. `linerate --help` lists the
commands, and `linerate COMMAND --help` describes all options, with examples. The manual pages
(`man linerate`) have the same text; in the archive, they are in man1, and the shell completions are
in completions.

Licence: MIT or Apache-2.0, at your option.
";

/// Builds and packages for one target, and returns the names of its archives.
fn of_target(
    target: &Target,
    compiler: &str,
    folder: &Path,
    skips: &mut Skips,
) -> Result<Vec<String>, String> {
    let Target { triple, packaged, .. } = target;
    let name = triple.replace('-', "_");
    let is_host = triple.starts_with(&format!("{}-", std::env::consts::ARCH));
    let mut build =
        cargo(&["build", "--profile", "dist", "--locked", "-p", "linerate", "--target", triple]);
    build.env(format!("CC_{name}"), compiler);
    // rustc comes with the C library and the startup files; musl-gcc would link a static
    // position-independent program as a dynamic one, which crashes where musl is not installed.
    let linker = if is_host { "cc" } else { compiler };
    build.env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), linker);
    judge(crate::command::status(build))?;
    let built = root().join("target").join(triple).join("dist/linerate");

    let stem = format!("linerate-{VERSION}-{triple}");
    let packed = folder.join(&stem);
    make(&packed)?;
    fs::copy(&built, packed.join("linerate")).map_err(|error| cannot(&built, &error))?;
    write(&packed.join("README.md"), README.as_bytes())?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root().join(file), packed.join(file)).map_err(|e| cannot(&packed, &e))?;
    }
    // The completions and man pages are the same for every processor, but only a program built for
    // this one can print them.
    let of_host = format!("target/{}-unknown-linux-musl/dist/linerate", std::env::consts::ARCH);
    let texts = if is_host { built } else { root().join(of_host) };
    if texts.exists() {
        write_texts(&texts, &packed)?;
    } else {
        skips.note(&format!(
            "completions and manual pages for {triple}: the program does not run on this machine"
        ));
    }
    match is_host {
        true => try_program(&packed.join("linerate"), folder, skips)?,
        false => try_emulated(triple, &packed.join("linerate"), skips)?,
    }
    let archive = format!("{stem}.tar.gz");
    let mut tar = program("tar", &["--owner=0", "--group=0", "-czf", &archive, &stem]);
    tar.current_dir(folder);
    output(tar)?;
    let mut archives = vec![archive];
    for package in packages::build(&packed, *packaged, folder, skips)? {
        if is_host {
            packages::try_unpacked(&package, folder, skips)?;
        }
        archives.push(package);
    }
    Ok(archives)
}

/// Writes the completions and man pages, as printed by the program.
fn write_texts(linerate: &Path, packed: &Path) -> Result<(), String> {
    let name = linerate.to_string_lossy();
    let (completions, man) = (packed.join("completions"), packed.join("man1"));
    make(&completions)?;
    for shell in SHELLS {
        let script = output(program(&name, &["completions", shell]))?;
        write(&completions.join(format!("linerate.{shell}")), &script)?;
    }
    output(program(&name, &["man", &man.to_string_lossy()])).map(|_| ())
}

/// Runs the program in a root directory that contains nothing else: no C library, no /proc, no
/// /tmp.
fn try_program(linerate: &Path, folder: &Path, skips: &mut Skips) -> Result<(), String> {
    let bare = folder.join("root");
    make(&bare)?;
    fs::copy(linerate, bare.join("linerate")).map_err(|error| cannot(&bare, &error))?;
    try_in_bare_root(&bare, "/linerate", skips)?;
    fs::remove_dir_all(&bare).map_err(|error| cannot(&bare, &error))
}

/// Runs the program at path `inside` of the root directory `bare`.
fn try_in_bare_root(bare: &Path, inside: &str, skips: &mut Skips) -> Result<(), String> {
    let there = bare.to_string_lossy();
    let chroot = ["--map-root-user", "chroot", &there];
    if output(program("unshare", &["--map-root-user", "true"])).is_err() {
        skips.note("trial run in a bare root directory: user namespaces are not available");
        return Ok(());
    }
    for words in BARE.iter().chain(&BARE_RUN) {
        let printed = output(program("unshare", &[&chroot[..], &[inside], *words].concat()))?;
        if printed.is_empty() {
            return Err(format!(
                "`linerate {}` prints nothing in a bare root directory",
                words.join(" ")
            ));
        }
        println!(
            "in a bare root directory: `{inside} {}` printed {} bytes",
            words.join(" "),
            printed.len()
        );
    }
    Ok(())
}

/// Runs a program for another processor under QEMU's user emulation, if that is installed. The
/// program is statically linked, so no libraries for its processor are needed.
fn try_emulated(triple: &str, linerate: &Path, skips: &mut Skips) -> Result<(), String> {
    let architecture = triple.split('-').next().unwrap_or(triple);
    let emulator = format!("qemu-{architecture}");
    if let Err(why) = output(program(&emulator, &["--version"])) {
        skips.note(&format!("trial run of the {triple} program: {why}"));
        return Ok(());
    }
    let linerate = linerate.to_string_lossy();
    for words in BARE {
        let printed = output(program(&emulator, &[&[&*linerate][..], words].concat()))?;
        if printed.is_empty() {
            return Err(format!(
                "`linerate {}`, built for {triple}, prints nothing",
                words.join(" ")
            ));
        }
        println!("in {emulator}: `linerate {}` printed {} bytes", words.join(" "), printed.len());
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| cannot(folder, &error))?;
    let paths: std::io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    paths.map_err(|error| cannot(folder, &error))
}

fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))
}

fn write(file: &Path, text: &[u8]) -> Result<(), String> {
    fs::write(file, text).map_err(|error| cannot(file, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_a_target_lacks_is_named_with_its_command() {
        let [here, other] = &TARGETS;
        assert_eq!(
            lacking(here, false, false),
            "needs rustup target add x86_64-unknown-linux-musl and a C compiler: musl-gcc (Debian: \
             sudo apt-get install musl-tools)"
        );
        let needed = lacking(other, true, false);
        assert!(!needed.contains("rustup") && needed.contains("gcc-aarch64-linux-gnu"), "{needed}");
    }

    #[test]
    fn the_packed_readme_refers_to_no_file_that_is_not_packed() {
        assert!(!README.contains("](") && !README.contains("docs/"), "{README}");
    }
}
