// SPDX-License-Identifier: MIT OR Apache-2.0
//! Problems that the observation does not show: losses whose counter only the program can read, and
//! requests that wait for replies.

use super::super::facts::Facts;
use super::super::functions::is_nameless;
use super::super::herd::Herd;
use super::super::locks;
use super::super::measure::opened::{mostly_opens, turned_away};
use super::super::measure::{asleep_on_unlisted, is_go, is_go_monitor};
use super::super::one_cpu::one_cpu;
use super::super::requests;
use super::super::waits::{Wait, longest, named, time_for_work, time_in, wait_of};
use super::super::words::{label, milliseconds, percent};
use super::{Doubt, GO_LOCKS};
use linerate_record::units::{grouped, three_digits};
use linerate_record::why::{SleepTime, SocketCounts, SocketKind, ThreadActivity, ThreadState};
use std::collections::BTreeMap;

/// Detects a packet socket whose drop counter only its owner can read. All packets of the interface
/// are then attributed to the program, which may never have received them.
pub(super) fn unread_ring(facts: &Facts<'_>) -> Option<Doubt> {
    let count = facts.observation.packets.as_ref().filter(|count| count.packets > 0)?;
    if !count.counter.ends_with("rx_packets") {
        return None;
    }
    let sockets = facts.observation.sockets.iter();
    let mut unread = sockets.filter(|s| s.kind == SocketKind::Packet && s.drops.is_none());
    let socket = unread.next()?;
    let works = facts.busiest().map_or_else(String::new, |thread| {
        let on_cpu = percent(thread.share_of(ThreadState::is_on_cpu));
        format!(" Thread {} is on a CPU {on_cpu} % of the time.", label(thread))
    });
    Doubt::new(
        format!(
            "Cannot tell how many packets are lost at the packet socket on {}: only the program \
             can read that count (PACKET_STATISTICS).{works}",
            socket.local
        ),
        "Read the program's own count of dropped packets (tcpdump prints it on exit), or see \
         whether the program handles more packets with a ring 10 times as large (tcpdump -B)",
    )
}

/// Detects an XDP socket whose drop counters only its owner can read.
pub(super) fn unread_xdp(facts: &Facts<'_>) -> Option<Doubt> {
    let mut sockets = facts.observation.sockets.iter();
    let socket = sockets.find(|one| one.kind == SocketKind::Xdp && one.drops.is_none())?;
    let works = facts.busiest().map_or_else(String::new, |thread| {
        let on_cpu = percent(thread.share_of(ThreadState::is_on_cpu));
        format!(" Thread {} is on a CPU {on_cpu} % of the time.", label(thread))
    });
    Doubt::new(
        format!(
            "Cannot tell how many packets the program receives, and how many are lost at its XDP \
             socket on {}: only the program can read these counts (XDP_STATISTICS), unless the \
             kernel has the module xdp_diag.{works}",
            socket.local
        ),
        "Read the program's own counts of packets and of drops (with xdp_diag, ss --xdp -e prints \
         those of the kernel), or see whether the program handles more packets with larger rings",
    )
}

/// Detects a program that waits for input on sockets of kinds that are not listed: netlink, SCTP,
/// vsock, CAN.
pub(super) fn unlisted_sockets(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of the thread's time, and minimum number of sleeps per second of a thread
    /// other than the busiest.
    const MUCH: f64 = 0.3;
    const SLEEPS_PER_S: f64 = 5.0;
    // A brief TCP connection may be in no list, either.
    let accepts = facts.protocol("Tcp.PassiveOpens").is_none_or(|accepted| accepted > 0);
    let may_be_brief = |one: &SocketCounts| match one.kind {
        SocketKind::Tcp => true,
        SocketKind::TcpListen => accepts,
        _ => false,
    };
    let is_brief =
        facts.is_unread("tcp_segments") || facts.observation.sockets.iter().any(may_be_brief);
    if is_brief || facts.packets().is_some_and(|packets| packets > 0) {
        return None;
    }
    let busiest = facts.busiest().map(|thread| thread.tid);
    let is_active = |one: &&ThreadActivity| {
        Some(one.tid) == busiest || one.voluntary_switches as f64 >= SLEEPS_PER_S * facts.elapsed()
    };
    let active = facts.observation.threads.iter().filter(is_active);
    let waits = active.map(|thread| (thread, asleep_on_unlisted(thread)));
    let (thread, share) = waits.max_by(|a, b| a.1.total_cmp(&b.1))?;
    if share < MUCH {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell whether the program keeps up: thread {} waits {} % of the time for input \
             on a socket that is in none of the lists read. Unless it is open only briefly, it is \
             not a TCP, UDP, packet or Unix socket, but of another kind (netlink, SCTP, vsock, \
             CAN) for which nothing is counted.",
            label(thread),
            percent(share)
        ),
        "Look for drops in the program's own statistics, in the column Drops of /proc/net/netlink, \
         or in /proc/net/netfilter/nfnetlink_queue (NFQUEUE)",
    )
}

