// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machine profile: a stored record of the machine's memory hierarchy, for use by other commands.
//!
//! Defines when a report is usable ([`unfit`]), which OS-reported cache sizes the profile confirms
//! or replaces, and the wording for `doctor`. `memory` decides where a profile is stored.

use linerate_record::doctor::{Observation, Section};
use linerate_record::memory::{Curve, Effort, MemoryReport, OsVerdict, OsView};
use linerate_record::{Body, Record};

/// A machine's measured memory hierarchy.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Report with the measured levels.
    pub report: MemoryReport,
    /// Time of measurement, in seconds since 1970.
    pub unix_s: u64,
}

impl Profile {
    /// Returns the profile in a record; `None` if the record is not from `linerate memory`.
    pub fn of_record(record: Record) -> Option<Self> {
        let unix_s = record.provenance.unix_s;
        match record.body {
            Body::Memory(report) => Some(Self { report: *report, unix_s }),
            _ => None,
        }
    }

    /// Returns the profile's age as text, such as `3 hours`. `now` is in seconds since 1970.
    pub fn age(&self, now: u64) -> String {
        spelled(now.saturating_sub(self.unix_s))
    }

    /// Returns what was measured for two reported caches: the L1 data cache and the last level.
    pub fn levels(&self) -> [Seen; 2] {
        let levels: Vec<_> =
            self.report.os_view.iter().filter(|view| view.stated_bytes.is_some()).collect();
        let seen = |index: Option<usize>| {
            index.and_then(|index| levels.get(index)).map_or(Seen::No, |view| Seen::from_view(view))
        };
        let last = levels.len().checked_sub(1).filter(|last| *last > 0);
        [seen(Some(0)), seen(last)]
    }

    /// Returns the names of the reported levels that were not found, nearest first, such as `L3`.
    fn unseen(&self) -> Vec<&str> {
        let views = self.report.os_view.iter().filter(|view| view.stated_bytes.is_some());
        views.filter(|view| Seen::from_view(view) == Seen::No).map(|view| &view.name[..]).collect()
    }
}

/// Whether this machine has a stored profile, and its state.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// No profile is stored.
    None {
        /// Path at which the profile would be stored; `None` without a home directory.
        place: Option<&'a str>,
    },
    /// The stored profile cannot be read.
    Unreadable {
        /// Why the profile cannot be read, with a remedy.
        reason: &'a str,
        /// CPU to measure; `None` for any.
        cpu: Option<u32>,
    },
    /// The stored profile is usable.
    Kept {
        /// The stored profile.
        profile: &'a Profile,
        /// Age of the profile, such as `3 hours`.
        age: &'a str,
        /// Path of the file that holds the profile.
        file: &'a str,
    },
}

impl Found<'_> {
    /// Formats the `linerate doctor` observation about the profile.
    pub fn observation(&self) -> Observation {
        const NAME: &str = "memory_profile";
        let section = Section::Topology;
        let measure = Some("linerate memory".to_owned());
        match *self {
            Self::None { place } => {
                let place = place.map_or("no home directory".to_owned(), |file| {
                    format!("the profile would be stored in {file}")
                });
                let sentence = format!(
                    "the memory hierarchy has not been measured ({place}): cache sizes are those \
                     the OS reports, and the cost of a miss is unknown"
                );
                section.advice(NAME, "none", &sentence, measure)
            }
            Self::Unreadable { reason, cpu } => {
                let sentence = format!("the profile cannot be used: {reason}");
                let measure = match cpu {
                    Some(cpu) => Some(format!("linerate memory --cpu {cpu}")),
                    None => measure,
                };
                section.advice(NAME, "unreadable", &sentence, measure)
            }
            Self::Kept { profile, age, file } => {
                let unseen = profile.unseen();
                let age = format!("{age} old");
                let sentence = format!("the measured memory hierarchy is in {file}");
                if unseen.is_empty() {
                    return section.good(NAME, age, &sentence);
                }
                let sentence =
                    format!("{sentence}, but the size of {} is unknown", unseen.join(", "));
                section.advice(NAME, age, &sentence, measure)
            }
        }
    }
}

/// What was measured for a cache level that the OS reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The measured size agrees with the reported one.
    AsStated,
    /// The measured size, given here in bytes, differs from the reported one.
    Instead(u64),
    /// The level was not found, or not with certainty.
    No,
}

impl Seen {
    fn from_view(view: &OsView) -> Self {
        let found = view.found_bytes.as_number().filter(|bytes| *bytes >= 1.0);
        match (view.verdict, found) {
            (OsVerdict::Agrees, _) => Self::AsStated,
            (OsVerdict::Smaller | OsVerdict::Larger, Some(bytes)) => Self::Instead(bytes as u64),
            _ => Self::No,
        }
    }

