// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs other programs from the repository root.

mod background;
mod scratch;

pub(crate) use background::Background;
pub(crate) use scratch::Scratch;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

thread_local! {
    /// Log file for the output of programs started by this thread; `None` sends it to xtask's own
    /// output.
    static LOG: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// Sends the output of all programs that this thread starts from now on to `log`, or to xtask's own
/// output if `log` is `None`.
pub(crate) fn log_to(log: Option<File>) {
    LOG.set(log);
}

/// Returns a second handle to this thread's log, if any, for a thread that it starts.
pub(crate) fn log() -> Option<File> {
    LOG.with_borrow(|log| {
        log.as_ref().map(|file| file.try_clone().expect("the log can be duplicated"))
    })
}

/// Prints a line to the current output: the log or stdout.
pub(crate) fn say(line: &str) -> io::Result<()> {
    match log() {
        Some(mut file) => writeln!(file, "{line}"),
        None => writeln!(io::stdout(), "{line}"),
    }
}

/// Redirects the command's output to the log, if there is one.
fn logged(command: &mut Command) {
    if let Some(file) = log() {
        command.stderr(file.try_clone().expect("the log can be duplicated")).stdout(file);
    }
}

/// Returns the root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository")
}

/// Creates a command for a program with its arguments, to be run from the root without stdin.
pub(crate) fn program(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// Creates a command for the current toolchain's cargo.
pub(crate) fn cargo(args: &[&str]) -> Command {
    program(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), args)
}

/// Creates a command for the cargo of another toolchain that rustup has installed.
pub(crate) fn cargo_of(toolchain: &str, args: &[&str]) -> Command {
    let mut command = program("rustup", &["run", toolchain, "cargo"]);
    command.args(args);
    // A separate target directory per toolchain, so that artefacts of two compilers do not mix and
    // neither build is invalidated.
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    command.env("CARGO_TARGET_DIR", root().join(target).join(toolchain));
    command
}

/// Formats the command as it would be typed.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words: Vec<_> = std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect();
    words.join(" ")
}

/// Runs the command, with its output sent to the log if there is one, and returns its exit status.
/// It is an error if the command could not be started or was killed by a signal.
pub(crate) fn status(mut command: Command) -> Result<i32, String> {
    let shown = shown(&command);
    let start = |e: io::Error| format!("cannot start `{shown}`: {e}");
    say(&format!("$ {shown}")).map_err(start)?;
    logged(&mut command);
    let status = command.status().map_err(start)?;
    status.code().ok_or_else(|| format!("`{shown}` was killed ({status})"))
}

/// Like [`status`], but also passes every stdout line to `line`.
pub(crate) fn status_with_lines(
    mut command: Command,
    mut line: impl FnMut(&str),
) -> Result<i32, String> {
    let shown = shown(&command);
    let start = |e: io::Error| format!("cannot run `{shown}`: {e}");
    say(&format!("$ {shown}")).map_err(start)?;
    logged(&mut command);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(start)?;
    let stdout = child.stdout.take().expect("standard output is piped");
    for text in BufReader::new(stdout).lines() {
        let text = text.map_err(start)?;
        say(&text).map_err(start)?;
        line(&text);
    }
    let status = child.wait().map_err(start)?;
    status.code().ok_or_else(|| format!("`{shown}` was killed ({status})"))
}

/// Returns the command's stdout; `Err` if it cannot start or does not exit with 0.
pub(crate) fn output(command: Command) -> Result<Vec<u8>, String> {
    let shown = shown(&command);
    match finish(command)? {
        Output { status, stdout, .. } if status.success() => Ok(stdout),
        Output { status, .. } => Err(format!("`{shown}` ended with {status}")),
    }
}

/// Returns the command's stdout and how it ended; `Err` if it cannot start.
pub(crate) fn finish(mut command: Command) -> Result<Output, String> {
    let shown = shown(&command);
    let errors = log().map_or_else(Stdio::inherit, Stdio::from);
    command.stderr(errors).output().map_err(|e| format!("cannot start `{shown}`: {e}"))
}
