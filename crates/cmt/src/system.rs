// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated system: the strands of a chip, their work, and the connections between them.

use super::chip::Chip;
use serde::Deserialize;
use std::fmt;

/// A chip with everything that runs on it.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// Chip.
    pub chip: Chip,
    /// Strands. Logical CPUs not listed are parked.
    pub strands: Vec<Strand>,
    /// Queues between strands.
    pub queues: Vec<Queue>,
    /// Sources of packets.
    pub sources: Vec<Source>,
}

/// A hardware thread and its work.
#[derive(Clone, Debug, PartialEq)]
pub struct Strand {
    /// Name.
    pub name: String,
    /// The logical CPU, counted by core, pipe and place.
    pub cpu: u32,
    /// Its work.
    pub runs: Runs,
}

/// The work of a strand.
#[derive(Clone, Debug, PartialEq)]
pub enum Runs {
    /// Packet processing.
    Packets {
        /// Average stall cycles per instruction due to branches and dependences.
        bubble_cycles: f64,
        /// Tasks, run in rotation.
        tasks: Vec<Task>,
    },
    /// `while(1)`: issues an instruction whenever it can.
    Busy,
    /// Idle.
    Parked,
}

/// An input that a strand polls, and the processing of its packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The input. A queue and a source have one reader.
    pub input: Input,
    /// Polling behaviour.
    pub poll: Poll,
    /// Processing of each packet.
    pub work: Work,
    /// Queues that packets go to in rotation; if there are none, packets leave the system. A queue
    /// has one writer.
    pub outputs: Vec<usize>,
}

/// Input of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Index into [`System::queues`].
    Queue(usize),
    /// Index into [`System::sources`].
    Source(usize),
    /// Polling that never finds a packet.
    Nothing,
}

/// Cost of polling for a packet or for queue space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Poll {
    /// Instructions per poll; at least 1.
    pub instructions: f64,
    /// Stall cycles of a poll that finds a packet, such as an uncached read of an interface.
    pub packet_stall_cycles: f64,
    /// Stall cycles of a poll that finds no packet.
    pub empty_stall_cycles: f64,
    /// Cycles that the strand skips deliberately after an empty poll (slow polling).
    pub slow_cycles: f64,
}

/// Cost of a packet after the poll.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Instructions per packet; at least 1.
    pub instructions: f64,
    /// Loads that miss caches.
    pub misses: Misses,
    /// Instructions that use shared units.
    pub units: Vec<UnitUse>,
}

/// Misses per packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Misses {
    /// L1 misses, whether or not they hit L2.
    pub l1: f64,
    /// L2 misses; at most as many as L1 misses.
    pub l2: f64,
}

/// How often a unit is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitUse {
    /// Index into [`Chip::units`].
    pub unit: usize,
    /// Uses per packet; at most one per instruction.
    pub per_packet: f64,
}

/// A bounded queue between two strands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Capacity in packets.
    pub capacity: u32,
    /// Cycles until one end sees a change made by the other, at least 1.
    pub hand_over_cycles: u32,
    /// Behaviour of a writer that finds no room.
    pub when_full: WhenFull,
}

/// Behaviour of a writer that finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// Polls again until there is room.
    Wait,
    /// Drops the packet.
    Drop,
}

/// A line that delivers packets at a constant rate, and the ring of its interface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    /// Packets per second, more than 0 and at most one per cycle.
    pub packets_per_s: f64,
    /// Ring capacity in packets; excess packets are dropped.
    pub ring: u32,
}

/// Reasons why a system cannot be simulated.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The chip has no such logical CPU.
    NoSuchCpu {
        /// The strand.
        strand: String,
        /// Its logical CPU.
        cpu: u32,
        /// Number available.
        strands: u32,
    },
    /// Two strands are on the same logical CPU.
    CpuTaken {
        /// The strand.
        strand: String,
        /// Its logical CPU.
        cpu: u32,
    },
    /// A strand refers to a nonexistent queue, source or unit.
    NoSuch {
        /// The strand.
        strand: String,
        /// `queue`, `source` or `unit`.
        what: &'static str,
        /// The index.
        index: usize,
    },
    /// A second strand or task reads or writes an object that allows only one reader and one
    /// writer.
    Shared {
        /// The strand.
        strand: String,
        /// `reader of queue`, `writer of queue` or `reader of source`.
        what: &'static str,
        /// The index.
        index: usize,
    },
    /// An invalid number.
    Number {
        /// Its owner.
        of: String,
        /// Name of the parameter.
        what: &'static str,
        /// Value.
        value: f64,
        /// The requirement.
        must: &'static str,
    },
    /// A packet-handling strand has no task.
    NoTask {
        /// The strand.
        strand: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchCpu { strand, cpu, strands } => write!(
                f,
                "strand `{strand}` is on processor {cpu}; the chip has processors 0 to {}",
                strands.saturating_sub(1)
            ),
            Self::CpuTaken { strand, cpu } => {
                write!(f, "strand `{strand}` is on processor {cpu}, which is already taken")
            }
            Self::NoSuch { strand, what, index } => {
                write!(f, "strand `{strand}` refers to {what} {index}, which does not exist")
            }
            Self::Shared { strand, what, index } => {
                write!(f, "strand `{strand}` is a second {what} {index}; only one is allowed")
            }
            Self::Number { of, what, value, must } => {
                write!(f, "`{what}` of {of} is {value}; it must be {must}")
            }
            Self::NoTask { strand } => {
                write!(f, "strand `{strand}` has no task; park it, or give it one")
            }
        }
    }
}

impl std::error::Error for Fault {}

/// Maximum accepted number: strands keep their carries with 32 integer bits.
const NUMBER_MAX: f64 = 1e9;

