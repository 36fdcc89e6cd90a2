// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts the gain from removing a cause, in percent of the current rate, with an interval that
//! includes model error. Predictions are capped by the offered load, if known, by the available CPU
//! time, and by the requested line rate.

mod caps;
mod connections;
mod sizes;
mod time_asleep;

use self::caps::{crowd, fair_for_more, idle_for_all, line_cap, offered_cap};
pub(super) use self::caps::{headroom, receives_all, wire_rate};
use self::connections::of_connections;
use self::sizes::{larger_calls, larger_segments};
use self::time_asleep::{not_stopped, wait_removed};
use super::facts::{Facts, Subject};
use super::measure::{Measure, share_of_strangers};
use super::requests;
use super::roles::{is_accepted, on_servers};
use super::waits::Wait;
use linerate_record::stats::Estimate;
use linerate_record::why::{Gain, SocketKind, TcpCounts, ThreadState};
use linerate_record::{Figure, Tier};

/// How to predict a gain.
#[derive(Clone, Copy, Debug)]
pub enum GainModel {
    /// The thread regains the time that it spent in this state. The gain is relative to its time on
    /// a CPU.
    TimeBack(ThreadState),
    /// The thread regains the time spent waiting and is preempted less often, which at best halves
    /// the cost per packet. At worst, its peers are the next limit.
    CpuToItself,
    /// The peers move to idle CPUs, leaving their time on this CPU to the thread; at worst, they
    /// become the next limit at once.
    PeersMove,
    /// The control group gets all the CPU time that its threads demand.
    CpusWanted,
    /// Lost packets are delivered, as far as the thread has time for them.
    LossRecovered(Measure),
    /// Like [`Self::LossRecovered`], but there may be no gain, because the loss may be intended.
    LossPerhapsRecovered(Measure),
    /// This fraction of CPU time, multiplied by a factor (lowest, most likely, highest), is no
    /// longer spent. The gain follows from Amdahl's law. Factors above 1 include side effects:
    /// zeroing and TLB shootdowns of faulting pages, allocation of copy buffers, one wakeup per
    /// delayed packet.
    CostRemoved(Measure, [f64; 3]),
    /// The rate rises until the thread's CPU is the bottleneck: its idle time is used, at half to
    /// twice the current cost per packet.
    UntilCpuIsFull,
    /// Like [`Self::UntilCpuIsFull`] for TCP, which sends as fast as it is allowed to. Other
    /// senders may have nothing more to send than the packets that the limiter drops.
    LimitRaised,
    /// Like [`Self::UntilCpuIsFull`], but only as an upper bound, since the next limit may be
    /// close.
    UpToFullCpu,
    /// Like [`Self::UpToFullCpu`], for a program that keeps more requests in flight at its peer.
    /// The rate rises at most until the peer's CPU is full, if the peer is on this machine.
    MoreInFlight,
    /// Like [`Self::UntilCpuIsFull`], for a receiver whose window was smaller than a segment: with
    /// larger segments, the cost per byte falls too.
    WindowOpened,
    /// Larger calls save most of the per-call kernel time.
    LargerCalls,
    /// The program sends during the time in which it was stalled.
    StallRemoved(Measure),
    /// The thread works during the time that it now sleeps in waits of this kind. If it also waits
    /// for input, it may gain nothing. The same calls may also cause its kernel time and its waits
    /// for a CPU: half of these in the most likely case, and at most all of them, at half the cost
    /// per packet.
    WaitRemoved(Wait),
    /// The program gets back the time in which it is stopped, at 0.5 to 1.5 times the current cost
    /// per packet. If it also waits for input, it may gain nothing.
    NotStopped,
    /// Idle CPUs take over part of the work, less the overhead of splitting it.
    MoreCpus,
    /// The threads that wait for a lock work instead. At worst, there is no gain, because their
    /// critical sections cannot overlap.
    LockReleased,
    /// Each client keeps one request in flight, as far as the thread and the servers have headroom
    /// (Little's law).
    MoreOnTheWay,
    /// A gain measured elsewhere, in percent (low, likely and high), with the source.
    AsMeasured([f64; 3], &'static str),
    /// Like the given model, for the part of the connections with at least this value of the
    /// measure.
    OfConnections(&'static Self, Measure, f64),
    /// Like the given model, which covers only part of the effect: the high end is unknown. The low
    /// end is limited by the idle time of the CPUs, as if everything on the machine scaled.
    AtLeast(&'static Self),
    /// Not predicted, for the given reason.
    Unknown(&'static str),
}

/// Maximum prediction in percent. Beyond it, an unknown bottleneck is certain to limit the rate.
const CEILING_PERCENT: f64 = 10_000.0;

/// Returns the gain in percent if a lost fraction `share` of all packets is delivered after all.
fn returned(share: f64) -> f64 {
    100.0 * share.clamp(0.0, 0.99) / (1.0 - share.clamp(0.0, 0.99))
}

fn mapped(estimate: Estimate, of: impl Fn(f64) -> f64) -> Estimate {
    let Estimate { value, low, high, .. } = estimate;
    Estimate { value: of(value), low: of(low), high: of(high), ..estimate }
}

impl GainModel {
    /// Returns in a few words how the gain is predicted.
    fn method(self) -> &'static str {
        match self {
            Self::TimeBack(_) => {
                "time recovered / CPU time used, capped by packet loss and idle CPUs"
            }
            Self::CpuToItself => {
                "time recovered / CPU time used, assuming 0.5 to 1 times the current cost per \
                 packet"
            }
            Self::PeersMove => "CPU time of the peers / CPU time of the thread, on this CPU",
            Self::CpusWanted => "CPU demand / CPUs used",
            Self::LossRecovered(_) | Self::LossPerhapsRecovered(_) => {
                "packets lost / packets received, capped by idle CPU time"
            }
            Self::CostRemoved(..) => "fraction of CPU time saved (Amdahl's law)",
            Self::UntilCpuIsFull => {
                "headroom until the thread is 100 % busy, assuming 0.5 to 2 times the current cost \
                 per packet"
            }
            Self::LimitRaised => {
                "headroom until the thread is 100 % busy, assuming 0.5 to 2 times the current cost \
                 per packet; without TCP, the lower bound is the number of packets that the \
                 limiter dropped"
            }
            Self::UpToFullCpu => "upper bound: headroom until the thread is 100 % busy",
            Self::MoreInFlight => {
                "upper bound: headroom until the thread, or the peer if it is on this machine, is \
                 100 % busy"
            }
            Self::WindowOpened => {
                "headroom until the thread is 100 % busy, assuming 0.5 to 2 times the current cost \
                 per packet; the upper bound assumes segments of up to 64 KiB"
            }
            Self::LargerCalls => {
                "kernel time saved with 16 KiB per call; the upper bound assumes a rate \
                 proportional to the call size"
            }
            Self::StallRemoved(_) => "time stalled / time not stalled",
            Self::WaitRemoved(_) => "time asleep in this wait / all other time",
            Self::NotStopped => {
                "time stopped / all other time, ± 50 %; the lower bound is 0 if the thread also \
                 waits for input"
            }
            Self::MoreCpus => {
                "idle CPUs / CPUs used; the range is from using few or none of the idle CPUs to \
                 using all of them, without splitting a flow"
            }
            Self::LockReleased => {
                "upper bound: threads waiting for the lock / threads not waiting for it"
            }
            Self::MoreOnTheWay => {
                "waiting clients / server connections; upper bound: client connections / server \
                 connections (Little's law)"
            }
            Self::AsMeasured(_, source) => source,
            Self::AtLeast(model) | Self::OfConnections(model, ..) => model.method(),
            Self::Unknown(_) => "not predicted",
        }
    }

    /// Predicts the gain for a subject, in percent; `None` if the required data was not read.
    pub fn estimate<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        let gain = self.uncapped(facts, subject)?;
        let offered = offered_cap(facts).unwrap_or(f64::INFINITY);
        let line = line_cap(facts).unwrap_or(f64::INFINITY).min(offered);
        let cap = line.min(CEILING_PERCENT);
        // Beyond the cap, the upper end is unknown.
        let is_open = gain.high >= CEILING_PERCENT && line > CEILING_PERCENT;
        let capped = mapped(gain, |percent| percent.max(0.0).min(cap));
        Some(Estimate { high: if is_open { f64::INFINITY } else { capped.high }, ..capped })
    }

    /// Returns whether the requested line rate caps the gain for a subject.
    pub(super) fn is_capped_by_line<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> bool {
        let line = line_cap(facts).unwrap_or(f64::INFINITY);
        let is_offered = offered_cap(facts).is_none_or(|offered| line <= offered);
        is_offered && self.uncapped(facts, subject).is_some_and(|gain| gain.value >= line)
    }

    /// Returns whether the offered load caps the gain, because every lost packet would be received;
    /// `None` if the losses do not show how much is offered, or if the intervals are too wide to
    /// tell.
    pub(super) fn reaches_load<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<bool> {
        let (lost, able) = match self {
            Self::LossRecovered(loss) | Self::LossPerhapsRecovered(loss) => {
                (loss.of(facts, subject)?, room(facts, subject)?)
            }
            Self::TimeBack(state) if facts.ring_loss().is_some() => {
                let thread = facts.thread(subject)?;
                let back = Facts::time(thread, |one| one == state)?;
                let on_cpu = Facts::on_cpu(thread).filter(|on_cpu| on_cpu.value > 0.0)?;
                (facts.receive_loss()?, over_run(back, on_cpu))
            }
            _ => return None,
        };
        let lost = mapped(lost, returned);
        match () {
            () if lost.high <= able.low => Some(true),
            () if lost.low > able.high => Some(false),
            () => None,
        }
    }

    /// Predicts the gain as if the offered load and the line rate were unlimited, in percent.
    pub(super) fn uncapped<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        match self {
            Self::TimeBack(state) => time_back(facts, subject, state),
            Self::CpuToItself => cpu_to_itself(facts, subject),
            Self::PeersMove => {
                /// Factor for the high end of the gain: packets that no longer wait are processed
                /// in larger batches.
                const MOST: f64 = 2.0;
                let thread = facts.thread(subject)?;
                let own = Facts::on_cpu(thread).filter(|own| own.value > 0.0)?;
                let peers = Measure::PeersHere.of(facts, subject)?;
                let value = 100.0 * peers.value / own.value;
                // Either end of the connection may be limited by the other, and waking a thread on
                // another CPU may cost as much as is gained.
                Some(Estimate { value, low: 0.0, high: MOST * value, ..peers })
            }
            Self::CpusWanted => cpus_wanted(facts, subject),
            Self::LossRecovered(loss) => {
                let lost = mapped(loss.of(facts, subject)?, returned);
                let room = room(facts, subject).map_or(f64::INFINITY, |room| room.high);
                // Allows for rates that differ by 10 % between runs.
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
            Self::LimitRaised => limit_raised(facts, subject),
            Self::UpToFullCpu => Some(Estimate { low: 0.0, ..room(facts, subject)? }),
            Self::MoreInFlight => more_in_flight(facts, subject),
            Self::WindowOpened => {
                let room = room(facts, subject)?;
                let high = 100.0 * ((1.0 + room.high / 100.0) * larger_segments(facts) - 1.0);
                Some(Estimate { high: high.max(room.high), ..room })
            }
            Self::LargerCalls => larger_calls(facts, subject),
            Self::StallRemoved(stall) => {
                let stall = stall.of(facts, subject)?;
                let gain = mapped(stall, returned);
                let room = room(facts, subject).map_or(CEILING_PERCENT, |room| room.high);
                let high = 100.0 * ((1.0 + room / 100.0) * larger_segments(facts) - 1.0);
                Some(Estimate { low: 0.3 * gain.low, high: high.max(gain.value), ..gain })
            }
            Self::WaitRemoved(wait) => wait_removed(facts, subject, wait),
            Self::NotStopped => not_stopped(facts, subject),
            Self::MoreCpus => more_cpus(facts, subject),
            Self::LockReleased => lock_released(facts, subject),
            Self::MoreOnTheWay => more_on_the_way(facts, subject),
            Self::AsMeasured([low, value, high], _) => {
                Some(Estimate { value, low, high, ..Estimate::exactly(value) })
            }
            Self::OfConnections(model, measure, least) => {
                let gain = model.uncapped(facts, subject)?;
                Some(of_connections(facts, subject, gain, (measure, least)))
            }
            Self::AtLeast(model) => {
                let gain = model.uncapped(facts, subject)?;
                let low = gain.low.min(idle_for_all(facts));
                Some(Estimate { low, high: CEILING_PERCENT, ..gain })
            }
            Self::Unknown(_) => None,
        }
    }

    /// Returns the gain in the form stored in a finding.
    pub fn gain<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Gain {
        let method = self.method();
        let offered = offered_cap(facts).filter(|offered| {
            self.uncapped(facts, subject).is_some_and(|gain| gain.high > *offered)
        });
        let percent = match (self.estimate(facts, subject), self) {
            (Some(gain), _) if offered.is_some() => {
                let method = format!("{method}; capped by the number of packets lost");
                Figure::number("percent", gain, Tier::Model, &method)
            }
            (Some(gain), _) => Figure::number("percent", gain, Tier::Model, method),
            (None, Self::Unknown(why)) => Figure::absent("percent", Tier::Model, method, why),
            (None, _) => Figure::absent(
                "percent",
                Tier::Model,
                method,
                "an input to the model was not measured",
            ),
        };
        Gain { percent, then_limited_by: None }
    }
}

fn cpu_to_itself<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    /// Factor for the low end of the gain: moving may slow a peer down.
    const SURE: f64 = 0.2;
    let gain = time_back(facts, subject, ThreadState::Waiting)?;
    let high = 100.0 * (2.0 * (1.0 + gain.high / 100.0) - 1.0);
    Some(Estimate { low: SURE * gain.low, high, ..gain })
}

/// Predicts the gain if idle CPUs take over part of the work.
fn more_cpus<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    // On a receiving CPU, all work counts, no matter which thread it is for.
    let (used, least, flows) = match subject {
        Subject::Cpu(cpu) => (1.0 - cpu.idle, 0.0, f64::INFINITY),
        _ => {
            let flows = Measure::Flows.of(facts, subject);
            let most = flows.map_or(f64::INFINITY, |flows| flows.high);
            (facts.used_cpus(), 0.1, most)
        }
    };
    let high = 100.0 * facts.idle_cpus()? / used.max(0.01);
    // The largest flow stays on one thread.
    let [value, low, high] = [0.7, least, 1.0].map(|part| (part * high).min(100.0 * (flows - 1.0)));
    Some(Estimate { value, low, high, ..Estimate::exactly(0.0) })
}

