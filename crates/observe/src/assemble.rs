// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assembles the observation from all readings.

mod around;
mod calls;
mod missing;

use crate::Request;
use crate::budget::budget;
use crate::outputs::output_pipes;
use crate::packets::{Counts, choose, hidden_tunnels, rates_of_namespace};
use crate::profiling::{Profiled, Profiling};
use crate::quotas::is_by_session;
use crate::sampler::CpuProfile;
use crate::sampler::cost;
use crate::sleep::{Object, Sleepers, describe, socket_inode};
use crate::sockets::{Share, Sockets};
use crate::target::{Family, last_cpu_of};
use crate::threads::{FOLLOWED_MAX, Thread};
use crate::tracing::MAX_THREADS;
use crate::watching::{Watching, Windows};
use around::{around, throttled};
use calls::received;
use linerate_machine::Root;
use linerate_record::why::{
    CpuCounts, EventCosts, Observation, PacketCount, PeerActivity, SleepTime, SocketCounts,
    SocketKind, ThreadActivity, ThreadState, ThreadTime, Unread, Watched,
};
use linerate_record::{Figure, Tier};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of threads whose shares get a confidence interval: those with the highest CPU
/// demand.
const INTERVALS_MAX: usize = 64;

/// Length of a window, the observer's CPU use, and whether the window was interrupted.
pub(crate) struct Window {
    pub(crate) elapsed_s: f64,
    /// The observer's CPU time divided by wall time.
    pub(crate) own: f64,
    pub(crate) interrupted: bool,
}

/// Assembles the observation of a window and begins the next window.
pub(crate) fn assemble(
    root: &Root,
    request: &Request,
    watching: &mut Watching,
    window: &Window,
) -> Observation {
    let mut unread = watching.unread.clone();
    missing::note_unread(&mut unread, &watching.sleepers, &watching.threads.all);
    let tickless = root.cpu_list("sys/devices/system/cpu/nohz_full").unwrap_or_default();
    unread.extend(missing::coarse_times(&watching.threads.all, &tickless));
    let (mut threads, threads_left_out) = activities(watching);
    let wanted = watching.interface.as_deref();
    let found = watching.interfaces.finish(root, &watching.namespace, wanted, &watching.links);
    missing::note_vanished(&mut unread, &found.vanished);
    missing::note_without_driver(&mut unread, &found.without_driver);
    unread.extend(found.is_conntrack_hidden.then(missing::hidden_conntrack));
    let bound = watching.sockets.packet_interface_names();
    let bound = found.interfaces.iter().filter(|one| bound.contains(&one.name.as_str()));
    watching.arrivals.set_drivers(bound.filter_map(|one| one.driver.as_deref()));
    let program = watching.program.as_mut().map(|program| program.finish(&mut unread));
    let (mut packets, packets_per_s) = packets(root, watching, &mut unread);
    let mut profiled = profiled(watching, &mut threads, &packets_per_s);
    unread.append(&mut profiled.unread);
    let mut cpus = watching.cpus.finish(root);
    add_functions(&mut cpus, profiled.cpus);
    // Consecutive windows are short: they leave out what takes long or needs many readings.
    let is_one = watching.windows == Windows::One;
    let at_end = if is_one { &watching.family.pids[..] } else { &[] };
    let other_ends = if is_one { other_ends(root, watching) } else { BTreeMap::new() };
    let requests = is_one.then(|| watching.sockets.requests(window.elapsed_s));
    let unix_clients = watching.sockets.unix_clients();
    let mut sockets = watching.sockets.finish(root, &other_ends);
    watching.sockets.attribute_shared(&mut sockets, &threads);
    exclude_deferred(&mut sockets, &found.protocols);
    let peers = peers(root, &watching.family, &sockets);
    if packets.is_none() && threads.len() <= MAX_THREADS {
        packets = received(root, watching, &sockets, &profiled.events, &mut unread);
    }
    let faults = threads.iter().map(|thread| thread.minor_faults).sum();
    let memory = watching.resident.finish(root, &watching.family.pids, faults);
    let observation = Observation {
        watched: watched(watching, request, window, &threads),
        elapsed_s: window.elapsed_s,
        slices: watching.wall_s.len() as u32,
        threads,
        threads_left_out,
        ended_threads_cpus: watching.ended_cpus.threads_cpus.filter(|_| threads_left_out == 0),
        ended_children_cpus: watching.ended_cpus.children_cpus,
        memory,
        full_descriptors: watching.sockets.descriptors.finish(),
        output_pipes: output_pipes(root, at_end),
        file_writes: watching.written.finish(root, at_end),
        quotas: watching.quotas.finish(),
        cpus,
        last_level_cache_bytes: last_level_cache(root),
        sched_autogroup: is_by_session(root, watching.family.pids.first().copied()),
        interfaces: found.interfaces,
        protocols: found.protocols,
        sockets,
        requests: missing::determined(requests, &mut unread),
        unix_clients,
        local_ports: watching.local_ports(root, &mut unread),
        peers,
        program,
        events: profiled.events,
        shared_lines: profiled.shared_lines,
        arrivals: watching.arrivals.finish(),
        event_costs: event_costs(watching),
        packets,
        packets_per_s,
        observer: observer(window),
        unread,
    };
    watching.begin_window();
    observation
}

