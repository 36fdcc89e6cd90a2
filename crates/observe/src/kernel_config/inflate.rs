// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decompresses a gzip file (RFC 1951, RFC 1952). Accepts any bytes; checks lengths, but not the
//! checksum.

/// Length of the fixed part of a gzip header, and of the trailer, in bytes.
const HEADER: usize = 10;
const TRAILER: usize = 8;
/// Longest code, in bits.
const CODE_BITS: usize = 15;
/// Order in which the lengths of the code length code are stored.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Returns the contents of the first member of a gzip file; `None` if it is damaged, has optional
/// header fields, or is longer than `bytes_max`.
pub(super) fn gunzip(file: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let (header, rest) = file.split_at_checked(HEADER)?;
    let is_plain = header.starts_with(&[0x1f, 0x8b, 8, 0]);
    let length = rest.len().checked_sub(TRAILER).filter(|_| is_plain)?;
    let mut bits = Bits { bytes: &rest[..length], at: 0 };
    let mut out = Vec::new();
    loop {
        let is_last = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => stored(&mut bits, &mut out)?,
            1 => {
                let [literals, distances] = fixed();
                block(&mut bits, &literals, &distances, &mut out, bytes_max)?;
            }
            2 => {
                let [literals, distances] = dynamic(&mut bits)?;
                block(&mut bits, &literals, &distances, &mut out, bytes_max)?;
            }
            _ => return None,
        }
        if out.len() > bytes_max {
            return None;
        }
        if is_last {
            return Some(out);
        }
    }
}

/// A sequence of bits, lowest bit of each byte first.
struct Bits<'b> {
    bytes: &'b [u8],
    /// Number of bits taken.
    at: usize,
}

impl Bits<'_> {
    /// Takes a number of up to 16 bits, lowest bit first.
    fn take(&mut self, count: usize) -> Option<usize> {
        let mut number = 0;
        for place in 0..count {
            let byte = self.bytes.get(self.at / 8)?;
            number |= usize::from(byte >> (self.at % 8) & 1) << place;
            self.at += 1;
        }
        Some(number)
    }
}

/// A prefix code.
struct Code {
    /// Number of codes of each length in bits.
    counts: [usize; CODE_BITS + 1],
    /// Symbols in the order of their codes.
    symbols: Vec<usize>,
}

impl Code {
    /// Creates the code from the length of each symbol's code; 0 for a symbol without one.
    fn new(lengths: &[usize]) -> Self {
        let mut counts = [0; CODE_BITS + 1];
        lengths.iter().for_each(|&length| counts[length] += 1);
        counts[0] = 0;
        let of_length =
            |wanted| (0..lengths.len()).filter(move |&symbol| lengths[symbol] == wanted);
        Self { counts, symbols: (1..=CODE_BITS).flat_map(of_length).collect() }
    }

    /// Takes a symbol. Codes of one length are consecutive numbers, highest bit first.
    fn take(&self, bits: &mut Bits<'_>) -> Option<usize> {
        let (mut code, mut first, mut place) = (0, 0, 0);
        for count in &self.counts[1..] {
            code |= bits.take(1)?;
            if code < first + count {
                return self.symbols.get(place + code.checked_sub(first)?).copied();
            }
            place += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }
}

/// Copies a block that is not compressed.
fn stored(bits: &mut Bits<'_>, out: &mut Vec<u8>) -> Option<()> {
    bits.at = bits.at.next_multiple_of(8);
    let (length, inverse) = (bits.take(16)?, bits.take(16)?);
    let start = bits.at / 8;
    let bytes = bits.bytes.get(start..start + length).filter(|_| length == !inverse & 0xffff)?;
    out.extend(bytes);
    bits.at += 8 * length;
    Some(())
}

/// Returns the codes of literals and lengths, and of distances, that a block may use without
/// storing them.
fn fixed() -> [Code; 2] {
    let literal = |symbol| match symbol {
        0..=143 => 8,
        144..=255 => 9,
        256..=279 => 7,
        _ => 8,
    };
    [Code::new(&(0..288).map(literal).collect::<Vec<_>>()), Code::new(&[5; 30])]
}

/// Takes the codes of a block from its beginning.
fn dynamic(bits: &mut Bits<'_>) -> Option<[Code; 2]> {
    let (literals, distances) = (bits.take(5)? + 257, bits.take(5)? + 1);
    let mut of_lengths = [0; ORDER.len()];
    let stored = bits.take(4)? + 4;
    for place in &ORDER[..stored] {
        of_lengths[*place] = bits.take(3)?;
    }
    let code = Code::new(&of_lengths);
    let mut lengths: Vec<usize> = Vec::new();
    while lengths.len() < literals + distances {
        let (length, times) = match code.take(bits)? {
            16 => (*lengths.last()?, bits.take(2)? + 3),
            17 => (0, bits.take(3)? + 3),
            18 => (0, bits.take(7)? + 11),
            length => (length, 1),
        };
        lengths.extend(std::iter::repeat_n(length, times));
    }
    let distances = lengths.get(literals..literals + distances)?;
    Some([Code::new(&lengths[..literals]), Code::new(distances)])
}

/// Decompresses a block: literals, and copies of what came before.
fn block(
    bits: &mut Bits<'_>,
    literals: &Code,
    distances: &Code,
    out: &mut Vec<u8>,
    bytes_max: usize,
) -> Option<()> {
    const END: usize = 256;
    while out.len() <= bytes_max {
        let symbol = literals.take(bits)?;
        if let Ok(byte) = u8::try_from(symbol) {
            out.push(byte);
            continue;
        }
        if symbol == END {
            return Some(());
        }
        let length = length(symbol - END - 1, bits)?;
        let distance = distance(distances.take(bits)?, bits)?;
        let start = out.len().checked_sub(distance)?;
        // The copy may overlap what it appends.
        for at in start..start + length {
            out.push(*out.get(at)?);
        }
    }
    None
}

/// Returns the length of a copy. After the first eight, each group of four length symbols has one
/// more extra bit than the group before.
fn length(symbol: usize, bits: &mut Bits<'_>) -> Option<usize> {
    match symbol {
        0..=7 => Some(symbol + 3),
        8..=27 => {
            let extra = symbol / 4 - 1;
            Some(((4 + symbol % 4) << extra) + 3 + bits.take(extra)?)
        }
        28 => Some(258),
        _ => None,
    }
}

/// Returns the distance of a copy. After the first four, each pair of distance symbols has one more
/// extra bit than the pair before.
fn distance(symbol: usize, bits: &mut Bits<'_>) -> Option<usize> {
    match symbol {
        0..=3 => Some(symbol + 1),
        4..=29 => {
            let extra = symbol / 2 - 1;
            Some(((2 + symbol % 2) << extra) + 1 + bits.take(extra)?)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    /// Returns what gzip(1) makes of some bytes; `None` if it is not installed.
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
