// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimated CPU time of counted events, from the cost of a single event: lowest, most likely,
//! highest. Unless another source is given, costs were measured on Linux 6.18 under KVM (EPYC), in
//! runs with and without the events.

use super::super::facts::{Facts, counted};
use super::counts::{bytes, opened};
use linerate_record::stats::Estimate;
use linerate_record::why::ThreadActivity;

/// Cost of one event: lowest, most likely, highest.
pub(super) type Cost = (f64, f64, f64);

/// Seconds per page fault, including the system calls that usually accompany it (mmap, munmap): 0.5
/// us on bare metal to 12 us in a guest (nginx with MALLOC_MMAP_THRESHOLD_=512: 2.8 faults per
/// request, 28 us more per request).
pub(super) const FAULT_S: Cost = (0.5e-6, 3e-6, 12e-6);

/// Seconds per system call entry and exit: an empty call takes 0.1 us on bare metal to 0.3 us with
/// the mitigations for processors from before 2019; with argument checks and the socket lock, up to
/// 1 us.
const CALL_S: Cost = (0.1e-6, 0.4e-6, 1.0e-6);

/// Seconds to send a packet, and to receive it over a veth pair, as a packet of its own instead of
/// as part of a larger one: 1.1 us (8.1 to 4.9 Gb/s without TSO and GSO); less without the
/// receiver.
const SEGMENT_S: Cost = (0.2e-6, 1.0e-6, 2.0e-6);

/// Seconds per checksummed byte: 0.05 ns in cache with AVX2; 0.5 ns if the checksum also forces a
/// copy that sendfile would avoid.
const CHECKSUM_S: Cost = (0.05e-9, 0.2e-9, 0.5e-9);

/// Seconds to set up and close a connection: 30 to 90 us of CPU time (nginx, 26 to 42 k requests/s
/// with keepalive, 9 to 20 k without), part of which is the client's.
const CONNECTION_S: Cost = (12e-6, 40e-6, 90e-6);

/// Maximum share of a thread's time in an estimate: some other work always remains.
const MOST: f64 = 0.85;

/// CPU time taken by events at this rate.
pub(super) fn at(rate: Estimate, (low, likely, high): Cost) -> Estimate {
    Estimate { low: rate.low * low, high: rate.high * high, ..rate.scale(likely) }
}

/// Caps a share so that it stays below the whole time.
pub(super) fn at_most_all(share: Estimate) -> Estimate {
    let most = |share: f64| share.min(MOST);
    let Estimate { value, low, high, .. } = share;
    Estimate { value: most(value), low: most(low), high: most(high), ..share }
}

/// Cost of events relative to the program's CPU time, capped at [`MOST`].
fn of_used(facts: &Facts<'_>, events: u64, cost: Cost) -> Option<Estimate> {
    let used = facts.used_cpus() * facts.elapsed();
    Some(at_most_all(at(counted(events, used)?, cost)))
}

/// Cost of a thread's system calls; without privileges a lower bound, from its I/O calls.
pub(super) fn calls(thread: &ThreadActivity) -> Option<Estimate> {
    let on_cpu = Facts::on_cpu(thread)?.value * thread.elapsed_s;
    let calls = thread.system_calls.or(thread.io_calls)?;
    Some(at_most_all(at(counted(calls, on_cpu)?, CALL_S)))
}

/// Cost of the packets that the program's connections sent in excess of the number of 64 KiB
/// packets.
pub(super) fn segments(facts: &Facts<'_>) -> Option<Estimate> {
    let tcps = facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let (sent, acked) = tcps.fold((0, 0), |(segments, bytes), tcp| {
        (segments + tcp.segments_out, bytes + tcp.bytes_acked)
    });
    of_used(facts, sent.checked_sub(acked / 65_536)?, SEGMENT_S)
}

/// Cost of checksums over the bytes of the program's connections.
pub(super) fn checksums(facts: &Facts<'_>) -> Option<Estimate> {
    of_used(facts, bytes(facts)?, CHECKSUM_S)
}

/// Cost of establishing connections.
pub(super) fn connections(facts: &Facts<'_>) -> Option<Estimate> {
    of_used(facts, opened(facts)?, CONNECTION_S)
}
