// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP connections that the program opens or accepts, and their cost.

use super::super::facts::{Facts, share};
use super::costs::{Cost, in_kernel, of_used};
use super::counts::{ENDED, ended_cpus, opened, system_calls};
use linerate_record::stats::Estimate;
use linerate_record::why::{SocketCounts, SocketKind};

/// CPU time to set up and close a connection, in seconds. Client and server together take 30 to
/// 90 us (nginx serves 26,000 to 42,000 requests/s with keepalive, 9,000 to 20,000 without); the
/// lower bound is the program's share alone.
const CONNECTION_S: Cost = (12e-6, 40e-6, 90e-6);

/// Like [`opened`], if these connections may be the program's: it has a listening socket, or
/// connections that do not outlast the window, and it made enough system calls and spent enough
/// time in the kernel to set them up. `None` otherwise, because other programs opened them.
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
    // Threads that were not observed may have set them up.
    let ended = facts.observation.ended_threads_cpus.map(|_| ended_cpus(facts));
    let is_whole = facts.observation.threads_left_out == 0 && ended.is_some_and(|it| it < ENDED);
    let calls = system_calls(facts).and_then(|(_, most)| most).filter(|_| is_whole);
    let has_called = calls.is_none_or(|calls| calls >= CALLS * opened);
    let has_time = !is_whole || has_time_for(facts, opened);
    (may_open && has_called && has_time).then_some(opened)
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

/// Returns the numbers of connections accepted in the network namespace, and of those reset because
/// data was unread or still arriving; `None` if the latter are few, or no socket listens.
pub(in super::super) fn turned_away(facts: &Facts<'_>) -> Option<(u64, u64)> {
    /// Minimum number of such connections per second, and per accepted connection.
    const PER_S: f64 = 5.0;
    const SHARE: f64 = 0.2;
    let counts = ["TcpExt.TCPAbortOnData", "TcpExt.TCPAbortOnClose"];
    let aborted: u64 = counts.iter().filter_map(|name| facts.protocol(name)).sum();
    let accepted = facts.protocol("Tcp.PassiveOpens").filter(|accepted| *accepted > 0)?;
    let mut sockets = facts.observation.sockets.iter();
    let listens = sockets.any(|one| one.kind == SocketKind::TcpListen);
    let is_many = aborted as f64 >= (PER_S * facts.elapsed()).max(SHARE * accepted as f64);
    (listens && is_many).then_some((accepted, aborted))
}

/// Returns whether the program's time in the kernel suffices to set up this many connections, given
/// the error of kernel accounting.
fn has_time_for(facts: &Facts<'_>, connections: u64) -> bool {
    let (least, ..) = CONNECTION_S;
    share(in_kernel(facts)).high * facts.elapsed() >= connections as f64 * least
}
