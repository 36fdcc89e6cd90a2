// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suggestions for misspelled names.

/// Maximum number of suggestions.
const SUGGESTIONS: usize = 3;

/// Returns at most three candidates similar to a misspelled name, best match first.
///
/// A candidate is similar if there is at most one typo (insertion, deletion, replacement,
/// transposition) per three characters of the longer name. Candidates that contain the misspelled
/// name follow, if it has three or more characters. `-` and `_` are equivalent, and case is
/// ignored.
pub fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = normal(written);
    let length = wanted.chars().count();
    let rank = |name: &str| {
        let normal = normal(name);
        let slips = strsim::damerau_levenshtein(&wanted, &normal);
        let is_near = slips * 3 <= length.max(normal.chars().count());
        let contains = length >= 3 && normal.contains(&wanted);
        (is_near || contains).then_some((!is_near, slips))
    };
    let mut near: Vec<_> =
        candidates.into_iter().filter_map(|name| rank(name).map(|rank| (rank, name))).collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
}

/// Normalizes a name for comparison: lower case, with `_` instead of `-`.
pub fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant_and_no_more() {
        let names = ["instructions", "cycles", "ref_cycles", "branches", "branch_misses", "loads"];
        for (written, meant) in [
            ("instrctions", &["instructions"][..]),
            ("Cycels", &["cycles"]),
            ("branch-mises", &["branch_misses", "branches"]),
            ("branch", &["branches", "branch_misses"]),
            ("cycle", &["cycles", "ref_cycles"]),
            ("laods", &["loads"]),
            ("packets", &[]),
            ("es", &[]),
            ("", &[]),
            ("größe", &[]),
        ] {
            assert_eq!(nearest(written, names), meant, "{written}");
        }
        assert_eq!(nearest("l1d", ["l1d_1", "l1d_2", "l1d_3", "l1d_4"]).len(), SUGGESTIONS);
    }
}
