// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that never sleep, and whose polling shows in their number of system calls.

use super::super::facts::{Facts, Subject};
use super::super::measure::Measure;
use linerate_record::why::ThreadActivity;

/// Returns the number of system calls per packet of a thread that busy-polls: most of these calls
/// find nothing. A saturated thread finds packets at each poll.
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
