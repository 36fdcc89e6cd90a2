// SPDX-License-Identifier: MIT OR Apache-2.0
//! Terminal modes: entering full-screen mode, and restoring the terminal from wherever the program
//! may end (signal handlers, the panic hook, the out-of-memory handler).

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Alternate screen (1049), no cursor (25), no line wrapping (7): xterm's private modes, which
/// every modern terminal supports and others ignore.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J\x1b[H";
/// Resets colours, then undoes [`ENTER`].
const LEAVE: &[u8] = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Maximum time to wait for the terminal to accept output, in ms. After that, [`LEAVE`] is not
/// written.
const ROOM_MS: i32 = 200;

/// The modes as they were before the first [`enter`].
static SAVED: OnceLock<libc::termios> = OnceLock::new();
/// Whether full-screen mode is on. Set by [`enter`]; cleared by [`restore`], which may run in a
/// signal handler.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Returns whether full-screen mode is on.
pub(crate) fn is_entered() -> bool {
    IS_ENTERED.load(Ordering::SeqCst)
}

/// Enters full-screen mode: unbuffered keys without echo, and Ctrl-Z as a key.
///
/// # Errors
/// Returns the error from tcgetattr(3), tcsetattr(3) or write(2).
pub(crate) fn enter() -> io::Result<()> {
    let saved = match SAVED.get() {
        Some(saved) => *saved,
        None => *SAVED.get_or_init({
            let now = modes()?;
            move || now
        }),
    };
    let mut modes = saved;
    modes.c_lflag &= !(libc::ICANON | libc::ECHO);
    // No flow control: Ctrl-S would block the program in the middle of a frame.
    modes.c_iflag &= !libc::IXON;
    modes.c_cc[libc::VMIN] = 1;
    modes.c_cc[libc::VTIME] = 0;
    modes.c_cc[libc::VSUSP] = libc::_POSIX_VDISABLE;
    IS_ENTERED.store(true, Ordering::SeqCst);
    set_modes(&modes)?;
    crate::write_to_stdout(ENTER)
}

/// Restores the terminal if full-screen mode is on. Async-signal-safe.
pub(crate) fn restore() {
    if !IS_ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    // A terminal that accepts no output (a stalled connection) must not keep the program from
    // exiting.
    if is_ready(libc::STDOUT_FILENO, libc::POLLOUT, ROOM_MS).unwrap_or(false) {
        // SAFETY: the bytes are static. If they cannot be written, the terminal is gone.
        unsafe { libc::write(libc::STDOUT_FILENO, LEAVE.as_ptr().cast(), LEAVE.len()) };
    }
    if let Some(saved) = SAVED.get() {
        // If this fails, the terminal is gone.
        let _ = set_modes(saved);
    }
}

/// Waits until a descriptor is ready or its other end is closed, for at most `milliseconds`.
/// Returns `false` on timeout or after a signal.
pub(crate) fn is_ready(descriptor: i32, events: i16, milliseconds: i32) -> io::Result<bool> {
    let mut asked = libc::pollfd { fd: descriptor, events, revents: 0 };
    // SAFETY: `asked` is one entry, valid for reading and writing during the call.
    let ready = unsafe { libc::poll(&raw mut asked, 1, milliseconds) };
    if ready >= 0 {
        return Ok(ready > 0);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) }
}

/// Returns whether this process is in the foreground job. The kernel stops a background job that
/// changes the terminal modes.
pub(crate) fn is_in_foreground() -> bool {
    // SAFETY: the calls only read numbers.
    unsafe { libc::tcgetpgrp(libc::STDOUT_FILENO) == libc::getpgrp() }
}

fn modes() -> io::Result<libc::termios> {
    let mut modes = MaybeUninit::uninit();
    // SAFETY: `modes` is writable during the call.
    match unsafe { libc::tcgetattr(libc::STDOUT_FILENO, modes.as_mut_ptr()) } {
        // SAFETY: initialized by the successful call above.
        0 => Ok(unsafe { modes.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_modes(modes: &libc::termios) -> io::Result<()> {
    // SAFETY: `modes` is readable during the call.
    match unsafe { libc::tcsetattr(libc::STDOUT_FILENO, libc::TCSANOW, modes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
