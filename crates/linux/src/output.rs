// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard output as the program was given it.
//!
//! Before `main`, the standard library opens /dev/null in the place of a closed stdin, stdout or
//! stderr, so that no file that is opened later is written to by mistake; and it treats writes to
//! an unwritable stdout (EBADF) as successful. Both hide a lost result. The program therefore
//! checks by itself, before the library does, and writes to the descriptor as to any file.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// Sound: the C library calls what this section points to, in the only thread there is, before
// `main`, with arguments that a C function may leave alone; `look` needs nothing that is set up
// later.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: the call reads the flags of a descriptor, or says that there is none.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    // Relaxed: nothing else runs yet.
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Whether standard output was open when the program began; `>&-` of a shell closes it.
pub fn stdout_was_open() -> bool {
    !WAS_CLOSED.load(Ordering::Relaxed)
}

/// Writes all of `bytes` to standard output, past the buffer of [`std::io::stdout`].
///
/// # Errors
/// Those of write(2); EBADF where standard output was closed when the program began.
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