/// Predicts the gain from raising a rate limit.
fn limit_raised<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    let room = room(facts, subject)?;
    let sends = |tcp: &TcpCounts| tcp.bytes_acked > tcp.bytes_received;
    let mut senders = facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let dropped = match subject {
        Subject::Qdisc(_, qdisc) => qdisc.drops as f64 / qdisc.packets.max(1) as f64,
        _ => 0.0,
    };
    if senders.any(sends) {
        return Some(room);
    }
    let known = (100.0 * dropped).min(room.high);
    Some(Estimate { value: known, low: known.min(room.low), ..room })
}

/// Predicts the gain from releasing a lock that one thread at a time holds.
fn lock_released<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    let room = room(facts, subject).map_or(f64::INFINITY, |room| room.high);
    let room = room.min(fair_for_more(facts, facts.used_cpus()));
    let value = (100.0 * Measure::LockQueue.of(facts, subject)?.value).min(room);
    Some(Estimate { value, low: 0.0, high: 1.2 * value, ..Estimate::exactly(value) })
}

/// Predicts the gain from keeping one request in flight per client. Clients that often have no
/// request to send gain less.
fn more_on_the_way<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    /// Factor for the low end of the gain: the servers may be the next limit.
    const OF_CLIENTS: f64 = 0.2;
    let most = Measure::ClientsPerServer.of(facts, subject)?.value - 1.0;
    let more = requests::queued_per_server(facts).map_or(most, |queued| queued.min(most));
    let room = room(facts, subject).map_or(f64::INFINITY, |room| room.high);
    let [value, most] = [more, most].map(|gain| (100.0 * gain).min(room));
    let low = OF_CLIENTS * value;
    Some(Estimate { value, low, high: 1.2 * most, ..Estimate::exactly(value) })
}

