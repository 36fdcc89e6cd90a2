// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packages for other architectures, unpacked into a directory in the lab's cache.
//!
//! apt fetches them with private state: it uses the machine's sources and keys, but has its own
//! lists and database. Nothing is installed on the machine, and no architecture is added to it.
//! Each package is pinned to the version that the lab was last tested with. Archives do not keep
//! old versions; if the pinned one is gone, the current one is used and reported.

use super::{Obstacle, note};
use crate::command::{output, program, status};
use crate::fetch::write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package, pinned to a version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) architecture: &'static str,
    pub(crate) version: &'static str,
    /// Name of a package that depends on the current version of this one; only for packages whose
    /// name contains the version.
    pub(crate) current: Option<&'static str>,
}

/// Architectures whose package lists are fetched.
const ARCHITECTURES: [&str; 3] = ["amd64", "arm64", "armhf"];

/// Directory of the host's package lists.
const MACHINE_LISTS: &str = "/var/lib/apt/lists";

/// apt with private state, in a directory.
pub(crate) struct Packages {
    folder: PathBuf,
    is_up_to_date: bool,
}

impl Packages {
    /// Creates an instance with its state in `folder`, which is created on first use.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, is_up_to_date: false }
    }

    /// Unpacks each package into `prefix`, unless it is already there.
    pub(crate) fn unpack(&mut self, packages: &[Package], prefix: &Path) -> Result<(), Obstacle> {
        for package in packages {
            let stamp = stamp(prefix, package.name, package.architecture);
            if !stamp.exists() {
                let (file, version) = self.download(package)?;
                extract(&file, prefix)?;
                write(&stamp, &version)?;
            }
        }
        Ok(())
    }

    /// Unpacks exactly this version of a package into `prefix`, unless it is already there.
    pub(crate) fn unpack_exactly(
        &mut self,
        name: &str,
        architecture: &str,
        version: &str,
        prefix: &Path,
    ) -> Result<(), Obstacle> {
        let stamp = stamp(prefix, name, architecture);
        if fs::read_to_string(&stamp).is_ok_and(|unpacked| unpacked == version) {
            return Ok(());
        }
        self.prepare()?;
        let wanted = format!("{name}:{architecture}={version}");
        let mut file = self.fetch(&wanted)?;
        if file.is_none() {
            self.update()?;
            file = self.fetch(&wanted)?;
        }
        let file = file.ok_or_else(|| {
            Obstacle::Missing(format!("no apt source has {name} {version} for {architecture}"))
        })?;
        extract(&file, prefix)?;
        Ok(write(&stamp, version)?)
    }

    /// Downloads the pinned version, or the current one, and returns the file and its version.
    fn download(&mut self, package: &Package) -> Result<(PathBuf, String), Obstacle> {
        self.prepare()?;
        let Package { name, architecture, version, current } = package;
        let pinned = format!("{name}:{architecture}={version}");
        if let Some(file) = self.fetch(&pinned)? {
            return Ok((file, (*version).to_owned()));
        }
        self.update()?;
        if let Some(file) = self.fetch(&pinned)? {
            return Ok((file, (*version).to_owned()));
        }
        let name = match current {
            Some(current) => self.dependency(&format!("{current}:{architecture}"))?,
            None => (*name).to_owned(),
        };
        let file = self.fetch(&format!("{name}:{architecture}"))?.ok_or_else(|| {
            Obstacle::Missing(format!(
                "no apt source has the package {name} for {architecture}; the lab needs the \
                 archive of Debian 12, or a copy of lab/cache from another machine"
            ))
        })?;
        let version = version_of(&file)?;
        note(&format!("{pinned} is no longer available; using {name} {version}"));
        Ok((file, version))
    }

    /// Requests a package from apt; `None` if there is none with this name and version.
    fn fetch(&self, wanted: &str) -> Result<Option<PathBuf>, Obstacle> {
        let folder = self.folder.join("download");
        // Leftovers from an interrupted run are not the requested version.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut apt = self.apt("apt-get", &["-qq", "download", wanted]);
        apt.current_dir(&folder);
        let is_done = status(apt)? == 0;
        let files = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let package = files
            .flatten()
            .map(|entry| entry.path())
            .find(|path| is_done && path.extension().is_some_and(|extension| extension == "deb"));
        Ok(package)
    }

    /// Returns the package that `name` depends on.
    fn dependency(&self, name: &str) -> Result<String, Obstacle> {
        let shown = output(self.apt("apt-cache", &["show", name]))?;
        let shown = String::from_utf8_lossy(&shown);
        first_dependency(&shown)
            .map(str::to_owned)
            .ok_or_else(|| Obstacle::Missing(format!("{name} depends on no package")))
    }

    fn apt(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = program(name, arguments);
        command.env("APT_CONFIG", self.folder.join("apt.conf"));
        command
    }

    /// Creates the directory with apt's configuration on the first call.
    fn prepare(&mut self) -> Result<(), Obstacle> {
        let configuration = self.folder.join("apt.conf");
        if configuration.exists() {
            return Ok(());
        }
        for part in ["lists/partial", "cache/archives/partial"] {
            let part = self.folder.join(part);
            fs::create_dir_all(&part).map_err(|e| format!("{}: {e}", part.display()))?;
        }
        self.copy_lists();
        write(&self.folder.join("status"), "")?;
        write(&configuration, &configuration_in(&self.folder))?;
        self.update()
    }

    /// Copies the machine's package lists, so that they need not be fetched again. apt verifies
    /// them against the signed index as if it had fetched them itself, and fetches lists that the
    /// machine does not have.
    fn copy_lists(&self) {
        let lists = fs::read_dir(MACHINE_LISTS).into_iter().flatten().flatten();
        for list in lists.filter(|entry| entry.path().is_file() && entry.file_name() != "lock") {
            let _ = fs::copy(list.path(), self.folder.join("lists").join(list.file_name()));
        }
    }

    /// Updates the package lists, once per instance. It is not an error if a source fails; an error
    /// is reported only if a package is then missing.
    fn update(&mut self) -> Result<(), Obstacle> {
        if !self.is_up_to_date {
            status(self.apt("apt-get", &["-qq", "update"]))?;
            self.is_up_to_date = true;
        }
        Ok(())
    }
}

