// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's child processes as seen by the parent.

use super::Part;
use crate::failure::Failure;
use linerate_linux::speaking::Speaking;
use std::process::Command;
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
    sender: Speaking,
    receiver: u32,
}

impl Scene {
    /// Starts both children, which exit on their own some time after `window` has elapsed.
    pub(super) fn start(window: Duration) -> Result<Self, Failure> {
        let command = child(Part::Sender, window)?;
        let mut sender = Speaking::start_apart(command).map_err(Failure::new)?;
        let pid = |line: &str| line.strip_prefix("watch ")?.parse().ok();
        let receiver = sender.hear(pid).map_err(Failure::new)?;
        Ok(Self { sender, receiver })
    }

    /// Returns the PID of the process to observe.
    pub(super) fn receiver(&self) -> u32 {
        self.receiver
    }

    /// Stops the demo, and returns the numbers of datagrams sent and received.
    pub(super) fn finish(mut self) -> Result<Truth, Failure> {
        self.sender.close();
        self.sender.hear(Truth::parse).map_err(Failure::new)
    }
}

/// Returns the command that runs this program as a child process with the given role.
pub(super) fn child(part: Part, window: Duration) -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(Failure::new)?;
    let mut command = Command::new(program);
    let window = format!("{}ms", window.as_millis());
    command.args(["why", "--demo", "--demo-part", part.name(), "--time", &window]);
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