/// Maximum bubbles per instruction: including the carry, one less than the number of slots in a
/// pipe's calendar. Longer stalls belong to loads and polls.
pub(super) const BUBBLE_CYCLES_MAX: f64 = 14.0;

impl System {
    /// Checks that the system can be simulated.
    ///
    /// # Errors
    /// A strand refers to a nonexistent object or shares one that cannot be shared, or a number is
    /// invalid; the error names it.
    pub fn check(&self) -> Result<(), Fault> {
        self.check_queues_and_sources()?;
        let mut taken = vec![false; self.chip.strands() as usize];
        let mut readers = [vec![false; self.queues.len()], vec![false; self.sources.len()]];
        let mut writers = vec![false; self.queues.len()];
        for strand in &self.strands {
            let name = || strand.name.clone();
            let Some(taken) = taken.get_mut(strand.cpu as usize) else {
                let strands = self.chip.strands();
                return Err(Fault::NoSuchCpu { strand: name(), cpu: strand.cpu, strands });
            };
            if std::mem::replace(taken, true) {
                return Err(Fault::CpuTaken { strand: name(), cpu: strand.cpu });
            }
            let Runs::Packets { bubble_cycles, tasks } = &strand.runs else { continue };
            if tasks.is_empty() {
                return Err(Fault::NoTask { strand: name() });
            }
            if !(0.0..=BUBBLE_CYCLES_MAX).contains(bubble_cycles) {
                let (of, what, value) =
                    (format!("`{}`", strand.name), "bubble_cycles", *bubble_cycles);
                return Err(Fault::Number { of, what, value, must: "from 0 to 14" });
            }
            for task in tasks {
                self.check_task(&strand.name, task)?;
                match task.input {
                    Input::Queue(index) => {
                        claim(&mut readers[0], index, strand, "queue", "reader of queue")?;
                    }
                    Input::Source(index) => {
                        claim(&mut readers[1], index, strand, "source", "reader of source")?;
                    }
                    Input::Nothing => {}
                }
                for &index in &task.outputs {
                    claim(&mut writers, index, strand, "queue", "writer of queue")?;
                }
            }
        }
        Ok(())
    }

    fn check_queues_and_sources(&self) -> Result<(), Fault> {
        for (index, queue) in self.queues.iter().enumerate() {
            let of = format!("queue {index}");
            at_least(1.0, &of, "capacity", f64::from(queue.capacity))?;
            at_least(1.0, &of, "hand_over_cycles", f64::from(queue.hand_over_cycles))?;
        }
        for (index, source) in self.sources.iter().enumerate() {
            let of = format!("source {index}");
            at_least(1.0, &of, "ring", f64::from(source.ring))?;
            let per_cycle = source.packets_per_s / self.chip.clock_hz;
            // The time between packets must be at least one cycle, and fit in 32 bits.
            if !(per_cycle > 1.0 / f64::from(u32::MAX) && per_cycle <= 1.0) {
                let must = "at most one per cycle, at least one per 4e9 cycles";
                let value = source.packets_per_s;
                return Err(Fault::Number { of, what: "packets_per_s", value, must });
            }
        }
        Ok(())
    }

    fn check_task(&self, strand: &str, task: &Task) -> Result<(), Fault> {
        let (poll, work) = (&task.poll, &task.work);
        at_least(1.0, strand, "poll.instructions", poll.instructions)?;
        at_least(0.0, strand, "poll.packet_stall_cycles", poll.packet_stall_cycles)?;
        at_least(0.0, strand, "poll.empty_stall_cycles", poll.empty_stall_cycles)?;
        at_least(0.0, strand, "poll.slow_cycles", poll.slow_cycles)?;
        at_least(1.0, strand, "work.instructions", work.instructions)?;
        at_least(0.0, strand, "misses.l1", work.misses.l1)?;
        at_least(0.0, strand, "misses.l2", work.misses.l2)?;
        let of = || strand.to_owned();
        if work.misses.l1 > work.instructions {
            let must = "at most one per instruction";
            return Err(Fault::Number { of: of(), what: "misses.l1", value: work.misses.l1, must });
        }
        if work.misses.l2 > work.misses.l1 {
            let must = "at most `misses.l1`";
            return Err(Fault::Number { of: of(), what: "misses.l2", value: work.misses.l2, must });
        }
        for used in &work.units {
            if used.unit >= self.chip.units.len() {
                return Err(Fault::NoSuch { strand: of(), what: "unit", index: used.unit });
            }
            at_least(0.0, strand, "units.per_packet", used.per_packet)?;
            if used.per_packet > work.instructions {
                let (value, must) = (used.per_packet, "at most one per instruction");
                return Err(Fault::Number { of: of(), what: "units.per_packet", value, must });
            }
        }
        Ok(())
    }
}

fn at_least(least: f64, of: &str, what: &'static str, value: f64) -> Result<(), Fault> {
    if (least..=NUMBER_MAX).contains(&value) {
        return Ok(());
    }
    let must = if least == 0.0 { "from 0 to 10^9" } else { "from 1 to 10^9" };
    Err(Fault::Number { of: of.to_owned(), what, value, must })
}

/// Marks an exclusive object as used; fails if it already is.
fn claim(
    used: &mut [bool],
    index: usize,
    strand: &Strand,
    what: &'static str,
    role: &'static str,
) -> Result<(), Fault> {
    let strand = || strand.name.clone();
    let Some(used) = used.get_mut(index) else {
        return Err(Fault::NoSuch { strand: strand(), what, index });
    };
    match std::mem::replace(used, true) {
        true => Err(Fault::Shared { strand: strand(), what: role, index }),
        false => Ok(()),
    }
}
