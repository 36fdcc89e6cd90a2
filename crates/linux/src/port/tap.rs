// SPDX-License-Identifier: MIT OR Apache-2.0
//! TAP interfaces: kernel interfaces with this program in place of the wire
//! (Documentation/networking/tuntap.rst in the Linux source). Each read or write transfers one
//! frame.

use super::offload::{HEADER, Offload};
use super::{PortState, Received, SendRefusal, Sent};
use crate::Error;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Size of the largest frame with its `virtio_net_hdr`: a 64 KiB IP packet behind an Ethernet
/// header with two VLAN tags.
const FRAME_BYTES: usize = HEADER + 65_535 + 22;

const ADVICE: &str = "TAP interfaces need CAP_NET_ADMIN and /dev/net/tun: run as root, or as the \
                      interface's owner (sudo ip tuntap add NAME mode tap user $USER)";
const BUSY: &str = "another program has this interface open, or it is not a TAP interface: stop \
                    that program, or name another interface";

/// A receive queue of a TAP interface.
#[derive(Debug)]
pub struct TapReceiver {
    queue: Arc<OwnedFd>,
    buffer: Vec<u8>,
    interface: u32,
}

/// A transmit queue of a TAP interface.
#[derive(Debug)]
pub struct TapSender {
    queue: Arc<OwnedFd>,
    buffer: Vec<u8>,
}

/// Opens `queues` queues of a TAP interface. If the interface does not exist, it is created, and
/// disappears when its last queue is closed.
///
/// # Errors
/// Returns an error if the caller lacks the privilege, if another program has the interface open,
/// or if the kernel has no TAP driver.
pub fn open_tap(name: &str, queues: usize) -> Result<Vec<(TapReceiver, TapSender)>, Error> {
    // Open the queues before looking up the index: if the interface cannot be created, the error of
    // this step states the cause.
    let opened: Vec<_> =
        (0..queues).map(|_| open_queue(name, queues > 1)).collect::<Result<_, _>>()?;
    let interface = super::interface_index(name)?;
    let pair = |queue| {
        let queue = Arc::new(queue);
        let receiver = TapReceiver { queue: Arc::clone(&queue), buffer: buffer(), interface };
        (receiver, TapSender { queue, buffer: buffer() })
    };
    Ok(opened.into_iter().map(pair).collect())
}

fn buffer() -> Vec<u8> {
    vec![0; FRAME_BYTES]
}

fn open_queue(name: &str, several: bool) -> Result<OwnedFd, Error> {
    let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the path is a NUL-terminated constant.
    let number = unsafe { libc::open(c"/dev/net/tun".as_ptr(), flags) };
    if number < 0 {
        return Err(Error::last("open", "/dev/net/tun".to_owned(), ADVICE));
    }
    // SAFETY: the kernel has just opened it, and nothing else owns it.
    let queue = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: all-zero bytes are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays 0, so a longer name is truncated. `open_tap` then fails, because no
    // interface has a name that long.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let mut kind = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if several {
        kind |= libc::IFF_MULTI_QUEUE;
    }
    request.ifr_ifru.ifru_flags = kind as i16;
    // SAFETY: the request is valid for reads and writes during the call.
    let status = unsafe { libc::ioctl(queue.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if status < 0 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        let is_taken = matches!(errno, Some(libc::EBUSY | libc::EINVAL));
        let advice = if is_taken { BUSY } else { ADVICE };
        return Err(Error::last("ioctl", format!("TUNSETIFF {name}"), advice));
    }
    // A persistent interface keeps the header size that its last user set.
    let bytes = HEADER as libc::c_int;
    // SAFETY: the number is valid for reads during the call.
    let status =
        unsafe { libc::ioctl(queue.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const bytes) };
    if status < 0 {
        return Err(Error::last("ioctl", format!("TUNSETVNETHDRSZ {name}"), ADVICE));
    }
    Ok(queue)
}

impl AsFd for TapReceiver {
    /// Returns a descriptor that is readable when frames are waiting.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl TapReceiver {
    /// Takes the next frame that the kernel sent on the interface; `None` if there is none. Costs a
    /// system call.
    #[inline]
    pub fn receive(&mut self) -> Option<Received<'_>> {
        let (start, room) = (self.buffer.as_mut_ptr(), self.buffer.len());
        // SAFETY: the buffer is writable for `room` bytes during the call.
        let status = unsafe { libc::read(self.queue.as_raw_fd(), start.cast(), room) };
        let bytes = usize::try_from(status).ok().filter(|bytes| *bytes >= HEADER)?;
        let (header, frame) = self.buffer[..bytes].split_at(HEADER);
        Some(Received {
            bytes: frame,
            original_bytes: frame.len() as u32,
            time_ns: 0,
            vlan: None,
            offload: Offload::decode(header),
        })
    }

    /// Returns whether the interface still exists.
    pub fn state(&self) -> PortState {
        match super::socket::exists(self.interface) {
            true => PortState::Unchanged,
            false => PortState::Gone,
        }
    }
}

impl TapSender {
    /// Creates another sender on the same queue, for another thread.
    pub fn share(&self) -> Self {
        Self { queue: Arc::clone(&self.queue), buffer: buffer() }
    }

    /// Sends `frames` in order, without blocking, with one system call each. The kernel receives
    /// them on the interface. Stops at the first frame that the kernel refuses.
    #[inline]
    pub fn send<'f>(&mut self, frames: impl Iterator<Item = &'f [u8]>) -> Sent {
        let mut sent = 0;
        for frame in frames {
            let Some(room) = self.buffer.get_mut(HEADER..HEADER + frame.len()) else {
                return Sent { frames: sent, refused: Some(SendRefusal::TooLong) };
            };
            room.copy_from_slice(frame);
            let (start, bytes) = (self.buffer.as_ptr(), HEADER + frame.len());
            // SAFETY: the buffer is readable for `bytes` bytes during the call.
            let status = unsafe { libc::write(self.queue.as_raw_fd(), start.cast(), bytes) };
            if status < 0 {
                return Sent { frames: sent, refused: Some(SendRefusal::last()) };
            }
            sent += 1;
        }
        Sent { frames: sent, refused: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header_bytes(queue: &OwnedFd) -> libc::c_int {
        let mut bytes = 0;
        // SAFETY: the number is writable during the call.
        let status =
            unsafe { libc::ioctl(queue.as_raw_fd(), libc::TUNGETVNETHDRSZ as _, &raw mut bytes) };
        assert_eq!(status, 0);
        bytes
    }

    /// The first program makes the interface persistent and sets the header size that QEMU uses.
    #[test]
    fn the_header_size_that_another_program_has_set_does_not_matter() {
        // The interface belongs to this thread's namespace, which ends with the thread.
        if let Err(error) = crate::enter_new_network() {
            return println!("SKIP: {error}");
        }
        let first = match open_queue("lrtap0", false) {
            Ok(queue) => queue,
            Err(error) => return println!("SKIP: {error}"),
        };
        let set = |request, number: libc::c_int| {
            // SAFETY: the number is valid for reads during the call.
            unsafe { libc::ioctl(first.as_raw_fd(), request, number) }
        };
        assert_eq!(set(libc::TUNSETPERSIST as _, 1), 0);
        let bytes: libc::c_int = 12;
        // SAFETY: the number is valid for reads during the call.
        let status =
            unsafe { libc::ioctl(first.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const bytes) };
        assert_eq!((status, header_bytes(&first)), (0, 12));
        drop(first);
        let second = open_queue("lrtap0", false).expect("it is free");
        assert_eq!(header_bytes(&second), HEADER as libc::c_int);
    }
}
