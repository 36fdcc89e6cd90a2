// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters' registers in `native/pmu`: what their accesses assemble to, and the names of the
//! events, written from the tables of `counters`.

mod encodings;
pub(crate) mod events;

use crate::outcome::Outcome;

/// Compares every access with its documented encoding; what has no compiler here is skipped.
pub(crate) fn check() -> Outcome {
    encodings::check()
}

/// The same for a person: what was skipped is said.
pub(crate) fn registers() -> Result<(), String> {
    match check() {
        Outcome::Passed(skips) => {
            skips.iter().for_each(|skip| println!("{skip}"));
            Ok(())
        }
        Outcome::Failed(why) | Outcome::Skipped(why) => Err(why),
    }
}
