// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures of the calls in which a thread sleeps.

use super::super::facts::{Facts, counted, share, share_of};
use super::super::waits::{self, Wait};
use super::Measure;
use super::counts::{asleep_for_packets, asleep_in_faults, asleep_on_server, others_await_input};
use linerate_record::stats::Estimate;
use linerate_record::why::{ThreadActivity, ThreadState};

impl Measure {
    pub(super) fn of_sleeps(self, facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
        let state = |state| thread.share(state).and_then(share_of);
        match self {
            Self::OthersAwaitInput => Some(share(others_await_input(facts, thread))),
            Self::AsleepInFaults => Some(share(asleep_in_faults(thread))),
            Self::AsleepOnServer => asleep_on_server(facts, thread),
            Self::AsleepForPackets => match thread.asleep_on.is_empty() {
                false => asleep_for_packets(facts, thread).map(share),
                true => state(ThreadState::Asleep),
            },
            Self::AsleepOnChildren => {
                let known = 1.0 - waits::time_in(thread, Wait::Unknown)?;
                let calls = thread.asleep_on.iter().filter(|sleep| waits::is_for_child(sleep));
                Some(share(calls.map(|sleep| sleep.share).sum::<f64>().min(known)))
            }
            Self::AsleepIn(wait) => waits::time_in(thread, wait).map(share),
            Self::AsleepInSend => {
                waits::time_in(thread, Wait::Other)?;
                let sends = thread.asleep_on.iter().filter(|sleep| waits::is_to_peer(sleep));
                Some(share(sends.map(|sleep| sleep.share).sum()))
            }
            Self::AsleepInPipe => {
                let known = waits::time_in(thread, Wait::Other)?;
                let writes = thread.asleep_on.iter().filter(|sleep| waits::is_to_reader(sleep));
                Some(share(writes.map(|sleep| sleep.share).sum::<f64>().min(known)))
            }
            Self::SleepsPerPacket => {
                let packets = facts.packets().filter(|packets| *packets > 0)?;
                counted(thread.voluntary_switches, packets as f64)
            }
            _ => None,
        }
    }
}
