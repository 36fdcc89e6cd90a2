// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the published content of `kernels`, whose C code is outside its directory and reached
//! through a symbolic link.

use crate::tree::{files, root};
use std::process::Command;

#[test]
fn the_package_of_the_kernels_holds_their_c_and_nothing_built() {
    let output = Command::new(env!("CARGO"))
        .args(["package", "-p", "linerate-kernels", "--list", "--allow-dirty", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let listed = String::from_utf8(output.stdout).expect("UTF-8 names");
    let mut packed: Vec<&str> = listed.lines().filter(|p| p.starts_with("native/")).collect();
    packed.sort_unstable();

    let parts = ["native/bounds/", "native/include/", "native/kernels/"];
    let files = files();
    let mut needed: Vec<&str> = files.iter().map(|f| f.path.as_str()).collect();
    needed.retain(|path| parts.iter().any(|part| path.starts_with(part)));
    needed.sort_unstable();
    assert!(needed.contains(&"native/kernels/table.c"));
    assert_eq!(packed, needed, "{}", String::from_utf8_lossy(&output.stderr));
}
