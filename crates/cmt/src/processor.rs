// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes processors as data: shared resources, memory latencies, and bandwidths.
//!
//! A processor is described in a TOML file. The built-in ones are in `data/processors`; users'
//! files have the same format.

use crate::Unit;
use serde::Deserialize;
use std::fmt;
use std::ops::RangeInclusive;

/// Minimum frame size in bytes, including FCS (IEEE 802.3).
pub const FRAME_MIN: u32 = 64;

/// Maximum frame size in bytes, far above the size of a jumbo frame.
pub const FRAME_MAX: u32 = 65_536;

/// Maximum cores per processor, pipes per core and strands per pipe, far above any real value.
pub const COUNT_MAX: u32 = 65_536;

/// Valid core clocks in GHz, from the speed of an emulator to over ten times the clock of any real
/// chip.
pub const CLOCK_GHZ: RangeInclusive<f64> = 0.01..=100.0;

/// Limits on latencies, bandwidths and rates, in the units of the file. They are far beyond any
/// real value, but keep results finite.
const SMALLEST: f64 = 1e-6;
const LARGEST: f64 = 1e6;

/// A processor, as read from its TOML file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// The vendor's name for the processor.
    pub name: String,
    /// Documents that the figures are taken from.
    pub source: String,
    /// Core clock in GHz.
    pub clock_ghz: f64,
    /// Number of cores.
    pub cores: u32,
    /// Number of independent issue pipelines per core.
    pub pipes_per_core: u32,
    /// Number of strands that share a pipe.
    pub strands_per_pipe: u32,
    /// Number of instructions that a pipe issues per cycle; `None` if it depends on the program.
    pub instructions_per_cycle: Option<f64>,
    /// CPI above which a strand counts as memory-bound rather than compute-bound; `None` if the
    /// vendor gives no rule for this.
    pub compute_bound_cpi_max: Option<f64>,
    /// Cache and memory latencies; `None` if unknown.
    pub latency: Option<Latency>,
    /// Bandwidths of memory and I/O.
    #[serde(default)]
    pub bandwidth: Bandwidth,
    /// Units shared by strands, in addition to pipes.
    #[serde(default, rename = "unit")]
    pub units: Vec<Unit>,
    /// Events that the processor's PMU counts, each selected by its code.
    #[serde(default, rename = "event")]
    pub events: Vec<Event>,
    /// Forwarding rates measured on the processor.
    #[serde(default)]
    pub forwarded: Vec<Forwarded>,
}

/// An event that the processor's PMU counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Code that selects the event in a PMU control register.
    pub code: u64,
    /// Name used in metrics, as in `<name>_pti`; `instructions` for the instruction count.
    pub name: String,
    /// The vendor's name for the event.
    pub native: String,
    /// Name of the closest portable event, if there is one.
    pub portable: Option<String>,
    /// What the strand waits for when the event occurs: the longest wait that is possible. `None`
    /// if unknown, or if it does not wait.
    pub waits_for: Option<WaitsFor>,
}

/// What a strand waits for when an event occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// A load that L2 serves.
    L2,
    /// A load that memory serves.
    Memory,
    /// One cycle, for an event that counts cycles.
    Cycle,
}

/// Cache and memory latencies of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Load-to-use latency of L1 in cycles.
    pub l1_cycles: f64,
    /// Latency of L2 in cycles.
    pub l2_cycles: f64,
    /// Latency of a memory access, in nanoseconds.
    pub memory_ns: f64,
}

/// Bandwidths in 10^9 bytes per second; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    /// Bandwidth of main memory.
    pub memory_gb_per_s: Option<f64>,
    /// Bandwidth of the I/O bus to and from network cards.
    pub io_gb_per_s: Option<f64>,
    /// Whether the processor has on-chip network interfaces, whose packets bypass the I/O bus.
    #[serde(default)]
    pub has_interfaces: bool,
}

/// A forwarding rate that was measured for one frame size.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forwarded {
    /// Frame size in bytes, including FCS.
    pub frame_bytes: u32,
    /// Rate in kpps, all ports together.
    pub kpps: f64,
}

/// The built-in processors, by name.
const BUILT_IN: [(&str, &str); 2] = [
    ("t1", include_str!("../data/processors/t1.toml")),
    ("t2", include_str!("../data/processors/t2.toml")),
];

/// Why a text does not describe a valid processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoProcessor(String);

impl fmt::Display for NoProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end())
    }
}

impl std::error::Error for NoProcessor {}

