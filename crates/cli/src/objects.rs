// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a packet path, locates the files named in it, and loads its shared objects.

use crate::failure::Failure;
use crate::input;
use crate::kinds::load_plugins;
use linerate_path::plugins::plugins;
use linerate_record::shell::quoted;
use std::path::{Path as FilePath, PathBuf};

/// Reads the text of a path file.
pub(crate) fn path_text(file: &FilePath) -> Result<String, Failure> {
    let text = input::text(file, input::TOML).map_err(|error| {
        let is_missing = file != FilePath::new("-") && matches!(file.try_exists(), Ok(false));
        let advice = match is_missing {
            true => "; name an existing path file, or create one with `linerate example`",
            false => "",
        };
        Failure::new(format!("cannot read the packet path {}: {error}{advice}", file.display()))
    })?;
    // TOML does not begin with a brace.
    match text.trim_start().starts_with('{') {
        true => Err(Failure::new(format!(
            "{}: JSON, not a packet path; if it is a record, did you mean `linerate report {}`?",
            file.display(),
            quoted(file)
        ))),
        false => Ok(text),
    }
}

/// Returns the location of `file`, whose name in the path file `path` may be relative to that file.
pub(crate) fn next_to(path: &FilePath, file: &str) -> PathBuf {
    match file {
        // Standard input.
        "-" => PathBuf::from(file),
        _ => path.parent().unwrap_or(FilePath::new("")).join(file),
    }
}

/// Loads the shared objects named in the packet path `text`, which is stored in `file`.
///
/// # Errors
/// Returns an error for the first object that cannot be used, with its line in the path file.
pub(crate) fn load_objects(file: &FilePath, text: &str) -> Result<(), Failure> {
    load_plugins(&plugins(text), |object| next_to(file, object)).map_err(|(named, error)| {
        let problem = named.problem(text, &error.to_string());
        Failure::new(problem.display(&file.display().to_string()))
    })
}
