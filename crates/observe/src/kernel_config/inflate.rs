// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decompresses a gzip file (RFC 1952). Accepts any bytes; the checksum is not verified.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// Length of the fixed part of a gzip header, in bytes.
const HEADER: usize = 10;
/// Length of the gzip trailer, in bytes.
const TRAILER: usize = 8;

/// Returns the contents of the first member of a gzip file; `None` if it is damaged, has optional
/// header fields, or is longer than `bytes_max`.
pub(super) fn gunzip(file: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let (header, rest) = file.split_at_checked(HEADER)?;
    let is_plain = header.starts_with(&[0x1f, 0x8b, 8, 0]);
    let length = rest.len().checked_sub(TRAILER).filter(|_| is_plain)?;
    decompress_to_vec_with_limit(&rest[..length], bytes_max).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    /// Returns the bytes as compressed by gzip(1); `None` if it is not installed.
    fn gzip(level: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut command = Command::new("gzip");
        command.args([level, "-n", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().ok()?;
        let mut input = child.stdin.take()?;
        let bytes = bytes.to_vec();
        let writer = std::thread::spawn(move || input.write_all(&bytes));
        let mut out = Vec::new();
        child.stdout.take()?.read_to_end(&mut out).ok()?;
        writer.join().ok()?.ok()?;
        child.wait().ok()?;
        Some(out)
    }

    #[test]
    fn what_gzip_compresses_is_restored() {
        let text: String = (0..20_000).map(|n| format!("CONFIG_{}=y\n", n * n % 977)).collect();
        // Pseudo-random bytes, which gzip stores.
        let noise = |n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8;
        let noise: Vec<u8> = (0..100_000).map(noise).collect();
        for bytes in [b"".as_slice(), b"aaaaaaaaaaaaaaaaaaaaaaaa", text.as_bytes(), &noise] {
            for level in ["-1", "-9"] {
                let Some(file) = gzip(level, bytes) else { return println!("SKIP: no gzip") };
                assert_eq!(gunzip(&file, bytes.len()).as_deref(), Some(bytes), "{}", bytes.len());
                assert!(bytes.is_empty() || gunzip(&file, bytes.len() - 1).is_none());
                assert!(gunzip(&file[..file.len() / 2], bytes.len()).is_none());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn damaged_files_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
            file.extend(bytes);
            prop_assert!(gunzip(&file, 1000).is_none_or(|out| out.len() <= 1000));
        }
    }
}
