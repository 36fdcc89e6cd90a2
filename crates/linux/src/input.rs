// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening and reading files that may block indefinitely, such as devices and pipes without a
//! writer.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// Opens a file for reading. If the file is a pipe, does not wait for a writer. Reads do not block
/// either: they return [`io::ErrorKind::WouldBlock`] if there is no data yet, and 0 bytes if a pipe
/// has no writer.
///
/// # Errors
/// Returns the error from open(2).
pub fn open_to_read_without_waiting(file: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(file)
}

/// Opens a regular file for reading. Fails for pipes and devices instead of waiting.
///
/// # Errors
/// Returns the error from open(2) or fstat(2), or `InvalidInput` for other kinds of files.
pub fn open_regular_file(file: impl AsRef<Path>) -> io::Result<File> {
    let file = open_to_read_without_waiting(file.as_ref())?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Opens a pipe for writing; fails with ENXIO instead of waiting if there is no reader. Writes to
/// the returned file block until there is room.
///
/// # Errors
/// Returns the error from open(2) or fcntl(2).
pub fn open_pipe_to_write_without_waiting(pipe: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(pipe)?;
    // SAFETY: the call changes the flags of a descriptor that `file` owns, and no memory.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(file),
    }
}

/// Returns whether `error` means that a pipe opened for writing has no reader.
pub fn is_without_reader(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENXIO)
}

/// Waits until a file has data to read or its last writer has closed it; `false` if neither
/// happened within `at_most`. A handled signal restarts the timeout.
///
/// # Errors
/// Returns the error from poll(2).
pub fn wait_to_read(file: &impl AsRawFd, at_most: Duration) -> io::Result<bool> {
    let milliseconds = i32::try_from(at_most.as_millis()).unwrap_or(i32::MAX);
    let mut asked = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: `asked` is one entry, valid for reading and writing during the call.
        let ready = unsafe { libc::poll(&raw mut asked, 1, milliseconds) };
        if ready >= 0 {
            return Ok(ready > 0);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Returns whether a path leads to a named pipe, following links. Uses only attributes that the
/// kernel has cached, because the server of a network file system may never answer. Returns `false`
/// if the file type is unknown.
pub fn is_named_pipe(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let mut found = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let flags = libc::AT_STATX_DONT_SYNC | libc::AT_NO_AUTOMOUNT;
    // SAFETY: `path` ends with a zero byte, and `found` has room for the structure.
    let status = unsafe {
        libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, libc::STATX_TYPE, found.as_mut_ptr())
    };
    // SAFETY: all bytes were zeroed, which is a valid value of the structure.
    let mode = u32::from(unsafe { found.assume_init() }.stx_mode);
    status == 0 && mode & libc::S_IFMT == libc::S_IFIFO
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};

    #[test]
    fn a_pipe_without_a_peer_does_not_block() {
        let folder = std::env::temp_dir().join(format!("linerate-pipe-{}", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&folder).status();
        assert!(made.expect("mkfifo is there").success());
        let refused = open_pipe_to_write_without_waiting(&folder).expect_err("no reader");
        assert!(is_without_reader(&refused), "{refused}");
        let mut reader = open_to_read_without_waiting(&folder).expect("it can be opened");
        assert_eq!(reader.read(&mut [0; 4]).expect("no writer is an end"), 0);
        assert!(!wait_to_read(&reader, Duration::ZERO).expect("it can be waited for"));
        let mut writer = open_pipe_to_write_without_waiting(&folder).expect("there is a reader");
        let nothing = reader.read(&mut [0; 4]).expect_err("there is a writer");
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        writer.write_all(b"x").expect("there is room");
        drop(writer);
        assert!(wait_to_read(&reader, Duration::MAX).expect("it can be waited for"));
        assert_eq!(reader.read(&mut [0; 4]).expect("a byte"), 1);
        std::fs::remove_file(&folder).expect("it is there");
    }

    #[test]
    fn only_regular_files_are_opened_and_none_is_waited_for() {
        assert!(open_regular_file("/dev/zero").is_err());
        assert!(open_regular_file("/").is_err());
        assert!(open_regular_file("/proc/self/exe").is_ok());
    }
}
