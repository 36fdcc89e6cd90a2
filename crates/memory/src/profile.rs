// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machine profile: the results of `linerate memory`, stored for other commands.
//!
//! There is one record per processor model, type of core and hypervisor in
//! `$XDG_STATE_HOME/linerate`, which defaults to `~/.local/state/linerate`, so that machines with a
//! shared home directory, and cores with different caches, do not overwrite each other's profiles.
//! A new measurement replaces the stored one if [`unfit`](linerate_hierarchy::profile::unfit)
//! accepts it. All commands also work without a profile.

use linerate_hierarchy::profile::{Found, Profile};
use linerate_linux::allowed_cpus;
use linerate_machine::core_kinds::CoreKinds;
use linerate_machine::identity::{Identity, identity};
use linerate_machine::{Root, name_cpus};
use linerate_record::doctor::Observation;
use linerate_record::{Body, Record};
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
    /// The CPUs are not all of the same core type, or only other types have been measured.
    OtherCores {
        /// Why the profile cannot be used for these CPUs.
        reason: String,
        /// CPU to measure in order to get a usable profile.
        cpu: u32,
    },
    /// There is no directory in which to store the profile.
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
            Self::OtherCores { reason, cpu } => {
                write!(
                    f,
                    "{reason}; each type has a profile of its own: choose CPUs of one type \
                     (taskset -c {cpu}), and measure there (linerate memory --cpu {cpu})"
                )
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

/// Loads this machine's profile for `cpus`, if one is stored.
///
/// # Errors
/// Returns an error if a profile exists but cannot be used, for example because it is for another
/// type of core.
pub fn load(cpus: &[u32]) -> Result<Option<Stored>, StoreError> {
    folder().map_or(Ok(None), |folder| load_from(&folder, &CoreKinds::read(&here()), cpus))
}

/// Like [`load`], for the CPUs that this process may run on.
///
/// # Errors
/// The same as for [`load`].
pub fn load_for_process() -> Result<Option<Stored>, StoreError> {
    load(&allowed_cpus().unwrap_or_default())
}

fn load_from(folder: &Path, kinds: &CoreKinds, cpus: &[u32]) -> Result<Option<Stored>, StoreError> {
    let file = |kind| folder.join(name(kind));
    let cpu = cpus.first().copied().unwrap_or(0);
    let kind = match kinds.common(cpus) {
        Ok(kind) => kind,
        // Without any profile, there is none to choose.
        Err(_) if kinds.groups().into_keys().all(|kind| !file(Some(kind)).exists()) => {
            return Ok(None);
        }
        Err(reason) => return Err(StoreError::OtherCores { reason, cpu }),
    };
    if let Some(stored) = read(&file(kind))? {
        return Ok(Some(stored));
    }
    let others = kinds.groups().into_keys().filter(|other| Some(*other) != kind);
    match others.into_iter().find(|other| file(Some(other)).exists()) {
        Some(other) => {
            let (kind, cpus) = (kind.unwrap_or_default(), name_cpus(cpus));
            let reason =
                format!("only {other} cores have been measured, not the {kind} cores of {cpus}");
            Err(StoreError::OtherCores { reason, cpu })
        }
        None => Ok(None),
    }
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
    let kinds = CoreKinds::read(&here());
    let file = folder().ok_or(StoreError::NoHome)?.join(name_for(record, &kinds)?);
    let json = record.to_json_pretty().map_err(|error| StoreError::NoJson(error.to_string()))?;
    let made = file.parent().map_or(Ok(()), fs::create_dir_all);
    match made.and_then(|()| replace(&file, &json)) {
        Ok(()) => Ok(file),
        Err(error) => Err(StoreError::NotWritten { file, error }),
    }
}

/// Reports whether this machine's memory hierarchy has been measured on each type of core that this
/// process may use, for `linerate doctor`.
pub fn observation() -> Observation {
    let kinds = CoreKinds::read(&here());
    let groups = groups(&kinds, &allowed_cpus().unwrap_or_default());
    let mut found: Vec<_> = groups.iter().map(|cpus| (load(cpus), cpus)).collect();
    let worst = found.iter().position(|(found, _)| !matches!(found, Ok(Some(_)))).unwrap_or(0);
    let (found, cpus) = found.swap_remove(worst);
    match found {
        Ok(Some(stored)) => {
            let (age, file) = (stored.age(), stored.file.display().to_string());
            Found::Kept { profile: &stored.profile, age: &age, file: &file }.observation()
        }
        Ok(None) => {
            let kind = kinds.common(cpus).ok().flatten();
            let file = folder().map(|folder| folder.join(name(kind)));
            let place = file.map(|file| file.display().to_string());
            Found::None { place: place.as_deref() }.observation()
        }
        Err(error) => {
            let cpu = match &error {
                StoreError::OtherCores { cpu, .. } => Some(*cpu),
                _ => None,
            };
            Found::Unreadable { reason: &error.to_string(), cpu }.observation()
        }
    }
}

/// Groups `cpus` by the type of their cores. There is at least one group.
fn groups(kinds: &CoreKinds, cpus: &[u32]) -> Vec<Vec<u32>> {
    let groups = kinds.groups().into_values();
    let among = |group: Vec<u32>| group.into_iter().filter(|cpu| cpus.contains(cpu)).collect();
    let groups: Vec<Vec<u32>> =
        groups.map(among).filter(|group: &Vec<u32>| !group.is_empty()).collect();
    if groups.is_empty() { vec![cpus.to_vec()] } else { groups }
}

fn is_not_there(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn here() -> Root {
    Root::new(Path::new("/"))
}

/// Returns the directory of profiles, whether or not it exists; `None` without a home directory.
fn folder() -> Option<PathBuf> {
    // The XDG base directory specification requires that relative paths be ignored.
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    Some(state.join("linerate"))
}

/// Returns the file name of this machine's profile for its cores of type `kind`, which is `None` if
/// there is only one type.
fn name(kind: Option<&str>) -> String {
    let hypervisor = linerate_machine::platform(Path::new("/")).hypervisor;
    format!("memory-{}.json", key(&identity(), hypervisor.as_deref(), kind))
}

/// Returns the file name for a record, whose measured CPU is of one of `kinds`.
fn name_for(record: &Record, kinds: &CoreKinds) -> Result<String, StoreError> {
    let Body::Memory(report) = &record.body else { return Ok(name(None)) };
    let cpu = report.conditions.cpu;
    let kind = kinds.common(&[cpu]).map_err(|reason| StoreError::OtherCores { reason, cpu })?;
    Ok(name(kind))
}

/// Returns the main part of the file name, which consists of letters, digits and hyphens.
fn key(identity: &Identity, hypervisor: Option<&str>, kind: Option<&str>) -> String {
    let processor = match identity {
        Identity::X86 { vendor, family, model } => format!("{vendor} {family:x} {model:x}"),
        Identity::Arm { cores } => {
            let cores = cores.iter().map(|core| format!("{:x} {:x}", core.implementer, core.part));
            format!("arm {}", cores.collect::<Vec<_>>().join(" "))
        }
        Identity::Power { name, pvr } => format!("{name} {pvr:x}"),
        Identity::Other { architecture } => (*architecture).to_owned(),
    };
    let kind = kind.map_or_else(String::new, |kind| format!(" on {kind}"));
    let text = format!("{processor} {}{kind}", hypervisor.unwrap_or("bare")).to_lowercase();
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
        assert_eq!(key(&x86(2), Some("KVM"), None), "authenticamd-1a-2-kvm");
        assert_eq!(key(&x86(0x11), None, None), "authenticamd-1a-11-bare");
        let cores = vec![
            ArmCore { implementer: 0x41, part: 0xd03 },
            ArmCore { implementer: 0x41, part: 0xd08 },
        ];
        let both = Identity::Arm { cores };
        assert_eq!(key(&both, None, None), "arm-41-d03-41-d08-bare");
        assert_eq!(key(&both, None, Some("41-d08")), "arm-41-d03-41-d08-bare-on-41-d08");
        let power = Identity::Power { name: "../7455".to_owned(), pvr: 0x8001_0302 };
        assert_eq!(key(&power, Some("a/b c"), None), "7455-80010302-a-b-c");
        assert_eq!(key(&Identity::Other { architecture: "riscv64" }, None, None), "riscv64-bare");
    }

    /// The caches of little cores are not those of big ones.
    #[test]
    fn types_of_cores_have_profiles_of_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let units = "sys/bus/event_source/devices";
        for (unit, cpus) in [("cpu_core", "0-3"), ("cpu_atom", "4-7")] {
            let unit = folder.path().join(units).join(unit);
            fs::create_dir_all(&unit).expect("the folder can be created");
            fs::write(unit.join("cpus"), cpus).expect("the file can be written");
        }
        let kinds = CoreKinds::read(&Root::new(folder.path()));
        let load = |cpus: &[u32]| load_from(folder.path(), &kinds, cpus);
        assert!(load(&[0]).is_ok_and(|stored| stored.is_none()));
        let of = |kind| folder.path().join(name(Some(kind)));
        fs::write(of("cpu_core"), "{}").expect("the file can be written");
        assert!(matches!(load(&[0, 3]), Err(StoreError::Unusable { .. })), "the file is read");
        let other = load(&[5, 6]).expect_err("that of other cores").to_string();
        let expected = "only cpu_core cores have been measured, not the cpu_atom cores of CPUs \
                        5-6; each type has a profile of its own: choose CPUs of one type (taskset \
                        -c 5), and measure there (linerate memory --cpu 5)";
        assert_eq!(other, expected);
        let mixed = load(&[3, 4]).expect_err("of two types").to_string();
        assert!(mixed.starts_with("CPUs 3-4 have several types of cores"), "{mixed}");
        assert_eq!(groups(&kinds, &[5, 3, 2]), [vec![5], vec![2, 3]]);
        assert_eq!(groups(&CoreKinds::default(), &[3, 4]), [[3, 4]]);
        let equal = load_from(folder.path(), &CoreKinds::default(), &[3, 4]);
        assert!(equal.is_ok_and(|stored| stored.is_none()));
    }

    #[test]
    fn rejects_an_unsuitable_profile_with_a_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("profile.json");
        assert!(read(&file).is_ok_and(|profile| profile.is_none()));
        assert!(read(&file.join("below")).is_ok_and(|profile| profile.is_none()));
        for bad in ["", "{}", "{\"schema\": 1}"] {
            fs::write(&file, bad).expect("the file can be written");
            let reason = read(&file).expect_err("no record").to_string();
            assert!(reason.contains("profile.json: ") && reason.contains("linerate memory"));
        }
        assert!(read(folder.path()).is_err());
    }
}
