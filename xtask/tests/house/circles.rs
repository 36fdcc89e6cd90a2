// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks for circular references between a crate's files, except between parent and child. A
//! parent may define types that its children share, and it names the children; any other cycle
//! means that an item is in the wrong file.
//!
//! Only paths that begin with `crate`, `super` or `self` are followed, outside of tests. Names
//! re-exported by an ancestor count as the ancestor's.

use crate::tidy::paths_of;
use crate::tree::{File, files};
use std::collections::{BTreeMap, BTreeSet};

/// The names leading to a module, from its crate's root.
type Module = Vec<String>;

/// Files by crate: the directory that contains its `src`, and each file's module.
type Crates<'a> = BTreeMap<&'a str, BTreeMap<Module, &'a File>>;

fn crates(files: &[File]) -> Crates<'_> {
    let mut crates = Crates::new();
    for file in files.iter().filter(|file| file.extension() == "rs") {
        let Some((folder, inside)) = file.path.split_once("/src/") else { continue };
        if let Some(module) = module(inside) {
            crates.entry(folder).or_default().insert(module, file);
        }
    }
    crates
}

/// Returns the module of a file below `src`; `None` for tests.
fn module(inside: &str) -> Option<Module> {
    let mut names: Module = inside.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if names.iter().any(|name| name == "tests" || name.ends_with("_tests")) {
        return None;
    }
    if matches!(names.last()?.as_str(), "lib" | "main" | "mod") {
        names.pop();
    }
    Some(names)
}

/// Returns the text of a file before its tests.
fn tested(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

/// Returns the module that a path leads to from `here`: the longest prefix of the path that is a
/// file.
fn target(path: &[String], here: &Module, all: &BTreeMap<Module, &File>) -> Option<Module> {
    let first = path.first()?.as_str();
    let mut names = match first {
        "crate" => Vec::new(),
        "self" | "super" => here.clone(),
        _ => return None,
    };
    for segment in path {
        match segment.as_str() {
            "crate" | "self" => {}
            "super" => drop(names.pop()),
            name => names.push(name.to_owned()),
        }
    }
    while !all.contains_key(&names) {
        names.pop()?;
    }
    Some(names)
}

/// Returns each module's references, including its children but not its ancestors.
fn references(all: &BTreeMap<Module, &File>) -> BTreeMap<Module, BTreeSet<Module>> {
    let of = |(here, file): (&Module, &&File)| {
        let paths = paths_of(&file.path, tested(&file.text));
        let targets = paths.iter().filter_map(|path| target(&path.segments, here, all));
        let children = all.keys().filter(|child| child.split_last().is_some_and(|c| c.1 == here));
        let targets = targets.filter(|target| !here.starts_with(target));
        (here.clone(), targets.chain(children.cloned()).collect())
    };
    all.iter().map(of).collect()
}

/// Returns everything reachable from a module; includes the module itself only if it is on a cycle.
fn reached(from: &Module, edges: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Module> = vec![from];
    while let Some(module) = open.pop() {
        for next in &edges[module] {
            if reached.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    reached
}

/// Describes a crate's cycles: sets of modules that reach one another.
fn circles(folder: &str, all: &BTreeMap<Module, &File>) -> BTreeSet<String> {
    let edges = references(all);
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        all.keys().map(|module| (module, reached(module, &edges))).collect();
    let mut circles = BTreeSet::new();
    for (module, others) in &reached {
        if others.contains(*module) {
            let ring = others.iter().filter(|other| reached[other].contains(*module));
            let names: Vec<String> = ring.map(|module| module.join("::")).collect();
            circles.insert(format!("{folder}: {}", names.join(", ")));
        }
    }
    circles
}

#[test]
fn no_files_refer_to_each_other_but_parent_and_child() {
    let files = files();
    let all = crates(&files);
    assert!(all.len() > 20, "the walk misses crates");
    let circles: BTreeSet<String> =
        all.iter().flat_map(|(folder, modules)| circles(folder, modules)).collect();
    let circles: Vec<String> = circles.into_iter().collect();
    assert!(circles.is_empty(), "move what both need to a file:\n{}", circles.join("\n"));
}

/// Returns the cycles in a synthetic crate.
fn circles_of(texts: &[(&str, &str)]) -> Vec<String> {
    let file = |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
    let files: Vec<File> = texts.iter().map(file).collect();
    let crates = crates(&files);
    crates.iter().flat_map(|(folder, modules)| circles(folder, modules)).collect()
}

#[test]
fn circles_are_found_however_they_are_written() {
    let root = ("crates/x/src/lib.rs", "mod a; mod b; mod c;");
    let (b, c) = ("crates/x/src/b.rs", "crates/x/src/c.rs");
    for (a, b_text) in [
        ("use crate::b::B;", "use crate::a::A;"),
        ("use super::b::B;", "fn f() { super::a::g() }"),
        ("use super::{b::B, c::C};", "use crate::{a, c};"),
        ("fn f() -> crate::b::B { g() }", "use super::a;"),
    ] {
        let texts = [root, ("crates/x/src/a.rs", a), (b, b_text), (c, "")];
        assert_eq!(circles_of(&texts), ["crates/x: a, b"], "{a} {b_text}");
    }
    let long = |c_text, d_text| {
        let a = ("crates/x/src/a.rs", "use crate::b;");
        circles_of(&[root, a, (b, "use crate::c;"), (c, c_text), ("crates/x/src/c/d.rs", d_text)])
    };
    assert_eq!(long("mod d; use crate::a;", ""), ["crates/x: a, b, c"]);
    assert_eq!(long("mod d;", "use crate::a;"), ["crates/x: a, b, c, c::d"]);
    assert_eq!(long("mod d;", "use super::C;"), Vec::<String>::new());
}

#[test]
fn parents_children_and_tests_make_none() {
    let texts = [
        ("crates/x/src/lib.rs", "mod a; use crate::a::b::B;"),
        ("crates/x/src/a.rs", "mod b; mod c; use self::b::B; use super::D;"),
        ("crates/x/src/a/b.rs", "use super::A; use super::super::D;"),
        ("crates/x/src/a/c.rs", "use super::b::B;\n#[cfg(test)]\nmod tests { use crate::e::E; }"),
        ("crates/x/src/e.rs", "use crate::a::c::C;"),
        ("crates/x/src/a/tests.rs", "use crate::e::E;"),
        ("crates/y/src/e.rs", "use crate::a::A;"),
    ];
    assert_eq!(circles_of(&texts), Vec::<String>::new());
}
