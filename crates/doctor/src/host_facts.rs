// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions for counting an event here: kernel settings, the privileges of this process, the
//! PMUs, and the hypervisor.
//!
//! Left out: interpreting them ([`refusal`](crate::refusal)), and anything that has to be tried
//! ([`Opener`](linerate_counters::opener::Opener)).

mod facts;

pub use facts::{CoreUnit, DeviceTree, Facts, Installer, UserAccess};
use linerate_counters::registers::{Module, PmuUser};
use linerate_machine::Root;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Facts about the host of this process. Read lazily and only once; may be used concurrently.
#[derive(Debug)]
pub struct HostFacts {
    root: PathBuf,
    facts: OnceLock<Facts>,
}

impl HostFacts {
    /// Facts about this process on this machine.
    pub fn gather() -> Self {
        Self::from(Path::new("/"))
    }

    /// Facts from the /proc, /sys and programs under `root`.
    pub fn from(root: &Path) -> Self {
        Self { root: root.to_owned(), facts: OnceLock::new() }
    }

    /// Synthetic facts; reads no files.
    pub fn from_facts(facts: Facts) -> Self {
        Self { root: PathBuf::from("/"), facts: OnceLock::from(facts) }
    }

    /// Root of /proc and /sys.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The facts. The first call takes about 0.3 ms.
    pub fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| Facts::read(&self.root))
    }

    /// The module that holds the counters and makes their registers readable; `None` if it is not
    /// loaded. Read at every call: the module may be loaded or unloaded while a program runs, and
    /// registers are only read while it is present.
    pub fn pmu_user(&self) -> Option<PmuUser> {
        Module::loaded(&self.root)
    }

    /// Owners of the process or thread `id` and of this process, if they differ; `None` also if
    /// unknown. Read at every call.
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

/// Owner of a process that belongs to another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stranger {
    /// Kind of the differing ID: `user` or `group`.
    pub(crate) kind: &'static str,
    /// ID of the process.
    pub(crate) theirs: u32,
    /// Our ID.
    pub(crate) own: u32,
}

/// Real, effective and saved IDs of a process, from its `status` file.
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
