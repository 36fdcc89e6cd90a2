// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the event tables, and checks that every portable name has an event or a reason why there
//! is none, and that every native name is unique.

use super::{Data, check_prose, normal, parse};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamesFile {
    name: Vec<Name>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    name: String,
    prose: String,
    /// Portable event to use if a table has no event with this name.
    like: Option<String>,
    #[serde(default)]
    aliases: Vec<String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    title: String,
    /// Where the event codes come from.
    manual: String,
    /// Base table, whose events this table extends or overrides.
    base: Option<String>,
    /// Native names in the base table that this processor lacks.
    #[serde(default)]
    without: Vec<String>,
    /// Name prefixes of PMUs whose sysfs files list their events.
    #[serde(default)]
    units: Vec<String>,
    /// Native names of the events that emulators of these processors count. If omitted, all events
    /// are assumed to work on emulators too.
    emulated: Option<Vec<String>>,
    #[serde(default)]
    processor: Vec<Processor>,
    /// Vendors whose processors use this table if they have none of their own. Its events are valid
    /// on those processors, but the list may be incomplete.
    #[serde(default)]
    fallback: Vec<Fallback>,
    event: Vec<Event>,
    #[serde(default)]
    absent: BTreeMap<String, String>,
}

#[derive(Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Processor {
    X86 { vendor: String, family: u32, models: Vec<Models> },
    Arm { implementer: u32, parts: Vec<u32> },
    Power { pvr_versions: Vec<u32> },
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Models {
    One(u32),
    Range(u32, u32),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fallback {
    vendor: String,
}

/// An event, defined by exactly one of `code`, `event`, `hardware`, `cache` and `software`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    /// Portable names.
    #[serde(default)]
    names: Vec<String>,
    native: String,
    code: Option<u64>,
    /// Codes for the same event on other counters, for users who choose the counter themselves.
    #[serde(default)]
    also: Vec<u64>,
    /// Where the event code comes from, in tables that name the source of each event.
    #[serde(default)]
    sources: Vec<String>,
    /// PMU register event number, if it differs from Linux's number (`code`).
    register: Option<u64>,
    event: Option<u64>,
    umask: Option<u64>,
    hardware: Option<u64>,
    cache: Option<(String, String, String)>,
    software: Option<u64>,
    unit: Option<String>,
    /// What the event counts on this processor; defaults to the description of the first portable
    /// name.
    prose: Option<String>,
    #[serde(default)]
    aliases: Vec<String>,
    /// Whether the event occurs only in the kernel, never in user mode.
    #[serde(default)]
    kernel_only: bool,
}

/// Returns all portable event names, and the event tables as Rust source.
pub(super) fn tables(data: &Data) -> Result<(BTreeSet<String>, String), String> {
    let names = Names::read(&data.names)?;
    let mut files = BTreeMap::new();
    for (table, text) in &data.events {
        files.insert(table.as_str(), parse(&place(table), text)?);
    }
    let mut all: BTreeSet<String> = names.list.iter().map(|name| name.name.clone()).collect();
    let mut source = String::new();
    let mut tables = String::new();
    let mut aliases: Vec<(String, String)> = Vec::new();
    for (&table, file) in &files {
        let merged = merge(table, &files, 0)?;
        if table == "software" {
            all.extend(merged.event.iter().flat_map(|event| event.names.iter().cloned()));
            aliases.extend(own_aliases(&merged));
            source += &format!(
                "static SOFTWARE_TABLE: Table = {};\n",
                names.table(table, &merged, false)?
            );
        } else if table == "generic" {
            source += &format!("static GENERIC: Table = {};\n", names.table(table, &merged, true)?);
        } else {
            check_processors(table, file)?;
            tables += &format!("{},\n", names.table(table, &merged, true)?);
        }
    }
    aliases.extend(names.aliases());
    source += &format!("static PROCESSORS: &[Table] = &[\n{tables}];\n");
    source += &format!("static ALIASES: &[(&str, &str)] = &{aliases:?};\n");
    source += &format!("static PORTABLE: &[(&str, &str)] = &{:?};\n", names.pairs());
    Ok((all, source))
}

