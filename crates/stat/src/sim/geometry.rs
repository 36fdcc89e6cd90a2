// SPDX-License-Identifier: MIT OR Apache-2.0
//! The caches to simulate: those of this machine or of a named processor, or any others.
//!
//! # What the simulator can do
//! It has two levels: separate caches for instructions and data, then a unified one. The number of
//! sets must be a power of two, lines must be at least as long as the widest register of the
//! processor that the simulator runs on, and a cache must be smaller than 2 GiB. Other caches are
//! changed as little as possible, and [`Geometry::caches`] reports the changes.

use linerate_counters::suggest;
use linerate_machine::topology::{Cache, CacheKind, Topology};
use linerate_record::stat::{CacheShape, SimulatedCaches};
use std::fmt;

/// A set of caches that the simulator accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    caches: SimulatedCaches,
    last_level: LastLevel,
}

/// Meaning of the simulated last level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastLevel {
    /// Nothing: the processor has only one level, and the simulator's second level is ignored.
    None,
    /// The second level of the processor.
    Second,
    /// A level beyond the second; the levels in between are not simulated.
    Beyond,
}

/// Reasons why caches cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// Neither the name of a processor nor a list of caches.
    Unknown {
        /// The request.
        name: String,
        /// Similar names; if there are none, all names.
        nearest: Vec<String>,
    },
    /// Not a valid cache of the form `size/ways/line`.
    Malformed {
        /// The request.
        text: String,
        /// Description of the error.
        reason: String,
    },
    /// The kernel does not report the caches of this machine.
    Unreported {
        /// The missing part.
        reason: String,
    },
}

/// The shortest line, as long as the widest register that Valgrind knows on this architecture.
/// Valgrind refuses shorter lines, so that no access spans more than two of them.
const LEAST_LINE_BYTES: u32 = if cfg!(target_arch = "x86_64") { 32 } else { 16 };

/// The largest cache: Valgrind stores sizes in signed 32-bit integers.
const MOST_BYTES: u64 = 1 << 30;

/// A processor whose caches are known.
struct Named {
    name: &'static str,
    prose: &'static str,
    i1: CacheShape,
    d1: CacheShape,
    second: Option<CacheShape>,
    note: &'static str,
}

const fn shape(kilobytes: u64, ways: u32, line_bytes: u32) -> CacheShape {
    CacheShape { bytes: kilobytes << 10, ways, line_bytes }
}

/// From the processors' manuals: ARM DDI 0301H (ARM1176JZF-S; the L2 of the BCM2835 serves its
/// graphics processor), DDI 0464F (Cortex-A7), DDI 0500J (Cortex-A53), 100095 (Cortex-A72), each
/// with the sizes of the named chip; MPC7450 RISC Microprocessor Family Reference Manual, chapter
/// 3; OpenSPARC T1 and T2 Microarchitecture Specifications.
static NAMED: [Named; 7] = [
    Named {
        name: "arm1176",
        prose: "ARM1176JZF-S in the BCM2835 (Raspberry Pi)",
        i1: shape(16, 4, 32),
        d1: shape(16, 4, 32),
        second: None,
        note: "a real ARM1176 does not allocate on write",
    },
    Named {
        name: "cortex_a7",
        prose: "Cortex-A7 in the BCM2836 (Raspberry Pi 2)",
        i1: shape(32, 2, 32),
        d1: shape(32, 4, 64),
        second: Some(shape(512, 8, 64)),
        note: "",
    },
    Named {
        name: "cortex_a53",
        prose: "Cortex-A53 in the BCM2837 (Raspberry Pi 3)",
        i1: shape(32, 2, 64),
        d1: shape(32, 4, 64),
        second: Some(shape(512, 16, 64)),
        note: "",
    },
    Named {
        name: "cortex_a72",
        prose: "Cortex-A72 in the BCM2711 (Raspberry Pi 4)",
        i1: shape(48, 3, 64),
        d1: shape(32, 2, 64),
        second: Some(shape(1024, 16, 64)),
        note: "",
    },
    Named {
        name: "g4",
        prose: "MPC7455, a PowerPC G4, without its L3",
        i1: shape(32, 8, 32),
        d1: shape(32, 8, 32),
        second: Some(shape(256, 8, 32)),
        note: "L2 lines have two 32-byte sectors that are filled separately; simulated as 32-byte \
               lines",
    },
    Named {
        name: "ultrasparc_t1",
        prose: "one core of an UltraSPARC T1, with the whole L2",
        i1: shape(16, 4, 32),
        d1: shape(8, 4, 16),
        second: Some(shape(3 << 10, 12, 64)),
        note: "",
    },
    Named {
        name: "ultrasparc_t2",
        prose: "one core of an UltraSPARC T2, with the whole L2",
        i1: shape(16, 8, 32),
        d1: shape(8, 4, 16),
        second: Some(shape(4 << 10, 16, 64)),
        note: "",
    },
];

