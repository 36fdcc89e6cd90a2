// SPDX-License-Identifier: MIT OR Apache-2.0
//! A child process that exchanges lines with its parent, and a veth pair that connects both.
//!
//! The child reads orders from stdin and answers on stdout. It ends when its stdin is closed. If it
//! ends early, its stderr says why.
//!
//! ```text
//! parent               child: enters a new network namespace
//!        <entered--    [`Ends::open_far`]
//!        --joined->    [`Ends::open_near`] in the parent, once the pair exists
//! ```

use crate::child::signal_group;
use crate::errno::without_numbers;
use crate::network::Network;
use crate::{signal, wait_to_read};
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Why the exchange with a child process failed, as a message for users: the child's own error
/// message if it ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(String);

impl Broken {
    fn new(reason: impl fmt::Display) -> Self {
        Self(without_numbers(&reason.to_string()))
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

/// The parent's handle to the child, which is killed when the handle is dropped.
#[derive(Debug)]
pub struct Speaking {
    child: Child,
    says: BufReader<ChildStdout>,
    is_apart: bool,
}

impl Speaking {
    /// Starts `command` with pipes as stdin, stdout and stderr.
    ///
    /// # Errors
    /// Returns an error if the command cannot be started.
    pub fn start(command: Command) -> Result<Self, Broken> {
        Self::start_in(command, false)
    }

    /// Like [`Speaking::start`], but in a new process group, which is killed with the child. Ctrl-C
    /// in a terminal does not reach it.
    ///
    /// # Errors
    /// Returns an error if the command cannot be started.
    pub fn start_apart(mut command: Command) -> Result<Self, Broken> {
        command.process_group(0);
        Self::start_in(command, true)
    }

    fn start_in(mut command: Command, is_apart: bool) -> Result<Self, Broken> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| Broken::new(format!("cannot start a child process: {error}")))?;
        let says = child.stdout.take().map(BufReader::new).expect("stdout is a pipe");
        Ok(Self { child, says, is_apart })
    }

    /// Returns the child's process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends the child a line.
    ///
    /// # Errors
    /// Returns an error if the child has ended or [`Speaking::close`] was called.
    pub fn say(&mut self, line: &str) -> Result<(), Broken> {
        let stdin = self.child.stdin.as_mut();
        let said = stdin.map(|stdin| writeln!(stdin, "{line}").and_then(|()| stdin.flush()));
        match said {
            Some(Ok(())) => Ok(()),
            _ => Err(self.last_words()),
        }
    }

    /// Closes the child's stdin, which asks it to end.
    pub fn close(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for a line and returns what `parse` makes of it, without the newline.
    ///
    /// # Errors
    /// Returns an error if the child has ended, or if `parse` returns `None`.
    pub fn hear<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Broken> {
        let mut line = String::new();
        let got = self.says.read_line(&mut line);
        if matches!(got, Ok(0) | Err(_)) {
            return Err(self.last_words());
        }
        let line = line.trim();
        parse(line).ok_or_else(|| Broken(format!("unexpected output of a child process: '{line}'")))
    }

    /// Waits for a line and checks that it is `wanted`.
    ///
    /// # Errors
    /// Returns an error if the child has ended, or if the line is another one.
    pub fn expect(&mut self, wanted: &str) -> Result<(), Broken> {
        self.hear(|line| (line == wanted).then_some(()))
    }

    /// Waits until the child has written something or has ended; `false` if neither happened within
    /// `at_most`.
    pub fn wait_to_hear(&self, at_most: Duration) -> bool {
        !self.says.buffer().is_empty() || wait_to_read(self.says.get_ref(), at_most).unwrap_or(true)
    }

    /// Returns the error message of a child that has ended, or is about to.
    fn last_words(&mut self) -> Broken {
        self.close();
        let mut words = Vec::new();
        if let Some(stderr) = &mut self.child.stderr {
            // Output that cannot be read is left out of the message.
            let _ = stderr.read_to_end(&mut words);
        }
        let words = String::from_utf8_lossy(&words);
        let words = words.trim();
        let words = words.strip_prefix("linerate: ").unwrap_or(words);
        Broken::new(if words.is_empty() { "a child process ended early" } else { words })
    }
}

impl Drop for Speaking {
    fn drop(&mut self) {
        self.close();
        if self.is_apart {
            signal_group(self.child.id(), signal::KILL);
        }
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends the parent a line.
///
/// # Errors
/// Returns an error if stdout is closed.
pub fn say_to_parent(line: &str) -> Result<(), Broken> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(Broken::new)
}

/// Waits for a line from the parent. Returns it without white space at both ends; empty if stdin is
/// closed.
///
/// # Errors
/// Returns an error if stdin cannot be read.
pub fn hear_from_parent() -> Result<String, Broken> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(Broken::new)?;
    Ok(line.trim().to_owned())
}

/// Prefix length of both addresses, in bits.
const PREFIX: u8 = 24;
const ENTERED: &str = "entered";
const JOINED: &str = "joined";

/// Names of the interfaces at both ends of a veth pair between the network namespaces of a parent
/// and its child.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// In the parent's namespace.
    pub near: &'static str,
    /// In the child's namespace.
    pub far: &'static str,
}