fn place(table: &str) -> String {
    format!("data/events/{table}.toml")
}

fn check_processors(table: &str, file: &TableFile) -> Result<(), String> {
    let place = place(table);
    for processor in &file.processor {
        let Processor::X86 { models, .. } = processor else { continue };
        for models in models {
            match *models {
                Models::Range(first, last) if first > last => {
                    return Err(format!("{place}: models: invalid range [{first:#x}, {last:#x}]"));
                }
                _ => {}
            }
        }
    }
    match file.processor.is_empty() {
        true => Err(format!("{place}: no `[[processor]]` uses this table")),
        false => Ok(()),
    }
}

/// Returns the events that emulators count, as Rust source.
fn emulated(table: &str, file: &TableFile) -> Result<String, String> {
    let Some(natives) = &file.emulated else { return Ok("None".to_owned()) };
    let is_there = |native: &String| file.event.iter().any(|event| event.native == *native);
    if let Some(native) = natives.iter().find(|native| !is_there(native)) {
        return Err(format!("{}: emulated: no event is named `{native}`", place(table)));
    }
    let ids: Vec<_> = natives.iter().map(|native| normal(native)).collect();
    Ok(format!("Some(&{ids:?})"))
}

fn own_aliases(file: &TableFile) -> Vec<(String, String)> {
    let of = |event: &Event| -> Vec<(String, String)> {
        let name = event.names.first().cloned().unwrap_or_default();
        event.aliases.iter().map(|alias| (normal(alias), name.clone())).collect()
    };
    file.event.iter().flat_map(of).collect()
}

/// Merges a table with its base. The table inherits the events whose native names it neither
/// defines nor excludes. An inherited event loses the portable names that the table itself defines.
fn merge(
    table: &str,
    files: &BTreeMap<&str, TableFile>,
    depth: usize,
) -> Result<TableFile, String> {
    let mut file = files[table].clone();
    let Some(base) = file.base.clone() else { return Ok(file) };
    if depth == files.len() || !files.contains_key(base.as_str()) {
        return Err(format!("{}: base: `{base}` is not a table, or is its own base", place(table)));
    }
    let base = merge(&base, files, depth + 1)?;
    let natives: BTreeSet<String> = file.event.iter().map(|event| normal(&event.native)).collect();
    for name in &file.without {
        if !base.event.iter().any(|event| event.native == *name) || natives.contains(&normal(name))
        {
            return Err(format!("{}: without: the base has no event `{name}`", place(table)));
        }
    }
    let own: BTreeSet<String> = file.event.iter().flat_map(|event| event.names.clone()).collect();
    for mut event in base.event {
        if natives.contains(&normal(&event.native)) || file.without.contains(&event.native) {
            continue;
        }
        event.names.retain(|name| !own.contains(name) && !file.absent.contains_key(name));
        file.event.push(event);
    }
    for (name, reason) in base.absent {
        if !own.contains(&name) {
            file.absent.entry(name).or_insert(reason);
        }
    }
    Ok(file)
}

/// Portable names of hardware events.
struct Names {
    list: Vec<Name>,
}

impl Names {
    fn read(text: &str) -> Result<Self, String> {
        let file: NamesFile = parse("data/names.toml", text)?;
        let mut seen = BTreeSet::new();
        for Name { name, prose, like, aliases } in &file.name {
            check_prose(&format!("data/names.toml: {name}"), prose)?;
            for name in aliases.iter().chain([name]) {
                if !seen.insert(normal(name)) {
                    return Err(format!("data/names.toml: duplicate name `{name}`"));
                }
            }
            if let Some(like) =
                like.as_ref().filter(|like| !file.name.iter().any(|n| n.name == **like))
            {
                return Err(format!("data/names.toml: {name}: like: no event is named `{like}`"));
            }
        }
        Ok(Self { list: file.name })
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.list.iter().map(|name| (name.name.as_str(), name.prose.as_str())).collect()
    }

    fn aliases(&self) -> Vec<(String, String)> {
        let of = |name: &Name| -> Vec<(String, String)> {
            name.aliases.iter().map(|alias| (normal(alias), name.name.clone())).collect()
        };
        self.list.iter().flat_map(of).collect()
    }

