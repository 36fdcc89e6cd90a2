// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends frames through a packet socket, many per system call (sendmmsg).

use super::socket::{bind, open, set, set_at};
use super::{SEND_MAX, SendRefusal, Sent};
use crate::Error;
use std::os::fd::{AsRawFd, OwnedFd};

/// Send buffer size in bytes, which limits the frames in flight. Without CAP_NET_ADMIN, the kernel
/// caps it at net.core.wmem_max.
const BUFFER_BYTES: i32 = 4 << 20;

const OLD: &str = "this kernel is too old: Linux 3.14 or later is needed";

/// A transmit queue of an interface. Frames bypass the interface's queueing discipline.
pub struct PacketSender {
    socket: OwnedFd,
    parts: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in `parts` and `messages` are used only within a call to `send`, which sets
// them; between calls no code reads them.
unsafe impl Send for PacketSender {}

impl std::fmt::Debug for PacketSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketSender").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl PacketSender {
    /// Opens a transmit queue of an interface.
    ///
    /// # Errors
    /// Returns an error if there is no such interface, or if the caller lacks the privilege to open
    /// packet sockets.
    pub fn open(name: &str) -> Result<Self, Error> {
        let interface = super::interface_index(name)?;
        let socket = open(name)?;
        set(&socket, libc::PACKET_QDISC_BYPASS, &1, "PACKET_QDISC_BYPASS", OLD)?;
        // SO_SNDBUFFORCE requires CAP_NET_ADMIN. Without it, SO_SNDBUF sets the size, capped at
        // net.core.wmem_max.
        let level = libc::SOL_SOCKET;
        let force = libc::SO_SNDBUFFORCE;
        set_at(&socket, level, force, &BUFFER_BYTES, "SO_SNDBUFFORCE", "").or_else(|_| {
            set_at(&socket, level, libc::SO_SNDBUF, &BUFFER_BYTES, "SO_SNDBUF", "pass a socket")
        })?;
        bind(&socket, interface, 0, name)?;
        let part = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: all-zero bytes are a valid message without a part.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let (parts, messages) = (vec![part; SEND_MAX], vec![message; SEND_MAX]);
        Ok(Self { socket, parts, messages })
    }

    /// Sends `frames` (at most [`SEND_MAX`]) in order, without blocking. Stops at the first frame
    /// that the kernel refuses.
    #[inline]
    pub fn send<'f>(&mut self, frames: impl Iterator<Item = &'f [u8]>) -> Sent {
        let mut count = 0;
        for (frame, (part, message)) in
            frames.zip(self.parts.iter_mut().zip(self.messages.iter_mut()))
        {
            part.iov_base = frame.as_ptr().cast_mut().cast();
            part.iov_len = frame.len();
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        if count == 0 {
            return Sent { frames: 0, refused: None };
        }
        let socket = self.socket.as_raw_fd();
        // SAFETY: the first `count` messages describe frames that the iterator's items borrow for
        // `'f`, which outlives this call; the kernel only reads them.
        let status = unsafe {
            libc::sendmmsg(
                socket,
                self.messages.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT as _,
            )
        };
        match usize::try_from(status) {
            Ok(sent) => Sent { frames: sent, refused: None },
            Err(_) => Sent { frames: 0, refused: Some(SendRefusal::last()) },
        }
    }
}
