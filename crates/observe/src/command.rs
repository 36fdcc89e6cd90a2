// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command that is observed from its start, and terminated after the window.

use crate::ObserveError;
use crate::procfs::task::describe_status;
use linerate_linux::child::{Child, Ended, Held, fork_held_apart};
use std::ffi::OsString;
use std::io::Error;
use std::time::Duration;

/// Grace period after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// A command in its own process group, stopped before its first instruction. If dropped, it never
/// runs.
#[derive(Debug)]
pub(crate) struct Waiting {
    name: String,
    held: Held,
}

impl Waiting {
    /// Forks the command's process. Stdin is inherited unless it is a terminal.
    ///
    /// # Errors
    ///
    /// Returns an error if no process can be created.
    pub(crate) fn new(command: &[OsString]) -> Result<Self, ObserveError> {
        let (program, arguments) = command.split_first().ok_or(ObserveError::NoProcess)?;
        let name = program.to_string_lossy().into_owned();
        let held = fork_held_apart(program, arguments).map_err(|error| {
            ObserveError::NotStarted { command: name.clone(), reason: error.to_string() }
        })?;
        Ok(Self { name, held })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.held.pid()
    }

    /// Lets the command run.
    ///
    /// # Errors
    /// Returns an error if the program does not exist, or if the user is not permitted to execute
    /// it.
    pub(crate) fn start(self) -> Result<Running, ObserveError> {
        let Self { name, held } = self;
        let child = held.release().map_err(|error| ObserveError::NotStarted {
            command: name,
            reason: Error::from_raw_os_error(error.errno).to_string(),
        })?;
        Ok(Running { child })
    }
}

/// A running command in its own process group, terminated on drop.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Starts a command: [`Waiting::new`] followed by [`Waiting::start`].
    ///
    /// # Errors
    /// Returns an error if the command cannot be started.
    pub(crate) fn start(command: &[OsString]) -> Result<Self, ObserveError> {
        Waiting::new(command)?.start()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Waits up to [`GRACE`] for the process to end, and returns how it ended: `exit status 1`,
    /// `SIGKILL`; `None` if it has not. Call when its threads have already exited.
    pub(crate) fn wait_a_moment(&mut self) -> Option<String> {
        self.child.wait_for(GRACE, None).map(describe)
    }

    /// Terminates the command's process group with SIGTERM, then SIGKILL after [`GRACE`], and also
    /// the processes that the command left behind in its group; usually none.
    fn end(&mut self) {
        self.child.end_group(GRACE);
    }
}

/// Formats how a command ended, by its status in the format of wait(2).
fn describe(ended: Ended) -> String {
    describe_status(match (ended.status, ended.signal) {
        (_, Some(signal)) => signal as u32,
        (status, None) => (status.unwrap_or(0) as u32) << 8,
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(words: &[&str]) -> Result<Running, ObserveError> {
        Running::start(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_command_that_cannot_be_started_says_why() {
        let error = start(&["no-such-command-anywhere"]).unwrap_err().to_string();
        assert!(error.starts_with("cannot start 'no-such-command-anywhere': No such"), "{error}");
        assert_eq!(start(&[]).unwrap_err(), ObserveError::NoProcess);
    }

    #[test]
    fn a_command_and_its_children_end_with_it() {
        let mut running = start(&["sh", "-c", "trap '' TERM; sleep 60 & wait; sleep 60"]).unwrap();
        assert_eq!(running.child.wait_for(Duration::ZERO, None), None);
        let pid = running.pid();
        running.end();
        assert!(running.child.wait_for(Duration::ZERO, None).is_some());
        assert!(!std::path::Path::new(&format!("/proc/{pid}/stat")).exists());
    }
}
