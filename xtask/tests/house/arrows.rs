// SPDX-License-Identifier: MIT OR Apache-2.0
//! Permitted dependencies between crates.
//!
//! The rule covers dependencies of every kind: a crate is built *and tested* without any crate
//! above it, so that it remains usable alone and its tests cannot depend on the crates that they
//! are meant to support. A test that needs two crates without an arrow between them belongs in a
//! crate that depends on both; `cli` depends on all.

use crate::tree::{File, files, root};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use toml::{Table, Value};

/// Each directory with a manifest, and the crates it depends on; `(tests)` marks those used only by
/// its tests, benches and examples. A row only names rows above it, which rules out cycles.
/// ARCHITECTURE.md prints this table.
const ARROWS: &[(&str, &[&str])] = &[
    ("record", &[]),
    ("path", &["record"]),
    ("linux", &[]),
    ("machine", &["record", "linux"]),
    ("trial", &["record", "linux", "machine"]),
    ("counters", &["record", "linux", "machine"]),
    ("doctor", &["record", "linux", "machine", "counters"]),
    ("cachesim", &[]),
    ("stat", &["record", "linux", "machine", "counters", "doctor", "cachesim (tests)"]),
    ("observe", &["record", "linux", "machine", "trial", "counters", "doctor"]),
    ("regions", &["record", "linux", "machine", "counters", "doctor"]),
    ("lab/caches", &["record"]),
    ("hierarchy", &["record", "lab/caches (tests)"]),
    ("memory", &["record", "linux", "machine", "trial", "counters", "doctor", "hierarchy"]),
    ("kernels", &[]),
    ("kernelbench", &["record", "linux", "machine", "trial", "kernels"]),
    (
        "dataplane",
        &["record", "path", "linux", "machine", "trial", "counters", "doctor", "kernels"],
    ),
    ("stage-api", &["record", "path", "linux", "machine", "trial", "kernels", "dataplane"]),
    ("stages", &["stage-api"]),
    ("plugin", &["linux", "stage-api"]),
    ("examples/rlp", &["stage-api"]),
    ("tcpbench", &["record", "linux", "machine", "trial", "kernels"]),
    ("stream", &["record", "linux", "machine", "trial", "observe"]),
    ("plan", &["record", "path"]),
    ("report", &["record", "plan"]),
    ("cmt", &["record", "path", "plan", "report (tests)"]),
    ("explain", &["record", "path (tests)", "plan", "cmt"]),
    (
        "tune",
        &["record", "path", "machine", "trial", "kernels", "dataplane", "stages (tests)", "plan"],
    ),
    ("exchange", &["record"]),
    (
        "cli",
        &[
            "record",
            "path",
            "linux",
            "machine",
            "trial",
            "counters",
            "doctor",
            "cachesim",
            "stat",
            "regions (tests)",
            "hierarchy",
            "memory",
            "observe",
            "kernels",
            "kernelbench",
            "dataplane",
            "stage-api",
            "plugin",
            "stages",
            "examples/rlp",
            "tcpbench",
            "stream",
            "plan",
            "cmt",
            "explain",
            "tune",
            "exchange",
            "report",
        ],
    ),
    ("lab/vector-models", &[]),
    ("xtask", &["explain", "record", "lab/vector-models"]),
    ("probe", &["record", "linux", "machine", "counters", "doctor", "stat", "memory"]),
    ("lab/known", &["record", "linux", "counters", "regions"]),
];

/// Returns the package in a folder.
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

/// Returns a dependency's package: its key, unless the entry, or the workspace's entry it refers
/// to, renames it.
fn resolve<'a>(key: &'a str, entry: &'a Value, shared: &'a Table) -> &'a str {
    let inherited = entry.get("workspace").and_then(Value::as_bool) == Some(true);
    let entry = if inherited { shared.get(key).unwrap_or(entry) } else { entry };
    entry.get("package").and_then(Value::as_str).unwrap_or(key)
}

/// Suffix for crates used only by tests, benches and examples.
const TESTS: &str = " (tests)";

/// Returns the dependency tables in a manifest or in one of its `target.*` sections, each with
/// whether only tests, benches and examples see it.
fn dependencies(section: &Table) -> impl Iterator<Item = (&str, &Value, bool)> {
    [("dependencies", false), ("dev-dependencies", true), ("build-dependencies", false)]
        .into_iter()
        .filter_map(|(kind, is_dev)| Some((section.get(kind)?.as_table()?, is_dev)))
        .flat_map(|(table, is_dev)| {
            table.iter().map(move |(key, entry)| (key.as_str(), entry, is_dev))
        })
}

