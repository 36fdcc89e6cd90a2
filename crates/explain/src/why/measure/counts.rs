// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the totals that the measures are based on, over the whole observation.

use super::super::asked::{on_asked_by_udp, on_asked_servers};
use super::super::facts::{Facts, Subject, share, share_of};
use super::super::one_cpu::one_cpu;
use super::super::requests;
use super::super::roles::on_servers;
use super::super::waits::{Wait, is_at_mutex, time_in, wait_of};
use super::Measure;
use linerate_record::stats::Estimate;
use linerate_record::why::{
    FullDescriptors, InterfaceCounts, RanInstead, SleepTime, SocketCounts, SocketKind, TcpCounts,
    ThreadActivity, ThreadState,
};
use std::collections::BTreeMap;

/// Returns the mean packet size in bytes, from the packet counter or else from the interface with
/// the most packets.
pub(super) fn bytes_per_packet(facts: &Facts<'_>) -> Option<f64> {
    let count = facts.observation.packets.as_ref().filter(|count| count.packets > 0)?;
    if let Some(bytes) = count.bytes {
        return Some(bytes as f64 / count.packets as f64);
    }
    let most =
        facts.observation.interfaces.iter().max_by_key(|i| i.rx_packets.max(i.tx_packets))?;
    let (packets, bytes) = match most.rx_packets >= most.tx_packets {
        true => (most.rx_packets, most.rx_bytes),
        false => (most.tx_packets, most.tx_bytes),
    };
    // Other programs may use the interface too.
    (2 * packets >= count.packets && packets > 0).then(|| bytes as f64 / packets as f64)
}

/// Returns bytes per packet sent by the busiest interface, before segmentation.
pub(super) fn bytes_per_transmit(facts: &Facts<'_>) -> Option<f64> {
    let most = facts.observation.interfaces.iter().max_by_key(|i| i.tx_bytes)?;
    (most.tx_packets > 0).then(|| most.tx_bytes as f64 / most.tx_packets as f64)
}

/// Returns how often the thread waited for a CPU: from scheduler tracepoints or, if these did not
/// cover all its waits, from context switches. A thread waits once for each time it was switched
/// out, if only for an instant.
pub(super) fn waits(facts: &Facts<'_>, thread: &ThreadActivity) -> u64 {
    /// Maximum ratio of context switches to traced waits. Above it, events are missing, as on CPUs
    /// that some kernels do not trace while they are idle.
    const MISSING: u64 = 2;
    let counted: u64 = thread.waits_us_log2.iter().sum();
    let switches = thread.involuntary_switches + thread.voluntary_switches;
    let is_traced = counted > 0 && facts.ran_where_traced(thread);
    if is_traced && switches <= MISSING * counted { counted } else { counted.max(switches) }
}

/// Returns the fraction of time that the thread was throttled or, if that is unknown, the fraction
/// of quota periods in which its group was throttled.
pub(super) fn throttled(facts: &Facts<'_>, thread: &ThreadActivity) -> Estimate {
    if let Some(own) = thread.share(ThreadState::Throttled).and_then(share_of) {
        return own;
    }
    let quotas = facts.observation.quotas.iter().filter(|q| q.pids.contains(&thread.pid));
    let throttled = quotas.map(|quota| match quota.periods {
        0 => 0.0,
        periods => quota.throttled_periods as f64 / periods as f64,
    });
    share(throttled.fold(0.0, f64::max))
}

/// Returns the number of system calls over all threads, as a lower bound and, if all of them were
/// counted, an upper bound; `None` if not even the I/O calls were counted.
pub(super) fn system_calls(facts: &Facts<'_>) -> Option<(u64, Option<u64>)> {
    let threads = &facts.observation.threads;
    let calls: Option<u64> = threads.iter().map(|thread| thread.system_calls).sum();
    // The I/O calls, which any user may count, are a subset of the system calls.
    let some: Option<u64> = threads.iter().map(|thread| thread.io_calls).sum();
    match (calls, some) {
        (Some(calls), some) => {
            let calls = calls.max(some.unwrap_or(0));
            Some((calls, Some(calls)))
        }
        (None, some) => Some((some?, None)),
    }
}

