// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upper bounds on gains: the requested line rate, the offered load, and threads that share the
//! idle CPU time.

use super::super::facts::{Facts, Subject};
use super::super::losses::{before_ip, vanished};
use super::{returned, room};
use linerate_record::stats::Estimate;
use linerate_record::why::{PacketCount, ThreadActivity, ThreadState};

/// Returns the gain in percent at which the requested line rate is reached; `None` if none was
/// requested, or if the current rate is unknown.
pub(super) fn line_cap(facts: &Facts<'_>) -> Option<f64> {
    let line = facts.observation.watched.line_bits_per_s?;
    let rate = wire_rate(facts).filter(|rate| *rate > 0.0)?;
    Some((100.0 * (line / rate - 1.0)).max(0.0))
}

/// Returns the rate in bits per second at which the program's packets would fill an Ethernet link,
/// in the direction that carries more; `None` if their bytes were not counted.
pub(in super::super) fn wire_rate(facts: &Facts<'_>) -> Option<f64> {
    let count = facts.observation.packets.as_ref()?;
    let both = 8.0 * count.wire_bytes()? * count.packets as f64 / facts.elapsed();
    Some(both * busier_direction(facts, count))
}

/// Returns the fraction of the counted traffic, by bytes, that flows in the busier direction; 1 for
/// counters of a single direction.
fn busier_direction(facts: &Facts<'_>, count: &PacketCount) -> f64 {
    /// Bytes of a segment's headers on a link: TCP with timestamps, IPv4, and Ethernet with
    /// preamble, FCS and gap.
    const AROUND: f64 = 32.0 + 20.0 + 14.0 + 24.0;
    let part = |one: f64, other: f64| match one + other {
        all if all > 0.0 => one.max(other) / all,
        _ => 1.0,
    };
    if count.counter == PacketCount::CONNECTIONS {
        let tcps = || facts.connections().filter_map(|socket| socket.tcp.as_ref());
        let on_link = |bytes: u64, segments: u64| bytes as f64 + AROUND * segments as f64;
        let received = tcps().map(|tcp| on_link(tcp.bytes_received, tcp.segments_in)).sum();
        let sent = tcps().map(|tcp| on_link(tcp.bytes_acked, tcp.segments_out)).sum();
        return part(received, sent);
    }
    let tunnel = count.counter.strip_prefix("packets through ");
    let tunnel = facts.observation.interfaces.iter().find(|one| Some(one.name.as_str()) == tunnel);
    tunnel.map_or(1.0, |one| part(one.rx_bytes as f64, one.tx_bytes as f64))
}

/// Returns the gain in percent at which a receiver of datagrams or frames receives everything that
/// is sent to it; `None` if the offered load is unknown.
pub(super) fn offered_cap(facts: &Facts<'_>) -> Option<f64> {
    /// Minimum fraction of packets lost. Below it, the senders may be waiting for replies.
    const LOST: f64 = 0.05;
    /// Factor that allows for the error of the counts and for a load that differs between runs.
    const ERROR: f64 = 1.2;
    /// Fraction of a CPU's time in interrupts and softirqs below which the CPU can receive more
    /// packets: one half, minus the error of kernel accounting.
    const MOST: f64 = 0.4;
    let has_streams = facts.connections().next().is_some();
    let lost = facts.receive_loss().filter(|_| !has_streams)?;
    // If sender and receiver are on one machine, the sender also does receive processing, which
    // slows it down.
    let interrupts = facts.observation.cpus.iter().map(|cpu| cpu.interrupts).fold(0.0, f64::max);
    let receives_at_ease = interrupts < MOST;
    let gets_all = || facts.only_receives_datagrams() && reaches_it(facts) && receives_at_ease;
    match lost {
        // A receiver that sends no replies and misses nothing gets all that is sent to it.
        lost if lost.high <= 0.0 && gets_all() => Some(0.0),
        lost if lost.low >= LOST => Some(ERROR * returned(lost.high)),
        _ => None,
    }
}

