// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counter registers in `native/pmu`: what their accesses assemble to, and the event names,
//! generated from the tables in `counters`.

mod encodings;
pub(crate) mod events;

use crate::outcome::Outcome;

/// Compares every access with its documented encoding; those without a compiler here are skipped.
pub(crate) fn check() -> Outcome {
    encodings::check()
}

/// Like [`check`], with skipped parts printed.
pub(crate) fn registers() -> Result<(), String> {
    match check() {
        Outcome::Passed(skips) => {
            skips.iter().for_each(|skip| println!("{skip}"));
            Ok(())
        }
        Outcome::Failed(why) | Outcome::Skipped(why) => Err(why),
    }
}
