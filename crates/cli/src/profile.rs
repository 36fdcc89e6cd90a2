// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `linerate memory` found on this machine, kept for other commands.
//!
//! One record per kind of processor and hypervisor, in `$XDG_STATE_HOME/linerate`, for which
//! `~/.local/state` stands where it is not set. A home that several machines share thus keeps them
//! apart. The last measurement replaces the one before. Nothing depends on the file being there.

use linerate_machine::identity::{Identity, identity};
use linerate_record::memory::{MemoryReport, OsVerdict};
use linerate_record::{Body, Record};
use std::fs;
use std::io::ErrorKind;
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
    unix_seconds: u64,
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
        let unix_seconds = record.provenance.unix_seconds;
        match record.body {
            Body::Memory(report) => {
                Ok(Some(Self { file: file.to_owned(), report: *report, unix_seconds }))
            }
            _ => Err(wrong("it is no record of `linerate memory`".to_owned())),
        }
    }

    /// How long ago it was measured: `3 hours`.
    pub(crate) fn age(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        spelled(now.saturating_sub(self.unix_seconds))
    }

    /// The size of the caches for data that are to be simulated: of the first level and of the
    /// last, each where the system states another than was found.
    pub(crate) fn sizes(&self) -> [Option<u64>; 2] {
        let differs = |verdict| matches!(verdict, OsVerdict::Smaller | OsVerdict::Larger);
        let levels: Vec<_> =
            self.report.os_view.iter().filter(|view| view.stated_bytes.is_some()).collect();
        let size = |index: Option<usize>| {
            let view = levels.get(index?)?;
            let found = view.found_bytes.as_number().filter(|bytes| *bytes >= 1.0);
            found.filter(|_| differs(view.verdict)).map(|bytes| bytes as u64)
        };
        let last = levels.len().checked_sub(1).filter(|last| *last > 0);
        [size(Some(0)), size(last)]
    }
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
        // Renamed, so that whoever reads at the same time finds the old one or the new one.
        let new = file.with_extension(format!("json.{}", std::process::id()));
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&new, json)?;
        fs::rename(&new, &file)
    };
    write().map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

fn is_not_there(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Where the profile of this machine is kept, there or not; `None` where no home is known.
fn file() -> Option<PathBuf> {
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