/// Detects clients waiting for replies while all threads of the program are asleep.
pub(super) fn unanswered(facts: &Facts<'_>) -> Option<Doubt> {
    let Some(delayed) = requests::delayed(facts).filter(|delayed| delayed.low >= requests::DELAYED)
    else {
        return long_work(facts);
    };
    let counts = facts.observation.requests.as_ref()?;
    let thread = facts.busiest()?;
    let time = counts.reply_time.as_number().map_or_else(String::new, |seconds| {
        format!(" A reply takes {} on average.", milliseconds(1e3 * seconds))
    });
    let other = requests::server(facts).map_or_else(
        || "a lock, a timer, a disk or another program".to_owned(),
        |server| format!("a lock, a timer, a disk or the server {server} that it queries"),
    );
    let (together, longest) = (asleep_together(facts), other_waits(facts));
    // What the largest group waits for may itself be held up by a few other threads.
    let longest =
        longest.filter(|(_, call)| together.as_ref().is_none_or(|(_, other)| call != other));
    let asleep = together.map_or_else(String::new, |(sentence, _)| sentence)
        + &longest.map_or_else(String::new, |(sentence, _)| sentence);
    let doubt = Doubt::new(
        format!(
            "Cannot tell what delays the replies: {} % of the time, a client is waiting for one \
             while all threads of the program are asleep.{time}{asleep} The threads may be waiting \
             for {other}.",
            percent(delayed.value)
        ),
        match is_go(facts, thread) {
            true => GO_LOCKS.to_owned(),
            false => format!(
                "See what the program does between request and reply: strace -f -T -p {}",
                thread.pid
            ),
        },
    )?;
    Some(doubt.with("time with a request pending while all threads sleep", delayed.value, "ratio"))
}

/// Detects requests that wait for milliseconds although the program has idle time: the program
/// works in long stretches, each of which delays all other requests.
fn long_work(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of readings in which a request had waited for 4 ms or longer.
    const LATE: f64 = 0.2;
    /// Minimum for the lower end of that fraction's interval.
    const LEAST: f64 = 0.05;
    // Of few readings, a small share may be a coincidence.
    let late = requests::late(facts).filter(|late| late.value >= LATE && late.low >= LEAST)?;
    let thread = facts.busiest()?;
    let doubt = Doubt::new(
        format!(
            "Cannot tell what delays the replies: in {} % of the readings, a request had been \
             waiting for 4 ms or longer, while the busiest thread, {}, works {} % of the time. \
             Either it works in long stretches (a slow request, a long callback, garbage \
             collection), each of which delays all other requests, or requests are waiting for a \
             lock, a timer, a disk or another server.{}{}",
            percent(late.value),
            label(thread),
            percent(thread.share_of(ThreadState::is_on_cpu)),
            other_waits(facts).map_or_else(String::new, |(sentence, _)| sentence),
            one_cpu(facts)
        ),
        format!(
            "Find the long stretches of work with linerate profile --timeline {}, or in the \
             program's slow-request log",
            thread.pid
        ),
    )?;
    Some(doubt.with("readings with a request that waits for 4 ms or longer", late.value, "ratio"))
}

/// Detects threads of which all but one sleep on the same futex at any time, in a program whose
/// requests are not counted.
pub(super) fn taking_turns(facts: &Facts<'_>) -> Option<Doubt> {
    let queue = locks::one_at_a_time(facts)?;
    let thread = facts.busiest()?;
    let holder = queue.holder.map_or_else(String::new, |call| format!(", which sleeps in {call}"));
    Doubt::new(
        format!(
            "Cannot tell whether threads are waiting for a lock (user_lock) or for work \
             (nothing_wrong): on average, {} threads sleep in {} (at any time, all but \
             one{holder}).",
            three_digits(queue.waiting),
            queue.call
        ),
        format!(
            "Find out which thread holds the lock and for how long: strace -f -k -T -e futex -p {}",
            thread.pid
        ),
    )
}

