// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caches to simulate: this machine's, a named processor's, or any others.
//!
//! # Two models
//! A geometry contains the full model (`sim::model`), which QEMU's plug-in simulates, and the part
//! of it that Valgrind simulates.
//!
//! # Restrictions of Valgrind
//! Valgrind simulates two levels: separate caches for instructions and data, and a unified cache
//! below them. The number of sets must be a power of two, lines must be at least as long as the
//! host processor's widest register, and a cache must be smaller than 2 GiB. Caches that do not fit
//! are changed as little as possible, and [`Geometry::caches`] reports the changes.

pub use super::model::LastLevel;
use super::model::Model;
use super::named::{NAMED, Named};
use linerate_counters::suggest;
use linerate_machine::topology::{Cache, CacheKind, Topology};
use linerate_record::stat::{CacheShape, SimulatedCaches};
use std::fmt;

/// A cache hierarchy, and the part of it that Valgrind's two-level model can represent.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    caches: SimulatedCaches,
    last_level: LastLevel,
    model: Model,
}

/// Why caches cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// The text is neither a processor name nor a list of caches.
    Unknown {
        /// The text, as given.
        name: String,
        /// Similar processor names; all names if none is similar.
        nearest: Vec<String>,
    },
    /// A cache specification is not of the form `size/ways/line`.
    Malformed {
        /// The cache specification, as given.
        text: String,
        /// What is wrong with the specification.
        reason: String,
    },
    /// The kernel does not report this machine's caches.
    Unreported {
        /// The cache that is not reported.
        reason: String,
    },
}

/// Minimum line length in bytes: the widest register that Valgrind knows on this architecture.
/// Valgrind rejects shorter lines, so that no access spans more than two lines.
const LEAST_LINE_BYTES: u32 = if cfg!(target_arch = "x86_64") { 32 } else { 16 };

/// Maximum cache size in bytes; Valgrind stores sizes in signed 32-bit integers.
const MOST_BYTES: u64 = 1 << 30;

/// Keyword that selects this machine's caches.
const THIS: &str = "this";

/// Name for this machine's caches.
const THIS_MACHINE: &str = "this machine";
/// Suffix of [`THIS_MACHINE`] if the sizes were measured.
const MEASURED: &str = "as measured";

impl Geometry {
    /// Returns this machine's caches, as reported by the kernel for the first CPU that this program
    /// may use. In a virtual machine these are the values set by the hypervisor.
    ///
    /// # Errors
    /// Returns [`GeometryError::Unreported`].
    pub fn this_machine() -> Result<Self, GeometryError> {
        let unreported = |reason: String| GeometryError::Unreported { reason };
        let cpus = linerate_linux::allowed_cpus().map_err(|error| unreported(error.to_string()))?;
        let topology = Topology::read(&cpus[..cpus.len().min(1)]);
        let cpu = topology.cpus.first().ok_or_else(|| unreported("no processor".to_owned()))?;
        let caches = cpu.caches.as_ref().map_err(|error| unreported(error.to_string()))?;
        Self::from_caches(THIS_MACHINE, caches)
    }

    /// Returns a processor's caches as reported by the kernel. The unified cache at the highest
    /// level is the last one.
    ///
    /// # Errors
    /// Returns [`GeometryError::Unreported`].
    pub fn from_caches(name: &str, caches: &[Cache]) -> Result<Self, GeometryError> {
        let first = |kind: CacheKind| {
            let fits = |cache: &&Cache| cache.level == 1 && holds(cache.kind, kind);
            caches.iter().find(fits).ok_or_else(|| GeometryError::Unreported {
                reason: format!(
                    "the kernel reports no level-1 {} cache",
                    format!("{kind:?}").to_lowercase()
                ),
            })
        };
        let (i1, d1) = (first(CacheKind::Instruction)?, first(CacheKind::Data)?);
        let mut beyond: Vec<&Cache> = caches
            .iter()
            .filter(|cache| cache.level > 1 && holds(cache.kind, CacheKind::Data))
            .collect();
        beyond.sort_by_key(|cache| cache.level);
        // The model has two levels beyond L1: the second one and the last.
        let has_gap = beyond.first().is_some_and(|second| second.level > 2);
        if beyond.len() > 2 {
            beyond.drain(1..beyond.len() - 1);
        }
        let shapes: Result<Vec<_>, _> = [i1, d1].into_iter().chain(beyond).map(shape_of).collect();
        Self::from_model(Model::plain(name, &shapes?, has_gap), "")
    }

