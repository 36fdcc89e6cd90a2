// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands out in the work of a thread, next to a doubt about its CPU time.

use super::super::facts::Facts;
use super::super::words::percent;
use linerate_record::units::three_digits;
use linerate_record::why::{FunctionTime, ThreadActivity};

/// Returns sentences on a function of the program that takes most of a thread's samples, and on
/// many system calls per packet; empty if there is neither.
pub(super) fn on_work(facts: &Facts<'_>, thread: &ThreadActivity) -> String {
    /// Minimum fraction of the samples in one function.
    const MOST: f64 = 0.5;
    /// Minimum number of system calls per packet. Programs that answer each packet make two.
    const CALLS: f64 = 10.0;
    let is_own = |one: &&FunctionTime| !one.file.contains("kernel") && !one.name.starts_with('[');
    let hot = thread.functions.iter().filter(is_own).max_by(|a, b| a.share.total_cmp(&b.share));
    let hot = hot.filter(|one| one.share >= MOST).map_or_else(String::new, |one| {
        format!(" {} % of its samples are in {}.", percent(one.share), one.name)
    });
    let packets = facts.packets().filter(|packets| *packets > 0);
    let calls = thread.system_calls.zip(packets);
    let calls = calls.map(|(calls, packets)| calls as f64 / packets as f64);
    let calls = calls.filter(|calls| *calls >= CALLS).map_or_else(String::new, |calls| {
        format!(" It makes {} system calls per packet.", three_digits(calls))
    });
    hot + &calls
}
