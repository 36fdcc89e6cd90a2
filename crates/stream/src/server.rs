// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server: serves the tests of one client at a time.
//!
//! Each new client gets its own thread, and must send its protocol version and token within
//! [`GREETING`], in at most 4 KiB. Up to [`STRANGERS`] clients may be in this state at a time; any
//! more are rejected at once. An unauthenticated client thus cannot delay a test by staying silent,
//! or by sending garbage or too much data.

use crate::StreamError;
use crate::account::Account;
use crate::line::Line;
use crate::peer::Waiting;
use crate::protocol::{Hello, MAX_TIME, Order, Reply, Test, VERSION};
use crate::side::{Connection, Side};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time limit for a client's protocol version and token.
const GREETING: Duration = Duration::from_secs(2);
/// Maximum number of clients not yet authenticated.
const STRANGERS: usize = 16;
/// How long an idle client may stay connected.
const IDLE: Duration = Duration::from_secs(60);
/// Interval between polls for new clients.
const PAUSE: Duration = Duration::from_millis(5);

/// A listening server.
#[derive(Debug)]
pub struct Service {
    listener: TcpListener,
    address: SocketAddr,
    token: Option<String>,
    is_for_one: bool,
}

/// Access rules of a server.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Token that clients must present; `None` admits any client that can reach the address.
    pub token: Option<String>,
    /// Whether the server exits after the first authenticated client. Clients that it rejects
    /// meanwhile, because it serves one at a time, do not count.
    pub is_for_one: bool,
}

/// Starts listening.
///
/// # Errors
/// Returns an error if the address does not belong to this machine, if the port is in use, or if
/// there is no token although the address is not a loopback address.
pub fn serve(address: SocketAddr, limits: Limits) -> Result<Service, StreamError> {
    if limits.token.is_none() && !address.ip().is_loopback() {
        let what = format!(
            "a server on {} can be reached from other hosts: pass --token-file FILE to it and to \
             the client",
            address.ip()
        );
        return Err(StreamError::Invalid { what });
    }
    let bound = |error| StreamError::Bind { address, error };
    let listener = TcpListener::bind(address).map_err(bound)?;
    listener.set_nonblocking(true).map_err(bound)?;
    let address = listener.local_addr().map_err(bound)?;
    Ok(Service { listener, address, token: limits.token, is_for_one: limits.is_for_one })
}