    fn prose(&self, name: &str) -> Option<&str> {
        self.list.iter().find(|known| known.name == name).map(|known| known.prose.as_str())
    }

    /// Returns a table as Rust source, checked to be complete and consistent.
    fn table(&self, table: &str, file: &TableFile, is_hardware: bool) -> Result<String, String> {
        let mut file = file.clone();
        if is_hardware {
            self.check_hardware(table, &mut file)?;
        }
        self.check_natives(table, &file)?;
        check_codes(table, &file)?;
        let mut rows = String::new();
        for event in &file.event {
            rows += &self.row(table, event)?;
        }
        let TableFile { title, manual, units, absent, .. } = &file;
        let emulated = emulated(table, &file)?;
        let absent: Vec<_> = absent.iter().collect();
        let fallback: Vec<_> = file.fallback.iter().map(|fallback| &fallback.vendor).collect();
        let processors: String = file.processor.iter().map(processor).collect();
        Ok(format!(
            "Table {{ name: {table:?}, title: {title:?}, manual: {manual:?}, units: &{units:?}, \
             emulated: {emulated}, fallback: &{fallback:?}, processors: &[{processors}], \
             absent: &{absent:?}, rows: &[\n{rows}] }}"
        ))
    }

    /// Checks that every portable name has an event or a reason why there is none.
    fn check_hardware(&self, table: &str, file: &mut TableFile) -> Result<(), String> {
        let place = place(table);
        let known = |name: &str| self.list.iter().any(|known| known.name == name);
        for name in file.event.iter().flat_map(|event| &event.names).chain(file.absent.keys()) {
            if !known(name) {
                return Err(format!("{place}: `{name}` is not a portable name (data/names.toml)"));
            }
        }
        for Name { name, like, .. } in &self.list {
            let count =
                |name: &String| file.event.iter().filter(|e| e.names.contains(name)).count();
            match (count(name), file.absent.contains_key(name)) {
                (0, true) | (1, false) => continue,
                (2.., false) if !file.units.is_empty() => continue,
                (0, false) => {}
                (_, true) => {
                    return Err(format!("{place}: `{name}` has an event, but is in [absent]"));
                }
                (_, false) => return Err(format!("{place}: `{name}` is used for several events")),
            }
            let missing = || format!("{place}: `{name}` has no event and no reason in [absent]");
            let like = like.as_ref().ok_or_else(missing)?;
            match file.absent.get(like).cloned() {
                Some(reason) => drop(file.absent.insert(name.clone(), reason)),
                None => file
                    .event
                    .iter_mut()
                    .filter(|event| event.names.contains(like))
                    .for_each(|event| event.names.push(name.clone())),
            }
        }
        Ok(())
    }

    /// Checks that each native name belongs to only one event, and is not the portable name of
    /// another event.
    fn check_natives(&self, table: &str, file: &TableFile) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for event in &file.event {
            let native = normal(&event.native);
            let clashes = self.prose(&native).is_some() && !event.names.contains(&native);
            if clashes || !seen.insert(native) {
                let native = &event.native;
                return Err(format!("{}: `{native}` is the name of another event", place(table)));
            }
        }
        Ok(())
    }

    fn row(&self, table: &str, event: &Event) -> Result<String, String> {
        let place = format!("{}: {}", place(table), event.native);
        let inherited = event.names.first().and_then(|name| self.prose(name));
        let prose = event.prose.as_deref().or(inherited).unwrap_or("");
        check_prose(&place, prose)?;
        let (kind, config, shown) = selector(&place, event)?;
        if event.register.is_some() && event.code.is_none() {
            return Err(format!("{place}: register: requires a `code` with a different value"));
        }
        let class = if event.software.is_some() { "Software" } else { "Hardware" };
        let unit = event.unit.as_deref().unwrap_or("events");
        let (names, id, kernel_only) = (&event.names, normal(&event.native), event.kernel_only);
        Ok(format!(
            "Row {{ names: &{names:?}, id: {id:?}, native: {shown:?}, unit: {unit:?}, class: \
             Class::{class}, selector: Selector::new({kind}, {config:#x}), prose: {prose:?}, \
             kernel_only: {kernel_only} }},\n"
        ))
    }
}

