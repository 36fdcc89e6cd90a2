// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalog of the events that this machine can count, indexed by their portable and native names.
//!
//! | notation | meaning | source of the event number |
//! |---|---|---|
//! | `l1d_misses` | a portable name | the processor's table |
//! | `l1d_cache_refill` | the processor's own name, in any case | the processor's table |
//! | `L1-dcache-loads` | a generalised kernel event | the kernel |
//! | `context_switches` | a kernel software event | the table `software` |
//! | `r1a8` | a raw event code, in hex | the user |
//! | `cpu/event=0x3c,umask=0x1/`, `power/energy-pkg/` | a PMU event | the PMU's sysfs files |
//! | `net:netif_rx` | a tracepoint | tracefs |
//!
//! The suffix `:u` restricts any of these to user mode. The tables are the data files in
//! data/events; the build makes them static, so that nothing is parsed at program start. A
//! processor without its own table gets its vendor's architectural events or the kernel's
//! generalised events, and [`Catalog::is_known_processor`] returns false. On ARM's PMUv3, an event
//! that a core does not implement would count 0; the kernel lists the implemented events that it
//! knows, and this module rejects the others. It also rejects events that the kernel opens but an
//! emulator leaves at 0.
//!
//! This module does not open events. The reasons why the kernel refuses events are in `refusal`.

pub mod generic;
mod table;
pub mod tracepoint;
mod unit;

use crate::event::{Class, Event};
use crate::suggest::{nearest, normal};
use linerate_linux::perf::{RAW, Selector};
use linerate_machine::identity::{Identity, identity};
use linerate_machine::platform;
use std::fmt;
use std::path::{Path, PathBuf};
use table::{Row, Table};

/// Event catalog for one machine.
#[derive(Clone, Debug)]
pub struct Catalog {
    table: &'static Table,
    is_known: bool,
    /// Names of the PMUs whose sysfs files list which of the table's events they implement.
    units: Vec<String>,
    is_emulated: bool,
    is_x86: bool,
    sysfs: PathBuf,
}

/// A catalog event, whether or not it is available on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventInfo {
    /// Portable name if there is one, otherwise the native name.
    pub name: &'static str,
    /// Native name and code; `None` if this processor does not count the event.
    pub native: Option<&'static str>,
    /// What the event counts on this processor.
    pub prose: &'static str,
    /// Hardware, software or tracepoint event.
    pub class: Class,
    /// Why this processor does not count the event; `None` if it does.
    pub absent: Option<String>,
}

/// Why a name does not identify an event on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name is not in any table, PMU or tracepoint list.
    Unknown {
        /// Event name as given.
        name: String,
        /// Similar names that exist, best match first.
        nearest: Vec<String>,
    },
    /// The name is known, but this processor does not count it.
    NotInTable {
        /// Event name as given.
        name: String,
        /// Name of the processor's event table.
        table: &'static str,
        /// Why this processor does not count the event.
        reason: String,
    },
    /// The notation is invalid, or uses a term that the PMU does not have.
    Malformed {
        /// Event name as given.
        name: String,
        /// The problem, and the correct form.
        reason: String,
    },
    /// The event belongs to a PMU that this machine does not have.
    NoUnit {
        /// Event name as given.
        name: String,
        /// Text that names the missing PMU and lists the available ones.
        reason: String,
        /// Similar names that exist, best match first.
        nearest: Vec<String>,
    },
    /// The tracepoint cannot be looked up in tracefs.
    NoTracefs {
        /// Tracepoint name as given.
        name: String,
        /// Why the tracepoint cannot be looked up.
        reason: String,
        /// Shell command that makes the tracepoint accessible.
        fix: &'static str,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, nearest } if nearest.is_empty() => {
                write!(f, "unknown event `{name}`; `linerate stat --list` lists the known events")
            }
            Self::Unknown { name, nearest } => {
                write!(f, "unknown event `{name}`; did you mean {}?", nearest.join(" or "))
            }
            Self::NotInTable { name, table, reason } => {
                write!(f, "`{name}` is not counted here (table {table}): {reason}")
            }
            Self::Malformed { name, reason } => write!(f, "event `{name}`: {reason}"),
            Self::NoUnit { name, reason, nearest } if nearest.is_empty() => {
                write!(f, "`{name}` is not counted here: {reason}")
            }
            Self::NoUnit { name, reason, nearest } => {
                let nearest = nearest.join(" or ");
                write!(f, "`{name}` is not counted here: {reason}; did you mean {nearest}?")
            }
            Self::NoTracefs { name, reason, fix } => {
                write!(f, "tracepoint `{name}` cannot be looked up: {reason}; try: {fix}")
            }
        }
    }
}