impl Ends {
    /// Address of the parent's end, from the range reserved for documentation (RFC 5737).
    pub const NEAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    /// Address of the child's end.
    pub const FAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

    /// Creates the pair once the child has entered its namespace, brings the near end up, and lets
    /// the child continue.
    ///
    /// # Errors
    /// Returns an error if the child has ended, or if the pair cannot be created.
    pub fn open_near(self, child: &mut Speaking) -> Result<(), Broken> {
        child.expect(ENTERED)?;
        let network = Network::own().map_err(Broken::new)?;
        network.add_pair(self.near, self.far, child.id()).map_err(Broken::new)?;
        network.bring_up(self.near, Self::NEAR_ADDRESS, PREFIX).map_err(Broken::new)?;
        child.say(JOINED)
    }

    /// In the child, once it is in its namespace: waits for the parent and brings the far end up.
    ///
    /// # Errors
    /// Returns an error if the parent has gone, or if the interface cannot be brought up.
    pub fn open_far(self) -> Result<(), Broken> {
        say_to_parent(ENTERED)?;
        let order = hear_from_parent()?;
        if order != JOINED {
            return Err(Broken(format!("unexpected order from the parent: '{order}'")));
        }
        let network = Network::own().map_err(Broken::new)?;
        network.bring_up(self.far, Self::FAR_ADDRESS, PREFIX).map_err(Broken::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_go_both_ways() {
        let script = "echo ready; read -r order; echo got $order; cat; echo bye";
        let mut child = Speaking::start(shell(script)).expect("a shell");
        assert!(child.wait_to_hear(Duration::from_secs(20)));
        child.expect("ready").expect("the first line");
        child.say("5 6").expect("a reader");
        assert_eq!(child.hear(|line| line.strip_prefix("got ").map(str::to_owned)).unwrap(), "5 6");
        assert!(!child.wait_to_hear(Duration::from_millis(1)));
        child.close();
        child.expect("bye").expect("the last line");
    }

    /// Whatever ends the child, its own words are in the message.
    #[test]
    fn an_early_end_is_explained() {
        let said = |script: &str| {
            Speaking::start(shell(script)).unwrap().expect("ready").unwrap_err().to_string()
        };
        assert_eq!(said("echo 'linerate: no such interface' >&2"), "no such interface");
        assert_eq!(said("echo 'thread panicked' >&2; exit 101"), "thread panicked");
        assert_eq!(said("exit 3"), "a child process ended early");
        // The child goes on: its stderr is not awaited.
        assert_eq!(said("echo no; sleep 1000"), "unexpected output of a child process: 'no'");
        let missing = Speaking::start(Command::new("/does/not/exist")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot start a child process: No such file"), "{missing}");
    }

    /// What the child has started ends with its group.
    #[test]
    fn a_dropped_group_ends_as_a_whole() {
        let mut child =
            Speaking::start_apart(shell("sleep 1000 & echo $!; wait")).expect("a shell");
        let pid: u32 = child.hear(|line| line.parse().ok()).expect("a PID");
        let folder = std::path::PathBuf::from(format!("/proc/{pid}/task"));
        assert!(folder.exists());
        drop(child);
        // A zombie remains until init has reaped it.
        let is_there = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        for _ in 0..2000 {
            if !is_there() {
                return;
            }
            crate::child::sleep(Duration::from_millis(5));
        }
        panic!("still running");
    }
}
