// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts about what the program waits for: peers, servers, locks.

use super::super::facts::{Facts, Subject};
use super::super::locks::{self, Owner};
use super::super::measure::Measure;
use super::super::{asked, requests, waits};
use super::{label, percent};
use linerate_record::why::{SocketCounts, SocketKind, TcpCounts};

/// Returns the command that diagnoses the peer that stalls the program.
pub(super) fn watch_peer(facts: &Facts<'_>) -> String {
    let asked = facts.busiest().and_then(|thread| asked::asked(facts, thread));
    let is_asked = |one: &&SocketCounts| one.remote.is_some() && one.remote == asked;
    if let Some(asked) = facts.observation.sockets.iter().find(is_asked) {
        return watch(asked);
    }
    let stalled = |tcp: &TcpCounts| tcp.rwnd_limited_s;
    let sockets = facts.connections().filter(|socket| socket.tcp.is_some());
    let order = |socket: &&SocketCounts| socket.tcp.as_ref().map_or(0.0, stalled);
    let most = sockets.max_by(|a, b| order(a).total_cmp(&order(b)));
    most.map_or_else(|| "linerate why PID, on the peer's machine".to_owned(), watch)
}

/// Describes what the holders of a lock are doing; empty if unknown.
pub(super) fn lock_holder(facts: &Facts<'_>) -> String {
    let Some(queue) = locks::queue(facts) else { return String::new() };
    if let Some(Owner { thread, is_in_deadlock }) = queue.owner {
        let does = match waits::longest(&thread.asleep_on).filter(|sleep| sleep.share >= 0.5) {
            _ if is_in_deadlock => "in turn waits for one of them (a deadlock)".to_owned(),
            Some(sleep) => format!("sleeps in {}", waits::named(sleep)),
            None => format!("is running or runnable {} % of the time", percent(thread.demand())),
        };
        return format!(", held by thread {}, which {does}", label(thread));
    }
    match (queue.holder, queue.holding.round()) {
        (Some(call), ..=1.0) => format!(", while one thread at a time sleeps in {call}"),
        (Some(call), holding) => format!(", while {holding} threads at a time sleep in {call}"),
        (None, _) => String::new(),
    }
}

/// Returns advice on reducing waits for a lock.
pub(super) fn lock_fix(facts: &Facts<'_>) -> String {
    let queue = locks::queue(facts);
    let runs = queue.as_ref().is_some_and(|queue| queue.holder.is_none() && queue.owner.is_none());
    match queue.and_then(|queue| queue.owner).filter(|owner| owner.is_in_deadlock) {
        Some(owner) => format!(
            "Acquire locks in the same order everywhere; gdb -p {} -batch -ex \"thread apply all \
             bt\" shows where each thread waits",
            owner.thread.pid
        ),
        None if runs && is_python(facts) => {
            "Run several processes instead of threads: all threads of a Python process share the \
             interpreter's lock (GIL)"
                .to_owned()
        }
        None => "Do not hold the lock while sleeping; shorten the critical section, or split the \
                 lock (one per connection or per table shard); if it guards a pool, enlarge the \
                 pool"
            .to_owned(),
    }
}

/// Returns advice on the collector of Python, which walks all containers that are alive; empty for
/// other programs.
pub(super) fn collector_fix(facts: &Facts<'_>) -> String {
    match is_python(facts) {
        true => "; in Python, compare the rate after gc.freeze() first, because the collector of \
                 reference cycles walks all containers that are alive"
            .to_owned(),
        false => String::new(),
    }
}

/// Returns whether the program is a Python interpreter, judging by its name.
fn is_python(facts: &Facts<'_>) -> bool {
    facts.observation.watched.name.starts_with("python")
}

/// Returns how many requests the program sends to its servers for each request of a client, if
/// there are several, which are then sent one after the other; `None` otherwise.
fn times(facts: &Facts<'_>) -> Option<f64> {
    /// Minimum number that cannot be due to a request in several segments.
    const SEVERAL: f64 = 5.0;
    let asked = Measure::AskedPerRequest.of(facts, Subject::Program)?;
    Some(asked.value).filter(|asked| *asked >= SEVERAL)
}

/// Says how often the program queries its servers per request of a client; empty if hardly more
/// than once.
pub(super) fn times_asked(facts: &Facts<'_>) -> String {
    times(facts).map_or_else(String::new, |asked| {
        format!(
            " It sends {} segments with data to its servers per segment from a client: probably \
             that many queries, one after the other.",
            asked.round()
        )
    })
}

/// Returns advice for a program that queries its servers several times per request; empty for
/// others.
pub(super) fn combine(facts: &Facts<'_>) -> &'static str {
    match times(facts) {
        Some(_) => {
            "Combine the queries of each request (a join, a batch), or have several in flight. "
        }
        None => "",
    }
}

/// Returns the command that diagnoses the server that the program queries.
pub(super) fn watch_server(facts: &Facts<'_>) -> String {
    let server = requests::server(facts);
    let there = || facts.connections().filter(|socket| socket.remote.as_deref() == server);
    let known = there().find(|socket| socket.peer_pid.is_some()).or_else(|| there().next());
    known.map_or_else(|| "linerate why PID, on its machine".to_owned(), watch)
}

/// Returns the command that diagnoses the process at the other end of a connection.
fn watch(socket: &SocketCounts) -> String {
    let ends = |address: &str| {
        address.rsplit_once(':').map(|(host, port)| (host.to_owned(), port.to_owned()))
    };
    let remote = socket.remote.as_deref().and_then(ends);
    match (socket.peer_pid, remote, ends(&socket.local)) {
        (Some(pid), ..) => format!("linerate why {pid}"),
        // The peer belongs to another user, so its process ID could not be read.
        (None, Some((host, port)), Some((own, _))) if host == own => {
            format!("sudo linerate why PID (sudo ss -tlnp sport = :{port} lists it)")
        }
        _ if socket.kind == SocketKind::Unix => match &socket.remote {
            Some(path) => format!("sudo linerate why PID (sudo ss -xlp src {path} lists it)"),
            None => "sudo linerate why PID (sudo ss -xp lists both ends)".to_owned(),
        },
        _ => "linerate why PID, on its machine".to_owned(),
    }
}
