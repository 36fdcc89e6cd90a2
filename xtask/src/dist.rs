// SPDX-License-Identifier: MIT OR Apache-2.0
//! Release artifacts under `target/dist`: static binaries with checksums, completions and manual
//! pages, and a Debian package. Those that this machine cannot build are reported as skipped.

use crate::command::{cargo, output, program, root};
use crate::outcome::judge;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "target/dist";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// A processor for which a program is built.
struct Target {
    /// As rustc names it; with the C library linked in.
    triple: &'static str,
    /// Compilers of C for it, one of which has to be installed; the first one that is links, too.
    compilers: &'static [&'static str],
    /// As Debian names the processor.
    debian: &'static str,
}

const TARGETS: [Target; 2] = [
    Target { triple: "x86_64-unknown-linux-musl", compilers: &["musl-gcc"], debian: "amd64" },
    Target {
        triple: "aarch64-unknown-linux-musl",
        compilers: &["aarch64-linux-musl-gcc", "aarch64-linux-gnu-gcc"],
        debian: "arm64",
    },
];

/// Commands that have to work in a root directory that holds the program and nothing else.
const BARE: [&[&str]; 4] = [
    &["--version"],
    &["stages"],
    &["budget", "--machine", "t1", "--quiet"],
    &["kernels", "--list"],
];

/// Builds, packs and tries everything that this machine can.
///
/// # Errors
/// A build fails, or a program does not work in a bare root directory.
pub(crate) fn run() -> Result<(), String> {
    let folder = root().join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| cannot(&folder, &error))?;
    }
    make(&folder)?;
    let mut archives = Vec::new();
    for target in &TARGETS {
        match compiler(target) {
            Ok(compiler) => archives.extend(of_target(target, compiler, &folder)?),
            Err(why) => println!("SKIP: {}: {why}", target.triple),
        }
    }
    if archives.is_empty() {
        return Err("no target could be built".to_owned());
    }
    let names: Vec<&str> = archives.iter().map(String::as_str).collect();
    let mut sums = program("sha256sum", &names);
    let sums = output({
        sums.current_dir(&folder);
        sums
    })?;
    write(&folder.join("SHA256SUMS"), &sums)?;
    print!("{}", String::from_utf8_lossy(&sums));
    Ok(())
}

/// The compiler of C for a target; the error says what is missing.
fn compiler(target: &Target) -> Result<&'static str, String> {
    let installed = output(program("rustup", &["target", "list", "--installed"]))?;
    let installed = String::from_utf8_lossy(&installed);
    if !installed.lines().any(|line| line == target.triple) {
        return Err(format!("not installed; rustup target add {}", target.triple));
    }
    let is_there = |name: &&&str| output(program(name, &["--version"])).is_ok();
    let found = target.compilers.iter().find(is_there).copied();
    found.ok_or_else(|| format!("no compiler of C; one of {}", target.compilers.join(", ")))
}

/// Builds and packs for one target; the names of its archives.
fn of_target(target: &Target, compiler: &str, folder: &Path) -> Result<Vec<String>, String> {
    let Target { triple, debian, .. } = target;
    let name = triple.replace('-', "_");
    let mut build =
        cargo(&["build", "--release", "--locked", "-p", "linerate", "--target", triple]);
    build.env(format!("CC_{name}"), compiler);
    build.env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), compiler);
    judge(crate::command::status(build))?;
    let built = root().join("target").join(triple).join("release/linerate");

    let stem = format!("linerate-{VERSION}-{triple}");
    let packed = folder.join(&stem);
    make(&packed)?;
    fs::copy(&built, packed.join("linerate")).map_err(|error| cannot(&built, &error))?;
    for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root().join(file), packed.join(file)).map_err(|e| cannot(&packed, &e))?;
    }
    // Texts are the same for every processor; a program of another one cannot print them here.
    let host = format!("{}-", std::env::consts::ARCH);
    let texts = match triple.starts_with(&host) {
        true => built,
        false => root().join("target/release/linerate"),
    };
    if texts.exists() {
        write_texts(&texts, &packed)?;
    } else {
        println!("SKIP: completions and manual pages of {triple}: cargo build --release first");
    }
    if triple.starts_with(&host) {
        try_in_bare_root(&packed.join("linerate"), folder)?;
    }
    let archive = format!("{stem}.tar.gz");
    let mut tar = program("tar", &["--owner=0", "--group=0", "-czf", &archive, &stem]);
    tar.current_dir(folder);
    output(tar)?;
    let mut archives = vec![archive];
    match package(&packed, debian, folder) {
        Ok(package) => archives.push(package),
        Err(why) => println!("SKIP: Debian package of {triple}: {why}"),
    }
    Ok(archives)
}

