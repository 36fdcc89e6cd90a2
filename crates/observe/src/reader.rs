// SPDX-License-Identifier: MIT OR Apache-2.0
//! /proc files that are read per slice: opened once, read with one system call.

use linerate_machine::Root;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Maximum file size: /proc/stat with thousands of CPUs.
const TEXT_MAX: usize = 1 << 20;

/// A file whose contents change.
#[derive(Debug)]
pub(crate) struct Reader {
    file: Option<File>,
    buffer: Vec<u8>,
}

impl Reader {
    /// Opens a file below the root; a file that cannot be opened reads as empty.
    pub(crate) fn open(root: &Root, path: &str) -> Self {
        Self { file: File::open(root.path(path)).ok(), buffer: vec![0; 4 << 10] }
    }

    /// Current contents; empty if unreadable.
    pub(crate) fn text(&mut self) -> &str {
        let Some(file) = &self.file else { return "" };
        loop {
            let length = file.read_at(&mut self.buffer, 0).unwrap_or(0);
            // A full buffer may have truncated the text. The buffer stays enlarged for later reads.
            if length < self.buffer.len() || length >= TEXT_MAX {
                return std::str::from_utf8(&self.buffer[..length]).unwrap_or_default();
            }
            self.buffer.resize(2 * length, 0);
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
