// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several rules share: sources of thresholds, and lists of causes.

use linerate_record::why::Cause;

pub(super) const RATE: &str = "the rate limit, minus headers and the error of the token bucket";
pub(super) const UNSHAPED: &str = "above that, the stream does not pass through the limit";
pub(super) const TICKS: &str =
    "twice the error of TCP's time accounting, which counts kernel timer ticks (4 ms at 250 Hz)";
pub(super) const PAUSED: &str = "otherwise the pause is not the bottleneck";
pub(super) const LOST: &str = "the error caused by reading the counters at different moments";
pub(super) const FULL: &str = "100 %, minus a margin for scheduling";
pub(super) const WINDOW: &str =
    "measured: 0.8 to 1.5 with small buffers, 20 to 80 with large ones that are read slowly";
pub(super) const IDLE: &str = "the busier side's CPU has headroom";
pub(super) const TURNS: &str = "at nearly all times, at least one side needs a CPU";
pub(super) const BY_BUFFER: &str =
    "if the buffer size is the cause, a buffer four times as large drops less than half as many";
pub(super) const DELIVERS: &str =
    "above this, the sender's CPU limits the stream more than the loss does";
pub(super) const BOUND: &str =
    "a CPU that waits for the other side for up to 15 % of the time still counts as the bottleneck";

/// Causes other than CPU load that stall a stream. If one of them holds, CPU time does not explain
/// the limit.
pub(super) const STOPS: &[Cause] = &[
    Cause::RateLimiter,
    Cause::TcpLoss,
    Cause::NagleDelay,
    Cause::TimerSleep,
    Cause::SlowReceiver,
    Cause::SocketBuffer,
];
/// The causes in [`STOPS`], plus window and send buffer limits, software checksums, and contention
/// for CPUs.
pub(super) const ALL_STOPS: &[Cause] = &joined::<10>(
    STOPS,
    &[Cause::SendBuffer, Cause::ReceiveWindow, Cause::SoftwareChecksum, Cause::CpuContention],
);
/// The causes in [`ALL_STOPS`], plus the parts of the CPU time that have rules of their own.
pub(super) const STOPS_AND_COSTS: &[Cause] =
    &joined::<12>(ALL_STOPS, &[Cause::SystemCalls, Cause::Copying]);

/// Joins two lists with `N` causes in total.
const fn joined<const N: usize>(first: &[Cause], more: &[Cause]) -> [Cause; N] {
    assert!(first.len() + more.len() == N, "N is the length of both lists");
    let mut all = [Cause::CannotTell; N];
    let mut index = 0;
    while index < N {
        all[index] = if index < first.len() { first[index] } else { more[index - first.len()] };
        index += 1;
    }
    all
}
