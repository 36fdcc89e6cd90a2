// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognizes keys that were renamed in earlier versions of the path file format.

/// Words in key names that were replaced: the old word, and the new one.
const WORDS: [(&str, &str); 2] = [("octets", "bytes"), ("strands", "workers")];

/// Returns the current name of the key `written`; `None` unless that key was renamed and the new
/// name is in `candidates`.
pub(crate) fn now<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = |word: &str| {
        let found = WORDS.iter().find(|(before, _)| *before == word);
        found.map_or_else(|| word.to_owned(), |(_, now)| (*now).to_owned())
    };
    let name = written.split('_').map(word).collect::<Vec<_>>().join("_");
    candidates.into_iter().find(|candidate| name != written && *candidate == name)
}

#[cfg(test)]
mod tests {
    use super::now;

    #[test]
    fn finds_the_key_of_now() {
        let keys = ["buffer_bytes", "bytes", "workers", "rate"];
        for (written, found) in [
            ("buffer_octets", Some("buffer_bytes")),
            ("octets", Some("bytes")),
            ("strands", Some("workers")),
            ("ring_octets", None),
            ("rate", None),
        ] {
            assert_eq!(now(written, keys), found, "{written}");
        }
    }
}