    /// Derives the part of a model that Valgrind simulates. `note` states how this part differs
    /// from the processor, in addition to the model's own note.
    fn from_model(model: Model, note: &str) -> Result<Self, GeometryError> {
        let (i1, d1, ll) = model.shapes();
        let notes: Vec<&str> = [&model.note, note].into_iter().filter(|n| !n.is_empty()).collect();
        let geometry = Self::new(&model.name, [i1, d1], ll, model.last_level(), &notes.join("; "))?;
        Ok(Self { model, ..geometry })
    }

    /// Returns the same caches with the given data cache sizes, for example sizes that were
    /// measured. A size of `None` is left unchanged, as are ways and line sizes; `note` says where
    /// the sizes come from.
    ///
    /// # Errors
    /// Returns [`GeometryError::Malformed`] if a size is smaller than one set.
    pub fn resized(
        &self,
        d1: Option<u64>,
        ll: Option<u64>,
        note: &str,
    ) -> Result<Self, GeometryError> {
        let mut model = self.model.clone();
        model.resize(d1, ll);
        model.name = format!("{}, {MEASURED}", self.caches.name);
        note.clone_into(&mut model.note);
        Self::from_model(model, "")
    }

    /// Returns whether these are this machine's caches, as reported by the kernel or as measured.
    pub fn is_of_this_machine(caches: &SimulatedCaches) -> bool {
        let rest = caches.name.strip_prefix(THIS_MACHINE);
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(", ") == Some(MEASURED))
    }

    /// Returns this machine's geometry with the simulated caches from one of its earlier records.
    pub fn recorded(&self, caches: &SimulatedCaches) -> Self {
        let model = Model::recorded(caches).unwrap_or_else(|| self.model.clone());
        let caches = SimulatedCaches { machine: None, ..caches.clone() };
        Self { caches, last_level: self.last_level, model }
    }

    /// Returns the caches of one of the processors in [`Geometry::names`].
    ///
    /// # Errors
    /// Returns [`GeometryError::Unknown`].
    pub fn named(name: &str) -> Result<Self, GeometryError> {
        let normal = suggest::normal(name);
        let is_called = |known: &&Named| known.name == normal || known.alias == Some(&normal);
        let Some(known) = NAMED.iter().find(is_called) else {
            let names = || Self::names().map(|(name, _)| name);
            let mut nearest = suggest::nearest(name, names());
            if nearest.is_empty() {
                nearest = names().map(str::to_owned).collect();
            }
            return Err(GeometryError::Unknown { name: name.to_owned(), nearest });
        };
        Self::from_model(Model::named(known), known.simple_note)
    }

    /// Parses user input: `this`, a name, caches as `i1=32K/8/64,d1=32K/8/64,ll=8M/16/64` (size /
    /// ways / bytes per line; `l2`, `l3` and `ll` are optional; together with `l2`, `ll` is the
    /// level behind it), or a name followed by such items, which replace those of the processor.
    /// TLBs are `dtlb=64/4` (entries / ways), pages `page=4K`.
    ///
    /// # Errors
    /// As for [`Geometry::this_machine`] and [`Geometry::named`]; also
    /// [`GeometryError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, GeometryError> {
        let (name, items) = text.split_once(',').unwrap_or((text, ""));
        match name {
            _ if name.contains('=') => Self::listed(text),
            THIS => Self::this_machine()?.with(items),
            _ => Self::named(name)?.with(items),
        }
    }

    /// Returns this geometry with the caches, TLBs and pages in `items` replaced. The syntax is
    /// that of [`Geometry::parse`]; an empty string changes nothing.
    ///
    /// # Errors
    /// Returns [`GeometryError::Malformed`].
    pub fn with(self, items: &str) -> Result<Self, GeometryError> {
        if items.is_empty() {
            return Ok(self);
        }
        let mut model = self.model;
        take(&mut model, items)?;
        model.name = format!("{} with {items}", model.name);
        Self::from_model(model, "")
    }

    fn listed(text: &str) -> Result<Self, GeometryError> {
        let malformed = |reason: &str| GeometryError::Malformed {
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        let none = CacheShape { bytes: 0, ways: 0, line_bytes: 0 };
        let mut model = Model::plain("as given", &[none, none], false);
        take(&mut model, text)?;
        let (i1, d1, _) = model.shapes();
        if i1 == none || d1 == none {
            return Err(malformed("i1 and d1 are required"));
        }
        Self::from_model(model, "")
    }

    /// Returns the processors known to [`Geometry::named`], each with a description.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        NAMED.iter().map(|known| (known.alias.unwrap_or(known.name), known.prose))
    }

    fn new(
        name: &str,
        [i1, d1]: [CacheShape; 2],
        ll: Option<CacheShape>,
        last_level: LastLevel,
        note: &str,
    ) -> Result<Self, GeometryError> {
        let mut notes: Vec<String> = Vec::new();
        let mut fit = |what: &str, shape: CacheShape| {
            let fitted = fitting(shape).map_err(|reason| GeometryError::Malformed {
                text: format!("{what}={}", print(shape)),
                reason,
            })?;
            if fitted != shape {
                notes.push(format!("{what} is {}, simulated as {}", print(shape), print(fitted)));
            }
            Ok(fitted)
        };
        let (i1, d1) = (fit("i1", i1)?, fit("d1", d1)?);
        let ll = match ll {
            Some(ll) => fit("ll", ll)?,
            // The simulator requires a last level.
            None => {
                let stand_in = "there is no cache level beyond L1; the simulator requires one, so \
                                a copy of L1 is simulated, but its counts are not shown";
                notes.push(stand_in.to_owned());
                d1
            }
        };
        if !note.is_empty() {
            notes.push(note.to_owned());
        }
        let note = notes.join("; ");
        let model = Model::plain(name, &[i1, d1], false);
        let caches = SimulatedCaches { name: name.to_owned(), i1, d1, ll, note, machine: None };
        Ok(Self { caches, last_level, model })
    }

    /// Returns the cache geometry that Valgrind simulates, after adjustment to its restrictions.
    pub fn caches(&self) -> &SimulatedCaches {
        &self.caches
    }

    /// Returns the whole model.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the level that the last simulated cache represents.
    pub fn last_level(&self) -> LastLevel {
        self.last_level
    }

    /// Returns the caches as Valgrind options.
    pub(super) fn options(&self) -> [String; 3] {
        let option = |name: &str, shape: CacheShape| {
            format!("--{name}={},{},{}", shape.bytes, shape.ways, shape.line_bytes)
        };
        let SimulatedCaches { i1, d1, ll, .. } = self.caches;
        [option("I1", i1), option("D1", d1), option("LL", ll)]
    }
}

