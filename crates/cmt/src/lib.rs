// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulator of chip multithreading: strands that share the pipes of a processor, cycle by cycle.
//!
//! A [`System`] is a [`Chip`], what its strands run, the queues between them and the lines that
//! bring packets. [`simulate`] runs it for some cycles and counts.
//!
//! # The model
//!
//! ```text
//! each cycle, each pipe:
//!     of its strands that are ready, the one that issued longest ago issues an instruction
//!     it is ready again after 1 cycle and
//!         the bubbles of the instruction                     pipeline: branches, load-use delays
//!         for a miss of the first cache, the second's latency; for a miss of both, memory's too
//!         the wait for a unit that strands share             its turn, one per interval
//!         at the end of a poll, the stall of the poll        uncached reads of an interface
//! a strand, for ever, for each of its tasks in turn:
//!     polls the input
//!     if a packet is there: works on it, hands it over
//! ```
//!
//! What is done to a queue at cycle `t` is seen at the other end at `t` plus the queue's hand-over,
//! which is at least one cycle: the order of pipes within a cycle therefore decides nothing.
//!
//! Means that are no whole numbers are met by carrying the rest along; distances between misses,
//! and between uses of a unit, are drawn uniformly between nothing and twice their mean from a
//! generator that each strand has for itself, started from the seed.
//!
//! [`Application`] reads what strands do from a file, [`rank`] compares all placements of it.
//! [`fit`] finds the numbers of an application that no document gives. [`processor`] describes
//! processors as data, [`planner`] recommends changes of a packet path on one.
//!
//! # Left out
//!
//! What is in the caches: misses are a property of the work, also when neighbours change. More than
//! one miss of a strand at a time. Limits of bandwidth. Units used by polling. Interrupts.
//!
//! Every figure is of evidence tier `model`.

#![forbid(unsafe_code)]

mod application;
mod chip;
mod engine;
pub mod fit;
mod link;
mod outcome;
mod pipe;
mod placement;
pub mod planner;
pub mod processor;
mod share;
mod system;
mod thread;

pub use application::{
    Application, BadApplication, Configuration, LineSpec, Observed, Origin, Parameter, QueueSpec,
    Role, TaskSpec,
};
pub use chip::{Chip, NoChip, Scope, Unit};
pub use engine::simulate;
pub use outcome::{Outcome, Run, SourceOutcome, Stalls, StrandOutcome, TaskOutcome};
pub use placement::{Alike, Best, CannotRank, Kind, Placement, Ranking, Wanted, best, rank};
pub use system::{
    Fault, Input, Misses, Poll, Queue, Runs, Source, Strand, System, Task, UnitUse, WhenFull, Work,
};
