// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the constraints on a mapping, and writes a mapping in its short form.
//!
//! Whether the machine has the CPUs of a mapping is not checked here.

use crate::keys::MAX_WORKERS;
use crate::model::{Mapping, Segment, StageUse};
use crate::spec::{StageSpec, State};
use std::collections::BTreeSet;
use std::fmt;

/// Maximum number of stages of a segment that [`describe`] spells out.
const SPELLED_OUT: usize = 4;

/// Reason for rejecting a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A segment has no stages, or does not begin where the previous one ends.
    NotConsecutive {
        /// Index of the segment, from 0.
        segment: usize,
    },
    /// The segments do not end with the last stage.
    NotCovered {
        /// Index of the first stage that is not assigned; the number of stages if the segments go
        /// beyond the last one.
        stage: usize,
    },
    /// A segment has no replicas.
    NoReplica {
        /// Index of the segment, from 0.
        segment: usize,
    },
    /// A segment lists CPUs, but not one per replica.
    CpuCount {
        /// Index of the segment, from 0.
        segment: usize,
        /// Number of CPUs that the segment lists.
        cpus: usize,
        /// Number of replicas of the segment.
        replicas: u32,
    },
    /// A CPU is used twice.
    CpuTwice {
        /// Index of the segment that lists the CPU a second time, from 0.
        segment: usize,
        /// Index in the segment's list of CPUs, from 0.
        index: usize,
        /// Number of the CPU.
        cpu: u32,
    },
    /// A replicated segment has a stage with global state.
    GlobalState {
        /// Index of the segment, from 0.
        segment: usize,
        /// Index of the stage, from 0.
        stage: usize,
        /// Kind of the stage.
        kind: &'static str,
    },
    /// With this segment, the number of workers exceeds [`MAX_WORKERS`].
    TooManyWorkers {
        /// Index of the segment, from 0.
        segment: usize,
        /// Number of workers up to and including this segment.
        workers: usize,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConsecutive { segment } => write!(
                f,
                "segment {segment} must contain at least one stage and begin where the previous \
                 one ends"
            ),
            Self::NotCovered { stage } => {
                write!(f, "the segments must include the last stage, but end before stage {stage}")
            }
            Self::NoReplica { segment } => write!(f, "segment {segment} needs at least 1 replica"),
            Self::CpuCount { cpus, replicas, .. } => {
                write!(f, "{cpus} CPUs for {replicas} replicas; give one for each, or none")
            }
            Self::CpuTwice { cpu, .. } => {
                write!(f, "CPU {cpu} is used twice; each worker needs its own")
            }
            Self::GlobalState { kind, .. } => write!(
                f,
                "a '{kind}' stage has global state, so it must not be replicated; give it its own \
                 worker with replicas = 1"
            ),
            Self::TooManyWorkers { workers, .. } => {
                write!(f, "{workers} workers; the limit is {MAX_WORKERS}")
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl Mapping {
    /// Checks that the mapping can be run; `stages` are the specifications of the stages in order.
    ///
    /// # Errors
    /// Returns all reasons why the mapping cannot be run, in order of segments.
    pub fn check(&self, stages: &[StageSpec]) -> Result<(), Vec<Refusal>> {
        let mut refusals = Vec::new();
        let mut end = 0;
        let mut workers = 0;
        let mut cpus = BTreeSet::new();
        for (index, segment) in self.segments.iter().enumerate() {
            if segment.stages.start != end || segment.stages.is_empty() {
                refusals.push(Refusal::NotConsecutive { segment: index });
            }
            end = segment.stages.end;
            let before = workers;
            workers += segment.replicas as usize;
            if before <= MAX_WORKERS && workers > MAX_WORKERS {
                refusals.push(Refusal::TooManyWorkers { segment: index, workers });
            }
            segment.check_replicas(index, stages, &mut refusals);
            segment.check_cpus(index, &mut cpus, &mut refusals);
        }
        if end != stages.len() {
            refusals.push(Refusal::NotCovered { stage: end.min(stages.len()) });
        }
        if refusals.is_empty() { Ok(()) } else { Err(refusals) }
    }
}

impl Segment {
    fn check_replicas(&self, index: usize, stages: &[StageSpec], refusals: &mut Vec<Refusal>) {
        if self.replicas == 0 {
            refusals.push(Refusal::NoReplica { segment: index });
        }
        if self.replicas > 1 {
            let held = stages.iter().enumerate().filter(|(i, _)| self.stages.contains(i));
            refusals.extend(held.filter(|(_, spec)| spec.state == State::Global).map(
                |(stage, spec)| Refusal::GlobalState { segment: index, stage, kind: spec.kind },
            ));
        }
    }

    fn check_cpus(&self, segment: usize, seen: &mut BTreeSet<u32>, refusals: &mut Vec<Refusal>) {
        let cpus = self.cpus.len();
        if cpus != 0 && cpus != self.replicas as usize {
            refusals.push(Refusal::CpuCount { segment, cpus, replicas: self.replicas });
        }
        for (index, &cpu) in self.cpus.iter().enumerate() {
            if !seen.insert(cpu) {
                refusals.push(Refusal::CpuTwice { segment, index, cpu });
            }
        }
    }
}

/// Returns the mapping in one line, such as `parse+verify | filter+nat44 x2`. A segment of more
/// than four stages is shown by its first and last stage, `parse…count`, which is unambiguous since
/// segments are consecutive and names unique. CPUs are not shown.
pub fn describe(mapping: &Mapping, stages: &[StageUse]) -> String {
    let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
    describe_names(mapping, &names)
}

/// Returns the mapping in one line as [`describe`] does, for stages with these names, in path
/// order.
pub fn describe_names(mapping: &Mapping, names: &[&str]) -> String {
    let segments = mapping.segments.iter().map(|segment| {
        let names = names.get(segment.stages.clone()).unwrap_or_default();
        let shown = match names {
            [first, .., last] if names.len() > SPELLED_OUT => format!("{first}…{last}"),
            _ => names.join("+"),
        };
        if segment.replicas == 1 { shown } else { format!("{shown} x{}", segment.replicas) }
    });
    segments.collect::<Vec<_>>().join(" | ")
}