fn holds(kind: CacheKind, wanted: CacheKind) -> bool {
    kind == wanted || kind == CacheKind::Unified
}

fn shape_of(cache: &Cache) -> Result<CacheShape, GeometryError> {
    let unreported =
        |error: &linerate_machine::Error| GeometryError::Unreported { reason: error.to_string() };
    let line = *cache.line_bytes.as_ref().map_err(unreported)?;
    Ok(CacheShape {
        bytes: *cache.bytes.as_ref().map_err(unreported)?,
        ways: *cache.ways.as_ref().map_err(unreported)?,
        line_bytes: u32::try_from(line).map_err(|_| GeometryError::Unreported {
            reason: format!("invalid line size of {line} bytes"),
        })?,
    })
}

/// Applies comma-separated `key=value` items to a model.
fn take(model: &mut Model, items: &str) -> Result<(), GeometryError> {
    let malformed = |reason: String| GeometryError::Malformed { text: items.to_owned(), reason };
    let mut list: Vec<(&str, &str)> = Vec::new();
    for part in items.split(',') {
        let Some(item) = part.split_once('=') else {
            let reason = format!("invalid cache `{part}`, expected `cache=size/ways/line`");
            return Err(malformed(reason));
        };
        if list.iter().any(|(key, _)| *key == item.0) {
            return Err(malformed(format!("duplicate cache `{}`", item.0)));
        }
        list.push(item);
    }
    let place = |wanted: &str| list.iter().position(|(key, _)| *key == wanted);
    match (place("ll"), place("l2"), place("l3")) {
        (Some(_), _, Some(_)) => {
            return Err(malformed("`l3` and `ll` are the same level".to_owned()));
        }
        // Alone, `ll` replaces the last level there is, which must not be the one in this list.
        (Some(last), Some(_), None) => {
            let (_, value) = list.remove(last);
            list.push(("l3", value));
        }
        _ => {}
    }
    for (key, value) in list {
        if !model.set(key, value).map_err(malformed)? {
            return Err(malformed(format!(
                "unknown cache `{key}`, expected i1, d1, l2, l3, ll, itlb, dtlb, tlb2 or page"
            )));
        }
    }
    Ok(())
}

