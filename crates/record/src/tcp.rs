// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `tcp` record: the speed of TCP stacks with different sets of checksum and copy
//! routines, under various traffic patterns. An upper bound is the same run without checksums.
//!
//! For each pattern, all sets of routines ran in the same rounds, in random order, with client and
//! server in one thread and the stacks on a virtual clock. Rates are per second of CPU time.

use crate::figure::Figure;
use crate::kernels::Skipped;
use serde::{Deserialize, Serialize};

/// Names of the TCP stacks that can be measured.
pub const STACKS: [&str; 2] = ["smoltcp", "lwip"];

/// TCP stacks measured on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpReport {
    /// The logical CPU on which all measurements ran.
    pub cpu: u32,
    /// Name of the set of routines that callers get by default; `summary` contains its figures.
    pub selected: String,
    /// Name of the set without vector registers; `over_scalar` is relative to it.
    pub scalar: String,
    /// Results, one entry per TCP stack.
    pub stacks: Vec<TcpStack>,
    /// Throughput under packet loss, fitted for each stack; empty if not requested.
    pub laws: Vec<TcpLaw>,
    /// Parts of the measurement that were skipped, with reasons.
    pub skipped: Vec<Skipped>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Whether the run was stopped early.
    pub interrupted: bool,
}

/// Results for one TCP stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpStack {
    /// Name of the stack, one word.
    pub name: String,
    /// Version of the stack.
    pub version: String,
    /// Whether copies inside the stack also use the routines of the set.
    pub copies_by_routines: bool,
    /// Results, one entry per traffic pattern.
    pub patterns: Vec<TcpPattern>,
}

/// Dependence of a stack's throughput on loss, segment size and round-trip time, compared with the
/// law C * MSS / (RTT * sqrt(loss)) for a sender that halves its window on each loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpLaw {
    /// Name of the stack.
    pub stack: String,
    /// Time by which the receiver delays ACKs, in virtual milliseconds.
    #[serde(serialize_with = "crate::finite")]
    pub ack_delay_ms: f64,
    /// Number of segments per run.
    pub segments_per_run: u64,
    /// Number of runs per point.
    pub runs_per_point: u64,
    /// The measured points to which the exponents and the constant were fitted.
    pub points: Vec<TcpLawPoint>,
    /// Fitted exponent of the loss rate; the law has -0.5.
    pub exponent_loss: Figure,
    /// Fitted exponent of the segment size; the law has 1.
    pub exponent_segment: Figure,
    /// Fitted exponent of the round-trip time; the law has -1.
    pub exponent_round_trip: Figure,
    /// The constant C, assuming the exponents of the law.
    pub constant: Figure,
}

/// Throughput at one combination of loss rate, segment size and round-trip time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpLawPoint {
    /// Loss rate of the segments that carry payload, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub loss: f64,
    /// Payload bytes per segment.
    pub segment_bytes: u64,
    /// Round-trip time in virtual milliseconds, excluding delayed ACKs.
    #[serde(serialize_with = "crate::finite")]
    pub round_trip_ms: f64,
    /// Payload rate, in Mb/s of virtual time.
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
    /// Size in bytes of each of the four buffers: send and receive buffer of client and server.
    pub buffer_bytes: u64,
    /// How frames reach the receiver.
    pub wire: TcpWire,
    /// Mix of message lengths; `null` if the pattern has none.
    pub mix: Option<String>,
    /// Source of the length mix; `null` if the pattern has none.
    pub mix_source: Option<String>,
    /// Correctness check over an impaired wire, before the timed runs; its results are the same for
    /// each set.
    pub proof: TcpProof,
    /// Name of the fastest set, excluding the bound `off`; `null` if no set was measured.
    pub best: Option<String>,
    /// Number of slices of work that were timed.
    pub slices: u64,
    /// Number of timed slices that were discarded because of preemption.
    pub slices_dropped: u64,
    /// Results, one entry per set of routines.
    pub sets: Vec<TcpSet>,
}

