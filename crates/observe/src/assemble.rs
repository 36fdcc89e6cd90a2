// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assembles the observation from all readings.

use crate::Request;
use crate::budget::{Accounting, Around, budget};
use crate::cpus::Cpus;
use crate::packets::{Counts, choose};
use crate::profiling::Profiled;
use crate::quotas::Quotas;
use crate::sampler::CpuProfile;
use crate::sleep::{Object, Sleepers, describe, socket_inode};
use crate::sockets::{Share, Sockets};
use crate::target::{Family, last_cpu_of};
use crate::threads::{FOLLOWED_MAX, Thread};
use crate::watching::Watching;
use linerate_machine::Root;
use linerate_record::why::{
    CpuCounts, Observation, PeerActivity, SleepTime, SocketCounts, SocketKind, ThreadActivity,
    ThreadState, ThreadTime, Unread, Watched,
};
use linerate_record::{Figure, Tier};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of threads whose shares get an interval: the busiest ones.
const INTERVALS_MAX: usize = 64;

/// Assembles the observation.
pub(crate) fn assemble(
    root: &Root,
    request: &Request,
    mut watching: Watching,
    elapsed_s: f64,
    own_s: f64,
    interrupted: bool,
) -> Observation {
    let mut unread = std::mem::take(&mut watching.unread);
    note_unread(&mut unread, &watching.sleepers, &watching.threads.all);
    let (mut threads, threads_left_out) = activities(root, &mut watching);
    let wanted = watching.interface.as_deref();
    let found = watching.interfaces.finish(root, &watching.namespace, wanted, &watching.links);
    note_vanished(&mut unread, &found.vanished);
    let bound = bound_interfaces(&watching.sockets);
    let own =
        watching.program.as_ref().map_or(String::new(), |program| program.counter().to_owned());
    let program = watching.program.take().map(|program| program.finish(&mut unread));
    let counts = packet_counts(&watching, &mut unread);
    let (packets, packets_per_s) = choose(&counts, &own, &bound);
    let mut profiled = Profiled::default();
    if let Some(profiling) = watching.profiling.take() {
        let of_slices: Vec<f64> =
            packets_per_s.iter().zip(&watching.wall_s).map(|(rate, s)| rate * s).collect();
        profiled = profiling.finish(&mut threads, &of_slices);
        unread.append(&mut profiled.unread);
    }
    let mut cpus = watching.cpus.finish(root);
    add_functions(&mut cpus, profiled.cpus);
    let sockets = watching.sockets.finish(root, watching.namespace.network.as_ref());
    let peers = peers(root, &watching.family, &sockets, elapsed_s);
    Observation {
        watched: Watched {
            name: main_name(&threads, &watching.family.pids).unwrap_or(watching.name),
            pids: watching.family.pids,
            interface: watching.interface,
            line_bits_per_s: request.line_bits_per_s,
            is_command: matches!(request.target, crate::Target::Command(_)),
            ended: watching.ended,
            interrupted,
        },
        elapsed_s,
        slices: watching.wall_s.len() as u32,
        threads,
        threads_left_out,
        quotas: watching.quotas.finish(),
        cpus,
        last_level_cache_bytes: last_level_cache(root),
        interfaces: found.interfaces,
        protocols: found.protocols,
        sockets,
        peers,
        program,
        events: profiled.events,
        shared_lines: profiled.shared_lines,
        arrivals: watching.arrivals.finish(),
        packets,
        packets_per_s,
        observer: Figure::exact(
            "CPUs",
            own_s / elapsed_s,
            Tier::Sw,
            "linerate's own CPU time over the window",
        ),
        unread,
    }
}

/// The threads that wanted a CPU most, in descending order, and the number left out.
fn activities(root: &Root, watching: &mut Watching) -> (Vec<ThreadActivity>, u32) {
    let mut all = std::mem::take(&mut watching.threads.all);
    let accounting = Accounting::of(configuration(root).as_deref());
    let throttled = throttled(&all, &watching.quotas);
    // Threads that ended before they were read again.
    all.retain(|thread| !thread.slices.is_empty());
    all.sort_by_key(|thread| (std::cmp::Reverse(thread.wanted_ns()), thread.pid, thread.tid));
    let left_out = all.len().saturating_sub(FOLLOWED_MAX) as u32;
    all.truncate(FOLLOWED_MAX);
    let activity = |(rank, thread): (usize, &Thread)| {
        let around = around(thread, &watching.cpus, &throttled);
        let time =
            budget(&thread.slices, &around, thread.never_slept(), accounting, rank < INTERVALS_MAX);
        activity(thread, time, &watching.sleepers, &watching.sockets)
    };
    (all.iter().enumerate().map(activity).collect(), left_out)
}

