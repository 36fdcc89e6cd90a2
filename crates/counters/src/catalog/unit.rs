// SPDX-License-Identifier: MIT OR Apache-2.0
//! PMU events, as described by the PMU's files under /sys/bus/event_source/devices.
//!
//! `type` holds the PMU's number. A file such as `format/umask` specifies the config word and the
//! bits that a term is written to, as in `config:8-15`. A file such as `events/energy-pkg` contains
//! the terms of a named event, as in `event=0x02`; `events/energy-pkg.scale` and `.unit` contain
//! the value and the unit of one count. `cpumask` lists one CPU for each unit that an uncore PMU
//! counts. (Linux, Documentation/ABI/testing, sysfs-bus-event_source-devices-format and -events.)

use super::{NameError, is_file_name};
use crate::event::{Class, Event};
use crate::suggest::nearest;
use linerate_linux::perf::{SOFTWARE, Selector, TRACEPOINT};
use linerate_machine::parse_cpu_list;
use std::path::{Path, PathBuf};

/// Returns the directory of all PMUs.
pub(super) fn devices(sysfs: &Path) -> PathBuf {
    sysfs.join("bus/event_source/devices")
}

/// Returns all PMU names, sorted.
pub(super) fn names(sysfs: &Path) -> Vec<String> {
    files(&devices(sysfs))
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Resolves a PMU event, written `unit/terms/`.
pub(super) fn resolve(sysfs: &Path, name: &str) -> Result<Event, NameError> {
    let (unit, terms) = name.split_once('/').unwrap_or((name, ""));
    let terms = terms.strip_suffix('/').unwrap_or(terms);
    let malformed = |reason: String| NameError::Malformed { name: name.to_owned(), reason };
    if !is_file_name(unit) {
        return Err(malformed(format!("invalid PMU name `{unit}`")));
    }
    let folder = devices(sysfs).join(unit);
    let Some(kind) = read(&folder.join("type")) else {
        terms.split(',').try_for_each(|term| split(term.trim()).map(drop)).map_err(malformed)?;
        return Err(no_unit(sysfs, name, unit, terms));
    };
    let kind = kind.parse().map_err(|_| malformed(format!("invalid type for {unit}: `{kind}`")))?;
    let mut words = Words { folder: &folder, selector: Selector::new(kind, 0), count: None };
    for term in terms.split(',') {
        words.term(term.trim(), true).map_err(malformed)?;
    }
    let class = match kind {
        SOFTWARE => Class::Software,
        TRACEPOINT => Class::Tracepoint,
        _ => Class::Hardware,
    };
    let native = words.count.map(|count| format!("one count is {count}"));
    let selector = words.selector;
    Ok(Event {
        name: name.to_owned(),
        native,
        unit: "events",
        class,
        selector,
        is_user_only: false,
        unit_cpus: unit_cpus(&folder),
    })
}

/// Returns one CPU for each unit that an uncore PMU counts; none for a PMU that counts CPUs. The
/// kernel opens an event of a unit on any of its CPUs: each of these events counts the whole unit.
fn unit_cpus(folder: &Path) -> Vec<u32> {
    let cpus = read(&folder.join("cpumask")).and_then(|list| parse_cpu_list(&list).ok());
    cpus.unwrap_or_default()
}

/// Returns the error for an event of a PMU that this machine does not have.
fn no_unit(sysfs: &Path, name: &str, unit: &str, terms: &str) -> NameError {
    let units = names(sysfs);
    let near = nearest(unit, units.iter().map(String::as_str));
    let has = match units.as_slice() {
        [] => "none at all".to_owned(),
        units => units.join(", "),
    };
    NameError::NoUnit {
        name: name.to_owned(),
        reason: format!("this machine has no PMU `{unit}`; available: {has}"),
        nearest: near.iter().map(|unit| format!("{unit}/{terms}/")).collect(),
    }
}

/// Splits a term such as `event=0x3c` or `any` into its name and optional number.
fn split(term: &str) -> Result<(&str, Option<u64>), String> {
    let (key, value) = match term.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (term, None),
    };
    if !is_file_name(key) {
        return Err(format!("invalid term `{term}`; expected, for example, `event=0x3c`"));
    }
    let number = value.map(|value| {
        number(value).ok_or_else(|| match value {
            "?" => format!("`{key}` needs a value: write {key}=0x.."),
            _ => format!("the value of `{term}` is not a number below 2^64"),
        })
    });
    Ok((key, number.transpose()?))
}

