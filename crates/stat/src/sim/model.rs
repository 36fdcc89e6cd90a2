// SPDX-License-Identifier: MIT OR Apache-2.0
//! The full model of a processor, as simulated by QEMU's plug-in: all cache levels and TLBs, with
//! their rules for replacement and writes. Parses a model from user input, and converts it to
//! arguments of the plug-in and to its form in a record.

use super::named::{Level, Named, Tlb};
use linerate_record::stat::{
    CacheShape, Contents, Replacement, SimulatedCaches, SimulatedLevel, SimulatedMachine,
    SimulatedTlb, Writes,
};
use linerate_record::units::parse_memory_size;

/// Level of the real processor that the simulated last level represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastLevel {
    /// None: the processor has only one level, and the simulator's second level is ignored.
    None,
    /// The second level.
    Second,
    /// The third or a later level; the levels between the first and this level are not simulated.
    Beyond,
}

/// A processor's model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    pub(super) name: String,
    /// Cache levels, TLBs and page size; the emulator is filled in by [`Model::caches`].
    machine: SimulatedMachine,
    /// An emulator that supports this processor, and its name for the processor.
    processor: Option<(&'static str, &'static str)>,
    pub(super) note: String,
    /// Whether levels between L1 and the last level are left out.
    has_gap: bool,
}

/// Names of cache levels, nearest to the core first.
const LEVELS: [&str; 4] = ["L1I", "L1D", "L2", "L3"];

/// Smallest page size of most processors, in bytes.
const PAGE_BYTES: u64 = 4096;

fn level(index: usize, shape: CacheShape) -> SimulatedLevel {
    SimulatedLevel {
        name: LEVELS[index].to_owned(),
        shape,
        replacement: Replacement::Lru,
        contents: Contents::Any,
    }
}

impl Model {
    /// Creates a model with LRU, write-allocate and no TLBs. `shapes` are L1I, L1D and at most two
    /// levels beyond L1. `has_gap` states that the processor has further levels before the last
    /// level.
    pub(super) fn plain(name: &str, shapes: &[CacheShape], has_gap: bool) -> Self {
        let levels = shapes.iter().zip(0..LEVELS.len()).map(|(shape, i)| level(i, *shape));
        let machine = SimulatedMachine {
            emulator: String::new(),
            processor: String::new(),
            levels: levels.collect(),
            writes: Writes::Allocate,
            tlbs: Vec::new(),
            page_bytes: PAGE_BYTES,
        };
        Self { name: name.to_owned(), machine, processor: None, note: String::new(), has_gap }
    }

    /// Creates the model of a known processor.
    pub(super) fn named(known: &Named) -> Self {
        let levels = known.levels.iter().enumerate();
        let levels = levels.map(|(index, Level(shape, replacement, contents))| SimulatedLevel {
            replacement: *replacement,
            contents: *contents,
            ..level(index, *shape)
        });
        let tlb = |Tlb(name, entries, ways, replacement): &Tlb| SimulatedTlb {
            name: (*name).to_owned(),
            entries: *entries,
            ways: *ways,
            replacement: *replacement,
        };
        let machine = SimulatedMachine {
            emulator: String::new(),
            processor: String::new(),
            levels: levels.collect(),
            writes: known.writes,
            tlbs: known.tlbs.iter().map(tlb).collect(),
            page_bytes: known.page_bytes,
        };
        Self {
            name: known.name.to_owned(),
            machine,
            processor: known.processor,
            note: known.note.to_owned(),
            has_gap: false,
        }
    }

    /// Restores the model from an earlier record; `None` if the record contains no model.
    pub(super) fn recorded(caches: &SimulatedCaches) -> Option<Self> {
        let machine = caches.machine.clone()?;
        let (name, note) = (caches.name.clone(), caches.note.clone());
        Some(Self { name, machine, processor: None, note, has_gap: false })
    }

    /// Returns the shapes of L1I, L1D and the last cache level; `None` for the last one if there
    /// are no levels beyond L1.
    pub(super) fn shapes(&self) -> (CacheShape, CacheShape, Option<CacheShape>) {
        let shape = |index: usize| self.machine.levels.get(index).map(|level| level.shape);
        let (i1, d1) =
            (shape(0).expect("every model has an L1I"), shape(1).expect("every model has an L1D"));
        (i1, d1, self.beyond().last().map(|level| level.shape))
    }

