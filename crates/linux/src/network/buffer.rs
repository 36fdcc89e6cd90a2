// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive buffer size of this program's sockets.

use crate::Error;
use std::os::fd::{AsFd, AsRawFd};

/// Requests a receive buffer of `bytes` bytes (SO_RCVBUF). The kernel doubles the size for
/// bookkeeping, and caps it at net.core.rmem_max.
///
/// # Errors
/// Returns an error if the descriptor is not a socket.
pub fn set_receive_buffer(socket: &impl AsFd, bytes: u32) -> Result<(), Error> {
    // SAFETY: the option's value is a number that is valid during the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
            (&raw const bytes).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    match status {
        0 => Ok(()),
        _ => Err(Error::last("setsockopt", format!("SO_RCVBUF {bytes}"), "pass a socket")),
    }
}
