// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command that is watched from its start, and ended with the window.

use crate::ObserveError;
use crate::procfs::task::describe_status;
use linerate_linux::child::signal_group;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// SIGTERM and SIGKILL, the same on all architectures.
const TERM: i32 = 15;
const KILL: i32 = 9;

/// Grace period of a command after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// Polling interval for its exit.
const STEP: Duration = Duration::from_millis(5);

/// A command that was started here, in a process group of its own. Dropped, it is ended.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Starts it. Its standard input is this program's, unless that is a terminal: a group in
    /// the background would be stopped when it reads from one.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(command: &[OsString]) -> Result<Self, ObserveError> {
        let (program, arguments) = command.split_first().ok_or(ObserveError::NoProcess)?;
        let mut starting = Command::new(program);
        starting.args(arguments).process_group(0);
        if std::io::stdin().is_terminal() {
            starting.stdin(Stdio::null());
        }
        let child = starting.spawn().map_err(|error| ObserveError::NotStarted {
            command: program.to_string_lossy().into_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { child, ended: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended: `exit status 1`, `SIGKILL`.
    pub(crate) fn ended(&mut self) -> Option<String> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended.map(|status| describe_status(status.into_raw() as u32))
    }

    /// As [`Running::ended`], after waiting for its end for a moment: its threads are gone.
    pub(crate) fn wait_a_moment(&mut self) -> Option<String> {
        let mut left = GRACE;
        while self.ended().is_none() && !left.is_zero() {
            std::thread::sleep(STEP);
            left = left.saturating_sub(STEP);
        }
        self.ended()
    }

    /// Ends it and all of its group: SIGTERM, then, after [`GRACE`], SIGKILL.
    fn end(&mut self) {
        if self.ended().is_none() {
            signal_group(self.child.id(), TERM);
            self.wait_a_moment();
        }
        // What it left behind in its group; nothing, as a rule.
        signal_group(self.child.id(), KILL);
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
    }
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
        assert_eq!(running.ended(), None);
        let pid = running.pid();
        running.end();
        assert!(running.ended().is_some());
        assert!(!std::path::Path::new(&format!("/proc/{pid}/stat")).exists());
    }
}
