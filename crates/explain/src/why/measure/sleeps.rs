// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures of the calls in which a thread sleeps.

use super::super::asked::silent;
use super::super::facts::{Facts, counted, sampled, share, share_of};
use super::super::waits::{self, Wait};
use super::Measure;
use super::counts::{asleep_for_packets, asleep_in_faults, asleep_on_server, on_unlisted};
use super::workers::others_await_input;
use linerate_record::stats::Estimate;
use linerate_record::why::{ThreadActivity, ThreadState};

impl Measure {
    pub(super) fn of_sleeps(self, facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
        let state = |state| thread.share(state).and_then(share_of);
        let slept = |value| slept(thread, value);
        match self {
            Self::OthersAwaitInput => Some(share(others_await_input(facts, thread))),
            Self::AsleepInFaults => Some(slept(asleep_in_faults(thread))),
            Self::AsleepOnUnlisted => Some(slept(on_unlisted(facts, thread))),
            Self::AsleepOnServer if silent(facts, thread).is_some() => Some(share(0.0)),
            Self::AsleepOnServer => asleep_on_server(facts, thread),
            Self::AsleepOnSilent => {
                Some(slept(silent(facts, thread).map_or(0.0, |silent| silent.share)))
            }
            Self::AsleepForPackets => match thread.asleep_on.is_empty() {
                false => asleep_for_packets(facts, thread).map(slept),
                true => state(ThreadState::Asleep),
            },
            Self::AsleepOnChildren => {
                let known = 1.0 - waits::time_in(thread, Wait::Unknown)?;
                let calls = thread.asleep_on.iter().filter(|sleep| waits::is_for_child(sleep));
                Some(slept(calls.map(|sleep| sleep.share).sum::<f64>().min(known)))
            }
            Self::AsleepIn(wait) => waits::time_in(thread, wait).map(slept),
            Self::AsleepInSend => {
                waits::time_in(thread, Wait::Other)?;
                let sends = thread.asleep_on.iter().filter(|sleep| waits::is_to_peer(sleep));
                Some(slept(sends.map(|sleep| sleep.share).sum()))
            }
            Self::AsleepInPipe => {
                let known = waits::time_in(thread, Wait::Other)?;
                let writes = thread.asleep_on.iter().filter(|sleep| waits::is_to_reader(sleep));
                Some(slept(writes.map(|sleep| sleep.share).sum::<f64>().min(known)))
            }
            Self::SleepsPerPacket => {
                let packets = facts.packets().filter(|packets| *packets > 0)?;
                counted(thread.voluntary_switches, packets as f64)
            }
            _ => None,
        }
    }
}

/// Returns a fraction of time that a thread sleeps in some calls, with an interval for the number
/// of samples of its sleep. Records before 2.4 do not have that number.
fn slept(thread: &ThreadActivity, value: f64) -> Estimate {
    let read = share(value);
    let asleep = thread.share(ThreadState::Asleep).and_then(share_of).map_or(0.0, |one| one.value);
    match thread.sleep_samples {
        Some(samples) if asleep > 0.0 => {
            let of_samples = sampled((value / asleep).clamp(0.0, 1.0), samples).scale(asleep);
            let (low, high) = (read.low.min(of_samples.low), read.high.max(of_samples.high));
            Estimate { low, high, n: samples, ..read }
        }
        _ => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::fixtures;

    #[test]
    fn few_samples_give_a_wide_interval() {
        let report = fixtures::why();
        let thread = report.observation.threads.first().expect("a thread");
        let width = |samples| {
            let thread = ThreadActivity { sleep_samples: samples, ..thread.clone() };
            let slept = slept(&thread, 0.5);
            slept.high - slept.low
        };
        assert!(width(Some(12)) > 2.0 * width(Some(200)));
        assert!((width(None) - 0.14).abs() < 1e-9);
    }
}
