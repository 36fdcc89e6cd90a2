// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates the CPU time spent on counted events from the cost of a single event, which is given
//! as its lowest, most likely and highest value. Unless stated otherwise, costs were measured on
//! Linux 6.18 under KVM (EPYC), in runs with and without the events.

use super::super::called;
use super::super::facts::{Facts, counted};
use super::counts::{bytes, children_cpus};
use linerate_record::Figure;
use linerate_record::stats::Estimate;
use linerate_record::why::{ThreadActivity, ThreadState};

/// Cost of one event: lowest, most likely, highest.
pub(super) type Cost = (f64, f64, f64);

/// Seconds per page fault if the machine's own cost was not measured: 0.5 us on bare metal, up to
/// 15 us in a guest, including the accompanying system calls (mmap, munmap).
const FAULT_S: Cost = (0.5e-6, 3e-6, 15e-6);

/// Seconds per system call entry and exit if the machine's own cost was not measured. An empty call
/// takes 0.1 us on bare metal and 0.3 us with the mitigations for processors from before 2019; with
/// argument checks and the socket lock, a call takes up to 1 us.
const CALL_S: Cost = (0.1e-6, 0.4e-6, 1.0e-6);

/// Cost of a system call in a program, relative to the measured cost of one that does next to
/// nothing. With iperf3, sending a datagram by itself rather than in a batch costs 0.6 us more
/// where such a call takes 0.13 us.
const OF_CALL: Cost = (1.0, 3.0, 5.0);

/// Cost of a page fault in a program, relative to the measured cost of a fault (lowest: memory is
/// released in large blocks) or of mapping and unmapping a page (the others: each block is mapped,
/// caches are cold). Measured with MALLOC_MMAP_THRESHOLD_=512, which makes each allocation of nginx
/// a mapping: 11 us per fault where mapping and unmapping a page takes 4.6 us.
const OF_FAULT: Cost = (1.0, 1.5, 4.0);

/// Extra seconds per packet sent by itself rather than as part of a larger one: about 1 us
/// including its reception over a veth pair (without TSO and GSO, throughput drops from 8.1 to
/// 4.9 Gb/s). Sending alone costs less.
const SEGMENT_S: Cost = (0.2e-6, 1.0e-6, 2.0e-6);

/// Seconds per checksummed byte: 0.05 ns for cached data with AVX2, or 0.5 ns if checksumming also
/// forces a copy that sendfile would avoid.
const CHECKSUM_S: Cost = (0.05e-9, 0.2e-9, 0.5e-9);

/// Upper limit on estimates, as a fraction of a thread's time: a thread always does some other work
/// too.
const MOST: f64 = 0.85;

/// Returns the fraction of CPU time taken by events at this rate.
fn at(rate: Estimate, (low, likely, high): Cost) -> Estimate {
    Estimate { low: rate.low * low, high: rate.high * high, ..rate.scale(likely) }
}

/// Caps a fraction of CPU time at [`MOST`].
pub(super) fn at_most_all(share: Estimate) -> Estimate {
    let most = |share: f64| share.min(MOST);
    let Estimate { value, low, high, .. } = share;
    Estimate { value: most(value), low: most(low), high: most(high), ..share }
}

/// Returns a measured cost in seconds.
fn measured(figure: &Figure) -> Option<f64> {
    figure.as_number().filter(|ns| *ns > 0.0).map(|ns| ns / 1e9)
}

/// Returns the CPU time of a page fault in seconds, including the accompanying system calls.
fn fault_s(facts: &Facts<'_>) -> Cost {
    let costs = facts.observation.event_costs.as_ref();
    let found = costs.and_then(|c| measured(&c.page_fault).zip(measured(&c.page_mapping)));
    let Some((fault, mapping)) = found else { return FAULT_S };
    let (low, likely, high) = OF_FAULT;
    (low * fault.min(mapping), likely * mapping, high * mapping)
}

/// Returns the CPU time of a system call in seconds, excluding the work that the call performs.
fn call_s(facts: &Facts<'_>) -> Cost {
    let costs = facts.observation.event_costs.as_ref();
    let Some(call) = costs.and_then(|c| measured(&c.system_call)) else { return CALL_S };
    let (low, likely, high) = OF_CALL;
    (low * call, likely * call, high * call)
}

