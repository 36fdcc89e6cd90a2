// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's child processes: a sender, and a receiver that is too slow.

use super::scene::child;
use super::{BUFFER_BYTES, ENDS, PAUSE, PER_SECOND, Part};
use crate::emit::Answer;
use crate::failure::Failure;
use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::namespaces;
use linerate_linux::network::set_receive_buffer;
use linerate_linux::speaking::{Ends, Speaking, say_to_parent};
use linerate_linux::{Error, enter_new_network, enter_private_network, wait_to_read};
use std::fs::File;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

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
    let mut receiver = Speaking::start(child(Part::Receiver, window)?).map_err(Failure::new)?;
    ENDS.open_near(&mut receiver).map_err(Failure::new)?;
    receiver.expect("ready").map_err(Failure::new)?;
    let socket = UdpSocket::bind((Ends::NEAR_ADDRESS, 0)).map_err(Failure::new)?;
    socket.connect((Ends::FAR_ADDRESS, PORT)).map_err(Failure::new)?;
    reach(&mut receiver, &socket, until)?;
    say(&format!("watch {}", receiver.id()))?;
    let stdin = Input::of_this_process()?;
    let began = Instant::now();
    let mut sent = 0;
    while Instant::now() < until && !stdin.has_ended() {
        let due = (began.elapsed().as_secs_f64() * PER_SECOND) as u64;
        // Datagrams that the interface's full queue rejected do not count as sent.
        sent += (sent..due).filter(|_| socket.send(&PAYLOAD).is_ok()).count() as u64;
        std::thread::sleep(STEP);
    }
    let received = end(&mut receiver)?;
    say(&format!("sent {sent} received {received}"))
}

/// Empties the small receive buffer every [`PAUSE`], and finally prints the number of datagrams
/// received.
fn receive(until: Instant) -> Result<(), Failure> {
    enter_new_network().map_err(|error| no_namespace(&error))?;
    // Gives the receiver its own name in the report instead of this program's.
    let _ = std::fs::write("/proc/self/comm", "demo-receiver");
    ENDS.open_far().map_err(Failure::new)?;
    let stdin = Input::of_this_process()?;
    let socket = UdpSocket::bind((Ends::FAR_ADDRESS, PORT)).map_err(Failure::new)?;
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
    say_to_parent(line).map_err(Failure::new)
}

/// Sends datagrams until the receiver has received one. The kernel may activate an interface up to
/// a second after it is brought up, and answers no ARP requests until then.
fn reach(receiver: &mut Speaking, socket: &UdpSocket, until: Instant) -> Result<(), Failure> {
    let mut is_reached = false;
    while !is_reached && Instant::now() < until {
        // An error of an earlier datagram, such as an unreachable host, is reported here.
        let _ = socket.send(&PAYLOAD);
        is_reached = receiver.wait_to_hear(STEP_TO_REACH);
    }
    receiver.expect("reached").map_err(Failure::new)
}

/// Stops the receiver, and returns the number of datagrams it received.
fn end(receiver: &mut Speaking) -> Result<u64, Failure> {
    receiver.close();
    receiver.hear(|line| line.strip_prefix("received ")?.parse().ok()).map_err(Failure::new)
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
    fn has_ended(&self) -> bool {
        wait_to_read(&self.0, Duration::ZERO).unwrap_or(true)
    }
}
