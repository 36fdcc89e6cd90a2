// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of a command that prints one line or record after another.

use super::{Destination, ended, print_to_stderr, print_to_stdout};
use crate::failure::Failure;
use crate::files;
use std::fs::File;
use std::io::{self, ErrorKind, Write};

/// Where the lines go.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    destination: Destination<'a>,
    /// The destination file; `None` before the first line is written, or without a file.
    file: Option<File>,
}

impl<'a> Lines<'a> {
    /// Sends lines to `destination`. A file is truncated when the first line is written.
    pub(crate) fn to(destination: Destination<'a>) -> Self {
        Self { destination, file: None }
    }

    /// Writes a line. Returns `false` if the reader has closed the pipe, so that further lines
    /// would be lost as well.
    ///
    /// # Errors
    /// Returns an error if the line cannot be written.
    pub(crate) fn put(&mut self, text: &str) -> Result<bool, Failure> {
        let written = self.write(text)?;
        let is_read = !matches!(&written, Err(error) if error.kind() == ErrorKind::BrokenPipe);
        ended(written).map(|_| is_read)
    }

    fn write(&mut self, text: &str) -> Result<io::Result<()>, Failure> {
        match self.destination {
            Destination::Stdout => Ok(print_to_stdout(text)),
            Destination::Stderr => Ok(print_to_stderr(text)),
            Destination::File(file) => {
                if self.file.is_none() {
                    self.file = Some(files::open_for_lines(file)?);
                }
                let written = self.file.as_mut().map(|to| to.write_all(text.as_bytes()));
                Ok(written.unwrap_or(Ok(())))
            }
        }
    }
}