/// Returns the cost of page faults, which is at most the program's time in the kernel and in
/// softirqs, where page tables are freed.
pub(super) fn faults(facts: &Facts<'_>) -> Option<Estimate> {
    /// Error of kernel accounting, and cost of colder caches in user mode, as a fraction of CPU
    /// time.
    const ERROR: f64 = 0.1;
    let cost = of_used(facts, super::counts::faults(facts), fault_s(facts))?;
    let most = in_kernel(facts) / all_cpus(facts) + ERROR;
    let Estimate { value, low, high, .. } = cost;
    Some(Estimate { value: value.min(most), low: low.min(most), high: high.min(most), ..cost })
}

/// Returns the CPU time of the program, in CPUs, including that of threads and child processes that
/// ended before they could be read.
pub(super) fn all_cpus(facts: &Facts<'_>) -> f64 {
    let threads = facts.observation.ended_threads_cpus.unwrap_or(0.0);
    facts.used_cpus() + threads + children_cpus(facts).unwrap_or(0.0)
}

/// Returns the cost of events relative to the program's CPU time, capped at [`MOST`].
pub(super) fn of_used(facts: &Facts<'_>, events: u64, cost: Cost) -> Option<Estimate> {
    let used = all_cpus(facts) * facts.elapsed();
    Some(at_most_all(at(counted(events, used)?, cost)))
}

/// Returns the cost of a thread's system calls that pass packets or wait for them, which batching
/// reduces; `None` without privileges, because then only some of the calls are counted.
pub(super) fn calls(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
    let on_cpu = Facts::on_cpu(thread)?.value * thread.elapsed_s;
    let calls = counted(thread.system_calls?, on_cpu)?;
    let of_packets = calls.scale(called::share_of_packets(facts, thread).unwrap_or(1.0));
    Some(at_most_all(at(of_packets, call_s(facts))))
}

/// Returns the cost of the packets that the program's connections sent beyond the number that
/// packets of 64 KiB would need.
pub(super) fn segments(facts: &Facts<'_>) -> Option<Estimate> {
    let tcps = facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let (sent, acked) = tcps.fold((0, 0), |(segments, bytes), tcp| {
        (segments + tcp.segments_out, bytes + tcp.bytes_acked)
    });
    of_used(facts, sent.checked_sub(acked / 65_536)?, SEGMENT_S)
}

/// Returns the cost of checksumming the bytes on the program's connections.
pub(super) fn checksums(facts: &Facts<'_>) -> Option<Estimate> {
    of_used(facts, bytes(facts)?, CHECKSUM_S)
}

/// Returns the time that the program's threads spend in the kernel and in softirqs, in CPUs.
pub(super) fn in_kernel(facts: &Facts<'_>) -> f64 {
    let in_kernel = |s| matches!(s, ThreadState::Kernel | ThreadState::Interrupts);
    facts.observation.threads.iter().map(|thread| thread.share_of(in_kernel)).sum()
}

/// Returns the share of a thread's CPU time that is spent in the kernel. The lower bound comes from
/// the kernel time or, if that is tighter, from the user time, as is the case if the thread spends
/// almost no time in user mode.
pub(super) fn kernel(thread: &ThreadActivity) -> Option<Estimate> {
    let of_kernel = |s| matches!(s, ThreadState::Kernel | ThreadState::Interrupts);
    let share = of_run(thread, Facts::time(thread, of_kernel)?)?;
    let user = Facts::time(thread, |state| state == ThreadState::User);
    let on_cpu = Facts::on_cpu(thread).filter(|on_cpu| on_cpu.low > 0.0);
    let Some((user, on_cpu)) = user.zip(on_cpu) else { return Some(share) };
    let low = share.low.max(1.0 - user.high.max(0.0) / on_cpu.low).min(share.value);
    Some(Estimate { low, high: share.high.min(1.0).max(share.value), ..share })
}

/// Converts a fraction of the thread's time to a fraction of its time on a CPU.
pub(super) fn of_run(thread: &ThreadActivity, part: Estimate) -> Option<Estimate> {
    let on_cpu = Facts::on_cpu(thread).filter(|on_cpu| on_cpu.value > 0.0)?;
    Some(part.scale(1.0 / on_cpu.value))
}