impl Service {
    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves clients until `stop` is set. `report` receives a line about each client and each
    /// error.
    pub fn run(&self, stop: &AtomicBool, report: &(dyn Fn(&str) + Sync)) {
        let (strangers, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let busy = Mutex::new(());
        let is_over = || stop.load(Ordering::Relaxed) || over.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            while !is_over() {
                match self.listener.accept() {
                    Ok(_) if strangers.load(Ordering::Relaxed) >= STRANGERS => {
                        report(
                            "a client was rejected because too many other clients have not \
                             authenticated yet",
                        );
                    }
                    Ok((stream, from)) => {
                        strangers.fetch_add(1, Ordering::Relaxed);
                        let (strangers, busy, over, is_over) = (&strangers, &busy, &over, &is_over);
                        scope.spawn(move || {
                            let greeted = self.greet(stream);
                            strangers.fetch_sub(1, Ordering::Relaxed);
                            let ended = greeted.and_then(|line| attend(line, busy, is_over));
                            over.fetch_or(self.is_for_one && is_served(&ended), Ordering::Relaxed);
                            report(&described(from, ended));
                        });
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        std::thread::sleep(PAUSE);
                    }
                    // The connection was reset before it was accepted, or descriptors or memory ran
                    // out.
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        });
    }

    /// Checks protocol, version and token.
    fn greet(&self, stream: TcpStream) -> Result<Line, Ended> {
        let stranger = Ended::Stranger;
        stream
            .set_nonblocking(false)
            .map_err(|error| stranger(crate::error::socket_error("during accept", error)))?;
        let mut line = Line::new(stream).map_err(stranger)?;
        let deadline = Instant::now() + GREETING;
        let hello: Hello = line.receive(deadline, "during the handshake").map_err(stranger)?;
        let refusal = if hello.linerate_stream != VERSION {
            Some(format!(
                "the server speaks version {VERSION} of the protocol, the client version {}; \
                 run the same version of linerate at both ends",
                hello.linerate_stream
            ))
        } else if !is_same(self.token.as_deref(), hello.token.as_deref()) {
            Some("the token is missing or wrong; pass the token file with --token-file".to_owned())
        } else {
            None
        };
        let Some(reason) = refusal else {
            line.trust();
            return Ok(line);
        };
        // The client may be gone already.
        let _ = line.send(&Reply::Refused { reason: reason.clone() });
        Err(stranger(StreamError::Refused { reason }))
    }
}

/// Error that ended a client's connection, by whether the client had been authenticated.
enum Ended {
    /// The client had not been authenticated.
    Stranger(StreamError),
    /// The client had been authenticated.
    Client(StreamError),
}

/// Returns whether a client was served, and not rejected.
fn is_served(ended: &Result<u64, Ended>) -> bool {
    !matches!(ended, Err(Ended::Stranger(_) | Ended::Client(StreamError::Refused { .. })))
}

fn described(from: SocketAddr, ended: Result<u64, Ended>) -> String {
    match ended {
        Ok(tests) => format!("{from}: {tests} tests"),
        // The message of the error itself is for the client: "rejected by the server".
        Err(
            Ended::Stranger(StreamError::Refused { reason })
            | Ended::Client(StreamError::Refused { reason }),
        ) => format!("{from}: rejected: {reason}"),
        Err(Ended::Stranger(error)) => format!("{from}: rejected: {error}"),
        Err(Ended::Client(error)) => format!("{from}: {error}"),
    }
}

/// Compares tokens in constant time, so that timing does not reveal where they differ.
fn is_same(wanted: Option<&str>, shown: Option<&str>) -> bool {
    let Some(wanted) = wanted else { return true };
    let shown = shown.unwrap_or_default();
    let differences = wanted.bytes().zip(shown.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    differences == 0 && wanted.len() == shown.len()
}

/// Serves a client's tests and returns their number.
fn attend(
    mut line: Line,
    busy: &Mutex<()>,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<u64, Ended> {
    let _busy = match busy.try_lock() {
        Ok(busy) => busy,
        Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(std::sync::TryLockError::WouldBlock) => {
            let reason = "the server is busy with another client; try again later".to_owned();
            // The client may be gone already.
            let _ = line.send(&Reply::Refused { reason: reason.clone() });
            return Err(Ended::Client(StreamError::Refused { reason }));
        }
    };
    line.send(&Reply::Welcome).map_err(Ended::Client)?;
    let mut tests = 0;
    let mut since = Instant::now();
    while !is_over() {
        match line.poll("between tests") {
            Ok(Some(Order::Test(test))) => {
                attend_test(&mut line, &test, is_over).map_err(Ended::Client)?;
                tests += 1;
                since = Instant::now();
            }
            Ok(Some(Order::Sent)) => {}
            Ok(None) if since.elapsed() > IDLE => {
                let what = format!("it did not request a test within {} s", IDLE.as_secs());
                return Err(Ended::Client(StreamError::Late { what }));
            }
            Ok(None) => {}
            Err(StreamError::PeerEnded { .. }) => return Ok(tests),
            Err(error) => return Err(Ended::Client(error)),
        }
    }
    Ok(tests)
}

fn attend_test(
    line: &mut Line,
    test: &Test,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<(), StreamError> {
    let prepared = match test.excess() {
        Some(excess) => {
            Err(StreamError::Invalid { what: format!("the server rejects it: {excess}") })
        }
        None => prepare(line, test),
    };
    let connections = match prepared {
        Ok(connections) => connections,
        Err(error) => return line.send(&Reply::Failed { reason: error.to_string() }),
    };
    line.send(&Reply::Started)?;
    let account = take_part(line, test, &connections, is_over)?;
    line.send(&Reply::Account(Box::new(account)))
}

fn prepare(line: &mut Line, test: &Test) -> Result<Vec<Connection>, StreamError> {
    let failed = |error| crate::error::socket_error("while reading its addresses", error);
    let address = line.stream().local_addr().map_err(failed)?;
    let client = line.stream().peer_addr().map_err(failed)?.ip();
    let waiting = Waiting::open(test, address)?;
    let nonce = nonce()?;
    line.send(&Reply::Ready { ports: waiting.ports()?, nonce })?;
    waiting.join(test, nonce, client)
}

/// Returns an unpredictable number.
pub(crate) fn nonce() -> Result<u64, StreamError> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).map_err(
        |error| StreamError::Failed { reason: format!("cannot read /dev/urandom: {error}") },
    )?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Runs the server's side of a test. The test ends early if the client disconnects.
fn take_part(
    line: &mut Line,
    test: &Test,
    connections: &[Connection],
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<Account, StreamError> {
    let (is_sent, is_lost) = (AtomicBool::new(false), AtomicBool::new(false));
    let deadline = Instant::now() + MAX_TIME + MAX_TIME;
    let side = Side {
        test,
        is_sender: test.is_server_sender,
        cpu: test.server_cpu,
        is_sent: &|| is_sent.load(Ordering::Relaxed),
        is_aborted: &|| is_lost.load(Ordering::Relaxed) || is_over() || Instant::now() > deadline,
    };
    let lost: Mutex<Option<StreamError>> = Mutex::new(None);
    let account = std::thread::scope(|scope| {
        let running = scope.spawn(|| side.run(connections));
        while !running.is_finished() {
            match line.poll("during a test") {
                Ok(Some(Order::Sent)) => is_sent.store(true, Ordering::Relaxed),
                Ok(_) => {}
                Err(error) => {
                    is_lost.store(true, Ordering::Relaxed);
                    *lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    break;
                }
            }
        }
        running.join().unwrap_or_default()
    });
    match lost.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(account),
    }
}

#[cfg(test)]
mod tests;
