// SPDX-License-Identifier: MIT OR Apache-2.0
//! /proc files that are read every slice: opened once, and read with as few system calls as
//! possible.

use linerate_machine::Root;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Maximum file size, enough for /proc/stat with thousands of CPUs.
const TEXT_MAX: usize = 1 << 20;

/// Size in bytes of the kernel's own buffer for most /proc files.
const PAGE: usize = 4 << 10;

/// Minimum length, in bytes, of a part that may be followed by another one. The kernel ends a part
/// before the first line that no longer fits in a page. Only files that the kernel returns in one
/// part have lines longer than half a page.
const PART_MIN: usize = PAGE / 2;

/// A file whose contents change.
#[derive(Debug)]
pub(crate) struct Reader {
    file: Option<File>,
    buffer: Vec<u8>,
}

impl Reader {
    /// Opens a file below the root. A file that cannot be opened reads as empty.
    pub(crate) fn open(root: &Root, path: &str) -> Self {
        Self { file: File::open(root.path(path)).ok(), buffer: vec![0; 2 * PAGE] }
    }

    /// Returns the current contents; empty if unreadable.
    ///
    /// The kernel returns many /proc files in parts of about a page, however large the buffer. Only
    /// a short part is certain to be the last.
    pub(crate) fn text(&mut self) -> &str {
        let Some(file) = &self.file else { return "" };
        let mut length = 0;
        loop {
            let part = file.read_at(&mut self.buffer[length..], length as u64).unwrap_or(0);
            length += part;
            if part < PART_MIN || length >= TEXT_MAX {
                return std::str::from_utf8(&self.buffer[..length]).unwrap_or_default();
            }
            // The buffer stays enlarged for later reads.
            if length + PAGE > self.buffer.len() {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_whole_however_long_and_as_it_is_now() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        assert_eq!(Reader::open(&root, "none").text(), "");
        let file = folder.path().join("text");
        let long = "0123456789".repeat(3000);
        std::fs::write(&file, &long).expect("a file");
        let mut reader = Reader::open(&root, "text");
        assert_eq!(reader.text(), long);
        std::fs::write(&file, "short").expect("a file");
        assert_eq!(reader.text(), "short");
    }
}
