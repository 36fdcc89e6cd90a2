// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicted gain from removing a cause, in percent of the current rate, with an interval that
//! includes the model error. Every prediction is capped by the offered load, if known, by the
//! available CPU time, and by the requested line rate.

use super::facts::{Facts, Subject};
use super::measure::Measure;
use super::waits::{self, Wait};
use linerate_record::stats::Estimate;
use linerate_record::why::{Gain, ThreadState};
use linerate_record::{Figure, Tier};

/// Formula for a gain.
#[derive(Clone, Copy, Debug)]
pub enum GainModel {
    /// The thread recovers the time it spends in this state, relative to its time on a CPU.
    TimeBack(ThreadState),
    /// The thread recovers its waiting time and is preempted less often, so at best a packet costs
    /// half as much. At worst, its peers are the next limit.
    CpuToItself,
    /// The peers move to idle CPUs, and the thread gets their time on its CPU; at worst, they are
    /// the next limit at once.
    PeersMove,
    /// The group gets the CPU time that its threads demand.
    CpusWanted,
    /// Lost packets are delivered, as far as the thread has time for them.
    LossRecovered(Measure),
    /// The same, but the loss may be intended: perhaps nothing is gained.
    LossPerhapsRecovered(Measure),
    /// This share of CPU time is saved (Amdahl), multiplied by a factor: lowest, most likely,
    /// highest. Factors above 1 include side effects: zeroing and TLB shootdowns of faulting pages,
    /// allocation of copy buffers, one wakeup per delayed packet.
    CostRemoved(Measure, [f64; 3]),
    /// The thread becomes the limit: its idle time is used, at half to twice the cost per packet.
    UntilCpuIsFull,
    /// The same, but only as an upper bound: the next limit may be close.
    UpToFullCpu,
    /// Larger calls save most of the kernel time per call.
    LargerCalls,
    /// The time for which sending was stalled is used for sending.
    StallRemoved(Measure),
    /// Time asleep in such waits is saved, as far as the work depends on them: all of it if the
    /// thread hardly ever waits for input, perhaps none otherwise. Kernel time and waits for a CPU
    /// may belong to the same calls.
    WaitRemoved(Wait),
    /// Idle CPUs take over part of the work, less the overhead of splitting it.
    MoreCpus,
    /// One request in flight per client, as far as the thread and the servers have time (Little's
    /// law).
    MoreOnTheWay,
    /// Gain measured elsewhere, in percent: low, likely, high; and its source.
    AsMeasured([f64; 3], &'static str),
    /// Not predicted, for this reason.
    Unknown(&'static str),
}

/// Maximum prediction in percent: beyond this, something unknown limits the rate.
const CEILING_PERCENT: f64 = 10_000.0;

/// Percent gained by recovering a lost share of the total.
fn returned(share: f64) -> f64 {
    100.0 * share.clamp(0.0, 0.99) / (1.0 - share.clamp(0.0, 0.99))
}

fn mapped(estimate: Estimate, of: impl Fn(f64) -> f64) -> Estimate {
    let Estimate { value, low, high, .. } = estimate;
    Estimate { value: of(value), low: of(low), high: of(high), ..estimate }
}

impl GainModel {
    /// Method of the figure, in a few words.
    fn method(self) -> &'static str {
        match self {
            Self::TimeBack(_) => {
                "time recovered over CPU time used, capped by packet loss and idle CPUs"
            }
            Self::CpuToItself => {
                "time recovered over CPU time used, at 0.5 to 1 times the cost per packet"
            }
            Self::PeersMove => "its peers' CPU time on the same CPU over its own",
            Self::CpusWanted => "CPU demand over CPUs used",
            Self::LossRecovered(_) | Self::LossPerhapsRecovered(_) => {
                "packets lost over packets received, limited by idle CPU time"
            }
            Self::CostRemoved(..) => "share of the CPU time saved (Amdahl)",
            Self::UntilCpuIsFull => {
                "until the thread is 100 % busy, at 0.5 to 2 times the cost per packet"
            }
            Self::UpToFullCpu => "upper bound: until the thread is 100 % busy",
            Self::LargerCalls => {
                "kernel time saved with 16 KiB per call; upper bound: all calls saved"
            }
            Self::StallRemoved(_) => "stalled time over the rest of the time",
            Self::WaitRemoved(_) => "time asleep waiting for it over the rest of the time",
            Self::MoreCpus => "idle CPUs over CPUs used, assuming none to all of them are usable",
            Self::MoreOnTheWay => "client connections over server connections (Little's law)",
            Self::AsMeasured(_, source) => source,
            Self::Unknown(_) => "not predicted",
        }
    }

    /// Gain for a subject in percent; `None` if the required data were not read.
    pub fn estimate<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        let gain = self.uncapped(facts, subject)?;
        let line = line_cap(facts).unwrap_or(f64::INFINITY);
        let cap = line.min(CEILING_PERCENT);
        // Beyond the cap, the upper end is unknown.
        let is_open = gain.high >= CEILING_PERCENT && line > CEILING_PERCENT;
        let capped = mapped(gain, |percent| percent.max(0.0).min(cap));
        Some(Estimate { high: if is_open { f64::INFINITY } else { capped.high }, ..capped })
    }

