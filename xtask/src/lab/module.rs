// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds modules from `kmod` for a kernel, and checks the messages that the kernels' Linux port,
//! `kmod/csum_compare`, prints when it is loaded.

use super::guest::Toolchain;
use super::packages::{Packages, unpacked_version};
use super::{KERNEL, Obstacle, cache, guest};
use crate::command::{program, root, status};
use crate::fetch::write;
use crate::outcome::judge as judge_status;
use std::fs;
use std::path::{Path, PathBuf};

/// Module that contains the kernels' port.
pub(crate) const NAME: &str = "csum_compare";
/// File name of the module.
pub(crate) const FILE: &str = "csum_compare.ko";

/// The module's default number of buffers.
const BUFFERS: &str = "100000";

/// Returns the directory that holds the unpacked kernel headers, one package per release.
fn headers() -> PathBuf {
    cache().join("headers")
}

/// Builds a module for a guest's distribution kernel.
pub(crate) fn build_for(
    packages: &mut Packages,
    guest: &guest::Guest,
    prefix: &Path,
    module: &str,
) -> Result<PathBuf, Obstacle> {
    let kernel = guest::kernel(prefix)?;
    let name = kernel.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let release = name.split_once('-').map_or("", |(_, release)| release);
    let version = unpacked_version(&guest.kernel, prefix)?;
    let of = Release { name: release, architecture: guest.kernel.architecture, version: &version };
    let kernel = of.unpack_headers(packages)?;
    build(&kernel, guest.toolchain, &prefix.with_extension(module), module)
}

/// Builds the kernels' port for the distribution's kernel for this machine's architecture. The
/// module is never loaded.
pub(crate) fn build_for_amd64(packages: &mut Packages) -> Result<PathBuf, Obstacle> {
    let toolchain = Toolchain { architecture: "x86", prefix: "" };
    let of = Release { name: "6.1.0-50-amd64", architecture: "amd64", version: KERNEL };
    let kernel = of.unpack_headers(packages)?;
    build(&kernel, toolchain, &cache().join("amd64.module"), NAME)
}

/// Release of a distribution kernel, with a name such as `6.1.0-50-cloud-arm64`.
struct Release<'a> {
    name: &'a str,
    architecture: &'a str,
    version: &'a str,
}

impl Release<'_> {
    /// Unpacks the kernel's headers, and returns the directory that modules are built with.
    fn unpack_headers(&self, packages: &mut Packages) -> Result<PathBuf, Obstacle> {
        let Self { name, architecture, version } = self;
        let common = common_headers(name)?;
        let own = format!("linux-headers-{name}");
        packages.unpack_exactly(&own, architecture, version, &headers())?;
        packages.unpack_exactly(&common, "all", version, &headers())?;
        packages.unpack_exactly("linux-kbuild-6.1", "amd64", version, &headers())?;
        let kernel = headers().join("usr/src").join(own);
        // The package's own makefile names the directory that the package would be installed in.
        write(&kernel.join("Makefile"), &format!("include ../{common}/Makefile\n"))?;
        Ok(kernel)
    }
}

/// Returns the package with the headers shared by all flavours of a kernel release;
/// `6.1.0-50-arm64` is one such flavour.
fn common_headers(release: &str) -> Result<String, String> {
    let mut parts = release.splitn(3, '-');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(version), Some(number), Some(_)) => {
            Ok(format!("linux-headers-{version}-{number}-common"))
        }
        _ => Err(format!("`{release}` is not a kernel release of the distribution")),
    }
}

/// Builds a module in `folder` with the build environment of the kernel in the directory `kernel`.
pub(crate) fn build(
    kernel: &Path,
    toolchain: Toolchain,
    folder: &Path,
    module: &str,
) -> Result<PathBuf, Obstacle> {
    let at = |error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(at)?;
    let sources = root().join("kmod").join(module);
    for file in fs::read_dir(&sources).map_err(at)? {
        let file = file.map_err(at)?;
        let text = fs::read_to_string(file.path()).map_err(at)?;
        let copy = folder.join(file.file_name());
        // Unchanged files keep their modification time, and are not rebuilt.
        if fs::read_to_string(&copy).ok().as_ref() != Some(&text) {
            write(&copy, &text)?;
        }
    }
    let mut make = program("make", &["--silent", "-C"]);
    make.arg(kernel).arg(format!("M={}", folder.display()));
    make.arg(format!("LR={}", root().join("native").display()));
    make.arg(format!("KMOD={}", root().join("kmod").display()));
    make.args(toolchain.settings()).args(["KCFLAGS=-Werror", "modules"]);
    judge_status(status(make)).map_err(|why| format!("{module} was not built: {why}"))?;
    Ok(folder.join(module).with_extension("ko"))
}

/// Returns the message that the module prints if a variant agrees on all buffers.
pub(crate) fn agrees(variant: &str) -> String {
    format!("{variant}: {BUFFERS} buffers, 0 sums and 0 copies differ")
}

/// Returns the message that the module prints if the processor does not support a variant.
pub(crate) fn is_elsewhere(variant: &str) -> String {
    format!("{variant}: not on this processor")
}

/// Checks a kernel log: the module must report that all variants agree, print the line `expected`,
/// and be unloaded. Returns a sentence with the result; the error describes the problem.
pub(crate) fn judge(log: &str, expected: &str) -> Result<String, String> {
    let said: Vec<&str> =
        log.lines().filter_map(|line| line.split_once("csum_compare: ")).map(|(_, l)| l).collect();
    let result = said.iter().find_map(|line| line.strip_prefix("RESULT "));
    let result = result.ok_or_else(|| format!("{NAME} printed no result: {}", said.join("; ")))?;
    let lacks = |line: &str| !said.contains(&line);
    if !result.starts_with("PASS: ") {
        Err(format!("{NAME} found differences: {}", said.join("; ")))
    } else if lacks(expected) {
        Err(format!("{NAME} did not print `{expected}`: {}", said.join("; ")))
    } else if lacks("unloaded") {
        Err(format!("{NAME} was not unloaded: {}", said.join("; ")))
    } else {
        Ok(format!("Linux's csum_partial agrees: {}", &result["PASS: ".len()..]))
    }
}

#[cfg(test)]
mod tests {
    use super::{agrees, common_headers, is_elsewhere, judge};

    const LOG: &str = "[    1.0] booted\n\
        [    2.0] csum_compare: neon: 100000 buffers, 0 sums and 0 copies differ\n\
        [    2.1] csum_compare: RESULT PASS: 2 of 2 variants agree\n\
        [    2.2] csum_compare: unloaded\n";

    #[test]
    fn the_module_must_say_what_is_expected() {
        let (neon, altivec) = (agrees("neon"), agrees("altivec"));
        assert!(judge(LOG, &neon).is_ok_and(|sentence| sentence.ends_with("2 variants agree")));
        let on_another = LOG.replace(&neon, &is_elsewhere("neon"));
        assert!(judge(&on_another, &is_elsewhere("neon")).is_ok());
        for (log, expected) in [(LOG, &altivec), (&on_another, &neon), ("booted\n", &neon)] {
            assert!(judge(log, expected).is_err(), "{log}");
        }
        for missing in ["neon: 100000", "RESULT", "PASS", "unloaded"] {
            assert!(judge(&LOG.replace(missing, "?"), &neon).is_err(), "{missing}");
        }
    }

    #[test]
    fn a_release_names_its_packages() {
        let common = Ok("linux-headers-6.1.0-50-common".to_owned());
        assert_eq!(common_headers("6.1.0-50-cloud-arm64"), common);
        assert!(common_headers("6.1").is_err());
    }
}
