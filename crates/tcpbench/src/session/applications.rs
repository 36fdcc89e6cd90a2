// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session's applications: connect, send, receive, compare.

use super::Session;
use super::setup::write_bytes;
use crate::endpoint::{Micros, Side, State};
use crate::error::Error;
use crate::routines::Activity;
use linerate_linux::thread_cpu_time_ns;

/// How long, in virtual time, the client waits for a server that does not consider the connection
/// established. This is longer than a stack keeps half-open connections: 20 seconds in lwIP
/// (`TCP_SYN_RCVD_TIMEOUT`). Even if a few percent of all handshakes need another attempt, only one
/// connection in a hundred thousand waits this long.
pub(super) const HALF_OPEN: Micros = 60_000_000;

/// Maximum number of messages that the application submits per iteration.
const MESSAGES_PER_ITERATION: usize = 16;

impl Session {
    /// Opens a connection.
    pub(super) fn connect(&mut self) -> Result<(), Error> {
        let (stack, now) = (self.stacks.clone(), self.now);
        let refused = |reason| Error::Stack { stack, reason };
        if self.server.state() == State::Closed {
            self.server.open(now).map_err(refused.clone())?;
        }
        self.client.open(now).map_err(refused)?;
        self.shake_hands()
    }

    /// Runs until both ends consider the connection established. If the server drops the
    /// connection, opens another one.
    pub(super) fn shake_hands(&mut self) -> Result<(), Error> {
        let over = self.now + HALF_OPEN;
        let is_over = |s: &Self| match [s.client.state(), s.server.state()] {
            [State::Open, State::Open] | [State::Closed, _] => true,
            [State::Open, _] => s.now >= over,
            _ => false,
        };
        self.alarm = Some(over);
        self.until(is_over)?;
        self.alarm = None;
        if [self.client.state(), self.server.state()] == [State::Open; 2] {
            return Ok(());
        }
        // The server has dropped a connection that the client considers open, and reports it when
        // the client closes it.
        self.client.close();
        self.until(|s| s.client.state() == State::Closed)?;
        self.refused += 1;
        self.connect()
    }

    pub(super) fn open_and_close(&mut self) -> Result<(), Error> {
        self.connect()?;
        self.client.close();
        self.until(|s| matches!(s.server.state(), State::PeerClosed | State::Closed))?;
        self.server.close();
        self.until(|s| s.client.state() == State::Closed && s.server.state() == State::Closed)?;
        self.exchanges += 1;
        Ok(())
    }

    /// Sends one or two bytes and waits for the echo.
    pub(super) fn exchange(&mut self) -> Result<(), Error> {
        let bytes = 1 + (self.exchanges % 2) as usize;
        let message = self.stream.piece(self.sent, bytes);
        let sent = self.client.send(message);
        self.sent += sent as u64;
        let target = self.sent;
        while self.at_client.received() < target {
            self.open_still()?;
            let mut busy = self.turn();
            let before = self.at_server.received();
            busy |= self.take(Side::Server)?;
            let arrived = (self.at_server.received() - before) as usize;
            let echo = self.stream.piece(before, arrived);
            let echoed = self.server.send(echo);
            debug_assert_eq!(echoed, arrived, "the buffer holds more than an exchange");
            busy |= self.take(Side::Client)?;
            self.advance(busy)?;
        }
        self.exchanges += 1;
        Ok(())
    }

    /// Sends until `bytes` more bytes have arrived.
    pub(super) fn transfer(
        &mut self,
        bytes: u64,
        give: fn(&mut Self) -> bool,
    ) -> Result<(), Error> {
        let target = self.at_server.received() + bytes;
        while self.at_server.received() < target {
            self.open_still()?;
            let mut busy = give(self);
            busy |= self.turn();
            busy |= self.take(Side::Server)?;
            self.advance(busy)?;
        }
        Ok(())
    }

    /// Submits full-size writes to the client while there is room. Returns whether any were
    /// submitted.
    pub(super) fn give_bulk(&mut self) -> bool {
        let write = write_bytes(&self.setup);
        let mut gave = false;
        while self.client.send_room() >= write {
            let sent = self.client.send(self.stream.piece(self.sent, write));
            self.sent += sent as u64;
            gave = true;
        }
        gave
    }

    /// Submits messages to the client. Each becomes a segment before the next one is submitted.
    pub(super) fn give_messages(&mut self) -> bool {
        let mut gave = false;
        for _ in 0..MESSAGES_PER_ITERATION {
            if self.message == 0 {
                self.message = self.setup.mix.draw(&mut self.random);
            }
            if self.client.send_room() < self.message {
                break;
            }
            let sent = self.client.send(self.stream.piece(self.sent, self.message));
            self.sent += sent as u64;
            self.exchanges += 1;
            self.message = 0;
            self.client.poll(self.now, &mut self.wire.port(Side::Client));
            gave = true;
        }
        gave
    }

    /// Reads received data. Returns whether there was any.
    pub(super) fn take(&mut self, side: Side) -> Result<bool, Error> {
        let mut took = false;
        loop {
            let (end, sink) = match side {
                Side::Client => (&mut self.client, &mut self.at_client),
                Side::Server => (&mut self.server, &mut self.at_server),
            };
            if sink.is_full() {
                self.report_activity(Activity::Comparing);
                let before = thread_cpu_time_ns();
                self.compare()?;
                self.comparing_ns += thread_cpu_time_ns() - before;
                self.report_activity(Activity::Stack);
                continue;
            }
            let bytes = end.receive(sink.room());
            if bytes == 0 {
                return Ok(took);
            }
            sink.fill(bytes);
            took = true;
        }
    }

    /// Compares all received data that has not been compared yet with the data sent.
    pub(super) fn compare(&mut self) -> Result<(), Error> {
        for sink in [&mut self.at_server, &mut self.at_client] {
            if let Some(difference) = sink.compare(&self.stream) {
                return Err(Error::Corrupt {
                    stacks: self.stacks.clone(),
                    set: self.set.clone(),
                    byte: difference.byte,
                    expected: difference.expected,
                    got: difference.got,
                });
            }
        }
        Ok(())
    }

    /// Returns an error if the connection has ended.
    fn open_still(&self) -> Result<(), Error> {
        if self.client.state() == State::Open && self.server.state() == State::Open {
            return Ok(());
        }
        Err(Error::Lost {
            stacks: self.stacks.clone(),
            pattern: self.setup.pattern.name().to_owned(),
            set: self.set.clone(),
            bytes: self.totals().bytes,
        })
    }
}
