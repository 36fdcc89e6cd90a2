// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the book with mdBook, which must be installed, and checks its links.
//!
//! This module also contains the mdBook preprocessor. Links to repository files that are not in the
//! book are replaced by the file's path. Links to a `README.md` are changed to `index.md`, because
//! mdBook renames these pages. mdBook sends `[context, book]` as JSON and expects the book back.

mod html;

use crate::command::{output, program, root, status};
use crate::outcome::{Outcome, judge};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};

/// Output directory set in book.toml.
const FOLDER: &str = "target/book";

/// Builds the book into `target/book`.
///
/// # Errors
/// Returns an error if mdBook is missing or fails, or if a link in the book is dead.
pub(crate) fn run() -> Result<(), String> {
    judge(status(program("mdbook", &["build"])))?;
    let dead = html::dead_links(&root().join(FOLDER))?;
    if dead.is_empty() { Ok(()) } else { Err(format!("dead links:\n{}", dead.join("\n"))) }
}

/// Like [`run`], but skipped if mdBook is not installed.
pub(crate) fn check() -> Outcome {
    match output(program("mdbook", &["--version"])) {
        Ok(_) => run().into(),
        Err(_) => Outcome::Skipped("mdbook is not installed; try: cargo install mdbook".to_owned()),
    }
}

/// Rewrites the links in the book on stdin.
///
/// # Errors
/// Returns an error if the input is not what mdBook sends, or if the output is closed.
pub(crate) fn rewrite() -> Result<(), String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| error.to_string())?;
    let parsed: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let mut book = parsed.get(1).cloned().ok_or("expected [context, book] from mdBook")?;
    let mut pages = BTreeSet::new();
    collect_pages(&book, &mut pages);
    rewrite_chapters(&mut book, &pages);
    writeln!(std::io::stdout(), "{book}").map_err(|error| error.to_string())
}

/// Collects the paths of all chapters below docs/, as rendered by mdBook.
fn collect_pages(value: &Value, pages: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let (Some(Value::String(_)), Some(Value::String(path))) =
                (object.get("content"), object.get("path"))
            {
                pages.insert(path.clone());
            }
            object.values().for_each(|child| collect_pages(child, pages));
        }
        Value::Array(items) => items.iter().for_each(|child| collect_pages(child, pages)),
        _ => {}
    }
}

fn rewrite_chapters(value: &mut Value, pages: &BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(path)) = object.get("path") {
                let path = path.clone();
                if let Some(Value::String(content)) = object.get_mut("content") {
                    *content = rewrite_page(content, &path, pages);
                }
            }
            object.values_mut().for_each(|child| rewrite_chapters(child, pages));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|child| rewrite_chapters(child, pages));
        }
        _ => {}
    }
}

/// Returns a page with its inline links rewritten, outside fenced blocks. The text of a link may
/// continue on the next line.
fn rewrite_page(markdown: &str, path: &str, pages: &BTreeSet<String>) -> String {
    let mut done = String::new();
    let mut prose = String::new();
    let mut is_fenced = false;
    for line in markdown.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || is_fenced {
            done += &rewrite_links(&std::mem::take(&mut prose), path, pages);
            done += line;
        } else {
            prose += line;
        }
        is_fenced ^= is_fence;
    }
    done + &rewrite_links(&prose, path, pages)
}

fn rewrite_links(markdown: &str, path: &str, pages: &BTreeSet<String>) -> String {
    let mut done = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, behind)) = after.split_once(')') else { break };
        done += &match destination(target, path, pages) {
            Destination::Kept => format!("{before}]({target})"),
            Destination::Page(page) => format!("{before}]({page})"),
            Destination::File(file) => as_path(before, &file),
        };
        rest = behind;
    }
    done + rest
}

