// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call, which is one invocation of the program (arguments, files and environment), and its
//! result.

use super::PATIENCE;
use crate::command::{Background, root};
use linerate_record::shell::quoted;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// Maximum bytes read from each output.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// A call of the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    /// Command-line arguments.
    pub(crate) words: Vec<String>,
    /// Shell command line that runs the call as `"$@"`; empty if the call runs without a shell.
    pub(crate) shell: String,
    /// Additional environment variables.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Files in the call's directory, which it must leave unchanged.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    /// Exit statuses that are valid in addition to those documented for every command.
    pub(crate) statuses: &'static [i32],
    /// Whether an error without a message is acceptable, because stderr is closed or full.
    pub(crate) is_mute: bool,
}

/// Exit status and output of a call.
#[derive(Debug)]
pub(crate) struct Done {
    /// Exit status (`Ok`) or terminating signal (`Err`); `None` if the time limit was reached.
    pub(crate) status: Option<Result<i32, i32>>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Input files that the call changed.
    pub(crate) changed: Vec<String>,
}

impl Call {
    /// Creates a call whose arguments are the words of `line`.
    pub(crate) fn new(line: &str) -> Self {
        let words = line.split_whitespace().map(str::to_owned).collect();
        Self { words, ..Self::default() }
    }

    /// Adds a file to the call's folder.
    pub(crate) fn file(mut self, name: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.to_owned(), content.into()));
        self
    }

    /// Runs the call from a shell command line, which refers to it as `"$@"`.
    pub(crate) fn within(mut self, shell: &str) -> Self {
        self.shell = shell.to_owned();
        self
    }

    /// Accepts `statuses` in addition to the documented exit statuses.
    pub(crate) fn may_end_with(self, statuses: &'static [i32]) -> Self {
        Self { statuses, ..self }
    }

    /// Accepts errors without a message, because stderr is closed or full.
    pub(crate) fn mute(self) -> Self {
        Self { is_mute: true, ..self }
    }

    /// Runs the call in `folder`, which is created for it.
    pub(crate) fn run(&self, folder: &Path, program: &Path) -> Result<Done, String> {
        let at = |error: io::Error| format!("{}: {error}", folder.display());
        let files = folder.join("in");
        fs::create_dir_all(&files).map_err(at)?;
        for (name, content) in &self.files {
            fs::write(files.join(name), content).map_err(at)?;
        }
        let outputs = ["stdout", "stderr"].map(|name| folder.join(name));
        let mut command = match self.shell.is_empty() {
            true => Command::new(program),
            false => {
                let mut shell = Command::new("bash");
                shell.args(["-c", &self.shell, "bash"]).arg(program);
                shell
            }
        };
        command.args(&self.words).current_dir(&files).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", folder.join("state"));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdout(File::create(&outputs[0]).map_err(at)?);
        command.stderr(File::create(&outputs[1]).map_err(at)?);
        // In a separate process group, so that the call can be killed with all its child processes.
        command.process_group(0);
        let mut running = Background::start(command)?;
        let status = wait(&mut running)?;
        let [stdout, stderr] = outputs.map(|file| head(&file));
        let is_changed = |(name, content): &&(String, Vec<u8>)| {
            fs::read(files.join(name)).ok().as_ref() != Some(content)
        };
        let changed = self.files.iter().filter(is_changed).map(|(name, _)| name.clone()).collect();
        Ok(Done { status, stdout, stderr, changed })
    }
}

/// Waits for the exit status or terminating signal; `None` if the call had to be killed.
fn wait(running: &mut Background) -> Result<Option<Result<i32, i32>>, String> {
    let Some(status) = running.wait_for(PATIENCE)? else {
        running.kill_group();
        return Ok(None);
    };
    Ok(Some(status.code().ok_or(status.signal().unwrap_or_default())))
}

fn head(file: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(open) = File::open(file) {
        // Unreadable files count as missing.
        let _ = open.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Formats the call as a command line to be run in `in`, the subdirectory with the call's files.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.environment {
            write!(f, "{name}={} ", quoted(value))?;
        }
        if !self.shell.is_empty() {
            write!(f, "bash -c {} bash ", quoted(&self.shell))?;
        }
        f.write_str("linerate")?;
        self.words.iter().try_for_each(|word| write!(f, " {}", quoted(word)))
    }
}

/// Reads a file from the repository.
pub(crate) fn stored(path: &str) -> Result<Vec<u8>, String> {
    fs::read(root().join(path)).map_err(|error| format!("{path}: {error}"))
}

/// Returns the first packets of the examples' capture.
pub(crate) fn capture() -> Result<Vec<u8>, String> {
    const BYTES: usize = 20_000;
    let whole = stored("examples/edge.pcapng")?;
    let mut end = 0;
    while let Some(length) = whole.get(end + 4..end + 8) {
        let length = u32::from_le_bytes(length.try_into().expect("4 bytes")) as usize;
        if end + length > BYTES || length == 0 {
            break;
        }
        end += length;
    }
    Ok(whole[..end].to_vec())
}

/// Creates a call whose files are the examples' edge router and a shortened copy of its capture.
pub(crate) fn edge(line: &str) -> Result<Call, String> {
    let path = stored("examples/edge.toml")?;
    Ok(Call::new(line).file("edge.toml", path).file("edge.pcapng", capture()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_call_has_the_same_arguments_in_a_shell() {
        let words = ["a\"b\\c", "it's", "x\ny\t\u{1b}[0m1", "", "$HOME `id` *", "\u{202e}µ"];
        let call = Call {
            words: words.map(str::to_owned).to_vec(),
            environment: vec![("ODD", "a\\\nb".to_owned())],
            ..Call::default()
        };
        let line = format!("linerate() {{ printf '%s\\0' \"$ODD\" \"$@\"; }}\n{call}");
        let done = Command::new("bash").args(["-c", &line]).output().expect("bash runs");
        let expected: String =
            ["a\\\nb"].iter().chain(&words).map(|word| format!("{word}\0")).collect();
        assert_eq!(String::from_utf8_lossy(&done.stdout), expected, "{line}");
    }
}
