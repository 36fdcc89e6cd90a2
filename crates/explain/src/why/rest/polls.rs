// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that never sleep, and whose polling shows in their number of system calls.

use super::super::doubts::Doubt;
use super::super::facts::{Facts, Subject};
use super::super::measure::Measure;
use super::super::words::{label, percent};
use linerate_record::units::three_digits;
use linerate_record::why::{KernelEvent, SleepTime, ThreadActivity};

/// Returns the number of system calls per packet of a thread that busy-polls: most of these calls
/// find nothing. A saturated thread finds packets at each poll. `None` for other threads, or if
/// calls or packets were not counted.
pub(super) fn calls_per_packet(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<f64> {
    /// Minimum number of calls per packet; more than any work on a packet needs.
    const CALLS: f64 = 100.0;
    /// Minimum fraction of time on a CPU: the thread does not sleep in its calls.
    const RUNS: f64 = 0.8;
    /// Minimum packet rate for the ratio to mean anything.
    const PACKETS_PER_S: f64 = 10.0;
    let rate = facts.packet_rate().filter(|rate| *rate >= PACKETS_PER_S)?;
    let of_thread = thread.system_calls? as f64 / (rate * facts.elapsed());
    let runs = Facts::on_cpu(thread)?.low >= RUNS;
    let of_all = Measure::CallsPerPacket.of(facts, Subject::Thread(thread))?.low;
    (runs && of_thread >= CALLS && of_all >= CALLS).then_some(of_thread)
}

/// Detects a thread, in a program that uses kernel sockets, that hardly ever sleeps although most
/// of its system calls are meant to wait for input or for room. If calls are not counted, detects
/// one that spends far more time in the kernel than packets of that size need.
pub(super) fn spins(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Doubt> {
    /// Minimum CPU demand, and maximum number of sleeps per packet.
    const RUNS: f64 = 0.8;
    const SLEEPS: f64 = 0.05;
    let packets = facts.packets().filter(|packets| *packets > 0)? as f64;
    let sleeps = thread.voluntary_switches as f64;
    if !facts.uses_stack() || thread.demand() < RUNS || sleeps > SLEEPS * packets {
        return None;
    }
    let how = match thread.system_calls {
        Some(calls) => empty_waits(facts, calls as f64, packets)?,
        None => long_in_kernel(facts, thread, packets)?,
    };
    Doubt::new(
        format!(
            "Cannot tell how much of its time the program works: thread {} hardly ever sleeps and \
             {how} on an event that is always ready (such as EPOLLOUT or POLLOUT on a connection \
             with nothing to send), or because of a timeout of 0.",
            label(thread)
        ),
        see_which_call(thread),
    )
}

/// Returns what to do about a thread that spins.
pub(super) fn see_which_call(thread: &ThreadActivity) -> String {
    format!(
        "See which call returns at once, and with which event: strace -f -p {} (for a second); \
         request EPOLLOUT only after a send has returned EAGAIN, and do not poll with a timeout of \
         0",
        thread.pid
    )
}

/// Describes the most frequent call that waits for input or for room; `None` unless it makes up
/// most of the calls and far outnumbers the packets.
fn empty_waits(facts: &Facts<'_>, calls: f64, packets: f64) -> Option<String> {
    /// Minimum number of waiting calls per packet, and as a fraction of all calls.
    const PER_PACKET: f64 = 5.0;
    const MOST: f64 = 0.8;
    let of_call = |event: &KernelEvent| {
        let call = event.filter.as_deref()?.strip_prefix("call ")?.to_owned();
        let waits = event.is_of_watched && SleepTime::INPUT.contains(&call.as_str());
        waits.then_some((call, event.count as f64))
    };
    let waits = facts.observation.events.iter().filter_map(of_call);
    let (call, count) = waits.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (count >= PER_PACKET * packets && count >= MOST * calls).then(|| {
        format!(
            "makes {} system calls per packet, {} % of them {call}: it spins",
            three_digits(calls / packets),
            percent((count / calls).min(1.0))
        )
    })
}

/// Describes the CPU time per packet; `None` unless it is mostly spent in the kernel and far longer
/// than packets of that size need.
fn long_in_kernel(facts: &Facts<'_>, thread: &ThreadActivity, packets: f64) -> Option<String> {
    /// Minimum CPU time per packet in seconds, and maximum mean packet size in bytes. A request and
    /// its reply take about 20 us.
    const COST_S: f64 = 50e-6;
    const BYTES: f64 = 1500.0;
    /// Minimum fraction of the CPU time in the kernel.
    const KERNEL: f64 = 0.9;
    let of_thread = |measure: Measure| measure.of(facts, Subject::Thread(thread));
    let cost_s = Facts::on_cpu(thread)?.value * thread.elapsed_s / packets;
    let is_long = cost_s >= COST_S
        && of_thread(Measure::BytesPerPacket)?.value <= BYTES
        && of_thread(Measure::KernelShare)?.value >= KERNEL;
    is_long.then(|| {
        format!(
            "spends {} us of CPU time per packet, mostly in the kernel. Either the kernel does \
             much for each packet, or the thread spins",
            three_digits(1e6 * cost_s)
        )
    })
}
