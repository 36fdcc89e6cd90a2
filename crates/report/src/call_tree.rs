// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merges the call paths of a profile into one tree for flame graphs and icicles. Below the root
//! are the threads by name, and below each thread its functions, from the outermost caller inwards.

use linerate_record::profile::{CostClass, ProfileReport};
use std::collections::BTreeMap;

/// A node of the tree. It represents the whole program, all threads with the same name, or a
/// function called along one call path by threads with the same name.
#[derive(Default)]
pub(crate) struct Frame {
    /// Samples in the function and its callees.
    pub(crate) samples: u64,
    /// Kind of work of a function; `None` for threads and the whole program.
    pub(crate) class: Option<CostClass>,
    pub(crate) module: String,
    pub(crate) callees: BTreeMap<String, Frame>,
}

impl Frame {
    /// Builds the tree of the whole program. Samples in calls deeper than `most_rows` count towards
    /// the last function kept.
    pub(crate) fn whole(report: &ProfileReport, most_rows: usize) -> Self {
        let mut whole = Self::default();
        for (at, node) in report.calls.iter().enumerate().filter(|(_, node)| node.samples > 0) {
            whole.samples += node.samples;
            let name = report.thread_of(node).map_or("-", |thread| &thread.name);
            let mut frame = whole.callees.entry(name.to_owned()).or_default();
            frame.samples += node.samples;
            for one in report.path(at).into_iter().take(most_rows.saturating_sub(1)) {
                frame = frame.callees.entry(one.name.clone()).or_default();
                frame.samples += node.samples;
                frame.class = Some(one.class);
                frame.module.clone_from(&one.module);
            }
        }
        whole
    }
}
