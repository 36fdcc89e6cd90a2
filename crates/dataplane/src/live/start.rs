// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes all workers start receiving at the same time: no AF_PACKET or AF_XDP socket receives
//! before every worker is about to poll. Otherwise, rings would overflow while threads start,
//! clocks are measured and counters are opened, and this loss would look like that of a slow
//! worker.
//!
//! ```text
//! worker:          prepare; ready; wait for the gate; start its sockets; started; poll
//! calling thread:  wait until all are ready; read the counters; open the gate;
//!                  wait until all have started; read the counters
//! ```
//!
//! A worker signals that it is ready, or has started, by dropping its end of a channel that carries
//! no messages. A worker that fails or panics drops it too, so no thread waits for it forever.

use std::convert::Infallible;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A worker's end of the common start: reports to the calling thread, and waits for the gate.
#[derive(Clone)]
pub(crate) struct Ticket<'g> {
    gate: &'g OnceLock<()>,
    ready: Sender<Infallible>,
    started: Sender<Infallible>,
}

/// The calling thread's end of the common start: waits for the workers, and opens the gate.
pub(crate) struct Line<'g> {
    gate: &'g OnceLock<()>,
    ready: Receiver<Infallible>,
    started: Receiver<Infallible>,
}

/// Prepares a common start. Returns the calling thread's end, and a ticket to be cloned for each
/// worker. Workers wait until `gate` is set.
pub(crate) fn line_up(gate: &OnceLock<()>) -> (Line<'_>, Ticket<'_>) {
    let ((ready, all_ready), (started, all_started)) = (channel(), channel());
    let line = Line { gate, ready: all_ready, started: all_started };
    (line, Ticket { gate, ready, started })
}

impl Ticket<'_> {
    /// Reports that the worker is ready, waits until the gate opens, then starts the worker's
    /// sockets by calling `start`.
    pub(crate) fn start<R>(self, start: impl FnOnce() -> R) -> R {
        let Self { gate, ready, started } = self;
        drop(ready);
        gate.wait();
        let result = start();
        drop(started);
        result
    }
}

impl Line<'_> {
    /// Opens the gate when all workers are ready. Calls `read` just before that, and again when all
    /// workers have started; returns both results.
    pub(crate) fn open<R>(self, read: impl Fn() -> R) -> [R; 2] {
        // Each `recv` returns an error once the last sender has been dropped.
        let _ = self.ready.recv();
        let before = read();
        let _ = self.gate.set(());
        let _ = self.started.recv();
        [before, read()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn counters_are_read_before_the_first_and_after_the_last_start() {
        let (gate, log) = (OnceLock::new(), Mutex::new(Vec::new()));
        let note = |event: &'static str| log.lock().unwrap().push(event);
        std::thread::scope(|scope| {
            let (line, ticket) = line_up(&gate);
            for _ in 0..3 {
                let ticket = ticket.clone();
                scope.spawn(move || {
                    note("ready");
                    ticket.start(|| note("start"));
                });
            }
            let failed = ticket;
            scope.spawn(move || {
                note("ready");
                drop(failed);
            });
            line.open(|| note("read"));
        });
        let expected = [&["ready"; 4][..], &["read"], &["start"; 3], &["read"]].concat();
        assert_eq!(log.into_inner().unwrap(), expected);
    }
}
