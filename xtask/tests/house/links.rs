// SPDX-License-Identifier: MIT OR Apache-2.0
//! Relative links in Markdown lead to files that exist.

use crate::tree::{files, root};
use std::path::Path;

/// Targets of inline links and of reference definitions, outside fenced blocks and inline code.
fn targets(markdown: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for prose in line.split('`').step_by(2) {
            found.extend(prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
        }
        if line.starts_with('[')
            && let Some((_, target)) = line.split_once("]: ")
        {
            found.push(target.trim());
        }
    }
    found
}

/// Links of a file in `folder` that lead nowhere.
fn dead<'a>(folder: &Path, markdown: &'a str) -> Vec<&'a str> {
    let leads_nowhere = |target: &&str| {
        let file = target.split('#').next().unwrap_or("");
        let elsewhere = ["https://", "http://", "mailto:"].iter().any(|s| target.starts_with(s));
        !elsewhere && !file.is_empty() && !folder.join(file).exists()
    };
    targets(markdown).into_iter().filter(leads_nowhere).collect()
}

#[test]
fn relative_links_lead_to_files() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|f| f.extension() == "md") {
        let path = root().join(&file.path);
        let folder = path.parent().expect("a file has a folder");
        let path = &file.path;
        faults.extend(dead(folder, &file.text).iter().map(|t| format!("{path}: no file {t}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_dead_link_is_found() {
    let text = "[a](Cargo.toml) [b](gone.md#part) and [c](#here) [d](https://example.org/x)\n\
                `[e](code.md)` [f](gone-too.md)\n```\n[g](fenced.md)\n```\n[h]: gone-three.md\n";
    assert_eq!(dead(root(), text), ["gone.md#part", "gone-too.md", "gone-three.md"]);
}
