// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands out in the work of a thread, in addition to a doubt about its CPU time.

use super::super::facts::{Facts, Subject};
use super::super::functions::{is_nameless, is_of_kernel};
use super::super::measure::Measure;
use super::super::words::percent;
use linerate_record::units::{grouped, three_digits};
use linerate_record::why::{CpuCounts, FunctionTime, ThreadActivity};

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

/// Returns sentences about interrupts that cost CPU time of every program on a CPU: more timer
/// interrupts than programs need, and packets that take the kernel unusually long; empty if there
/// are neither.
pub(in super::super) fn on_interrupts(facts: &Facts<'_>) -> String {
    timers(facts).unwrap_or_default() + &slow_packets(facts).unwrap_or_default()
}

/// Detects timer interrupts that are more frequent than the kernel's tick on all CPUs, whatever
/// runs there, as while a profiler samples them.
fn timers(facts: &Facts<'_>) -> Option<String> {
    /// Minimum rate per CPU. The tick has at most 1000 Hz; timers of programs add to it on the CPUs
    /// where these programs run.
    const PER_S: f64 = 5000.0;
    let cpus = &facts.observation.cpus;
    let rate = |cpu: &CpuCounts| {
        let count = cpu.hardware_interrupts.get("LOC").copied().unwrap_or(0);
        count as f64 / facts.elapsed()
    };
    let least = cpus.iter().map(rate).reduce(f64::min).filter(|least| *least >= PER_S)?;
    Some(format!(
        " Every CPU handles {} timer interrupts per second or more, which slows down all programs: \
         a profiler with a high sampling rate (perf record -F; look for it with ps), or very short \
         timers.",
        grouped(least as u64)
    ))
}

/// Detects a CPU that spends much of its time in interrupts, and several times as long per packet
/// as forwarding and protocols take.
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
    let cpu = facts.observation.cpus.iter().find(is_slow)?;
    Some(format!(
        " CPU {} spends {} us per packet in interrupts ({} % of its time): firewall rules that log \
         or are many, a tunnel or packet capture cost that much (linerate profile --iface shows the \
         functions; nft list ruleset).",
        cpu.cpu,
        three_digits(1e6 * seconds(cpu)),
        percent(cpu.interrupts)
    ))
}
