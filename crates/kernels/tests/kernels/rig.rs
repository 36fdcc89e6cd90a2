// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test helpers: the definition of the checksum, buffer contents, lengths, and the variants.

use linerate_kernels::{Kernels, variants};

/// Implements RFC 1071 literally: big-endian words, an odd last byte followed by a zero, carries
/// folded at the end.
pub(crate) fn rfc1071(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for (i, &byte) in bytes.iter().enumerate() {
        sum += u64::from(byte) << if i % 2 == 0 { 8 } else { 0 };
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns pseudo-random bytes that depend only on the length and the seed.
pub(crate) fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..bytes).map(|_| random.u8(..)).collect()
}

/// Returns four buffer contents, whose sums produce carries occasionally, always, never, and nearly
/// always.
pub(crate) fn fills(bytes: usize) -> [Vec<u8>; 4] {
    let mut mostly = vec![0xff; bytes];
    mostly.iter_mut().step_by(97).for_each(|byte| *byte = 0xfe);
    [noise(bytes, 7), vec![0xff; bytes], vec![0; bytes], mostly]
}

/// Returns every length up to four vectors, plus lengths around powers of two and packet lengths.
pub(crate) fn lengths() -> impl Iterator<Item = usize> {
    let around = [320, 383, 512, 576, 1024, 1460, 1480, 1500, 2048].into_iter();
    (0..=260).chain(around.flat_map(|n| n - 1..=n + 1))
}

/// Returns the selected variant, and every variant supported by this CPU.
pub(crate) fn kernels() -> Vec<Kernels> {
    let runnable = variants().filter_map(|v| v.kernels().ok());
    std::iter::once(Kernels::selected()).chain(runnable).collect()
}
