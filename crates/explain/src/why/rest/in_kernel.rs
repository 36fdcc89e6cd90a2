// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that are always busy and spend much of their time in the kernel.

use super::super::doubts::read_by_root;
use super::super::facts::{Facts, Subject};
use super::super::measure::Measure as M;
use super::super::words::{label, percent};
use super::{cannot_tell, doing, waiting};
use linerate_record::why::{FunctionTime, ThreadActivity, WhyFinding};

/// Returns the finding for a thread that is always busy, and much of whose CPU time is in the
/// kernel: neither the program's own work nor its use of memory accounts for that part.
pub(super) fn in_kernel(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<WhyFinding> {
    /// Minimum kernel fraction of the CPU time.
    const MUCH: f64 = 0.4;
    let kernel = M::KernelShare.of(facts, Subject::Thread(thread))?;
    if kernel.value < MUCH {
        return None;
    }
    let sentence = format!(
        "Cannot tell how much of the kernel's work for the program could be avoided (system_calls, \
         copying), and how much the protocols need. Thread {} {}, and is busy whenever it \
         runs.{}{}",
        label(thread),
        doing(facts, thread),
        hottest(facts, thread),
        waiting(thread)
    );
    let pid = thread.pid;
    let shown = match facts.has_kernel_samples() {
        true => format!("linerate profile {pid} shows all functions of the kernel"),
        false => format!("{}, which shows the functions of the kernel", read_by_root(facts)),
    };
    let next = format!(
        "Make fewer and larger calls (pipelined requests, sendmmsg and recvmmsg, io_uring, UDP GSO \
         and GRO), or use more threads or CPUs, and compare the rates; {shown}"
    );
    Some(cannot_tell(facts, sentence, &next))
}

/// Returns a sentence about the kernel functions that take most of a thread's CPU time; empty
/// without samples of the kernel.
fn hottest(facts: &Facts<'_>, thread: &ThreadActivity) -> String {
    const NUMBER: usize = 3;
    /// Minimum fraction of the samples.
    const MATTERS: f64 = 0.01;
    let is_meant = |one: &&FunctionTime| one.file == "kernel" && one.share >= MATTERS;
    let mut functions: Vec<_> = thread.functions.iter().filter(is_meant).collect();
    functions.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.name.cmp(&b.name)));
    functions.truncate(NUMBER);
    if functions.is_empty() || !facts.has_kernel_samples() {
        return String::new();
    }
    let each = functions.iter().map(|one| format!("{} ({} %)", one.name, percent(one.share)));
    format!(" Its hottest kernel functions: {}.", each.collect::<Vec<_>>().join(", "))
}
