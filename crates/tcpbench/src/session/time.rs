// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session's virtual time, and the watchdog that ends it if there is no progress.

use super::{Session, Slice};
use crate::endpoint::{Micros, Side, State};
use crate::error::{Error, Stuck};

/// Virtual time without progress after which a run fails. A sender that gets no reply doubles its
/// timeout from one second to at most a minute, so this allows more than ten attempts.
const PATIENCE: Micros = 600_000_000;

/// Number of iterations without progress after which a run fails, regardless of virtual time. They
/// take a few seconds of real time.
const PATIENCE_TURNS: u64 = 2_000_000;

/// Virtual time without progress after which the wire starts recording the last segment, for the
/// error message.
const UNEASE: Micros = 10_000_000;

/// Number of iterations without progress that have the same effect as [`UNEASE`].
pub(super) const UNEASE_TURNS: u64 = 10_000;

/// Time and iteration count at the last progress.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    progress: u64,
    since: Micros,
    pub(super) turns: u64,
}

impl Session {
    /// Iterates until `done` returns true.
    pub(super) fn until(&mut self, done: impl Fn(&Self) -> bool) -> Result<(), Error> {
        while !done(self) {
            let busy = self.turn();
            self.advance(busy)?;
        }
        Ok(())
    }

    /// Runs one iteration, which takes one virtual microsecond. Returns whether the wire carried
    /// anything.
    pub(super) fn turn(&mut self) -> bool {
        self.now += 1;
        self.client.poll(self.now, &mut self.wire.port(Side::Client));
        let mut carried = self.wire.carry(self.now);
        self.server.poll(self.now, &mut self.wire.port(Side::Server));
        carried |= self.wire.carry(self.now);
        carried
    }

    /// Advances time to the next event if nothing moved in this iteration (`busy` is false). Then
    /// checks for progress.
    pub(super) fn advance(&mut self, busy: bool) -> Result<(), Error> {
        if !busy {
            let ends = [self.client.poll_at(self.now), self.server.poll_at(self.now)];
            let others =
                self.wire.next_arrival().into_iter().chain(self.alarm.filter(|at| *at > self.now));
            let next = ends.into_iter().flatten().chain(others).min();
            match next {
                Some(at) => self.now = self.now.max(at.saturating_sub(1)),
                // No event is pending, but an application may have data to send.
                None => self.now += 1,
            }
        }
        let Slice { bytes, exchanges, .. } = self.totals();
        let progress = bytes + exchanges + u64::from(self.client.state() == State::Open);
        if progress != self.watchdog.progress {
            self.watchdog = Watchdog { progress, since: self.now, turns: 0 };
            return Ok(());
        }
        self.watchdog.turns += 1;
        self.bark()
    }

    /// Returns an error if there has been no progress for too long.
    pub(super) fn bark(&mut self) -> Result<(), Error> {
        let Watchdog { since, turns, .. } = self.watchdog;
        let waited = self.now - since;
        if waited > UNEASE || turns > UNEASE_TURNS {
            self.wire.keep_last();
        }
        if waited <= PATIENCE && turns <= PATIENCE_TURNS {
            return Ok(());
        }
        let bad_checksums = self.counters().iter().map(|counted| counted.bad_checksums).sum();
        Err(Error::Stuck(Box::new(Stuck {
            stacks: self.stacks.clone(),
            pattern: self.setup.pattern.name().to_owned(),
            set: self.set.clone(),
            seconds: waited / 1_000_000,
            turns,
            bytes: self.totals().bytes,
            bad_checksums,
            segment: self.wire.last(),
        })))
    }
}
