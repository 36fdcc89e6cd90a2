// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client: tests every point once per round, in random order. An error ends the measurement,
//! but the results obtained before it are kept.

use crate::StreamError;
use crate::account::{Account, Exit};
use crate::assemble::{self, Visit};
use crate::child::{Network, Server};
use crate::compare;
use crate::line::Line;
use crate::path;
use crate::peer;
use crate::protocol::{Hello, Order, Reply, Test, VERSION};
use crate::request::{Request, WARM_UP, default_message};
use crate::side::{GRACE, Side};
use linerate_record::kernels::Skipped;
use linerate_record::stream::{StreamPath, StreamPathKind, StreamReport};
use linerate_trial::{Watch, orders};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the server may take to answer.
const ANSWER: Duration = Duration::from_secs(8);
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(3);

/// The other end.
#[derive(Clone, Debug)]
pub enum Target {
    /// A server that is started as a child process on this machine.
    Here(Network),
    /// A server that is already running.
    Server {
        /// Name or address of the server's host.
        host: String,
        /// Its port.
        port: u16,
        /// Its token; `None` if it requires none.
        token: Option<String>,
    },
}

/// Result of a measurement: the report and, if the measurement ended early, the error.
#[derive(Debug)]
pub struct Outcome {
    /// The report, without findings and the sentence about checksums, which `explain` adds.
    pub report: StreamReport,
    /// The error that ended the measurement early.
    pub error: Option<StreamError>,
}

/// Runs `request`. `program` returns the command for the child process, which must call
/// [`crate::serve_parent`]. If namespaces are used, the calling thread enters the client's and
/// stays there.
///
/// # Errors
/// Returns an error if nothing could be measured; see [`StreamError`] for the reasons.
pub fn measure(
    request: &Request,
    target: &Target,
    program: &dyn Fn() -> std::io::Result<Command>,
    watch: &Watch<'_>,
) -> Result<Outcome, StreamError> {
    request.check()?;
    let (server, line) = match target {
        Target::Here(network) => {
            let command = program().map_err(|e| StreamError::Child { what: e.to_string() })?;
            let server = Server::start(command, network, limit(request))?;
            let line = greet(&[server.address], &Some(server.token.clone()))?;
            (Some(server), line)
        }
        Target::Server { host, port, token } => (None, greet(&resolve(host, *port)?, token)?),
    };
    let (line, address) = line;
    let kind = match target {
        Target::Here(Network::New | Network::Named(_)) => StreamPathKind::Namespaces,
        Target::Here(Network::Loopback) => StreamPathKind::Loopback,
        Target::Server { .. } if path::is_here(address.ip()) => StreamPathKind::Loopback,
        Target::Server { .. } => StreamPathKind::Network,
    };
    let mut session = Session {
        request,
        line,
        address,
        has_same_machine: server.is_some() || kind == StreamPathKind::Loopback,
        visits: request.points.iter().map(|_| Vec::new()).collect(),
        others: Vec::new(),
        sampled: Vec::new(),
        skipped: Vec::new(),
        exit: None,
    };
    let error = session.measure(watch).err();
    let exit = session.exit.take().unwrap_or_default();
    let path = path::describe(kind, &exit);
    Ok(session.report(path, error, watch))
}

/// Returns the longest time that all tests may take: each message before, during and after a test
/// may be as late as allowed.
fn limit(request: &Request) -> Duration {
    let (sampled, time) = request.sampled();
    let all = |visits: u64, time| {
        let visit: Duration = WARM_UP + time + GRACE + 3 * ANSWER;
        visit.saturating_mul(u32::try_from(visits).unwrap_or(u32::MAX))
    };
    all(request.visits(), request.visit()).saturating_add(all(sampled, time))
}

/// Returns the addresses of a host; at least one.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, StreamError> {
    let addresses = (host, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    Some(addresses)
        .filter(|addresses: &Vec<SocketAddr>| !addresses.is_empty())
        .ok_or_else(|| StreamError::NoAddress { host: host.to_owned() })
}

/// Connects to a server at the first of its addresses that accepts a connection. Also returns that
/// address.
fn greet(
    addresses: &[SocketAddr],
    token: &Option<String>,
) -> Result<(Line, SocketAddr), StreamError> {
    let mut failed = StreamError::NoAddress { host: String::new() };
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT) {
            Ok(stream) => return Ok((welcome(stream, token.clone())?, *address)),
            Err(error) => {
                failed = StreamError::Connect { server: address.to_string(), error };
            }
        }
    }
    Err(failed)
}