impl std::error::Error for NameError {}

impl Catalog {
    /// Returns this machine's catalog. Takes a few microseconds; files are read only when a name
    /// requires them.
    pub fn of_this_machine() -> Self {
        let catalog = Self::for_processor(&identity(), Path::new("/sys"));
        let is_emulated = || platform(Path::new("/")).emulated == Some(true);
        match catalog.table.emulated.is_some() && is_emulated() {
            true => catalog.on_emulator(),
            false => catalog,
        }
    }

    /// Returns the catalog for a processor whose PMUs and tracepoints are described under `sysfs`.
    pub fn for_processor(identity: &Identity, sysfs: &Path) -> Self {
        // x86 and Power processors are identified by CPUID or PVR alone, without reading a
        // directory.
        let names = match identity {
            Identity::X86 { .. } | Identity::Power { .. } => Vec::new(),
            Identity::Arm { .. } | Identity::Other { .. } => unit::names(sysfs),
        };
        let (table, is_known) = table::table_of(identity, &names);
        let units = names.into_iter().filter(|name| table.has_unit(name)).collect();
        let is_x86 = matches!(identity, Identity::X86 { .. });
        Self { table, is_known, units, is_emulated: false, is_x86, sysfs: sysfs.to_owned() }
    }

    /// Returns this catalog for an emulated processor, without the events that its emulators do not
    /// count.
    #[must_use]
    pub fn on_emulator(self) -> Self {
        Self { is_emulated: true, ..self }
    }

