// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's processes, from the parent's side.

use super::Part;
use crate::failure::Failure;
use linerate_linux::child::signal_group;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// SIGKILL, which has the same number on all architectures.
const KILL: i32 = 9;

/// Datagrams counted by the sender and by the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Truth {
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Truth {
    /// Share of the sent packets that were not received.
    pub(super) fn lost_share(self) -> f64 {
        1.0 - self.received as f64 / self.sent.max(1) as f64
    }

    /// Parses `sent 5 received 3`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut number =
            |name: &str| (words.next()? == name).then(|| words.next()?.parse().ok())?;
        Some(Self { sent: number("sent")?, received: number("received")? })
    }
}

/// The child processes. Killed when dropped.
pub(super) struct Scene {
    sender: Child,
    says: BufReader<ChildStdout>,
    receiver: u32,
}

impl Scene {
    /// Starts both children. They exit on their own some seconds after `window`.
    pub(super) fn start(window: Duration) -> Result<Self, Failure> {
        let mut sender = child(Part::Sender, window)?
            .process_group(0)
            .spawn()
            .map_err(|error| Failure::new(format!("cannot start the demo's sender: {error}")))?;
        let says = sender.stdout.take().map(BufReader::new).expect("its output is a pipe");
        let mut scene = Self { sender, says, receiver: 0 };
        match scene.line()?.strip_prefix("watch ").and_then(|pid| pid.parse().ok()) {
            Some(pid) => scene.receiver = pid,
            None => return Err(scene.failure()),
        }
        Ok(scene)
    }

    /// The process to watch.
    pub(super) fn receiver(&self) -> u32 {
        self.receiver
    }

    /// Ends the demo; returns the counts of datagrams sent and received.
    pub(super) fn finish(mut self) -> Result<Truth, Failure> {
        drop(self.sender.stdin.take());
        match Truth::parse(&self.line()?) {
            Some(truth) => Ok(truth),
            None => Err(self.failure()),
        }
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.says.read_line(&mut line).map_err(Failure::new)?;
        Ok(line.trim().to_owned())
    }

    /// The sender's own error message.
    fn failure(&mut self) -> Failure {
        drop(self.sender.stdin.take());
        let mut words = String::new();
        if let Some(stderr) = &mut self.sender.stderr {
            // Output that cannot be read is left out of the message.
            let _ = stderr.read_to_string(&mut words);
        }
        let words = words.trim();
        let words = words.strip_prefix("linerate: ").unwrap_or(words);
        Failure::new(if words.is_empty() { "the demo exited early" } else { words })
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.sender.stdin.take());
        signal_group(self.sender.id(), KILL);
        // The process has been killed, so waiting for it can fail only if it has already been
        // reaped.
        let _ = self.sender.wait();
    }
}

/// Command that runs this program as a child process with the given role.
pub(super) fn child(part: Part, window: Duration) -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(Failure::new)?;
    let mut command = Command::new(program);
    let window = format!("{}ms", window.as_millis());
    command.args(["why", "--demo", "--demo-part", part.name(), "--time", &window]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_nothing_else() {
        let truth = Truth::parse("sent 200 received 50").expect("counts");
        assert!((truth.lost_share() - 0.75).abs() < 1e-9);
        assert_eq!(Truth::parse("sent x received 50"), None);
        assert_eq!(Truth::parse(""), None);
        assert!((Truth { sent: 0, received: 0 }.lost_share() - 1.0).abs() < 1e-9);
    }
}
