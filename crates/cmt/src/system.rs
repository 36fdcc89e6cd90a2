// SPDX-License-Identifier: MIT OR Apache-2.0
//! A system to simulate: a chip's strands, what they do, and how they are connected.

use super::chip::Chip;
use serde::Deserialize;
use std::fmt;

/// A chip with the strands, queues and sources to simulate on it.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// Chip that the strands run on.
    pub chip: Chip,
    /// Running strands. Logical CPUs without an entry are parked.
    pub strands: Vec<Strand>,
    /// Queues through which strands hand off packets.
    pub queues: Vec<Queue>,
    /// Sources that deliver packets to strands.
    pub sources: Vec<Source>,
}

/// A hardware thread and its work.
#[derive(Clone, Debug, PartialEq)]
pub struct Strand {
    /// Name used in results and errors.
    pub name: String,
    /// Logical CPU, numbered by core, pipe and position on the pipe.
    pub cpu: u32,
    /// Which instructions the strand executes.
    pub runs: Runs,
}

/// What a strand does.
#[derive(Clone, Debug, PartialEq)]
pub enum Runs {
    /// The strand polls inputs and processes packets.
    Packets {
        /// Mean number of stall cycles per instruction due to branches and dependences.
        bubble_cycles: f64,
        /// Tasks, executed in rotation.
        tasks: Vec<Task>,
    },
    /// The strand runs `while(1)`: it issues an instruction whenever it can.
    Busy,
    /// The strand is parked: it issues no instructions.
    Parked,
}

/// An input that a strand polls, and what the strand does with the packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Input to poll. Each queue or source can have only one reader.
    pub input: Input,
    /// Cost of polling the input.
    pub poll: Poll,
    /// Cost of processing a packet.
    pub work: Work,
    /// Queues that receive the packets in rotation; if there are none, packets leave the system.
    /// Each queue can have only one writer.
    pub outputs: Vec<usize>,
}

/// Where a task gets its packets from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A queue, given by its index in [`System::queues`].
    Queue(usize),
    /// A source, given by its index in [`System::sources`].
    Source(usize),
    /// An input that never has a packet.
    Nothing,
}

/// Cost of polling for a packet or for queue space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Poll {
    /// Mean number of instructions per poll; at least 1.
    pub instructions: f64,
    /// Stall cycles of a successful poll, for example from an uncached read of a NIC register.
    pub packet_stall_cycles: f64,
    /// Stall cycles of an empty poll.
    pub empty_stall_cycles: f64,
    /// Cycles that the strand deliberately pauses after an empty poll (slow polling).
    pub slow_cycles: f64,
}

/// Cost of processing a packet, excluding polling.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Mean number of instructions per packet; at least 1.
    pub instructions: f64,
    /// Cache misses while processing a packet.
    pub misses: Misses,
    /// Uses of shared units while processing a packet.
    pub units: Vec<UnitUse>,
}

/// Mean number of cache misses per packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Misses {
    /// Mean number of L1 misses, whether or not they hit L2.
    pub l1: f64,
    /// Mean number of L2 misses; at most as many as L1 misses.
    pub l2: f64,
}

/// How often a packet uses a shared unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitUse {
    /// Index of the unit in [`Chip::units`].
    pub unit: usize,
    /// Mean number of uses per packet; at most one per instruction.
    pub per_packet: f64,
}

/// A bounded queue between two strands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Capacity of the queue in packets.
    pub capacity: u32,
    /// Cycles until a change at one end of the queue is visible at the other; at least 1.
    pub hand_over_cycles: u32,
    /// What a writer does when the queue is full.
    pub when_full: WhenFull,
}

/// What a writer does when its queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// The writer polls until there is room.
    Wait,
    /// The writer drops the packet, which is counted.
    Drop,
}

/// A line, that is, a link that delivers packets at a constant rate, and its interface's receive
/// ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    /// Rate of the line in packets per second; above 0 and at most one packet per cycle.
    pub packets_per_s: f64,
    /// Capacity of the receive ring in packets. Packets that find it full are dropped.
    pub ring: u32,
}

/// Why a system cannot be simulated.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The chip has no such logical CPU.
    NoSuchCpu {
        /// Name of the strand that is assigned to the CPU.
        strand: String,
        /// The logical CPU that does not exist.
        cpu: u32,
        /// Number of logical CPUs on the chip.
        strands: u32,
    },
    /// Two strands are on the same logical CPU.
    CpuTaken {
        /// Name of the second strand.
        strand: String,
        /// The logical CPU that both strands are assigned to.
        cpu: u32,
    },
    /// A strand refers to a nonexistent queue, source or unit.
    NoSuch {
        /// Name of the strand.
        strand: String,
        /// What does not exist: `queue`, `source` or `unit`.
        what: &'static str,
        /// The index, which is out of range.
        index: usize,
    },
    /// A queue or source has a second reader or writer.
    Shared {
        /// Name of the second strand to read or write it.
        strand: String,
        /// Role that is already taken: `reader of queue`, `writer of queue` or `reader of source`.
        what: &'static str,
        /// Index of the queue or source that is already in use.
        index: usize,
    },
    /// A number is out of range.
    Number {
        /// Strand, queue, source or chip that the number belongs to.
        of: String,
        /// Name of the parameter.
        what: &'static str,
        /// The value that is out of range.
        value: f64,
        /// The valid range, in words.
        must: &'static str,
    },
    /// A strand that handles packets has no task.
    NoTask {
        /// Name of the strand.
        strand: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchCpu { strand, cpu, strands } => write!(
                f,
                "strand `{strand}` is on CPU {cpu}; the chip has CPUs 0 to {}",
                strands.saturating_sub(1)
            ),
            Self::CpuTaken { strand, cpu } => {
                write!(f, "strand `{strand}` is on CPU {cpu}, which is already taken")
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

/// Upper bound on every number in a system: fixed-point values have only 32 integer bits.
const NUMBER_MAX: f64 = 1e9;

/// Maximum bubble cycles per instruction. The bubbles, together with the carried remainder, must
/// fit in a pipe's calendar. Longer stalls must therefore be specified as stalls of loads or polls.
pub(super) const BUBBLE_CYCLES_MAX: f64 = 14.0;

impl System {
    /// Checks whether the system can be simulated.
    ///
    /// # Errors
    /// Returns an error if a strand has no task, refers to an object that does not exist, or claims
    /// a CPU or the end of a queue or source that another strand already has, or if a number is out
    /// of range. The error names the object.
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
            // Packets must be at least one cycle apart, and the interval must fit in 32 bits.
            if !(per_cycle > 1.0 / f64::from(u32::MAX) && per_cycle <= 1.0) {
                let must = "at most one per cycle and at least one per 4e9 cycles";
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

/// Marks an exclusive object as used. Returns an error if another strand already uses it.
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
