// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's child processes: a sender, and a receiver that is too slow.

use super::scene::child;
use super::{BUFFER_BYTES, FAR, NEAR, PAUSE, PER_SECOND, Part};
use crate::emit::Answer;
use crate::failure::Failure;
use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::namespaces;
use linerate_linux::network::{Network, set_receive_buffer};
use linerate_linux::{Error, enter_new_network, enter_private_network, wait_to_read};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdout};
use std::time::{Duration, Instant};

/// Address of the sender, from a range reserved for documentation (RFC 5737).
const SENDER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PREFIX: u8 = 24;
/// The discard port (RFC 863).
const PORT: u16 = 9;

/// Maximum time for which a child runs beyond the window. On a busy machine, processes start late.
const MORE: Duration = Duration::from_secs(20);

/// Datagram payload, small enough for a short frame.
const PAYLOAD: [u8; 64] = [0; 64];

/// Pause between the sender's bursts, during which it yields the CPU.
const STEP: Duration = Duration::from_millis(1);

/// Time for which the sender waits for the receiver to get a datagram before it sends another one.
const STEP_TO_REACH: Duration = Duration::from_millis(50);

/// Runs as the demo's sender or receiver until stdin is closed or the time limit expires.
pub(in crate::why) fn play(part: Part, window: Duration) -> Result<Answer, Failure> {
    let until = Instant::now() + window + MORE;
    match part {
        Part::Sender => send(window, until)?,
        Part::Receiver => receive(until)?,
    }
    Ok(Answer::Done)
}

/// Sets up the network, then sends until the demo ends. Prints the numbers of datagrams sent and
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
    receiver.reach(&socket, until)?;
    say(&format!("watch {pid}"))?;
    let mut stdin = Input::of_this_process()?;
    let began = Instant::now();
    let mut sent = 0;
    while Instant::now() < until && !stdin.has_ended() {
        let due = (began.elapsed().as_secs_f64() * PER_SECOND) as u64;
        // Datagrams that the interface's full queue rejected do not count as sent.
        sent += (sent..due).filter(|_| socket.send(&PAYLOAD).is_ok()).count() as u64;
        std::thread::sleep(STEP);
    }
    let received = receiver.end()?;
    say(&format!("sent {sent} received {received}"))
}

/// Empties the small receive buffer every [`PAUSE`], and finally prints the number of datagrams
/// received.
fn receive(until: Instant) -> Result<(), Failure> {
    enter_new_network().map_err(|error| no_namespace(&error))?;
    // Gives the receiver its own name in the report instead of this program's.
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
    while waiting(&socket) == 0 && Instant::now() < until && !stdin.has_ended() {
        std::thread::sleep(PAUSE);
    }
    say("reached")?;
    let mut received = 0;
    while Instant::now() < until && !stdin.has_ended() {
        std::thread::sleep(PAUSE);
        received += waiting(&socket);
    }
    say(&format!("received {received}"))
}

/// Reads all queued datagrams, and returns their number.
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

/// Returns why the namespaces cannot be created, and a remedy.
fn no_namespace(error: &Error) -> Failure {
    let obstacle = namespaces::obstacle(&HostFacts::gather());
    Failure::new(format!(
        "the demo needs its own user and network namespaces, which this system does not allow: {}; \
         {}\n  {}",
        obstacle.sentence,
        error.without_advice(),
        obstacle.fix
    ))
}

fn say(line: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(Failure::new)
}

/// The receiver process as seen by the sender.
struct Receiver {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Receiver {
    /// Starts the receiver, and returns once it is in its network namespace.
    fn start(window: Duration) -> Result<Self, Failure> {
        let mut child = child(Part::Receiver, window)?.spawn().map_err(Failure::new)?;
        let says =
            child.stdout.take().map(BufReader::new).expect("the receiver's output is a pipe");
        let mut receiver = Self { child, says };
        receiver.expect("entered")?;
        Ok(receiver)
    }

    /// Reads a line of the receiver's output and checks that it equals `wanted`. Before waiting for
    /// `ready`, signals the receiver to continue.
    fn expect(&mut self, wanted: &str) -> Result<(), Failure> {
        if wanted == "ready" {
            let stdin = self.child.stdin.as_mut().expect("the receiver's input is a pipe");
            stdin.write_all(b"joined\n").map_err(Failure::new)?;
        }
        let line = self.line()?;
        if line == wanted { Ok(()) } else { Err(self.failure()) }
    }

    /// Sends datagrams until the receiver has received one. The kernel may activate an interface up
    /// to a second after it is brought up, and answers no ARP requests until then.
    fn reach(&mut self, socket: &UdpSocket, until: Instant) -> Result<(), Failure> {
        let mut is_reached = false;
        while !is_reached && Instant::now() < until {
            // An error of an earlier datagram, such as an unreachable host, is reported here.
            let _ = socket.send(&PAYLOAD);
            is_reached = wait_to_read(self.says.get_ref(), STEP_TO_REACH).unwrap_or(true);
        }
        self.expect("reached")
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.says.read_line(&mut line).map_err(Failure::new)?;
        Ok(line.trim().to_owned())
    }

    /// Stops the receiver, and returns the number of datagrams it received.
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

/// Stdin, where end-of-file ends the demo.
struct Input(File);

impl Input {
    fn of_this_process() -> Result<Self, Failure> {
        let owned = std::io::stdin().as_fd().try_clone_to_owned().map_err(Failure::new)?;
        Ok(Self(File::from(owned)))
    }

    /// Returns whether the other end has closed the pipe. No data arrives after the setup, so
    /// readable input means end-of-file.
    fn has_ended(&mut self) -> bool {
        wait_to_read(&self.0, Duration::ZERO).unwrap_or(true)
    }

    /// Reads a line and checks that it equals `wanted`.
    fn expect(&mut self, wanted: &str) -> Result<(), Failure> {
        let mut line = vec![0; wanted.len() + 1];
        self.0.read_exact(&mut line).map_err(Failure::new)?;
        match line.strip_suffix(b"\n") == Some(wanted.as_bytes()) {
            true => Ok(()),
            false => Err(Failure::new("unexpected output from the demo's sender")),
        }
    }
}
