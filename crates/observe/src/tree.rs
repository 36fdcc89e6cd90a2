// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test files that replace those of /proc and /sys.

use linerate_machine::Root;
use std::fs;

/// Writes a file below `root`, and the directories around it.
pub(crate) fn put(root: &Root, path: &str, text: &str) {
    let path = root.path(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}
