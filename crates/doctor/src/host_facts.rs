// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts that determine whether an event can be counted on this host: kernel settings, this
//! process's privileges, the PMUs, and the hypervisor.
//!
//! [`refusal`](crate::refusal) interprets these facts. Properties that can be determined only by
//! trial are not included (see [`Opener`](linerate_counters::opener::Opener)).

mod facts;

pub use facts::{CoreUnit, DeviceTree, Facts, Installer, UserAccess};
use linerate_counters::registers::{Module, PmuUser};
use linerate_machine::Root;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Facts about this process's host. All facts are read when the first fact is needed. Thread-safe.
#[derive(Debug)]
pub struct HostFacts {
    root: PathBuf,
    facts: OnceLock<Facts>,
}

impl HostFacts {
    /// Returns facts about this process on this machine.
    pub fn gather() -> Self {
        Self::from(Path::new("/"))
    }

    /// Returns facts that are read from /proc and /sys under `root` when the first fact is needed.
    /// Programs are looked up in the directories of `PATH` under `root`.
    pub fn from(root: &Path) -> Self {
        Self { root: root.to_owned(), facts: OnceLock::new() }
    }

    /// Returns synthetic facts, without reading files.
    pub fn from_facts(facts: Facts) -> Self {
        Self { root: PathBuf::from("/"), facts: OnceLock::from(facts) }
    }

    /// Returns the root of /proc and /sys.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the facts. The first call takes about 0.3 ms.
    pub fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| Facts::read(&self.root))
    }

    /// Returns the state of the `pmu_user` module, which holds the counters and makes their
    /// registers readable; `None` if it is not loaded. Every call reads the state again, because
    /// the module may be unloaded while a program runs, and registers may then no longer be read.
    pub fn pmu_user(&self) -> Option<PmuUser> {
        Module::loaded(&self.root)
    }

    /// Returns the owner of the process or thread `id` and the owner of this process, if they
    /// differ; `None` if they are the same or unknown. Every call reads both again.
    pub(crate) fn stranger(&self, id: u32) -> Option<Stranger> {
        let files = Root::new(&self.root);
        let runs = |who: &str| Credentials::read(&files.text(&format!("proc/{who}/status"))?);
        let (theirs, own) = (runs(&id.to_string())?, runs("self")?);
        // ptrace(2), "Ptrace access mode checking", with PTRACE_MODE_REALCREDS: the real IDs of the
        // caller must match all IDs of the target.
        let differs = |kind, theirs: [u32; 3], [own, ..]: [u32; 3]| {
            let theirs = theirs.into_iter().find(|id| *id != own)?;
            Some(Stranger { kind, theirs, own })
        };
        differs("user", theirs.users, own.users)
            .or_else(|| differs("group", theirs.groups, own.groups))
    }
}

/// The owner of another user's process, and the owner of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stranger {
    /// Which ID differs: `user` or `group`.
    pub(crate) kind: &'static str,
    /// User or group ID of the other process.
    pub(crate) theirs: u32,
    /// User or group ID of this process.
    pub(crate) own: u32,
}

/// A process's real, effective and saved IDs, from its `status` file.
struct Credentials {
    users: [u32; 3],
    groups: [u32; 3],
}

impl Credentials {
    fn read(status: &str) -> Option<Self> {
        let numbers = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            let mut numbers = line.split_ascii_whitespace().map_while(|id| id.parse().ok());
            Some([numbers.next()?, numbers.next()?, numbers.next()?])
        };
        Some(Self { users: numbers("Uid:")?, groups: numbers("Gid:")? })
    }
}

#[cfg(test)]
mod tests;
