// SPDX-License-Identifier: MIT OR Apache-2.0
//! The repository's text files.

use std::fs;
use std::path::Path;

/// A text file.
pub(crate) struct File {
    /// Path from the root, separated by `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Returns the file name's extension, or an empty string.
    pub(crate) fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|e| e.to_str()).unwrap_or("")
    }

    /// Returns the file's directory under `crates/`, or its top-level directory.
    pub(crate) fn package(&self) -> &str {
        let mut parts = self.path.split('/');
        match parts.next() {
            Some("crates") => parts.next().unwrap_or(""),
            first => first.unwrap_or(""),
        }
    }
}

/// Returns the root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the root")
}

/// Returns every text file, except those in git's and cargo's directories.
pub(crate) fn files() -> Vec<File> {
    let mut files = Vec::new();
    collect(root(), &mut files);
    assert!(files.iter().any(|f| f.path == "xtask/src/main.rs"), "the walk misses this package");
    files
}

fn collect(folder: &Path, files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let entry = entry.expect("the folder's entries are readable");
        let path = entry.path();
        // A directory, or in a worktree a file that names the directory.
        if entry.file_name() == ".git" {
            continue;
        }
        if entry.file_type().expect("file types can be read").is_dir() {
            let generated = path.join("CACHEDIR.TAG").exists() || path.ends_with("native/build");
            if !generated {
                collect(&path, files);
            }
        } else if entry.file_name() != "Cargo.lock"
            && let Ok(text) = fs::read_to_string(&path)
        {
            let path = path.strip_prefix(root()).expect("below the root");
            files.push(File { path: path.to_str().expect("UTF-8 names").to_owned(), text });
        }
    }
}
