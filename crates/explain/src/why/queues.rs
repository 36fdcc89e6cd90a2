// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects work that is queued while the program has idle time: unacknowledged data, unaccepted
//! connections, unread input. Such a program mostly sleeps and handles hardly any packets, so only
//! its queues show that something holds it up.

use super::doubts::{Doubt, are_workload, follow, is_stalled};
use super::facts::Facts;
use super::waits::{self, Wait};
use super::words::{label, percent};
use linerate_record::units::grouped;
use linerate_record::why::{SleepTime, SocketCounts, SocketKind, ThreadActivity};
use std::collections::BTreeMap;

/// Minimum fraction of readings with a non-empty queue to show that work is held up. A queue that
/// is read as soon as input arrives is empty in most readings.
const MOST: f64 = 0.9;

/// Returns a doubt about the first queue in which work is held up.
pub(super) fn queued(facts: &Facts<'_>) -> Option<Doubt> {
    stalled_connection(facts).or_else(|| unaccepted(facts)).or_else(|| unread(facts))
}

/// Detects connections with data to send but no acknowledgements.
fn stalled_connection(facts: &Facts<'_>) -> Option<Doubt> {
    let is_one = |socket: &SocketCounts| is_stalled(facts, socket);
    let sockets = facts.observation.sockets.iter().filter(|socket| is_one(socket));
    let (socket, tcp) = sockets
        .filter_map(|socket| Some((socket, socket.tcp.as_ref()?)))
        .max_by(|(a, _), (b, _)| a.send_queue_mean.total_cmp(&b.send_queue_mean))
        .filter(|_| are_workload(facts, is_one))?;
    let peer = socket.remote.as_deref().unwrap_or("its peer");
    Doubt::new(
        format!(
            "Cannot tell why {peer} does not answer: connection {} has {:.0} bytes to send, and \
             none were acknowledged in {:.1} s ({} segments were retransmitted).",
            socket.local,
            socket.send_queue_mean.max(1.0),
            facts.elapsed(),
            tcp.retransmitted
        ),
        "Check the path (ping, also with full-size packets: ping -M do -s 1472; nft list ruleset \
         and ip -s link at both ends), and whether the peer's process is stopped",
    )
}

/// Detects a listening socket whose accept queue is hardly ever empty.
fn unaccepted(facts: &Facts<'_>) -> Option<Doubt> {
    let is_listener =
        |s: &&SocketCounts| matches!(s.kind, SocketKind::TcpListen | SocketKind::UnixListen);
    let listeners = facts.observation.sockets.iter().filter(is_listener);
    let (socket, share) = fullest(listeners)?;
    let waiting = format!(
        "Cannot tell why connections are waiting to be accepted: the accept queue of {} was not \
         empty in {} % of the readings ({:.1} connections on average)",
        socket.local,
        percent(share),
        socket.receive_queue_mean
    );
    while_idle(facts, socket, waiting)
}

/// Detects a socket with unread input although the program has idle time.
fn unread(facts: &Facts<'_>) -> Option<Doubt> {
    let of_kind = |kind| facts.observation.sockets.iter().filter(move |s| s.kind == kind);
    // If only a few connections have unread data, they are probably leaks; if half of them do, they
    // are the workload.
    let tcp = of_kind(SocketKind::Tcp).count();
    let waiting = of_kind(SocketKind::Tcp).filter(|socket| waits(socket).is_some()).count();
    let connections = of_kind(SocketKind::Tcp).filter(|_| 2 * waiting >= tcp);
    let unix = of_kind(SocketKind::Unix);
    let (socket, share) = fullest(of_kind(SocketKind::Udp).chain(connections).chain(unix))?;
    let waiting = format!(
        "Cannot tell why the program does not read {} {} sooner: data was waiting in its receive \
         queue in {} % of the readings ({:.0} bytes on average)",
        match socket.kind {
            SocketKind::Tcp => "TCP connection",
            SocketKind::Unix => "Unix domain socket",
            _ => "UDP socket",
        },
        socket.local,
        percent(share),
        socket.receive_queue_mean
    );
    while_idle(facts, socket, waiting)
}

