// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the fuzzing corpus. `cargo bench --bench fuzz -- --write` searches for new inputs and
//! rewrites it.

mod target;

use proptest::prelude::*;
use target::Target;

const CORPUS: &str = include_str!("../../fuzz/corpus.txt");

/// Decodes hexadecimal digits.
fn bytes(text: &str) -> Vec<u8> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    assert!(rest.is_empty(), "half a byte");
    let digit = |digit: u8| char::from(digit).to_digit(16).expect("a digit") as u8;
    pairs.iter().map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[test]
fn the_corpus_does_what_it_did() {
    let mut lines = [0; 3];
    for line in CORPUS.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, bits, text] = words[..] else {
            panic!("`{line}` is not a target, what happens, and bytes");
        };
        let at = Target::ALL.iter().position(|target| target.name() == name).expect("a target");
        let happens = Target::ALL[at].run(&bytes(text));
        assert_eq!(format!("{happens:x}"), bits, "{name} {text}");
        lines[at] += 1;
    }
    assert!(lines.iter().all(|count| *count > 0), "inputs of every target: {lines:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn any_bytes_are_taken(
        bytes in prop::collection::vec(any::<u8>(), 0..400), which in 0..3_usize,
    ) {
        // Most random bytes are rejected early; the fuzzing bench mutates valid inputs instead.
        prop_assert_ne!(Target::ALL[which].run(&bytes) == u32::MAX, true);
    }
}