/// Subtracts, from the drops of listening sockets, the ACKs that the kernel drops on purpose while
/// it waits for data (TCP_DEFER_ACCEPT). The kernel counts drops of all kinds together per socket,
/// and the deferred ACKs separately per network namespace.
fn exclude_deferred(sockets: &mut [SocketCounts], protocols: &BTreeMap<String, u64>) {
    let deferred = protocols.get("TcpExt.TCPDeferAcceptDrop").copied().unwrap_or(0);
    // The two counters are not read at the same moment, so 10 % is added. Up to that many real
    // drops are missed.
    let mut deferred = deferred + deferred / 10;
    let listening = sockets.iter_mut().filter(|socket| socket.kind == SocketKind::TcpListen);
    for drops in listening.filter_map(|socket| socket.drops.as_mut()) {
        let of_socket = deferred.min(*drops);
        (*drops, deferred) = (*drops - of_socket, deferred - of_socket);
    }
}

fn observer(window: &Window) -> Figure {
    Figure::exact("CPUs", window.own, Tier::Sw, "linerate's own CPU time over the window")
}

/// Describes the program that was observed.
fn watched(
    watching: &Watching,
    request: &Request,
    window: &Window,
    threads: &[ThreadActivity],
) -> Watched {
    let pids = watching.family.pids.clone();
    Watched {
        name: main_name(threads, &pids).unwrap_or_else(|| watching.name.clone()),
        pids,
        interface: watching.interface.clone(),
        is_in_other_namespace: !watching.namespace.is_own,
        line_bits_per_s: request.line_bits_per_s,
        is_command: matches!(request.target, crate::Target::Command(_)),
        ended: watching.ended.clone(),
        interrupted: window.interrupted,
    }
}

/// Returns the cost of kernel events on this machine, including that of a sample.
fn event_costs(watching: &Watching) -> Option<EventCosts> {
    let cost_ns = watching.profiling.as_ref().and_then(Profiling::sample_cost_ns);
    let sample = Some(cost::figure(cost_ns));
    watching.event_costs.clone().map(|costs| EventCosts { sample, ..costs })
}

/// Returns the threads with the highest CPU demand (time running or runnable), highest first, and
/// the number of threads left out.
fn activities(watching: &Watching) -> (Vec<ThreadActivity>, u32) {
    let throttled = throttled(&watching.threads.all, &watching.quotas);
    // Threads that ended before they were read again have no slices.
    let read = watching.threads.all.iter().filter(|thread| !thread.slices.is_empty());
    let mut all: Vec<&Thread> = read.collect();
    all.sort_by_key(|thread| (std::cmp::Reverse(thread.wanted_ns()), thread.pid, thread.tid));
    let left_out = all.len().saturating_sub(FOLLOWED_MAX) as u32;
    all.truncate(FOLLOWED_MAX);
    let activity = |(rank, thread): (usize, &&Thread)| {
        let around = around(thread, &watching.cpus, &throttled);
        let has_interval = watching.windows == Windows::One && rank < INTERVALS_MAX;
        let never_slept = thread.never_slept();
        let time = budget(&thread.slices, &around, never_slept, watching.accounting, has_interval);
        activity(thread, time, &watching.sleepers, &watching.sockets)
    };
    (all.iter().enumerate().map(activity).collect(), left_out)
}

