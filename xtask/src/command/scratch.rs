// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folders for temporary files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of the next folder of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A new folder, removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates a folder in the directory of temporary files. `name` says whose it is.
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("linerate-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let created = std::fs::create_dir_all(&path);
        created.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    /// Returns the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If removal fails, only a few temporary files remain.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_differ_and_are_removed() {
        let (one, other) = (Scratch::new("test").unwrap(), Scratch::new("test").unwrap());
        assert_ne!(one.path(), other.path());
        let file = one.join("file");
        std::fs::write(&file, "text").unwrap();
        let folder = one.path().to_owned();
        drop(one);
        assert!(!folder.exists() && other.path().exists());
    }
}
