// SPDX-License-Identifier: MIT OR Apache-2.0
//! All stage and source kinds in this program. Adding the kinds of another crate takes one line.

use linerate_path::plugins::Named;
use linerate_path::spec::{Kinds, Plugin, SourceSpec, StageSpec};
use linerate_plugin::LoadError;
use linerate_stage_api::source::SourceKind;
use linerate_stage_api::{Extension, StageKind};
use std::path::Path;
use std::sync::{PoisonError, RwLock};

/// The crates that add kinds, in the order in which their kinds are listed.
static EXTENSIONS: [&Extension; 3] = [
    &linerate_stages::EXTENSION,   // an edge router
    &linerate_plugin::EXTENSION,   // shared objects
    &linerate_rlp::app::EXTENSION, // the Radio Link Protocol, examples/rlp
];

/// The kinds, and their specifications for the checker.
#[derive(Default)]
struct Table {
    stages: Vec<StageKind>,
    sources: Vec<SourceKind>,
    stage_specs: Vec<StageSpec>,
    source_specs: Vec<SourceSpec>,
    plugins: Vec<Plugin>,
}

impl Table {
    fn of(extensions: &[&Extension]) -> Self {
        let stages: Vec<_> = extensions.iter().flat_map(|one| one.stages).copied().collect();
        let sources: Vec<_> = extensions.iter().flat_map(|one| one.sources).copied().collect();
        let stage_specs = stages.iter().map(|kind| kind.spec).collect();
        let source_specs = sources.iter().map(|kind| kind.spec).collect();
        Self { stages, sources, stage_specs, source_specs, plugins: Vec::new() }
    }

    /// Returns the first name that two stage kinds, or two source kinds, share.
    fn repeated(&self) -> Option<&'static str> {
        let stages: Vec<_> = self.stage_specs.iter().map(|spec| spec.kind).collect();
        let sources: Vec<_> = self.source_specs.iter().map(|spec| spec.kind).collect();
        let in_one = |names: &[&'static str]| {
            (1..names.len()).find(|&at| names[..at].contains(&names[at])).map(|at| names[at])
        };
        in_one(&stages).or_else(|| in_one(&sources))
    }
}

/// The current table; `None` before the first use. Whenever kinds are added, a new table replaces
/// the current one. The old table is leaked, because references to it are `'static`.
static TABLE: RwLock<Option<&'static Table>> = RwLock::new(None);

fn table() -> &'static Table {
    let current = *TABLE.read().unwrap_or_else(PoisonError::into_inner);
    current.unwrap_or_else(|| replace(Table::of(&EXTENSIONS)))
}

fn replace(table: Table) -> &'static Table {
    let table: &'static Table = Box::leak(Box::new(table));
    *TABLE.write().unwrap_or_else(PoisonError::into_inner) = Some(table);
    table
}

/// Adds the kinds of other crates.
///
/// # Panics
/// Panics if two stage kinds, or two source kinds, have the same name.
pub(crate) fn add(extensions: &[&'static Extension]) {
    let table = Table::of(&[&EXTENSIONS, extensions].concat());
    if let Some(name) = table.repeated() {
        panic!("two stage kinds or two source kinds are named \"{name}\": rename yours");
    }
    replace(table);
}

/// Loads the shared objects named in a path. `locate` converts a name to a location.
///
/// # Errors
/// Returns an error for the first object that cannot be used.
pub(crate) fn load_plugins(
    named: &[Named],
    locate: impl Fn(&str) -> std::path::PathBuf,
) -> Result<(), (Named, LoadError)> {
    for one in named {
        load_plugin(&one.file, &locate(&one.file)).map_err(|error| (one.clone(), error))?;
    }
    Ok(())
}

/// Loads the shared object at `path` under the name `file`, and returns its specification.
pub(crate) fn load_plugin(file: &str, path: &Path) -> Result<StageSpec, LoadError> {
    let (plugin, kind) = linerate_plugin::load(file, path)?;
    let spec = plugin.spec;
    let Table { stages, sources, stage_specs, source_specs, plugins } = table();
    replace(Table {
        stages: [stages.as_slice(), &[kind]].concat(),
        sources: sources.clone(),
        stage_specs: stage_specs.clone(),
        source_specs: source_specs.clone(),
        plugins: [plugins.as_slice(), &[plugin]].concat(),
    });
    Ok(spec)
}

/// Returns all stage kinds, including those of loaded shared objects.
pub(crate) fn kinds() -> &'static [StageKind] {
    &table().stages
}

/// Finds a stage kind by name.
pub(crate) fn kind(name: &str) -> Option<&'static StageKind> {
    kinds().iter().find(|kind| kind.spec.kind == name)
}

/// Finds a source kind by name.
pub(crate) fn source(name: &str) -> Option<&'static SourceKind> {
    table().sources.iter().find(|kind| kind.spec.kind == name)
}

/// Returns the specifications of all kinds, for checking paths.
pub(crate) fn specs() -> Kinds<'static> {
    let table = table();
    Kinds { stages: &table.stage_specs, sources: &table.source_specs, plugins: &table.plugins }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_stage_api::MAX_CAUSES;

    #[test]
    fn names_are_unique_across_crates_and_can_be_found() {
        assert_eq!(table().repeated(), None);
        for known in kinds() {
            let name = known.spec.kind;
            assert_eq!(kind(name).map(|kind| kind.spec.kind), Some(name));
        }
        assert!(kind("").is_none());
        assert!(kinds().iter().all(|kind| kind.spec.drop_causes.len() <= MAX_CAUSES));
        let sources: Vec<&str> = specs().sources.iter().map(|spec| spec.kind).collect();
        assert_eq!(sources, ["a10"]);
        assert_eq!(source("a10").map(|kind| kind.spec.kind), Some("a10"));
        assert!(source("capture").is_none(), "it is built in");
    }

    #[test]
    fn a_kind_that_exists_already_is_found() {
        let twice = Table::of(&[&EXTENSIONS[..], &[&linerate_stages::EXTENSION]].concat());
        assert_eq!(twice.repeated(), Some("parse"));
    }
}
