// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damages valid data at random.

use linerate_record::random::Random;

/// Bytes with a special meaning in common formats.
const MEANT: &[u8] = b"\0\xff\x7f\x80{}[]\",:\n\r-+eE.0\x1b";

/// Returns a copy with one to eight changes: bytes flipped, set, removed, duplicated or cut off.
pub(crate) fn damaged(whole: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..=random.below(8) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(64)).min(bytes.len());
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = MEANT[random.below(MEANT.len())],
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            4 => bytes.truncate(at),
            5 => bytes[at..end].fill(0xff),
            _ => {
                let word = (random.next() as u32).to_le_bytes();
                let end = (at + 4).min(bytes.len());
                bytes[at..end].copy_from_slice(&word[..end - at]);
            }
        }
    }
    bytes
}

/// Numbers that programs tend to handle badly.
const NUMBERS: [&str; 14] = [
    "0",
    "-0",
    "-1",
    "1",
    "1e308",
    "-1e308",
    "1e-320",
    "9007199254740993",
    "18446744073709551615",
    "-9223372036854775808",
    "null",
    "1e400",
    "\"x\"",
    "[]",
];

/// Returns a copy of a JSON text in which one to four numbers are replaced.
pub(crate) fn renumbered(json: &str, random: &mut Random) -> String {
    let mut text = json.to_owned();
    for _ in 0..=random.below(4) {
        let places: Vec<(usize, usize)> = numbers(&text);
        if places.is_empty() {
            return text;
        }
        let (start, end) = places[random.below(places.len())];
        text.replace_range(start..end, NUMBERS[random.below(NUMBERS.len())]);
    }
    text
}

/// Returns the start and end of each numeric value.
fn numbers(json: &str) -> Vec<(usize, usize)> {
    let is_of_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let values = json.match_indices(": ").map(|(at, _)| at + 2);
    let number = |start: usize| {
        let length = json[start..].find(|c| !is_of_number(c)).unwrap_or(json.len() - start);
        (length > 0 && json[start..].starts_with(|c: char| c.is_ascii_digit() || c == '-'))
            .then_some((start, start + length))
    };
    values.filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_something_and_survives_everything() {
        let mut random = Random::new(1);
        let whole: Vec<u8> = (0..200).collect();
        let changed = (0..200).filter(|_| damaged(&whole, &mut random) != whole).count();
        assert!(changed > 150, "{changed}");
        assert!(damaged(&[], &mut random).is_empty());
    }

    #[test]
    fn numbers_are_found_and_replaced() {
        assert_eq!(numbers("{\"a\": 12, \"b\": \"3\", \"c\": -1.5e3}"), [(6, 8), (25, 31)]);
        let changed = renumbered("{\"a\": 12}", &mut Random::new(2));
        assert!(changed.starts_with("{\"a\": ") && changed.ends_with('}'), "{changed}");
    }
}