    /// Returns the name of the processor's event table, such as `armv8` or `generic`.
    pub fn table(&self) -> &'static str {
        self.table.name
    }

    /// Returns the event table's title, which names the processors that it covers.
    pub fn title(&self) -> &'static str {
        self.table.title
    }

    /// Returns the title of the manual that the event codes come from.
    pub fn manual(&self) -> &'static str {
        self.table.manual
    }

    /// Returns whether the event table is specific to this processor rather than limited to
    /// architectural events or generic kernel events.
    pub fn is_known_processor(&self) -> bool {
        self.is_known
    }

    /// Resolves an event name in one of the notations listed at the top of this module.
    ///
    /// # Errors
    /// Returns [`NameError`] if the name does not identify an event on this machine.
    pub fn resolve(&self, name: &str) -> Result<Event, NameError> {
        let (plain, is_user_only) = split_mode(name)?;
        let event = if plain.contains('/') {
            unit::resolve(&self.sysfs, plain)?
        } else if let Some(event) = self.by_table(plain)? {
            event
        } else if plain.contains(':') {
            self.by_tracepoint(plain)?
        } else {
            self.by_code(plain).ok_or_else(|| self.unknown(name, plain))?
        };
        if is_user_only && is_kernel_only(&event) {
            let reason = "the event occurs only in the kernel, so `:u` would count nothing; drop \
                          `:u`";
            return Err(NameError::Malformed { name: name.to_owned(), reason: reason.to_owned() });
        }
        Ok(Event { is_user_only, ..event })
    }

    /// Returns all named events: the portable events (including those that this processor cannot
    /// count), the remaining native events, and the kernel's software events.
    pub fn list(&self) -> Vec<EventInfo> {
        let portable = table::portable().iter().map(|&(name, prose)| match self.portable(name) {
            Ok(row) => row.info(name),
            Err(reason) => EventInfo {
                name,
                native: None,
                prose,
                class: Class::Hardware,
                absent: Some(reason),
            },
        });
        let others = self.table.rows.iter().filter(|row| self.portable_name(row).is_none());
        let others = others.map(|row| EventInfo { absent: self.lack(row), ..row.info(row.id) });
        let software = table::software().rows.iter();
        let software =
            software.map(|row| EventInfo { absent: self.never(row), ..row.info(row.name()) });
        portable.chain(others).chain(software).collect()
    }

    /// Resolves a portable name, a native name or an alias; `None` if no table has the name.
    fn by_table(&self, name: &str) -> Result<Option<Event>, NameError> {
        let normal = normal(name);
        let normal = table::alias(&normal).unwrap_or(&normal);
        let portable = table::portable().iter().find(|(portable, _)| *portable == normal);
        let refused = |reason| NameError::NotInTable {
            name: name.to_owned(),
            table: self.table.name,
            reason,
        };
        if let Some((portable, _)) = portable {
            return self.portable(portable).map(|row| Some(row.event(portable))).map_err(refused);
        }
        if let Some(row) = self.table.rows.iter().find(|row| row.id == normal) {
            return match self.lack(row) {
                Some(reason) => Err(refused(reason)),
                None => Ok(Some(row.event(self.portable_name(row).unwrap_or(row.id)))),
            };
        }
        let mut software = table::software().rows.iter();
        if let Some(row) = software.find(|row| row.id == normal || row.names.contains(&normal)) {
            return match self.never(row) {
                Some(reason) => Err(refused(reason)),
                None => Ok(Some(row.event(row.name()))),
            };
        }
        let generic = table::generic().rows.iter().find(|row| row.id == normal);
        Ok(generic.map(|row| row.event(row.id)))
    }

    /// Returns the table's event with this portable name, or why there is none.
    fn portable(&self, name: &str) -> Result<&'static Row, String> {
        let mut lack = None;
        for row in self.table.rows.iter().filter(|row| row.names.contains(&name)) {
            match self.lack(row) {
                None => return Ok(row),
                Some(reason) => lack = Some(reason),
            }
        }
        let absent = self.table.absent.iter().find(|(absent, _)| *absent == name);
        Err(lack.or_else(|| absent.map(|(_, reason)| (*reason).to_owned())).unwrap_or_default())
    }

    /// Returns the portable name that resolves to this event on this machine, if any.
    fn portable_name(&self, row: &Row) -> Option<&'static str> {
        let is_found =
            |name: &&&str| self.portable(name).is_ok_and(|found| std::ptr::eq(found, row));
        row.names.iter().find(is_found).copied()
    }

    /// Returns why this machine does not count an event that is in its table: the cores are
    /// emulated, or a PMU has no sysfs file for the event, which an old kernel may not know. `None`
    /// if it counts the event, or if the kernel lists no events at all, in which case the table is
    /// trusted.
    fn lack(&self, row: &Row) -> Option<String> {
        let counted = self.table.emulated.filter(|_| self.is_emulated);
        if counted.is_some_and(|ids| !ids.contains(&row.id)) {
            let native = row.native;
            return Some(format!(
                "this processor is emulated, and the emulator does not count {native}"
            ));
        }
        let devices = unit::devices(&self.sysfs);
        let lacking = self.units.iter().find(|unit| {
            let events = devices.join(unit).join("events");
            events.is_dir() && !events.join(row.id).exists()
        })?;
        let (native, code) = (row.native, row.selector.config);
        Some(format!(
            "the kernel does not list {native} among the events of PMU {lacking}: the cores lack \
             it, or the kernel is too old to know it; -e r{code:x} counts it, but yields 0 if the \
             cores lack it"
        ))
    }

    /// Returns why the kernel never counts this software event on this machine; `None` if the
    /// kernel counts the event. On x86, the kernel opens alignment and emulation faults like other
    /// events, but leaves their counts at 0: only other architectures count them (perf_sw_event
    /// with PERF_COUNT_SW_ALIGNMENT_FAULTS or PERF_COUNT_SW_EMULATION_FAULTS under arch/).
    fn never(&self, row: &Row) -> Option<String> {
        let is_never = ["alignment_faults", "emulation_faults"].contains(&row.name());
        (self.is_x86 && is_never).then(|| {
            let native = row.native;
            format!("the kernel does not count {native} on x86; it would always be 0")
        })
    }

    /// Resolves `r` followed by a hexadecimal event code.
    fn by_code(&self, name: &str) -> Option<Event> {
        let digits = name.strip_prefix(['r', 'R'])?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let config = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
        let selector = Selector::new(RAW, config);
        let row = self.table.rows.iter().find(|row| row.selector == selector);
        Some(Event {
            name: name.to_owned(),
            native: row.map(|row| row.native.to_owned()),
            unit: "events",
            class: Class::Hardware,
            selector,
            is_user_only: false,
            unit_cpus: Vec::new(),
        })
    }

    /// Resolves `subsystem:tracepoint`. If the part before the colon is an event name, the part
    /// after it is reported as an invalid mode.
    fn by_tracepoint(&self, name: &str) -> Result<Event, NameError> {
        let (before, mode) = name.split_once(':').unwrap_or((name, ""));
        if !matches!(self.by_table(before), Ok(None)) || self.by_code(before).is_some() {
            let reason = format!("invalid mode `:{mode}`; the only mode is `:u` (user mode only)");
            return Err(NameError::Malformed { name: name.to_owned(), reason });
        }
        tracepoint::resolve(&self.sysfs, name)
    }

    fn unknown(&self, name: &str, plain: &str) -> NameError {
        let portable = table::portable().iter().map(|(name, _)| *name);
        let software = table::software().rows.iter().map(Row::name);
        let ids = self.table.rows.iter().chain(table::generic().rows).map(|row| row.id);
        let all = portable.chain(software).chain(ids).chain(table::aliases());
        NameError::Unknown { name: name.to_owned(), nearest: nearest(plain, all) }
    }
}

