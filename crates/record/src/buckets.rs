// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distribution of replayed packets over RSS buckets, which limits the gain from replicas.

use crate::units::three_digits;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Distribution of a path's packets over RSS buckets. All packets in a bucket go to the same
/// replica.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BucketUse {
    /// Number of buckets.
    pub buckets: u32,
    /// Number of buckets that contain packets.
    pub in_use: u32,
    /// Fraction of the packets that are in the fullest bucket, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub largest_share: f64,
}

impl BucketUse {
    /// Creates the distribution from `weights`, the number of packets in each bucket; `None`
    /// without packets.
    pub fn of(weights: &[u64]) -> Option<Self> {
        let packets: u64 = weights.iter().sum();
        let largest = weights.iter().max().filter(|_| packets > 0)?;
        Some(Self {
            buckets: weights.len() as u32,
            in_use: weights.iter().filter(|packets| **packets > 0).count() as u32,
            largest_share: *largest as f64 / packets as f64,
        })
    }

    /// Returns the limit that the distribution sets on the gain from `replicas` replicas; `None` if
    /// the gain is at least half of that with evenly distributed packets. The replica with the
    /// fullest bucket is the bottleneck, so all replicas together reach at most `1 / largest_share`
    /// times the rate of one.
    pub fn limit(self, replicas: u32) -> Option<BucketLimit> {
        let half_gain = (1.0 + f64::from(replicas)) / 2.0;
        let is_limit = replicas > 1 && self.largest_share * half_gain > 1.0;
        is_limit.then_some(BucketLimit { buckets: self, replicas })
    }
}

/// Limit that an uneven distribution over RSS buckets sets on the gain from replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketLimit {
    buckets: BucketUse,
    replicas: u32,
}

impl fmt::Display for BucketLimit {
    /// Writes what limits the replicas, and the remedy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { buckets: BucketUse { buckets, in_use, largest_share }, replicas } = self;
        if *in_use == 1 {
            write!(
                f,
                "all packets fall into 1 of {buckets} RSS buckets, so one of {replicas} replicas \
                 processes them all: replicas cannot help"
            )?;
        } else {
            write!(
                f,
                "{} % of the packets fall into one RSS bucket ({in_use} of {buckets} are in use), \
                 so {replicas} replicas reach at most {} times the rate of one",
                three_digits(100.0 * largest_share),
                three_digits(1.0 / largest_share)
            )?;
        }
        f.write_str(
            "; replay packets of more connections or hosts, or split the stages over workers \
             (unless a stage steers packets, a hash of the addresses and, except for tunnels and \
             fragments, of the TCP or UDP ports selects the bucket)",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_limited_by_the_fullest_bucket() {
        let limit = |weights: &[u64], replicas| {
            BucketUse::of(weights).and_then(|of| of.limit(replicas)).map(|limit| limit.to_string())
        };
        assert_eq!(limit(&[0, 0], 2), None, "no packets");
        assert_eq!(limit(&[9, 0], 1), None, "one worker");
        assert_eq!(limit(&[2, 1, 0], 2), None, "1.5 times the rate of one");
        assert_eq!(limit(&[1; 128], 64), None);
        let one = limit(&[0, 9, 0], 2).expect("a limit");
        assert!(one.starts_with("all packets fall into 1 of 3 RSS buckets, so one of 2 "), "{one}");
        let most = limit(&[8, 1, 1, 0], 4).expect("a limit");
        let expected = "80 % of the packets fall into one RSS bucket (3 of 4 are in use), so 4 \
                        replicas reach at most 1.25 times the rate of one; ";
        assert!(most.starts_with(expected), "{most}");
    }
}
