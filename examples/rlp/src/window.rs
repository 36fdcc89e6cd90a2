// SPDX-License-Identifier: MIT OR Apache-2.0
//! Duplicate detection of a bearer's packets by GRE sequence number (RFC 2890, 2.2).
//!
//! A byte stream cannot use a packet that arrives after its successor, so only packets beyond the
//! highest number seen are accepted; a bitmap of the last 64 distinguishes duplicates from late
//! packets. A number far from the highest, in either direction, first counts as damaged; if the
//! next packet continues it, the peer has restarted and the receiver resynchronizes. After a
//! restart at a smaller distance packets are late until they pass the highest: within that range,
//! they may be reordered.
//!
//! Not implemented: holding packets back to reorder them, which RFC 2890 permits but does not
//! require.

/// Distance from the highest number, in either direction, beyond which a number counts as damaged.
pub const MAX_JUMP: u32 = 1024;

/// Reasons why a packet is not new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stale {
    /// The number was seen before, as one of the last 64.
    Duplicate,
    /// A higher number was let through already.
    Late,
    /// The number is far from those before it.
    Jump,
}

/// The names of [`Stale`], in order.
pub const STALE_NAMES: [&str; 3] = ["duplicate", "late", "jump"];

impl Stale {
    /// Index into [`STALE_NAMES`].
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The numbers seen in one session and direction.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The highest number seen; meaningless until `seen` is not 0.
    highest: u32,
    /// Bit `i`: `highest - i` was seen.
    seen: u64,
    /// The continuation of the last number that counted as damaged.
    restart: Option<u32>,
}

impl Window {
    /// Lets a number through, or says why not. The first of all is let through whatever it is.
    ///
    /// Returns how many numbers in front of it are missing.
    ///
    /// # Errors
    /// The reason for dropping the packet.
    #[inline]
    pub fn admit(&mut self, sequence: u32) -> Result<u32, Stale> {
        let ahead = sequence.wrapping_sub(self.highest);
        if self.seen != 0 && ahead == 1 {
            (self.highest, self.seen, self.restart) = (sequence, self.seen << 1 | 1, None);
            return Ok(0);
        }
        self.admit_other(sequence, ahead)
    }

    /// A number other than the next.
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
            // The highest itself is 0 behind.
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