/// Returns the edges from a manifest to directories in this workspace, named as in [`ARROWS`], each
/// with its key in the manifest. A package's own tests with other features do not count as an edge.
fn edges(folder: &str, manifest: &Table, shared: &Table) -> BTreeMap<String, String> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let sections = targets.filter_map(|(_, section)| section.as_table());
    let mut edges = BTreeMap::new();
    for (key, entry, is_dev) in std::iter::once(manifest).chain(sections).flat_map(dependencies) {
        let wanted = resolve(key, entry, shared);
        let target = ARROWS.iter().map(|(folder, _)| *folder).find(|row| package(row) == wanted);
        let Some(target) = target.filter(|target| *target != folder) else { continue };
        match is_dev {
            true => edges.entry(format!("{target}{TESTS}")).or_insert(key.to_owned()),
            false => edges.entry(target.to_owned()).or_insert(key.to_owned()),
        };
    }
    // The crate's dependencies are visible to its tests as well.
    let marked = |edge: &str| edge.strip_suffix(TESTS).is_some_and(|edge| edges.contains_key(edge));
    let doubled: Vec<String> = edges.keys().filter(|edge| marked(edge)).cloned().collect();
    edges.retain(|edge, _| !doubled.contains(edge));
    edges
}

fn row(folder: &str) -> &'static [&'static str] {
    ARROWS.iter().find(|(name, _)| *name == folder).map_or(&[], |row| row.1)
}

/// Describes the edges from `folder` that no arrow allows.
fn forbidden(folder: &str, manifest: &Table, shared: &Table) -> Vec<String> {
    edges(folder, manifest, shared)
        .keys()
        .filter(|target| !row(folder).contains(&target.as_str()))
        .map(|target| {
            format!(
                "`{folder}` depends on `{target}`, which no arrow allows: move the code to a crate \
                 that may see both, or change the table here and in ARCHITECTURE.md and say why in \
                 docs/decisions"
            )
        })
        .collect()
}

/// Describes the arrows from `folder` that its manifest, or its code, does not use. `code`: the
/// directory's Rust files, each with whether only tests, benches and examples see it.
fn unused(folder: &str, manifest: &Table, shared: &Table, code: &[(bool, String)]) -> Vec<String> {
    let edges = edges(folder, manifest, shared);
    let is_written = |target: &str, key: &str| {
        let name = key.replace('-', "_");
        let is_dev = target.ends_with(TESTS);
        code.iter().any(|(of_tests, text)| (is_dev || !of_tests) && text.contains(&name))
    };
    let fault = |target: &&&str| match edges.get(**target) {
        None => Some(format!("`{folder}` may depend on `{target}`, and its manifest does not")),
        Some(key) if !is_written(target, key) => {
            Some(format!("`{folder}` depends on `{target}`, and no line of its code does"))
        }
        Some(_) => None,
    };
    row(folder).iter().filter_map(|target| fault(&target)).collect()
}

/// Returns a directory's Rust files, each with whether only tests, benches and examples see it.
/// Modules located elsewhere (`#[path]`) belong to the file that names them.
fn code_of(folder: &str, files: &[File]) -> Vec<(bool, String)> {
    let at = match root().join("crates").join(folder).exists() {
        true => format!("crates/{folder}/"),
        false => format!("{folder}/"),
    };
    let inside = files.iter().filter_map(|file| Some((file.path.strip_prefix(&at)?, file)));
    inside
        .filter(|(_, file)| file.extension() == "rs")
        .flat_map(|(path, file)| {
            let of_tests =
                ["tests/", "benches/", "examples/"].iter().any(|part| path.starts_with(part));
            let folder = root().join(&file.path).parent().map(Path::to_owned).unwrap_or_default();
            let elsewhere = file.text.split("#[path = \"").skip(1).filter_map(move |rest| {
                fs::read_to_string(folder.join(rest.split('"').next()?)).ok()
            });
            std::iter::once(file.text.clone()).chain(elsewhere).map(move |text| (of_tests, text))
        })
        .collect()
}

/// Returns the programs that a manifest builds from files outside its directory.
fn programs_elsewhere(folder: &str, manifest: &Table) -> Vec<(bool, String)> {
    let programs = manifest.get("bin").and_then(Value::as_array).into_iter().flatten();
    let paths = programs.filter_map(|program| program.get("path")?.as_str());
    let read = |path: &str| fs::read_to_string(root().join(folder).join(path)).ok();
    paths.filter(|path| path.starts_with("..")).filter_map(read).map(|text| (false, text)).collect()
}

