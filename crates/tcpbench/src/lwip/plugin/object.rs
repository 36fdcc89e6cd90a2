// SPDX-License-Identifier: MIT OR Apache-2.0
//! Location of the object, and the check of its integrity.
//!
//! A truncated file could be loaded and crash the program later. Its seal is therefore checked
//! first: the 64-bit FNV-1a hash that `cargo xtask fetch lwip` wrote next to it.

use super::seal::fnv1a;
use super::table::TABLE_VERSION;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The command that builds the plug-in.
const REBUILD: &str = "in linerate's source tree: cargo xtask fetch lwip";

/// Maximum number of directories from a program up to the one that cargo marks as its own,
/// inclusive: `target/TRIPLE/release/deps`.
const FOLDERS: usize = 4;

/// Reasons why lwIP is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The object is not in any of the searched folders.
    Missing {
        /// Its name.
        name: String,
        /// The searched folders.
        folders: Vec<PathBuf>,
    },
    /// The object cannot be read, does not match its seal, or is not a plug-in.
    Damaged {
        /// The object.
        path: PathBuf,
        /// Description of the defect.
        reason: String,
    },
    /// The object is from another version of the program.
    OtherVersion {
        /// The object.
        path: PathBuf,
        /// Version of the object's table.
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

/// The folders that may contain the objects: `lwip` next to the program and, if cargo built the
/// program, in the folders above it, up to cargo's own.
pub fn folders() -> Vec<PathBuf> {
    folders_of(&std::env::current_exe().unwrap_or_default())
}

/// Does not search above cargo's own folder, where any user might have written files.
pub(super) fn folders_of(program: &Path) -> Vec<PathBuf> {
    let above: Vec<&Path> = program.ancestors().skip(1).take(FOLDERS).collect();
    let cargos = above.iter().position(|folder| folder.join("CACHEDIR.TAG").exists());
    above.iter().take(1 + cargos.unwrap_or(0)).map(|folder| folder.join("lwip")).collect()
}

/// The object's bytes, if they match the seal.
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