    /// Returns the measured size in bytes if it differs from the reported one.
    pub fn instead(self) -> Option<u64> {
        match self {
            Self::Instead(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Minimum number of passes over most of the curve's sizes. If two passes differ, it is unknown
/// which one suffered interference.
const PASSES_MIN: usize = 3;

/// Returns why the report is not stored as a profile, worded to follow `since`; `None` if it is
/// stored. A private level does not depend on other tenants, so the measurement failed if such a
/// level is undetermined. The last reported level is assumed to be shared unless it is the only
/// one.
pub fn unfit(report: &MemoryReport) -> Option<String> {
    if report.levels.is_empty() {
        return Some("no level was found".to_owned());
    }
    let passes = report.main_curve().and_then(Curve::passes).map_or(0, |[_, middle, _]| middle);
    let longer = match report.conditions.effort {
        Effort::Full => "",
        Effort::Quick => "without --quick, or ",
        Effort::Default => "with --full, or ",
    };
    doubt(passes, longer, &report.os_view)
}

/// Returns a reason to doubt the report, if there is one. `longer` says how to get more passes, if
/// that is possible.
fn doubt(passes: usize, longer: &str, os_view: &[OsView]) -> Option<String> {
    if passes < PASSES_MIN {
        return Some(format!(
            "a profile needs {PASSES_MIN} passes over most sizes, but there were only {passes}: \
             measure {longer}when the machine is less busy"
        ));
    }
    let levels: Vec<_> = os_view.iter().filter(|view| view.stated_bytes.is_some()).collect();
    let private = &levels[..levels.len().saturating_sub(1).max(levels.len().min(1))];
    let doubtful = private.iter().find(|view| view.verdict == OsVerdict::CannotTell)?;
    Some(format!("{} cannot be determined: {}", doubtful.name, doubtful.sentence))
}

/// Formats a duration in the largest unit that fits.
fn spelled(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| seconds >= *unit).unwrap_or(UNITS[3]);
    let count = seconds / unit;
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::{Figure, Tier};

    fn views(verdicts: &[OsVerdict]) -> Vec<OsView> {
        let view = |(verdict, level): (&OsVerdict, u32)| OsView {
            name: format!("L{level}"),
            stated_bytes: Some(1 << 20),
            found_bytes: Figure::exact("B", 1e6, Tier::Sw, "synthetic"),
            verdict: *verdict,
            sentence: "synthetic".to_owned(),
        };
        verdicts.iter().zip(1..).map(view).collect()
    }

    #[test]
    fn a_private_level_in_doubt_or_too_few_passes_make_no_profile() {
        use OsVerdict::{Agrees, CannotTell, Smaller};
        let is_fit = |passes, verdicts: &[OsVerdict]| doubt(passes, "", &views(verdicts)).is_none();
        assert!(is_fit(3, &[]));
        assert!(is_fit(3, &[Agrees, Smaller, CannotTell]));
        assert!(!is_fit(2, &[Agrees, Agrees, Agrees]));
        assert!(!is_fit(3, &[Agrees, CannotTell, Agrees]));
        assert!(!is_fit(3, &[CannotTell]));
        let reason = doubt(3, "", &views(&[Agrees, CannotTell, Agrees]));
        assert_eq!(reason.as_deref(), Some("L2 cannot be determined: synthetic"));
        // A measured level in between that the OS does not report is ignored.
        let mut between = views(&[Agrees, CannotTell, CannotTell]);
        between[1].stated_bytes = None;
        assert_eq!(doubt(3, "", &between), None);
    }

    #[test]
    fn what_was_found_of_a_level_is_kept_apart_from_what_is_stated() {
        use OsVerdict::{Agrees, CannotTell, Larger, Smaller, Unseen};
        for (verdict, wanted) in [
            (Agrees, Seen::AsStated),
            (Smaller, Seen::Instead(1_000_000)),
            (Larger, Seen::Instead(1_000_000)),
            (Unseen, Seen::No),
            (CannotTell, Seen::No),
        ] {
            assert_eq!(Seen::from_view(&views(&[verdict])[0]), wanted, "{verdict:?}");
        }
    }

    #[test]
    fn ages_are_spelled_in_their_largest_unit() {
        for (seconds, text) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (59, "59 seconds"),
            (60, "1 minute"),
            (7_199, "1 hour"),
            (172_800, "2 days"),
        ] {
            assert_eq!(spelled(seconds), text);
        }
    }

    #[test]
    fn doctor_hears_whether_there_is_a_profile_and_what_it_lacks() {
        use linerate_record::doctor::Verdict;
        let none = Found::None { place: None }.observation();
        assert_eq!((none.verdict, none.value.as_deref()), (Verdict::Advice, Some("none")));
        assert!(none.sentence.contains("no home directory"), "{}", none.sentence);
        let unreadable = Found::Unreadable { reason: "x", cpu: None }.observation();
        assert_eq!(unreadable.value.as_deref(), Some("unreadable"));
        assert_eq!(unreadable.fix.as_deref(), Some("linerate memory"));
    }
}
