// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks whether a mapping of a path's stages can be run, and formats mappings in short form.
//!
//! Whether the machine has the CPUs is checked elsewhere.

use crate::keys::MAX_WORKERS;
use crate::model::{Mapping, Segment, StageUse};
use crate::spec::{StageSpec, State};
use std::collections::BTreeSet;
use std::fmt;

/// Maximum number of stages in a segment for [`describe`] to list them all.
const SPELLED_OUT: usize = 4;

/// Why a mapping is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A segment has no stages, or does not start where the previous one ends.
    NotConsecutive {
        /// Index of the segment, 0-based.
        segment: usize,
    },
    /// The segments do not end with the last stage.
    NotCovered {
        /// First unassigned stage, or the number of stages if the segments extend beyond the last
        /// stage.
        stage: usize,
    },
    /// A segment has no replicas.
    NoReplica {
        /// Index of the segment, 0-based.
        segment: usize,
    },
    /// A segment lists CPUs, but not one per replica.
    CpuCount {
        /// Index of the segment, 0-based.
        segment: usize,
        /// Number of CPUs listed.
        cpus: usize,
        /// Number of replicas.
        replicas: u32,
    },
    /// A CPU is used twice.
    CpuTwice {
        /// Index of the segment that lists the CPU again, 0-based.
        segment: usize,
        /// Index in that segment's list of CPUs, 0-based.
        index: usize,
        /// The CPU.
        cpu: u32,
    },
    /// A replicated segment contains a stage with global state.
    GlobalState {
        /// Index of the segment, 0-based.
        segment: usize,
        /// Index of the stage, 0-based.
        stage: usize,
        /// Kind of the stage.
        kind: &'static str,
    },
    /// A replicated first segment that receives packets from interfaces has a stage with per-flow
    /// state.
    LiveFlowState {
        /// Index of the segment, always 0.
        segment: usize,
        /// Index of the stage, 0-based.
        stage: usize,
        /// Kind of the stage.
        kind: &'static str,
    },
    /// With this segment, the number of workers exceeds [`MAX_WORKERS`].
    TooManyWorkers {
        /// Index of the segment, 0-based.
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
                write!(f, "the segments must cover all stages, but they end before stage {stage}")
            }
            Self::NoReplica { segment } => write!(f, "segment {segment} needs at least 1 replica"),
            Self::CpuCount { cpus, replicas, .. } => write!(
                f,
                "CPUs listed: {cpus}; replicas: {replicas}; give one CPU per replica, or none"
            ),
            Self::CpuTwice { cpu, .. } => {
                write!(f, "CPU {cpu} is used twice; each worker needs its own CPU")
            }
            Self::GlobalState { kind, .. } => write!(
                f,
                "a '{kind}' stage has global state, so it must not be replicated; give it its own \
                 worker with replicas = 1"
            ),
            Self::LiveFlowState { kind, .. } => write!(
                f,
                "a '{kind}' stage keeps per-flow state, but the kernel may put the two directions \
                 of a flow into different queues of a live source; move the stage to a later \
                 worker, behind a ring, or set replicas = 1"
            ),
            Self::TooManyWorkers { workers, .. } => {
                write!(f, "the mapping has {workers} workers, but the limit is {MAX_WORKERS}")
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl Mapping {
    /// Checks that the mapping can be run. `stages` are the stages' specifications, in order.
    ///
    /// # Errors
    /// Returns all reasons why the mapping cannot be run, by segment.
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

/// Formats a mapping in one line: `parse+verify | filter+nat44 x2`. Omits CPUs. A segment of more
/// than four stages is abbreviated to its first and last stage, `parse…count`; this is unambiguous,
/// because segments are consecutive and names are unique.
pub fn describe(mapping: &Mapping, stages: &[StageUse]) -> String {
    let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
    describe_names(mapping, &names)
}

/// Formats the mapping like [`describe`], given the stage names in path order.
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
