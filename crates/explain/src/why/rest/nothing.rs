// SPDX-License-Identifier: MIT OR Apache-2.0
//! The finding that nothing is wrong, with the remaining headroom.

use super::super::doubts;
use super::super::facts::Facts;
use super::super::gain;
use super::super::losses::{firewall_dropped_elsewhere, is_much};
use super::super::roles::is_accepted;
use super::super::words::{label, percent};
use super::datagrams::by_receivers;
use super::{full_link, limit_reached, polls, seen, sends_less};
use linerate_record::stats::Estimate;
use linerate_record::units::{Kpps, grouped, three_digits};
use linerate_record::why::{Cause, Gain, PacketCount, SocketCounts, SocketKind, WhyFinding};
use linerate_record::{Figure, Tier};

/// Returns the finding that nothing is wrong: the limit is the offered load, the peer, or a
/// requested rate.
pub(super) fn nothing_wrong(facts: &Facts<'_>) -> WhyFinding {
    let observation = facts.observation;
    let rate = facts.packet_rate();
    let room = gain::headroom(facts);
    let left = match (&room, facts.busiest()) {
        (Some(room), Some(thread)) => {
            let busy = facts.busy(thread).map_or((0.0, 0.0), |busy| (busy.value, busy.high));
            let works = match busy {
                // The headroom is a lower bound, which follows from this upper bound on the busy
                // time.
                (busy, most) if busy < 0.01 && most >= 0.02 => {
                    format!("at most {} %", percent(most))
                }
                (busy, _) if busy < 0.01 => "under 1 %".to_owned(),
                (busy, _) => format!("{} %", percent(busy)),
            };
            let is_full = facts.idle_cpus().is_some_and(|idle| idle < 0.05 * facts.cpus() as f64);
            let headroom = match rate {
                Some(rate) if rate < 1.0 => String::new(),
                _ if is_full => ", but other programs keep all CPUs busy".to_owned(),
                _ => format!(": {}", load(room)),
            };
            format!(
                " The program's busiest thread, {}, works {works} of the time{headroom}.",
                label(thread)
            )
        }
        (None, Some(thread)) if rate == Some(0.0) => {
            format!(
                " Thread {} runs all the time although no packets arrive, so it probably \
                 busy-polls.",
                label(thread)
            )
        }
        (None, Some(thread)) if polls::calls_per_packet(facts, thread).is_some() => format!(
            " Thread {} busy-polls: it makes {} system calls per packet, most of which find \
             nothing.",
            label(thread),
            grouped(polls::calls_per_packet(facts, thread).unwrap_or_default() as u64)
        ),
        (None, Some(thread)) => format!(
            " Thread {} never sleeps; its headroom is unknown, because the time that it spends \
             busy-polling could not be determined.",
            label(thread)
        ),
        _ => String::new(),
    };
    let percent = Figure::exact("percent", 0.0, Tier::Model, "there is no bottleneck to remove");
    let (limit, wrong_if) = match full_link(facts) {
        Some(_) => ("the link", "with a faster link, the rate stays the same"),
        None => (
            "the offered load",
            "with a higher offered load, the rate stays the same or packets are lost",
        ),
    };
    WhyFinding {
        cause: Cause::NothingWrong,
        sentence: claim(facts, rate)
            + &left
            + &elsewhere(facts)
            + &by_receivers(facts)
            + &unanswered_datagrams(facts)
            + &change(&observation.packets_per_s),
        evidence: seen(facts),
        gain: Gain { percent, then_limited_by: Some(limit.to_owned()) },
        fix: None,
        workaround: None,
        wrong_if: wrong_if.to_owned(),
    }
}

/// Returns the claim: what sets the rate, and what was lost.
fn claim(facts: &Facts<'_>, rate: Option<f64>) -> String {
    if let Some(link) = full_link(facts) {
        return format!("Nothing is wrong with the program: the link of {link} is full.");
    }
    match (limit_reached(facts), rate) {
        (Some(line), _) => {
            format!("Nothing is wrong: the program reaches the requested line rate, {line}.")
        }
        (None, Some(rate)) if rate >= 1.0 => {
            let (rate, losses) = (Kpps(rate / 1e3), losses(facts));
            if streams(facts) {
                format!(
                    "Nothing is wrong: unless it limits itself (as nginx does with limit_rate), \
                     the program sends all that it has to send, at {rate}, and {losses}.{}{}",
                    servers(facts),
                    doubts::stalled_elsewhere(facts)
                )
            } else if let Some(server) = asks_only(facts) {
                format!(
                    "Nothing is wrong with the program: it is a client, so either it sets the rate \
                     itself ({rate}) or it is waiting for {server}; {losses}."
                )
            } else {
                format!(
                    "Nothing is wrong: the offered load sets the rate, {rate}, and \
                     {losses}.{}{}{}{}",
                    servers(facts),
                    round_trips(facts),
                    silent(facts),
                    doubts::stalled_elsewhere(facts)
                )
            }
        }
        _ if facts.observation.threads.is_empty() => {
            "Nothing is wrong: no loss counter shows a lost packet.".to_owned()
        }
        _ if rate == Some(0.0) => {
            format!("Nothing is wrong: no packet reached the program, and {}.", losses(facts))
        }
        _ => "Nothing is wrong: the program has headroom and no more work to do.".to_owned(),
    }
}