/// Completions and manual pages, as the program prints them.
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

/// Runs the program in a root directory that holds nothing else: no C library, no /proc, no /tmp.
fn try_in_bare_root(linerate: &Path, folder: &Path) -> Result<(), String> {
    let bare = folder.join("root");
    make(&bare)?;
    fs::copy(linerate, bare.join("linerate")).map_err(|error| cannot(&bare, &error))?;
    let there = bare.to_string_lossy();
    let chroot = ["--map-root-user", "chroot", &there];
    if output(program("unshare", &["--map-root-user", "true"])).is_err() {
        println!("SKIP: trying in a bare root directory: no user namespaces here");
        return Ok(());
    }
    for words in BARE {
        let printed = output(program("unshare", &[&chroot[..], &["/linerate"], words].concat()))?;
        if printed.is_empty() {
            return Err(format!("`linerate {}` prints nothing in a bare root", words.join(" ")));
        }
        println!("in a bare root: linerate {}: {} bytes", words.join(" "), printed.len());
    }
    fs::remove_dir_all(&bare).map_err(|error| cannot(&bare, &error))
}

/// A package for Debian and its like; its name.
fn package(packed: &Path, debian: &str, folder: &Path) -> Result<String, String> {
    output(program("dpkg-deb", &["--version"]))?;
    let tree = folder.join("deb");
    let doc = "usr/share/doc/linerate";
    let completions = [
        ("linerate.bash", "usr/share/bash-completion/completions", "linerate"),
        ("linerate.zsh", "usr/share/zsh/vendor-completions", "_linerate"),
        ("linerate.fish", "usr/share/fish/vendor_completions.d", "linerate.fish"),
    ];
    let mut files: Vec<(PathBuf, String)> = vec![
        (packed.join("linerate"), "usr/bin/linerate".to_owned()),
        (packed.join("README.md"), format!("{doc}/README.md")),
        (packed.join("LICENSE-MIT"), format!("{doc}/copyright")),
    ];
    for (file, to, name) in completions {
        files.push((packed.join("completions").join(file), format!("{to}/{name}")));
    }
    for page in entries(&packed.join("man1"))? {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((page, format!("usr/share/man/man1/{name}")));
    }
    for (from, to) in files {
        let to = tree.join(to);
        make(to.parent().expect("a file has a folder"))?;
        fs::copy(&from, &to).map_err(|error| cannot(&from, &error))?;
    }
    make(&tree.join("DEBIAN"))?;
    let control = format!(
        "Package: linerate\nVersion: {VERSION}\nArchitecture: {debian}\nSection: net\n\
         Priority: optional\nMaintainer: the authors of linerate\n\
         Description: performance engineering for packet software\n \
         Finds out why packet software misses line rate, and fixes it.\n"
    );
    write(&tree.join("DEBIAN/control"), control.as_bytes())?;
    let name = format!("linerate_{VERSION}_{debian}.deb");
    let mut build = program("dpkg-deb", &["--build", "--root-owner-group", "deb", &name]);
    build.current_dir(folder);
    output(build)?;
    fs::remove_dir_all(&tree).map_err(|error| cannot(&tree, &error))?;
    Ok(name)
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
