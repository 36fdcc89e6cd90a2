// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arithmetic on partial sums. [`crate::checksum`] adds bytes to sums.

use core::ops::Add;

/// A ones' complement sum that has not been folded: congruent, modulo 65535, to the sum of the
/// 16-bit words added so far, in the byte order of the machine.
///
/// Two kernels may return different sums for the same bytes; the sums agree after
/// [`fold`](Sum::fold), so compare folded sums. A sum is zero only if nothing but zeros was added.
///
/// ```
/// use linerate_kernels::{Sum, checksum};
///
/// // The example of RFC 1071, section 3.
/// let sum = checksum::partial(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], Sum::ZERO);
/// assert_eq!(sum.fold(), 0xddf2);
/// assert_eq!(sum.finish(), !0xddf2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Sum(u32);

impl Sum {
    /// The sum of no bytes.
    pub const ZERO: Self = Self(0);

    /// Creates a sum from the representation used by `lr_csum_partial`.
    #[inline]
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// Returns the sum in the representation used by `lr_csum_partial`.
    #[inline]
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Folds a 64-bit sum to 32 bits.
    ///
    /// The first step leaves at most 2^33 - 2, the second at most 2^32 - 1; neither turns a nonzero
    /// sum into zero.
    #[inline]
    pub(crate) const fn from_wide(wide: u64) -> Self {
        let wide = (wide >> 32) + (wide & 0xffff_ffff);
        Self(((wide >> 32) + (wide & 0xffff_ffff)) as u32)
    }

    /// Returns the sum of a 32-bit number that is stored in the packet in network byte order, at an
    /// even offset.
    #[inline]
    pub(crate) const fn of_number(number: u32) -> Self {
        Self(number.to_be())
    }

    /// Folds the sum to 16 bits (RFC 1071) and returns it as a number. Bytes that include their own
    /// checksum are intact if the result is `0xffff`. The result is zero only for a sum of zero.
    #[inline]
    pub const fn fold(self) -> u16 {
        // The first step leaves at most 0x1fffe, the second at most 0xffff.
        let sum = (self.0 >> 16) + (self.0 & 0xffff);
        u16::from_be(((sum >> 16) + (sum & 0xffff)) as u16)
    }

    /// Returns the checksum as a number. Write it into the packet with
    /// [`to_be_bytes`](u16::to_be_bytes). The checksum field must have been zero when it was
    /// summed.
    #[inline]
    pub const fn finish(self) -> u16 {
        !self.fold()
    }

    /// Returns the checksum to write into a UDP header, where zero means that there is no checksum
    /// (RFC 768): a checksum of zero is sent as `0xffff`, which is also zero in ones' complement.
    #[inline]
    pub const fn finish_udp(self) -> u16 {
        match self.finish() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Joins the sum of a fragment to the sum of everything before it. `offset` is the offset of
    /// the fragment in the message, in bytes; only its parity matters. A packet in several buffers,
    /// even if split at odd offsets, can thus be summed buffer by buffer.
    ///
    /// After an odd number of bytes, the fragment's bytes fall into the other halves of their
    /// words. Rotating the sum by 8 bits corrects this: it multiplies by 256 modulo 2^32 - 1, which
    /// is divisible by 65535.
    ///
    /// ```
    /// use linerate_kernels::{Sum, checksum};
    ///
    /// let message = b"three bytes, and the rest";
    /// let (first, rest) = message.split_at(3);
    /// let sum = checksum::partial(first, Sum::ZERO);
    /// let sum = sum.combine(checksum::partial(rest, Sum::ZERO), 3);
    /// assert_eq!(sum.fold(), checksum::partial(message, Sum::ZERO).fold());
    /// ```
    #[inline]
    #[must_use]
    pub const fn combine(self, fragment: Self, offset: usize) -> Self {
        let aligned = if offset.is_multiple_of(2) { fragment.0 } else { fragment.0.rotate_left(8) };
        self.plus(Self(aligned))
    }

    #[inline]
    const fn plus(self, other: Self) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Self(sum + carry as u32)
    }
}

impl Add for Sum {
    type Output = Self;

    /// Adds two sums with end-around carry. The bytes of each sum must begin at an even offset in
    /// the same message.
    #[inline]
    fn add(self, other: Self) -> Self {
        self.plus(other)
    }
}
