// SPDX-License-Identifier: MIT OR Apache-2.0
//! One check of the accuracy suite: a measured figure, the limit it must meet, and the verdict.
//!
//! Test programs print one line per check, which `cargo xtask accuracy` parses:
//!
//! ```text
//! accuracy: NAME value=V n=N limit=L verdict=ok|fail|skip (where the limit comes from, or why not)
//! ```
//!
//! A check compares a median, or a share of trials, with a limit; limits on shares allow for
//! sampling error. By design, no check can pass on the strength of a single best run.

use crate::stats::coverage::least_hits;
use std::fmt;

/// Maximum false-alarm rate: the probability that a check of a share fails although the true share
/// equals the stated one.
pub const MISS: f64 = 0.01;

const PREFIX: &str = "accuracy: ";

/// Verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The figure meets the limit.
    Ok,
    /// The figure does not meet the limit.
    Fail,
    /// The figure could not be measured on this machine.
    Skip,
}

/// A figure, its limit, and the verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Name of the check, as dot-separated words without spaces.
    pub name: String,
    /// Value of the figure; NaN if it was not measured.
    pub value: f64,
    /// Number of samples or trials behind the figure.
    pub n: u64,
    /// The limit; NaN if there is none.
    pub limit: f64,
    /// Whether the figure meets the limit, if it was measured.
    pub verdict: Verdict,
    /// Where the limit comes from, or why nothing was measured.
    pub why: String,
}

impl Check {
    /// Checks the observed share, `hits` out of `trials`, against a `stated` one. The limit is set
    /// below `stated` to allow for sampling error: software that exactly meets `stated` fails with
    /// a probability of at most [`MISS`].
    pub fn share(name: &str, hits: u64, trials: u64, stated: f64, why: &str) -> Self {
        let limit = least_hits(trials, stated, MISS);
        let of_all = |hits: u64| hits as f64 / trials as f64;
        let why = format!("{why}; {:.1} % stated", stated * 100.0);
        Self::new(name, of_all(hits), trials, of_all(limit), hits >= limit && trials > 0, &why)
    }

    /// Checks a median of `n` samples against an upper limit.
    pub fn at_most(name: &str, value: f64, n: u64, limit: f64, why: &str) -> Self {
        Self::new(name, value, n, limit, value <= limit, why)
    }

    /// Checks a median of `n` samples against a lower limit.
    pub fn at_least(name: &str, value: f64, n: u64, limit: f64, why: &str) -> Self {
        Self::new(name, value, n, limit, value >= limit, why)
    }

    /// Creates a skipped check ([`Verdict::Skip`]) for a quantity that could not be measured; `why`
    /// is the reason.
    pub fn skip(name: &str, why: &str) -> Self {
        Self { verdict: Verdict::Skip, ..Self::new(name, f64::NAN, 0, f64::NAN, false, why) }
    }

    fn new(name: &str, value: f64, n: u64, limit: f64, is_within: bool, why: &str) -> Self {
        let verdict = if is_within { Verdict::Ok } else { Verdict::Fail };
        Self { name: name.to_owned(), value, n, limit, verdict, why: why.to_owned() }
    }

    /// Parses a line of a program's output. Returns `None` if the line is not a check, and an error
    /// if the check is malformed.
    pub fn parse(line: &str) -> Option<Result<Self, String>> {
        let rest = line.strip_prefix(PREFIX)?;
        Some(fields(rest).ok_or_else(|| format!("invalid check line: `{line}`")))
    }
}

fn fields(text: &str) -> Option<Check> {
    let (fields, why) = text.split_once(" (")?;
    let mut words = fields.split(' ');
    let name = words.next().filter(|name| !name.is_empty())?.to_owned();
    let mut field = |key: &str| words.next()?.strip_prefix(key)?.strip_prefix('=');
    let value = field("value")?.parse().ok()?;
    let n = field("n")?.parse().ok()?;
    let limit = field("limit")?.parse().ok()?;
    let verdict = match field("verdict")? {
        "ok" => Verdict::Ok,
        "fail" => Verdict::Fail,
        "skip" => Verdict::Skip,
        _ => return None,
    };
    let why = why.strip_suffix(')')?.to_owned();
    words.next().is_none().then_some(Check { name, value, n, limit, verdict, why })
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Fail => "fail",
            Self::Skip => "skip",
        })
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, n, limit, verdict, why } = self;
        write!(f, "{PREFIX}{name} value={value:.4} n={n} limit={limit:.4} ")?;
        write!(f, "verdict={verdict} ({why})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_held_to_what_is_stated_minus_its_sampling_error() {
        // P(N < 33) = 0.0066 for 40 trials at 0.93; P(N < 34) = 0.0221.
        let verdict = |hits| Check::share("a", hits, 40, 0.93, "page").verdict;
        assert_eq!((verdict(33), verdict(32)), (Verdict::Ok, Verdict::Fail));
        assert_eq!(Check::share("a", 0, 0, 0.93, "page").verdict, Verdict::Fail);
        assert_eq!(Check::share("a", 9, 9, 0.93, "page").limit, 6.0 / 9.0);
    }

    #[test]
    fn what_is_not_a_number_is_not_within_a_limit() {
        let at_most = |value| Check::at_most("a", value, 9, 0.5, "").verdict;
        assert_eq!((at_most(0.5), at_most(0.51)), (Verdict::Ok, Verdict::Fail));
        assert_eq!(at_most(f64::NAN), Verdict::Fail);
        assert_eq!(Check::at_least("a", 0.49, 9, 0.5, "").verdict, Verdict::Fail);
        assert_eq!(Check::at_least("a", f64::NAN, 9, 0.5, "").verdict, Verdict::Fail);
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let checks = [
            Check::share("levels.any.count", 47, 60, 0.895, "docs/results (page)"),
            Check::at_most("b", 0.25, 9, 0.5, "a bound"),
        ];
        for check in checks {
            let line = check.to_string();
            let read = Check::parse(&line).expect("a check").expect("a good one");
            assert_eq!(read.to_string(), line);
            assert_eq!((read.name, read.n, read.why), (check.name, check.n, check.why));
        }
        let skip = Check::skip("c", "one processor").to_string();
        assert_eq!(skip, "accuracy: c value=NaN n=0 limit=NaN verdict=skip (one processor)");
        let read = Check::parse(&skip).expect("a check").expect("a good one");
        assert_eq!(read.verdict, Verdict::Skip);
    }

    #[test]
    fn a_line_without_a_verdict_is_refused() {
        assert_eq!(Check::parse("test a ... ok"), None);
        for line in [
            "accuracy: a value=1 n=1",
            "accuracy: a value=1 n=1 limit=1 verdict=ok",
            "accuracy: a value=1 n=1 limit=1 verdict=good (why)",
            "accuracy: a value=x n=1 limit=1 verdict=ok (why)",
            "accuracy: a value=1 n=1 limit=1 verdict=ok more=1 (why)",
        ] {
            assert!(Check::parse(line).is_some_and(|read| read.is_err()), "{line}");
        }
    }
}
