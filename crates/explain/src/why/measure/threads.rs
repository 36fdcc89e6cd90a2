// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks a measure up in the groups, and measures of a single thread.

use super::super::facts::{Facts, Subject, counted, share, share_of};
use super::counts::{
    instead_known, others_instead, own_instead, softirqs_instead, strangers_instead, takes_turns,
    throttled, waits, work_without_timers,
};
use super::{Measure, costs, delays, pending, workers};
use linerate_record::stats::Estimate;
use linerate_record::why::{SocketKind, ThreadState};

/// Minimum number of sleeps per second for a thread to count as one that sleeps and is woken,
/// rather than one that is only preempted.
const SLEEPS_PER_S: f64 = 100.0;

impl Measure {
    /// Returns the measure's value for a subject; `None` if it is unreadable or does not apply.
    pub fn of<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        self.of_thread(facts, subject)
            .or_else(|| self.of_program(facts, subject))
            .or_else(|| self.of_packets(facts, subject))
            .or_else(|| self.of_tcp(facts, subject))
            .or_else(|| self.of_avoidable(facts, subject))
    }

    fn of_thread<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        let thread = facts.thread(subject)?;
        let state = |state| thread.share(state).and_then(share_of);
        match self {
            Self::Demand => Facts::time(thread, |state| {
                state.is_on_cpu()
                    || [ThreadState::Waiting, ThreadState::Throttled, ThreadState::Stolen]
                        .contains(&state)
            }),
            Self::Busy => facts.busy(thread),
            Self::Saturation => delays::saturation(facts, thread),
            Self::UsesStack => Some(Estimate::exactly(f64::from(facts.uses_stack()))),
            Self::SleepsOrKnowsPeers => {
                let sleeps = thread.voluntary_switches as f64 >= SLEEPS_PER_S * thread.elapsed_s;
                let mut sockets = facts.observation.sockets.iter();
                let has_udp = sockets.any(|socket| socket.kind == SocketKind::Udp);
                let knows_peers = facts.uses_stack() && !has_udp;
                Some(Estimate::exactly(f64::from(sleeps || knows_peers)))
            }
            Self::Waiting => state(ThreadState::Waiting),
            Self::WaitingPerLoss => {
                let lost = facts.receive_loss()?;
                let waiting = state(ThreadState::Waiting)?;
                (lost.low > 0.0).then(|| share(waiting.value / lost.value))
            }
            Self::MeanWait => {
                let seconds = state(ThreadState::Waiting)?.scale(thread.elapsed_s);
                let waits = waits(facts, thread);
                (waits > 0).then(|| seconds.scale(1e6 / waits as f64))
            }
            Self::OthersInstead => others_instead(facts, thread),
            Self::HigherPriority => Some(workers::higher_priority(facts, thread)),
            Self::OwnInstead => Some(Estimate::exactly(own_instead(facts, thread))),
            Self::SoftirqsInstead => Some(Estimate::exactly(softirqs_instead(thread))),
            Self::InsteadKnown => Some(Estimate::exactly(instead_known(thread))),
            Self::IdleMeanwhile => Some(Estimate::exactly(facts.idle_meanwhile(thread))),
            Self::TakesTurns => Some(takes_turns(facts, thread)),
            Self::WaitsPerSecond => counted(waits(facts, thread), thread.elapsed_s),
            Self::Throttled => Some(throttled(facts, thread)),
            Self::Stolen => state(ThreadState::Stolen)
                .or_else(|| facts.cpu(subject).map(|cpu| share(cpu.stolen))),
            Self::Interrupts => state(ThreadState::Interrupts),
            Self::KernelShare => costs::kernel(thread),
            Self::Asleep => state(ThreadState::Asleep),
            Self::Pending => pending::pending(facts, thread),
            Self::OfWork => Some(pending::of_work(facts, thread)),
            Self::IsTraced => Some(Estimate::exactly(f64::from(thread.tracer.is_some()))),
            Self::ExecsPerSecond => counted(thread.execs?, thread.elapsed_s),
            Self::SleepsPerSecond => counted(thread.voluntary_switches, thread.elapsed_s),
            Self::Functions(group) => facts.functions(thread, group),
            Self::NamedFunctions => facts.named(thread),
            Self::CryptoLibrary => facts.crypto_libraries(thread),
            Self::Crypto => facts.crypto(thread),
            Self::LockWait => Some(share(thread.lock_wait?)),
            Self::LockWaitOfRun => {
                costs::of_run(thread, share(thread.lock_wait?)).map(costs::at_most_all)
            }
            Self::FalselyShared => facts.shared_lines(thread, false),
            Self::CommonBytes => facts.shared_lines(thread, true),
            Self::CallTime => costs::calls(facts, thread),
            Self::WorkWithoutTimers => Some(share(work_without_timers(facts, thread))),
            Self::StrangersInstead => strangers_instead(facts, thread),
            Self::ForeignOfRun => {
                costs::of_run(thread, Self::ForeignInterrupts.of(facts, subject)?)
            }
            Self::ForeignInterrupts => {
                let foreign = Self::ForeignPackets.of(facts, subject)?;
                Some(state(ThreadState::Interrupts)?.scale(foreign.value.clamp(0.0, 1.0)))
            }
            _ => self.of_sleeps(facts, thread).or_else(|| self.of_instructions(facts, thread)),
        }
    }
}