/// Returns a sentence if the load changed within the window, in which case the finding applies to
/// neither load. Returns an empty string for a steady load, even if it arrives in short bursts.
fn change(packets_per_s: &[f64]) -> String {
    /// Minimum ratio of the highest to the lowest rate, each averaged over a third of the window.
    const RATIO: f64 = 2.0;
    /// Minimum number of slices in a third of the window.
    const SLICES: usize = 5;
    let length = packets_per_s.len() / 3;
    if length < SLICES {
        return String::new();
    }
    let mean = |third: &[f64]| third.iter().sum::<f64>() / third.len() as f64;
    let thirds: Vec<f64> = packets_per_s.chunks_exact(length).take(3).map(mean).collect();
    let most = thirds.iter().copied().fold(0.0, f64::max);
    let least = thirds.iter().copied().fold(f64::INFINITY, f64::min);
    if most < 1.0 || most < RATIO * least {
        return String::new();
    }
    let rates = thirds.iter().map(|rate| Kpps(rate / 1e3).to_string());
    format!(
        " The load changed within the window (rate in each third: {}). Watch again under a steady \
         load.",
        rates.collect::<Vec<_>>().join(", ")
    )
}

/// Returns whether most bytes are sent on connections that carry streams, and that the program
/// leaves idle for much of the time.
fn streams(facts: &Facts<'_>) -> bool {
    let tcps = || facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let sent: u64 = tcps().map(|tcp| tcp.bytes_acked).sum();
    let received: u64 = tcps().map(|tcp| tcp.bytes_received).sum();
    let on_streams = doubts::sent_on(&doubts::streams(facts));
    sends_less(facts) && sent > received && 2 * on_streams > sent
}

/// Returns the server of a program that only opens connections, and therefore has no offered load:
/// it sends at its own pace, or at the pace of the server's replies. `None` for other programs.
fn asks_only<'a>(facts: &Facts<'a>) -> Option<&'a str> {
    let sockets = &facts.observation.sockets;
    let serves = |socket: &SocketCounts| match socket.kind {
        SocketKind::TcpListen | SocketKind::UnixListen => true,
        SocketKind::Packet | SocketKind::Xdp | SocketKind::Raw => true,
        SocketKind::Udp => socket.remote.is_none(),
        SocketKind::Tcp | SocketKind::Unix => false,
    };
    let most = |socket: &&SocketCounts| {
        socket.tcp.as_ref().map_or(0, |tcp| tcp.bytes_received + tcp.bytes_acked)
    };
    if sockets.iter().any(serves) {
        return None;
    }
    facts.connections().max_by_key(most)?.remote.as_deref()
}

/// Returns a sentence about the servers that the program queries on behalf of its clients; empty if
/// there are none. The program's own time does not show how long it waits for them.
fn servers(facts: &Facts<'_>) -> String {
    /// Fraction of readings below which the wait for a server hardly matters.
    const MATTERS: f64 = 0.05;
    match (super::super::requests::awaiting_servers(facts), super::super::requests::server(facts)) {
        (Some(awaiting), Some(server)) if awaiting.value >= MATTERS => {
            return format!(
                " In {} % of the readings, a client was waiting for a reply while the program was \
                 waiting for a reply from another server, most often {server}.",
                percent(awaiting.value)
            );
        }
        (Some(_), _) => return String::new(),
        (None, _) => {}
    }
    let (accepted, opened): (Vec<_>, Vec<_>) =
        facts.connections().partition(|socket| is_accepted(facts, socket));
    let server = opened.iter().find_map(|socket| socket.remote.as_deref());
    match server.filter(|_| !accepted.is_empty()) {
        Some(server) => format!(
            " The program's clients also wait for the server that it queries, {server}: to find \
             out for how long, watch that server."
        ),
        None => String::new(),
    }
}