/// Detects a program most of whose clients have been waiting for a reply since before the window.
pub(super) fn silent(facts: &Facts<'_>) -> Option<Doubt> {
    let counts = facts.observation.requests.as_ref()?;
    let silent = counts.silent;
    if silent < 2 || silent < counts.connections {
        return None;
    }
    let thread = facts.busiest()?;
    Doubt::new(
        format!(
            "Cannot tell whether requests are hanging: on {silent} connections, the client has \
             sent something and received nothing since before the window, while {} other \
             connections have traffic. The {silent} connections may be long polls, or may be \
             waiting for a lock or another server.",
            counts.connections
        ),
        format!(
            "See what these requests are waiting for: strace -f -p {}, or the program's own list \
             of sessions",
            thread.pid
        ),
    )
}

/// Detects threads that wake up several times per packet and then compete for CPUs, as when all of
/// them are woken for each connection.
pub(super) fn woken_together(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum number of threads that are woken together.
    const THREADS: usize = 8;
    /// Minimum number of sleeps per packet of all threads together.
    const SLEEPS: f64 = 2.0;
    /// Minimum number of sleeps per second and thread, if packets are not counted.
    const PER_S: f64 = 20.0;
    let herd = Herd::of(facts);
    let each_per_s = herd.sleeps as f64 / facts.elapsed() / herd.threads.len().max(1) as f64;
    let often = match herd.sleeps_per_packet(facts) {
        Some(sleeps) if sleeps >= SLEEPS => {
            format!("{} times per packet in total", three_digits(sleeps))
        }
        None if each_per_s >= PER_S => {
            format!("{} times per second each", three_digits(each_per_s))
        }
        _ => return None,
    };
    if herd.threads.len() < THREADS {
        return None;
    }
    let used: f64 = herd.threads.iter().map(|one| one.share_of(ThreadState::is_on_cpu)).sum();
    Doubt::new(
        format!(
            "Cannot tell how many of the wake-ups find work: {} threads waiting for input wake up \
             {often}, use {} CPUs, and compete with one another for CPUs. If all of them are woken \
             for each connection, all but one find nothing (thundering herd).",
            herd.threads.len(),
            three_digits(used)
        ),
        "Wake only one of them: use EPOLLEXCLUSIVE, accept in one thread, or give each a listening \
         socket (SO_REUSEPORT); or run fewer threads or processes",
    )
}

/// Detects a thread that sleeps on a timer about once per packet and waits for nothing else, in a
/// program whose other threads receive the packets: the thread may be a pipeline stage that is too
/// slow.
pub(super) fn slow_stage(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of time asleep on the timer.
    const MOST: f64 = 0.8;
    /// Maximum fraction of time waiting for work.
    const HARDLY: f64 = 0.02;
    /// Minimum number of sleeps per second.
    const PER_S: f64 = 100.0;
    /// Range of the number of sleeps per packet.
    const PER_PACKET: std::ops::RangeInclusive<f64> = 0.1..=1.5;
    let packets = facts.packets().filter(|packets| *packets > 0)? as f64;
    let per_packet = |thread: &ThreadActivity| thread.voluntary_switches as f64 / packets;
    let is_stage = |thread: &&ThreadActivity| {
        time_in(thread, Wait::Timer).is_some_and(|timer| timer >= MOST)
            && time_for_work(thread).is_some_and(|time| time <= HARDLY)
            && thread.voluntary_switches as f64 >= PER_S * facts.elapsed()
            && PER_PACKET.contains(&per_packet(thread))
            && !is_go_monitor(facts, thread)
    };
    // Without samples of functions with names, Go's monitor thread cannot be recognized.
    let has_names = |one: &ThreadActivity| one.functions.iter().any(|it| !is_nameless(it));
    let has_samples = facts.observation.threads.iter().any(has_names);
    let thread = facts.observation.threads.iter().find(is_stage).filter(|_| has_samples)?;
    if replies_sooner(facts, thread) {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell whether thread {} holds up packets (timer_sleep): it sleeps on a timer {} \
             % of the time, {:.2} times per packet, and never waits for input or for other \
             threads. If other threads pass packets to it, its pauses limit the rate, and only the \
             program itself can count drops at its queue.",
            label(thread),
            percent(time_in(thread, Wait::Timer).unwrap_or_default()),
            per_packet(thread)
        ),
        format!(
            "Compare the program's own counts of packets received and packets processed; strace -f \
             -T -p {} shows the sleeps",
            thread.tid
        ),
    )
}