/// Predicts the gain from keeping more requests in flight at the server that a thread waits for. A
/// server that handles one request at a time gains nothing.
fn more_in_flight<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    /// Minimum CPU time of a peer that sampled accounting can distinguish from zero, in CPUs.
    const LEAST: f64 = 0.02;
    /// Factor for the high end: with more requests at hand, the peer may work in larger batches.
    const BATCHES: f64 = 2.0;
    let room = room(facts, subject)?;
    let opened = facts.connections().filter(|socket| !is_accepted(facts, socket));
    let unix = facts.observation.sockets.iter().filter(|one| one.kind == SocketKind::Unix);
    let opened: Vec<u32> = opened.chain(unix).filter_map(|socket| socket.peer_pid).collect();
    let servers = facts.observation.peers.iter().filter(|peer| opened.contains(&peer.pid));
    let used = servers.map(|server| server.cpus).fold(0.0, f64::max);
    let most = clients_waiting(facts).unwrap_or(f64::INFINITY);
    let room = mapped(room, |gain| gain.min(most));
    if used < LEAST {
        return Some(Estimate { low: 0.0, ..room });
    }
    // The number of CPUs that the server can use is unknown: most likely one, at most all.
    let with = |cpus: f64| 100.0 * (cpus.max(used) / used - 1.0);
    let value = room.value.min(with(1.0));
    let high = room.high.min(with(BATCHES * facts.cpus() as f64));
    Some(Estimate { value, low: 0.0, high: high.max(value), ..room })
}

