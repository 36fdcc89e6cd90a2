// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that relative links in Markdown lead to existing files, and their anchors to headings
//! there.

use crate::tree::{files, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the targets of inline links and reference definitions, outside fenced blocks and inline
/// code.
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

/// Returns the anchors of a page's headings, as named by GitHub and mdBook: lower case, letters,
/// digits, `-` and `_`, a hyphen for each space; a repeated one is numbered.
fn anchors(markdown: &str) -> BTreeSet<String> {
    let mut times = BTreeMap::new();
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in markdown.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let letters = heading.trim().chars().flat_map(char::to_lowercase);
        let kept = letters.filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let seen = times.entry(anchor.clone()).or_insert(0);
        found.insert(if *seen == 0 { anchor } else { format!("{anchor}-{seen}") });
        *seen += 1;
    }
    found
}

/// Returns the dead links in the file `path`.
fn dead<'a>(path: &Path, markdown: &'a str) -> Vec<&'a str> {
    let leads_nowhere = |target: &&str| {
        if ["https://", "http://", "mailto:"].iter().any(|s| target.starts_with(s)) {
            return false;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let other = path.parent().map_or_else(PathBuf::new, |folder| folder.join(file));
        let has_anchor = match (anchor, file) {
            ("", _) => true,
            (_, "") => anchors(markdown).contains(anchor),
            _ if !file.ends_with(".md") => true,
            _ => fs::read_to_string(&other).is_ok_and(|text| anchors(&text).contains(anchor)),
        };
        !has_anchor || !other.exists()
    };
    targets(markdown).into_iter().filter(leads_nowhere).collect()
}

#[test]
fn relative_links_lead_to_files() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|f| f.extension() == "md") {
        let path = &file.path;
        let dead = dead(&root().join(path), &file.text);
        faults.extend(dead.iter().map(|t| format!("{path}: nothing at {t}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A copy would differ from the original after the first change to either.
#[test]
fn the_glossary_of_the_book_is_that_of_the_project() {
    let link = root().join("docs/glossary.md").read_link();
    assert_eq!(link.expect("a symbolic link"), Path::new("../GLOSSARY.md"));
}

#[test]
fn a_dead_link_is_found() {
    let text = "[a](Cargo.toml) [b](gone.md#part) and [c](#here) [d](https://example.org/x)\n\
                `[e](code.md)` [f](gone-too.md)\n```\n[g](fenced.md)\n```\n[h]: gone-three.md\n\
                ## Here\n[i](#there) [j](README.md#install) [k](README.md#gone)\n";
    let wanted = ["gone.md#part", "gone-too.md", "gone-three.md", "#there", "README.md#gone"];
    assert_eq!(dead(&root().join("page.md"), text), wanted);
}

#[test]
fn headings_have_the_anchors_of_the_book() {
    let text = "# `linerate tune`: find it, keep it\n## A\n## A\n#no\n```\n# in code\n```\n";
    let wanted = ["linerate-tune-find-it-keep-it", "a", "a-1"].map(str::to_owned);
    assert_eq!(anchors(text), wanted.into());
}