    fn uncapped<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        match self {
            Self::TimeBack(state) => time_back(facts, subject, state),
            Self::CpuToItself => {
                /// Part of the gain that is certain: a peer may become slower when it moves.
                const SURE: f64 = 0.2;
                let gain = time_back(facts, subject, ThreadState::Waiting)?;
                let high = 100.0 * (2.0 * (1.0 + gain.high / 100.0) - 1.0);
                Some(Estimate { low: SURE * gain.low, high, ..gain })
            }
            Self::PeersMove => {
                /// Each end becomes the limit of the other.
                const LEAST: f64 = 0.1;
                /// Packets that no longer wait are handled in larger batches.
                const MOST: f64 = 2.0;
                let thread = facts.thread(subject)?;
                let own = Facts::on_cpu(thread).filter(|own| own.value > 0.0)?;
                let peers = Measure::PeersHere.of(facts, subject)?;
                let value = 100.0 * peers.value / own.value;
                Some(Estimate { value, low: LEAST * value, high: MOST * value, ..peers })
            }
            Self::CpusWanted => cpus_wanted(facts, subject),
            Self::LossRecovered(loss) => {
                let lost = mapped(loss.of(facts, subject)?, returned);
                let room = room(facts, subject).map_or(f64::INFINITY, |room| room.high);
                // The rates of two runs differ by a tenth.
                let (low, high) = (0.5 * lost.low, 1.2 * lost.high + 0.5);
                Some(Estimate { low, high, ..lost }).map(|gain| mapped(gain, |p| p.min(room)))
            }
            Self::LossPerhapsRecovered(loss) => {
                let gain = Self::LossRecovered(loss).uncapped(facts, subject)?;
                Some(Estimate { low: 0.0, ..gain })
            }
            Self::CostRemoved(cost, [low, likely, high]) => {
                let cost = cost.of(facts, subject)?;
                let value = returned(likely * cost.value);
                let (low, high) = (returned(low * cost.low), returned(high * cost.high));
                Some(Estimate { value, low: low.min(value), high: high.max(value), ..cost })
            }
            Self::UntilCpuIsFull => room(facts, subject),
            Self::UpToFullCpu => Some(Estimate { low: 0.0, ..room(facts, subject)? }),
            Self::LargerCalls => larger_calls(facts, subject),
            Self::StallRemoved(stall) => {
                let stall = stall.of(facts, subject)?;
                let gain = mapped(stall, returned);
                let room = room(facts, subject).map_or(CEILING_PERCENT, |room| room.high);
                let high = 100.0 * ((1.0 + room / 100.0) * larger_segments(facts) - 1.0);
                Some(Estimate { low: 0.3 * gain.low, high: high.max(gain.value), ..gain })
            }
            Self::WaitRemoved(wait) => wait_removed(facts, subject, wait),
            Self::MoreCpus => {
                // For a receiving CPU: all of its work, whichever thread it is for.
                let (used, least) = match subject {
                    Subject::Cpu(cpu) => (1.0 - cpu.idle, 0.0),
                    _ => (facts.used_cpus(), 0.1),
                };
                let high = 100.0 * facts.idle_cpus()? / used.max(0.01);
                let value = 0.7 * high;
                Some(Estimate { value, low: least * high, high, ..Estimate::exactly(0.0) })
            }
            Self::MoreOnTheWay => {
                /// The servers behind it may be the next limit.
                const OF_CLIENTS: f64 = 0.2;
                let more = Measure::ClientsPerServer.of(facts, subject)?.value - 1.0;
                let room = room(facts, subject).map_or(f64::INFINITY, |room| room.high);
                let value = (100.0 * more).min(room);
                let low = OF_CLIENTS * value;
                Some(Estimate { value, low, high: 1.2 * value, ..Estimate::exactly(value) })
            }
            Self::AsMeasured([low, value, high], _) => {
                Some(Estimate { value, low, high, ..Estimate::exactly(value) })
            }
            Self::Unknown(_) => None,
        }
    }

    /// The gain as it is recorded.
    pub fn gain<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Gain {
        let method = self.method();
        let percent = match (self.estimate(facts, subject), self) {
            (Some(gain), _) => Figure::number("percent", gain, Tier::Model, method),
            (None, Self::Unknown(why)) => Figure::absent("percent", Tier::Model, method, why),
            (None, _) => Figure::absent(
                "percent",
                Tier::Model,
                method,
                "its share of the time was not \
                                                                measured",
            ),
        };
        Gain { percent, then_limited_by: None }
    }
}

