// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result of a simulated run.

/// Settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of cycles before counting starts, in which the queues fill.
    pub warm_up_cycles: u64,
    /// Number of cycles counted: at least 1 and, together with the warm-up, at most
    /// [`Run::CYCLES_MAX`].
    pub cycles: u64,
    /// Random seed for the distances between misses.
    pub seed: u64,
}

impl Run {
    /// Maximum number of cycles in a run: fixed-point values have 32 integer bits.
    pub const CYCLES_MAX: u64 = 1 << 31;
}

/// Counts of a run, excluding the warm-up. All are of evidence tier `model`.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Cycles counted.
    pub cycles: u64,
    /// Clock of the chip in cycles per second.
    pub clock_hz: f64,
    /// Counts of the strands, in the order of [`super::System::strands`].
    pub strands: Vec<StrandOutcome>,
    /// Counts of the sources, in the order of [`super::System::sources`].
    pub sources: Vec<SourceOutcome>,
    /// Number of simulated cycles, including the warm-up, times the number of cores on which
    /// anything is simulated.
    pub core_cycles: u64,
}

/// Counts of a strand.
///
/// The cycles of a strand that is not parked are its instructions, its stalls and the cycles in
/// which it was ready while another strand issued: `cycles = instructions + stalls.sum() + waited`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StrandOutcome {
    /// Name.
    pub name: String,
    /// Logical CPU.
    pub cpu: u32,
    /// Instructions issued.
    pub instructions: u64,
    /// Cycles in which the strand could not issue, by cause.
    pub stalls: Stalls,
    /// Cycles in which the strand was ready, but a neighbour issued.
    pub waited: u64,
    /// By task.
    pub tasks: Vec<TaskOutcome>,
}

/// Packets and polls of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskOutcome {
    /// Packets handed over or sent.
    pub packets: u64,
    /// Packets dropped because the queue was full ([`super::WhenFull::Drop`]).
    pub dropped: u64,
    /// Polls that found no packet.
    pub idle_polls: u64,
    /// Attempts to hand over a packet that found no room ([`super::WhenFull::Wait`]).
    pub blocked: u64,
}

/// Stall cycles of a strand by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Bubbles in the pipe.
    pub bubbles: u64,
    /// L1 misses.
    pub l1: u64,
    /// Additional cycles for L2 misses.
    pub l2: u64,
    /// Waits for shared units.
    pub units: u64,
    /// Uncached reads made by polls.
    pub io: u64,
    /// Deliberate pauses.
    pub slow: u64,
}

impl Stalls {
    /// Sum of all causes.
    pub fn sum(&self) -> u64 {
        self.bubbles + self.l1 + self.l2 + self.units + self.io + self.slow
    }

    /// The causes, in the order in which an instruction incurs them.
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

    /// Subtracts the last `cycles` stall cycles of the last instruction, which has the stalls
    /// `last` after its bubbles.
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

/// Counts of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceOutcome {
    /// Packets that arrived.
    pub offered: u64,
    /// Packets dropped because the ring was full.
    pub dropped: u64,
}

impl Outcome {
    /// Rate of `packets` packets in this run, in thousands of packets per second.
    pub fn kpps(&self, packets: u64) -> f64 {
        packets as f64 * self.clock_hz / self.cycles as f64 / 1e3
    }

    /// Cycles per instruction of a strand; `None` if it issued no instruction.
    pub fn cpi(&self, strand: &StrandOutcome) -> Option<f64> {
        (strand.instructions > 0).then(|| self.cycles as f64 / strand.instructions as f64)
    }

    /// The strand with that name.
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

    /// Packets handed over or sent by all of the strand's tasks.
    pub fn packets(&self) -> u64 {
        self.tasks.iter().map(|task| task.packets).sum()
    }

    /// Instructions per packet, polling included; `None` if there were no packets.
    pub fn instructions_per_packet(&self) -> Option<f64> {
        let packets = self.packets();
        (packets > 0).then(|| self.instructions as f64 / packets as f64)
    }
}
