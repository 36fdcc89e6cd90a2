// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP connections that the program opens or accepts, and their cost, including wake-ups of threads
//! that find no connection to accept.

use super::super::facts::{Facts, counted, share};
use super::super::herd::Herd;
use super::super::roles::is_accepted;
use super::Measure;
use super::costs::{Cost, in_kernel, of_used};
use super::counts::{ENDED, ended_cpus, system_calls};
use linerate_record::stats::Estimate;
use linerate_record::why::{SocketCounts, SocketKind};

/// CPU time to set up and close a connection, in seconds. Client and server together take 30 to
/// 90 us (nginx serves 26,000 to 42,000 requests/s with keepalive, 9,000 to 20,000 without); the
/// lower bound is the program's share alone.
const CONNECTION_S: Cost = (12e-6, 40e-6, 90e-6);

/// Returns the number of TCP connections established in the network namespace: the larger of the
/// passive and active opens.
pub(super) fn opened(facts: &Facts<'_>) -> Option<u64> {
    let [passive, active] = ["Tcp.PassiveOpens", "Tcp.ActiveOpens"].map(|n| facts.protocol(n));
    Some(passive?.max(active?))
}

/// Like [`opened`], but only if the connections may be the program's: the program has a listening
/// socket, or connections that do not outlast the window, and it made enough system calls and spent
/// enough time in the kernel to set them up. `None` otherwise, because other programs opened them.
pub(super) fn own_opened(facts: &Facts<'_>) -> Option<u64> {
    /// Minimum number of system calls per connection: accept or connect, and close.
    const CALLS: u64 = 2;
    let opened = opened(facts)?;
    let sockets = &facts.observation.sockets;
    let is_of = |kind| move |socket: &&SocketCounts| socket.kind == kind;
    // If none was read twice, none outlasts two readings.
    let most = sockets.iter().filter_map(|socket| socket.reads).max().map(|most| most.max(2));
    let mut connections = sockets.iter().filter(is_of(SocketKind::Tcp));
    let may_open = facts.is_unread("tcp_segments")
        || sockets.iter().any(|socket| socket.kind == SocketKind::TcpListen)
        || connections.any(|socket| socket.reads.is_none() || socket.reads < most);
    let is_whole = is_whole(facts);
    let calls = system_calls(facts).and_then(|(_, most)| most).filter(|_| is_whole);
    let has_called = calls.is_none_or(|calls| calls >= CALLS * opened);
    let has_time = !is_whole || has_time_for(facts, opened);
    (may_open && has_called && has_time).then_some(opened)
}

/// Returns whether the program may have opened or accepted the connections of its network
/// namespace: [`own_opened`] says so, and the program's CPU time suffices to set them up. The CPU
/// time is exact, whereas the time in the kernel, which [`own_opened`] checks, is known to only 2 %
/// of a CPU. Many programs listen but hardly ever run.
pub(super) fn may_have_opened(facts: &Facts<'_>) -> bool {
    let (least, ..) = CONNECTION_S;
    let ran = || facts.used_cpus() * facts.elapsed();
    own_opened(facts).is_some_and(|opened| !is_whole(facts) || ran() >= opened as f64 * least)
}

/// Returns the cost of establishing connections; `None` if many of them are closed unserved,
/// because the program then fails, whatever its connections cost.
pub(super) fn cost(facts: &Facts<'_>) -> Option<Estimate> {
    turned_away(facts).is_none().then(|| of_used(facts, own_opened(facts)?, CONNECTION_S))?
}

/// Returns whether setting up connections, served or not, takes a noticeable part of the CPU time.
pub(in super::super) fn mostly_opens(facts: &Facts<'_>) -> bool {
    /// Minimum fraction of the CPU time.
    const MATTERS: f64 = 0.15;
    let all = own_opened(facts).and_then(|opened| of_used(facts, opened, CONNECTION_S));
    all.is_some_and(|cost| cost.value >= MATTERS)
}

/// Returns two numbers of connections in the network namespace: those accepted, and those closed
/// without a reply and reset because data was unread or still arriving. Returns `None` if the
/// latter are few, or if no socket listens. Connections opened from within the namespace are not
/// counted unless they carry no data, because their own end may have reset them: proxies reset
/// connections to servers, and TLS clients those that they close.
pub(in super::super) fn turned_away(facts: &Facts<'_>) -> Option<(u64, u64)> {
    /// Minimum number of connections turned away per second.
    const PER_S: f64 = 5.0;
    /// Minimum number of connections turned away per accepted connection.
    const SHARE: f64 = 0.2;
    let counts = ["TcpExt.TCPAbortOnData", "TcpExt.TCPAbortOnClose"];
    let aborted: u64 = counts.iter().filter_map(|name| facts.protocol(name)).sum();
    let accepted = facts.protocol("Tcp.PassiveOpens").filter(|accepted| *accepted > 0)?;
    if !have_room_for_replies(facts, accepted) {
        // Both ends may be here, but one reset per connection is enough to close it.
        let aborted = aborted.min(accepted);
        return is_many(facts, aborted, accepted, PER_S, SHARE).then_some((accepted, aborted));
    }
    let is_many = |aborted| is_many(facts, aborted, accepted, PER_S, SHARE);
    if are_empty(facts) {
        let aborted = aborted.min(accepted);
        return is_many(aborted).then_some((accepted, aborted));
    }
    let opened = facts.protocol("Tcp.ActiveOpens").unwrap_or(0);
    let aborted = aborted.saturating_sub(opened);
    (is_many(aborted) && !were_served(facts)).then_some((accepted, aborted))
}

