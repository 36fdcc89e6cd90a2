// SPDX-License-Identifier: MIT OR Apache-2.0
//! Client, server and wire under one pattern, and the loop that runs them.
//!
//! ```text
//! each turn, one virtual microsecond:
//!     the application gives the client what there is room for
//!     the client takes in what has arrived and sends
//!     the wire carries
//!     the server takes in what has arrived and sends
//!     the application takes what the server has received
//! if nothing moved: on to the next moment at which something will
//! if nothing has got through for long: give up, and say what was on the wire
//! ```
//!
//! A session continues from one slice of work to the next, so that sets can be interleaved without
//! reconnecting. Comparing the received data is not timed.

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

/// Cost of one slice of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Payload bytes that arrived and were compared, in both directions.
    pub bytes: u64,
    /// Exchanges, or connections opened and closed.
    pub exchanges: u64,
    /// Frames sent in both directions.
    pub frames: u64,
    /// CPU time in nanoseconds, without comparisons.
    pub cpu_ns: u64,
    /// Virtual microseconds.
    pub virtual_us: u64,
    /// Reason why the slice does not count, if the thread was off its CPU.
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
    /// Time of an application's next poll if no frame arrives earlier.
    alarm: Option<Micros>,
    /// Bytes sent by the client.
    sent: u64,
    /// Size in bytes of the next message, for patterns with messages.
    message: usize,
    /// Data received by the server, and by the client.
    at_server: Sink,
    at_client: Sink,
    exchanges: u64,
    /// Connections refused because of segments that an impaired wire had delayed or lost.
    refused: u64,
    /// CPU time of the comparisons.
    comparing_ns: u64,
    /// The memory location that a sampler reads.
    activity: Option<Arc<AtomicU8>>,
    watchdog: Watchdog,
    clock: Machine,
}

impl Session {
    /// Creates both ends and connects them, except for [`Pattern::Response`].
    ///
    /// # Errors
    /// A stack does not support the request, or connecting fails.
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

    /// Does this much work: bytes of payload, exchanges or connections, depending on the pattern.
    ///
    /// # Errors
    /// No progress, the connection ended, or the received data differ.
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

    /// Statistics on the wire.
    pub fn carried(&self) -> Carried {
        self.wire.carried()
    }

    /// Counters of client and server.
    pub fn counters(&self) -> [Counters; 2] {
        [self.client.counters(), self.server.counters()]
    }

    /// Connections that were refused and reopened because the server mistook a delayed segment for
    /// the start of a connection.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Starts or stops reporting the running activity to a sampler.
    pub(crate) fn mark(&mut self, activity: Option<&Arc<AtomicU8>>) {
        self.client.mark(activity);
        self.server.mark(activity);
        self.activity = activity.map(Arc::clone);
    }

    /// Reports an activity to the sampler, if there is one.
    fn report_activity(&self, what: Activity) {
        if let Some(activity) = &self.activity {
            activity.store(what as u8, Ordering::Relaxed);
        }
    }

    /// Starts or stops watching the calls to routines.
    pub fn watch(&mut self, reading: Option<Reading>) {
        self.client.watch(reading);
        self.server.watch(reading);
    }

    /// Statistics on the calls at both ends.
    pub fn tallies(&self) -> Tallies {
        self.client.tallies() + &self.server.tallies()
    }
}

#[cfg(test)]
mod tests;
