// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands out in the work of a thread, in addition to a doubt about its CPU time.

use super::super::facts::{Facts, Subject};
use super::super::functions::{is_nameless, is_of_kernel};
use super::super::measure::Measure;
use super::super::words::{label, percent};
use linerate_record::units::{grouped, three_digits};
use linerate_record::why::{
    CpuCounts, FunctionTime, PacketCount, SocketCounts, SocketKind, ThreadActivity, ThreadState,
};

/// Returns sentences on a function of the program that takes most of a thread's samples, and on
/// many system calls per packet; empty if there is neither.
pub(super) fn on_work(facts: &Facts<'_>, thread: &ThreadActivity) -> String {
    /// Minimum fraction of the samples in one function.
    const MOST: f64 = 0.5;
    /// Minimum number of system calls per packet. Programs that answer each packet make two.
    const CALLS: f64 = 10.0;
    let is_own = |one: &&FunctionTime| !is_of_kernel(one) && !is_nameless(one);
    let hot = thread.functions.iter().filter(is_own).max_by(|a, b| a.share.total_cmp(&b.share));
    let hot = hot.filter(|one| one.share >= MOST).map_or_else(String::new, |one| {
        format!(" {} % of its samples are in {}.", percent(one.share), one.name)
    });
    let calls = Measure::CallsPerPacket.of(facts, Subject::Thread(thread)).map(|calls| calls.value);
    let calls = calls.filter(|calls| *calls >= CALLS).map_or_else(String::new, |calls| {
        format!(" It makes {} system calls per packet.", three_digits(calls))
    });
    hot + &calls
}

/// Returns sentences about circumstances that slow the program down whatever limits it; empty if
/// there are none: connections that it leaves waiting, a simulator that it runs in, timer
/// interrupts, and packets that take the kernel unusually long.
pub(in super::super) fn on_circumstances(facts: &Facts<'_>) -> String {
    [not_accepted, simulated, timers, slow_packets].iter().filter_map(|look| look(facts)).collect()
}

/// Detects connections that wait in the accept queue although the program has time to accept them.
fn not_accepted(facts: &Facts<'_>) -> Option<String> {
    /// Minimum fraction of readings with waiting connections.
    const WAITING: f64 = 0.9;
    /// Minimum fraction of the time that the busiest thread sleeps.
    const ASLEEP: f64 = 0.3;
    let is_left = |one: &&SocketCounts| {
        one.kind == SocketKind::TcpListen
            && one.receive_queue_share.is_some_and(|share| share >= WAITING)
            && Facts::readings(one).is_some()
    };
    let socket = facts.observation.sockets.iter().find(is_left)?;
    let thread = facts.busiest()?;
    let asleep = thread.share_of(|state| state == ThreadState::Asleep);
    (asleep >= ASLEEP).then(|| {
        format!(
            " In {} % of the readings, connections were waiting in the accept queue of {} ({} on \
             average) while thread {} slept {} % of the time: the program is at its limit on \
             connections (maxconn of haproxy, worker_connections, the descriptor limit), or waits \
             for something else before it accepts.",
            percent(socket.receive_queue_share.unwrap_or(0.0)),
            socket.local,
            three_digits(socket.receive_queue_mean),
            label(thread),
            percent(asleep)
        )
    })
}

/// Detects a program that runs under Valgrind, by the name of its process.
fn simulated(facts: &Facts<'_>) -> Option<String> {
    const TOOLS: [&str; 6] =
        ["memcheck-", "callgrind-", "cachegrind-", "helgrind-", "massif-", "drd-"];
    let name = &facts.observation.watched.name;
    TOOLS.iter().any(|tool| name.starts_with(tool)).then(|| {
        " The program runs under Valgrind, which makes it 5 to 100 times slower and runs one of \
         its threads at a time."
            .to_owned()
    })
}

/// Detects timer interrupts that are equally frequent on all CPUs, and more frequent than the
/// kernel's tick, as while a profiler samples them.
fn timers(facts: &Facts<'_>) -> Option<String> {
    /// Minimum rate per CPU. The tick has at most 1000 Hz.
    const PER_S: f64 = 10_000.0;
    /// Maximum ratio between CPUs. The timers of programs differ between CPUs.
    const ALIKE: f64 = 1.1;
    let cpus = &facts.observation.cpus;
    let rate = |cpu: &CpuCounts| {
        let count = cpu.hardware_interrupts.get("LOC").copied().unwrap_or(0);
        count as f64 / facts.elapsed()
    };
    let least = cpus.iter().map(rate).reduce(f64::min).filter(|least| *least >= PER_S)?;
    let most = cpus.iter().map(rate).fold(0.0, f64::max);
    (cpus.len() > 1 && most <= ALIKE * least).then(|| {
        format!(
            " Every CPU handles {} timer interrupts per second, as while a profiler samples at \
             that rate (perf record -F; look for it with ps): each takes time from the program.",
            grouped(least as u64)
        )
    })
}

/// Detects a CPU that spends much of its time in interrupts, and several times as long per packet
/// as forwarding and protocols take. Only for programs that use UDP: with TCP, one packet may be
/// many segments.
fn slow_packets(facts: &Facts<'_>) -> Option<String> {
    /// Minimum fraction of a CPU's time in interrupts.
    const SHARE: f64 = 0.3;
    /// Minimum time per packet. Protocols take 1 to 2 us on a server's CPU.
    const SECONDS: f64 = 5e-6;
    /// Minimum number of packets per second; other interrupts matter more at a lower rate.
    const PER_S: f64 = 10_000.0;
    let seconds =
        |cpu: &CpuCounts| cpu.interrupts * facts.elapsed() / cpu.backlog_processed.max(1) as f64;
    let is_slow = |cpu: &&CpuCounts| {
        cpu.interrupts >= SHARE
            && cpu.backlog_processed as f64 >= PER_S * facts.elapsed()
            && seconds(cpu) >= SECONDS
    };
    let counter = facts.observation.packets.as_ref().map(|one| one.counter.as_str());
    let handled: u64 = facts.observation.cpus.iter().map(|cpu| cpu.backlog_processed).sum();
    let segments = facts.protocol("Tcp.InSegs")?;
    if counter != Some(PacketCount::DATAGRAMS) || 10 * segments > handled {
        return None;
    }
    let cpu = facts.observation.cpus.iter().find(is_slow)?;
    Some(format!(
        " CPU {} spends {} us per packet in interrupts ({} % of its time), several times what the \
         protocols take: look for long or logging firewall rules (nft list ruleset), tunnels and \
         packet captures; linerate profile --iface IF shows the functions.",
        cpu.cpu,
        three_digits(1e6 * seconds(cpu)),
        percent(cpu.interrupts)
    ))
}
