// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that sleep on something other than input, and may therefore be the bottleneck although
//! they have idle time.

use super::super::facts::Facts;
use super::super::gain;
use super::super::measure::work_without_timers;
use super::super::rules::BACKGROUND;
use super::super::waits::{self, Wait};
use super::super::words::{label, percent};
use super::{cannot_tell, sends_less};
use linerate_record::why::{ThreadActivity, WhyFinding};

/// Returns a finding for a thread that sleeps on something other than input, which may be the
/// bottleneck although it has idle time.
pub(super) fn held_up(facts: &Facts<'_>) -> Option<WhyFinding> {
    /// Minimum fraction of time that the thread sleeps on something other than input.
    const MUCH: f64 = 0.3;
    /// Maximum number of sleeps per packet. A program that merely checks for packets on a timer
    /// sleeps more often.
    const SLEEPS_PER_PACKET: f64 = 3.0;
    let thread = facts.busiest()?;
    let packets = facts.packets().filter(|packets| *packets > 0)?;
    let time_in = |wait| waits::time_in(thread, wait).unwrap_or(0.0);
    let sleeps = thread.voluntary_switches as f64 / packets as f64;
    let wait = [Wait::Timer, Wait::Storage, Wait::Lock, Wait::Other];
    let wait = wait.into_iter().find(|wait| time_in(*wait) >= MUCH)?;
    let (on, cause) = match wait {
        Wait::Timer => {
            let paces = sleeps <= SLEEPS_PER_PACKET
                && !sends_less(facts)
                && !gain::receives_all(facts)
                && work_without_timers(facts, thread) < BACKGROUND;
            (paces.then_some("on a timer")?.to_owned(), "timer_sleep")
        }
        Wait::Storage => {
            (format!("in {}", waits::longest_in(thread, wait)?), "waiting_for_storage")
        }
        Wait::Lock => (format!("in {}", waits::longest_in(thread, wait)?), "user_lock"),
        _ => {
            let on = waits::longest_in(thread, wait)?;
            // Connections have their own rules: windows, buffers, limiters.
            (!on.contains("(tcp ")).then_some((format!("in {on}"), ""))?
        }
    };
    if let Some(finding) = throttled_for_memory(facts, thread, time_in(wait)) {
        return Some(finding);
    }
    let cause = if cause.is_empty() { String::new() } else { format!(" ({cause})") };
    let often = match sleeps {
        ..0.01 => "less than once per 100 packets".to_owned(),
        _ => format!("{sleeps:.2} times per packet"),
    };
    let sentence = format!(
        "Cannot tell whether a wait limits the rate{cause}: thread {} sleeps {on} {} % of the time \
         ({often}), which is not a wait for input.",
        label(thread),
        percent(time_in(wait))
    );
    let next = format!(
        "Shorten that wait and compare the rates; strace -f -T -p {} shows each call",
        thread.tid
    );
    Some(cannot_tell(facts, sentence, &next))
}

/// Returns the finding for a thread that the kernel holds up for most of its other waits because
/// memory is short. The thread is not in a system call that could be shortened.
fn throttled_for_memory(
    facts: &Facts<'_>,
    thread: &ThreadActivity,
    other: f64,
) -> Option<WhyFinding> {
    let sleeps = thread.asleep_on.iter().filter(|sleep| waits::is_for_memory(sleep));
    let share: f64 = sleeps.clone().map(|sleep| sleep.share).sum();
    let on = waits::longest(sleeps).filter(|_| 2.0 * share >= other)?;
    let sentence = format!(
        "Cannot tell how fast the program would be with more memory: the kernel holds up thread {} \
         {} % of the time (in {}), because its control group is above memory.high, or memory is \
         short.",
        label(thread),
        percent(share),
        on.on
    );
    let next = format!(
        "Read memory.events (high, max) and memory.pressure of the groups in /proc/{}/cgroup; \
         raise memory.high, or make the program use less memory",
        thread.pid
    );
    Some(cannot_tell(facts, sentence, &next))
}