/// Returns the socket with the longest mean queue among those whose queue is nearly always
/// non-empty, and the fraction of its readings in which the queue is non-empty; `None` if there is
/// no such socket.
fn fullest<'a>(sockets: impl Iterator<Item = &'a SocketCounts>) -> Option<(&'a SocketCounts, f64)> {
    let sockets = sockets.filter_map(|socket| Some((socket, waits(socket)?)));
    sockets.max_by(|(a, _), (b, _)| a.receive_queue_mean.total_cmp(&b.receive_queue_mean))
}

/// Returns the fraction of readings in which the receive queue is non-empty; `None` if the fraction
/// is below [`MOST`].
fn waits(socket: &SocketCounts) -> Option<f64> {
    Facts::readings(socket)?;
    socket.receive_queue_share.filter(|share| *share >= MOST)
}

fn while_idle(facts: &Facts<'_>, socket: &SocketCounts, waiting: String) -> Option<Doubt> {
    /// Maximum CPU demand of a thread with headroom. With more demand, the thread is assumed to
    /// read as fast as it can.
    const WORKS: f64 = 0.5;
    let thread = facts.thread(super::facts::Subject::Socket(socket))?;
    if thread.demand() > WORKS
        || is_read_at_once(socket, thread)
        || is_hardly_filled(facts, socket, thread)
    {
        return None;
    }
    // TCP drops duplicates, and retransmits what is lost.
    let drops = socket.buffer_drops(facts.observation).filter(|_| socket.kind != SocketKind::Tcp);
    let lost = drops.filter(|drops| *drops > 0);
    let lost = lost
        .map_or(String::new(), |drops| format!(", and {} packets were dropped", grouped(drops)));
    let asleep = waits::longest(&thread.asleep_on);
    let asleep = asleep.map_or(String::new(), |sleep| asleep_in(facts, thread, sleep));
    let (workers, advice) = match full_output(facts, thread) {
        Some((sentence, next)) => (sentence, Some(next)),
        None => workers(facts, thread),
    };
    let next = match longest_wait(thread) {
        _ if advice.is_some() => advice.unwrap_or_default(),
        Some(Wait::Thread) if is_on_futex(thread) => format!(
            "Find out which thread holds the lock and for how long (strace -f -k -T -e futex -p \
             {}); shorten the critical section, or split the lock",
            thread.pid
        ),
        _ => follow(thread),
    };
    Doubt::new(
        format!(
            "{waiting}{lost}, while thread {} is running or runnable {} % of the \
             time{asleep}.{workers}",
            label(thread),
            percent(thread.demand())
        ),
        next,
    )
}

/// Returns whether a socket of datagrams lost nothing and has room for many more, and the thread
/// waits for input most of the time: between a datagram's arrival and the wake-up, it is in the
/// queue.
fn is_hardly_filled(facts: &Facts<'_>, socket: &SocketCounts, thread: &ThreadActivity) -> bool {
    /// Maximum mean queue, as a fraction of the receive buffer.
    const FILLED: f64 = 0.05;
    let queue = socket.receive_queue_mean;
    socket.kind == SocketKind::Udp
        && socket.buffer_drops(facts.observation) == Some(0)
        && socket.receive_buffer.is_some_and(|buffer| queue < FILLED * buffer as f64)
        && longest_wait(thread) == Some(Wait::Input)
}

