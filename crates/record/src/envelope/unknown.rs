// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects values unknown to this version's enumerations.
//!
//! Enumerations to which minor versions may add values have a variant `Unknown` for them. Serde
//! reads every unknown value as this variant, whatever the version of the record. In a record that
//! is not newer than this program, such a value is an error, which [`check`] reports.

use super::{Body, ReadError};
use serde_json::Value;

/// Name of the variant that replaces unknown values, as serialised.
const UNKNOWN: &str = "unknown";

/// Checks that `body`, which was read from `json`, has no value that was replaced by `unknown`.
///
/// # Errors
/// Returns an error that names the first value that was replaced.
pub(super) fn check(json: &str, body: &Body) -> Result<(), ReadError> {
    let written: Value = serde_json::from_str(json).map_err(|error| ReadError::syntax(&error))?;
    let read = serde_json::to_value(body).expect("values parsed from JSON can be serialized");
    match replaced(&written, &read, "") {
        Some((field, value)) => Err(ReadError::UnknownValue { field, value: value.to_string() }),
        None => Ok(()),
    }
}

/// Returns the path and the original of the first value in `written` that was read as `unknown`;
/// `None` if there is none. Fields that were ignored or added while reading do not count.
fn replaced<'a>(written: &'a Value, read: &Value, path: &str) -> Option<(String, &'a Value)> {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => read.iter().find_map(|(name, read)| {
            let dot = if path.is_empty() { "" } else { "." };
            replaced(written.get(name)?, read, &format!("{path}{dot}{name}"))
        }),
        (Value::Array(written), Value::Array(read)) => {
            let pairs = written.iter().zip(read).enumerate();
            pairs
                .into_iter()
                .find_map(|(at, (written, read))| replaced(written, read, &format!("{path}[{at}]")))
        }
        (written, read) if read == UNKNOWN && written != UNKNOWN => {
            Some((path.to_owned(), written))
        }
        _ => None,
    }
}