    /// Returns the levels beyond L1, nearest to the core first.
    pub(crate) fn beyond(&self) -> &[SimulatedLevel] {
        self.machine.levels.get(2..).unwrap_or(&[])
    }

    /// Returns the level of the processor that the last simulated level represents.
    pub(super) fn last_level(&self) -> LastLevel {
        match self.beyond().len() {
            0 => LastLevel::None,
            1 if !self.has_gap => LastLevel::Second,
            _ => LastLevel::Beyond,
        }
    }

    /// Finds a TLB by name.
    pub(crate) fn tlb(&self, name: &str) -> Option<&SimulatedTlb> {
        self.machine.tlbs.iter().find(|tlb| tlb.name == name)
    }

    /// Replaces the sizes of L1D and of the last level. A size of `None` is left unchanged, as are
    /// ways and line sizes.
    pub(super) fn resize(&mut self, d1: Option<u64>, ll: Option<u64>) {
        if let (Some(bytes), Some(level)) = (d1, self.machine.levels.get_mut(1)) {
            level.shape.bytes = bytes;
        }
        if let (Some(bytes), Some(level)) = (ll, self.machine.levels.get_mut(2..)) {
            if let Some(last) = level.last_mut() {
                last.shape.bytes = bytes;
            }
        }
    }

