// SPDX-License-Identifier: MIT OR Apache-2.0
//! Full-screen terminal mode, which is left no matter how the program ends.
//!
//! ```text
//! enter:    save the modes; alternate screen, no cursor, keys unbuffered and without echo
//! restore:  the saved modes, the normal screen, the cursor; at most once per enter
//! ```
//!
//! Dropping the [`Screen`] restores the terminal. The panic hook, the signal handlers and the
//! out-of-memory handler restore it too, because they run no destructors or print a message that
//! must not be lost with the alternate screen. After SIGKILL, run `reset` in the shell.

use crate::signal;
use crate::terminal_modes::{enter, is_entered, is_in_foreground, is_ready, restore};
use std::io::{self, IsTerminal};
use std::sync::Once;
use std::time::Duration;

/// Ctrl-Z, which is read as a key so that full-screen mode can be left before the job stops.
const CONTROL_Z: u8 = 0x1a;
static HOOK: Once = Once::new();

/// The terminal on standard output in full-screen mode. Keys are read from standard input if that
/// is a terminal too.
#[derive(Debug)]
pub struct Screen {
    has_keys: bool,
}

/// The result of waiting for keys: the bytes received, or why there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The bytes that the keys sent. A function key sends several.
    Pressed(Vec<u8>),
    /// No key was pressed in time, or a signal arrived; the terminal's size may have changed.
    None,
    /// The terminal is gone.
    Gone,
}

impl Screen {
    /// Enters full-screen mode; `None` if standard output is not a terminal or another job is in
    /// the foreground.
    ///
    /// # Errors
    /// Returns the error from tcgetattr(3), tcsetattr(3) or write(2).
    pub fn enter() -> io::Result<Option<Self>> {
        if !io::stdout().is_terminal() || !is_in_foreground() {
            return Ok(None);
        }
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        signal::wake_on_resize()?;
        let screen = Self { has_keys: io::stdin().is_terminal() };
        enter()?;
        Ok(Some(screen))
    }

    /// Draws lines from the top and erases what remains of the previous frame. Draws nothing while
    /// in the background.
    ///
    /// # Errors
    /// Returns the error from write(2).
    pub fn draw(&self, lines: &[String]) -> io::Result<()> {
        if !is_entered() {
            return Ok(());
        }
        // Each line is erased from the end of its text, not in full, which would flicker.
        let frame = format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"));
        crate::write_to_stdout(frame.as_bytes())
    }

    /// Waits for keys for at most `at_most`. On Ctrl-Z, leaves full-screen mode, stops the job, and
    /// enters the mode again when the job resumes.
    ///
    /// # Errors
    /// Returns the error from poll(2), read(2) or [`Self::enter`].
    pub fn keys(&self, at_most: Duration) -> io::Result<Keys> {
        if !self.has_keys || !is_entered() {
            crate::child::sleep(at_most);
            if !is_entered() && is_in_foreground() {
                enter()?;
            }
            return Ok(Keys::None);
        }
        let milliseconds = i32::try_from(at_most.as_millis()).unwrap_or(i32::MAX).max(1);
        if !is_ready(libc::STDIN_FILENO, libc::POLLIN, milliseconds)? {
            return Ok(Keys::None);
        }
        let mut bytes = [0; 64];
        // SAFETY: the array is writable for its length during the call.
        let read = unsafe { libc::read(libc::STDIN_FILENO, bytes.as_mut_ptr().cast(), 64) };
        match read {
            ..=0 => Ok(Keys::Gone),
            read if bytes[..read as usize].contains(&CONTROL_Z) => {
                self.stop()?;
                Ok(Keys::None)
            }
            read => Ok(Keys::Pressed(bytes[..read as usize].to_vec())),
        }
    }

    /// Stops the job until the shell continues it.
    fn stop(&self) -> io::Result<()> {
        restore();
        // SAFETY: the call takes only numbers. By default, the signal stops every process of the
        // job, including this one.
        unsafe { libc::kill(0, libc::SIGTSTP) };
        if is_in_foreground() { enter() } else { Ok(()) }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}
