// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all tables of rules consist of: conditions with thresholds, and texts with placeholders.
//!
//! Each table has its own measures ([`why`](crate::why), [`bound`](crate::bound),
//! [`stream`](crate::stream)).

use linerate_record::stats::Estimate;

/// Threshold of a condition, and the side on which a measure's entire interval must lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At or above.
    AtLeast(f64),
    /// At or below.
    AtMost(f64),
}

/// A condition in a rule on a measure of type `M`.
#[derive(Clone, Copy, Debug)]
pub struct Condition<M> {
    /// The quantity.
    pub measure: M,
    /// Threshold, and the side on which the interval must lie.
    pub bound: Bound,
    /// Source of the threshold.
    pub source: &'static str,
}

/// Result of evaluating a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The entire interval is on the required side.
    Holds,
    /// At least part of the interval is on the other side.
    Fails,
    /// The measure could not be read.
    Unread,
}

impl Bound {
    /// Compares a measured value with the threshold; `None` means that it could not be read.
    pub fn verdict(self, measured: Option<Estimate>) -> Verdict {
        let Some(Estimate { low, high, .. }) = measured else { return Verdict::Unread };
        let holds = match self {
            Self::AtLeast(least) => low >= least,
            Self::AtMost(most) => high <= most,
        };
        if holds { Verdict::Holds } else { Verdict::Fails }
    }

    /// Returns the side in words, and the threshold.
    pub fn parts(self) -> (&'static str, f64) {
        match self {
            Self::AtLeast(at) => ("at least", at),
            Self::AtMost(at) => ("at most", at),
        }
    }
}

/// Creates a condition that holds if the entire interval is at or above `least`.
pub(crate) const fn at_least<M: Copy>(
    measure: M,
    least: f64,
    source: &'static str,
) -> Condition<M> {
    Condition { measure, bound: Bound::AtLeast(least), source }
}

/// Creates a condition that holds if the entire interval is at or below `most`.
pub(crate) const fn at_most<M: Copy>(measure: M, most: f64, source: &'static str) -> Condition<M> {
    Condition { measure, bound: Bound::AtMost(most), source }
}

/// Returns `text` with every `{name}` replaced by its value, or by `-` if it has none.
pub(crate) fn filled(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}') else { break };
        filled.push_str(before);
        filled.push_str(&value(name).unwrap_or_else(|| "-".to_owned()));
        rest = behind;
    }
    filled + rest
}

/// Returns the names of all placeholders in a text.
#[cfg(test)]
pub(crate) fn names(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_holds_for_the_whole_interval_or_not_at_all() {
        let measured = |low, high| Some(Estimate { low, high, ..Estimate::exactly(1.0) });
        let (least, most) = (at_least((), 1.0, "").bound, at_most((), 1.0, "").bound);
        assert_eq!(least.verdict(measured(1.0, 2.0)), Verdict::Holds);
        assert_eq!(least.verdict(measured(0.9, 2.0)), Verdict::Fails);
        assert_eq!(most.verdict(measured(0.9, 1.0)), Verdict::Holds);
        assert_eq!(most.verdict(measured(0.9, 2.0)), Verdict::Fails);
        assert_eq!(most.verdict(None), Verdict::Unread);
    }

    #[test]
    fn placeholders_are_filled_in() {
        let text = "{a} of {b}: {none}, {";
        let value = |name: &str| (name != "none").then(|| name.to_uppercase());
        assert_eq!(filled(text, value), "A of B: -, {");
        assert_eq!(names(text).collect::<Vec<_>>(), ["a", "b", "none"]);
    }
}