/// Returns a sentence about clients that are far away; empty if they are near. With one request in
/// flight each, the round trip limits their rate.
fn round_trips(facts: &Facts<'_>) -> String {
    /// Minimum round-trip time that is reported, in seconds. It limits a client to 500 requests per
    /// second.
    const LONG_S: f64 = 0.002;
    let accepted = facts.connections().filter(|socket| is_accepted(facts, socket));
    let times = accepted.filter_map(|socket| socket.tcp.as_ref()).map(|tcp| tcp.min_rtt_s);
    let mut times: Vec<f64> = times.filter(|seconds| *seconds > 0.0).collect();
    times.sort_by(f64::total_cmp);
    match times.get(times.len() / 2) {
        Some(&median) if median >= LONG_S => format!(
            " The program's clients are {} ms away (round trip), which limits those that wait for \
             each reply.",
            three_digits(1e3 * median)
        ),
        _ => String::new(),
    }
}

/// Returns a sentence about connections on which the client has been waiting for the whole window;
/// empty if there are none.
fn silent(facts: &Facts<'_>) -> String {
    match facts.observation.requests.as_ref().map_or(0, |counts| counts.silent) {
        0 => String::new(),
        1 => " On 1 other connection, the client has sent something and received nothing since: a \
              long poll, or a request still waiting for its reply."
            .to_owned(),
        silent => format!(
            " On {silent} other connections, the clients have sent something and received nothing \
             since: long polls, or requests still waiting for a reply."
        ),
    }
}

/// Returns a sentence about a program that answers only part of its datagrams, although this may be
/// intended; empty if it answers nearly all or hardly any of them, or if the datagrams of its
/// network namespace are not its own.
fn unanswered_datagrams(facts: &Facts<'_>) -> String {
    /// Range of the number of datagrams sent per datagram received.
    const PART: std::ops::Range<f64> = 0.05..0.9;
    /// Minimum number of datagrams received per second.
    const PER_S: f64 = 10.0;
    let counter = facts.observation.packets.as_ref().map(|one| one.counter.as_str());
    let [received, sent] = ["InDatagrams", "OutDatagrams"].map(|name| facts.datagrams(name));
    let (Some(PacketCount::DATAGRAMS), Some(received), Some(sent)) = (counter, received, sent)
    else {
        return String::new();
    };
    let part = sent as f64 / received.max(1) as f64;
    let is_serving = |one: &SocketCounts| one.kind == SocketKind::Udp && one.remote.is_none();
    let is_much = received as f64 >= PER_S * facts.elapsed();
    if !facts.observation.sockets.iter().any(is_serving) || !is_much || !PART.contains(&part) {
        return String::new();
    }
    let pid = facts.observation.watched.pids.first().copied().unwrap_or(0);
    format!(
        " It sent {} % as many datagrams as it received; if it should answer each of them, look \
         for calls that fail (strace -f -Z -e trace=network -p {pid}).",
        percent(part)
    )
}

/// Returns a sentence about packets that firewall rules dropped elsewhere, such as on a bridge to
/// the program; empty if there were few.
fn elsewhere(facts: &Facts<'_>) -> String {
    let packets = facts.packets().unwrap_or(0);
    match firewall_dropped_elsewhere(facts) {
        Some(dropped) if is_much(dropped, packets) => format!(
            " Elsewhere, on a bridge or in another network namespace, firewall rules dropped {} \
             packets, perhaps on their way to the program: look for growing counters in nft list \
             ruleset there.",
            grouped(dropped)
        ),
        _ => String::new(),
    }
}

/// Describes losses that are too small to matter.
fn losses(facts: &Facts<'_>) -> String {
    match facts.ledger.lost() {
        Some(0) | None => "no counter shows a lost packet".to_owned(),
        Some(1) => "1 packet was lost".to_owned(),
        Some(lost) => format!("{} packets were lost", grouped(lost)),
    }
}

/// Describes the headroom as a multiple of the current load.
fn load(room: &Estimate) -> String {
    /// Gain in percent above which headroom is printed without an upper bound.
    const MOST_PERCENT: f64 = 9900.0;
    /// Gain in percent below which there may be no headroom.
    const NONE_PERCENT: f64 = 5.0;
    match (times(room.low), times(room.high)) {
        _ if room.low < NONE_PERCENT && room.high >= MOST_PERCENT => {
            "its headroom is unknown".to_owned()
        }
        (_, high) if room.low < NONE_PERCENT => {
            format!("headroom for at most {high} times the load")
        }
        (low, high) if low == high || room.high >= MOST_PERCENT => {
            format!("headroom for {low} times the load or more")
        }
        (low, high) => format!("headroom for {low} to {high} times the load"),
    }
}

/// Converts a gain in percent to a factor.
fn times(percent: f64) -> String {
    match 1.0 + percent / 100.0 {
        times if times >= 100.0 => "100".to_owned(),
        times if times >= 10.0 => format!("{times:.0}"),
        times => format!("{times:.1}"),
    }
}
