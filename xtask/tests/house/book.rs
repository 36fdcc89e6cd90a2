// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the book contains every page in docs/: `SUMMARY.md` is its table of contents.

use crate::tree::files;

/// Folders whose pages are listed on a page of their own.
const LISTED_ELSEWHERE: [&str; 1] = ["docs/decisions/"];

/// Returns the pages below docs/ that the summary does not link to.
fn missing<'a>(summary: &str, pages: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let is_linked =
        |page: &&str| summary.contains(&format!("]({})", page.replacen("docs/", "", 1)));
    let is_listed = |page: &&str| LISTED_ELSEWHERE.iter().any(|folder| page.starts_with(folder));
    let pages = pages.into_iter().filter(|page| page.starts_with("docs/") && page.ends_with(".md"));
    let pages = pages.filter(|page| *page != "docs/SUMMARY.md");
    pages.filter(|page| !is_linked(page) && !is_listed(page)).collect()
}

#[test]
fn every_page_is_in_the_book() {
    let files = files();
    let summary = files.iter().find(|file| file.path == "docs/SUMMARY.md").expect("a summary");
    let missing = missing(&summary.text, files.iter().map(|file| file.path.as_str()));
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {}", missing.join(", "));
}

#[test]
fn a_page_that_is_not_in_the_book_is_found() {
    let pages = ["docs/a.md", "docs/x/b.md", "docs/decisions/0001-a.md", "README.md", "docs/c.svg"];
    assert_eq!(missing("- [A](a.md)", pages), ["docs/x/b.md"]);
}