impl Processor {
    /// Returns the names of the built-in processors.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(word, _)| *word)
    }

    /// Returns the built-in processor with this name.
    pub fn named(word: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(built_in, _)| *built_in == word)?;
        Some(Self::from_toml(text).expect("built-in files are valid: a test checks them"))
    }

    /// Parses a processor description from TOML.
    ///
    /// # Errors
    /// Returns an error that names the key if the text is not TOML, a key is missing, unknown or of
    /// the wrong type, or a value is invalid.
    pub fn from_toml(text: &str) -> Result<Self, NoProcessor> {
        let processor: Self =
            toml::from_str(text).map_err(|error| NoProcessor(error.to_string()))?;
        processor.check()
    }

    fn check(self) -> Result<Self, NoProcessor> {
        for (key, value, range) in self.numbers() {
            if !range.contains(&value) {
                let (whole, short) = (value.to_string(), format!("{value:e}"));
                let value = if whole.len() < 20 { whole } else { short };
                return Err(NoProcessor(format!(
                    "`{key}` is {value}; it must be from {} to {}",
                    range.start(),
                    range.end()
                )));
            }
        }
        let twice = |at: usize, event: &Event| {
            self.events[..at].iter().any(|e| e.code == event.code || e.name == event.name)
        };
        if let Some((_, event)) = self.events.iter().enumerate().find(|(at, e)| twice(*at, e)) {
            let Event { name, code, .. } = event;
            return Err(NoProcessor(format!(
                "duplicate event `{name}` with code {code:#x}; names and codes must be unique"
            )));
        }
        if let Some(unit) = self.units.iter().find(|unit| unit.interval_cycles == 0) {
            let name = &unit.name;
            return Err(NoProcessor(format!(
                "`interval_cycles` of unit `{name}` is 0; it must be 1 or more"
            )));
        }
        Ok(self)
    }

    /// Returns the key, value and valid range of each number in the file whose range must be
    /// checked.
    fn numbers(&self) -> Vec<(&'static str, f64, RangeInclusive<f64>)> {
        let count = |key, count: u32| (key, f64::from(count), 1.0..=f64::from(COUNT_MAX));
        let rate = |key, value| (key, value, SMALLEST..=LARGEST);
        let mut all = vec![
            ("clock_ghz", self.clock_ghz, CLOCK_GHZ),
            count("cores", self.cores),
            count("pipes_per_core", self.pipes_per_core),
            count("strands_per_pipe", self.strands_per_pipe),
        ];
        if let Some(latency) = &self.latency {
            all.push(rate("latency.l1_cycles", latency.l1_cycles));
            all.push(rate("latency.l2_cycles", latency.l2_cycles));
            all.push(rate("latency.memory_ns", latency.memory_ns));
        }
        let given = [
            ("instructions_per_cycle", self.instructions_per_cycle),
            ("compute_bound_cpi_max", self.compute_bound_cpi_max),
            ("bandwidth.memory_gb_per_s", self.bandwidth.memory_gb_per_s),
            ("bandwidth.io_gb_per_s", self.bandwidth.io_gb_per_s),
        ];
        all.extend(given.into_iter().filter_map(|(key, value)| Some(rate(key, value?))));
        for forwarded in &self.forwarded {
            let frames = f64::from(FRAME_MIN)..=f64::from(FRAME_MAX);
            all.push(("forwarded.frame_bytes", f64::from(forwarded.frame_bytes), frames));
            all.push(rate("forwarded.kpps", forwarded.kpps));
        }
        all
    }

    /// Returns the number of strands on the processor.
    pub fn strands(&self) -> u64 {
        u64::from(self.cores) * u64::from(self.pipes_per_core) * u64::from(self.strands_per_pipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_with_the_program_is_as_the_document_says() {
        let (t1, t2) = (Processor::named("t1").unwrap(), Processor::named("t2").unwrap());
        assert_eq!((t1.strands(), t2.strands()), (32, 64));
        // 9.6 and 22.4 billion instructions per second.
        let peak = |p: &Processor| {
            f64::from(p.cores * p.pipes_per_core) * p.clock_ghz * p.instructions_per_cycle.unwrap()
        };
        assert!((peak(&t1) - 9.6).abs() < 1e-9 && (peak(&t2) - 22.4).abs() < 1e-9);
        assert_eq!(Processor::names().collect::<Vec<_>>(), ["t1", "t2"]);
        assert_eq!(Processor::named("t3"), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |from: &str, to: &str| {
            let text = BUILT_IN[0].1.replace(from, to);
            Processor::from_toml(&text).unwrap_err().to_string()
        };
        let count = "`cores` is 0; it must be from 1 to 65536";
        assert_eq!(said("cores = 8", "cores = 0"), count);
        for (key, from, to) in [
            ("cores", "cores = 8", "cores = 99999999"),
            ("pipes_per_core", "pipes_per_core = 1", "pipes_per_core = 4000000000"),
            ("strands_per_pipe", "strands_per_pipe = 4", "strands_per_pipe = 1000000"),
            ("clock_ghz", "clock_ghz = 1.2", "clock_ghz = 1e300"),
            ("latency.memory_ns", "memory_ns = 90.0", "memory_ns = 1e300"),
            ("latency.l2_cycles", "l2_cycles = 23.0", "l2_cycles = -23.0"),
            ("instructions_per_cycle", "per_cycle = 1.0", "per_cycle = inf"),
            ("bandwidth.io_gb_per_s", "io_gb_per_s = 2.0", "io_gb_per_s = 0.0"),
            ("forwarded.frame_bytes", "frame_bytes = 64", "frame_bytes = 63"),
            ("forwarded.kpps", "kpps = 3300.0", "kpps = nan"),
        ] {
            let text = said(from, to);
            assert!(text.starts_with(&format!("`{key}` is ")), "{to}: {text}");
            assert!(text.len() < 100, "{text}");
        }
        assert!(said("clock_ghz = 1.2", "").contains("clock_ghz"), "a key is missing");
        assert!(said("clock_ghz", "clock_mhz").contains("clock_mhz"), "a key is unknown");
        let text = said("interval_cycles = 1", "interval_cycles = 0");
        assert!(text.contains("unit `fpu`"), "{text}");
        let text = said("code = 0x80", "code = 0x40");
        assert!(text.contains("`l2_dmiss` with code 0x40"), "{text}");
        let text = said("memory_ns = 90.0", "memory_ns = nan");
        assert_eq!(text, "`latency.memory_ns` is NaN; it must be from 0.000001 to 1000000");
    }
}
