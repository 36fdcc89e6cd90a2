// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events opened, started, turned and read: what [`crate::rotation`] computes with.

use crate::event::Event;
use crate::opener::Opener;
use crate::refusal::Refusal;
use crate::rotation::{Counts, Plan};
use crate::surroundings::Surroundings;
use linerate_record::Tier;
use std::io;
use std::time::Duration;

/// Whose events are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A child that waits before execve(2), by its number; counting begins with that call.
    Held(u32),
    /// One thread, by its number.
    Thread(u32),
    /// All threads that a process has now, by its number.
    Process(u32),
    /// Everything on some logical CPUs.
    Cpus(Vec<u32>),
    /// The calling thread.
    CurrentThread,
}

/// How to count.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Whether user mode alone is counted; `None`: both modes, or user mode alone for those
    /// hardware events for which this machine grants no more.
    pub user_only: Option<bool>,
    /// Whether threads and processes that the target creates from now on are counted with it.
    pub inherit: bool,
    /// The nominal length of a slice.
    pub slice: Duration,
    /// Of the order of the sets.
    pub seed: u64,
    /// The event, by its place, whose counts a scaled count goes by; `None`: time.
    pub scale_by: Option<usize>,
    /// Whether the processor is one of the event tables'; refusals are explained by it.
    pub is_known_processor: bool,
}

impl Default for Options {
    fn default() -> Self {
        todo!()
    }
}

/// Events that are open.
#[derive(Debug)]
pub struct Session {}

impl Session {
    /// Opens events, stopped. One that is refused keeps none of the others from being counted:
    /// see [`Session::outcomes`].
    pub fn open(
        opener: &dyn Opener,
        surroundings: &Surroundings,
        events: &[Event],
        scope: &Scope,
        options: &Options,
    ) -> Self {
        let _ = (opener, surroundings, events, scope, options);
        todo!()
    }

    /// For each event, whether it is counted. [`Session::finish`] adds those that were opened but
    /// never got a counter.
    pub fn outcomes(&self) -> &[Result<(), Refusal>] {
        todo!()
    }

    /// Which events count when.
    pub fn plan(&self) -> &Plan {
        todo!()
    }

    /// Whether user mode alone is counted of this event.
    pub fn is_user_only(&self, event: usize) -> bool {
        let _ = event;
        todo!()
    }

    /// What the counts of hardware events rest on: `hw` or `user`; `None` where none is open.
    pub fn tier(&self) -> Option<Tier> {
        todo!()
    }

    /// Starts counting, but for [`Scope::Held`], where execve(2) does. Gives the time until
    /// [`Session::turn`] wants to be called.
    ///
    /// # Errors
    /// What ioctl(2) says.
    pub fn start(&mut self) -> io::Result<Duration> {
        todo!()
    }

    /// Ends this slice and begins the next. Gives the time until it wants to be called again; later
    /// does no harm to the counts, only to their intervals.
    pub fn turn(&mut self) -> Duration {
        todo!()
    }

    /// The counts from the start until now.
    pub fn snapshot(&mut self) -> Counts {
        todo!()
    }

    /// The counts since the last call, or since the start.
    pub fn lap(&mut self) -> Counts {
        todo!()
    }

    /// Stops counting; the counts from the start until now.
    pub fn finish(&mut self) -> Counts {
        todo!()
    }
}
