// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that run while something is measured.

use super::shown;
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a program may take to end after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_secs(10);
/// Interval at which a program's state is read.
const STEP: Duration = Duration::from_millis(5);

/// A running program, ended on drop: with SIGTERM, and if it does not end within 10 s, SIGKILL.
#[derive(Debug)]
pub(crate) struct Background(Child);

impl Background {
    /// Starts a program.
    pub(crate) fn start(mut command: Command) -> Result<Self, String> {
        let child = command.spawn();
        child.map(Self).map_err(|error| format!("cannot start `{}`: {error}", shown(&command)))
    }

    /// Returns the process ID.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Takes the program's standard output, if it is a pipe.
    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// Returns how the program ended; `None` if it is running.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.0.try_wait().map_err(|error| error.to_string())
    }

    /// Waits until the program ends.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus, String> {
        self.0.wait().map_err(|error| error.to_string())
    }

    /// Waits until the program ends or `at_most` has passed, and returns how it ended.
    pub(crate) fn wait_for(&mut self, at_most: Duration) -> Result<Option<ExitStatus>, String> {
        let start = Instant::now();
        loop {
            let ended = self.ended()?;
            if ended.is_some() || start.elapsed() > at_most {
                return Ok(ended);
            }
            sleep(STEP);
        }
    }

    /// Ends the program and waits for it: with SIGTERM, and if it does not end within 10 s,
    /// SIGKILL.
    pub(crate) fn end(&mut self) {
        // The process ID of a child that has been waited for may belong to another process.
        if !matches!(self.ended(), Ok(None)) {
            return;
        }
        signal("TERM", &self.id().to_string());
        if !matches!(self.wait_for(GRACE), Ok(Some(_))) {
            // It may have ended by now.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Kills all processes of the program's process group, which it must be the leader of, and
    /// waits for the program.
    pub(crate) fn kill_group(&mut self) {
        if matches!(self.ended(), Ok(None)) {
            signal("KILL", &format!("-{}", self.id()));
            let _ = self.0.wait();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sends a signal by kill(1). `target` is a process ID, or a process group's with a minus sign.
fn signal(name: &str, target: &str) {
    // The target may have ended.
    let _ = Command::new("kill").args(["-s", name, "--", target]).status();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn shell(line: &str) -> Background {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        Background::start(command).unwrap()
    }

    #[test]
    fn a_program_that_runs_is_ended_on_drop() {
        let mut sleeps = shell("exec sleep 60");
        assert_eq!(sleeps.ended(), Ok(None));
        let process = PathBuf::from(format!("/proc/{}", sleeps.id()));
        drop(sleeps);
        assert!(!process.exists());
    }

    #[test]
    fn a_program_that_has_ended_is_left_alone() {
        let mut done = shell("exit 3");
        assert_eq!(done.wait().map(|status| status.code()), Ok(Some(3)));
        done.end();
        assert_eq!(done.ended().map(|status| status.and_then(|one| one.code())), Ok(Some(3)));
    }

    #[test]
    fn a_group_is_killed_as_a_whole() {
        use std::io::{BufRead, BufReader};
        use std::os::unix::process::CommandExt;
        use std::process::Stdio;
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & echo $!; wait"]).process_group(0).stdout(Stdio::piped());
        let mut group = Background::start(command).unwrap();
        let mut line = String::new();
        BufReader::new(group.take_stdout().unwrap()).read_line(&mut line).unwrap();
        group.kill_group();
        let stat = format!("/proc/{}/stat", line.trim());
        // A zombie remains until init has reaped it.
        let is_there = || std::fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z "));
        for _ in 0..2000 {
            if !is_there() {
                return;
            }
            sleep(STEP);
        }
        panic!("still running");
    }
}