/// The processes at the other ends of connections, those with the most CPU time first.
fn peers(
    root: &Root,
    family: &Family,
    sockets: &[SocketCounts],
    elapsed_s: f64,
) -> Vec<PeerActivity> {
    let pids: BTreeSet<u32> = sockets.iter().filter_map(|socket| socket.peer_pid).collect();
    let activity = |pid| {
        let (name, seconds) = family.cpu_time(root, pid)?;
        Some(PeerActivity { pid, name, cpus: seconds / elapsed_s, cpu: last_cpu_of(root, pid) })
    };
    let mut peers: Vec<PeerActivity> = pids.into_iter().filter_map(activity).collect();
    peers.sort_by(|a, b| b.cpus.total_cmp(&a.cpus).then(a.pid.cmp(&b.pid)));
    peers
}

/// Packet counts of the slices; without the UDP counter if other processes also receive datagrams.
fn packet_counts(watching: &Watching, unread: &mut Vec<Unread>) -> Vec<Counts> {
    let has_udp = watching.sockets.has(SocketKind::Udp);
    if has_udp && !watching.sockets.has_all_udp {
        unread.push(Unread {
            what: "udp_datagrams".to_owned(),
            reason:
                "the kernel counts datagrams per network namespace, and other processes in this \
                 one also have UDP sockets"
                    .to_owned(),
            fix: None,
        });
    }
    let is_counted = has_udp && watching.sockets.has_all_udp;
    let ends_per_segment = ends_per_segment(watching);
    let misses_segments = misses_segments(watching);
    if misses_segments {
        unread.push(Unread {
            what: "tcp_segments".to_owned(),
            reason:
                "its connections open and close between two reads, and the network namespace's \
                     counters include other processes' segments"
                    .to_owned(),
            fix: None,
        });
    }
    // A program had counted nothing before its socket was found: it was starting.
    let found = watching.counts.iter().position(|counts| counts.program.is_some());
    let count = |(slice, counts): (usize, &Counts)| Counts {
        udp: counts.udp.filter(|_| is_counted),
        tcp: counts.tcp.filter(|_| !misses_segments),
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

/// Size in bytes of the largest cache of the first CPU, as reported by the kernel.
fn last_level_cache(root: &Root) -> Option<u64> {
    let size = |index: u32| {
        let text = root.text(&format!("sys/devices/system/cpu/cpu0/cache/index{index}/size"))?;
        Some(text.trim().strip_suffix('K')?.parse::<u64>().ok()? << 10)
    };
    (0..8).filter_map(size).max()
}

/// TCP segments counted by the namespace, and by the connections that were seen.
fn tcp_of_namespace(watching: &Watching) -> Option<(u64, u64)> {
    let (first, last) = (watching.counts.first()?, watching.counts.last()?);
    let more = |of: fn(&Counts) -> Option<u64>| of(last)?.checked_sub(of(first)?);
    let seen = more(|counts| counts.tcp.map(|(segments, _)| segments))?;
    Some((more(|counts| counts.tcp_of_namespace)?, seen))
}

/// For connections that begin and end between two reads, only the namespace counts segments: the
/// number of ends at which it counts each. `None` if the connections themselves count more, or if
/// the namespace also counts segments of other processes.
fn ends_per_segment(watching: &Watching) -> Option<u64> {
    let (segments, seen) = tcp_of_namespace(watching)?;
    let ends = match watching.sockets.tcp_share(segments) {
        Share::All => 1,
        Share::Half => 2,
        Share::Unknown => return None,
    };
    // Up to a tenth may be in transit between the two counters.
    (segments / ends > seen + seen / 10).then_some(ends)
}

/// Whether some of the program's connections are missed while its namespace also counts other
/// processes' segments: then no TCP counter shows how many packets the program handled.
fn misses_segments(watching: &Watching) -> bool {
    let Some((segments, _)) = tcp_of_namespace(watching) else { return false };
    watching.sockets.tcp_share(segments) == Share::Unknown && watching.sockets.come_and_go()
}

/// Names of the interfaces that packet sockets are bound to.
fn bound_interfaces(sockets: &Sockets) -> String {
    sockets.packet_interface_names().join(", ")
}

/// Kernel build configuration, if readable at the distribution's usual path.
fn configuration(root: &Root) -> Option<String> {
    let release = root.text("proc/sys/kernel/osrelease")?;
    root.text(&format!("boot/config-{release}"))
}

/// Data from other sources about the slices of a thread.
fn around(thread: &Thread, cpus: &Cpus, throttled: &BTreeMap<(u32, u32), f64>) -> Vec<Around> {
    let of_slice = |slice: &crate::threads::Slice| Around {
        cpu: cpus.shares(slice.number, slice.cpu),
        throttled_ns: throttled.get(&(thread.pid, slice.number)).copied().unwrap_or(0.0),
    };
    thread.slices.iter().map(of_slice).collect()
}

/// Throttled time per CPU in ns, by process and slice. The kernel sums it over the CPUs on which
/// threads of the group waited.
fn throttled(threads: &[Thread], quotas: &Quotas) -> BTreeMap<(u32, u32), f64> {
    let mut waited: BTreeMap<(u32, u32), BTreeSet<u32>> = BTreeMap::new();
    for thread in threads {
        for slice in thread.slices.iter().filter(|slice| slice.delay_ns > 0) {
            waited.entry((thread.pid, slice.number)).or_default().insert(slice.cpu);
        }
    }
    let per_cpu = |((pid, slice), cpus): ((u32, u32), BTreeSet<u32>)| {
        let ns = quotas.throttled_ns(pid, slice) as f64 / cpus.len() as f64;
        (ns > 0.0).then_some(((pid, slice), ns))
    };
    waited.into_iter().filter_map(per_cpu).collect()
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
            "samples fitted against packets",
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
            Object::Futex(_) => None,
        };
        inode.and_then(|inode| sockets.describe(inode)).unwrap_or_else(|| describe(object))
    })
}

