// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a path file with a different mapping, burst and kernel variant.

use crate::model::{Mapping, Path, SELECTED, Segment};
use crate::problem::{Mistake, Problems};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// Returns the path file `text` of `path` with its mapping and burst replaced by `mapping` and
/// `burst`, and with the kernels and the capture file of `path`: a file written to another
/// directory needs a different capture path. Everything else stays as it is: comments, order,
/// spacing, line endings. Comments inside the list of workers are lost.
///
/// # Errors
/// If `text` is not TOML, or `mapping`, `run` or `source` is not a section; never for the text
/// `path` was read from.
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
    let burst = ("run", "burst", Value::from(i64::from(burst)));
    for (name, key, value) in capture.into_iter().chain([("mapping", "workers", workers), burst]) {
        let section = document.entry(name).or_insert_with(new_section);
        let section = section.as_table_like_mut();
        let section =
            section.ok_or_else(|| refused(&format!("'{name}' is not a section"), 0..0))?;
        replace(section, key, value);
    }
    Ok(as_the_user_wrote(text, document.to_string()))
}

/// Returns an empty section for the end of the file, preceded by an empty line.
fn new_section() -> Item {
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    Item::Table(table)
}

/// Replaces the value of `key`, keeping the whitespace and comments around the old value. For a
/// list written as repeated sections, the comment before the first section stays.
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

/// Restores the line endings and the byte order mark of the original `text`, which the TOML library
/// normalizes.
fn as_the_user_wrote(text: &str, mut written: String) -> String {
    let ends = text.matches('\n').count();
    if ends > 0 && text.matches("\r\n").count() == ends {
        written = written.replace('\n', "\r\n");
    }
    if text.starts_with('\u{feff}') {
        written.insert(0, '\u{feff}');
    }
    written
}

/// Returns the value of the key `workers`, with one line per segment.
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
    if !segment.cpus.is_empty() {
        table.insert("cpus", segment.cpus.iter().map(|&cpu| i64::from(cpu)).collect());
    }
    table
}