/// The keyword for this machine's caches.
const THIS: &str = "this";

/// Name of this machine's caches, and the suffix if sizes were measured.
const THIS_MACHINE: &str = "this machine";
const MEASURED: &str = "as measured";

impl Geometry {
    /// The caches of this machine, as reported by the kernel for the first CPU that this program
    /// may use. In a virtual machine these are the values set by the hypervisor.
    ///
    /// # Errors
    /// [`GeometryError::Unreported`].
    pub fn this_machine() -> Result<Self, GeometryError> {
        let unreported = |reason: String| GeometryError::Unreported { reason };
        let cpus = linerate_linux::allowed_cpus().map_err(|error| unreported(error.to_string()))?;
        let topology = Topology::read(&cpus[..cpus.len().min(1)]);
        let cpu = topology.cpus.first().ok_or_else(|| unreported("no processor".to_owned()))?;
        let caches = cpu.caches.as_ref().map_err(|error| unreported(error.to_string()))?;
        Self::from_caches(THIS_MACHINE, caches)
    }

    /// The caches of a processor as reported by the kernel. The unified cache of the highest level
    /// is the last one.
    ///
    /// # Errors
    /// [`GeometryError::Unreported`].
    pub fn from_caches(name: &str, caches: &[Cache]) -> Result<Self, GeometryError> {
        let first = |kind: CacheKind| {
            let fits = |cache: &&Cache| cache.level == 1 && holds(cache.kind, kind);
            caches.iter().find(fits).ok_or_else(|| GeometryError::Unreported {
                reason: format!("the kernel reports no level-1 {kind:?} cache"),
            })
        };
        let (i1, d1) = (first(CacheKind::Instruction)?, first(CacheKind::Data)?);
        let beyond =
            caches.iter().filter(|cache| cache.level > 1 && holds(cache.kind, CacheKind::Data));
        let last = beyond.max_by_key(|cache| cache.level);
        let last_level = match last.map(|cache| cache.level) {
            None => LastLevel::None,
            Some(2) => LastLevel::Second,
            Some(_) => LastLevel::Beyond,
        };
        let ll = last.map(shape_of).transpose()?;
        Self::new(name, [shape_of(i1)?, shape_of(d1)?], ll, last_level, "")
    }

    /// The same caches with other data cache sizes, if given: the sizes that a measurement found
    /// available. Ways and line sizes are kept; `note` names the source of the sizes.
    ///
    /// # Errors
    /// [`GeometryError::Malformed`] if a size is smaller than one set.
    pub fn resized(
        &self,
        d1: Option<u64>,
        ll: Option<u64>,
        note: &str,
    ) -> Result<Self, GeometryError> {
        let SimulatedCaches { name, i1, d1: first, ll: last, .. } = &self.caches;
        let of = |shape: CacheShape, bytes: Option<u64>| CacheShape {
            bytes: bytes.unwrap_or(shape.bytes),
            ..shape
        };
        // An ignored last level is not resized.
        let ll = (self.last_level != LastLevel::None).then(|| of(*last, ll));
        let name = format!("{name}, {MEASURED}");
        Self::new(&name, [*i1, of(*first, d1)], ll, self.last_level, note)
    }

