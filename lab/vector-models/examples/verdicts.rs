// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explores all schemes and prints the table of verdicts for `docs/results/vector-models.md`.

use linerate_vector_models::{document, verdicts};

fn main() {
    print!("{}", document(&verdicts()));
}
