// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the links in built pages: each must lead to a file in the book, and its anchor to an
//! element.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Pages whose links are not checked, because mdBook generates them for use at other addresses:
/// links in the first are relative to the page that includes it, links in the second to the
/// server's root.
const NOT_PAGES: [&str; 2] = ["toc.html", "404.html"];

/// A page's links and anchors.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

/// Returns the dead links within `folder`, as `PAGE: LINK`.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub(super) fn dead_links(folder: &Path) -> Result<Vec<String>, String> {
    let mut files = Vec::new();
    collect(folder, &mut files).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut pages = BTreeMap::new();
    for file in &files {
        let name = file.strip_prefix(folder).unwrap_or(file).to_owned();
        let is_page = name.extension().is_some_and(|extension| extension == "html");
        let text = if is_page { fs::read_to_string(file) } else { Ok(String::new()) };
        pages.insert(name, page(&text.map_err(|error| format!("{}: {error}", file.display()))?));
    }
    Ok(dead(&pages))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Returns a page's links and anchors, outside scripts.
fn page(html: &str) -> Page {
    let mut page = Page::default();
    let mut in_script = false;
    for tag in html.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        in_script = !tag.starts_with("/script") && (in_script || tag.starts_with("script"));
        if in_script && !tag.starts_with("script") {
            continue;
        }
        page.links.extend(["href", "src"].iter().filter_map(|name| attribute(tag, name)));
        page.anchors.extend(attribute(tag, "id"));
    }
    page
}

/// Returns an attribute's double-quoted value.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(value.replace("&amp;", "&"))
}

fn dead(pages: &BTreeMap<PathBuf, Page>) -> Vec<String> {
    let mut dead = Vec::new();
    for (name, page) in pages {
        if NOT_PAGES.iter().any(|other| name.ends_with(other)) {
            continue;
        }
        let leads_nowhere = |link: &&String| !leads_somewhere(name, link, pages);
        let links = page.links.iter().filter(leads_nowhere);
        dead.extend(links.map(|link| format!("{}: {link}", name.display())));
    }
    dead
}

fn leads_somewhere(from: &Path, link: &str, pages: &BTreeMap<PathBuf, Page>) -> bool {
    if ["https:", "http:", "mailto:", "data:", "javascript:"].iter().any(|s| link.starts_with(s)) {
        return true;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { from.to_owned() } else { resolve(from, file) };
    let page = pages.get(&target);
    page.is_some_and(|page| anchor.is_empty() || page.anchors.contains(anchor))
}

/// Resolves a link on page `from` to a path from the book's root.
fn resolve(from: &Path, file: &str) -> PathBuf {
    let mut path = from.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_links_to_missing_pages_and_anchors() {
        let text = "<h1 id=\"top\">T</h1><a href=\"#top\"><a class=\"x\" href=\"../b.html#part\">\
                    <a href=\"gone.html\"><a href=\"../b.html#gone\"><img src=\"plot.svg\">\
                    <a href=\"https://example.org/\"><script>\"<a href='#no'>\"</script>";
        let other = "<h2 id=\"part\">";
        let pages = [("a/a.html", text), ("b.html", other), ("404.html", text)];
        let pages = pages.map(|(name, text)| (PathBuf::from(name), page(text)));
        assert_eq!(
            dead(&pages.into()),
            ["a/a.html: gone.html", "a/a.html: ../b.html#gone", "a/a.html: plot.svg"]
        );
    }
}