/// Returns the file that records which version of a package has been unpacked.
fn stamp(prefix: &Path, name: &str, architecture: &str) -> PathBuf {
    prefix.join(format!(".{name}_{architecture}"))
}

/// Returns which version of a package has been unpacked.
pub(crate) fn unpacked_version(package: &Package, prefix: &Path) -> Result<String, String> {
    let stamp = stamp(prefix, package.name, package.architecture);
    fs::read_to_string(&stamp).map_err(|e| format!("{}: {e}", stamp.display()))
}

/// Unpacks a file into `prefix` and removes it.
fn extract(file: &Path, prefix: &Path) -> Result<(), String> {
    fs::create_dir_all(prefix).map_err(|e| format!("{}: {e}", prefix.display()))?;
    let mut unpack = program("dpkg-deb", &["--extract"]);
    unpack.arg(file).arg(prefix);
    output(unpack)?;
    fs::remove_file(file).map_err(|e| format!("{}: {e}", file.display()))
}

/// Returns the configuration for apt with private state in this directory, using the machine's
/// sources.
fn configuration_in(folder: &Path) -> String {
    let folder = folder.display();
    let architectures = ARCHITECTURES.map(|name| format!("\"{name}\"; ")).concat();
    format!(
        "Dir::State::lists \"{folder}/lists\";\n\
         Dir::State::status \"{folder}/status\";\n\
         Dir::Cache \"{folder}/cache\";\n\
         APT::Architectures {{ {architectures}}};\n\
         APT::Sandbox::User \"\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n"
    )
}

/// Returns the version that a package file contains.
fn version_of(file: &Path) -> Result<String, String> {
    let mut show = program("dpkg-deb", &["--field"]);
    show.arg(file).arg("Version");
    Ok(String::from_utf8_lossy(&output(show)?).trim().to_owned())
}

/// Returns the first name in the first `Depends` field in `apt-cache show` output.
fn first_dependency(shown: &str) -> Option<&str> {
    let names = shown.lines().find_map(|line| line.strip_prefix("Depends: "))?;
    names.split([' ', ',', '|']).find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{configuration_in, first_dependency};
    use std::path::Path;

    #[test]
    fn the_kernel_is_what_the_current_one_depends_on() {
        let shown = "Package: linux-image-arm64\n\
                     Depends: linux-image-6.1.0-50-arm64 (= 6.1.176-1)\n\
                     Description: Linux\n\nPackage: linux-image-arm64\nDepends: older\n";
        assert_eq!(first_dependency(shown), Some("linux-image-6.1.0-50-arm64"));
        assert_eq!(first_dependency("Depends: a, b\n"), Some("a"));
        assert_eq!(first_dependency("Package: a\nPre-Depends: b\n"), None);
    }

    #[test]
    fn nothing_of_the_machines_state_is_touched() {
        let configuration = configuration_in(Path::new("/x"));
        for part in ["State::lists", "State::status", "Cache"] {
            let line = configuration.lines().find(|line| line.contains(part)).expect(part);
            assert!(line.contains("\"/x/"), "{line}");
        }
        assert!(configuration.contains("Architectures { \"amd64\"; \"arm64\"; \"armhf\"; };"));
    }
}
