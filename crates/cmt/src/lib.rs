// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cycle-by-cycle simulator of chip multithreading: strands that share the pipelines of a
//! processor.
//!
//! A [`System`] consists of a [`Chip`], the work of its strands, the queues between the strands,
//! and the lines that deliver packets. [`simulate`] runs it for a number of cycles and counts
//! events.
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
//! A change to a queue at cycle `t` is visible at the other end at `t` plus the queue's hand-over,
//! which is at least one cycle, so the order of pipes within a cycle has no effect.
//!
//! Means that are not whole numbers are met by carrying the remainder. The distances between
//! misses, and between uses of a unit, are uniformly distributed between 0 and twice their mean.
//! They are drawn from a random number generator per strand, initialized from the seed.
//!
//! [`Application`] reads the work of strands from a file; [`rank`] compares all placements of an
//! application. [`fit`] estimates an application's undocumented numbers. [`processor`] describes
//! processors as data; [`planner`] recommends changes to a packet path on a processor.
//!
//! # Left out
//!
//! Not modelled: cache contents (misses are a property of the work, even if neighbours change),
//! more than one outstanding miss per strand, bandwidth limits, use of units by polling, and
//! interrupts.
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