/// Replaces a link with the path of its target: returns the text before the link, without the
/// opening bracket, and the path. The link's text is kept if it says more than the path does.
fn as_path(before: &str, file: &str) -> String {
    let (lead, text) = before.rsplit_once('[').unwrap_or(("", before));
    let plain = text.trim_matches('`').trim_end_matches('/');
    let name = file.rsplit('/').next().unwrap_or(file);
    let is_number = |word: &str| {
        word.bytes().all(|byte| byte.is_ascii_digit()) && name.starts_with(&format!("{word}-"))
    };
    let (words, last) = plain.rsplit_once(char::is_whitespace).unwrap_or(("", plain));
    if file.starts_with(&format!("{plain}/")) {
        format!("{lead}`{plain}`")
    } else if file.ends_with(plain) {
        format!("{lead}`{file}`")
    } else if is_number(last) {
        let space = if words.is_empty() { "" } else { " " };
        format!("{lead}{words}{space}`{file}`")
    } else {
        format!("{lead}{text} (`{file}`)")
    }
}

enum Destination {
    /// A link that stays as it is: a URL, an image, or a page that mdBook does not rename.
    Kept,
    /// A page that mdBook renames, as a link to its new name.
    Page(String),
    /// A repository file that is not in the book, by path.
    File(String),
}

fn destination(target: &str, path: &str, pages: &BTreeSet<String>) -> Destination {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(f, a)| (f, Some(a)));
    if file.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return Destination::Kept;
    }
    let resolved = resolve(path, file);
    let Some(inside) = resolved.strip_prefix("docs/") else { return Destination::File(resolved) };
    if !inside.ends_with(".md") || pages.contains(inside) {
        return Destination::Kept;
    }
    let renamed = inside.strip_suffix("README.md").map(|folder| format!("{folder}index.md"));
    if renamed.is_some_and(|index| pages.contains(&index)) {
        let anchor = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
        let file = file.strip_suffix("README.md").unwrap_or(file);
        return Destination::Page(format!("{file}index.md{anchor}"));
    }
    Destination::File(resolved)
}

/// Resolves a path relative to the directory of page `path` in docs/ to one relative to the
/// repository root.
fn resolve(path: &str, file: &str) -> String {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts = vec!["docs"];
    for part in folder.split('/').chain(file.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let pages = ["faq.md", "commands/run.md", "results/rlp/index.md"].map(str::to_owned);
        rewrite_page(line, "commands/run.md", &pages.into())
    }

    #[test]
    fn keeps_links_between_pages() {
        for line in ["[a](../faq.md#x) [b](#y) [c](https://example.org)", "![p](../plot.svg)"] {
            assert_eq!(rewritten(line), line);
        }
    }

    #[test]
    fn links_to_the_index_of_a_folder() {
        assert_eq!(
            rewritten("([figures](../results/rlp/README.md#loss))"),
            "([figures](../results/rlp/index.md#loss))"
        );
    }

    #[test]
    fn prints_the_path_of_a_file_outside() {
        assert_eq!(
            rewritten("Traffic was [captured](../../examples/capture/README.md)."),
            "Traffic was captured (`examples/capture/README.md`)."
        );
        assert_eq!(rewritten("see [`lib.rs`](../../a/lib.rs)"), "see `a/lib.rs`");
        assert_eq!(rewritten("[why](../decisions/0001-a.md)"), "why (`docs/decisions/0001-a.md`)");
    }

    #[test]
    fn does_not_say_twice_what_the_path_says() {
        let number = "costs ([0001](../decisions/0001-a.md))";
        assert_eq!(rewritten(number), "costs (`docs/decisions/0001-a.md`)");
        assert_eq!(rewritten("[lab/why](../../lab/why/seeds.toml)"), "`lab/why`");
        assert_eq!(rewritten("[native](../../native/README.md)"), "`native`");
    }

    #[test]
    fn rewrites_a_link_whose_text_continues_on_the_next_line() {
        let text = "see [decision\n0001](../decisions/0001-a.md)\n";
        assert_eq!(rewritten(text), "see decision `docs/decisions/0001-a.md`\n");
    }

    #[test]
    fn leaves_code_alone() {
        let text = "```\n[a](../../b.md)\n```\n";
        assert_eq!(rewritten(text), text);
    }
}
