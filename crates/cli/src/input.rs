// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads whole files, with size and time limits.
//!
//! The first bytes of a long file determine whether to read the rest. Only the first bytes of a
//! device are read. Reads from pipes without a writer and from silent devices time out.

use linerate_record::units::memory_size;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

/// Read size in bytes. The first chunk determines whether the rest of a long file is read. Only the
/// first chunk of a device is read.
const CHUNK_BYTES: usize = 64 << 10;

/// Timeout for a pipe without a writer, and for a silent device.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Interval between attempts to open or read a pipe.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// A kind of input file: its maximum size, and how to recognize a wrong format.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Maximum size in bytes.
    bytes_max: u64,
    /// Inspects the first chunk of a long file. Returns the reason to reject the file, if any.
    refuse: fn(&[u8]) -> Option<&'static str>,
}

/// TOML: a path or a processor.
pub(crate) const TOML: Kind = Kind { bytes_max: 16 << 20, refuse: not_text };

/// A record.
pub(crate) const RECORD: Kind = Kind { bytes_max: 512 << 20, refuse: not_json };

/// Another program's output. Damaged lines in it may contain any bytes.
pub(crate) const PRINTED: Kind = Kind { bytes_max: 512 << 20, refuse: nothing_printed };

/// Any finite file, whatever its size and content.
pub(crate) const ANY: Kind = Kind { bytes_max: u64::MAX, refuse: |_| None };

fn not_text(first: &[u8]) -> Option<&'static str> {
    let is_text = match std::str::from_utf8(first) {
        Ok(text) => !text.contains('\0'),
        // The chunk may end within a character.
        Err(error) => error.error_len().is_none(),
    };
    (!is_text).then_some("not a text file")
}

fn not_json(first: &[u8]) -> Option<&'static str> {
    let begins = first.iter().find(|byte| !byte.is_ascii_whitespace());
    (begins != Some(&b'{')).then_some("not a linerate record, because it is not JSON")
}

fn nothing_printed(first: &[u8]) -> Option<&'static str> {
    let zeros = first.iter().filter(|byte| **byte == 0).count();
    (zeros > first.len() / 2).then_some("not a text file: it begins with NUL bytes")
}

/// Reads a text file, or stdin if the name is `-`. The error message does not include the file
/// name.
pub(crate) fn text(file: &Path, kind: Kind) -> Result<String, String> {
    String::from_utf8(bytes(file, kind)?).map_err(|error| {
        format!("byte {} is not UTF-8: not a text file", error.utf8_error().valid_up_to())
    })
}

/// Reads a binary file, or stdin if the name is `-`. The error message does not include the file
/// name.
pub(crate) fn bytes(file: &Path, kind: Kind) -> Result<Vec<u8>, String> {
    let read = match file == Path::new("-") {
        true => whole(&mut io::stdin().lock(), kind),
        false => Patient::open(file, PATIENCE)
            .and_then(|open| Ok((open.limit(kind)?, open)))
            .and_then(|(bytes_max, mut open)| whole(&mut open, Kind { bytes_max, ..kind })),
    };
    read.map_err(|error| error.to_string())
}

/// Reads `from` to its end.
fn whole(from: &mut impl Read, kind: Kind) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let taken = from.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut all)?;
        if all.len() as u64 > kind.bytes_max {
            let limit = memory_size(kind.bytes_max as f64);
            return Err(io::Error::other(format!("larger than {limit}: name another file")));
        }
        if taken < CHUNK_BYTES {
            return Ok(all);
        }
        let refused = if all.len() == CHUNK_BYTES { (kind.refuse)(&all) } else { None };
        if let Some(why) = refused {
            return Err(io::Error::other(why));
        }
    }
}

/// An open file on which reads time out.
#[derive(Debug)]
pub(crate) struct Patient {
    file: File,
    is_pipe: bool,
    /// Whether any data has arrived, or a writer has closed the pipe.
    has_begun: bool,
    patience: Duration,
}

