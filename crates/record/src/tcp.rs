// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `tcp` record: speed of TCP stacks with different sets of routines under various
//! traffic patterns, with an upper bound: the same run without checksums.
//!
//! All sets for a pattern ran in the same rounds, in random order, with client and server in one
//! thread and the stacks on a virtual clock. Rates are per second of CPU time.

use crate::figure::Figure;
use crate::kernels::Skipped;
use serde::{Deserialize, Serialize};

/// Known TCP stacks, by name.
pub const STACKS: [&str; 2] = ["smoltcp", "lwip"];

/// TCP stacks measured on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpReport {
    /// The logical CPU on which everything ran.
    pub cpu: u32,
    /// The set that callers get by default; basis of `summary`.
    pub selected: String,
    /// The scalar set used as the basis of `over_scalar`.
    pub scalar: String,
    /// Each stack.
    pub stacks: Vec<TcpStack>,
    /// Throughput under loss, fitted per stack; empty if not requested.
    pub laws: Vec<TcpLaw>,
    /// Parts left out, with reasons.
    pub skipped: Vec<Skipped>,
    /// Random seed.
    pub seed: u64,
    /// Whether the run was stopped early.
    pub interrupted: bool,
}

/// One stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpStack {
    /// Name, one word.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether the stack's internal copies also use the set.
    pub copies_by_routines: bool,
    /// Each pattern.
    pub patterns: Vec<TcpPattern>,
}

/// Dependence of throughput on loss, segment size and round-trip time: C * MSS / (RTT * sqrt(loss))
/// for a sender that halves its window on each loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpLaw {
    /// The stack.
    pub stack: String,
    /// ACK delay in virtual milliseconds.
    #[serde(serialize_with = "crate::finite")]
    pub ack_delay_ms: f64,
    /// Segments per run.
    pub segments_per_run: u64,
    /// Runs per point.
    pub runs_per_point: u64,
    /// The measurements.
    pub points: Vec<TcpLawPoint>,
    /// Exponent of the loss rate; -0.5 in the law.
    pub exponent_loss: Figure,
    /// Exponent of the segment size; 1 in the law.
    pub exponent_segment: Figure,
    /// Exponent of the round-trip time; -1 in the law.
    pub exponent_round_trip: Figure,
    /// C, assuming the exponents of the law.
    pub constant: Figure,
}

/// One point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpLawPoint {
    /// Loss rate of segments that carry payload.
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
    /// Copied.
    Copy,
    /// Passed by reference.
    Reference,
}

/// One traffic pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpPattern {
    /// `bulk`, `interactive`, `jumbo`, `mixed` or `response`.
    pub name: String,
    /// Payload bytes in a full segment.
    pub segment_bytes: u64,
    /// Size of each of the four buffers in bytes.
    pub buffer_bytes: u64,
    /// How frames reach the receiver.
    pub wire: TcpWire,
    /// Length mix; `null` if there is none.
    pub mix: Option<String>,
    /// Source of the length mix.
    pub mix_source: Option<String>,
    /// Results over an impaired wire, run before timing; the same for each set.
    pub proof: TcpProof,
    /// The fastest set, excluding the bound; `null` if no set was measured.
    pub best: Option<String>,
    /// Slices of work that were timed.
    pub slices: u64,
    /// Timed slices discarded because of preemption.
    pub slices_dropped: u64,
    /// Each set.
    pub sets: Vec<TcpSet>,
}

/// Results over a wire that drops, delays, duplicates and corrupts frames. Every received byte was
/// compared with the data sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpProof {
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Exchanges, messages or connections.
    pub exchanges: u64,
    /// Frames sent; reproducible with the same seed.
    pub segments: u64,
    /// Of those, dropped.
    pub lost: u64,
    /// Reordered.
    pub reordered: u64,
    /// Duplicated.
    pub duplicated: u64,
    /// Corrupted.
    pub corrupted: u64,
    /// Frames corrupted without changing the checksum, and therefore dropped.
    pub masked: u64,
}

/// One set of routines under one pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpSet {
    /// A variant of the kernels, `selected`, `document` (the white paper's routines in C), `libc`
    /// (its checksum with the C library's copy), `stack` (the stack's own checksums) or `off` (no
    /// checksums: the bound).
    pub name: String,
    /// Payload in Gb per second of CPU time.
    pub gbps_per_cpu_s: Figure,
    /// Frames, including acknowledgements, per second of CPU time.
    pub segments_per_cpu_s: Figure,
    /// Exchanges, messages or connections per second of CPU time.
    pub exchanges_per_cpu_s: Figure,
    /// Nanoseconds of CPU time per frame.
    pub ns_per_segment: Figure,
    /// Nanoseconds of CPU time per exchange or connection, for both ends.
    pub round_trip_cpu_ns: Figure,
    /// Virtual microseconds per exchange or connection.
    pub round_trip_virtual_us: Figure,
    /// The rate relative to `off` in the same rounds.
    pub of_bound: Figure,
    /// The rate relative to `document`.
    pub over_c: Figure,
    /// The rate relative to the set without vector registers.
    pub over_scalar: Figure,
    /// Share of the time spent in separate checksums.
    pub share_checksum: Figure,
    /// Share in copies.
    pub share_copy: Figure,
    /// Share of the time spent in combined copy+checksum.
    pub share_copy_checksum: Figure,
    /// Share of the time spent in separate checksums, by random sampling.
    pub sampled_checksum: Figure,
    /// Share of the time spent in copies, by random sampling.
    pub sampled_copy: Figure,
    /// Share of the time spent in combined copy+checksum, by random sampling.
    pub sampled_copy_checksum: Figure,
    /// Bytes checksummed separately, relative to payload bytes.
    pub checksum_per_payload: Figure,
    /// Calls from the stack into the routines.
    pub seam: Vec<TcpSeam>,
}

/// Value of [`TcpSeam::routine`] for header checksums, and for header copies with checksum.
pub const SEAM_HEADER: &str = "header";
/// See [`SEAM_HEADER`].
pub const SEAM_COPY_HEADER: &str = "copy_header";

/// Calls to one routine, or to code that is inlined in every set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpSeam {
    /// `checksum`, `copy` or `copy_checksum`; for inlined code `header`, a separate checksum, or
    /// `copy_header`, a copy with checksum.
    pub routine: String,
    /// Number of calls.
    pub calls: u64,
    /// Total bytes in these calls.
    pub bytes: u64,
    /// Calls by length: 0, 1, 2 to 3, 4 to 7, and so on.
    pub lengths: Vec<u64>,
    /// Calls by source alignment: 0 to 7 bytes past a multiple of 64, 8 to 15, and so on.
    pub alignments: Vec<u64>,
}

impl TcpSeam {
    /// Whether this is inlined code, identical in all sets.
    pub fn is_inline(&self) -> bool {
        [SEAM_HEADER, SEAM_COPY_HEADER].contains(&self.routine.as_str())
    }
}

/// The largest disagreement between the two methods on the shares for a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpApart {
    /// The routine: `sum`, `copy` or `copy+sum`.
    pub routine: &'static str,
    /// Difference as a share of the time.
    pub share: f64,
}

impl TcpSet {
    /// Returns the largest difference between timed and sampled shares; `None` if either is absent.
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

    /// Builds a set with shares for checksums, copies, and copies with checksum, each timed and
    /// sampled.
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
