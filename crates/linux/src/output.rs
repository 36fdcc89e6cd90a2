// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes to standard output as the program inherited it.
//!
//! Before `main`, the standard library opens /dev/null in place of a closed stdin, stdout or
//! stderr, so that a file opened later is not written to by mistake. It also treats writes to an
//! unwritable stdout (EBADF) as successful. Both would hide lost output. This module therefore
//! checks stdout before the standard library is initialized, and writes to the descriptor as to any
//! other file.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// This is sound: the C library calls the functions in this section before `main`, on the only
// thread, with arguments that a C function may ignore; `look` needs nothing that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: the call reads a descriptor's flags, or fails if it is not open.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    // Relaxed: no other thread is running yet.
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Returns whether stdout was open when the program started; the shell's `>&-` closes it.
pub fn stdout_was_open() -> bool {
    !WAS_CLOSED.load(Ordering::Relaxed)
}

/// Writes all of `bytes` to stdout, bypassing the buffer of [`std::io::stdout`].
///
/// # Errors
/// Returns the error from write(2); EBADF if stdout was closed when the program started.
pub fn write_to_stdout(bytes: &[u8]) -> io::Result<()> {
    if !stdout_was_open() {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    let descriptor = io::stdout().as_fd().try_clone_to_owned()?;
    File::from(descriptor).write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_is_given_was_open_and_takes_nothing_at_all() {
        assert!(stdout_was_open());
        assert!(write_to_stdout(&[]).is_ok());
    }
}
