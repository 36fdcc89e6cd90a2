// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests what new users try first, and common mistakes.

use crate::rig::{Folder, answered, linerate, refused};

#[test]
fn the_example_can_be_used_without_the_sources() {
    let folder = Folder::new();
    let (dir, path) = (folder.file("try"), folder.file("try/edge.toml"));
    assert!(answered(0, &["example", &dir]).contains(&path));
    let checked = answered(0, &["run", &path, "--check"]);
    assert!(checked.contains("packets of"), "{checked}");
    let first = linerate(&[]).stderr;
    assert!(first.contains("linerate example && linerate tune edge.toml"), "{first}");
}

#[test]
fn a_path_that_is_missing_can_be_written() {
    for arguments in [&["run", "nowhere.toml"][..], &["tune", "nowhere.toml"], &["run"]] {
        let said = refused(arguments);
        assert!(said.contains("`linerate example`"), "{arguments:?}: {said}");
    }
}

#[test]
fn reasons_have_no_error_numbers() {
    let folder = Folder::new();
    let nowhere = folder.file("no/such/file");
    for arguments in [
        &["run", &nowhere][..],
        &["plan", &nowhere],
        &["report", &nowhere],
        &["diff", &nowhere, &nowhere],
        &["explain", &nowhere],
        &["export", "--format", "csv", &nowhere],
        &["import", &nowhere],
        &["stages", &nowhere],
        &["regions", &nowhere],
        &["man", "/proc/man"],
        &["example", "/proc/example"],
        &["doctor", "--record", &nowhere],
        &["stat", "--", &nowhere],
        &["why", "--", &nowhere],
        &["profile", "--", &nowhere],
    ] {
        let done = linerate(arguments);
        assert_ne!(done.status, Some(0), "{done:?}");
        assert!(!done.stderr.contains("os error"), "{arguments:?}: {}", done.stderr);
        assert!(!done.stdout.contains("os error"), "{arguments:?}: {}", done.stdout);
    }
}
