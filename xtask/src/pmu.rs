// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the PMU register accesses in `native/pmu`, and generates the event headers there from the
//! tables in `counters`.

mod encodings;
pub(crate) mod events;

use crate::outcome::Outcome;

/// Compares every access with its documented encoding. Accesses whose compiler is not installed are
/// skipped.
pub(crate) fn check() -> Outcome {
    encodings::check()
}

/// Like [`check`], but prints the skipped parts.
pub(crate) fn registers() -> Result<(), String> {
    match check() {
        Outcome::Passed(skips) => {
            skips.iter().for_each(|skip| println!("{skip}"));
            Ok(())
        }
        Outcome::Failed(why) | Outcome::Skipped(why) => Err(why),
    }
}