fn read(file: &str) -> Table {
    let text = fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    text.parse().unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// Returns the dependencies that the workspace declares for its members.
fn shared_dependencies() -> Table {
    read("Cargo.toml")["workspace"]["dependencies"].as_table().expect("a table").clone()
}

/// Returns the manifest of each folder.
fn manifests() -> BTreeMap<String, Table> {
    let crates = fs::read_dir(root().join("crates")).expect("crates/ can be read");
    let mut found: BTreeMap<String, Table> = crates
        .map(|entry| entry.expect("entries can be read").file_name().into_string().expect("UTF-8"))
        .map(|folder| (folder.clone(), read(&format!("crates/{folder}/Cargo.toml"))))
        .collect();
    let others = ["xtask", "probe", "examples/rlp", "lab/caches", "lab/known", "lab/vector-models"];
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

/// Unused permissions would invite unwanted dependencies.
#[test]
fn every_arrow_is_followed() {
    let (shared, files) = (shared_dependencies(), files());
    let faults: Vec<String> = manifests()
        .iter()
        .flat_map(|(folder, manifest)| {
            let mut code = code_of(folder, &files);
            code.extend(programs_elsewhere(folder, manifest));
            unused(folder, manifest, &shared, &code)
        })
        .collect();
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

/// `cargo bench` builds the unit tests again, optimized, unless a manifest disables that.
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
            let target = target.strip_suffix(TESTS).unwrap_or(target);
            let above = ARROWS[..i].iter().any(|(name, _)| *name == target);
            assert!(above, "`{folder}` names `{target}`, which is not above it");
        }
    }
}

/// Returns the rows of the first table below the heading `Arrows`: the words between commas,
/// without their backquotes, cell by cell.
fn printed_rows(markdown: &str) -> Vec<(String, Vec<String>)> {
    let words = |cell: &str| -> Vec<String> {
        let words = cell.split(',').map(|word| word.trim().replace('`', ""));
        words.filter(|word| !word.is_empty()).collect()
    };
    markdown
        .lines()
        .skip_while(|line| *line != "## Arrows")
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| {
            let mut cells = line.trim_matches('|').split('|');
            let folder = cells.next().filter(|folder| folder.contains('`'))?;
            Some((words(folder).pop()?, words(cells.next()?)))
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
fn finds_a_forbidden_edge_in_any_section() {
    let shared: Table = "linerate-plan = { path = \"crates/plan\" }
        renamed = { path = \"crates/plan\", package = \"linerate-plan\" }"
        .parse()
        .expect("valid TOML");
    for text in [
        "[dependencies]\nlinerate-plan.workspace = true",
        "[build-dependencies]\nlinerate-plan = \"1\"",
        "[target.'cfg(unix)'.dependencies]\nlinerate-plan.workspace = true",
        "[dependencies]\nother = { path = \"../plan\", package = \"linerate-plan\" }",
        "[dependencies]\nrenamed.workspace = true",
    ] {
        let manifest: Table = text.parse().expect("valid TOML");
        assert_eq!(forbidden("record", &manifest, &shared).len(), 1, "{text}");
        assert_eq!(forbidden("a folder without a row", &manifest, &shared).len(), 1, "{text}");
        assert_eq!(forbidden("cli", &manifest, &shared), Vec::<String>::new(), "{text}");
        let of_tests: Table = text.replace("dependencies", "dev-dependencies").parse().unwrap();
        let is_built = text.starts_with("[build");
        for folder in ["record", "cli"] {
            assert!(is_built || forbidden(folder, &of_tests, &shared).len() == 1, "{text}");
        }
    }
}

#[test]
fn finds_an_unused_arrow() {
    let manifest = |text: &str| text.parse::<Table>().expect("valid TOML");
    let faults = |text: &str, code: &[(bool, &str)]| {
        let code: Vec<_> = code.iter().map(|(tests, text)| (*tests, (*text).to_owned())).collect();
        unused("hierarchy", &manifest(text), &Table::new(), &code)
    };
    let both =
        "[dependencies]\nlinerate-record = \"1\"\n[dev-dependencies]\nlinerate-caches = \"1\"";
    let record = (false, "use linerate_record::Figure;");
    assert_eq!(faults(both, &[record, (true, "linerate_caches::curve()")]), [""; 0]);
    assert_eq!(faults(both, &[record]).len(), 1, "no test uses the caches");
    assert_eq!(faults(both, &[(true, record.1), (true, "linerate_caches")]).len(), 1);
    assert_eq!(faults("[dependencies]\nlinerate-record = \"1\"", &[record]).len(), 1);
    // The same edge from the crate itself is a different edge.
    let caches = both.replace("[dev-dependencies]\n", "");
    assert_eq!(faults(&caches, &[record, (false, "linerate_caches")]).len(), 1);
}
