// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machine profile: the results of `linerate memory`, stored for other commands.
//!
//! There is one record per processor model and hypervisor in `$XDG_STATE_HOME/linerate`, which
//! defaults to `~/.local/state/linerate`, so that machines with a shared home directory do not
//! overwrite each other's profiles. A new measurement replaces the stored one if
//! [`unfit`](linerate_hierarchy::profile::unfit) accepts it. All commands also work without a
//! profile.

use linerate_hierarchy::profile::{Found, Profile};
use linerate_machine::identity::{Identity, identity};
use linerate_record::Record;
use linerate_record::doctor::Observation;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// This machine's profile and the file it is stored in.
#[derive(Debug)]
pub struct Stored {
    /// Path of the profile.
    pub file: PathBuf,
    /// Contents of the file.
    pub profile: Profile,
}

/// Reason why a profile cannot be used or stored.
#[derive(Debug)]
pub enum StoreError {
    /// The file cannot be read, or is not a `linerate memory` record.
    Unusable {
        /// Path of the file.
        file: PathBuf,
        /// Reason why it is unusable.
        reason: String,
    },
    /// No directory to store the profile in.
    NoHome,
    /// The profile cannot be serialized.
    NoJson(String),
    /// The file cannot be written.
    NotWritten {
        /// Path of the file.
        file: PathBuf,
        /// The operating system's error.
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
            Self::NoHome => f.write_str("neither XDG_STATE_HOME nor HOME is an absolute path"),
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

/// Loads this machine's profile, if one is stored.
///
/// # Errors
/// Returns an error if a profile exists but cannot be used.
pub fn load() -> Result<Option<Stored>, StoreError> {
    file().map_or(Ok(None), |file| read(&file))
}

fn read(file: &Path) -> Result<Option<Stored>, StoreError> {
    let unusable = |reason: String| StoreError::Unusable { file: file.to_owned(), reason };
    let json = match fs::read_to_string(file) {
        Ok(json) => json,
        // There is no profile either if a component of the path is not a directory.
        Err(error) if is_not_there(&error) => return Ok(None),
        Err(error) => return Err(unusable(error.to_string())),
    };
    let record = Record::from_json(&json).map_err(|error| unusable(error.to_string()))?;
    let profile = Profile::of_record(record)
        .ok_or_else(|| unusable("not a `linerate memory` record".to_owned()))?;
    Ok(Some(Stored { file: file.to_owned(), profile }))
}

/// Stores a record as this machine's profile and returns the file's path. `replace` must write the
/// file atomically.
///
/// # Errors
/// Returns an error if the profile cannot be written.
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

/// Reports whether this machine's memory hierarchy has been measured, for `linerate doctor`.
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

/// Returns the path of this machine's profile, whether or not it exists; `None` without a home
/// directory.
fn file() -> Option<PathBuf> {
    // The XDG base directory specification requires that relative paths be ignored.
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    let hypervisor = linerate_machine::platform(Path::new("/")).hypervisor;
    let machine = key(&identity(), hypervisor.as_deref());
    Some(state.join("linerate").join(format!("memory-{machine}.json")))
}

/// Returns the profile's file name, which consists of letters, digits and hyphens.
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