    /// Returns the name of the processor to emulate, for QEMU's `-cpu` option; `None` for the
    /// emulator's default.
    pub(crate) fn processor(&self, emulator: &str) -> Option<&'static str> {
        // The default processors of these emulators lack extensions that programs use.
        const ALL: [&str; 4] = ["qemu-x86_64", "qemu-i386", "qemu-arm", "qemu-aarch64"];
        match self.processor {
            Some((of, name)) if of == emulator => Some(name),
            _ => ALL.contains(&emulator).then_some("max"),
        }
    }

    /// Converts the model to its form in a record; `emulator` is the emulator that simulates it.
    pub(crate) fn caches(&self, emulator: &str) -> SimulatedCaches {
        let (i1, d1, ll) = self.shapes();
        let processor = self.processor(emulator).unwrap_or("default").to_owned();
        let machine =
            SimulatedMachine { emulator: emulator.to_owned(), processor, ..self.machine.clone() };
        SimulatedCaches {
            name: self.name.clone(),
            i1,
            d1,
            ll: ll.unwrap_or(d1),
            note: self.note.clone(),
            machine: Some(machine),
        }
    }

    /// Converts the model to arguments of the plug-in (`cachesim/plugin/machine.h`).
    ///
    /// # Errors
    /// Returns which cache or TLB cannot be simulated, and why.
    pub(crate) fn arguments(&self) -> Result<Vec<String>, String> {
        let mut all = Vec::new();
        for (index, level) in self.machine.levels.iter().enumerate() {
            let CacheShape { bytes, ways, line_bytes } = level.shape;
            let sets = bytes / u64::from(ways.max(1)) / u64::from(line_bytes.max(1));
            if sets == 0 || ways == 0 || !line_bytes.is_power_of_two() {
                return Err(format!(
                    "{}: at least one set must fit, and the line size must be a power of two",
                    level.name
                ));
            }
            let name = level.name.to_lowercase();
            let last = if index == 1 { self.machine.writes as u8 } else { level.contents as u8 };
            let last = if index == 0 { String::new() } else { format!(":{last}") };
            all.push(format!(
                "{name}={sets}:{ways}:{line_bytes}:{}{last}",
                level.replacement as u8
            ));
        }
        for SimulatedTlb { name, entries, ways, replacement } in &self.machine.tlbs {
            if *ways == 0 || entries % ways != 0 || *entries == 0 {
                return Err(format!(
                    "{name}: {entries} entries cannot be divided into sets of {ways} ways"
                ));
            }
            let (name, sets) = (name.to_lowercase(), entries / ways);
            all.push(format!("{name}={sets}:{ways}:{}", *replacement as u8));
        }
        all.push(format!("page={}", self.machine.page_bytes));
        Ok(all)
    }

    /// Applies a `key=value` item from user input. Returns `Ok(false)` if the key is unknown.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "i1" => self.set_level(0, value)?,
            "d1" => self.set_level(1, value)?,
            "l2" => self.set_level(2, value)?,
            "l3" => self.set_level(3, value)?,
            "ll" => {
                self.has_gap |= self.beyond().len() < 2;
                self.set_level(self.machine.levels.len().clamp(3, 4) - 1, value)?;
            }
            "itlb" | "dtlb" | "tlb2" => self.set_tlb(&key.to_uppercase(), value)?,
            "page" => {
                let bytes = parse_size(value)?;
                if !bytes.is_power_of_two() || bytes > 1 << 30 {
                    return Err(format!("invalid page size `{value}`, expected e.g. 4K or 2M"));
                }
                self.machine.page_bytes = bytes;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_level(&mut self, index: usize, value: &str) -> Result<(), String> {
        let mut parts = value.split('/');
        let mut next = || parts.next();
        let (Some(size), Some(ways), Some(line)) = (next(), next(), next()) else {
            return Err(format!(
                "invalid geometry `{value}`, expected size/ways/line, e.g. 32K/8/64"
            ));
        };
        let shape = CacheShape {
            bytes: parse_size(size)?,
            ways: parse_number(ways)?,
            line_bytes: parse_number(line)?,
        };
        let mut new = level(index, shape);
        for word in parts {
            self.set_rule(index, &mut new, word)?;
        }
        match self.machine.levels.len() {
            len if index < len => self.machine.levels[index] = new,
            len if index == len => self.machine.levels.push(new),
            _ => {
                return Err(format!("{}: list the levels closer to the core first", LEVELS[index]));
            }
        }
        Ok(())
    }

    fn set_rule(
        &mut self,
        index: usize,
        level: &mut SimulatedLevel,
        word: &str,
    ) -> Result<(), String> {
        if let Some(replacement) = replacement(word) {
            level.replacement = replacement;
            return Ok(());
        }
        match (index, word) {
            (1, "allocate") => self.machine.writes = Writes::Allocate,
            (1, "around") => self.machine.writes = Writes::Around,
            (1, "through") => self.machine.writes = Writes::Through,
            (2.., "inclusive") => level.contents = Contents::Inclusive,
            (2.., "exclusive") => level.contents = Contents::Exclusive,
            (2.., "victim") => level.contents = Contents::Victim,
            _ => {
                return Err(format!(
                    "unknown rule `{word}`, expected lru, fifo or random; for d1 also allocate, \
                     around or through; for l2 and l3 also inclusive, exclusive or victim"
                ));
            }
        }
        Ok(())
    }

    fn set_tlb(&mut self, name: &str, value: &str) -> Result<(), String> {
        let mut tlb = SimulatedTlb {
            name: name.to_owned(),
            entries: 0,
            ways: 0,
            replacement: Replacement::Lru,
        };
        for (place, part) in value.split('/').enumerate() {
            match (place, replacement(part)) {
                (0, _) => tlb.entries = parse_number(part)?,
                (_, Some(replacement)) => tlb.replacement = replacement,
                (1, None) => tlb.ways = parse_number(part)?,
                _ => return Err(format!("invalid TLB `{value}`, expected entries/ways")),
            }
        }
        if tlb.ways == 0 {
            tlb.ways = tlb.entries;
        }
        self.machine.tlbs.retain(|other| other.name != name);
        self.machine.tlbs.push(tlb);
        Ok(())
    }
}

fn replacement(word: &str) -> Option<Replacement> {
    match word {
        "lru" => Some(Replacement::Lru),
        "fifo" => Some(Replacement::Fifo),
        "random" => Some(Replacement::Random),
        _ => None,
    }
}

fn parse_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("invalid number `{text}`"))
}

/// Parses a size in bytes: `32768`, `32K`, `8MiB`, `1G`.
fn parse_size(text: &str) -> Result<u64, String> {
    parse_memory_size(text)
        .map(|size| size.0)
        .map_err(|_| format!("invalid size `{text}`, expected e.g. 32768 or 32K"))
}