/// Returns whether the program is a receiver of datagrams that sends no replies and gets all that
/// is sent to it, so that none of its waits costs any packet.
pub(in super::super) fn receives_all(facts: &Facts<'_>) -> bool {
    offered_cap(facts) == Some(0.0)
}

/// Returns whether hardly any packets are lost between the interface and the sockets.
fn reaches_it(facts: &Facts<'_>) -> bool {
    /// Maximum fraction of missing packets; such a small difference may be skew between counter
    /// reads.
    const SKEW: f64 = 0.01;
    let is_small = |lost: u64, received: u64| (lost as f64) < SKEW * received as f64;
    let interfaces = facts.observation.interfaces.iter();
    let filters = interfaces.flat_map(|one| &one.qdiscs).filter(|one| one.is_filter());
    let filtered = filters.map(|one| one.drops).sum();
    before_ip(facts).is_none()
        && vanished(facts).is_some_and(|vanished| {
            is_small(vanished.lost(), vanished.received) && is_small(filtered, vanished.received)
        })
        && facts.protocol("Conntrack.drop") == Some(0)
}

/// Returns the CPU time, in CPUs, of all the program's threads that wait for the same CPU as
/// `thread`. If these threads were spread out, they would share the idle time of the other CPUs.
pub(super) fn crowd(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    /// Minimum fraction of time waiting for a CPU; exceeds the error of kernel accounting.
    const WAITS: f64 = 0.1;
    let waits = |other: &&ThreadActivity| {
        other.ran_on.first() == thread.ran_on.first()
            && other.share_of(|state| state == ThreadState::Waiting) >= WAITS
    };
    let threads = facts.observation.threads.iter().filter(waits);
    threads.map(|other| other.share_of(ThreadState::is_on_cpu)).sum()
}

/// Minimum CPU utilization that kernel accounting can distinguish from zero, in CPUs (1.0 is one
/// fully busy CPU).
const LEAST: f64 = 0.01;

/// Returns the gain in percent at which all CPUs are busy, if `used` CPUs carry the present load.
pub(super) fn idle_for_more(facts: &Facts<'_>, used: f64) -> f64 {
    let idle = facts.idle_cpus().unwrap_or(f64::INFINITY);
    100.0 * idle / used.max(LEAST)
}

/// Returns the gain in percent at which all CPUs are busy, if everything on the machine scales with
/// the load: softirqs, and clients on this machine.
pub(super) fn idle_for_all(facts: &Facts<'_>) -> f64 {
    let busy: f64 = facts.observation.cpus.iter().map(|cpu| 1.0 - cpu.idle).sum();
    idle_for_more(facts, busy)
}

/// Like [`idle_for_more`], for a program whose threads sleep most of the time: the fair scheduler
/// gives them up to half of the CPUs even if other programs never sleep.
pub(super) fn fair_for_more(facts: &Facts<'_>, used: f64) -> f64 {
    const FAIR: f64 = 0.5;
    let rest = (FAIR * facts.cpus() as f64 - used).max(0.0);
    idle_for_more(facts, used).max(100.0 * rest / used.max(LEAST))
}

/// Returns the program's headroom in percent: the headroom of its busiest thread, limited by the
/// idle time of the CPUs. The low end assumes that everything on the machine scales with the load
/// (softirqs, clients); the high end, that only the program's threads do, at half the present cost
/// per packet.
pub(in super::super) fn headroom(facts: &Facts<'_>) -> Option<Estimate> {
    /// Factor for the high end, as for the headroom of a thread.
    const CHEAPER: f64 = 2.0;
    let room = room(facts, Subject::Program)?;
    let low = room.low.min(idle_for_all(facts));
    let high = room.high.min(CHEAPER * idle_for_more(facts, facts.used_cpus())).max(low);
    Some(Estimate { value: room.value.clamp(low, high), low, high, ..room })
}
