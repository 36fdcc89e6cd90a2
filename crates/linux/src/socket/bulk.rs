// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that send or receive many messages at once, or send bytes without copying them.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

/// Buffers of equal size for the messages of [`send_batch`] and [`receive_batch`].
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    size: usize,
    count: usize,
}

impl Batch {
    /// Allocates `count` messages of `size` bytes each: at least one message of at least one byte.
    pub fn new(count: usize, size: usize) -> Self {
        let (count, size) = (count.max(1), size.max(1));
        Self { bytes: vec![0; count * size], size, count }
    }

    /// Runs `call` on an array of headers, one per message. The headers point into `self.bytes` and
    /// are valid only during the call.
    fn with_headers(
        &mut self,
        call: impl FnOnce(&mut [libc::mmsghdr]) -> libc::c_int,
    ) -> io::Result<(usize, u64)> {
        let mut parts: Vec<libc::iovec> = self
            .bytes
            .chunks_exact_mut(self.size)
            .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() })
            .collect();
        let header = |part: &mut libc::iovec| {
            // SAFETY: all fields are numbers and pointers, for which zero is valid.
            let mut header: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header
        };
        let mut headers: Vec<libc::mmsghdr> = parts.iter_mut().map(header).collect();
        let done = call(&mut headers);
        let Ok(done) = usize::try_from(done) else { return Err(io::Error::last_os_error()) };
        let done = done.min(self.count);
        let bytes = headers[..done].iter().map(|header| u64::from(header.msg_len)).sum();
        Ok((done, bytes))
    }
}

/// Sends a batch of messages on a connected socket with one system call. Returns the number of
/// messages sent.
///
/// # Errors
/// Returns an error if the kernel sent none.
pub fn send_batch(socket: &impl AsFd, batch: &mut Batch) -> io::Result<usize> {
    let number = socket.as_fd().as_raw_fd();
    let sent = batch.with_headers(|headers| {
        // SAFETY: the headers, and the parts to which they point, live during the call.
        unsafe { libc::sendmmsg(number, headers.as_mut_ptr(), headers.len() as _, 0) }
    });
    sent.map(|(messages, _)| messages)
}

/// Receives the messages that have arrived, at most a batch, with one system call; waits only if
/// there are none. Returns the number of messages and their total size in bytes.
///
/// # Errors
/// Returns an error if no message arrives within the socket's read timeout, or if an error is
/// pending on the socket.
pub fn receive_batch(socket: &impl AsFd, batch: &mut Batch) -> io::Result<(usize, u64)> {
    let number = socket.as_fd().as_raw_fd();
    batch.with_headers(|headers| {
        let (at, count) = (headers.as_mut_ptr(), headers.len() as _);
        // SAFETY: the headers, and the parts to which they point, are writable during the call.
        unsafe {
            libc::recvmmsg(number, at, count, libc::MSG_WAITFORONE as _, std::ptr::null_mut())
        }
    })
}

/// Sends `count` bytes of `file`, starting at `offset`, without copying them to user space
/// (sendfile). Returns the number of bytes sent, which may be less than `count`.
///
/// # Errors
/// Returns an error if the connection is closed, or if the socket's write timeout has passed.
pub fn send_file(socket: &impl AsFd, file: &File, offset: u64, count: usize) -> io::Result<usize> {
    let mut offset = offset as libc::off64_t;
    let (to, from) = (socket.as_fd().as_raw_fd(), file.as_raw_fd());
    // SAFETY: `offset` is writable during the call.
    let sent = unsafe { libc::sendfile64(to, from, &raw mut offset, count) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Sends `bytes` without copying them (MSG_ZEROCOPY): the kernel holds on to their pages until
/// [`completions`] reports the call. If bytes change before then, the kernel may send the changed
/// bytes.
///
/// # Errors
/// Returns ENOBUFS if too many calls are outstanding, and otherwise the errors of send(2).
pub fn send_zerocopy(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL;
    // SAFETY: `bytes` is readable during the call; afterwards the kernel holds the pages itself.
    let sent = unsafe {
        libc::send(socket.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Completed calls to [`send_zerocopy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// Number of completed calls.
    pub calls: u64,
    /// Number of zero-copy calls whose bytes the kernel copied after all, as it does on loopback.
    pub copied: u64,
}

/// Size of `sock_extended_err`.
const EXTENDED_ERROR: usize = 16;
/// `ee_origin` of a completion, and the `ee_code` bit that marks a copy.
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// Collects the completions that have arrived, without blocking.
///
/// # Errors
/// Returns an error if the socket's error queue cannot be read.
pub fn completions(socket: &impl AsFd) -> io::Result<Completions> {
    let mut all = Completions::default();
    while let Some(next) = completion(socket.as_fd().as_raw_fd())? {
        all.calls += next.calls;
        all.copied += next.copied;
    }
    Ok(all)
}

fn completion(socket: libc::c_int) -> io::Result<Option<Completions>> {
    let mut room = [0_u64; 16];
    // SAFETY: all fields are numbers and pointers, for which zero is valid.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_control = room.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&room) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header and its control room are writable during the call.
    if unsafe { libc::recvmsg(socket, &raw mut header, flags) } < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    // SAFETY: the kernel filled the control room of this header.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    if first.is_null() {
        return Ok(Some(Completions::default()));
    }
    // SAFETY: a control message that the kernel wrote, of at least its header's length.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: an error queue message carries a whole `sock_extended_err`, and the room is larger.
    let bytes = unsafe { std::slice::from_raw_parts(data, EXTENDED_ERROR) };
    Ok(Some(decode(bytes)))
}

/// Parses a `sock_extended_err`, which covers the calls from `ee_info` to `ee_data` inclusive.
fn decode(bytes: &[u8]) -> Completions {
    let number =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if bytes[4] != ORIGIN_ZEROCOPY {
        return Completions::default();
    }
    let calls = u64::from(number(12).wrapping_sub(number(8))) + 1;
    Completions { calls, copied: if bytes[6] & CODE_COPIED != 0 { calls } else { 0 } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_covers_a_range_of_calls() {
        let mut bytes = [0; EXTENDED_ERROR];
        bytes[4] = ORIGIN_ZEROCOPY;
        bytes[8..12].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&9_u32.to_ne_bytes());
        assert_eq!(decode(&bytes), Completions { calls: 3, copied: 0 });
        bytes[6] = CODE_COPIED;
        assert_eq!(decode(&bytes), Completions { calls: 3, copied: 3 });
        bytes[4] = 1;
        assert_eq!(decode(&bytes), Completions::default());
    }
}
