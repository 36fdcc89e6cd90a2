// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which crate may depend on which.
//!
//! The rule covers dependencies of every kind: a crate is built *and tested* without anything above
//! it, so that it stays usable alone and its tests cannot lean on what they are meant to hold up. A
//! test that needs two crates without an arrow between them belongs to a crate that sees both,
//! which in the end is `cli`.

use crate::tree::root;
use std::collections::BTreeMap;
use std::fs;
use toml::{Table, Value};

/// Each folder with a manifest, and the crates it may depend on. A row only names rows above it,
/// which rules out cycles. ARCHITECTURE.md prints this table.
const ARROWS: &[(&str, &[&str])] = &[
    ("record", &[]),
    ("path", &["record"]),
    ("linux", &["record"]),
    ("machine", &["record", "linux"]),
    ("counters", &["record", "linux", "machine"]),
    ("doctor", &["record", "linux", "machine", "counters"]),
    ("stat", &["record", "linux", "machine", "counters"]),
    ("regions", &["record", "linux", "machine", "counters"]),
    ("lab/caches", &[]),
    ("hierarchy", &["record", "lab/caches"]),
    ("memory", &["record", "linux", "machine", "counters", "hierarchy"]),
    ("kernels", &[]),
    ("kernelbench", &["record", "linux", "machine", "kernels"]),
    ("dataplane", &["record", "path", "linux", "machine", "counters", "kernels"]),
    ("stage-api", &["record", "path", "linux", "machine", "kernels", "dataplane"]),
    ("stages", &["stage-api"]),
    ("examples/rlp", &["stage-api"]),
    ("tcpbench", &["record", "linux", "machine", "counters", "kernels"]),
    ("plan", &["record", "path"]),
    ("cmt", &["record", "path", "plan"]),
    ("explain", &["record", "path", "plan", "cmt"]),
    ("exchange", &["record"]),
    ("report", &["record"]),
    (
        "cli",
        &[
            "record",
            "path",
            "linux",
            "machine",
            "counters",
            "doctor",
            "stat",
            "regions",
            "hierarchy",
            "memory",
            "kernels",
            "kernelbench",
            "dataplane",
            "stage-api",
            "stages",
            "examples/rlp",
            "tcpbench",
            "plan",
            "cmt",
            "explain",
            "exchange",
            "report",
        ],
    ),
    ("lab/vector-models", &[]),
    ("xtask", &["record", "cmt", "report", "lab/vector-models"]),
    ("probe", &["record", "linux", "machine", "counters", "doctor", "stat", "memory"]),
    ("lab/known", &["linux", "counters", "regions"]),
];

/// The package in a folder.
fn package(folder: &str) -> String {
    match folder {
        "cli" => "linerate".to_owned(),
        "xtask" => "xtask".to_owned(),
        "lab/known" => "known".to_owned(),
        "lab/caches" => "linerate-caches".to_owned(),
        "examples/rlp" => "linerate-rlp".to_owned(),
        "lab/vector-models" => "linerate-vector-models".to_owned(),
        other => format!("linerate-{other}"),
    }
}

/// The package a dependency stands for: its key, unless the entry, or the workspace's entry it
/// points to, renames it.
fn resolve<'a>(key: &'a str, entry: &'a Value, shared: &'a Table) -> &'a str {
    let inherited = entry.get("workspace").and_then(Value::as_bool) == Some(true);
    let entry = if inherited { shared.get(key).unwrap_or(entry) } else { entry };
    entry.get("package").and_then(Value::as_str).unwrap_or(key)
}

/// The dependency tables of a manifest or of one of its `target.*` sections.
fn dependencies(section: &Table) -> impl Iterator<Item = (&str, &Value)> {
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .into_iter()
        .filter_map(|kind| section.get(kind)?.as_table())
        .flatten()
        .map(|(key, entry)| (key.as_str(), entry))
}

/// The folders of this workspace that a manifest depends on, in whatever way.
fn edges(manifest: &Table, shared: &Table) -> Vec<&'static str> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let sections = targets.filter_map(|(_, section)| section.as_table());
    std::iter::once(manifest)
        .chain(sections)
        .flat_map(dependencies)
        .filter_map(|(key, entry)| {
            let wanted = resolve(key, entry, shared);
            ARROWS.iter().map(|(folder, _)| *folder).find(|folder| package(folder) == wanted)
        })
        .collect()
}

/// The edges from `folder` that no arrow allows, in words.
fn forbidden(folder: &str, manifest: &Table, shared: &Table) -> Vec<String> {
    let allowed = ARROWS.iter().find(|(name, _)| *name == folder).map_or(&[][..], |row| row.1);
    edges(manifest, shared)
        .into_iter()
        .filter(|target| !allowed.contains(target))
        .map(|target| {
            format!(
                "`{folder}` depends on `{target}`, which no arrow allows: move the code to a crate \
                 that may see both, or change the table here and in ARCHITECTURE.md and say why in \
                 docs/decisions"
            )
        })
        .collect()
}