/// Kernel time saved by larger calls.
fn larger_calls<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    /// Bytes per call after the change.
    const LARGE: f64 = 16_384.0;
    /// Share of kernel time saved: the per-byte cost remains. The upper bound is all of it: iperf3
    /// was 17 to 76 times as fast with 128 KiB per write as with 64 to 256 bytes.
    const SAVED: [f64; 2] = [0.3, 0.8];
    let kernel = Measure::KernelShare.of(facts, subject)?;
    let [low, likely] = SAVED;
    let fewer = LARGE / Measure::BytesPerCall.of(facts, subject)?.low.max(1.0);
    let value = returned(likely * kernel.value);
    let high = (100.0 * (fewer - 1.0)).max(value);
    Some(Estimate { value, low: returned(low * kernel.low), high, ..kernel })
}

fn wait_removed<'a>(facts: &Facts<'a>, subject: Subject<'a>, wait: Wait) -> Option<Estimate> {
    /// Share of time waiting for input below which a thread always has work, within the error of
    /// the kernel's accounting.
    const HARDLY: f64 = 0.1;
    let thread = facts.thread(subject)?;
    let asleep = Measure::AsleepIn(wait).of(facts, subject)?;
    let gain = mapped(asleep, returned);
    let is_limit = waits::time_for_work(thread)? <= HARDLY;
    // While one request waits, others may be written together.
    let low = if is_limit { 0.3 * gain.low } else { 0.0 };
    let of_calls = |state| matches!(state, ThreadState::Kernel | ThreadState::Waiting);
    let with_calls = returned(asleep.high + thread.share_of(of_calls));
    Some(Estimate { low, high: with_calls.max(gain.value), ..gain })
}

/// Ratio of the largest segment size to the current one: the cost per byte falls by this factor.
fn larger_segments(facts: &Facts<'_>) -> f64 {
    /// Maximum segment size with segmentation offload.
    const LARGEST: f64 = 65_536.0;
    let present = Measure::BytesPerTransmit.of(facts, Subject::Program);
    present.map_or(1.0, |bytes| (LARGEST / bytes.value.max(1.0)).clamp(1.0, 32.0))
}

/// Percent until the requested line rate is reached.
fn line_cap(facts: &Facts<'_>) -> Option<f64> {
    let line = facts.observation.watched.line_bits_per_s?;
    let bytes = facts.observation.packets.as_ref()?.bytes?;
    let rate = 8.0 * bytes as f64 / facts.elapsed();
    (rate > 0.0).then(|| (100.0 * (line / rate - 1.0)).max(0.0))
}