/// Returns the peer's receive window relative to the bandwidth-delay product (rate times minimum
/// RTT), for the sending connection that transferred the most bytes.
pub(super) fn peer_window(facts: &Facts<'_>) -> Option<Estimate> {
    /// Ratio reported for a window that is always full; larger than any real ratio.
    const ALWAYS_FULL: f64 = 1e9;
    let (socket, most) = stopped_by_peer(facts)?;
    // Even a small buffer is empty now and then; one that is full at every reading is not being
    // read.
    if most.peer_window_max == Some(0) {
        return Facts::readings(socket).map(|_| Estimate::exactly(ALWAYS_FULL));
    }
    // A window smaller than a segment may mean a tiny buffer, or a large buffer that is always
    // full.
    if most.peer_window_max? < most.mss.into() {
        return None;
    }
    let rate = most.bytes_acked as f64 / facts.elapsed();
    Some(of_rate(most.peer_window_max? as f64, rate, most))
}

/// Returns the connection that transferred the most bytes of those that the peer's window stopped;
/// `None` if it stopped none.
pub(in super::super) fn stopped_by_peer<'a>(
    facts: &Facts<'a>,
) -> Option<(&'a SocketCounts, &'a TcpCounts)> {
    let sockets = facts.connections().filter_map(|socket| Some((socket, socket.tcp.as_ref()?)));
    let stopped = sockets.filter(|(_, tcp)| tcp.rwnd_limited_s > 0.0);
    stopped.max_by_key(|(_, tcp)| tcp.bytes_acked)
}

/// Returns the process that was most often at its limit on open descriptors; `None` if none was.
pub(in super::super) fn fullest<'a>(facts: &Facts<'a>) -> Option<&'a FullDescriptors> {
    facts.observation.full_descriptors.iter().max_by(|a, b| a.share.total_cmp(&b.share))
}

/// Returns a number of bytes relative to the bandwidth-delay product of a connection that carries
/// `rate` bytes per second.
pub(super) fn of_rate(bytes: f64, rate: f64, tcp: &TcpCounts) -> Estimate {
    /// Minimum round-trip time under load, in seconds: 23 to 36 us were measured over a veth pair,
    /// of which 3 to 5 us are due to the path.
    const SHORTEST_S: f64 = 50e-6;
    /// Error factor of the ratio: the RTT is longer under load, and the window may have shrunk by
    /// the time it is read.
    const FACTOR: f64 = 2.0;
    let over = bytes / (rate * tcp.min_rtt_s.max(SHORTEST_S)).max(1.0);
    Estimate { low: over / FACTOR, high: over * FACTOR, ..Estimate::exactly(over) }
}

/// Like [`on_asked_servers`], but `None` if the thread's system calls could not be read. Of threads
/// other than the busiest, waits on TCP connections do not count if hardly any client waits
/// meanwhile.
pub(super) fn asleep_on_server(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
    /// Fraction of readings below which clients do not wait for the servers.
    const SELDOM: f64 = 0.1;
    let is_busiest = facts.busiest().is_some_and(|busiest| busiest.tid == thread.tid);
    let awaiting = requests::awaiting_servers(facts);
    let is_helper = !is_busiest && awaiting.is_some_and(|awaiting| awaiting.high < SELDOM);
    let asleep = if is_helper { on_asked_by_udp } else { on_asked_servers };
    (!thread.asleep_on.is_empty()).then(|| share(asleep(facts, thread)))
}

/// Returns the number of page faults over all threads.
pub(in super::super) fn faults(facts: &Facts<'_>) -> u64 {
    facts.observation.threads.iter().map(|thread| thread.minor_faults + thread.major_faults).sum()
}

/// Returns the number of page faults, over all threads, for which data was read from disk.
pub(super) fn major_faults(facts: &Facts<'_>) -> u64 {
    facts.observation.threads.iter().map(|thread| thread.major_faults).sum()
}

/// Returns the fraction of time that a thread sleeps in page faults that read from disk: each one
/// is a sleep, and all sleeps are assumed to be equally long. If the calls in which it sleeps were
/// read, it is at most the time in calls other than waits for input, threads or timers.
pub(super) fn asleep_in_faults(thread: &ThreadActivity) -> f64 {
    let sleeps = thread.voluntary_switches.max(thread.major_faults).max(1);
    let asleep = thread.share_of(|state| state == ThreadState::Asleep);
    let by_number = asleep * thread.major_faults as f64 / sleeps as f64;
    let in_faults = [Wait::Storage, Wait::Other, Wait::Unknown];
    let known: Option<f64> = in_faults.into_iter().map(|wait| time_in(thread, wait)).sum();
    known.map_or(by_number, |known| by_number.min(known))
}