fn read(file: &str) -> Table {
    let text = fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    text.parse().unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The dependencies the workspace declares for its members.
fn shared_dependencies() -> Table {
    read("Cargo.toml")["workspace"]["dependencies"].as_table().expect("a table").clone()
}

/// The manifest of each folder.
fn manifests() -> BTreeMap<String, Table> {
    let crates = fs::read_dir(root().join("crates")).expect("crates/ can be read");
    let mut found: BTreeMap<String, Table> = crates
        .map(|entry| entry.expect("entries can be read").file_name().into_string().expect("UTF-8"))
        .map(|folder| (folder.clone(), read(&format!("crates/{folder}/Cargo.toml"))))
        .collect();
    let others =
        ["xtask", "probe", "examples/rlp", "lab/caches", "lab/known", "lab/vector-models"];
    for folder in others {
        found.insert(folder.to_owned(), read(&format!("{folder}/Cargo.toml")));
    }
    found
}

#[test]
fn every_dependency_follows_an_arrow() {
    let shared = shared_dependencies();
    let faults: Vec<String> =
        manifests().iter().flat_map(|(folder, m)| forbidden(folder, m, &shared)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_package_has_a_row_and_the_name_of_its_folder() {
    let manifests = manifests();
    let folders: Vec<&str> = manifests.keys().map(String::as_str).collect();
    let mut rows: Vec<&str> = ARROWS.iter().map(|(folder, _)| *folder).collect();
    rows.sort_unstable();
    assert_eq!(folders, rows, "folders with a manifest against rows of the table");
    for (folder, manifest) in &manifests {
        assert_eq!(manifest["package"]["name"].as_str(), Some(package(folder).as_str()));
    }
}

/// Unit tests are built once more, optimised, by `cargo bench` wherever a manifest does not say no.
#[test]
fn benches_are_no_tests_once_more() {
    let members: toml::Table = read("Cargo.toml");
    let members = members["workspace"]["members"].as_array().expect("members").clone();
    let is_member = |folder: &str| {
        let (parent, _) = folder.split_once('/').unwrap_or((folder, ""));
        members
            .iter()
            .any(|m| m.as_str() == Some(folder) || m.as_str() == Some(&format!("{parent}/*")))
    };
    for (folder, manifest) in manifests().iter().filter(|(folder, _)| is_member(folder)) {
        let targets = ["lib", "bin"].into_iter().filter_map(|kind| manifest.get(kind));
        let off = |target: &Value| target.get("bench").and_then(Value::as_bool) == Some(false);
        let is_off = |target: &Value| match target {
            Value::Array(targets) => targets.iter().all(off),
            one => off(one),
        };
        let targets: Vec<&Value> = targets.collect();
        let all_off = !targets.is_empty() && targets.into_iter().all(is_off);
        assert!(all_off, "{folder}/Cargo.toml: [lib] and [[bin]] with bench = false");
    }
}

#[test]
fn rows_name_only_rows_above_them() {
    for (i, (folder, targets)) in ARROWS.iter().enumerate() {
        for target in *targets {
            let above = ARROWS[..i].iter().any(|(name, _)| name == target);
            assert!(above, "`{folder}` names `{target}`, which does not stand above it");
        }
    }
}

/// The rows of the first table below the heading `Arrows`: the words in backquotes, cell by cell.
fn printed_rows(markdown: &str) -> Vec<(String, Vec<String>)> {
    let words = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    markdown
        .lines()
        .skip_while(|line| *line != "## Arrows")
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| {
            let mut cells = line.trim_matches('|').split('|');
            let folder = words(cells.next()?).pop()?;
            Some((folder, words(cells.next()?)))
        })
        .collect()
}

#[test]
fn architecture_prints_the_table() {
    let markdown = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let table: Vec<(String, Vec<String>)> = ARROWS
        .iter()
        .map(|(folder, targets)| {
            ((*folder).to_owned(), targets.iter().map(|t| (*t).to_owned()).collect())
        })
        .collect();
    assert_eq!(printed_rows(&markdown), table);
}

#[test]
fn a_forbidden_edge_is_found_wherever_it_stands() {
    let shared: Table = "linerate-plan = { path = \"crates/plan\" }
        renamed = { path = \"crates/plan\", package = \"linerate-plan\" }"
        .parse()
        .expect("valid TOML");
    for text in [
        "[dependencies]\nlinerate-plan.workspace = true",
        "[dev-dependencies]\nlinerate-plan = { path = \"../plan\" }",
        "[build-dependencies]\nlinerate-plan = \"1\"",
        "[target.'cfg(unix)'.dev-dependencies]\nlinerate-plan.workspace = true",
        "[dependencies]\nother = { path = \"../plan\", package = \"linerate-plan\" }",
        "[dependencies]\nrenamed.workspace = true",
    ] {
        let manifest: Table = text.parse().expect("valid TOML");
        assert_eq!(forbidden("record", &manifest, &shared).len(), 1, "{text}");
        assert_eq!(forbidden("a folder without a row", &manifest, &shared).len(), 1, "{text}");
        assert_eq!(forbidden("cli", &manifest, &shared), Vec::<String>::new(), "{text}");
    }
}
