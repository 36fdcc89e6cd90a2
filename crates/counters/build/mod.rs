// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and cross-checks the data files, and generates Rust source from them.

mod events;
#[path = "../src/formula.rs"]
pub mod formula;
mod metrics;

use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;

/// Contents of the data files, keyed by file name without extension.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    pub(crate) names: String,
    pub(crate) events: BTreeMap<String, String>,
    pub(crate) metrics: BTreeMap<String, String>,
}

/// Rust source generated from the data files.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) tables: String,
    pub(crate) metrics: String,
}

/// Reads the files in the directory `data`.
pub(crate) fn read(data: &Path) -> Result<Data, String> {
    Ok(Data {
        names: text(&data.join("names.toml"))?,
        events: folder(&data.join("events"))?,
        metrics: folder(&data.join("metrics"))?,
    })
}

fn text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn folder(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if let (Some(stem), Some("toml")) = (stem, path.extension().and_then(|e| e.to_str())) {
            files.insert(stem.to_owned(), text(&path)?);
        }
    }
    Ok(files)
}

/// Checks the data and converts it to Rust source.
pub(crate) fn generate(data: &Data) -> Result<Source, String> {
    let (names, tables) = events::tables(data)?;
    let metrics = metrics::source(&data.metrics, &names)?;
    Ok(Source { tables, metrics })
}

/// Parses a TOML file. Errors name the file and the line.
fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().map_or(0, |span| span.start);
        let line = text[..before].lines().count().max(1);
        format!("{file}, line {line}: {}", error.message().trim_end().replace('\n', "; "))
    })
}

/// Normalizes a name for comparison: lower case, with `_` instead of `-`.
fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// Checks that a description is not empty and ends with `.` or `)`.
fn check_prose(what: &str, prose: &str) -> Result<(), String> {
    match prose.ends_with(['.', ')']) && prose.len() > 3 {
        true => Ok(()),
        false => Err(format!("{what}: prose must consist of sentences: `{prose}`")),
    }
}