/// Gain from recovering the time in a state. If losses can be read, they bound the gain; a thread
/// that sleeps already has time left, and may gain nothing.
fn time_back<'a>(facts: &Facts<'a>, subject: Subject<'a>, state: ThreadState) -> Option<Estimate> {
    /// Relative error of the number of lost packets: counters miss some packets and count others
    /// twice.
    const LOSS_ERROR: f64 = 0.1;
    let thread = facts.thread(subject)?;
    let on_cpu = Facts::on_cpu(thread).filter(|on_cpu| on_cpu.value > 0.0)?;
    let back = Facts::time(thread, |one| one == state)?;
    let ratio = |back: f64, on_cpu: f64| 100.0 * back.max(0.0) / on_cpu.max(0.005);
    let gain = Estimate {
        value: ratio(back.value, on_cpu.value),
        low: ratio(back.low, on_cpu.high),
        high: ratio(back.high, on_cpu.low),
        ..back
    };
    if facts.ring_loss().is_some() {
        let lost = mapped(facts.receive_loss()?, returned);
        let cap = lost.high * (1.0 + LOSS_ERROR);
        let value = gain.value.min(lost.value);
        return Some(Estimate { value, low: 0.5 * value, high: cap.max(value), ..gain });
    }
    let asleep = Facts::time(thread, |one| one == ThreadState::Asleep);
    let sleeps = asleep.is_some_and(|asleep| asleep.value > 0.05);
    // Other threads can move elsewhere as far as CPUs are idle; beyond that, they would have to do
    // less, and the program's own peers may be among them.
    let idle = facts.idle_cpus().filter(|_| state == ThreadState::Waiting);
    let free = idle.map_or(f64::INFINITY, |idle| ratio(idle, on_cpu.value));
    let value = gain.value.min(free);
    let low = if sleeps { 0.0 } else { gain.low.min(value) };
    Some(Estimate { value, low, ..gain })
}

/// CPU demand of the threads in a group relative to the CPU time that they get.
fn cpus_wanted<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    /// Factors applied to the demand: throttled threads also wait for each other, so part of the
    /// demand is not work.
    const OF_WANTED: [f64; 2] = [0.1, 1.2];
    let Subject::Quota(quota) = subject else { return None };
    let threads = facts.observation.threads.iter().filter(|t| quota.pids.contains(&t.pid));
    let (mut used, mut wanted, mut cpus) = (0.0, 0.0, 1);
    let mut has_times = false;
    for thread in threads {
        has_times |= thread.share(ThreadState::Throttled).and_then(Figure::estimate).is_some();
        used += thread.share_of(ThreadState::is_on_cpu);
        wanted += thread.demand();
        cpus = cpus.max(Facts::allowed(thread));
    }
    // How long the group was stopped or, failing that, how often: at most all of each throttled
    // period.
    let stopped = quota.throttled_periods as f64 / quota.periods.max(1) as f64;
    let at_most = if has_times { wanted } else { used / (1.0 - stopped).max(0.05) };
    let wanted = wanted.max(at_most).min(cpus as f64);
    let value = (100.0 * (wanted / used.max(0.005) - 1.0)).max(0.0);
    let [low, high] = OF_WANTED.map(|share| share * value);
    Some(Estimate { value, low, high, ..Estimate::exactly(value) })
}

/// Headroom of the thread in percent: at a higher rate, the cost per packet may halve (larger
/// batches) or double (caches, locks).
pub(super) fn room<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    /// Minimum share that sampled accounting distinguishes from zero.
    const LEAST_SHARE: f64 = 0.01;
    let thread = facts.thread(subject)?;
    let busy = facts.busy(thread)?;
    let more = |share: f64| 100.0 * (1.0 / share.max(LEAST_SHARE) - 1.0);
    let (low, at_most) = (more((2.0 * busy.high).min(1.0)), 0.5 * busy.low);
    let high = if at_most < LEAST_SHARE { f64::INFINITY } else { more(at_most) };
    let value = more(busy.value.min(1.0));
    Some(Estimate { value, low: low.min(value), high: high.max(value), ..busy })
}
