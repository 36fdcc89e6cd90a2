// SPDX-License-Identifier: MIT OR Apache-2.0
//! Client, server and wire under one pattern, and the loop that runs them.
//!
//! ```text
//! each iteration, one virtual microsecond:
//!     the application writes to the client as much as there is room for
//!     the client processes arrived frames and sends
//!     the wire carries frames
//!     the server processes arrived frames and sends
//!     the application reads what the server has received
//! if nothing moved: advance to the next event
//! if there is no progress for a long time: fail, and report the last segment on the wire
//! ```
//!
//! A session carries over from one slice of work to the next, so that sets can be interleaved
//! without reconnecting. Comparing the received data is not timed.

mod applications;
mod setup;
mod time;

use crate::endpoint::{Checksums, Counters, Endpoint, HEADER_BYTES, Micros, Side, Stack};
use crate::error::Error;
use crate::pattern::Pattern;
use crate::routines::{Activity, Reading, Set, Tallies};
use crate::stream::{Sink, Stream};
use crate::wire::{Carried, Wire};
use linerate_trial::{Dropped, Machine, Window};
pub use setup::Setup;
use setup::{config, write_bytes};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use time::Watchdog;

/// What one slice of work did, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Number of payload bytes received and compared, in both directions.
    pub bytes: u64,
    /// Number of exchanges, or of connections opened and closed.
    pub exchanges: u64,
    /// Number of frames sent, in both directions.
    pub frames: u64,
    /// CPU time in nanoseconds, excluding comparisons.
    pub cpu_ns: u64,
    /// Elapsed virtual time in microseconds.
    pub virtual_us: u64,
    /// Why the slice is not a clean window; `None` if it is one.
    pub dropped: Option<Dropped>,
}

/// Two endpoints, a wire and two applications.
pub struct Session {
    stacks: String,
    set: String,
    setup: Setup,
    client: Box<dyn Endpoint>,
    server: Box<dyn Endpoint>,
    wire: Wire,
    stream: Rc<Stream>,
    random: fastrand::Rng,
    now: Micros,
    /// Virtual time at which the application must act, even if no frame has arrived by then.
    alarm: Option<Micros>,
    /// Bytes sent by the client.
    sent: u64,
    /// Size of the next message in bytes, for patterns with messages.
    message: usize,
    /// Data received by the server.
    at_server: Sink,
    /// Data received by the client.
    at_client: Sink,
    exchanges: u64,
    /// Number of connections that were refused and opened again, because an impaired wire had
    /// delayed or lost segments.
    refused: u64,
    /// CPU time spent on comparisons.
    comparing_ns: u64,
    /// Memory location that a sampler reads, in which the current activity is stored.
    activity: Option<Arc<AtomicU8>>,
    watchdog: Watchdog,
    clock: Machine,
}

impl Session {
    /// Creates both ends and connects them, except for [`Pattern::Response`].
    ///
    /// # Errors
    /// Returns an error if a stack does not support the request, or if connecting fails.
    pub fn new(
        setup: &Setup,
        [client, server]: [&dyn Stack; 2],
        set: &Set,
        stream: &Rc<Stream>,
    ) -> Result<Self, Error> {
        let end = |stack: &dyn Stack, side| {
            let made = stack.endpoint(&config(setup, set, side));
            made.map_err(|reason| Error::Stack { stack: stack.name().to_owned(), reason })
        };
        let stacks = match client.name() == server.name() {
            true => client.name().to_owned(),
            false => format!("{} to {}", client.name(), server.name()),
        };
        let bytes_max = setup.segment + HEADER_BYTES;
        let summed = set.checksums() != Checksums::Off;
        let room = write_bytes(setup);
        let mut session = Self {
            stacks,
            set: set.name().to_owned(),
            client: end(client, Side::Client)?,
            server: end(server, Side::Server)?,
            wire: Wire::new(bytes_max, setup.impairments, summed, setup.seed),
            stream: Rc::clone(stream),
            random: fastrand::Rng::with_seed(setup.seed ^ 0x6d69_7865),
            now: 0,
            alarm: None,
            sent: 0,
            message: 0,
            at_server: Sink::new(room),
            at_client: Sink::new(room),
            exchanges: 0,
            refused: 0,
            comparing_ns: 0,
            activity: None,
            watchdog: Watchdog::default(),
            clock: Machine::kernel(),
            setup: setup.clone(),
        };
        if setup.pattern != Pattern::Response {
            session.connect()?;
        }
        Ok(session)
    }

    /// Runs `amount` of work: payload bytes, exchanges or connections, depending on the pattern.
    ///
    /// # Errors
    /// Returns an error if there is no progress, if the connection has ended, or if the received
    /// data differs from the data sent.
    pub fn run(&mut self, amount: u64) -> Result<Slice, Error> {
        let before = self.totals();
        self.report_activity(Activity::Stack);
        let clock = self.clock;
        let window = Window::open(&clock);
        let compared = self.comparing_ns;
        match self.setup.pattern {
            Pattern::Bulk | Pattern::Jumbo => self.transfer(amount, Self::give_bulk)?,
            Pattern::Mixed => self.transfer(amount, Self::give_messages)?,
            Pattern::Interactive => (0..amount).try_for_each(|_| self.exchange())?,
            Pattern::Response => (0..amount).try_for_each(|_| self.open_and_close())?,
        }
        let window = window.close();
        self.report_activity(Activity::Comparing);
        let cpu_ns = window.charged.cpu_ns.saturating_sub(self.comparing_ns - compared);
        self.compare()?;
        let after = self.totals();
        Ok(Slice {
            bytes: after.bytes - before.bytes,
            exchanges: after.exchanges - before.exchanges,
            frames: after.frames - before.frames,
            cpu_ns,
            virtual_us: after.virtual_us - before.virtual_us,
            dropped: window.verdict.err(),
        })
    }

    fn totals(&self) -> Slice {
        Slice {
            bytes: self.at_server.received() + self.at_client.received(),
            exchanges: self.exchanges,
            frames: self.wire.carried().frames,
            virtual_us: self.now,
            ..Slice::default()
        }
    }

    /// Returns the wire's counts: frames sent, lost, reordered, duplicated and corrupted.
    pub fn carried(&self) -> Carried {
        self.wire.carried()
    }

    /// Returns the frame counts of the client and of the server.
    pub fn counters(&self) -> [Counters; 2] {
        [self.client.counters(), self.server.counters()]
    }

    /// Returns how many connections were refused and reopened because the server mistook a delayed
    /// segment for the start of a connection.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Starts or stops publishing the current activity for a sampler.
    pub(crate) fn mark(&mut self, activity: Option<&Arc<AtomicU8>>) {
        self.client.mark(activity);
        self.server.mark(activity);
        self.activity = activity.map(Arc::clone);
    }

    /// Publishes an activity for the sampler, if any.
    fn report_activity(&self, what: Activity) {
        if let Some(activity) = &self.activity {
            activity.store(what as u8, Ordering::Relaxed);
        }
    }

    /// Starts or stops counting and timing calls to routines.
    pub fn watch(&mut self, reading: Option<Reading>) {
        self.client.watch(reading);
        self.server.watch(reading);
    }

    /// Returns statistics on calls to routines at both ends.
    pub fn tallies(&self) -> Tallies {
        self.client.tallies() + &self.server.tallies()
    }
}

#[cfg(test)]
mod tests;