/// Returns whether clients get their replies in much less time than `thread` sleeps at a time. The
/// thread then does maintenance, and takes no part in requests.
fn replies_sooner(facts: &Facts<'_>, thread: &ThreadActivity) -> bool {
    /// Maximum reply time relative to the thread's mean sleep. A request that waits for the thread
    /// waits for half a sleep on average.
    const SOONER: f64 = 0.25;
    let asleep = time_in(thread, Wait::Timer).unwrap_or_default() * thread.elapsed_s;
    let sleep_s = asleep / thread.voluntary_switches.max(1) as f64;
    let reply = facts.observation.requests.as_ref().and_then(|one| one.reply_time.estimate());
    reply.is_some_and(|reply| reply.high <= SOONER * sleep_s)
}

/// Detects a program that closes connections on which its clients are still sending, as programs do
/// at their connection limit.
pub(in super::super) fn turns_away(facts: &Facts<'_>) -> Option<Doubt> {
    let (accepted, aborted) = turned_away(facts)?;
    let thread = facts.busiest()?;
    Doubt::new(
        format!(
            "Cannot tell why connections are closed while their clients are still sending: {} were \
             accepted in the network namespace, and {} were reset because data was unread or still \
             arriving. The program may have reached its connection limit and be closing \
             connections without a reply, or it may be rejecting requests; or clients on this \
             machine may have reset their connections.",
            grouped(accepted),
            grouped(aborted)
        ),
        format!(
            "Look at the program's error log and at its limit on connections (worker_connections \
             of nginx, maxclients of Redis, max_connections of PostgreSQL); strace -f -e \
             trace=accept4,close,write -p {} shows what it does with connections",
            thread.pid
        ),
    )
}

/// Like [`turns_away`], for a program that spends much of its time opening and closing connections.
pub(in super::super) fn mostly_turns_away(facts: &Facts<'_>) -> Option<Doubt> {
    mostly_opens(facts).then(|| turns_away(facts))?
}

/// Detects a program that mostly serves Unix domain sockets, for which there are no counters.
pub(super) fn on_unix_sockets(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum number of sleeps per counted packet. A thread that sleeps more often gets most of
    /// its work in other ways than in packets.
    const SLEEPS_PER_PACKET: f64 = 5.0;
    /// Minimum number of sleeps per second.
    const SLEEPS_PER_S: f64 = 20.0;
    let clients = facts.observation.unix_clients?;
    let sleeps: u64 = facts.observation.threads.iter().map(|one| one.voluntary_switches).sum();
    let packets = facts.packets().unwrap_or(0) as f64;
    let is_much = sleeps as f64 >= SLEEPS_PER_S * facts.elapsed();
    if waits_for_clients(facts)
        || clients == 0
        || !is_much
        || (sleeps as f64) < SLEEPS_PER_PACKET * packets
    {
        return None;
    }
    let thread = facts.busiest()?;
    let sockets = facts.observation.sockets.iter().filter(|one| one.kind == SocketKind::Unix);
    let waits = sockets.filter_map(|one| one.receive_queue_share).fold(0.0, f64::max);
    let unread = match percent(waits) {
        _ if waits < 0.01 => String::new(),
        share => format!(", and one of them had unread input in {share} % of the readings"),
    };
    Doubt::new(
        format!(
            "Cannot tell whether requests are waiting: most arrive on Unix domain sockets \
             ({clients} connections), for which the kernel keeps no counters. Thread {} works {} % \
             of the time{unread}.",
            label(thread),
            percent(thread.share_of(ThreadState::is_on_cpu))
        ),
        format!(
            "Measure the time from request to reply: strace -f -r -e trace=network,read,write -p \
             {}, or the program's own statistics",
            thread.pid
        ),
    )
}

