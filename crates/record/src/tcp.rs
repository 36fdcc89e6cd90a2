// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `tcp` record: how fast TCP stacks run with different sets of checksum and copy
//! routines, under various traffic patterns. A run without checksums serves as the upper bound.
//!
//! For each pattern, all sets ran in the same rounds, in random order. Client and server share a
//! thread, and the stacks run on a virtual clock. Rates are per second of CPU time.

use crate::figure::Figure;
use crate::kernels::Skipped;
use serde::{Deserialize, Serialize};

/// Names of the supported TCP stacks.
pub const STACKS: [&str; 2] = ["smoltcp", "lwip"];

/// TCP stacks measured on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpReport {
    /// Logical CPU on which everything was measured.
    pub cpu: u32,
    /// The set of routines that callers get by default, whose figures are in `summary`.
    pub selected: String,
    /// The set that uses no vector registers; `over_scalar` is relative to it.
    pub scalar: String,
    /// Results per TCP stack.
    pub stacks: Vec<TcpStack>,
    /// Throughput under packet loss, fitted per stack; empty unless requested.
    pub laws: Vec<TcpLaw>,
    /// Parts of the measurement that were skipped, and why.
    pub skipped: Vec<Skipped>,
    /// Random seed.
    pub seed: u64,
    /// Whether the run was stopped early.
    pub interrupted: bool,
}

/// Results for one TCP stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpStack {
    /// Stack name, one word.
    pub name: String,
    /// Version of the stack.
    pub version: String,
    /// Whether the stack's internal copies also use the routines of the set.
    pub copies_by_routines: bool,
    /// Results per traffic pattern.
    pub patterns: Vec<TcpPattern>,
}

/// How a stack's throughput depends on loss rate, segment size and round-trip time, compared with
/// the Mathis equation, C * MSS / (RTT * sqrt(loss)), which holds for a sender that halves its
/// window on each loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpLaw {
    /// Name of the stack.
    pub stack: String,
    /// Delayed-ACK timeout of the receiver, in virtual milliseconds.
    #[serde(serialize_with = "crate::finite")]
    pub ack_delay_ms: f64,
    /// Number of segments per run.
    pub segments_per_run: u64,
    /// Number of runs per point.
    pub runs_per_point: u64,
    /// Measured points, to which the exponents and the constant are fitted.
    pub points: Vec<TcpLawPoint>,
    /// Fitted exponent of the loss rate; -0.5 in the Mathis equation.
    pub exponent_loss: Figure,
    /// Fitted exponent of the segment size; 1 in the Mathis equation.
    pub exponent_segment: Figure,
    /// Fitted exponent of the round-trip time; -1 in the Mathis equation.
    pub exponent_round_trip: Figure,
    /// Constant C, fitted with the exponents fixed at those of the Mathis equation.
    pub constant: Figure,
}

/// Throughput at one combination of loss rate, segment size and round-trip time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpLawPoint {
    /// Loss rate of segments with payload, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub loss: f64,
    /// Payload bytes per segment.
    pub segment_bytes: u64,
    /// Round-trip time in virtual milliseconds, excluding delayed ACKs.
    #[serde(serialize_with = "crate::finite")]
    pub round_trip_ms: f64,
    /// Goodput, in Mb/s of virtual time.
    pub mbps: Figure,
}

/// How frames reach the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TcpWire {
    /// Frames are copied to the receiver.
    Copy,
    /// Frames are passed to the receiver by reference.
    Reference,
}

/// Results for one traffic pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpPattern {
    /// Name of the pattern: `bulk`, `interactive`, `jumbo`, `mixed` or `response`.
    pub name: String,
    /// Payload bytes in a full segment.
    pub segment_bytes: u64,
    /// Size of each of the four buffers (send and receive, client and server), in bytes.
    pub buffer_bytes: u64,
    /// How frames reach the receiver.
    pub wire: TcpWire,
    /// Message length mix; `null` if the pattern has none.
    pub mix: Option<String>,
    /// Where the length mix comes from; `null` if the pattern has none.
    pub mix_source: Option<String>,
    /// Correctness check over an impaired wire before the timed runs. Its results are the same for
    /// every set.
    pub proof: TcpProof,
    /// The fastest set other than `off`, which is only a bound; `null` if no set was measured.
    pub best: Option<String>,
    /// Number of timed slices of work.
    pub slices: u64,
    /// Number of timed slices discarded as preempted.
    pub slices_dropped: u64,
    /// Results per set of routines.
    pub sets: Vec<TcpSet>,
}

/// Correctness check over a wire that drops, delays, duplicates and corrupts frames. Every received
/// byte was compared with what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpProof {
    /// Payload bytes received.
    pub bytes: u64,
    /// Number of exchanges, messages or connections, depending on the pattern.
    pub exchanges: u64,
    /// Frames sent; the same in every run with the same seed.
    pub segments: u64,
    /// Frames dropped by the wire.
    pub lost: u64,
    /// Frames reordered by being delayed.
    pub reordered: u64,
    /// Frames duplicated by the wire.
    pub duplicated: u64,
    /// Frames that arrived corrupted.
    pub corrupted: u64,
    /// Frames dropped by the wire because their corruption left every checksum valid; not included
    /// in `corrupted`.
    pub masked: u64,
}