/// Returns the process at the other end of each connection, by the inode of the program's socket.
fn other_ends(root: &Root, watching: &Watching) -> BTreeMap<u64, u32> {
    watching.sockets.peers(root, watching.namespace.network.as_ref())
}

/// Returns the processes at the other ends of connections, most CPU time first.
fn peers(root: &Root, family: &Family, sockets: &[SocketCounts]) -> Vec<PeerActivity> {
    let pids: BTreeSet<u32> = sockets.iter().filter_map(|socket| socket.peer_pid).collect();
    let activity = |pid| {
        let (name, cpus) = family.cpus(root, pid)?;
        Some(PeerActivity { pid, name, cpus, cpu: last_cpu_of(root, pid) })
    };
    let mut peers: Vec<PeerActivity> = pids.into_iter().filter_map(activity).collect();
    peers.sort_by(|a, b| b.cpus.total_cmp(&a.cpus).then(a.pid.cmp(&b.pid)));
    peers
}

/// Ends sampling and tracing, and adds what they found to the threads.
fn profiled(
    watching: &mut Watching,
    threads: &mut [ThreadActivity],
    packets_per_s: &[f64],
) -> Profiled {
    let Some(profiling) = &mut watching.profiling else { return Profiled::default() };
    let slices = packets_per_s.iter().zip(&watching.wall_s);
    let packets: Vec<f64> = slices.map(|(rate, seconds)| rate * seconds).collect();
    profiling.finish(threads, &packets)
}

/// Returns the packet count over the window from the best counter, and the packet rate in each
/// slice.
fn packets(
    root: &Root,
    watching: &Watching,
    unread: &mut Vec<Unread>,
) -> (Option<PacketCount>, Vec<f64>) {
    let own = watching.program.as_ref().map_or("", |program| program.counter());
    let tunnels = tunnels(&watching.sockets);
    let counts = packet_counts(root, watching, unread);
    if !tunnels.is_empty() && counts.last().is_none_or(|last| last.tunnels.is_none()) {
        unread.push(hidden_tunnels(&tunnels));
    }
    let interface = bound_interfaces(&watching.sockets);
    let (mut count, mut rates) = choose(&counts, own, &interface, &tunnels);
    if let Some(count) = count.as_mut().filter(|one| one.counter == PacketCount::CONNECTIONS)
        && watching.sockets.were_read_in_rotation()
    {
        rates = rates_in_rotation(watching, count);
    }
    if let Some(seconds) = watching.arrivals.refreshed_every_s() {
        if count.as_ref().is_some_and(|count| count.counter.starts_with(&interface)) {
            rates.clear();
        }
        unread.push(missing::refreshed_seldom(&interface, seconds));
    }
    (count, rates)
}

/// Returns the segments per second in each slice for connections that were read in rotation. As
/// their own counters do not show in which slice a segment was counted, the namespace's rates are
/// scaled to `count`, the segments on the program's connections. Empty if the namespace also counts
/// other processes' segments. In consecutive windows, also corrects `count`.
fn rates_in_rotation(watching: &Watching, count: &mut PacketCount) -> Vec<f64> {
    let Some((segments, _)) = tcp_of_namespace(watching) else { return Vec::new() };
    let Some(ends) = ends(watching.sockets.tcp_share(segments)) else { return Vec::new() };
    // What connections counted since their last turns, some windows ago, is not of this window.
    if watching.windows == Windows::Many {
        (count.packets, count.bytes) = (segments / ends, None);
    }
    rates_of_namespace(&watching.counts, count.packets)
}

