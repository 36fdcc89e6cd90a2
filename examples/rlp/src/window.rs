// SPDX-License-Identifier: MIT OR Apache-2.0
//! Duplicate detection for A10 packets by GRE sequence number (RFC 2890, 2.2).
//!
//! A byte stream cannot use a packet that arrives after its successor, so only packets beyond the
//! highest number seen are accepted; a bitmap of the last 64 distinguishes duplicates from late
//! packets. A number far from the highest, in either direction, is first considered damaged; if the
//! next packet continues it, the peer has restarted and the receiver resynchronizes. If a peer
//! restarts at a nearby lower number, its packets are rejected as late until they pass the highest:
//! they cannot be distinguished from reordered ones.
//!
//! Holding packets back to reorder them, which RFC 2890 permits but does not require, is not
//! implemented.

/// Distance from the highest number, in either direction, beyond which a number is considered
/// damaged.
pub const MAX_JUMP: u32 = 1024;

/// Why a packet was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stale {
    /// The number is one of the last 64 and was seen before.
    Duplicate,
    /// A higher number was accepted before.
    Late,
    /// The number is far from the preceding numbers.
    Jump,
}

/// Names of [`Stale`], in declaration order.
pub const STALE_NAMES: [&str; 3] = ["duplicate", "late", "jump"];

impl Stale {
    /// Returns the index into [`STALE_NAMES`].
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Numbers seen in one session and direction.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The highest number seen; meaningless while `seen` is 0.
    highest: u32,
    /// Bit `i` is set if number `highest - i` was seen.
    seen: u64,
    /// Number of the next packet if it continues one that was considered damaged.
    restart: Option<u32>,
}

impl Window {
    /// Accepts or rejects a sequence number. The first one is always accepted.
    ///
    /// Returns how many packets are missing before it.
    ///
    /// # Errors
    /// Returns the reason for dropping the packet.
    #[inline]
    pub fn admit(&mut self, sequence: u32) -> Result<u32, Stale> {
        let ahead = sequence.wrapping_sub(self.highest);
        if self.seen != 0 && ahead == 1 {
            (self.highest, self.seen, self.restart) = (sequence, self.seen << 1 | 1, None);
            return Ok(0);
        }
        self.admit_other(sequence, ahead)
    }

    /// Handles a number that is not the successor of the highest.
    fn admit_other(&mut self, sequence: u32, ahead: u32) -> Result<u32, Stale> {
        let behind = ahead.wrapping_neg();
        let is_far = ahead.min(behind) > MAX_JUMP;
        if self.seen == 0 || (is_far && self.restart == Some(sequence)) {
            *self = Self { highest: sequence, seen: 1, restart: None };
            return Ok(0);
        }
        if is_far {
            self.restart = Some(sequence.wrapping_add(1));
            return Err(Stale::Jump);
        }
        if behind <= MAX_JUMP {
            // The distance of the highest number itself is 0.
            let bit = 1_u64.checked_shl(behind).unwrap_or(0);
            let stale = if self.seen & bit != 0 { Stale::Duplicate } else { Stale::Late };
            self.seen |= bit;
            return Err(stale);
        }
        let older = self.seen.checked_shl(ahead).unwrap_or(0);
        (self.highest, self.seen, self.restart) = (sequence, older | 1, None);
        Ok(ahead - 1)
    }
}