/// Results for one set of routines under one traffic pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpSet {
    /// Name of the set: a kernel variant, `selected`, `document` (the white paper's routines in C),
    /// `libc` (the white paper's checksum with the C library's copy), `stack` (the stack's own
    /// checksums) or `off` (no checksums, as a bound).
    pub name: String,
    /// Goodput, in gigabits per second of CPU time.
    pub gbps_per_cpu_s: Figure,
    /// Frames, including ACKs, per second of CPU time.
    pub segments_per_cpu_s: Figure,
    /// Exchanges, messages or connections per second of CPU time.
    pub exchanges_per_cpu_s: Figure,
    /// CPU time per frame, in nanoseconds.
    pub ns_per_segment: Figure,
    /// CPU time of both ends per exchange or connection, in nanoseconds.
    pub round_trip_cpu_ns: Figure,
    /// Virtual time per exchange or connection, in microseconds.
    pub round_trip_virtual_us: Figure,
    /// Rate relative to `off` (no checksums) in the same rounds.
    pub of_bound: Figure,
    /// Rate relative to that of `document`, the set of routines in C.
    pub over_c: Figure,
    /// Rate relative to the set that uses no vector registers.
    pub over_scalar: Figure,
    /// Fraction of time spent in separate checksum passes, timed around each call.
    pub share_checksum: Figure,
    /// Fraction of time spent in copy routines, timed around each call.
    pub share_copy: Figure,
    /// Fraction of time spent in combined copy+checksum routines, timed around each call.
    pub share_copy_checksum: Figure,
    /// Fraction of time spent in separate checksum passes, estimated by random sampling.
    pub sampled_checksum: Figure,
    /// Fraction of time spent in copy routines, estimated by random sampling.
    pub sampled_copy: Figure,
    /// Fraction of time spent in combined copy+checksum routines, estimated by random sampling.
    pub sampled_copy_checksum: Figure,
    /// Bytes checksummed in a separate pass, per byte of payload.
    pub checksum_per_payload: Figure,
    /// Calls from the stack into the routines, per routine.
    pub seam: Vec<TcpSeam>,
}

/// Value of [`TcpSeam::routine`] for header checksums, which are inlined in every set.
pub const SEAM_HEADER: &str = "header";
/// Value of [`TcpSeam::routine`] for header copies with checksum, which are inlined in every set.
pub const SEAM_COPY_HEADER: &str = "copy_header";

/// Calls to one routine, or executions of code that is inlined in every set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpSeam {
    /// Name of the routine: `checksum`, `copy` or `copy_checksum`. For inlined code, `header` is a
    /// separate checksum, and `copy_header` is a copy with checksum.
    pub routine: String,
    /// Number of calls.
    pub calls: u64,
    /// Total bytes processed by the calls.
    pub bytes: u64,
    /// Histogram of call lengths in bytes: 0, 1, 2 to 3, 4 to 7, and so on.
    pub lengths: Vec<u64>,
    /// Histogram of source alignments: 0 to 7 bytes past a multiple of 64, 8 to 15, and so on.
    pub alignments: Vec<u64>,
}

impl TcpSeam {
    /// Returns whether the code is inlined, and therefore identical in all sets.
    pub fn is_inline(&self) -> bool {
        [SEAM_HEADER, SEAM_COPY_HEADER].contains(&self.routine.as_str())
    }
}

/// The routine whose timed and sampled shares differ most, and by how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpApart {
    /// Name of the routine: `sum`, `copy` or `copy+sum`.
    pub routine: &'static str,
    /// Difference between the two shares, 0 to 1.
    pub share: f64,
}

impl TcpSet {
    /// Returns the largest difference between timed and sampled shares; `None` if no share was both
    /// timed and sampled.
    pub fn shares_apart(&self) -> Option<TcpApart> {
        let all = [
            ("sum", &self.share_checksum, &self.sampled_checksum),
            ("copy", &self.share_copy, &self.sampled_copy),
            ("copy+sum", &self.share_copy_checksum, &self.sampled_copy_checksum),
        ];
        let apart = all.into_iter().filter_map(|(routine, timed, sampled)| {
            let share = (timed.as_number()? - sampled.as_number()?).abs();
            Some(TcpApart { routine, share })
        });
        apart.max_by(|a, b| a.share.total_cmp(&b.share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tier;

    fn share(value: Option<f64>) -> Figure {
        value.map_or_else(
            || Figure::absent("1", Tier::Sw, "synthetic", "synthetic"),
            |value| Figure::exact("1", value, Tier::Sw, "synthetic"),
        )
    }

    /// Builds a set with the given shares for checksums, copies, and copies with checksum, each as
    /// a pair of timed and sampled share.
    fn set(shares: [[Option<f64>; 2]; 3]) -> TcpSet {
        let [[checksum, checksum_seen], [copy, copy_seen], [both, both_seen]] = shares;
        let none = || share(None);
        TcpSet {
            name: "synthetic".to_owned(),
            gbps_per_cpu_s: none(),
            segments_per_cpu_s: none(),
            exchanges_per_cpu_s: none(),
            ns_per_segment: none(),
            round_trip_cpu_ns: none(),
            round_trip_virtual_us: none(),
            of_bound: none(),
            over_c: none(),
            over_scalar: none(),
            share_checksum: share(checksum),
            share_copy: share(copy),
            share_copy_checksum: share(both),
            sampled_checksum: share(checksum_seen),
            sampled_copy: share(copy_seen),
            sampled_copy_checksum: share(both_seen),
            checksum_per_payload: none(),
            seam: Vec::new(),
        }
    }

    #[test]
    fn methods_are_as_far_apart_as_where_they_differ_most() {
        let shares = [[Some(0.5), Some(0.5)], [Some(0.25), Some(0.375)], [Some(0.5), None]];
        let apart = set(shares).shares_apart();
        assert_eq!(apart, Some(TcpApart { routine: "copy", share: 0.125 }));
        let unseen = set([[Some(0.5), None], [None, Some(0.5)], [None, None]]);
        assert_eq!(unseen.shares_apart(), None);
    }
}