/// Returns at how many ends of a connection the namespace counts each of the program's segments;
/// `None` if it also counts other processes' segments.
fn ends(share: Share) -> Option<u64> {
    match share {
        Share::All => Some(1),
        Share::Half => Some(2),
        Share::Unknown => None,
    }
}

/// Returns the packet counts per slice. Omits the UDP counter if other processes receive datagrams
/// too.
fn packet_counts(root: &Root, watching: &Watching, unread: &mut Vec<Unread>) -> Vec<Counts> {
    let has_udp = watching.sockets.has(SocketKind::Udp);
    let counted = |counts: Option<&Counts>| counts.and_then(|counts| counts.udp).unwrap_or(0);
    let datagrams =
        counted(watching.counts.last()).saturating_sub(counted(watching.counts.first()));
    let is_counted = has_udp && watching.sockets.neighbours.are_idle(root, datagrams);
    if has_udp && !is_counted {
        unread.push(missing::others_datagrams(watching));
    }
    let ends_per_segment = ends_per_segment(watching);
    let misses_segments = misses_segments(watching);
    if misses_segments {
        unread.push(Unread {
            what: "tcp_segments".to_owned(),
            reason: "the program opens and closes connections between two reads, and the network \
                     namespace's counters include other processes' segments"
                .to_owned(),
            fix: None,
        });
    }
    // Before its socket was found, the program was still starting and had not counted anything.
    let found = watching.counts.iter().position(|counts| counts.program.is_some());
    let count = |(slice, counts): (usize, &Counts)| Counts {
        udp: counts.udp.filter(|_| is_counted),
        tcp: counts.tcp.filter(|_| !misses_segments),
        tcp_at_end: counts.tcp_at_end.filter(|_| !misses_segments),
        tcp_of_namespace: counts
            .tcp_of_namespace
            .and_then(|segments| Some(segments / ends_per_segment?)),
        program: counts.program.or(found.filter(|found| slice < *found).map(|_| (0, Some(0)))),
        ..*counts
    };
    watching.counts.iter().enumerate().map(count).collect()
}

fn add_functions(cpus: &mut [CpuCounts], profiles: Vec<CpuProfile>) {
    for profile in profiles {
        if let Some(cpu) = cpus.iter_mut().find(|cpu| cpu.cpu == profile.cpu) {
            (cpu.functions, cpu.samples) = (profile.functions, profile.samples);
        }
    }
}

/// Returns the size of the first CPU's largest cache in bytes, as reported by the kernel.
fn last_level_cache(root: &Root) -> Option<u64> {
    let size = |index: u32| {
        let text = root.text(&format!("sys/devices/system/cpu/cpu0/cache/index{index}/size"))?;
        Some(text.trim().strip_suffix('K')?.parse::<u64>().ok()? << 10)
    };
    (0..8).filter_map(size).max()
}

/// Returns the number of TCP segments that the namespace counted, and how many of them were on
/// connections whose own counters were read.
fn tcp_of_namespace(watching: &Watching) -> Option<(u64, u64)> {
    let (first, last) = (watching.counts.first()?, watching.counts.last()?);
    let more = |of: fn(&Counts) -> Option<u64>| of(last)?.checked_sub(of(first)?);
    let seen = more(|counts| counts.tcp_at_end.or(counts.tcp).map(|(segments, _)| segments))?;
    Some((more(|counts| counts.tcp_of_namespace)?, seen))
}

/// Returns at how many ends of a connection, 1 or 2, the namespace counts each segment. This
/// matters if connections began and ended between two reads, so that only the namespace counted
/// their segments. `None` if the connections that were read account for almost all segments, or if
/// the namespace also counts other processes' segments.
fn ends_per_segment(watching: &Watching) -> Option<u64> {
    let (segments, seen) = tcp_of_namespace(watching)?;
    let ends = ends(watching.sockets.tcp_share(segments))?;
    // If the program has no connections, the segments belong to sockets that no list shows.
    if seen == 0 && !watching.sockets.replaces_connections() {
        return None;
    }
    // Up to 10 % of the segments may be in transit between the two counters.
    (segments / ends > seen + seen / 10).then_some(ends)
}

