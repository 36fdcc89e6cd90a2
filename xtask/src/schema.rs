// SPDX-License-Identifier: MIT OR Apache-2.0
//! The published schema files, made by the program itself.

use crate::command::{cargo, output, root};

/// The argument of `linerate schema`, and the file with its output.
const FILES: &[(&str, &str)] =
    &[("record", "docs/schema/record.json"), ("path", "docs/schema/path.json")];

fn generated(what: &str) -> Result<Vec<u8>, String> {
    output(cargo(&["run", "--quiet", "--locked", "--package", "linerate", "--", "schema", what]))
}

/// Writes every schema file.
pub(crate) fn write() -> Result<(), String> {
    for (what, file) in FILES {
        let json = generated(what)?;
        std::fs::write(root().join(file), json).map_err(|e| format!("cannot write {file}: {e}"))?;
        println!("{file}");
    }
    Ok(())
}
