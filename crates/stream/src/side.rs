// SPDX-License-Identifier: MIT OR Apache-2.0
//! One side of a test: a thread per connection that sends, receives, or exchanges requests.

mod datagrams;
mod exchange;
mod segments;

use crate::account::{Account, Thread};
use crate::functions::Functions;
use crate::meter::Meter;
use crate::path;
use crate::protocol::Test;
use linerate_linux::{pin_current_thread, socket};
use linerate_record::stream::StreamMode;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream, UdpSocket};
use std::time::Duration;

/// How long a call may block before the loop checks the time.
pub(crate) const STEP: Duration = Duration::from_millis(100);

/// How long a sender keeps sending after its measurement, so that the receiver, whose clock started
/// later, can complete its own.
const TAIL: Duration = Duration::from_millis(30);
/// How long a receiver waits for the end of the stream after its measurement.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// A connection of a test.
#[derive(Debug)]
pub(crate) enum Connection {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// One side's role in a test, and the conditions under which it stops.
pub(crate) struct Side<'a> {
    pub(crate) test: &'a Test,
    pub(crate) is_sender: bool,
    pub(crate) cpu: Option<u32>,
    /// Returns whether the sender has sent everything.
    pub(crate) is_sent: &'a (dyn Fn() -> bool + Sync),
    /// Returns whether the test must end now.
    pub(crate) is_aborted: &'a (dyn Fn() -> bool + Sync),
}

impl Side<'_> {
    /// Runs the test on these connections and returns the counts.
    pub(crate) fn run(&self, connections: &[Connection]) -> Account {
        let mut account = Account::default();
        let peer = connections.first().and_then(Connection::peer);
        account.exit = peer.filter(|_| self.is_sender).map(path::exit);
        std::thread::scope(|scope| {
            let one = |(index, connection)| scope.spawn(move || self.one(connection, index == 0));
            let all: Vec<_> = connections.iter().enumerate().map(one).collect();
            for thread in all {
                let Ok((thread, machine, error)) = thread.join() else {
                    account.error = Some("a thread on this side panicked".to_owned());
                    continue;
                };
                account.threads.push(thread);
                account.error = account.error.take().or(error);
                if let Some((ticks, cpus)) = machine {
                    let all = ticks.total();
                    let parts = [ticks.user, ticks.system, ticks.interrupts, ticks.idle, all];
                    account.machine = Some(parts);
                    account.machine_cpus = cpus;
                }
            }
        });
        account
    }

    fn one(&self, connection: &Connection, first: bool) -> One {
        let pinned = self.cpu.map_or(Ok(()), pin_current_thread);
        let tail = if self.is_sender { TAIL } else { GRACE };
        let read = match connection {
            Connection::Tcp(stream) if self.is_sender => Some(stream),
            _ => None,
        };
        let functions = self.test.is_sampled.then(Functions::start);
        let mut meter = Meter::new(self.test, tail, read, first);
        let done = match connection {
            _ if pinned.is_err() => pinned.map_err(|error| io::Error::other(error.to_string())),
            Connection::Udp(socket) if self.is_sender => datagrams::send(self, socket, &mut meter),
            Connection::Udp(socket) => datagrams::receive(self, socket, &mut meter),
            Connection::Tcp(stream) => match (self.test.mode, self.is_sender) {
                (StreamMode::Request, true) => exchange::ask(self, stream, &mut meter),
                (StreamMode::Request, false) => exchange::answer(self, stream, &mut meter),
                (_, true) => segments::send(self, stream, &mut meter),
                (_, false) => segments::receive(self, stream, &mut meter),
            },
        };
        meter.finish();
        if let (Err(_), Connection::Tcp(stream)) = (&done, connection) {
            // The other side must not wait for bytes that never arrive. It may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        meter.thread.sampled = functions.map(Functions::finish);
        let memory = connection.memory();
        meter.thread.buffer_bytes = memory.map(|memory| {
            u64::from(if self.is_sender { memory.send_buffer } else { memory.receive_buffer })
        });
        if !self.is_sender {
            meter.thread.buffer_drops = memory.map(|memory| u64::from(memory.drops));
        }
        (meter.thread, meter.machine, done.err().map(|error| explained(&error)))
    }

    /// Returns whether the loop continues.
    fn goes_on(&self, meter: &mut Meter<'_>) -> bool {
        meter.tick() && !(self.is_aborted)()
    }
}

/// A thread's counts, the CPU time of the machine, and the error that ended the thread.
type One = (Thread, Option<(linerate_machine::cpu_time::CpuTicks, u32)>, Option<String>);

fn explained(error: &io::Error) -> String {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::BrokenPipe | Kind::ConnectionReset | Kind::ConnectionAborted => {
            "the other end closed a connection during the test".to_owned()
        }
        _ => error.to_string(),
    }
}

impl Connection {
    fn memory(&self) -> Option<linerate_linux::network::SocketMemory> {
        match self {
            Self::Tcp(stream) => socket::memory(stream).ok(),
            Self::Udp(udp) => socket::memory(udp).ok(),
        }
    }

    fn peer(&self) -> Option<IpAddr> {
        let peer = match self {
            Self::Tcp(stream) => stream.peer_addr(),
            Self::Udp(udp) => udp.peer_addr(),
        };
        peer.ok().map(|peer| peer.ip())
    }
}
