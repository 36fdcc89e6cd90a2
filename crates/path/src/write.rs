// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rewrites a path file with a different mapping, burst size, kernel variant and idle policy.

use crate::model::{IdlePolicy, Mapping, Path, SELECTED, Segment};
use crate::problem::{Mistake, Problems};
use crate::spec::PLUGIN;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// Returns `text`, the path file of `path`, with the mapping and burst size replaced by `mapping`
/// and `burst`, and the kernels, idle policies and file names (of the capture and of shared
/// objects) replaced by those in `path`. File names are included because a path file written to
/// another directory needs different relative paths. Everything else is preserved (comments, order,
/// spacing, line endings), except for comments within the list of workers.
///
/// # Errors
/// Returns an error if `text` is not TOML, or if `mapping`, `run` or `source` is not a section.
/// This never happens for the text from which `path` was read.
pub fn with_mapping(
    text: &str,
    path: &Path,
    mapping: &Mapping,
    burst: u32,
) -> Result<String, Problems> {
    let refused = |message: &str, at| Problems::in_text(text, vec![Mistake::new(&at, message)]);
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        refused(error.message(), error.span().unwrap_or_default())
    })?;
    if path.kernels != SELECTED || document.contains_key("kernels") {
        replace(document.as_table_mut(), "kernels", Value::from(path.kernels.as_str()));
    }
    let workers = Value::Array(workers(path, mapping));
    let capture = path.source.file().map(|file| ("source", "file", Value::from(file.as_str())));
    // Do not add a burst size that the file does not set and that stays the same.
    let run = document.get("run").map(Item::as_table_like);
    let is_burst_named = run.is_some_and(|run| run.is_none_or(|run| run.contains_key("burst")));
    let burst = (is_burst_named || burst != path.run.burst)
        .then(|| ("run", "burst", Value::from(i64::from(burst))));
    let idle = idle_policy(&document, path).map(|policy| ("idle", "policy", policy));
    let mapping = ("mapping", "workers", workers);
    for (name, key, value) in capture.into_iter().chain([mapping]).chain(burst).chain(idle) {
        let section = document.entry(name).or_insert_with(new_section);
        let section = section.as_table_like_mut();
        let section =
            section.ok_or_else(|| refused(&format!("'{name}' is not a section"), 0..0))?;
        replace(section, key, value);
    }
    if let Some(Item::ArrayOfTables(stages)) = document.get_mut("stage") {
        for (stage, used) in stages.iter_mut().zip(&path.stages) {
            if stage.get("kind").and_then(Item::as_str) == Some(PLUGIN)
                && let Some(crate::model::Value::Text(file)) = used.params.get("file")
            {
                replace(stage, "file", Value::from(file.as_str()));
            }
        }
    }
    Ok(as_the_user_wrote(text, document.to_string()))
}

/// Returns the new policy for the section `[idle]`; `None` if the file already has that policy.
fn idle_policy(document: &DocumentMut, path: &Path) -> Option<Value> {
    let section = document.get("idle").and_then(Item::as_table_like);
    let named = section.and_then(|section| section.get("policy")).and_then(Item::as_str);
    let word = path.idle.policy.word();
    (named.unwrap_or(IdlePolicy::default().word()) != word).then(|| Value::from(word))
}

/// Returns an empty section for the end of the file, preceded by an empty line.
fn new_section() -> Item {
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    Item::Table(table)
}

/// Replaces the value of `key`, preserving whitespace and comments around it. If the old value is a
/// list of repeated sections, preserves the comment before the first one.
fn replace(section: &mut dyn TableLike, key: &str, mut value: Value) {
    if let Some(Item::Value(old)) = section.get_mut(key) {
        if old.is_str() && old.as_str() == value.as_str() {
            return;
        }
        *value.decor_mut() = old.decor().clone();
        *old = value;
        return;
    }
    let before = match section.remove(key) {
        Some(Item::ArrayOfTables(list)) => list.get(0).and_then(|t| t.decor().prefix().cloned()),
        _ => None,
    };
    section.insert(key, Item::Value(value));
    if let (Some(before), Some(mut key)) = (before, section.key_mut(key)) {
        key.leaf_decor_mut().set_prefix(before);
    }
}

/// Restores the original text's line endings and byte order mark, which the TOML library
/// normalizes, and terminates the last line.
fn as_the_user_wrote(text: &str, mut written: String) -> String {
    if !written.ends_with('\n') {
        written.push('\n');
    }
    let ends = text.matches('\n').count();
    if ends > 0 && text.matches("\r\n").count() == ends {
        written = written.replace('\n', "\r\n");
    }
    if text.starts_with('\u{feff}') {
        written.insert(0, '\u{feff}');
    }
    written
}

/// Returns the value of the key `workers`, one line per segment.
fn workers(path: &Path, mapping: &Mapping) -> Array {
    let mut array: Array = mapping
        .segments
        .iter()
        .map(|segment| {
            let mut value = Value::InlineTable(worker(path, segment));
            value.decor_mut().set_prefix("\n  ");
            value
        })
        .collect();
    array.set_trailing_comma(true);
    array.set_trailing("\n");
    array
}

fn worker(path: &Path, segment: &Segment) -> InlineTable {
    let stages = path.stages.get(segment.stages.clone()).unwrap_or_default();
    let mut table = InlineTable::new();
    table.insert("stages", stages.iter().map(|stage| stage.name.as_str()).collect());
    table.insert("replicas", i64::from(segment.replicas).into());
    // A worker that runs the same stages as before keeps its idle policy.
    let before = path.mapping.segments.iter().position(|old| old.stages == segment.stages);
    if let Some(policy) = before.and_then(|index| path.idle.workers.get(index).copied().flatten()) {
        table.insert("idle", policy.word().into());
    }
    if !segment.cpus.is_empty() {
        table.insert("cpus", segment.cpus.iter().map(|&cpu| i64::from(cpu)).collect());
    }
    table
}