/// Returns whether the program listens, and connections were closed without a reply often enough to
/// matter.
fn is_many(facts: &Facts<'_>, aborted: u64, accepted: u64, per_s: f64, share: f64) -> bool {
    let mut sockets = facts.observation.sockets.iter();
    let listens = sockets.any(|one| one.kind == SocketKind::TcpListen);
    listens && aborted as f64 >= (per_s * facts.elapsed()).max(share * accepted as f64)
}

/// Returns whether the segments sent in the network namespace suffice for a reply on each accepted
/// connection, if both of its ends are there. A connection that is closed unserved takes three
/// segments for the handshake, a request, a reset, and perhaps a segment that crosses the reset;
/// connections that are served take more.
fn have_room_for_replies(facts: &Facts<'_>, accepted: u64) -> bool {
    const UNSERVED: f64 = 6.0;
    const SOME_SERVED: f64 = 7.0;
    let opened = facts.protocol("Tcp.ActiveOpens").unwrap_or(0);
    let sent = facts.protocol("Tcp.OutSegs").filter(|sent| *sent > 0);
    let each = sent.map(|sent| sent as f64 / accepted as f64);
    let most = if were_served(facts) { UNSERVED } else { SOME_SERVED };
    opened < accepted || each.is_none_or(|each| each > most)
}

/// Returns whether no accepted connection lasts, and nearly all that were seen carried no data:
/// clients send their request right after the handshake, so connections on which the program
/// replies have at least received one.
fn are_empty(facts: &Facts<'_>) -> bool {
    /// Minimum number of connections, and minimum fraction of them without data.
    const FEW: usize = 10;
    const MOST: f64 = 0.8;
    let sockets = &facts.observation.sockets;
    let lasts = |one: &SocketCounts| Facts::readings(one).is_some() && is_accepted(facts, one);
    if sockets.iter().any(|one| one.kind == SocketKind::Tcp && lasts(one)) {
        // Clients that stay; the others may check whether the server is there.
        return false;
    }
    let most = facts.observation.sockets.iter().filter_map(|one| one.reads).max();
    let is_brief = |one: &&SocketCounts| one.reads < most && is_accepted(facts, one);
    let tcps = facts.observation.sockets.iter().filter(is_brief).filter_map(|it| it.tcp.as_ref());
    let empty: Vec<bool> =
        tcps.map(|tcp| tcp.bytes_received == 0 && tcp.bytes_acked == 0).collect();
    let count = empty.iter().filter(|is_empty| **is_empty).count();
    empty.len() >= FEW && count as f64 >= MOST * empty.len() as f64
}

/// Returns whether most accepted connections that were seen, but ended within the window, sent a
/// reply to what they received.
fn were_served(facts: &Facts<'_>) -> bool {
    let most = facts.observation.sockets.iter().filter_map(|one| one.reads).max();
    let is_brief = |one: &&SocketCounts| one.reads < most && is_accepted(facts, one);
    let tcps = facts.observation.sockets.iter().filter(is_brief).filter_map(|it| it.tcp.as_ref());
    let asked: Vec<bool> =
        tcps.filter(|tcp| tcp.bytes_received > 0).map(|tcp| tcp.bytes_acked > 0).collect();
    let served = asked.iter().filter(|served| **served).count();
    served > 0 && 2 * served >= asked.len()
}

/// Returns whether all threads were observed. Unobserved threads may have set up connections too.
fn is_whole(facts: &Facts<'_>) -> bool {
    let ended = facts.observation.ended_threads_cpus.map(|_| ended_cpus(facts));
    facts.observation.threads_left_out == 0 && ended.is_some_and(|it| it < ENDED)
}

/// Returns whether the program's time in the kernel suffices to set up this many connections, given
/// the error of kernel accounting.
fn has_time_for(facts: &Facts<'_>, connections: u64) -> bool {
    let (least, ..) = CONNECTION_S;
    share(in_kernel(facts)).high * facts.elapsed() >= connections as f64 * least
}

/// Cost of waking a thread that finds no connection to accept, in seconds: switching to it, accept,
/// and epoll_wait. On a Zen 4 guest, 48 processes took 6 us per wake-up, accepted connections
/// included.
const WAKE_UP_S: Cost = (2e-6, 4e-6, 6e-6);

impl Measure {
    pub(super) fn of_herd(self, facts: &Facts<'_>) -> Option<Estimate> {
        let herd = Herd::of(facts);
        let threads = herd.threads.len();
        let opened = || own_opened(facts).filter(|opened| *opened > 0);
        match self {
            Self::HerdThreads => Some(Estimate::exactly(threads as f64)),
            Self::HerdSleeps => {
                let segments = facts.protocol("Tcp.InSegs").filter(|segments| *segments > 0)?;
                counted(herd.sleeps, segments as f64)
            }
            Self::HerdPerConnection if threads > 0 => {
                counted(herd.sleeps, opened()? as f64 * threads as f64)
            }
            Self::HerdTime => of_used(facts, herd.sleeps.saturating_sub(opened()?), WAKE_UP_S),
            _ => None,
        }
    }
}
