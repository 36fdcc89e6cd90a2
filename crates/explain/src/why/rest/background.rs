// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that are always busy, but probably with work that no request waits for.

use super::super::facts::{Facts, Subject};
use super::super::measure::{Measure, PENDING};
use super::super::words::{label, percent};
use super::{cannot_tell, polls};
use linerate_record::units::three_digits;
use linerate_record::why::{ThreadActivity, ThreadState, WhyFinding};

/// Returns a finding if the only thread of a program is always on a CPU and never sleeps, but
/// hardly any request waits. That thread handles all requests, so a background task would hold them
/// up.
fn sole_thread(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<WhyFinding> {
    /// Maximum number of sleeps per second of a thread that does not sleep, and minimum fraction of
    /// time on a CPU.
    const SELDOM_PER_S: f64 = 1.0;
    const RUNS: f64 = 0.9;
    /// Maximum CPU demand of another thread that takes no part in the work.
    const IDLE: f64 = 0.01;
    let is_idle = |other: &ThreadActivity| other.tid == thread.tid || other.demand() <= IDLE;
    let on_cpu = thread.share_of(ThreadState::is_on_cpu);
    let never_sleeps = thread.voluntary_switches as f64 <= SELDOM_PER_S * facts.elapsed();
    let pending = Measure::Pending.of(facts, Subject::Thread(thread))?;
    let packets = facts.packets().filter(|packets| *packets > 0)?;
    if !facts.observation.threads.iter().all(is_idle) || !never_sleeps || on_cpu < RUNS {
        return None;
    }
    let kernel = Measure::KernelShare.of(facts, Subject::Thread(thread));
    let kernel = kernel.map_or_else(String::new, |kernel| {
        format!(" ({} % of that in the kernel)", percent(kernel.value))
    });
    let sentence = format!(
        "Cannot tell how much of its time the program works: thread {}, the only one that does \
         anything, never sleeps and is on a CPU {} % of the time{kernel}, {} us per packet; but a \
         request was pending in only {} % of the readings. Since this thread handles all requests, \
         it probably spins on a poll call that returns at once: because of EPOLLOUT or POLLOUT on \
         a connection with nothing to send, or of a timeout of 0.",
        label(thread),
        percent(on_cpu),
        three_digits(1e6 * on_cpu * thread.elapsed_s / packets as f64),
        percent(pending.value)
    );
    Some(cannot_tell(facts, sentence, &polls::see_which_call(thread)))
}

/// Returns a finding if hardly any request waits while a thread is busy, or if it is unknown
/// because other threads handle the packets.
pub(super) fn background(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<WhyFinding> {
    let pending = Measure::Pending.of(facts, Subject::Thread(thread));
    let is_seldom = pending.is_some_and(|pending| pending.value < PENDING);
    if let Some(finding) = sole_thread(facts, thread).filter(|_| is_seldom) {
        return Some(finding);
    }
    let why = match pending {
        Some(pending) if pending.value >= PENDING => return None,
        Some(pending) => format!(
            "but a request was pending in only {} % of the readings, and a server that is always \
             busy always has one. Either its clients send their next request late, or it works in \
             the background (a timer's callback, a snapshot, a compaction)",
            percent(pending.value)
        ),
        None => "but it never waits for input, and other threads, which have idle time, handle \
                 most packets. It may work for them, or in the background (a snapshot, a \
                 compaction, a compiler)"
            .to_owned(),
    };
    let sentence = format!(
        "Cannot tell whether anything waits for thread {}: it is on a CPU {} % of the time, {why}.",
        label(thread),
        percent(thread.share_of(ThreadState::is_on_cpu))
    );
    let next = format!(
        "See what it does (linerate profile {}), and compare the rates while it is busy and while \
         it is idle",
        thread.pid
    );
    Some(cannot_tell(facts, sentence, &next))
}