/// Checks that no two events have the same code, and that every event names its sources if any
/// event does.
fn check_codes(table: &str, file: &TableFile) -> Result<(), String> {
    let place = place(table);
    let mut seen = BTreeMap::new();
    let has_sources = file.event.iter().any(|event| !event.sources.is_empty());
    for event in &file.event {
        let native = &event.native;
        if event.code.is_none() && !event.also.is_empty() {
            return Err(format!("{place}: {native}: also: requires `code`"));
        }
        if has_sources && event.sources.is_empty() {
            return Err(format!(
                "{place}: {native}: sources: missing, although other events in the \
                                file have sources"
            ));
        }
        for code in event.code.iter().chain(&event.also) {
            if let Some(other) = seen.insert(*code, native) {
                return Err(format!("{place}: {native} and {other} have the same code {code:#x}"));
            }
        }
    }
    Ok(())
}

fn processor(processor: &Processor) -> String {
    match processor {
        Processor::X86 { vendor, family, models } => {
            let range = |models: &Models| match *models {
                Models::One(model) => (model, model),
                Models::Range(first, last) => (first, last),
            };
            let models: Vec<_> = models.iter().map(range).collect();
            format!(
                "Processor::X86 {{ vendor: {vendor:?}, family: {family}, models: &{models:?} }},"
            )
        }
        Processor::Arm { implementer, parts } => {
            format!("Processor::Arm {{ implementer: {implementer}, parts: &{parts:?} }},")
        }
        Processor::Power { pvr_versions } => {
            format!("Processor::Power {{ versions: &{pvr_versions:?} }},")
        }
    }
}

/// Returns an event's type as in `perf`, its config word, and its native name for display.
///
/// On x86, the event number is in bits 0 to 7 and 32 to 35 of the config word, and the unit mask in
/// bits 8 to 15 (PERFEVTSEL of AMD APM volume 2, section 13.2.1; Intel's register has no bits 32 to
/// 35, and Intel's events do not need them).
fn selector(place: &str, event: &Event) -> Result<(&'static str, u64, String), String> {
    let native = &event.native;
    let Event { code, event: number, umask, hardware, cache, software, .. } = event;
    let found = match (code, number, hardware, cache, software) {
        (Some(code), None, None, None, None) => ("RAW", *code, format!("{native} ({code:#04x})")),
        (None, Some(number), None, None, None) if *number < 1 << 12 => {
            let umask = umask.unwrap_or(0);
            let config = number & 0xff | umask << 8 | number >> 8 << 32;
            let mask = if umask == 0 { String::new() } else { format!(", umask {umask:#04x}") };
            ("RAW", config, format!("{native} (event {number:#04x}{mask})"))
        }
        (None, None, Some(number), None, None) => ("HARDWARE", *number, native.clone()),
        (None, None, None, Some(cache), None) => {
            ("HW_CACHE", cache_config(place, cache)?, native.clone())
        }
        (None, None, None, None, Some(number)) => ("SOFTWARE", *number, native.clone()),
        _ => {
            return Err(format!(
                "{place}: expected exactly one of code, event, hardware, cache, software"
            ));
        }
    };
    match umask {
        Some(0x100..) => Err(format!("{place}: umask must fit in a byte")),
        Some(_) if number.is_none() => Err(format!("{place}: umask requires event")),
        _ => Ok(found),
    }
}

/// Returns the config word of a `PERF_COUNT_HW_CACHE_*` event: cache, operation and result, one
/// byte each (perf_event_open(2)).
fn cache_config(place: &str, words: &(String, String, String)) -> Result<u64, String> {
    let find = |word: &str, words: &[&str]| {
        let place = format!("{place}: cache: `{word}` is not one of {}", words.join(", "));
        words.iter().position(|known| *known == word).map(|at| at as u64).ok_or(place)
    };
    let cache = find(&words.0, &["l1d", "l1i", "ll", "dtlb", "itlb", "branch", "node"])?;
    let operation = find(&words.1, &["read", "write", "prefetch"])?;
    let result = find(&words.2, &["access", "miss"])?;
    Ok(cache | operation << 8 | result << 16)
}