/// Returns the fraction of the CPU time of a thread's process that is spent in threads that hardly
/// sleep on timers. If the fraction is large, a thread that sleeps on timers is a background
/// thread.
pub(in super::super) fn work_without_timers(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    /// Maximum fraction of time asleep on timers.
    const HARDLY: f64 = 0.1;
    let works = |of: &dyn Fn(&ThreadActivity) -> bool| -> f64 {
        let threads = facts.observation.threads.iter().filter(|other| other.pid == thread.pid);
        threads.filter(|other| of(other)).map(|one| one.share_of(ThreadState::is_on_cpu)).sum()
    };
    let has_no_timers =
        |other: &ThreadActivity| time_in(other, Wait::Timer).is_none_or(|timer| timer < HARDLY);
    works(&has_no_timers) / works(&|_| true).max(f64::MIN_POSITIVE)
}

/// Returns the mean fraction of time that working threads sleep on futexes; `None` if sleep times
/// were not measured.
pub(super) fn asleep_on_futex(facts: &Facts<'_>) -> Option<Estimate> {
    let working: Vec<_> = facts.working().collect();
    let sleeps = working.iter().flat_map(|thread| &thread.asleep_on);
    let on_futex = sleeps.filter(|sleep| sleep.on.contains("futex"));
    let sum: f64 = on_futex.map(|sleep| sleep.share).sum();
    let is_read = facts.observation.threads.iter().any(|thread| !thread.asleep_on.is_empty());
    is_read.then(|| share(sum / working.len().max(1) as f64))
}

/// Returns the mean fraction of time that working threads sleep on locks: on mutexes or, if all
/// threads together use one CPU, on any futex that several threads share, because an interpreter's
/// lock is a condition variable. `None` if most of their futexes, or all sleeps, are unknown.
pub(super) fn asleep_on_mutex(facts: &Facts<'_>) -> Option<f64> {
    /// Minimum fraction of readings with a pending request for clients to count as always waiting.
    const PENDING: f64 = 0.9;
    // If packets are lost or clients wait, a total CPU time of one CPU is unlikely to be a
    // coincidence.
    let is_late = facts.is_lossy()
        || requests::counts(facts).is_some_and(|counts| counts.pending_share >= PENDING);
    let take_turns = is_late && !one_cpu(facts).is_empty();
    let working: Vec<_> = facts.working().collect();
    let time = |is_meant: fn(&SleepTime) -> bool| -> f64 {
        let sleeps = working.iter().flat_map(|thread| &thread.asleep_on);
        sleeps.filter(|sleep| is_meant(sleep)).map(|sleep| sleep.share).sum()
    };
    let all = time(|sleep| sleep.on.contains("futex"));
    let known = time(|sleep| sleep.on.contains("futex") && sleep.object.is_some());
    let locks = if take_turns { shared_futexes(&working) } else { time(is_at_mutex) };
    let is_read = working.iter().any(|thread| !thread.asleep_on.is_empty())
        || !facts.is_unread("system_calls_asleep");
    (is_read && 2.0 * known >= all).then(|| locks / working.len().max(1) as f64)
}

/// Returns the total time, as a sum of fractions, that the threads sleep on futexes that at least
/// two of them share.
fn shared_futexes(threads: &[&ThreadActivity]) -> f64 {
    let mut users = BTreeMap::<(u32, &str), (u32, f64)>::new();
    for thread in threads {
        for sleep in thread.asleep_on.iter().filter(|sleep| sleep.on.contains("futex")) {
            let Some(object) = &sleep.object else { continue };
            let (threads, share) = users.entry((thread.pid, object)).or_default();
            (*threads, *share) = (*threads + 1, *share + sleep.share);
        }
    }
    users.values().filter(|(threads, _)| *threads > 1).map(|(_, share)| share).sum()
}

/// Returns the number of bytes transferred on the program's TCP connections or, if it has none, the
/// number of bytes in its packets; `None` if these were not counted.
pub(super) fn bytes(facts: &Facts<'_>) -> Option<u64> {
    let counted = facts.observation.packets.as_ref().and_then(|count| count.bytes);
    let tcps = facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let of_tcp = tcps.map(|tcp| tcp.bytes_received + tcp.bytes_acked).reduce(|a, b| a + b);
    of_tcp.or(counted)
}

