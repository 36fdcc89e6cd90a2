// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cycle-by-cycle simulator for chip multithreading, in which strands share a processor's
//! pipelines.
//!
//! A [`System`] consists of a [`Chip`], the work of its strands, the queues between the strands,
//! and the lines that deliver packets. [`simulate`] runs it for a number of cycles and counts
//! events.
//!
//! # The model
//!
//! ```text
//! in each cycle, on each pipe:
//!     of the ready strands, the one that issued least recently issues an instruction
//!     it is ready again after 1 cycle plus
//!         the bubbles of the instruction                     pipeline: branches, load-use delays
//!         for an L1 miss, the L2 latency; for an L2 miss, also the memory latency
//!         the wait for a shared unit                         one instruction per interval
//!         at the end of a poll, the stall of the poll        uncached reads of NIC registers
//! each strand, forever, for each of its tasks in rotation:
//!     polls the input
//!     if there is a packet: processes it and hands it off
//! ```
//!
//! A change to a queue at cycle `t` is visible at the other end at `t` plus the queue's handoff
//! delay, which is at least one cycle, so the order of pipes within a cycle has no effect.
//!
//! Fractional means are reproduced by carrying the remainder. The distances between misses, and
//! between uses of a unit, are uniformly distributed between 0 and twice their mean. Each strand
//! draws them from its own random number generator, initialized from the seed.
//!
//! An [`Application`] is a description, read from a file, of what each strand does; [`rank`]
//! compares all placements of an application. [`fit`] estimates an application's undocumented
//! numbers. [`processor`] describes processors as data; [`planner`] recommends changes to a packet
//! path on a processor.
//!
//! # Left out
//!
//! The simulator does not model cache contents (the work determines the misses, whatever the
//! neighbours do), more than one outstanding miss per strand, bandwidth limits, the use of units by
//! polling, or interrupts.
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
