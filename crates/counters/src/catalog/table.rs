// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects a processor's event table from the tables that the build generates from data/events.

use crate::event::Class;
use linerate_linux::perf::{HARDWARE, HW_CACHE, RAW, SOFTWARE, Selector};
use linerate_machine::identity::{ArmCore, Identity};

/// Event table for one or more processors with the same event numbering.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) manual: &'static str,
    /// Name prefixes of PMUs that have a sysfs file for each event they implement.
    pub(super) units: &'static [&'static str],
    /// Normalized native names of the events that emulators count; `None` if all are assumed to
    /// work on emulators.
    pub(super) emulated: Option<&'static [&'static str]>,
    processors: &'static [Processor],
    /// Vendors whose other processors also have this table's architectural events. A processor of
    /// these vendors uses this table if it has no table of its own.
    fallback: &'static [&'static str],
    pub(super) rows: &'static [Row],
    /// Portable names of the events that these processors do not count, with the reason.
    pub(super) absent: &'static [(&'static str, &'static str)],
}

/// An event in a table.
#[derive(Debug)]
pub(super) struct Row {
    /// Portable names.
    pub(super) names: &'static [&'static str],
    /// Normalized native name (lower case, `_` for `-`).
    pub(super) id: &'static str,
    /// Native name and code, for display.
    pub(super) native: &'static str,
    pub(super) unit: &'static str,
    pub(super) class: Class,
    pub(super) selector: Selector,
    pub(super) prose: &'static str,
    /// Whether the event occurs only in the kernel.
    pub(super) kernel_only: bool,
}

impl Row {
    /// Returns the first portable name, or the native name if there is none.
    pub(super) fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or(self.id)
    }
}

/// Identifies processors with the same event numbering.
#[derive(Debug)]
pub(super) enum Processor {
    X86 { vendor: &'static str, family: u32, models: &'static [(u32, u32)] },
    Arm { implementer: u32, parts: &'static [u32] },
    Power { versions: &'static [u32] },
}

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// Returns the table of kernel software events.
pub(super) fn software() -> &'static Table {
    &SOFTWARE_TABLE
}

/// Returns the table of generic hardware events, whose codes the kernel chooses.
pub(super) fn generic() -> &'static Table {
    &GENERIC
}

/// Returns the portable names of hardware events with their descriptions, in the order used by the
/// manual.
pub(super) fn portable() -> &'static [(&'static str, &'static str)] {
    PORTABLE
}

/// Returns the portable name for another tool's event name, if it is a known alias.
pub(super) fn alias(name: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, name)| *name)
}

/// Returns all aliases, i.e. other tools' event names.
pub(super) fn aliases() -> impl Iterator<Item = &'static str> {
    ALIASES.iter().map(|(alias, _)| *alias)
}

/// Returns the table for a processor, and whether it is specific to that processor. `units` are the
/// names of the kernel's PMUs.
pub(super) fn table_of(identity: &Identity, units: &[String]) -> (&'static Table, bool) {
    if let Some(table) = PROCESSORS.iter().find(|table| table.fits(identity)) {
        return (table, true);
    }
    let made_by = |table: &&Table| match identity {
        Identity::X86 { vendor, .. } => table.fallback.contains(&vendor.as_str()),
        _ => false,
    };
    let has_unit = |table: &&Table| units.iter().any(|unit| table.has_unit(unit));
    let architectural = PROCESSORS.iter().find(|table| made_by(table) || has_unit(table));
    (architectural.unwrap_or(&GENERIC), false)
}

impl Table {
    /// Returns whether the kernel lists which of this table's events the PMU `unit` implements.
    pub(super) fn has_unit(&self, unit: &str) -> bool {
        self.units.iter().any(|beginning| unit.starts_with(beginning))
    }

    /// Returns whether this table applies to every core of the processor.
    fn fits(&self, identity: &Identity) -> bool {
        match identity {
            Identity::X86 { vendor, family, model } => self.has_x86(vendor, *family, *model),
            Identity::Arm { cores } => {
                !cores.is_empty() && cores.iter().all(|core| self.has_arm(core))
            }
            Identity::Power { pvr, .. } => self.has_power(pvr >> 16),
            Identity::Other { .. } => false,
        }
    }

    fn has_x86(&self, its_vendor: &str, its_family: u32, model: u32) -> bool {
        self.processors.iter().any(|processor| match processor {
            Processor::X86 { vendor, family, models } => {
                *vendor == its_vendor
                    && *family == its_family
                    && models.iter().any(|(first, last)| (*first..=*last).contains(&model))
            }
            _ => false,
        })
    }

    fn has_arm(&self, core: &ArmCore) -> bool {
        self.processors.iter().any(|processor| match processor {
            Processor::Arm { implementer, parts } => {
                *implementer == core.implementer && parts.contains(&core.part)
            }
            _ => false,
        })
    }

    fn has_power(&self, version: u32) -> bool {
        self.processors.iter().any(|processor| match processor {
            Processor::Power { versions } => versions.contains(&version),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No processor may match two tables: the first match is used, so the choice would depend on
    /// the order of the files.
    #[test]
    fn no_processor_has_two_tables() {
        let only_one = |identity: Identity| {
            let fitting = PROCESSORS.iter().filter(|table| table.fits(&identity));
            let names: Vec<_> = fitting.map(|table| table.name).collect();
            assert!(names.len() <= 1, "{identity:?}: {names:?}");
            names.len()
        };
        let mut known = 0;
        for vendor in ["AuthenticAMD", "GenuineIntel", "HygonGenuine"] {
            for (family, model) in (0..0x20).flat_map(|f| (0..=0xff).map(move |m| (f, m))) {
                known += only_one(Identity::X86 { vendor: vendor.to_owned(), family, model });
            }
        }
        for part in 0..=0xfff {
            known += only_one(Identity::Arm { cores: vec![ArmCore { implementer: 0x41, part }] });
        }
        for version in 0..=0xffff_u32 {
            known += only_one(Identity::Power { name: String::new(), pvr: version << 16 });
        }
        assert!(known > PROCESSORS.len());
    }
}
