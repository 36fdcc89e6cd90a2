// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seam: the interface through which a stack calls its routines. Here, the calls can be
//! counted, timed or sampled.

use super::{Routines, Tallies, Tally};
use linerate_kernels::{Sum, checksum};
use linerate_machine::ticks;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Interface between a stack and its routine set. Every call of a routine goes through it and can
/// be observed.
#[derive(Clone, Debug)]
pub struct Seam {
    routines: Routines,
    eye: Eye,
}

/// What observes the calls to routines.
#[derive(Clone, Debug)]
enum Eye {
    Nobody,
    /// Counts and times the calls.
    Tallies(Box<Tallies>, Reading),
    /// Stores the current activity where a sampling thread can read it.
    Sampler(Arc<AtomicU8>),
}

/// What the program is doing at the time of a sample, numbered as in `plugin.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// The stack itself, and everything else in the run.
    Stack,
    /// A routine that computes a checksum without copying.
    Checksum,
    /// A routine that copies without a checksum.
    Copy,
    /// A routine that copies and computes a checksum.
    CopyChecksum,
    /// Work that is not part of the measured run, such as comparing data.
    Comparing,
}

/// How the timestamp counter is read around a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Serializing read, which waits until all earlier instructions have completed. This delays
    /// code that would otherwise overlap with the call, so the measured time is too long.
    Waiting,
    /// Non-serializing read. The call may still be executing at the second read, so the measured
    /// time is too short.
    Passing,
}

impl Reading {
    /// Returns the function that reads the counter. The plug-in has to call it through a pointer,
    /// so linerate's own code does, too: a read then costs the same everywhere.
    pub(crate) fn function(self) -> extern "C" fn() -> u64 {
        extern "C" fn waiting() -> u64 {
            ticks::ticks_in_order()
        }
        extern "C" fn passing() -> u64 {
            ticks::ticks()
        }
        match self {
            Self::Waiting => waiting,
            Self::Passing => passing,
        }
    }
}

/// Returns the ticks measured for an empty call: the cost of reading the counter, and of draining
/// and refilling the pipeline. Takes the median, because a few calls are interrupted.
pub(crate) fn empty_call_ticks(reading: Reading) -> f64 {
    let (copy, read) = (Routines::document().copy, black_box(reading.function()));
    let one = |_| {
        let before = read();
        copy.copy(&mut [], &[]);
        read() - before
    };
    let mut all: Vec<u64> = (0..1001).map(one).collect();
    all.sort_unstable();
    all[all.len() / 2] as f64
}

impl Eye {
    /// Calls a routine and reports the call to the observer, if there is one. There is none while
    /// routine sets are ranked.
    #[inline(always)]
    fn see<R>(
        &mut self,
        what: Activity,
        tally: fn(&mut Tallies) -> &mut Tally,
        bytes: &[u8],
        call: impl FnOnce() -> R,
    ) -> R {
        match self {
            Self::Nobody => call(),
            _ => self.see_watched(what, tally, bytes, call),
        }
    }

    /// Counts a call that is too short to be timed.
    #[inline(always)]
    fn count(&mut self, tally: fn(&mut Tallies) -> &mut Tally, bytes: &[u8]) {
        if let Self::Tallies(tallies, _) = self {
            tally(tallies).count(bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn see_watched<R>(
        &mut self,
        what: Activity,
        tally: fn(&mut Tallies) -> &mut Tally,
        bytes: &[u8],
        call: impl FnOnce() -> R,
    ) -> R {
        match self {
            Self::Nobody => call(),
            Self::Tallies(tallies, reading) => {
                let read = reading.function();
                let before = read();
                let result = call();
                let ticks = read() - before;
                tally(tallies).time(bytes, ticks);
                result
            }
            Self::Sampler(activity) => {
                activity.store(what as u8, Ordering::Relaxed);
                let result = call();
                activity.store(Activity::Stack as u8, Ordering::Relaxed);
                result
            }
        }
    }
}

impl Seam {
    /// Creates a seam that nothing observes.
    pub fn new(routines: Routines) -> Self {
        Self { routines, eye: Eye::Nobody }
    }

    /// Starts or stops counting and timing calls to routines, and resets the statistics.
    pub fn watch(&mut self, reading: Option<Reading>) {
        self.eye = reading.map_or(Eye::Nobody, |reading| Eye::Tallies(Box::default(), reading));
    }

    /// Starts or stops storing the current activity where a sampler can read it.
    pub fn mark(&mut self, activity: Option<&Arc<AtomicU8>>) {
        self.eye = activity.map_or(Eye::Nobody, |activity| Eye::Sampler(Arc::clone(activity)));
    }

    /// Returns the statistics collected since calls were last watched.
    pub fn tallies(&self) -> Tallies {
        match &self.eye {
            Eye::Tallies(tallies, _) => tallies.as_ref().clone(),
            Eye::Nobody | Eye::Sampler(_) => Tallies::default(),
        }
    }

    /// Adds bytes to a checksum with the set's routine.
    #[inline]
    pub fn checksum(&mut self, bytes: &[u8], sum: u32) -> u32 {
        let routine = self.routines.checksum;
        let call = || routine.checksum(bytes, sum);
        self.eye.see(Activity::Checksum, |t| &mut t.checksum, bytes, call)
    }

    /// Copies bytes with the set's routine.
    #[inline]
    pub fn copy(&mut self, to: &mut [u8], from: &[u8]) {
        let routine = self.routines.copy;
        self.eye.see(Activity::Copy, |t| &mut t.copy, from, || routine.copy(to, from));
    }

    /// Copies bytes and adds them to a checksum, in two passes if the set has no combined routine.
    #[inline]
    pub fn copy_checksum(&mut self, to: &mut [u8], from: &[u8], sum: u32) -> u32 {
        let Some(both) = self.routines.copy_checksum else {
            self.copy(to, from);
            return self.checksum(to, sum);
        };
        let call = || both.copy_checksum(to, from, sum);
        self.eye.see(Activity::CopyChecksum, |t| &mut t.copy_checksum, from, call)
    }

    /// Adds a header to a sum. This is inline in every set, because the header may have just been
    /// written in pieces, and a wider load would defeat store forwarding. The addition is counted
    /// but not timed, because reading the counter takes ten times as long.
    #[inline]
    pub fn header(&mut self, header: &[u8], sum: Sum) -> Sum {
        self.eye.count(|t| &mut t.header, header);
        checksum::header(header, sum)
    }

    /// Copies a header and adds it to a sum, inline for the same reasons as
    /// [`header`](Self::header).
    #[inline]
    pub fn copy_header(&mut self, to: &mut [u8], from: &[u8], sum: Sum) -> Sum {
        self.eye.count(|t| &mut t.copy_header, from);
        checksum::copy_header(to, from, sum)
    }
}
