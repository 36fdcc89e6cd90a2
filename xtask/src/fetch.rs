// SPDX-License-Identifier: MIT OR Apache-2.0
//! Downloads third-party sources to `third-party`, which git ignores.
//!
//! Sources are pinned by hash, which is checked before unpacking. The location comes from apt,
//! whose mirror keeps the source next to the binary packages built from it.

use crate::command::{output, program, root};
use std::fs::{self, File};
use std::path::Path;
use std::time::SystemTime;

const FOLDER: &str = "third-party";

/// lwIP as packaged by Debian, whose source package omits files with unclear licences.
const LWIP_VERSION: &str = "2.1.3";
const LWIP_ARCHIVE: &str = "lwip_2.1.3+dfsg1.orig.tar.xz";
const LWIP_SHA256: &str = "0a8276d09fc4e97bbba2f953d74af2388fc2195ea156be9d7589e297a68fde24";

/// A binary package built from lwIP's source package; its URL shows where the source is.
const LWIP_PACKAGE: &str = "liblwip-dev";

/// Build script that looks for lwIP. It must run again after lwIP has been fetched.
const BUILD_SCRIPT: &str = "crates/kernelbench/build.rs";

/// Content of a file that marks a directory as not part of the project, for our own and other
/// tools. The Cache Directory Tagging Specification prescribes the first bytes.
pub(crate) const TAG: &str =
    "Signature: 8a477f597d28d172789f06886806bc55\n# Made by `cargo xtask`.\n";

/// Downloads lwIP unless the pinned version is already there.
pub(crate) fn lwip_if_absent() -> Result<(), String> {
    let version = fs::read_to_string(root().join(FOLDER).join("lwip/version.txt"));
    if version.is_ok_and(|version| version.trim() == LWIP_VERSION) { Ok(()) } else { lwip() }
}

/// Downloads and unpacks lwIP.
pub(crate) fn lwip() -> Result<(), String> {
    let folder = root().join(FOLDER);
    write(&folder.join("CACHEDIR.TAG"), TAG)?;
    let archive = folder.join(LWIP_ARCHIVE);
    if !archive.exists() {
        download(&archive)?;
    }
    let found = sha256(&archive)?;
    if found != LWIP_SHA256 {
        fs::remove_file(&archive).map_err(|error| format!("{}: {error}", archive.display()))?;
        return Err(format!("{LWIP_ARCHIVE} has SHA-256 {found}, not {LWIP_SHA256}: file removed"));
    }
    println!("{LWIP_ARCHIVE}: SHA-256 {found} as expected");
    unpack(&archive, &folder.join("lwip"))?;
    println!(
        "{FOLDER}/lwip: lwIP {LWIP_VERSION}; rebuild linerate to include it in `linerate kernels`"
    );
    let touch = |file: File| file.set_modified(SystemTime::now());
    let script = File::options().append(true).open(root().join(BUILD_SCRIPT));
    script.and_then(touch).map_err(|error| format!("{BUILD_SCRIPT}: {error}"))
}

/// Writes a file, creating missing parent directories.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), String> {
    let folder = file.parent().unwrap_or(file);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(file, text));
    written.map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// Downloads the archive from the mirror that apt would download the binary package from.
fn download(archive: &Path) -> Result<(), String> {
    let by_hand = || {
        format!(
            "the download requires apt on Debian or a derivative; without apt, put {LWIP_ARCHIVE} \
             from Debian's source package `lwip` into {FOLDER} and run this again"
        )
    };
    let uris = output(program("apt-get", &["download", "--print-uris", LWIP_PACKAGE]));
    let uris = uris.map_err(|why| format!("{why}; {}", by_hand()))?;
    let uris = String::from_utf8_lossy(&uris);
    let folder = pool_folder(&uris).ok_or_else(by_hand)?;
    let uri = format!("{folder}/{}", LWIP_ARCHIVE.replace('+', "%2b"));
    let target = archive.to_str().ok_or("the path of the repository is not UTF-8")?;
    let hash = format!("SHA256:{LWIP_SHA256}");
    let helper = ["download-file", &uri, target, &hash];
    println!("$ apt-helper {}", helper.join(" "));
    output(program("/usr/lib/apt/apt-helper", &helper)).map(drop)
}

/// Returns the directory of the first URL in the output of `apt-get --print-uris`, which puts URLs
/// in quotes.
fn pool_folder(uris: &str) -> Option<&str> {
    let uri = uris.lines().find_map(|line| line.strip_prefix('\'')?.split('\'').next())?;
    uri.rsplit_once('/').map(|(folder, _)| folder)
}

fn sha256(file: &Path) -> Result<String, String> {
    let name = file.to_str().ok_or("the path of the repository is not UTF-8")?;
    let line = output(program("sha256sum", &[name]))?;
    let line = String::from_utf8_lossy(&line).into_owned();
    line.split_whitespace()
        .next()
        .map(str::to_owned)
        .ok_or_else(|| "sha256sum printed nothing".into())
}

/// Unpacks the sources and their licence into an empty directory.
fn unpack(archive: &Path, folder: &Path) -> Result<(), String> {
    let at = |error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(at)?;
    }
    fs::create_dir_all(folder).map_err(at)?;
    let mut tar = program("tar", &["-x", "--strip-components=1", "-f"]);
    tar.arg(archive).arg("-C").arg(folder);
    tar.args(["src", "COPYING"].map(|name| format!("lwip-{LWIP_VERSION}/{name}")));
    output(tar)?;
    write(&folder.join("version.txt"), &format!("{LWIP_VERSION}\n"))
}

#[cfg(test)]
mod tests {
    use super::pool_folder;

    #[test]
    fn the_source_is_next_to_the_binary_package() {
        let uris =
            "'http://a.b/c/pool/main/l/lwip/liblwip-dev_2%2bd_amd64.deb' liblwip 24 SHA256:0\n";
        assert_eq!(pool_folder(uris), Some("http://a.b/c/pool/main/l/lwip"));
        for none in ["", "E: Unable to locate package liblwip-dev", "'nothing'"] {
            assert_eq!(pool_folder(none), None, "{none}");
        }
    }
}