/// Returns the gain in percent at which all clients' requests are in flight at the server, assuming
/// that each client sends one at a time, as most do. `None` for a program without clients.
fn clients_waiting(facts: &Facts<'_>) -> Option<f64> {
    /// Factor that allows for some clients that send the next request before the reply.
    const ERROR: f64 = 1.2;
    let clients = facts.connections().filter(|socket| is_accepted(facts, socket)).count();
    let threads = facts.observation.threads.iter();
    let in_flight: f64 = threads.map(|thread| on_servers(facts, thread)).sum();
    (clients > 0).then(|| 100.0 * (ERROR * clients as f64 / in_flight.max(1.0) - 1.0).max(0.0))
}

/// Returns `share` as a percentage of `on_cpu`. Both are times, given as fractions of the elapsed
/// time.
fn percent_of(share: f64, on_cpu: f64) -> f64 {
    100.0 * share.max(0.0) / on_cpu.max(0.005)
}

/// Like [`percent_of`], but for estimates with intervals.
fn over_run(share: Estimate, on_cpu: Estimate) -> Estimate {
    Estimate {
        value: percent_of(share.value, on_cpu.value),
        low: percent_of(share.low, on_cpu.high),
        high: percent_of(share.high, on_cpu.low),
        ..share
    }
}