    /// Whether these are the caches of this machine, as reported by the kernel or as measured.
    pub fn is_of_this_machine(caches: &SimulatedCaches) -> bool {
        let rest = caches.name.strip_prefix(THIS_MACHINE);
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(", ") == Some(MEASURED))
    }

    /// The same machine, but with the caches recorded for it earlier.
    pub fn recorded(&self, caches: &SimulatedCaches) -> Self {
        Self { caches: caches.clone(), last_level: self.last_level }
    }

    /// The caches of one of the processors in [`Geometry::names`].
    ///
    /// # Errors
    /// [`GeometryError::Unknown`].
    pub fn named(name: &str) -> Result<Self, GeometryError> {
        let normal = suggest::normal(name);
        let Some(known) = NAMED.iter().find(|known| known.name == normal) else {
            let names = || Self::names().map(|(name, _)| name);
            let mut nearest = suggest::nearest(name, names());
            if nearest.is_empty() {
                nearest = names().map(str::to_owned).collect();
            }
            return Err(GeometryError::Unknown { name: name.to_owned(), nearest });
        };
        let last_level = known.second.map_or(LastLevel::None, |_| LastLevel::Second);
        Self::new(known.name, [known.i1, known.d1], known.second, last_level, known.note)
    }

    /// Parses user input: `this`, a name, or caches as `i1=32K/8/64,d1=32K/8/64,ll=8M/16/64`
    /// (size / ways / bytes per line; `ll` is optional).
    ///
    /// # Errors
    /// As [`Geometry::this_machine`] and [`Geometry::named`]; [`GeometryError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, GeometryError> {
        match text {
            THIS => Self::this_machine(),
            _ if text.contains('=') => Self::listed(text),
            _ => Self::named(text),
        }
    }

    fn listed(text: &str) -> Result<Self, GeometryError> {
        let malformed = |reason: String| GeometryError::Malformed { text: text.to_owned(), reason };
        let (mut i1, mut d1, mut ll) = (None, None, None);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                malformed(format!(
                    "invalid cache `{part}`, expected \
                     `cache=size/ways/line`"
                ))
            })?;
            let slot = match key {
                "i1" => &mut i1,
                "d1" => &mut d1,
                "ll" => &mut ll,
                _ => {
                    return Err(malformed(format!("unknown cache `{key}`, expected i1, d1 or ll")));
                }
            };
            if slot.replace(parse_shape(value).map_err(malformed)?).is_some() {
                return Err(malformed(format!("duplicate cache `{key}`")));
            }
        }
        let (Some(i1), Some(d1)) = (i1, d1) else {
            return Err(malformed("i1 and d1 are required".to_owned()));
        };
        // There may be levels between the first and the last that are not reported.
        let last_level = ll.map_or(LastLevel::None, |_| LastLevel::Beyond);
        Self::new("as given", [i1, d1], ll, last_level, "")
    }

    /// The processors that [`Geometry::named`] knows, each with a description.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        NAMED.iter().map(|known| (known.name, known.prose))
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
                let stand_in = "there is no cache beyond L1; the simulator's last level is not \
                                shown";
                notes.push(stand_in.to_owned());
                d1
            }
        };
        if !note.is_empty() {
            notes.push(note.to_owned());
        }
        let note = notes.join("; ");
        Ok(Self { caches: SimulatedCaches { name: name.to_owned(), i1, d1, ll, note }, last_level })
    }

    /// The caches as simulated, with the changes that were made.
    pub fn caches(&self) -> &SimulatedCaches {
        &self.caches
    }

    /// Meaning of the last level.
    pub fn last_level(&self) -> LastLevel {
        self.last_level
    }

    /// The caches as Valgrind options.
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

fn parse_shape(text: &str) -> Result<CacheShape, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let &[size, ways, line] = parts.as_slice() else {
        return Err(format!("invalid geometry `{text}`, expected size/ways/line, e.g. 32K/8/64"));
    };
    let whole = |text: &str| text.parse::<u32>().map_err(|_| format!("invalid number `{text}`"));
    Ok(CacheShape { bytes: parse_size(size)?, ways: whole(ways)?, line_bytes: whole(line)? })
}

fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    let size = digits.parse::<u64>().ok().and_then(|size| size.checked_mul(1 << shift));
    size.ok_or_else(|| format!("invalid size `{text}`, expected e.g. 32768 or 32K"))
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

/// The nearest shape that the simulator accepts.
///
/// 1. A line shorter than the minimum is lengthened; the cache size is kept.
/// 2. If the number of sets is not a power of two (caches with 11 or 20 slices), the next lower
///    power is used, with more ways to keep the size: capacity affects misses more than placement.
/// 3. A cache larger than the maximum is reduced to fewer sets.
fn fitting(shape: CacheShape) -> Result<CacheShape, String> {
    let CacheShape { bytes, ways, line_bytes } = shape;
    if ways == 0 || !line_bytes.is_power_of_two() {
        return Err("ways must be above 0, and the line size a power of two".to_owned());
    }
    let line_bytes = line_bytes.max(LEAST_LINE_BYTES);
    let lines = bytes.min(MOST_BYTES) / u64::from(line_bytes);
    if lines < u64::from(ways) {
        return Err(format!("a set of {ways} lines of {line_bytes} bytes exceeds the cache size"));
    }
    let sets = 1 << (lines / u64::from(ways)).ilog2();
    // At least the given `ways` and less than twice that, because `sets` is more than half of the
    // quotient.
    let ways = lines / sets;
    let bytes = sets * ways * u64::from(line_bytes);
    Ok(CacheShape { bytes, ways: ways as u32, line_bytes })
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, nearest } => write!(
                f,
                "unknown caches `{name}`; choose {}, `{THIS}`, or list them: \
                 i1=32K/8/64,d1=32K/8/64,ll=8M/16/64",
                nearest.join(", ")
            ),
            Self::Malformed { text, reason } => {
                write!(f, "caches `{text}`: {reason}; e.g. i1=32K/8/64,d1=32K/8/64,ll=8M/16/64")
            }
            Self::Unreported { reason } => write!(
                f,
                "cannot determine the caches of this machine: {reason}; set them, e.g. with \
                 --caches cortex_a53 or --caches i1=32K/8/64,d1=32K/8/64,ll=8M/16/64"
            ),
        }
    }
}

impl std::error::Error for GeometryError {}

#[cfg(test)]
mod tests;
