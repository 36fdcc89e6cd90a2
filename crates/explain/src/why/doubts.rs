// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evidence against "nothing is wrong" that no rule explains. A program with time left may still be
//! held up by what its time does not show: packets lost where nothing counts them, a peer that does
//! not read, answers that it waits for.

use super::facts::Facts;
use super::waits::{self, Wait};
use super::words::{label, percent};
use linerate_record::why::{SocketKind, ThreadActivity};

/// What cannot be distinguished from nothing being wrong, and what to do next.
pub(super) struct Doubt {
    pub(super) sentence: String,
    pub(super) next: String,
}

impl Doubt {
    fn new(sentence: String, next: impl Into<String>) -> Option<Self> {
        Some(Self { sentence, next: next.into() })
    }
}

/// The first of the doubts.
pub(super) fn doubt(facts: &Facts<'_>) -> Option<Doubt> {
    vanished(facts)
        .or_else(|| resent(facts))
        .or_else(|| closed_window(facts))
        .or_else(|| asks_others(facts))
        .or_else(|| sleeps_without_packets(facts))
        .or_else(|| full_machine(facts))
}

/// Packets that reached IP and left it for nowhere.
fn vanished(facts: &Facts<'_>) -> Option<Doubt> {
    /// Counters that are read one after the other differ by less.
    const SHARE: f64 = 0.01;
    const LEAST: u64 = 100;
    /// Fragments are received one by one and delivered as one.
    const LEAVE: [&str; 7] = [
        "Ip.InDelivers",
        "Ip.ForwDatagrams",
        "Ip.InDiscards",
        "Ip.InHdrErrors",
        "Ip.InAddrErrors",
        "Ip.InUnknownProtos",
        "Ip.ReasmReqds",
    ];
    let received = facts.protocol("Ip.InReceives")?;
    let left: u64 = LEAVE.iter().filter_map(|name| facts.protocol(name)).sum();
    let lost = received.saturating_sub(left);
    if lost < LEAST || (lost as f64) < SHARE * received as f64 {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell where {lost} packets went, {} % of all: {received} reached IP, {left} \
             left it, and no counter has the rest.",
            percent(lost as f64 / received as f64)
        ),
        "Look for a rule that drops them (nft list ruleset, iptables -vnL); as root, with tracefs \
         mounted, the drops are counted by reason",
    )
}

/// TCP that sends much again: the path loses segments.
fn resent(facts: &Facts<'_>) -> Option<Doubt> {
    /// At a round trip of 1 ms, TCP stays below 250 Mb/s with it (Mathis et al., 1997).
    const SHARE: f64 = 0.005;
    const LEAST: u64 = 20;
    let (resent, sent) = (facts.protocol("Tcp.RetransSegs")?, facts.protocol("Tcp.OutSegs")?);
    let share = resent as f64 / (resent + sent).max(1) as f64;
    if resent < LEAST || share < SHARE {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell why segments are lost on the way: TCP sent {resent} segments again, {} % \
             of all, and slows down for each loss.",
            percent(share)
        ),
        "Look for drops at the other end and between: ss -ti (retrans) at the sender, ip -s link \
         and ethtool -S at the receiver, and a limiter or firewall on the path",
    )
}

/// A connection whose peer takes nothing.
fn closed_window(facts: &Facts<'_>) -> Option<Doubt> {
    /// More than half of the window.
    const MOST: f64 = 0.5;
    let closed = |seconds: f64| seconds / facts.elapsed();
    let sockets = facts.observation.sockets.iter();
    let (socket, share) = sockets
        .filter_map(|socket| Some((socket, closed(socket.tcp.as_ref()?.rwnd_limited_s))))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, share)| *share >= MOST)?;
    let peer = socket.remote.as_deref().unwrap_or("its peer");
    Doubt::new(
        format!(
            "Cannot tell why {peer} does not read: its receive window stopped connection {} {} % \
             of the time.",
            socket.local,
            percent(share.min(1.0))
        ),
        "Watch the receiver: linerate why PID, on its machine",
    )
}

/// A server that sleeps, and exchanges datagrams of its own meanwhile: requests may wait for them.
fn asks_others(facts: &Facts<'_>) -> Option<Doubt> {
    /// Of its time, and datagrams for each segment received.
    const MOST: f64 = 0.5;
    const DATAGRAMS: f64 = 0.2;
    let thread = facts.busiest()?;
    let has = |kind| facts.observation.sockets.iter().any(|socket| socket.kind == kind);
    let segments = facts.protocol("Tcp.InSegs").or(facts.packets())?;
    let datagrams = facts.protocol("Udp.InDatagrams")?;
    let asks = has(SocketKind::TcpListen) && has(SocketKind::Udp);
    // Questions and answers are about as many; packets of others come without a question.
    let sent = facts.protocol("Udp.OutDatagrams")?;
    let asks = asks && sent <= 2 * datagrams && datagrams <= 2 * sent;
    let asleep = waits::time_in(thread, Wait::Input)?;
    let is_much = datagrams > 0 && datagrams as f64 >= DATAGRAMS * segments as f64;
    if !asks || !is_much || asleep < MOST {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell whether thread {} waits for requests or for answers to its own: it \
             sleeps {} % of the time, and {datagrams} datagrams came in meanwhile.",
            label(thread),
            percent(asleep)
        ),
        follow(thread),
    )
}

/// A program that sleeps on something other than packets, while there are none.
fn sleeps_without_packets(facts: &Facts<'_>) -> Option<Doubt> {
    const MOST: f64 = 0.3;
    let thread = facts.busiest()?;
    let held = [Wait::Timer, Wait::Storage, Wait::Other].map(|wait| waits::time_in(thread, wait));
    let longest = held.into_iter().flatten().fold(0.0, f64::max);
    if facts.packets().is_some_and(|packets| packets > 0) || longest < MOST {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell why no packet passed: thread {} sleeps {} % of the time, and not for \
             input.",
            label(thread),
            percent(longest)
        ),
        follow(thread),
    )
}

/// A machine without an idle CPU: what sends or answers may be short of one.
fn full_machine(facts: &Facts<'_>) -> Option<Doubt> {
    /// Idle time of all CPUs, and what the program uses of one.
    const IDLE: f64 = 0.05;
    const USES: f64 = 0.3;
    let thread = facts.busiest().filter(|thread| thread.demand() >= USES)?;
    let cpus = facts.cpus() as f64;
    let idle = facts.idle_cpus().filter(|idle| *idle < IDLE * cpus)?;
    Doubt::new(
        format!(
            "Cannot tell what the program could do with more CPU time: the {cpus:.0} CPUs are \
             idle {} % of the time, and its peers may run on them; thread {} takes {} % of one.",
            percent(idle / cpus.max(1.0)),
            label(thread),
            percent(thread.demand())
        ),
        "Run the peers on another machine, or watch them too",
    )
}

fn follow(thread: &ThreadActivity) -> String {
    format!("See each call and how long it takes: strace -f -T -p {}", thread.tid)
}
