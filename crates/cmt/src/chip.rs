// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of a processor that the simulator needs.

use crate::processor::Processor;
use serde::Deserialize;
use std::fmt;

/// Maximum number of strands per pipe that the simulator supports.
pub(super) const STRANDS_PER_PIPE_MAX: u32 = 4;

/// Maximum number of strands on a chip to simulate. Even with this many, planning takes only
/// seconds.
const STRANDS_MAX: u64 = 4096;

/// Which strands share one instance of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All strands on the chip share it.
    Chip,
    /// Each core has its own, shared by the strands on the core.
    Core,
    /// Each pipe has its own, shared by the strands on the pipe.
    Pipe,
}

/// A functional unit shared by strands. It accepts one instruction per interval.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// Name of the unit, such as `fpu`.
    pub name: String,
    /// Which strands share one instance of the unit.
    pub scope: Scope,
    /// Minimum number of cycles between two instructions that the unit accepts; at least 1.
    pub interval_cycles: u32,
    /// Document that the figures are taken from.
    pub source: String,
}

/// A multithreaded chip, whose pipes issue one instruction per cycle.
///
/// Strands are numbered consecutively by core, by pipe within the core, and by position on the
/// pipe. These numbers are the chip's logical CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Chip {
    /// The vendor's name for the chip.
    pub name: String,
    /// Clock frequency in Hz.
    pub clock_hz: f64,
    /// Number of cores.
    pub cores: u32,
    /// Number of pipes per core.
    pub pipes_per_core: u32,
    /// Number of strands per pipe.
    pub strands_per_pipe: u32,
    /// Additional latency of an L1 miss that hits L2, in cycles.
    pub l2_cycles: u32,
    /// Additional latency of an L2 miss, in cycles.
    pub memory_cycles: u32,
    /// Units shared by strands, in addition to the pipes.
    pub units: Vec<Unit>,
}

/// Reasons why a processor cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoChip {
    /// The processor's file has no latencies.
    NoLatency {
        /// Name of the processor.
        name: String,
    },
    /// The processor's pipes do not issue exactly one instruction per cycle.
    NotSingleIssue {
        /// Name of the processor.
        name: String,
    },
    /// More strands share a pipe than the simulator supports.
    TooManyWorkers {
        /// Name of the processor.
        name: String,
        /// Number of strands that share a pipe.
        strands: u32,
    },
    /// The chip has more strands than the simulator supports.
    TooLarge {
        /// Name of the processor.
        name: String,
        /// Number of strands on the chip.
        strands: u64,
    },
}

impl fmt::Display for NoChip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLatency { name } => {
                write!(f, "{name} cannot be simulated: its file has no [latency] table; add one")
            }
            Self::NotSingleIssue { name } => write!(
                f,
                "{name} cannot be simulated: only single-issue pipes are supported; if its pipes \
                 are single-issue, set `instructions_per_cycle = 1.0` in its file"
            ),
            Self::TooManyWorkers { name, strands } => write!(
                f,
                "{name} cannot be simulated: {strands} strands share a pipe; the limit is \
                 {STRANDS_PER_PIPE_MAX}"
            ),
            Self::TooLarge { name, strands } => write!(
                f,
                "{name} cannot be simulated: it has {strands} strands, and the limit is \
                 {STRANDS_MAX}; reduce the number of cores or pipes in its file"
            ),
        }
    }
}

impl std::error::Error for NoChip {}

impl Chip {
    /// Extracts the properties needed by the simulator from a processor description.
    ///
    /// # Errors
    /// Returns an error if the latencies are unknown, pipes issue more or less than one instruction
    /// per cycle, too many strands share a pipe, or the processor has too many strands.
    pub fn new(processor: &Processor) -> Result<Self, NoChip> {
        let name = || processor.name.clone();
        let latency = processor.latency.ok_or_else(|| NoChip::NoLatency { name: name() })?;
        if processor.instructions_per_cycle != Some(1.0) {
            return Err(NoChip::NotSingleIssue { name: name() });
        }
        let strands = processor.strands_per_pipe;
        if strands > STRANDS_PER_PIPE_MAX {
            return Err(NoChip::TooManyWorkers { name: name(), strands });
        }
        if processor.strands() > STRANDS_MAX {
            return Err(NoChip::TooLarge { name: name(), strands: processor.strands() });
        }
        Ok(Self {
            name: name(),
            clock_hz: processor.clock_ghz * 1e9,
            cores: processor.cores,
            pipes_per_core: processor.pipes_per_core,
            strands_per_pipe: strands,
            l2_cycles: latency.l2_cycles.round() as u32,
            memory_cycles: (latency.memory_ns * processor.clock_ghz).round() as u32,
            units: processor.units.clone(),
        })
    }

    /// Returns the number of pipes on the chip.
    pub fn pipes(&self) -> u32 {
        self.cores * self.pipes_per_core
    }

    /// Returns the number of strands per core.
    pub fn strands_per_core(&self) -> u32 {
        self.pipes_per_core * self.strands_per_pipe
    }

    /// Returns the number of strands on the chip.
    pub fn strands(&self) -> u32 {
        self.cores * self.strands_per_core()
    }

    /// Returns the index of a unit in [`Chip::units`], as used in [`super::UnitUse::unit`].
    pub fn unit(&self, name: &str) -> Option<usize> {
        self.units.iter().position(|unit| unit.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_s_processors_become_chips() {
        let chip = |word| Chip::new(&Processor::named(word).unwrap()).unwrap();
        let (t1, t2) = (chip("t1"), chip("t2"));
        assert_eq!((t1.pipes(), t1.strands()), (8, 32));
        assert_eq!((t2.pipes(), t2.strands()), (16, 64));
        // Memory latency: 90 ns at 1.2 GHz, 135 ns at 1.4 GHz.
        assert_eq!((t1.l2_cycles, t1.memory_cycles, t2.memory_cycles), (23, 108, 189));
        let scope = |chip: &Chip, name| chip.units[chip.unit(name).unwrap()].scope;
        assert_eq!((scope(&t1, "fpu"), scope(&t2, "fpu")), (Scope::Chip, Scope::Core));
        assert_eq!(scope(&t2, "lsu"), Scope::Core);
        assert_eq!(t1.unit("lsu"), None, "one pipe per core: it is not shared");
    }

    #[test]
    fn what_is_missing_is_named() {
        let t1 = Processor::named("t1").unwrap();
        let without = Processor { latency: None, ..t1.clone() };
        assert!(Chip::new(&without).unwrap_err().to_string().contains("[latency]"));
        let wide = Processor { instructions_per_cycle: Some(2.0), ..t1.clone() };
        assert!(Chip::new(&wide).unwrap_err().to_string().contains("single-issue pipes"));
        let many = Processor { strands_per_pipe: 5, ..t1.clone() };
        assert!(Chip::new(&many).unwrap_err().to_string().contains("5 strands"));
        let large = |cores| Chip::new(&Processor { cores, ..t1.clone() });
        assert!(large(1024).is_ok());
        assert!(large(1025).unwrap_err().to_string().contains("4100 strands"));
    }
}