impl Row {
    fn event(&self, name: &str) -> Event {
        Event {
            name: name.to_owned(),
            native: Some(self.native.to_owned()),
            unit: self.unit,
            class: self.class,
            selector: self.selector,
            is_user_only: false,
            unit_cpus: Vec::new(),
        }
    }

    fn info(&self, name: &'static str) -> EventInfo {
        let Self { native, prose, class, .. } = *self;
        EventInfo { name, native: Some(native), prose, class, absent: None }
    }
}

/// Returns whether an event occurs only in the kernel. If so, it must not be opened for user mode
/// only, because it would always count 0.
pub fn is_kernel_only(event: &Event) -> bool {
    match event.class {
        Class::Hardware => false,
        Class::Tracepoint => true,
        Class::Software => {
            let mut rows = table::software().rows.iter();
            rows.any(|row| row.selector == event.selector && row.kernel_only)
        }
    }
}

/// Returns a name without its suffix `:u` (or `u` after the last `/` of a PMU event), and whether
/// the suffix was present.
fn split_mode(name: &str) -> Result<(&str, bool), NameError> {
    let malformed =
        |reason: &str| NameError::Malformed { name: name.to_owned(), reason: reason.to_owned() };
    let (plain, is_user_only) = match name.rsplit_once('/') {
        Some((unit, "")) if !unit.is_empty() => (name, false),
        Some((_, "u" | ":u")) => (name.trim_end_matches('u').trim_end_matches(':'), true),
        Some(_) => return Err(malformed("a PMU event must end in `/`, `/u` or `/:u`")),
        None => match name.strip_suffix(":u") {
            Some(plain) => (plain, true),
            None => (name, false),
        },
    };
    match plain.is_empty() {
        true => Err(malformed("the name is missing")),
        false => Ok((plain, is_user_only)),
    }
}

/// Returns whether a string is a plain file name without directories.
fn is_file_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.'))
}

#[cfg(test)]
mod tests;
