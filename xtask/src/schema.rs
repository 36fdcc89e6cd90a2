// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the published schema files, as printed by the program.

use crate::command::{cargo, output, root};

/// Arguments of `linerate schema`, and the output file for each.
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
