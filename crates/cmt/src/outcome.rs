// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts that a simulation returns, and figures computed from them.

/// How many cycles to simulate, and the random seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of cycles before counting starts, in which the queues fill.
    pub warm_up_cycles: u64,
    /// Number of cycles in which events are counted: at least 1 and, together with the warm-up, at
    /// most [`Run::CYCLES_MAX`].
    pub cycles: u64,
    /// Seed for the random distances between misses and between unit uses.
    pub seed: u64,
}

impl Run {
    /// Maximum number of cycles in a run: fixed-point values have 32 integer bits.
    pub const CYCLES_MAX: u64 = 1 << 31;
}

/// Counts from a run, excluding the warm-up. All are of evidence tier `model`.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Number of cycles in which events were counted, without the warm-up.
    pub cycles: u64,
    /// Chip clock frequency in Hz.
    pub clock_hz: f64,
    /// Counts for each strand, in the order of [`super::System::strands`].
    pub strands: Vec<StrandOutcome>,
    /// Counts for each source, in the order of [`super::System::sources`].
    pub sources: Vec<SourceOutcome>,
    /// Simulation effort: the number of cycles, including the warm-up, times the number of
    /// simulated cores.
    pub core_cycles: u64,
}

/// Counts for one strand.
///
/// The cycles of a strand that is not parked are its instructions, its stalls, and the cycles in
/// which it was ready while another strand issued: `cycles = instructions + stalls.sum() + waited`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StrandOutcome {
    /// Name of the strand.
    pub name: String,
    /// Logical CPU that the strand occupies.
    pub cpu: u32,
    /// Number of instructions issued.
    pub instructions: u64,
    /// Cycles in which the strand could not issue, by cause.
    pub stalls: Stalls,
    /// Cycles in which the strand was ready but another strand on its pipe issued.
    pub waited: u64,
    /// Packet and poll counts for each of the strand's tasks.
    pub tasks: Vec<TaskOutcome>,
}

/// Packets and polls of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskOutcome {
    /// Number of packets written to a queue or sent out of the system.
    pub packets: u64,
    /// Number of packets dropped because the output queue was full ([`super::WhenFull::Drop`]).
    pub dropped: u64,
    /// Number of polls that found no packet.
    pub idle_polls: u64,
    /// Number of failed attempts to enqueue a packet because the queue was full
    /// ([`super::WhenFull::Wait`]).
    pub blocked: u64,
}

/// Cycles in which a strand could not issue, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Cycles of bubbles: branches, load-use delays and other dependences.
    pub bubbles: u64,
    /// Cycles spent waiting for L2 after L1 misses.
    pub l1: u64,
    /// Cycles spent waiting for memory after L2 misses, in addition to the L2 latency.
    pub l2: u64,
    /// Cycles spent waiting for units shared with other strands.
    pub units: u64,
    /// Cycles of stalls in polls: uncached reads of NIC registers.
    pub io: u64,
    /// Cycles of deliberate pauses after empty polls.
    pub slow: u64,
}

impl Stalls {
    /// Returns the total number of stall cycles.
    pub fn sum(&self) -> u64 {
        self.bubbles + self.l1 + self.l2 + self.units + self.io + self.slow
    }

    /// Returns the stall counts in the order in which an instruction incurs them.
    fn in_order(&mut self) -> [&mut u64; 6] {
        let Self { bubbles, l1, l2, units, io, slow } = self;
        [bubbles, l1, l2, units, io, slow]
    }

    pub(super) fn add(&mut self, other: &Self) {
        let mut other = *other;
        for (mine, other) in self.in_order().into_iter().zip(other.in_order()) {
            *mine += *other;
        }
    }

    /// Subtracts the `cycles` stall cycles that come after the end of counting, starting with the
    /// latest cause. These cycles all belong to the last instruction; `last` holds the stalls of
    /// this instruction, excluding bubbles.
    pub(super) fn cut(&mut self, mut cycles: u64, last: &Self) {
        let mut last = Self { bubbles: u64::MAX, ..*last };
        for (mine, last) in self.in_order().into_iter().zip(last.in_order()).rev() {
            let cut = cycles.min(*last);
            *mine -= cut;
            cycles -= cut;
        }
    }

    fn since(&self, before: &Self) -> Self {
        let (mut stalls, mut before) = (*self, *before);
        for (mine, before) in stalls.in_order().into_iter().zip(before.in_order()) {
            *mine -= *before;
        }
        stalls
    }
}

/// What a packet source delivered and dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceOutcome {
    /// Number of packets that arrived on the line.
    pub offered: u64,
    /// Number of packets dropped because the interface's ring was full.
    pub dropped: u64,
}

impl Outcome {
    /// Converts `packets` packets in this run to a rate in kpps.
    pub fn kpps(&self, packets: u64) -> f64 {
        packets as f64 * self.clock_hz / self.cycles as f64 / 1e3
    }

    /// Returns a strand's CPI; `None` if it issued no instruction.
    pub fn cpi(&self, strand: &StrandOutcome) -> Option<f64> {
        (strand.instructions > 0).then(|| self.cycles as f64 / strand.instructions as f64)
    }

    /// Returns the counts for the strand with this name.
    pub fn strand(&self, name: &str) -> Option<&StrandOutcome> {
        self.strands.iter().find(|strand| strand.name == name)
    }
}

impl SourceOutcome {
    pub(super) fn since(&self, before: &Self) -> Self {
        Self { offered: self.offered - before.offered, dropped: self.dropped - before.dropped }
    }
}

impl TaskOutcome {
    fn since(&self, before: &Self) -> Self {
        Self {
            packets: self.packets - before.packets,
            dropped: self.dropped - before.dropped,
            idle_polls: self.idle_polls - before.idle_polls,
            blocked: self.blocked - before.blocked,
        }
    }
}

impl StrandOutcome {
    pub(super) fn since(&self, before: &Self) -> Self {
        let tasks = self.tasks.iter().zip(&before.tasks).map(|(after, b)| after.since(b));
        Self {
            name: self.name.clone(),
            cpu: self.cpu,
            instructions: self.instructions - before.instructions,
            stalls: self.stalls.since(&before.stalls),
            waited: self.waited - before.waited,
            tasks: tasks.collect(),
        }
    }

    /// Returns the number of packets that the strand's tasks enqueued or sent.
    pub fn packets(&self) -> u64 {
        self.tasks.iter().map(|task| task.packets).sum()
    }

    /// Returns the instructions per packet, polling included; `None` if there were no packets.
    pub fn instructions_per_packet(&self) -> Option<f64> {
        let packets = self.packets();
        (packets > 0).then(|| self.instructions as f64 / packets as f64)
    }
}