/// Describes a pipe that a thread may be waiting to write to; `None` if its process has no pipe, or
/// if it is known what the thread waits for.
fn full_output(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<(String, String)> {
    /// Standard error, to which programs write little.
    const ERRORS: u32 = 2;
    let sleep = mostly_in(thread).filter(|sleep| waits::wait_of(sleep) == Wait::Input)?;
    let pipes = facts.observation.output_pipes.iter();
    let own = pipes.filter(|pipe| pipe.pid == thread.pid && pipe.descriptor != ERRORS);
    let pipe = own.min_by_key(|pipe| pipe.descriptor).filter(|_| sleep.object.is_none())?;
    Some((
        format!(
            " The call may also wait for room in an output: descriptor {} is a pipe ({}), which is \
             full whenever its reader is slower.",
            pipe.descriptor, pipe.name
        ),
        format!(
            "Find the reader of that pipe (lsof +E -p {0}) and diagnose it: linerate why READER; \
             strace -f -T -p {0} shows whether {1} waits for POLLOUT",
            thread.pid, sleep.on
        ),
    ))
}

/// Describes what the program's other processes do if the process that owns the socket only waits,
/// because the worker processes of a server share its sockets. Also returns advice, if there is
/// any.
fn workers(facts: &Facts<'_>, owner: &ThreadActivity) -> (String, Option<String>) {
    let listens = |kind| matches!(kind, SocketKind::TcpListen | SocketKind::UnixListen);
    let is_server = facts.observation.sockets.iter().any(|socket| listens(socket.kind));
    if longest_wait(owner) != Some(Wait::Input) || !is_server {
        return (String::new(), None);
    }
    let others = facts.observation.threads.iter().filter(|other| other.pid != owner.pid);
    let mut calls = BTreeMap::<(&str, bool), Vec<u32>>::new();
    for (thread, call) in others.filter_map(|other| Some((other, mostly_in_call(other)?))) {
        calls.entry(call).or_default().push(thread.pid);
    }
    let Some(((on, is_input), pids)) = calls.into_iter().max_by_key(|(_, pids)| pids.len()) else {
        return (String::new(), None);
    };
    let processes = match pids.len() {
        1 => "One other process sleeps".to_owned(),
        many => format!("{many} other processes sleep"),
    };
    let advice = match is_input {
        true => "If they are waiting for further requests on idle connections, close the \
                 connections sooner (keep-alive timeout); or run more worker processes"
            .to_owned(),
        false => format!(
            "Shorten that wait, or run more worker processes; strace -f -T -p {} shows each call",
            pids[0]
        ),
    };
    (format!(" {processes} in {on} most of the time."), Some(advice))
}

/// Returns whether a connection's queue holds no more than one message, and the thread waits for
/// input most of the time. The thread then wakes up for each message, and a reading finds the
/// message in the queue only if the observer, which wakes up on the same CPU, runs first.
fn is_read_at_once(socket: &SocketCounts, thread: &ThreadActivity) -> bool {
    /// Mean number of queued messages above which more than one is waiting.
    const MORE: f64 = 1.5;
    let Some(tcp) = socket.tcp.as_ref().filter(|tcp| tcp.segments_in > 0) else { return false };
    let message = tcp.bytes_received as f64 / tcp.segments_in as f64;
    longest_wait(thread) == Some(Wait::Input) && socket.receive_queue_mean <= MORE * message
}

fn is_on_futex(thread: &ThreadActivity) -> bool {
    mostly_in(thread).is_some_and(|sleep| sleep.on.contains("futex"))
}

/// Returns what a thread waits for most of the time; `None` if there is no such wait.
fn longest_wait(thread: &ThreadActivity) -> Option<Wait> {
    mostly_in(thread).map(waits::wait_of)
}

/// Returns the call in which a thread sleeps for at least half of its time; `None` if there is
/// none.
fn mostly_in(thread: &ThreadActivity) -> Option<&SleepTime> {
    /// Minimum fraction of the thread's time.
    const MOST: f64 = 0.5;
    waits::longest(&thread.asleep_on).filter(|longest| longest.share >= MOST)
}

/// Returns the call in which a thread sleeps for at least half of its time, regardless of the
/// object, and whether it waits for input there; `None` if there is none.
fn mostly_in_call(thread: &ThreadActivity) -> Option<(&str, bool)> {
    /// Minimum fraction of the thread's time.
    const MOST: f64 = 0.5;
    let mut calls = BTreeMap::<(&str, bool), f64>::new();
    for sleep in &thread.asleep_on {
        let is_input = waits::wait_of(sleep) == Wait::Input;
        *calls.entry((&sleep.on, is_input)).or_default() += sleep.share;
    }
    let (call, share) = calls.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (share >= MOST).then_some(call)
}

/// Describes what a thread sleeps on, and how many other threads sleep on the same object: `, and
/// asleep in futex (futex 0x7f00) 96 % of the time, like 3 other threads`.
fn asleep_in(facts: &Facts<'_>, thread: &ThreadActivity, sleep: &SleepTime) -> String {
    let is_same = |other: &&SleepTime| {
        sleep.object.is_some() && (&other.on, &other.object) == (&sleep.on, &sleep.object)
    };
    let others = facts.observation.threads.iter().filter(|other| {
        other.tid != thread.tid
            && other.asleep_on.iter().filter(is_same).any(|same| 2.0 * same.share >= sleep.share)
    });
    let others = match others.count() {
        0 => String::new(),
        1 => ", like another thread".to_owned(),
        many => format!(", like {many} other threads"),
    };
    format!(
        ", and asleep in {} {} % of the time{others}",
        waits::named(sleep),
        percent(sleep.share)
    )
}
