// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `linerate memory` found on this machine, kept for other commands.
//!
//! One record per kind of processor and hypervisor, in `$XDG_STATE_HOME/linerate`, for which
//! `~/.local/state` stands where it is not set. A home that several machines share thus keeps them
//! apart. The last measurement that is fit to be one replaces the one before: see [`unfit`].
//! Nothing depends on the file being there.

use crate::files;
use linerate_machine::identity::{Identity, identity};
use linerate_record::memory::{Curve, Effort, MemoryReport, OsVerdict, OsView};
use linerate_record::{Body, Record};
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A record of the memory hierarchy of this machine.
#[derive(Debug)]
pub(crate) struct Profile {
    /// Where it is kept.
    pub(crate) file: PathBuf,
    /// What was found.
    pub(crate) report: MemoryReport,
    /// When, in seconds since 1970.
    unix_s: u64,
}

impl Profile {
    /// The profile of this machine, if there is one.
    ///
    /// # Errors
    /// There is one that cannot be read, and why, with what to do.
    pub(crate) fn load() -> Result<Option<Self>, String> {
        file().map_or(Ok(None), |file| Self::read(&file))
    }

    fn read(file: &Path) -> Result<Option<Self>, String> {
        let wrong = |reason: String| {
            let file = file.display();
            format!("{file}: {reason}; replace it: linerate memory, or remove it")
        };
        let json = match fs::read_to_string(file) {
            Ok(json) => json,
            // Where a folder of the path is a file, there is no profile either.
            Err(error) if is_not_there(&error) => return Ok(None),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let record = Record::from_json(&json).map_err(|error| wrong(error.to_string()))?;
        let unix_s = record.provenance.unix_s;
        match record.body {
            Body::Memory(report) => {
                Ok(Some(Self { file: file.to_owned(), report: *report, unix_s }))
            }
            _ => Err(wrong("it is no record of `linerate memory`".to_owned())),
        }
    }

    /// How long ago it was measured: `3 hours`.
    pub(crate) fn age(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        spelled(now.saturating_sub(self.unix_s))
    }

    /// What the profile has of the first level of the caches for data and of the last one.
    pub(crate) fn levels(&self) -> [Seen; 2] {
        let levels: Vec<_> =
            self.report.os_view.iter().filter(|view| view.stated_bytes.is_some()).collect();
        let seen = |index: Option<usize>| {
            index.and_then(|index| levels.get(index)).map_or(Seen::No, |view| Seen::of(view))
        };
        let last = levels.len().checked_sub(1).filter(|last| *last > 0);
        [seen(Some(0)), seen(last)]
    }

    /// Levels that the system states and that were not found, nearest first: `L3`.
    pub(crate) fn unseen(&self) -> Vec<&str> {
        let views = self.report.os_view.iter().filter(|view| view.stated_bytes.is_some());
        views.filter(|view| Seen::of(view) == Seen::No).map(|view| &view.name[..]).collect()
    }
}

/// What was found of a level that is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// As stated.
    AsStated,
    /// So many bytes instead.
    Instead(u64),
    /// Nothing, or nothing sure.
    No,
}

impl Seen {
    fn of(view: &OsView) -> Self {
        let found = view.found_bytes.as_number().filter(|bytes| *bytes >= 1.0);
        match (view.verdict, found) {
            (OsVerdict::Agrees, _) => Self::AsStated,
            (OsVerdict::Smaller | OsVerdict::Larger, Some(bytes)) => Self::Instead(bytes as u64),
            _ => Self::No,
        }
    }

