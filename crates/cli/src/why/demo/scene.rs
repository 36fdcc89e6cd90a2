// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's child processes as seen by the parent.

use super::Part;
use crate::failure::Failure;
use linerate_linux::child::signal_group;
use linerate_linux::signal::KILL;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Datagrams counted by sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Truth {
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Truth {
    /// Returns the fraction of sent datagrams that were not received.
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

/// The child processes, which are killed on drop.
pub(super) struct Scene {
    sender: Child,
    says: BufReader<ChildStdout>,
    receiver: u32,
}

impl Scene {
    /// Starts both children, which exit on their own some time after `window` has elapsed.
    pub(super) fn start(window: Duration) -> Result<Self, Failure> {
        let mut sender = child(Part::Sender, window)?
            .process_group(0)
            .spawn()
            .map_err(|error| Failure::new(format!("cannot start the demo's sender: {error}")))?;
        let says = sender.stdout.take().map(BufReader::new).expect("the sender's output is a pipe");
        let mut scene = Self { sender, says, receiver: 0 };
        match scene.line()?.strip_prefix("watch ").and_then(|pid| pid.parse().ok()) {
            Some(pid) => scene.receiver = pid,
            None => return Err(scene.failure()),
        }
        Ok(scene)
    }

    /// Returns the PID of the process to observe.
    pub(super) fn receiver(&self) -> u32 {
        self.receiver
    }

    /// Stops the demo, and returns the numbers of datagrams sent and received.
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

    /// Returns a failure with the sender's own error message.
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
        // The process has been killed, so waiting can fail only if it was already reaped.
        let _ = self.sender.wait();
    }
}

/// Returns the command that runs this program as a child process with the given role.
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