/// Predicts the gain if the time spent in `state` becomes available. Losses, if they can be read,
/// bound the gain. A thread that sleeps has idle time anyway and may gain nothing.
fn time_back<'a>(facts: &Facts<'a>, subject: Subject<'a>, state: ThreadState) -> Option<Estimate> {
    /// Relative error of the number of lost packets, as counters miss some packets and count others
    /// twice.
    const LOSS_ERROR: f64 = 0.1;
    /// Factor for the high end of the available idle time: other threads may use less CPU time than
    /// now.
    const MORE_FREE: f64 = 2.0;
    let thread = facts.thread(subject)?;
    let on_cpu = Facts::on_cpu(thread).filter(|on_cpu| on_cpu.value > 0.0)?;
    let gain = over_run(Facts::time(thread, |one| one == state)?, on_cpu);
    if facts.ring_loss().is_some() {
        let lost = mapped(facts.receive_loss()?, returned);
        let cap = lost.high * (1.0 + LOSS_ERROR);
        let value = gain.value.min(lost.value);
        return Some(Estimate { value, low: 0.5 * value, high: cap.max(value), ..gain });
    }
    let asleep = Facts::time(thread, |one| one == ThreadState::Asleep);
    let sleeps = asleep.is_some_and(|asleep| asleep.value > 0.05);
    // Other threads can move elsewhere as far as CPUs are idle. Beyond that, they would have to do
    // less work, and the program's own peers may be among them.
    let idle = facts.idle_cpus().filter(|_| state == ThreadState::Waiting);
    let crowd = crowd(facts, thread).max(on_cpu.value);
    let free = idle.map_or(f64::INFINITY, |idle| percent_of(idle, crowd));
    let at_most =
        |gain: f64, free: f64| gain.min(free.max(gain * share_of_strangers(facts, thread)));
    let value = at_most(gain.value, free);
    let low = if sleeps { 0.0 } else { gain.low.min(value) };
    // Without tracepoints, the threads that ran instead are unknown, and all of them may have been
    // unrelated to the program.
    let high = match thread.ran_instead.is_empty() {
        true => gain.high,
        false => at_most(gain.high, MORE_FREE * free).max(value),
    };
    Some(Estimate { value, low, high, ..gain })
}

