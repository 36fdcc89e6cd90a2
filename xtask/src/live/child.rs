// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that run while something is measured, each with a time limit.

use crate::command::Background;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// A child process, terminated on drop. Its standard error is kept in a file.
pub(super) struct Running {
    program: Background,
    name: String,
    errors: PathBuf,
}

impl Running {
    /// Starts a command as `name`, with files for its output in the folder `place`. Its standard
    /// output goes to a file if `keeps_output` is set.
    pub(super) fn start(
        mut command: Command,
        name: &str,
        place: &Path,
        keeps_output: bool,
    ) -> Result<Self, String> {
        let (errors, output) = (place.join("errors"), place.join("output"));
        let create = |path: &Path| {
            File::create(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        command.stdin(Stdio::null()).stderr(create(&errors)?);
        match keeps_output {
            true => command.stdout(create(&output)?),
            false => command.stdout(Stdio::null()),
        };
        let program = Background::start(command)?;
        Ok(Self { program, name: name.to_owned(), errors })
    }

    /// Returns an error if the child has ended, with the last line of its standard error.
    pub(super) fn check(&mut self) -> Result<(), String> {
        match self.program.ended()? {
            Some(status) => Err(self.ended(status)),
            None => Ok(()),
        }
    }

    /// Returns the process ID.
    pub(super) fn id(&self) -> u32 {
        self.program.id()
    }

    /// Waits until the child ends. Returns an error if it failed.
    pub(super) fn finish(mut self) -> Result<(), String> {
        let status = self.program.wait()?;
        if status.success() { Ok(()) } else { Err(self.ended(status)) }
    }

    /// Returns `problem` with the last line that the child wrote to its standard error, if any.
    pub(super) fn explained(&self, problem: &str) -> String {
        let text = std::fs::read(&self.errors).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        match text.lines().rfind(|line| !line.trim().is_empty()) {
            Some(last) => format!("{} {problem}: {}", self.name, last.trim()),
            None => format!("{} {problem}", self.name),
        }
    }

    fn ended(&self, status: ExitStatus) -> String {
        self.explained(&format!("ended early ({status})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str, place: &Path) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        Running::start(command, "the program", place, true).unwrap()
    }

    #[test]
    fn a_program_that_ends_is_quoted() {
        let place = tempfile::tempdir().unwrap();
        let refused = shell("echo a >&2; echo 'no such key' >&2; exit 2", place.path());
        let error = refused.finish().unwrap_err();
        assert!(error.starts_with("the program ended early (exit status: 2): no such key"));
        shell("echo 7", place.path()).finish().unwrap();
        assert_eq!(std::fs::read_to_string(place.path().join("output")).unwrap(), "7\n");
    }

    #[test]
    fn a_program_that_runs_is_not_an_error() {
        let place = tempfile::tempdir().unwrap();
        let mut sleeps = shell("exec sleep 60", place.path());
        sleeps.check().unwrap();
        assert_eq!(sleeps.explained("forwarded nothing"), "the program forwarded nothing");
    }
}