/// Check that everything arrives as sent over a wire that drops, delays, duplicates and corrupts
/// frames. Every received byte was compared with the data sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpProof {
    /// Number of payload bytes that arrived.
    pub bytes: u64,
    /// Number of exchanges, messages or connections, depending on the pattern.
    pub exchanges: u64,
    /// Number of frames sent; the same in every run with the same seed.
    pub segments: u64,
    /// Number of frames that the wire dropped.
    pub lost: u64,
    /// Number of frames that the wire reordered by delaying them.
    pub reordered: u64,
    /// Number of frames that the wire duplicated.
    pub duplicated: u64,
    /// Number of frames that arrived corrupted.
    pub corrupted: u64,
    /// Number of frames whose corruption left every checksum valid, and which the wire therefore
    /// dropped; not included in `corrupted`.
    pub masked: u64,
}

/// Results for one set of routines under one traffic pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpSet {
    /// Name of the set: a variant of the kernels, `selected`, `document` (the white paper's
    /// routines in C), `libc` (its checksum with the C library's copy), `stack` (the stack's own
    /// checksums) or `off` (no checksums: the bound).
    pub name: String,
    /// Payload rate, in gigabits per second of CPU time.
    pub gbps_per_cpu_s: Figure,
    /// Number of frames, including acknowledgements, per second of CPU time.
    pub segments_per_cpu_s: Figure,
    /// Number of exchanges, messages or connections per second of CPU time.
    pub exchanges_per_cpu_s: Figure,
    /// CPU time per frame, in nanoseconds.
    pub ns_per_segment: Figure,
    /// CPU time per exchange or connection, for both ends, in nanoseconds.
    pub round_trip_cpu_ns: Figure,
    /// Time per exchange or connection on the virtual clock, in microseconds.
    pub round_trip_virtual_us: Figure,
    /// Rate relative to the set `off` (no checksums) in the same rounds.
    pub of_bound: Figure,
    /// Rate relative to the set `document` (routines in C).
    pub over_c: Figure,
    /// Rate relative to the set without vector registers.
    pub over_scalar: Figure,
    /// Share of the time spent in separate checksums, from timestamps around each call.
    pub share_checksum: Figure,
    /// Share of the time spent in copies, from timestamps around each call.
    pub share_copy: Figure,
    /// Share of the time spent in combined copy+checksum, from timestamps around each call.
    pub share_copy_checksum: Figure,
    /// Share of the time spent in separate checksums, by random sampling.
    pub sampled_checksum: Figure,
    /// Share of the time spent in copies, by random sampling.
    pub sampled_copy: Figure,
    /// Share of the time spent in combined copy+checksum, by random sampling.
    pub sampled_copy_checksum: Figure,
    /// Number of bytes checksummed in a separate pass, relative to the payload bytes.
    pub checksum_per_payload: Figure,
    /// Calls from the stack into the routines, one entry per routine.
    pub seam: Vec<TcpSeam>,
}

/// Value of [`TcpSeam::routine`] for checksums of headers, which are inlined in every set.
pub const SEAM_HEADER: &str = "header";
/// Value of [`TcpSeam::routine`] for header copies with checksum, which are inlined in every set.
pub const SEAM_COPY_HEADER: &str = "copy_header";

/// Calls to one routine, or to code that is inlined in every set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpSeam {
    /// Name of the routine: `checksum`, `copy` or `copy_checksum`. For inlined code, `header` is a
    /// separate checksum, and `copy_header` is a copy with checksum.
    pub routine: String,
    /// Number of calls.
    pub calls: u64,
    /// Total number of bytes that these calls processed.
    pub bytes: u64,
    /// Number of calls by length in bytes: 0, 1, 2 to 3, 4 to 7, and so on.
    pub lengths: Vec<u64>,
    /// Number of calls by alignment of the source: 0 to 7 bytes past a multiple of 64, 8 to 15, and
    /// so on.
    pub alignments: Vec<u64>,
}

impl TcpSeam {
    /// Returns whether the calls are to inlined code, which is identical in all sets.
    pub fn is_inline(&self) -> bool {
        [SEAM_HEADER, SEAM_COPY_HEADER].contains(&self.routine.as_str())
    }
}

/// The routine for which timed and sampled shares of a set differ most, and the difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpApart {
    /// Name of the routine: `sum`, `copy` or `copy+sum`.
    pub routine: &'static str,
    /// Difference between the two shares of the time, 0 to 1.
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

    /// Builds a set with the given shares for checksums, copies, and copies with checksum; each
    /// pair is the timed and the sampled share.
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