/// Returns whether active threads sleep mostly in calls that read from a single accepted Unix
/// domain connection. A thread that sleeps there has answered all requests.
fn waits_for_clients(facts: &Facts<'_>) -> bool {
    /// Minimum fraction of the time asleep.
    const MOST: f64 = 0.8;
    let is_accepted = |sleep: &SleepTime| {
        let object = sleep.object.as_deref().unwrap_or_default();
        object.starts_with("unix /") || object.starts_with("unix @")
    };
    let active = facts.observation.threads.iter().filter(|one| one.voluntary_switches > 0);
    let sleeps: Vec<&SleepTime> = active.flat_map(|thread| &thread.asleep_on).collect();
    let all: f64 = sleeps.iter().map(|sleep| sleep.share).sum();
    let for_clients = sleeps.iter().filter(|sleep| is_accepted(sleep)).map(|sleep| sleep.share);
    for_clients.sum::<f64>() >= MOST * all && all > 0.0
}

/// Returns a sentence about the storage, lock or timer call with the longest total sleep time over
/// all threads, and the call; `None` if that time is short.
fn other_waits(facts: &Facts<'_>) -> Option<(String, String)> {
    /// Minimum total time of all threads, relative to the window.
    const MUCH: f64 = 0.3;
    let mut calls = BTreeMap::<String, f64>::new();
    let threads = facts.observation.threads.iter();
    let threads = threads.filter(|thread| !is_go_monitor(facts, thread));
    for sleep in threads.flat_map(|thread| &thread.asleep_on) {
        if matches!(wait_of(sleep), Wait::Storage | Wait::Lock | Wait::Timer) {
            *calls.entry(named(sleep)).or_default() += sleep.share;
        }
    }
    let longest = calls.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let (call, share) = longest.filter(|(_, share)| *share >= MUCH)?;
    let share = percent(share);
    Some((format!(" In total, the program's threads sleep in {call} {share} % of the time."), call))
}

/// Returns a sentence about the call in which the largest number of threads sleep most of the time,
/// ignoring calls that wait for client input, and the call; `None` if there is no such call.
fn asleep_together(facts: &Facts<'_>) -> Option<(String, String)> {
    /// Minimum fraction of a thread's time.
    const MOST: f64 = 0.5;
    /// Minimum number of sleeps per second.
    const ACTIVE_PER_S: f64 = 5.0;
    let mut groups = BTreeMap::<String, usize>::new();
    // Replies that never arrive, as from a name server that is down.
    let of_server = |object: &str| {
        let (of_udp, server) = object.split_once(" to ")?;
        of_udp.starts_with("udp").then(|| format!("(udp to {server})"))
    };
    for thread in &facts.observation.threads {
        let longest = longest(&thread.asleep_on).filter(|sleep| sleep.share >= MOST);
        let server =
            longest.and_then(|sleep| Some((&sleep.on, of_server(sleep.object.as_deref()?)?)));
        if let Some((call, server)) = server {
            *groups.entry(format!("{call} {server}")).or_default() += 1;
        }
    }
    // Threads that hardly ever wake up have nothing to do with the requests.
    let is_active =
        |one: &&ThreadActivity| one.voluntary_switches as f64 >= ACTIVE_PER_S * facts.elapsed();
    let active = facts.observation.threads.iter().filter(is_active);
    for thread in active.filter(|thread| !is_go_monitor(facts, thread)) {
        let longest = longest(&thread.asleep_on).filter(|sleep| sleep.share >= MOST);
        // Threads of the Go runtime sleep in futexes when no goroutine runs.
        let is_idle = |sleep: &SleepTime| sleep.on == "futex" && is_go(facts, thread);
        let held = longest.filter(|sleep| wait_of(sleep) != Wait::Input && !is_idle(sleep));
        if let Some(sleep) = held {
            *groups.entry(named(sleep)).or_default() += 1;
        }
    }
    let (call, threads) = groups.into_iter().max_by_key(|(_, threads)| *threads)?;
    let sentence = match threads {
        1 if call.contains("nanosleep") => format!(
            " One thread sleeps in {call} most of the time: if it checks for requests only after \
             each sleep, the sleep delays them (timer_sleep)."
        ),
        1 => format!(" One thread sleeps in {call} most of the time."),
        many => format!(" {many} threads sleep in {call} most of the time."),
    };
    Some((sentence, call))
}