    /// Bytes, where these are not those stated.
    pub(crate) fn instead(self) -> Option<u64> {
        match self {
            Self::Instead(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Passes over most sizes of the curve that a profile needs: of two that differ, nothing tells
/// which was disturbed.
const PASSES_MIN: usize = 3;

/// Why a report is not to be kept, in words that follow `since`; `None` where it is. A level that
/// is private moves with nobody else's work, so that one that cannot be told is a failure to
/// measure; the last one stated is taken to be shared, unless it is the only one.
pub(crate) fn unfit(report: &MemoryReport) -> Option<String> {
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

/// `longer` says how there would be more passes, as far as there is a way.
fn doubt(passes: usize, longer: &str, os_view: &[OsView]) -> Option<String> {
    if passes < PASSES_MIN {
        return Some(format!(
            "a profile takes {PASSES_MIN} passes over most sizes, and there were {passes}: measure \
             {longer}when the machine is less busy"
        ));
    }
    let levels: Vec<_> = os_view.iter().filter(|view| view.stated_bytes.is_some()).collect();
    let private = &levels[..levels.len().saturating_sub(1).max(levels.len().min(1))];
    let doubtful = private.iter().find(|view| view.verdict == OsVerdict::CannotTell)?;
    Some(format!("{} cannot be told: {}", doubtful.name, doubtful.sentence))
}

/// Keeps a record as the profile of this machine; where.
///
/// # Errors
/// It cannot be written, and why.
pub(crate) fn store(record: &Record) -> Result<PathBuf, String> {
    let no_home = "neither XDG_STATE_HOME nor HOME names a folder";
    let file = file().ok_or_else(|| no_home.to_owned())?;
    let json = record.to_json_pretty().map_err(|error| error.to_string())?;
    let write = || {
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        files::write_with(&file, |to| to.write_all(json.as_bytes()))
    };
    write().map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

fn is_not_there(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Where the profile of this machine is kept, there or not; `None` where no home is known.
pub(crate) fn file() -> Option<PathBuf> {
    // As the XDG base directory specification wants it: a path that is not absolute is none.
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    let hypervisor = linerate_machine::platform(Path::new("/")).hypervisor;
    let machine = key(&identity(), hypervisor.as_deref());
    Some(state.join("linerate").join(format!("memory-{machine}.json")))
}

/// The machine in letters, digits and hyphens.
fn key(identity: &Identity, hypervisor: Option<&str>) -> String {
    let processor = match identity {
        Identity::X86 { vendor, family, model } => format!("{vendor} {family:x} {model:x}"),
        Identity::Arm { cores } => {
            let cores = cores.iter().map(|core| format!("{:x} {:x}", core.implementer, core.part));
            format!("arm {}", cores.collect::<Vec<_>>().join(" "))
        }
        Identity::Power { name, pvr } => format!("{name} {pvr:x}"),
        Identity::Other { architecture } => (*architecture).to_owned(),
    };
    let text = format!("{processor} {}", hypervisor.unwrap_or("bare")).to_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// A time in its largest unit.
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
    use linerate_machine::identity::ArmCore;
    use linerate_record::{Figure, Tier};

    #[test]
    fn machines_have_files_of_their_own() {
        let x86 = |model| Identity::X86 { vendor: "AuthenticAMD".to_owned(), family: 26, model };
        assert_eq!(key(&x86(2), Some("KVM")), "authenticamd-1a-2-kvm");
        assert_eq!(key(&x86(0x11), None), "authenticamd-1a-11-bare");
        let cores = vec![
            ArmCore { implementer: 0x41, part: 0xd03 },
            ArmCore { implementer: 0x41, part: 0xd08 },
        ];
        assert_eq!(key(&Identity::Arm { cores }, None), "arm-41-d03-41-d08-bare");
        let power = Identity::Power { name: "../7455".to_owned(), pvr: 0x8001_0302 };
        assert_eq!(key(&power, Some("a/b c")), "7455-80010302-a-b-c");
        assert_eq!(key(&Identity::Other { architecture: "riscv64" }, None), "riscv64-bare");
    }

    fn views(verdicts: &[OsVerdict]) -> Vec<OsView> {
        let view = |(verdict, level): (&OsVerdict, u32)| OsView {
            name: format!("L{level}"),
            stated_bytes: Some(1 << 20),
            found_bytes: Figure::exact("B", 1e6, Tier::Sw, "made up"),
            verdict: *verdict,
            sentence: "made up".to_owned(),
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
        assert_eq!(reason.as_deref(), Some("L2 cannot be told: made up"));
        // A level that is not stated is between, and does not count.
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
            assert_eq!(Seen::of(&views(&[verdict])[0]), wanted, "{verdict:?}");
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
    fn what_is_no_profile_is_refused_with_a_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("profile.json");
        assert!(Profile::read(&file).is_ok_and(|profile| profile.is_none()));
        assert!(Profile::read(&file.join("below")).is_ok_and(|profile| profile.is_none()));
        for bad in ["", "{}", "{\"schema\": 1}"] {
            fs::write(&file, bad).expect("it can be written");
            let reason = Profile::read(&file).expect_err("no record");
            assert!(reason.contains("profile.json: ") && reason.contains("linerate memory"));
        }
        assert!(Profile::read(folder.path()).is_err());
    }
}
