// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate schema`: prints the JSON schemas of inputs and outputs.

use crate::args::{Format, SchemaArgs};
use crate::failure::Failure;

/// Returns the JSON schema of a format.
pub(crate) fn schema(args: &SchemaArgs) -> Result<String, Failure> {
    match args.format {
        Format::Record => Ok(linerate_record::schema_json()),
        Format::Path => {
            let schema = linerate_path::schema::schema(crate::kinds::specs());
            serde_json::to_string_pretty(&schema).map(|json| json + "\n").map_err(Failure::new)
        }
    }
}
