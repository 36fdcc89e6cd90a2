// SPDX-License-Identifier: MIT OR Apache-2.0
//! The published schema files, made by the program itself.

use crate::command::{cargo, output, root};
use std::process::ExitCode;

/// What `linerate schema` is asked for, and the file that holds its answer.
const FILES: &[(&str, &str)] =
    &[("record", "docs/schema/record.json"), ("path", "docs/schema/path.json")];

fn generated(what: &str) -> Result<Vec<u8>, String> {
    output(cargo(&["run", "--quiet", "--locked", "--package", "linerate", "--", "schema", what]))
}

/// Writes every schema file.
pub(crate) fn write() -> ExitCode {
    for (what, file) in FILES {
        let written = generated(what).and_then(|json| {
            std::fs::write(root().join(file), json).map_err(|e| format!("cannot write {file}: {e}"))
        });
        match written {
            Ok(()) => println!("{file}"),
            Err(reason) => {
                eprintln!("xtask schema: {reason}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}

/// Whether every schema file is what the program writes today.
pub(crate) fn check() -> Result<(), String> {
    for (what, file) in FILES {
        let stored =
            std::fs::read(root().join(file)).map_err(|e| format!("cannot read {file}: {e}"))?;
        if stored != generated(what)? {
            return Err(format!("{file} is out of date: run `cargo xtask schema` and commit it"));
        }
    }
    Ok(())
}