/// Name of the process that does the work, if the given process only waits for it, as a shell or
/// `timeout` does.
fn main_name(threads: &[ThreadActivity], pids: &[u32]) -> Option<String> {
    /// Maximum CPU share of a process that only waits.
    const WAITS: f64 = 0.02;
    let first = *pids.first()?;
    let demand = |pid: u32| -> f64 {
        threads.iter().filter(|thread| thread.pid == pid).map(ThreadActivity::demand).sum()
    };
    let busiest = threads.iter().max_by(|a, b| demand(a.pid).total_cmp(&demand(b.pid)))?.pid;
    let main = threads.iter().find(|thread| thread.tid == busiest)?;
    (demand(first) < WAITS && demand(busiest) >= WAITS).then(|| main.name.clone())
}

fn note_vanished(unread: &mut Vec<Unread>, names: &[String]) {
    if !names.is_empty() {
        unread.push(Unread {
            what: "interface_counters".to_owned(),
            reason: format!(
                "{} disappeared during the window, and its counts with it",
                names.join(", ")
            ),
            fix: None,
        });
    }
}

fn note_unread(unread: &mut Vec<Unread>, sleepers: &Sleepers, threads: &[Thread]) {
    if sleepers.were_refused() {
        unread.push(Unread {
            what: "system_calls_asleep".to_owned(),
            reason:
                "cannot read /proc/PID/syscall of some threads: the process belongs to another \
                     user, is not dumpable, or kernel.yama.ptrace_scope forbids it"
                    .to_owned(),
            fix: Some("run as root".to_owned()),
        });
    }
    let has_run = |thread: &Thread| thread.slices.iter().any(|slice| slice.run_ns > 0);
    let has_ticks =
        |thread: &Thread| thread.slices.iter().map(|slice| slice.user_ticks).sum::<u64>() > 5;
    if threads.iter().any(has_ticks) && !threads.iter().any(has_run) {
        unread.push(Unread {
            what: "run_delay".to_owned(),
            reason: "this kernel does not account run time and run delay (CONFIG_SCHED_INFO)"
                .to_owned(),
            fix: None,
        });
    }
}

#[cfg(test)]
mod tests;