/// Returns whether some of the program's connections were not observed, in a network namespace
/// whose TCP counters include other processes' segments. In that case, no TCP counter shows how
/// many packets the program handled.
fn misses_segments(watching: &Watching) -> bool {
    let Some((segments, seen)) = tcp_of_namespace(watching) else { return false };
    if watching.sockets.tcp_share(segments) != Share::Unknown {
        return false;
    }
    // The namespace may count each segment at both ends. Segments beyond that belong to other
    // processes, or to connections that were open during no read.
    let has_rest = segments / 2 > seen + seen / 10;
    let sockets = &watching.sockets;
    sockets.come_and_go() || (has_rest && sockets.replaces_connections())
}

/// Returns the names of the interfaces to which packet sockets are bound.
fn bound_interfaces(sockets: &Sockets) -> String {
    sockets.packet_interface_names().join(", ")
}

/// Returns the names of the TUN devices that the program has open.
fn tunnels(sockets: &Sockets) -> String {
    let names: Vec<String> = sockets.descriptors.tunnels().into_iter().collect();
    names.join(", ")
}

fn activity(
    thread: &Thread,
    time: Vec<ThreadTime>,
    sleepers: &Sleepers,
    sockets: &Sockets,
) -> ThreadActivity {
    let (voluntary_switches, involuntary_switches) = thread.switches();
    let not_sampled = |unit: &str| {
        Figure::absent(
            unit,
            Tier::Sw,
            "linear fit of sample counts against packet counts",
            "the thread was not sampled",
        )
    };
    ThreadActivity {
        pid: thread.pid,
        tid: thread.tid,
        name: thread.name.clone(),
        ran_on: thread.ran_on(),
        allowed: thread.allowed().to_vec(),
        elapsed_s: thread.elapsed_s(),
        asleep_on: asleep_on(thread, &time, sleepers, sockets),
        time,
        ran_instead: Vec::new(),
        waits_us_log2: Vec::new(),
        voluntary_switches,
        involuntary_switches,
        minor_faults: thread.minor_faults,
        major_faults: thread.major_faults,
        system_calls: None,
        functions: Vec::new(),
        samples: 0,
        busy: not_sampled("ratio"),
        cost_ns: not_sampled("ns/packet"),
        io_calls: thread.io_calls(),
        lock_wait: None,
        memory: None,
        cipher_instructions: None,
        nice: Some(thread.nice()),
        policy: thread.policy(),
        tracer: thread.tracer(),
        execs: Some(thread.execs()),
        sleep_samples: Some(sleepers.samples(thread)),
    }
}

fn asleep_on(
    thread: &Thread,
    time: &[ThreadTime],
    sleepers: &Sleepers,
    sockets: &Sockets,
) -> Vec<SleepTime> {
    let asleep = time.iter().find(|time| time.state == ThreadState::Asleep);
    let asleep = asleep.and_then(|time| time.share.as_number()).unwrap_or(0.0);
    sleepers.of(thread, asleep, |object| {
        let inode = match object {
            Object::File(link) => socket_inode(link),
            Object::Futex(_) | Object::Mutex(_) => None,
        };
        inode.and_then(|inode| sockets.describe(inode)).unwrap_or_else(|| describe(object))
    })
}

/// Returns the name of the process that does the work, if the first of `pids` merely waits for it,
/// as a shell or `timeout` does.
fn main_name(threads: &[ThreadActivity], pids: &[u32]) -> Option<String> {
    /// Maximum CPU share of a process that merely waits.
    const WAITS: f64 = 0.02;
    let first = *pids.first()?;
    let demand = |pid: u32| -> f64 {
        threads.iter().filter(|thread| thread.pid == pid).map(ThreadActivity::demand).sum()
    };
    let busiest = threads.iter().max_by(|a, b| demand(a.pid).total_cmp(&demand(b.pid)))?.pid;
    let main = threads.iter().find(|thread| thread.tid == busiest)?;
    (demand(first) < WAITS && demand(busiest) >= WAITS).then(|| main.name.clone())
}

#[cfg(test)]
mod tests;