/// Returns the CPU time of threads and child processes that ended before they were observed, in
/// CPUs.
pub(super) fn ended_cpus(facts: &Facts<'_>) -> f64 {
    let ended = [facts.observation.ended_threads_cpus, facts.observation.ended_children_cpus];
    ended.into_iter().flatten().sum()
}

/// Returns whether all offloads in `names` are off on an interface; `None` if it reports none of
/// them, or if it is a TUN or TAP device, whose offloads only the program behind it can switch on.
pub(super) fn is_off(interface: &InterfaceCounts, names: &[&str]) -> Option<bool> {
    const TUN: &str = "tun";
    if interface.driver.as_deref() == Some(TUN) {
        return None;
    }
    let states: Vec<bool> =
        names.iter().filter_map(|name| interface.features.get(*name).copied()).collect();
    (!states.is_empty()).then(|| states.iter().all(|is_on| !is_on))
}

/// CPU time of threads that ended, in CPUs, below which none are assumed to have ended: 0.03 to
/// 0.06 CPUs were counted for programs in which no thread ended.
pub(super) const ENDED: f64 = 0.1;

/// Returns the fraction of time that a thread waited while other programs' threads ran on its CPU,
/// excluding kernel threads that process its packets. The process of a thread that has ended is
/// unknown. It may have been the program's, as far as ended threads of the program used CPU time.
pub(super) fn others_instead(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
    if facts.untraced().is_some() {
        return None;
    }
    let observation = facts.observation;
    let is_observed = |tid: u32| observation.threads.iter().any(|thread| thread.tid == tid);
    let is_own = |one: &RanInstead| {
        one.tid.is_some_and(is_observed)
            || one.pid.is_some_and(|pid| observation.watched.pids.contains(&pid))
    };
    let others = thread.ran_instead.iter().filter(|one| !is_own(one) && !is_softirq_thread(one));
    let (known, unknown): (Vec<_>, Vec<_>) = others.partition(|one| one.pid.is_some());
    let of_time = |ran: Vec<&RanInstead>| {
        ran.iter().map(|one| one.seconds).sum::<f64>() / thread.elapsed_s.max(1e-9)
    };
    let (known, unknown) = (of_time(known), of_time(unknown));
    let own_at_most = match observation.ended_threads_cpus {
        None if observation.threads_left_out > 0 => f64::INFINITY,
        _ => Some(ended_cpus(facts)).filter(|cpus| *cpus >= ENDED).unwrap_or(0.0),
    };
    let others = share(known + (unknown - own_at_most).max(0.0));
    Some(Estimate { high: share(known + unknown).high, ..others })
}

/// Like [`others_instead`], but without the program's peers.
pub(super) fn strangers_instead(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
    let is_peer = |pid| facts.observation.sockets.iter().any(|socket| socket.peer_pid == Some(pid));
    let of_peers = thread.ran_instead.iter().filter(|one| one.pid.is_some_and(is_peer));
    let seconds: f64 = of_peers.map(|one| one.seconds).sum();
    let others = others_instead(facts, thread)?;
    let strangers = share(others.value - seconds / thread.elapsed_s.max(1e-9));
    let unknown = others.high - share(others.value).high;
    Some(Estimate { high: strangers.high + unknown, ..strangers })
}

fn waited_s(thread: &ThreadActivity) -> f64 {
    thread.share_of(|state| state == ThreadState::Waiting) * thread.elapsed_s
}

/// Returns the CPU time of the threads that are known to have run while a thread waited for its
/// CPU, relative to the time spent waiting; 1 if the scheduler was not traced. The ratio is small
/// if many threads ran, each for a short time, because only the threads that ran longest are
/// listed.
pub(super) fn instead_known(thread: &ThreadActivity) -> f64 {
    let known: f64 = thread.ran_instead.iter().map(|one| one.seconds).sum();
    let waited = waited_s(thread);
    if known > 0.0 && waited > 0.0 { (known / waited).min(1.0) } else { 1.0 }
}

