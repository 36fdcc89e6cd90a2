// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locates the object and checks its integrity.
//!
//! A truncated file could be loaded and crash the program later. Its *seal* is therefore checked
//! first: a 64-bit FNV-1a hash that `cargo xtask fetch lwip` wrote to a file next to it.

use super::seal::fnv1a;
use super::table::TABLE_VERSION;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Command that builds the plug-in.
const REBUILD: &str = "run `cargo xtask fetch lwip` in linerate's source tree";

/// Maximum number of directories, from the program's own upwards, in which to look for the tag of
/// cargo's target directory. `target/TRIPLE/release/deps` requires four.
const FOLDERS: usize = 4;

/// Why lwIP is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// None of the searched directories contains the object.
    Missing {
        /// File name of the object.
        name: String,
        /// Directories that were searched.
        folders: Vec<PathBuf>,
    },
    /// The file is unreadable, does not match its seal, or is not a plug-in.
    Damaged {
        /// Path of the object.
        path: PathBuf,
        /// What is wrong with the file.
        reason: String,
    },
    /// The object was built for another version of the program.
    OtherVersion {
        /// Path of the object.
        path: PathBuf,
        /// Version of the object's function table.
        found: u32,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { name, folders } => {
                let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
                write!(f, "no {name} in {}; to build it, {REBUILD}", folders.join(", "))
            }
            Self::Damaged { path, reason } => {
                write!(f, "{} is damaged: {reason}; to rebuild it, {REBUILD}", path.display())
            }
            Self::OtherVersion { path, found } => write!(
                f,
                "{} has table version {found}, expected {TABLE_VERSION}; to rebuild it, {REBUILD}",
                path.display()
            ),
        }
    }
}

impl std::error::Error for LoadError {}

/// Returns the directories that may contain the objects: `lwip` next to the program and, if cargo
/// built the program, `lwip` in each directory above it, up to cargo's target directory.
pub fn folders() -> Vec<PathBuf> {
    folders_of(&std::env::current_exe().unwrap_or_default())
}

/// Returns the directories for a given program path. Does not go above cargo's target directory,
/// because any user may be able to write to the directories there.
pub(super) fn folders_of(program: &Path) -> Vec<PathBuf> {
    let above: Vec<&Path> = program.ancestors().skip(1).take(FOLDERS).collect();
    let cargos = above.iter().position(|folder| folder.join("CACHEDIR.TAG").exists());
    above.iter().take(1 + cargos.unwrap_or(0)).map(|folder| folder.join("lwip")).collect()
}

/// Returns the object's bytes, after checking that they match the seal.
pub(super) fn unsealed(path: &Path) -> Result<Vec<u8>, LoadError> {
    let damaged = |reason: String| LoadError::Damaged { path: path.to_owned(), reason };
    let bytes = fs::read(path).map_err(|error| damaged(error.to_string()))?;
    let seal = path.with_extension("seal");
    let sealed = fs::read_to_string(&seal).map_err(|error| {
        damaged(format!("cannot read its checksum file {}: {error}", seal.display()))
    })?;
    let found = format!("{:016x}", fnv1a(&bytes));
    match sealed.trim() == found {
        true => Ok(bytes),
        false => Err(damaged(format!("its checksum is {found}, expected {}", sealed.trim()))),
    }
}
