// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the models of shared vector registers say, written to `docs/results` by themselves.

use crate::command::root;
use linerate_vector_models::{document, verdicts};
use std::fs;

const RESULT: &str = "docs/results/vector-models.md";

const HEAD: &str = "\
# Schemes that share vector registers, under every preemption

Written by `cargo xtask evidence vector-models`; a test compares. Every interleaving of the steps of
[`lab/vector-models`](../../lab/vector-models/src/lib.rs), which are those of
[`native/vector_context`](../../native/vector_context/note.h) and of
[its header](../../native/include/linerate/vector_context.h). What to make of it is in
[docs/vector-context.md](../vector-context.md). A scheme *corrupts* if somebody finds in a register
what it did not write there; it *gets stuck* if a state can be reached from which somebody never
uses vectors again, whatever happens. Only what happens before a corruption counts as stuck.

";

fn page() -> String {
    format!("{HEAD}{}", document(&verdicts()))
}

/// Explores everything and writes the page.
pub(crate) fn write() -> Result<(), String> {
    fs::write(root().join(RESULT), page()).map_err(|error| format!("{RESULT}: {error}"))?;
    println!("{RESULT}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{RESULT, page};
    use crate::command::root;

    #[test]
    fn the_page_is_what_the_models_say() {
        let written = std::fs::read_to_string(root().join(RESULT)).expect(RESULT);
        assert!(written == page(), "{RESULT} is old: cargo xtask evidence vector-models");
    }
}