/// Predicts the gain from lifting a quota: the CPU demand of the group's threads relative to the
/// CPU time they get.
fn cpus_wanted<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    /// Factors for the low and high end of the gain. Throttled threads also wait for each other, so
    /// part of the demand is not work.
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
    // If the threads' throttled time is unknown, the number of throttled periods bounds it: the
    // group was stopped for at most the whole of each period.
    let stopped = quota.throttled_periods as f64 / quota.periods.max(1) as f64;
    let at_most = if has_times { wanted } else { used / (1.0 - stopped).max(0.05) };
    let wanted = wanted.max(at_most).min(cpus as f64);
    let value = (100.0 * (wanted / used.max(0.005) - 1.0)).max(0.0);
    let [low, high] = OF_WANTED.map(|share| share * value);
    Some(Estimate { value, low, high, ..Estimate::exactly(value) })
}

/// Returns the thread's headroom in percent. At a higher rate, the cost per packet may halve
/// (larger batches) or double (caches, locks). `None` if it is unknown how busy the thread is.
pub(super) fn room<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    /// Minimum share that sampled accounting can distinguish from zero.
    const LEAST_SHARE: f64 = 0.01;
    let thread = facts.thread(subject)?;
    let busy = facts.busy(thread)?;
    let more = |share: f64| 100.0 * (1.0 / share.max(LEAST_SHARE) - 1.0);
    let (low, at_most) = (more((2.0 * busy.high).min(1.0)), 0.5 * busy.low);
    let high = if at_most < LEAST_SHARE { f64::INFINITY } else { more(at_most) };
    let value = more(busy.value.min(1.0));
    Some(Estimate { value, low: low.min(value), high: high.max(value), ..busy })
}