/// Sends the protocol version and the token.
fn welcome(stream: TcpStream, token: Option<String>) -> Result<Line, StreamError> {
    let mut line = Line::new(stream)?;
    line.send(&Hello { linerate_stream: VERSION, token })?;
    line.trust();
    match line.receive(Instant::now() + ANSWER, "during the handshake")? {
        Reply::Welcome => Ok(line),
        Reply::Refused { reason } => Err(StreamError::Refused { reason }),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(reply: &Reply) -> StreamError {
    let what: String = format!("unexpected message {reply:?}").chars().take(60).collect();
    StreamError::Protocol { what }
}

struct Session<'a> {
    request: &'a Request,
    line: Line,
    address: SocketAddr,
    has_same_machine: bool,
    /// Completed tests of each point, indexed by point.
    visits: Vec<Vec<Visit>>,
    /// Tests of each compared method, indexed by method.
    others: Vec<compare::Rounds>,
    /// Tests in which functions were sampled, indexed by method.
    sampled: Vec<Option<Visit>>,
    skipped: Vec<Skipped>,
    exit: Option<Exit>,
}

impl Session<'_> {
    /// Runs the rounds, each of which tests all points and methods in random order. If a round
    /// fails, the results of its completed tests are kept.
    fn measure(&mut self, watch: &Watch<'_>) -> Result<(), StreamError> {
        let request = self.request;
        let methods = request.methods();
        self.others = methods.iter().map(|_| Vec::new()).collect();
        let points = request.points.len();
        let mut next = orders(points + methods.len(), request.seed);
        let visits = request.visits();
        let mut done = 0;
        for _ in 0..request.rounds {
            for index in next() {
                if watch.is_stopped() {
                    return Ok(());
                }
                let (test, name) = match methods.get(index.wrapping_sub(points)) {
                    Some(method) => (method.test(request.test(&request.points[0])), method.name),
                    None => (request.test(&request.points[index]), request.mode.name()),
                };
                watch.progress(name, done as f64 / visits as f64);
                done += 1;
                let is_method = index >= points;
                match self.visit(&test, watch) {
                    Ok(Some(visit)) if is_method => self.others[index - points].push(Some(visit)),
                    Ok(Some(visit)) => self.visits[index].push(visit),
                    Ok(None) => return Ok(()),
                    // The kernel may lack this method: skip it.
                    Err(StreamError::Failed { reason }) if is_method => {
                        self.others[index - points].push(None);
                        self.skip(name, &reason);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        self.sample(watch)
    }

    /// Runs one more test of each method that works, in which functions are sampled. Sampling takes
    /// CPU time, so these tests are used for nothing else.
    fn sample(&mut self, watch: &Watch<'_>) -> Result<(), StreamError> {
        let request = self.request;
        for (index, method) in request.methods().iter().enumerate() {
            let has_worked = self.others[index].iter().any(Option::is_some);
            let like = Test {
                measured: request.sampled().1,
                is_sampled: true,
                ..request.test(&request.points[0])
            };
            let sampled = match has_worked && !watch.is_stopped() {
                true => self.visit(&method.test(like), watch),
                false => Ok(None),
            };
            match sampled {
                Ok(visit) => self.sampled.push(visit),
                Err(StreamError::Failed { .. }) => self.sampled.push(None),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn skip(&mut self, what: &str, reason: &str) {
        if !self.skipped.iter().any(|skipped| skipped.what == what) {
            self.skipped.push(Skipped { what: what.to_owned(), reason: reason.to_owned() });
        }
    }

    /// Runs one test; `None` if the user stopped it.
    fn visit(&mut self, test: &Test, watch: &Watch<'_>) -> Result<Option<Visit>, StreamError> {
        self.line.send(&Order::Test(*test))?;
        let (ports, nonce) = match self.reply("before a test")? {
            Reply::Ready { ports, nonce } => (ports, nonce),
            other => return Err(unexpected(&other)),
        };
        let connections = peer::connect(test, self.address, &ports, nonce)?;
        match self.reply("before a test")? {
            Reply::Started => {}
            other => return Err(unexpected(&other)),
        }
        let (is_sent, is_lost) = (AtomicBool::new(false), AtomicBool::new(false));
        let stop = watch.stop();
        let side = Side {
            test,
            is_sender: !test.is_server_sender,
            cpu: self.request.cpus.map(|[client, _]| client),
            is_sent: &|| is_sent.load(Ordering::Relaxed),
            is_aborted: &|| is_lost.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed),
        };
        let mut theirs: Option<Account> = None;
        let (ours, lost) = std::thread::scope(|scope| {
            let running = scope.spawn(|| side.run(&connections));
            let mut lost = None;
            while !running.is_finished() {
                match self.line.poll("during a test") {
                    Ok(Some(Reply::Account(account))) => {
                        is_sent.store(true, Ordering::Relaxed);
                        theirs = Some(*account);
                    }
                    Ok(Some(other)) => lost = lost.or(Some(unexpected(&other))),
                    Ok(None) => {}
                    Err(error) => lost = lost.or(Some(error)),
                }
                if lost.is_some() {
                    is_lost.store(true, Ordering::Relaxed);
                    break;
                }
            }
            (running.join().unwrap_or_default(), lost)
        });
        if let Some(error) = lost {
            return Err(error);
        }
        if watch.is_stopped() {
            return Ok(None);
        }
        // Send this in every case, so that the other side ends its test and is ready for the next.
        self.line.send(&Order::Sent)?;
        let theirs = match theirs {
            Some(account) => account,
            None => {
                // If this side failed early, the other one may still be measuring.
                let wait = test.warm_up + test.measured + GRACE + ANSWER;
                match self.reply_within(wait, "after a test")? {
                    Reply::Account(account) => *account,
                    other => return Err(unexpected(&other)),
                }
            }
        };
        if let Some(reason) = ours.error.as_ref().or(theirs.error.as_ref()) {
            return Err(StreamError::Failed { reason: reason.clone() });
        }
        let (sender, receiver) =
            if test.is_server_sender { (theirs, ours) } else { (ours, theirs) };
        self.exit = self.exit.take().or_else(|| sender.exit.clone());
        Ok(Some(Visit { sender, receiver }))
    }

    /// Waits for a reply; a failed or refused test is an error.
    fn reply(&mut self, during: &'static str) -> Result<Reply, StreamError> {
        self.reply_within(ANSWER, during)
    }

    fn reply_within(&mut self, wait: Duration, during: &'static str) -> Result<Reply, StreamError> {
        match self.line.receive(Instant::now() + wait, during)? {
            Reply::Failed { reason } => Err(StreamError::Failed { reason }),
            Reply::Refused { reason } => Err(StreamError::Refused { reason }),
            other => Ok(other),
        }
    }

    fn report(self, path: StreamPath, error: Option<StreamError>, watch: &Watch<'_>) -> Outcome {
        let request = self.request;
        let context = assemble::Context {
            mode: request.mode,
            is_client_sender: !request.reverse,
            has_same_machine: self.has_same_machine,
            paced_bits_per_s: request.rate_bits_per_s,
        };
        let mut points = Vec::new();
        for (point, visits) in request.points.iter().zip(&self.visits) {
            if !visits.is_empty() {
                points.push(assemble::point(point, visits, &context));
            }
        }
        let methods =
            compare::compared(&self.others, &self.sampled, &self.skipped, request.is_copy);
        let mut report = StreamReport {
            mode: request.mode,
            path,
            reverse: request.reverse,
            rounds: request.rounds,
            visit_ms: request.visit().as_secs_f64() * 1e3,
            seed: request.seed,
            points,
            explained: None,
            methods,
            findings: Vec::new(),
            skipped: self.skipped,
            ended_by: error.as_ref().map(ToString::to_string),
            interrupted: watch.is_stopped(),
        };
        report.explained = explained(&report);
        Outcome { report, error }
    }
}

/// Returns the index of the point with default settings, or of the fastest point if the default was
/// not measured.
fn explained(report: &StreamReport) -> Option<u64> {
    let message = u64::from(default_message(report.mode));
    let usual = report.points.iter().position(|point| {
        point.send_buffer_bytes.is_none()
            && point.receive_buffer_bytes.is_none()
            && point.message_bytes == message
    });
    let fastest = report.fastest().map(std::ptr::from_ref);
    let fastest =
        || report.points.iter().position(|point| Some(std::ptr::from_ref(point)) == fastest);
    usual.or_else(fastest).map(|index| index as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn a_server_is_found_at_any_address_of_its_host() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let there = listener.local_addr().expect("its address");
        // `localhost` may be ::1 first, where this server does not listen.
        let closed: SocketAddr = (std::net::Ipv6Addr::LOCALHOST, there.port()).into();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.write_all(b"\"Welcome\"\n").expect("an answer");
            stream
        });
        let (_line, found) = greet(&[closed, there], &None).expect("a server");
        assert_eq!(found, there);
        drop(server.join());
        let error = greet(&[closed], &None).expect_err("nothing listens").to_string();
        assert!(error.contains("cannot connect"), "{error}");
    }
}