impl Patient {
    /// Opens a file for reading.
    pub(crate) fn open(file: &Path, patience: Duration) -> io::Result<Self> {
        let file = linerate_linux::open_to_read_without_waiting(file)?;
        let is_pipe = file.metadata()?.file_type().is_fifo();
        Ok(Self { file, is_pipe, has_begun: false, patience })
    }

    /// Returns the maximum number of bytes to read, which is lower for devices than for files.
    fn limit(&self, kind: Kind) -> io::Result<u64> {
        let found = self.file.metadata()?.file_type();
        let is_device = found.is_char_device() || found.is_block_device();
        Ok(if is_device { CHUNK_BYTES as u64 } else { kind.bytes_max })
    }

    fn silent(&self) -> io::Error {
        let seconds = self.patience.as_secs_f64();
        let why = match self.is_pipe {
            true => format!("no program opened this pipe for writing within {seconds} s"),
            false => format!("no input within {seconds} s: pass a file name"),
        };
        io::Error::new(ErrorKind::TimedOut, why)
    }
}

impl Read for Patient {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut left = self.patience;
        loop {
            let has_writer = match self.file.read(to) {
                // Reading a pipe without a writer also returns end-of-file.
                Ok(0) if self.is_pipe && !self.has_begun => false,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_pipe,
                read => {
                    self.has_begun = true;
                    return read;
                }
            };
            self.has_begun |= linerate_linux::wait_to_read(&self.file, STEP)?;
            // A device may stop delivering data at any time.
            let is_waiting = if self.is_pipe { !has_writer && !self.has_begun } else { true };
            if is_waiting {
                left = left.checked_sub(STEP).ok_or_else(|| self.silent())?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SHORT: Kind = Kind { bytes_max: 100 << 10, refuse: |_| None };

    #[test]
    fn what_never_ends_is_refused_by_its_first_bytes_or_its_length() {
        let refused = |kind| whole(&mut io::repeat(0), kind).expect_err("endless").to_string();
        assert!(refused(TOML).contains("not a text file"));
        assert!(refused(RECORD).contains("not a linerate record"));
        assert!(refused(PRINTED).contains("not a text file"));
        assert!(refused(SHORT).contains("larger than 100 KiB"));
        let spaces = whole(&mut io::repeat(b' ').take(1 << 20), RECORD);
        assert!(spaces.expect_err("no object").to_string().contains("not a linerate record"));
    }

    #[test]
    fn devices_give_little_or_nothing() {
        let read = |file: &str| bytes(Path::new(file), ANY);
        assert_eq!(read("/dev/null"), Ok(Vec::new()));
        assert!(read("/dev/zero").expect_err("it is endless").contains("larger than 64 KiB"));
        assert!(read("/").expect_err("a folder").contains("directory"));
    }

    #[test]
    fn what_is_read_is_what_is_there_however_long() {
        let folder = tempfile::tempdir().expect("a folder");
        for length in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 100 << 10] {
            let file = folder.path().join("file");
            fs::write(&file, vec![b'x'; length]).expect("it can be written");
            assert_eq!(bytes(&file, SHORT).expect("it is short").len(), length);
            assert_eq!(text(&file, SHORT).expect("it is text").len(), length);
        }
    }

    fn pipe(folder: &Path) -> std::path::PathBuf {
        let pipe = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo is there").success());
        pipe
    }

    #[test]
    fn a_pipe_without_a_writer_is_given_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut open = Patient::open(&pipe(folder.path()), STEP).expect("it can be opened");
        let error = whole(&mut open, SHORT).expect_err("no process writes");
        assert!(error.to_string().contains("no program opened"), "{error}");
    }

    #[test]
    fn a_pipe_with_a_writer_is_read_to_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = pipe(folder.path());
        for text in ["", "all of it"] {
            let mut open = Patient::open(&pipe, PATIENCE).expect("it can be opened");
            let to = pipe.clone();
            let writer = std::thread::spawn(move || fs::write(to, text));
            assert_eq!(whole(&mut open, SHORT).expect("it ends"), text.as_bytes());
            writer.join().expect("it ends").expect("it can be written");
        }
    }
}
