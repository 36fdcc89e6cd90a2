// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands out in the work of a thread, in addition to a doubt about its CPU time.

use super::super::facts::{Facts, Subject};
use super::super::functions::{is_nameless, is_of_kernel};
use super::super::measure::Measure;
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
    let is_own = |one: &&FunctionTime| !is_of_kernel(one) && !is_nameless(one);
    let hot = thread.functions.iter().filter(is_own).max_by(|a, b| a.share.total_cmp(&b.share));
    let hot = hot.filter(|one| one.share >= MOST).map_or_else(String::new, |one| {
        format!(" {} % of its samples are in {}.", percent(one.share), one.name)
    });
    let calls = Measure::CallsPerPacket.of(facts, Subject::Thread(thread)).map(|calls| calls.value);
    let calls = calls.filter(|calls| *calls >= CALLS).map_or_else(String::new, |calls| {
        format!(" It makes {} system calls per packet.", three_digits(calls))
    });
    hot + &calls
}
