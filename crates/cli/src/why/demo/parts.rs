// SPDX-License-Identifier: MIT OR Apache-2.0
//! The child processes of the demo: one sends, one receives too slowly.

use super::scene::child;
use super::{BUFFER_BYTES, FAR, NEAR, PAUSE, PER_SECOND, Part};
use crate::emit::Answer;
use crate::failure::Failure;
use linerate_doctor::namespaces;
use linerate_linux::network::{Network, set_receive_buffer};
use linerate_linux::{Error, enter_new_network, enter_private_network, wait_to_read};
use linerate_machine::Root;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout};
use std::time::{Duration, Instant};

/// Documentation addresses (RFC 5737), and the discard port.
const SENDER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PREFIX: u8 = 24;
const PORT: u16 = 9;

/// How long a child may outlive the window. On a busy machine, processes start late.
const MORE: Duration = Duration::from_secs(20);

/// Datagram payload. Together with its headers, it makes a short frame.
const PAYLOAD: [u8; 64] = [0; 64];

/// Pause of the sender between bursts, which yields the CPU.
const STEP: Duration = Duration::from_millis(1);

/// Plays a role until standard input is closed or the time limit expires.
pub(in crate::why) fn play(part: Part, window: Duration) -> Result<Answer, Failure> {
    let until = Instant::now() + window + MORE;
    match part {
        Part::Sender => send(window, until)?,
        Part::Receiver => receive(until)?,
    }
    Ok(Answer::Done)
}

/// Sets up the network, then sends until the demo ends. Prints the counts of datagrams sent and
/// received.
fn send(window: Duration, until: Instant) -> Result<(), Failure> {
    enter_private_network().map_err(|error| no_namespace(&error))?;
    let mut receiver = Receiver::start(window)?;
    let pid = receiver.child.id();
    let network = Network::own().map_err(Failure::new)?;
    network.add_pair(NEAR, FAR, pid).map_err(Failure::new)?;
    network.bring_up(NEAR, SENDER, PREFIX).map_err(Failure::new)?;
    receiver.expect("ready")?;
    let socket = UdpSocket::bind((SENDER, 0)).map_err(Failure::new)?;
    socket.connect((RECEIVER, PORT)).map_err(Failure::new)?;
    say(&format!("watch {pid}"))?;
    let mut stdin = Input::of_this_process()?;
    let began = Instant::now();
    let mut sent = 0;
    while Instant::now() < until && !stdin.has_ended() {
        let due = (began.elapsed().as_secs_f64() * PER_SECOND) as u64;
        // Datagrams that the interface had no room for do not count as sent.
        sent += (sent..due).filter(|_| socket.send(&PAYLOAD).is_ok()).count() as u64;
        std::thread::sleep(STEP);
    }
    let received = receiver.end()?;
    say(&format!("sent {sent} received {received}"))
}

/// Empties the small receive buffer every [`PAUSE`]; finally prints the number of datagrams
/// received.
fn receive(until: Instant) -> Result<(), Failure> {
    enter_new_network().map_err(|error| no_namespace(&error))?;
    // Gives the receiver a name of its own in the report. Otherwise, it would have this program's
    // name.
    let _ = std::fs::write("/proc/self/comm", "demo-receiver");
    say("entered")?;
    let mut stdin = Input::of_this_process()?;
    stdin.expect("joined")?;
    let network = Network::own().map_err(Failure::new)?;
    network.bring_up(FAR, RECEIVER, PREFIX).map_err(Failure::new)?;
    let socket = UdpSocket::bind((RECEIVER, PORT)).map_err(Failure::new)?;
    set_receive_buffer(&socket, BUFFER_BYTES).map_err(Failure::new)?;
    socket.set_nonblocking(true).map_err(Failure::new)?;
    say("ready")?;
    let mut received = 0;
    while Instant::now() < until && !stdin.has_ended() {
        std::thread::sleep(PAUSE);
        received += waiting(&socket);
    }
    say(&format!("received {received}"))
}

/// Reads all queued datagrams and returns their number.
fn waiting(socket: &UdpSocket) -> u64 {
    let mut datagram = [0; PAYLOAD.len()];
    let mut count = 0;
    loop {
        match socket.recv(&mut datagram) {
            Ok(_) => count += 1,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return count,
        }
    }
}

/// Reason why the namespaces cannot be created, with a remedy.
fn no_namespace(error: &Error) -> Failure {
    let obstacle = namespaces::obstacle(&Root::new(Path::new("/")));
    Failure::new(format!(
        "the demo needs its own user and network namespaces, which this system refuses: {}; {}\n  \
         {}",
        obstacle.sentence,
        error.without_advice(),
        obstacle.fix
    ))
}

fn say(line: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(Failure::new)
}

/// The receiver process, from the sender's side.
struct Receiver {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Receiver {
    /// Starts the receiver; returns once it is in its network namespace.
    fn start(window: Duration) -> Result<Self, Failure> {
        let mut child = child(Part::Receiver, window)?.spawn().map_err(Failure::new)?;
        let says = child.stdout.take().map(BufReader::new).expect("its output is a pipe");
        let mut receiver = Self { child, says };
        receiver.expect("entered")?;
        Ok(receiver)
    }

    /// Reads a line of the receiver's output and checks that it is the expected one. Before waiting
    /// for `ready`, tells the receiver to continue.
    fn expect(&mut self, wanted: &str) -> Result<(), Failure> {
        if wanted == "ready" {
            let stdin = self.child.stdin.as_mut().expect("its input is a pipe");
            stdin.write_all(b"joined\n").map_err(Failure::new)?;
        }
        let line = self.line()?;
        if line == wanted { Ok(()) } else { Err(self.failure()) }
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.says.read_line(&mut line).map_err(Failure::new)?;
        Ok(line.trim().to_owned())
    }

    /// Ends the receiver; returns the number of datagrams it received.
    fn end(&mut self) -> Result<u64, Failure> {
        drop(self.child.stdin.take());
        let line = self.line()?;
        let count = line.strip_prefix("received ").and_then(|count| count.parse().ok());
        count.ok_or_else(|| self.failure())
    }

    fn failure(&mut self) -> Failure {
        drop(self.child.stdin.take());
        let mut words = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            // Output that cannot be read is left out of the message.
            let _ = stderr.read_to_string(&mut words);
        }
        Failure::new(words.trim().strip_prefix("linerate: ").unwrap_or("the receiver exited early"))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Standard input. End-of-file on it ends the demo.
struct Input(File);

impl Input {
    fn of_this_process() -> Result<Self, Failure> {
        let owned = std::io::stdin().as_fd().try_clone_to_owned().map_err(Failure::new)?;
        Ok(Self(File::from(owned)))
    }

    /// Whether the other end is closed. No data arrives after the setup, so readable input means
    /// end-of-file.
    fn has_ended(&mut self) -> bool {
        wait_to_read(&self.0, Duration::ZERO).unwrap_or(true)
    }

    /// Reads a line and checks that it is the expected one.
    fn expect(&mut self, wanted: &str) -> Result<(), Failure> {
        let mut line = vec![0; wanted.len() + 1];
        self.0.read_exact(&mut line).map_err(Failure::new)?;
        match line.strip_suffix(b"\n") == Some(wanted.as_bytes()) {
            true => Ok(()),
            false => Err(Failure::new("unexpected output from the demo's sender")),
        }
    }
}
