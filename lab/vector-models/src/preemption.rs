// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of preemption, i.e. which contexts can preempt which. Frequencies are not modelled.

/// How tasks are scheduled while no interrupt runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// Time slices: any task may get the CPU at any time.
    Sliced,
    /// Fixed priorities: the ready task with the highest index always runs.
    ByPriority {
        /// Whether a task may sleep while it uses vectors.
        may_sleep: bool,
    },
}

/// A kind of preemption, with the numbers of contexts to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// Name used in tables.
    pub name: &'static str,
    /// Description of the explored configuration.
    pub extent: &'static str,
    /// Number of tasks.
    pub tasks: usize,
    /// How the scheduler switches tasks.
    pub policy: Tasks,
    /// Number of interrupt levels. Each interrupts tasks, the scheduler and lower levels, and ends
    /// before they resume.
    pub interrupts: usize,
}

impl Preemption {
    /// Returns the number of tasks and interrupts.
    #[must_use]
    pub fn contexts(&self) -> usize {
        self.tasks + self.interrupts
    }
}

const BY_PRIORITY: Tasks = Tasks::ByPriority { may_sleep: false };

/// All kinds, most restricted first.
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
