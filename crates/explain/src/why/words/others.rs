// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words about the other programs that a thread waits for.

use super::super::facts::Facts;
use super::super::{roles, waits};
use linerate_record::why::ThreadActivity;

/// Placeholders of this module.
pub(super) const NAMES: &[&str] = &["asked_server", "pipe"];

pub(super) fn value(name: &str, facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    match name {
        "asked_server" => Some(roles::asked(facts, thread).unwrap_or_else(|| "a peer".to_owned())),
        "pipe" => {
            let writes = thread.asleep_on.iter().filter(|sleep| waits::is_to_reader(sleep));
            waits::longest(writes).map(waits::named)
        }
        _ => None,
    }
}
