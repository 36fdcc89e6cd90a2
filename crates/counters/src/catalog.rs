// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events this processor counts, by portable names and by its own.

use crate::event::{Class, Event};
use crate::suggest::nearest;
use linerate_machine::identity::{Identity, identity};
use std::fmt;
use std::path::{Path, PathBuf};

/// The events of one machine.
#[derive(Clone, Debug)]
pub struct Catalog {
    table: &'static str,
    is_known: bool,
    sysfs: PathBuf,
}

/// An event that can be asked for, or why it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventInfo {
    /// Its name.
    pub name: &'static str,
    /// The processor's own name and code; `None` for events that this processor does not count.
    pub native: Option<&'static str>,
    /// What it counts on this processor.
    pub prose: &'static str,
    /// Who counts it.
    pub class: Class,
    /// Why this processor does not count it; `None` if it does.
    pub absent: Option<String>,
}

/// Why a name is no event here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Nobody knows the name.
    Unknown {
        /// The name as given.
        name: String,
        /// What may have been meant, best first.
        nearest: Vec<String>,
    },
    /// The name is known, but this processor does not count that.
    NotInTable {
        /// The name as given.
        name: String,
        /// The processor's table.
        table: &'static str,
        /// Why not.
        reason: String,
    },
    /// It is written in no notation of events, or with terms the unit does not have.
    Malformed {
        /// The name as given.
        name: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A tracepoint cannot be looked up.
    NoTracefs {
        /// The name as given.
        name: String,
        /// What was tried.
        reason: String,
        /// The command that would change it.
        fix: &'static str,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, nearest } if nearest.is_empty() => {
                write!(f, "unknown event `{name}`; `linerate stat --list` shows those there are")
            }
            Self::Unknown { name, nearest } => {
                write!(f, "unknown event `{name}`; did you mean {}?", nearest.join(" or "))
            }
            Self::NotInTable { name, table, reason } => {
                write!(f, "`{name}` is not counted here (table {table}): {reason}")
            }
            Self::Malformed { name, reason } => write!(f, "event `{name}`: {reason}"),
            Self::NoTracefs { name, reason, fix } => {
                write!(f, "tracepoint `{name}` cannot be looked up: {reason}; try: {fix}")
            }
        }
    }
}

impl std::error::Error for NameError {}

impl Catalog {
    /// The catalog of this machine. Takes a few microseconds; files are read when a name needs them.
    pub fn of_this_machine() -> Self {
        Self::of(&identity(), Path::new("/sys"))
    }

    /// The catalog of a processor whose kernel shows its units and tracepoints under `sysfs`.
    pub fn of(identity: &Identity, sysfs: &Path) -> Self {
        let _ = identity;
        Self { table: "generic", is_known: false, sysfs: sysfs.to_owned() }
    }

    /// The name of the table: `armv8`, `generic`, ...
    pub fn table(&self) -> &'static str {
        self.table
    }

    /// Whether the table is that of this very processor; otherwise its events are those that the
    /// architecture or the kernel defines for all.
    pub fn is_known_processor(&self) -> bool {
        self.is_known
    }

    /// The event of a name: a portable or native one (`instructions`, `l1d_cache_refill`), `r<hex>`,
    /// `unit/event=0x..,umask=0x../`, `unit/name/`, `subsystem:tracepoint`; each may end in `:u` for
    /// user mode only.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn resolve(&self, name: &str) -> Result<Event, NameError> {
        let _ = &self.sysfs;
        Err(NameError::Unknown { name: name.to_owned(), nearest: nearest(name, []) })
    }

    /// Every event of this processor and the kernel by name, and the portable ones it does not
    /// count.
    pub fn list(&self) -> Vec<EventInfo> {
        Vec::new()
    }
}