/// Returns the share of the program's own threads in the CPU time of all threads that ran while a
/// thread waited for its CPU; 0 if another CPU has room for them, or if other programs ran too. If
/// it is not known what ran there, returns the share of the program's other threads in the CPU time
/// that all other threads used on any CPU.
pub(super) fn own_instead(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    /// Minimum idle CPU time that leaves room for another thread, in CPUs.
    const ROOM: f64 = 0.3;
    /// Minimum fraction of time in which other programs ran; exceeds the error of accounting.
    const OTHERS: f64 = 0.1;
    let is_own = |one: &&RanInstead| {
        one.pid.is_some_and(|pid| facts.observation.watched.pids.contains(&pid))
    };
    let Some(strangers) = strangers_instead(facts, thread) else {
        return own_on_all_cpus(facts, thread);
    };
    if strangers.value >= OTHERS {
        return 0.0;
    }
    let all: f64 = thread.ran_instead.iter().map(|one| one.seconds).sum();
    let own: f64 = thread.ran_instead.iter().filter(is_own).map(|one| one.seconds).sum();
    let has_room = facts.idle_cpus().is_none_or(|idle| idle >= ROOM);
    if has_room || all <= 0.0 { 0.0 } else { own / all }
}

/// Returns the share of the kernel's softirq threads in the CPU time of all threads that ran while
/// a thread waited for its CPU.
pub(super) fn softirqs_instead(thread: &ThreadActivity) -> f64 {
    let all: f64 = thread.ran_instead.iter().map(|one| one.seconds).sum();
    let softirqs = thread.ran_instead.iter().filter(|one| is_softirq_thread(one));
    if all > 0.0 { softirqs.map(|one| one.seconds).sum::<f64>() / all } else { 0.0 }
}

/// Returns the share of the program's other threads in the CPU time that all threads except
/// `thread` used on any CPU; 0 if the program's threads need no more CPUs than there are.
fn own_on_all_cpus(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    let threads = facts.observation.threads.iter().filter(|one| !facts.is_brief(one));
    let needed: f64 = threads.map(ThreadActivity::demand).sum();
    let Some(idle) = facts.idle_cpus() else { return 0.0 };
    if needed <= facts.cpus() as f64 {
        return 0.0;
    }
    let on_cpu = thread.share_of(ThreadState::is_on_cpu);
    let left = facts.cpus() as f64 - idle - on_cpu;
    if left > 0.0 { ((facts.used_cpus() - on_cpu) / left).clamp(0.0, 1.0) } else { 0.0 }
}

/// Returns the fraction of a thread's wait for its CPU during which programs other than its peers
/// ran, as far as known. These programs could run less without slowing the observed program down.
pub(in super::super) fn share_of_strangers(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    /// Maximum CPU time of peers that hardly run, in CPUs.
    const HARDLY: f64 = 0.02;
    let is_peer = |pid: u32| {
        facts.observation.watched.pids.contains(&pid)
            || facts.observation.sockets.iter().any(|s| s.peer_pid == Some(pid))
    };
    let seconds = |is_counted: &dyn Fn(&RanInstead) -> bool| -> f64 {
        let ran = thread.ran_instead.iter().filter(|one| is_counted(one));
        ran.map(|one| one.seconds).sum()
    };
    let all = seconds(&|_| true);
    if all > 0.0 {
        // Only the threads that ran longest are listed.
        let all = all.max(waited_s(thread));
        return seconds(&|one| !one.pid.is_some_and(is_peer)) / all;
    }
    // The peers of datagram sockets are not known.
    let has_datagrams =
        facts.observation.sockets.iter().any(|socket| socket.kind == SocketKind::Udp);
    let peers: f64 = facts.observation.peers.iter().map(|peer| peer.cpus).sum();
    if peers <= HARDLY && !has_datagrams { 1.0 } else { 0.0 }
}

/// Returns the CPU time of the program's other threads that ran on the thread's CPU and sleep on
/// the same futex. Behind a common lock, only one of them can run at a time.
pub(super) fn takes_turns(facts: &Facts<'_>, thread: &ThreadActivity) -> Estimate {
    let others = facts.observation.threads.iter().filter(|other| {
        let is_here = thread.ran_on.first().is_some_and(|cpu| other.ran_on.first() == Some(cpu));
        (other.pid == thread.pid && other.tid != thread.tid)
            && is_here
            && futexes(thread).any(|own| futexes(other).any(|futex| futex == own))
    });
    share(others.map(|other| other.share_of(ThreadState::is_on_cpu)).sum())
}

/// Returns the futexes on which the thread sleeps, except those with only a few samples.
fn futexes(thread: &ThreadActivity) -> impl Iterator<Item = &str> {
    /// Minimum share of time, equal to a few samples. A smaller share may come from brief calls,
    /// such as on a lock of the allocator.
    const FEW: f64 = 0.02;
    let sleeps = thread.asleep_on.iter().filter(|sleep| sleep.share >= FEW);
    let objects = sleeps.filter_map(|sleep| sleep.object.as_deref());
    objects.filter(|object| object.starts_with("futex "))
}

