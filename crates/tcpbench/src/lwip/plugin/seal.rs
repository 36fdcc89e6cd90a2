// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checksum that seals an object. `cargo xtask fetch lwip` computes it and the loader verifies it,
//! both with this source file.

/// Computes the 64-bit FNV-1a hash (Fowler, Noll and Vo).
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::fnv1a;

    /// Compares with test vectors published by the authors of FNV.
    #[test]
    fn sums_are_those_of_its_authors() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
