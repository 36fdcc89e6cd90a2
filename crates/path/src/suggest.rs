// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suggestions for misspelled names.

use crate::problem::shown;

/// Returns the candidate closest to `written`, if any is close enough.
///
/// A candidate is close if any of the following holds. It equals `written` except for case and `-`
/// for `_`. It differs by at most one edit (insertion, deletion, replacement, transposition) per
/// three characters. It is the only one that starts with `written`, which has at least three
/// characters. Or it is the only one that starts with `written` minus its last character (again at
/// least three characters), and is at most one character longer than `written`.
pub fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let wanted = written.to_lowercase().replace('-', "_");
    let candidates: Vec<_> = candidates.into_iter().collect();
    let slips =
        |name: &str| strsim::damerau_levenshtein(&wanted, &name.to_lowercase().replace('-', "_"));
    let longest = wanted.chars().count();
    let near = candidates
        .iter()
        .map(|name| (slips(name), *name))
        .filter(|&(slips, name)| slips <= longest.max(name.chars().count()) / 3)
        .min_by_key(|&(slips, _)| slips);
    if let Some((_, name)) = near {
        return Some(name);
    }
    let but_last = wanted.char_indices().next_back().map_or("", |(last, _)| &wanted[..last]);
    let only = |begin: &str| {
        let mut begun = candidates.iter().filter(|name| name.starts_with(begin));
        begun.next().filter(|_| begin.chars().count() >= 3 && begun.next().is_none()).copied()
    };
    let is_as_long = |name: &&str| name.chars().count() <= longest + 1;
    only(&wanted).or_else(|| only(but_last).filter(is_as_long))
}

/// Returns help for an unknown name: `renamed to 'x'` for an old name, `did you mean 'x'?` if a
/// candidate is close, otherwise a list of all candidates.
pub fn help<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<_> = candidates.into_iter().collect();
    if let Some(name) = crate::renamed::now(written, candidates.iter().copied()) {
        return format!("renamed to {}", shown(name));
    }
    match nearest(written, candidates.iter().copied()) {
        Some(name) => format!("did you mean {}?", shown(name)),
        None if candidates.is_empty() => "there are no valid values".to_owned(),
        None => format!("valid: {}", list(candidates)),
    }
}

/// Returns the names in quotation marks, separated by commas.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant_and_no_more() {
        let keys = ["rate", "burst", "ring", "full_ring", "buffer_bytes", "time"];
        for (written, meant) in [
            ("ratee", Some("rate")),
            ("Rate", Some("rate")),
            ("brust", Some("burst")),
            ("full-ring", Some("full_ring")),
            ("buffer", Some("buffer_bytes")),
            ("tiem", Some("time")),
            ("buffs", None),
            ("buxx", None),
            ("flows", None),
            ("bu", None),
            ("", None),
            ("größe", None),
        ] {
            assert_eq!(nearest(written, keys), meant, "{written}");
        }
        assert_eq!(help("flows", ["wait", "drop"]), "valid: 'wait', 'drop'");
        for unclear in ["par", "park"] {
            assert_eq!(nearest(unclear, ["parsed", "parity"]), None, "two candidates begin so");
        }
        assert_eq!(nearest("natt", ["parse", "nat44", "forward"]), Some("nat44"));
    }
}
