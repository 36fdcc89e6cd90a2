// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage of the machine profile: the results of `linerate memory`, kept for other commands.
//!
//! There is one record per kind of processor and hypervisor, in `$XDG_STATE_HOME/linerate`, by
//! default under `~/.local/state`, so machines that share a home directory are kept apart. A new
//! measurement replaces the previous one if the new one is suitable;
//! [`unfit`](linerate_hierarchy::profile::unfit) decides this. All commands work without the file.

use linerate_hierarchy::profile::{Found, Profile};
use linerate_machine::identity::{Identity, identity};
use linerate_record::Record;
use linerate_record::doctor::Observation;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The profile of this machine and its file.
#[derive(Debug)]
pub struct Stored {
    /// Its path.
    pub file: PathBuf,
    /// Its contents.
    pub profile: Profile,
}

/// Reasons why a profile cannot be used or kept.
#[derive(Debug)]
pub enum StoreError {
    /// The file cannot be read, or is not a record of `linerate memory`.
    Unusable {
        /// The file.
        file: PathBuf,
        /// Reason.
        reason: String,
    },
    /// No directory is known in which to store the profile.
    NoHome,
    /// The profile cannot be serialized.
    NoJson(String),
    /// The file cannot be written.
    NotWritten {
        /// The file.
        file: PathBuf,
        /// Reason.
        error: io::Error,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable { file, reason } => {
                let file = file.display();
                write!(f, "{file}: {reason}; regenerate it with `linerate memory`, or remove it")
            }
            Self::NoHome => f.write_str("neither XDG_STATE_HOME nor HOME names a directory"),
            Self::NoJson(reason) => f.write_str(reason),
            Self::NotWritten { file, error } => write!(f, "{}: {error}", file.display()),
        }
    }
}

impl std::error::Error for StoreError {}

impl Stored {
    /// Returns the profile's age, such as `3 hours`.
    pub fn age(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        self.profile.age(now)
    }
}

/// Loads the profile of this machine, if there is one.
///
/// # Errors
/// There is a profile, but it cannot be used.
pub fn load() -> Result<Option<Stored>, StoreError> {
    file().map_or(Ok(None), |file| read(&file))
}

fn read(file: &Path) -> Result<Option<Stored>, StoreError> {
    let unusable = |reason: String| StoreError::Unusable { file: file.to_owned(), reason };
    let json = match fs::read_to_string(file) {
        Ok(json) => json,
        // If a folder in the path is a file, there is no profile either.
        Err(error) if is_not_there(&error) => return Ok(None),
        Err(error) => return Err(unusable(error.to_string())),
    };
    let record = Record::from_json(&json).map_err(|error| unusable(error.to_string()))?;
    let profile = Profile::of_record(record)
        .ok_or_else(|| unusable("not a record of `linerate memory`".to_owned()))?;
    Ok(Some(Stored { file: file.to_owned(), profile }))
}

/// Stores a record as the profile of this machine and returns the path of the file. `replace` must
/// write the file atomically.
///
/// # Errors
/// The profile cannot be written.
pub fn store(
    record: &Record,
    replace: impl FnOnce(&Path, &str) -> io::Result<()>,
) -> Result<PathBuf, StoreError> {
    let file = file().ok_or(StoreError::NoHome)?;
    let json = record.to_json_pretty().map_err(|error| StoreError::NoJson(error.to_string()))?;
    let made = file.parent().map_or(Ok(()), fs::create_dir_all);
    match made.and_then(|()| replace(&file, &json)) {
        Ok(()) => Ok(file),
        Err(error) => Err(StoreError::NotWritten { file, error }),
    }
}

/// Whether the memory hierarchy of this machine has been measured, for `linerate doctor`.
pub fn observation() -> Observation {
    match load() {
        Ok(Some(stored)) => {
            let (age, file) = (stored.age(), stored.file.display().to_string());
            Found::Kept { profile: &stored.profile, age: &age, file: &file }.observation()
        }
        Ok(None) => {
            let place = file().map(|file| file.display().to_string());
            Found::None { place: place.as_deref() }.observation()
        }
        Err(error) => Found::Unreadable { reason: &error.to_string() }.observation(),
    }
}

fn is_not_there(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns the path of this machine's profile, even if it does not exist; `None` without a home
/// directory.
fn file() -> Option<PathBuf> {
    // As the XDG base directory specification requires, a path that is not absolute is ignored.
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    let hypervisor = linerate_machine::platform(Path::new("/")).hypervisor;
    let machine = key(&identity(), hypervisor.as_deref());
    Some(state.join("linerate").join(format!("memory-{machine}.json")))
}

/// Encodes the machine in letters, digits and hyphens.
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
    fn rejects_an_unsuitable_profile_with_a_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("profile.json");
        assert!(read(&file).is_ok_and(|profile| profile.is_none()));
        assert!(read(&file.join("below")).is_ok_and(|profile| profile.is_none()));
        for bad in ["", "{}", "{\"schema\": 1}"] {
            fs::write(&file, bad).expect("it can be written");
            let reason = read(&file).expect_err("no record").to_string();
            assert!(reason.contains("profile.json: ") && reason.contains("linerate memory"));
        }
        assert!(read(folder.path()).is_err());
    }
}
