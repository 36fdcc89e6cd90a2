// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of preemption: which contexts can preempt which. Without frequencies.

/// Scheduling of tasks while no interrupt runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// Any task may be given the processor at any time.
    Sliced,
    /// The last ready one always runs.
    ByPriority {
        /// Whether a task may sleep while it uses vectors.
        may_sleep: bool,
    },
}

/// A kind of preemption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// Its name in tables.
    pub name: &'static str,
    /// The explored configuration, in words.
    pub extent: &'static str,
    /// Number of tasks.
    pub tasks: usize,
    /// Their scheduling.
    pub policy: Tasks,
    /// Number of interrupt levels; each interrupts tasks, the scheduler and lower levels, and ends
    /// before they resume.
    pub interrupts: usize,
}

impl Preemption {
    /// Tasks and interrupts.
    #[must_use]
    pub fn contexts(&self) -> usize {
        self.tasks + self.interrupts
    }
}

const BY_PRIORITY: Tasks = Tasks::ByPriority { may_sleep: false };

/// All kinds, from the tamest on.
pub const PREEMPTIONS: &[Preemption] = &[
    Preemption {
        name: "nested interrupts",
        extent: "a task, 3 levels of interrupts",
        tasks: 1,
        policy: BY_PRIORITY,
        interrupts: 3,
    },
    Preemption {
        name: "strict priorities",
        extent: "3 tasks, 1 level of interrupts",
        tasks: 3,
        policy: BY_PRIORITY,
        interrupts: 1,
    },
    Preemption {
        name: "priorities, sleep inside",
        extent: "3 tasks that may sleep between enter and leave",
        tasks: 3,
        policy: Tasks::ByPriority { may_sleep: true },
        interrupts: 0,
    },
    Preemption {
        name: "time slices",
        extent: "3 tasks",
        tasks: 3,
        policy: Tasks::Sliced,
        interrupts: 0,
    },
    Preemption {
        name: "slices and interrupts",
        extent: "2 tasks, 2 levels of interrupts",
        tasks: 2,
        policy: Tasks::Sliced,
        interrupts: 2,
    },
];
