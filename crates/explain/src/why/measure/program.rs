// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures of the program as a whole.

use super::super::facts::{Facts, Subject, counted, sampled, share, share_of};
use super::counts::{
    asleep_on_futex, asleep_on_mutex, at_least_this, brief_processes, bytes, bytes_per_call,
    children_cpus, faults, fullest, major_faults, system_calls,
};
use super::{Measure, costs};
use linerate_record::stats::Estimate;

impl Measure {
    pub(super) fn of_program<'a>(
        self,
        facts: &Facts<'a>,
        subject: Subject<'a>,
    ) -> Option<Estimate> {
        let observation = facts.observation;
        let threads = &observation.threads;
        match self {
            Self::ThrottledPeriods => match subject {
                Subject::Quota(quota) => {
                    let over = quota.periods as f64;
                    counted(quota.throttled_periods.min(quota.periods), over)
                }
                _ => None,
            },
            Self::AsleepOnMutex => asleep_on_mutex(facts).map(share),
            Self::AsleepOnFutex => asleep_on_futex(facts),
            // If only an interface is observed, there is no thread to demand a CPU.
            Self::Demand if threads.is_empty() && observation.watched.interface.is_some() => {
                Some(Estimate::exactly(0.0))
            }
            Self::WorkingThreads => Some(Estimate::exactly(facts.working().count() as f64)),
            Self::FaultsPerSecond => counted(faults(facts), facts.elapsed()),
            Self::FaultTime => costs::faults(facts),
            Self::MajorFaultsPerSecond => counted(major_faults(facts), facts.elapsed()),
            Self::CallsPerPacket => {
                let packets = facts.packets_one_way().filter(|packets| *packets > 0)? as f64;
                let (least, most) = system_calls(facts)?;
                let calls = counted(least, packets)?;
                Some(if most.is_some() { calls } else { at_least_this(calls) })
            }
            Self::CryptoPerByte => {
                let thread = facts.busiest()?;
                let crypto = facts.crypto_libraries(thread)?;
                let busy = Facts::on_cpu(thread)?.value * thread.elapsed_s * 1e9;
                let bytes = bytes(facts).filter(|bytes| *bytes > 0)?;
                Some(crypto.scale(busy / bytes as f64))
            }
            Self::CallsPerSecond => {
                let (least, most) = system_calls(facts)?;
                let rate = counted(least, facts.elapsed())?;
                Some(if most.is_some() { rate } else { at_least_this(rate) })
            }
            Self::BytesPerCall => bytes_per_call(facts),
            Self::MaxBytesPerCall => {
                let most = bytes_per_call(facts).map_or(f64::INFINITY, |bytes| bytes.high);
                Some(Estimate::exactly(most))
            }
            Self::ChildrenCpus => children_cpus(facts).map(share),
            Self::ChildrenShare => {
                let children = children_cpus(facts)?;
                let all = children + facts.used_cpus();
                (all > 0.0).then(|| share(children / all))
            }
            Self::BriefProcesses => counted(brief_processes(facts), facts.elapsed()),
            Self::IdleCpus => Some(share(facts.idle_cpus()?)),
            Self::DescriptorsFull => Some(
                fullest(facts)
                    .map_or(Estimate::exactly(0.0), |full| sampled(full.share, full.reads)),
            ),
            Self::Observer => share_of(&observation.observer),
            _ => self.of_delays(facts),
        }
    }
}
