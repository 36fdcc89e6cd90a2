// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replaces `annotate` on architectures whose instructions are not decoded.

use super::Annotated;
use super::stacks::Resolved;
use linerate_record::profile::ProfileReport;
use linerate_record::why::Unread;
use std::collections::HashMap;

/// Reports why a function's instructions cannot be shown.
pub(super) fn annotate(
    report: &mut ProfileReport,
    _: &Resolved,
    _: &HashMap<u32, u32>,
    wanted: &Annotated,
) {
    if *wanted != Annotated::None {
        report.unread.push(Unread {
            what: "instructions".to_owned(),
            reason: "instructions can only be decoded on x86-64".to_owned(),
            fix: None,
        });
    }
}