/// Returns whether a thread is one of the kernel's that move packets from interfaces to sockets.
fn is_softirq_thread(one: &RanInstead) -> bool {
    ["ksoftirqd/", "napi/"].iter().any(|name| one.name.starts_with(name))
}

/// Returns the fraction of time that a thread sleeps while waiting for packets. Time asleep on a
/// timer counts too if many packets are read after each sleep, because the thread then has idle
/// time.
pub(super) fn asleep_for_packets(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<f64> {
    /// Maximum number of sleeps per packet, i.e. at least ten packets per sleep.
    const FEW: f64 = 0.1;
    let sleeps = Measure::SleepsPerPacket.of(facts, Subject::Thread(thread));
    let takes_many = sleeps.is_some_and(|sleeps| sleeps.value < FEW);
    let timer = if takes_many { time_in(thread, Wait::Timer)? } else { 0.0 };
    // While the thread waits for a server's reply, it does not read packets from other peers.
    let elsewhere =
        on_servers(facts, thread) + on_unlisted(facts, thread) + in_uring(facts, thread);
    Some((time_in(thread, Wait::Input)? - elsewhere).max(0.0) + timer)
}

/// Returns the fraction of time that a thread waits for io_uring requests that may be file reads or
/// writes; 0 unless the kernel carries out such requests in worker threads of the process that wait
/// for storage.
fn in_uring(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    /// Minimum fraction of time in which a worker thread waits for storage.
    const WAITS: f64 = 0.05;
    let is_worker = |other: &ThreadActivity| {
        other.pid == thread.pid
            && other.name.starts_with("iou-wrk-")
            && time_in(other, Wait::Storage).is_some_and(|storage| storage >= WAITS)
    };
    if !facts.observation.threads.iter().any(is_worker) {
        return 0.0;
    }
    let in_uring = thread.asleep_on.iter().filter(|sleep| sleep.on == "io_uring_enter");
    in_uring.map(|sleep| sleep.share).sum()
}

/// Returns the fraction of time that a thread waits for input on sockets that were open for too
/// short a time to be listed, as those of DNS lookups are; 0 if no socket was listed. The sockets
/// on which a program receives packets last longer.
pub(super) fn on_unlisted(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    match facts.observation.sockets.is_empty() || facts.is_unread("sockets_and_drivers") {
        true => 0.0,
        false => asleep_on_unlisted(thread),
    }
}

/// Returns the fraction of time that a thread waits for input on sockets that are in no list.
pub(in super::super) fn asleep_on_unlisted(thread: &ThreadActivity) -> f64 {
    const UNLISTED: &str = "socket";
    let sleeps = thread.asleep_on.iter().filter(|one| one.object.as_deref() == Some(UNLISTED));
    sleeps.filter(|sleep| wait_of(sleep) == Wait::Input).map(|sleep| sleep.share).sum()
}

/// Converts an estimate to a lower bound: removes the upper end of its interval.
pub(super) fn at_least_this(counted: Estimate) -> Estimate {
    Estimate { high: f64::INFINITY, ..counted }
}

/// Returns the number of bytes per system call; the upper bound holds even if only some of the
/// calls were counted.
pub(super) fn bytes_per_call(facts: &Facts<'_>) -> Option<Estimate> {
    let (least, most) = system_calls(facts)?;
    let per_call = |calls: u64| bytes(facts).map(|all| all as f64 / calls.max(1) as f64);
    let high = per_call(least)?;
    let low = most.map_or(Some(0.0), per_call)?;
    Some(Estimate { low, high, ..Estimate::exactly(high) })
}

/// Returns the number of the program's processes that were seen, but whose threads ended before
/// they could be read twice.
pub(super) fn brief_processes(facts: &Facts<'_>) -> u64 {
    let observation = facts.observation;
    let is_brief = |pid: &&u32| !observation.threads.iter().any(|thread| thread.pid == **pid);
    match observation.threads_left_out {
        0 => observation.watched.pids.iter().filter(is_brief).count() as u64,
        _ => 0,
    }
}

/// Returns the CPU time of child processes that ended within the window; `None` if it exceeds the
/// capacity of the CPUs, which happens if a process that started before the window ended.
pub(in super::super) fn children_cpus(facts: &Facts<'_>) -> Option<f64> {
    facts.observation.ended_children_cpus.filter(|cpus| *cpus <= facts.cpus() as f64)
}