/// Config words of a `perf_event_attr`, filled in from an event's terms.
struct Words<'a> {
    folder: &'a Path,
    selector: Selector,
    /// Value and unit of one count, as in `2.3e-10 Joules`, if the PMU reports them.
    count: Option<String>,
}

impl Words<'_> {
    /// Applies one term: `term=value`, `term` alone (meaning 1), or the name of an event, whose
    /// terms are then applied.
    fn term(&mut self, term: &str, may_be_event: bool) -> Result<(), String> {
        let (key, value) = split(term)?;
        if let (None, true, Some(terms)) =
            (value, may_be_event, read(&self.folder.join("events").join(key)))
        {
            self.count = self.meaning(key);
            return terms.split(',').try_for_each(|term| self.term(term.trim(), false));
        }
        let number = value.unwrap_or(1);
        match key {
            "config" => self.selector.config |= number,
            "config1" => self.selector.config1 |= number,
            "config2" => self.selector.config2 |= number,
            _ => {
                let format = read(&self.folder.join("format").join(key));
                let format = format.ok_or_else(|| self.no_such_term(key))?;
                self.fill(key, &format, number)?;
            }
        }
        Ok(())
    }

    /// Returns the value and unit of one count, as in `2.3e-10 Joules`.
    fn meaning(&self, event: &str) -> Option<String> {
        let file = |ending| read(&self.folder.join("events").join(format!("{event}.{ending}")));
        match (file("scale"), file("unit")) {
            (None, None) => None,
            (scale, unit) => {
                Some(format!("{} {}", scale.as_deref().unwrap_or("1"), unit.unwrap_or_default()))
            }
        }
    }

    fn no_such_term(&self, key: &str) -> String {
        let mut terms = files(&self.folder.join("format"));
        terms.extend(files(&self.folder.join("events")).into_iter().filter(|e| !e.contains('.')));
        match nearest(key, terms.iter().map(String::as_str)).as_slice() {
            [] => format!("the PMU has no term or event `{key}`; available: {}", terms.join(", ")),
            names => {
                format!(
                    "the PMU has no term or event `{key}`; did you mean {}?",
                    names.join(" or ")
                )
            }
        }
    }

    /// Spreads a number over a format's bits, such as `config:0-7,32-35`, lowest bit first.
    fn fill(&mut self, key: &str, format: &str, mut number: u64) -> Result<(), String> {
        let bad = || format!("unsupported format for `{key}`: `{format}`");
        let (word, ranges) = format.split_once(':').ok_or_else(bad)?;
        let word = match word {
            "config" => &mut self.selector.config,
            "config1" => &mut self.selector.config1,
            "config2" => &mut self.selector.config2,
            _ => return Err(bad()),
        };
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
                return Err(bad());
            };
            if first > last || last >= u64::BITS {
                return Err(bad());
            }
            let bits = last - first + 1;
            let mask = u64::MAX >> (u64::BITS - bits);
            *word |= (number & mask) << first;
            number = number.checked_shr(bits).unwrap_or(0);
        }
        match number {
            0 => Ok(()),
            _ => Err(format!("the value of `{key}` does not fit its bit field {format}")),
        }
    }
}

/// Parses a decimal number, or a hexadecimal one with the prefix `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => text.parse().ok(),
    }
}