fn print(shape: CacheShape) -> String {
    let size = match shape.bytes {
        0 => "0".to_owned(),
        bytes if bytes % (1 << 20) == 0 => format!("{}M", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{}K", bytes >> 10),
        bytes => bytes.to_string(),
    };
    format!("{size}/{}/{}", shape.ways, shape.line_bytes)
}

/// Returns the nearest shape that the simulator accepts.
///
/// 1. A line shorter than the minimum is lengthened; the cache size is kept.
/// 2. If the number of sets is not a power of two (caches with 11 or 20 slices), the next lower
///    power is used, with more ways to keep the size: capacity affects misses more than placement.
/// 3. A cache larger than the maximum is reduced to fewer sets.
fn fitting(shape: CacheShape) -> Result<CacheShape, String> {
    let CacheShape { bytes, ways, line_bytes } = shape;
    if ways == 0 || !line_bytes.is_power_of_two() {
        return Err("ways must be above 0, and the line size must be a power of two".to_owned());
    }
    let line_bytes = line_bytes.max(LEAST_LINE_BYTES);
    let lines = bytes.min(MOST_BYTES) / u64::from(line_bytes);
    if lines < u64::from(ways) {
        return Err(format!("a set of {ways} lines of {line_bytes} bytes exceeds the cache size"));
    }
    let sets = 1 << (lines / u64::from(ways)).ilog2();
    // Between `ways` and twice that, because `sets` is more than half of the quotient.
    let ways = lines / sets;
    let bytes = sets * ways * u64::from(line_bytes);
    Ok(CacheShape { bytes, ways: ways as u32, line_bytes })
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, nearest } => write!(
                f,
                "unknown caches `{name}`; choose {}, `os`, `profile`, or list them: \
                 i1=32K/8/64,d1=32K/8/64,ll=8M/16/64",
                nearest.join(", ")
            ),
            Self::Malformed { text, reason } => {
                write!(f, "caches `{text}`: {reason}; e.g. i1=32K/8/64,d1=32K/8/64,ll=8M/16/64")
            }
            Self::Unreported { reason } => write!(
                f,
                "cannot determine this machine's caches: {reason}; set them, e.g. with --caches \
                 cortex_a53 or --caches i1=32K/8/64,d1=32K/8/64,ll=8M/16/64"
            ),
        }
    }
}

impl std::error::Error for GeometryError {}

#[cfg(test)]
mod tests;
