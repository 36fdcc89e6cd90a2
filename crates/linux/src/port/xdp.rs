// SPDX-License-Identifier: MIT OR Apache-2.0
//! AF_XDP sockets in copy mode: an XDP program hands frames to this program before the kernel's
//! network stack sees them.
//!
//! Each queue of the interface has one socket. Its frame memory (UMEM) is divided between a
//! receiver and a sender, so that they may belong to different threads:
//!
//! ```text
//! receiver: fill ring  (free frames to the kernel) -> receive ring (frames with data from it)
//! sender:   transmit ring (frames to send)         -> completion ring (sent frames, free again)
//! ```

mod program;
mod ring;

use super::socket::{exists, get_at, set_at};
use super::{Offload, PortState, Received, SEND_MAX, SendRefusal, Sent};
use crate::Error;
use crate::memory::{Mapping, page_bytes};
use program::Program;
use ring::Ring;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Bytes per frame in the UMEM, of which the kernel reserves 256 as headroom.
const FRAME_BYTES: usize = 4096;

/// Frames per receiver and per sender, and entries per ring: a power of two.
const FRAMES: u32 = 2048;

/// Number of frames after which a receiver publishes its indices in both rings. Publishing for each
/// frame would be slow, because the kernel, on another CPU, accesses the same cache lines for each
/// frame that arrives.
const PUBLISHED_TOGETHER: u32 = 32;

/// Frames that the kernel sends per call in copy mode (`TX_BATCH_SIZE`).
const SENT_PER_CALL: u32 = 32;

const RIGHT: &str = "AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: run as root";
const BUSY: &str = "another program uses this queue; stop that program, or use io = \"af_packet\"";

/// State shared by a queue's receiver and sender.
#[derive(Debug)]
struct Queue {
    socket: OwnedFd,
    memory: Mapping,
    /// The XDP program, which is detached from the interface when the last queue is closed.
    _program: Option<Arc<Program>>,
    interface: u32,
}

/// A receive queue of an interface.
#[derive(Debug)]
pub struct XdpReceiver {
    fill: Ring,
    filled: Ring,
    /// Address of the frame returned by the last `receive`. The next call gives its memory back to
    /// the kernel.
    taken: Option<u64>,
    /// Frames received since the indices of the rings were last published; less than
    /// [`PUBLISHED_TOGETHER`].
    unpublished: u32,
    /// The kernel's drop counts at the last call to [`Self::start`].
    at_start: XdpCounts,
    queue: Arc<Queue>,
}

/// A transmit queue of an interface.
#[derive(Debug)]
pub struct XdpSender {
    send: Ring,
    sent: Ring,
    free: Vec<u64>,
    /// Whether the transmit ring still held frames after the last send or flush.
    is_behind: bool,
    queue: Arc<Queue>,
}

/// Frames that the kernel dropped before a receiver could take them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpCounts {
    /// Frames dropped because the receive ring was full or the fill ring was empty.
    pub ring_full: u64,
    /// Frames dropped because they did not fit in a frame of the UMEM.
    pub too_long: u64,
}

impl XdpCounts {
    /// Decodes `xdp_statistics`, six 64-bit counters. `rx_dropped` counts every frame for which
    /// there was no room in the UMEM: those that found the fill ring empty, which
    /// `rx_fill_ring_empty_descs` counts too, and those that were too long. `rx_ring_full` counts
    /// frames that found the receive ring full; `rx_dropped` does not include them.
    fn decode(words: &[u32; 12]) -> Self {
        let number = |index: usize| {
            let [a, b, c, d] = words[2 * index].to_ne_bytes();
            let [e, f, g, h] = words[2 * index + 1].to_ne_bytes();
            u64::from_ne_bytes([a, b, c, d, e, f, g, h])
        };
        let (dropped, ring_full, fill_empty) = (number(0), number(3), number(4));
        let too_long = dropped.saturating_sub(fill_empty);
        Self { ring_full: ring_full + dropped - too_long, too_long }
    }

    /// Returns the drops after the counts in `earlier` were read.
    fn since(self, earlier: Self) -> Self {
        Self {
            ring_full: self.ring_full.saturating_sub(earlier.ring_full),
            too_long: self.too_long.saturating_sub(earlier.too_long),
        }
    }
}

/// Opens the first `queues` queues of an interface. Only the first `receiving` of them receive the
/// frames that arrive on them. The XDP program runs in the driver if the driver supports it (native
/// mode), otherwise in the network stack (generic mode).
///
/// # Errors
/// Returns an error if there is no such interface, if the caller lacks the privileges, or if
/// another program uses a queue.
pub fn open_xdp(
    name: &str,
    queues: usize,
    receiving: usize,
) -> Result<Vec<(XdpReceiver, XdpSender)>, Error> {
    let interface = super::interface_index(name)?;
    let program = match receiving {
        0 => None,
        _ => Some(Arc::new(Program::attach(name, interface, queues as u32)?)),
    };
    let open = |queue: usize| {
        let program = program.as_ref().filter(|_| queue < receiving);
        open_queue(name, interface, queue as u32, program)
    };
    (0..queues).map(open).collect()
}

fn open_queue(
    name: &str,
    interface: u32,
    number: u32,
    program: Option<&Arc<Program>>,
) -> Result<(XdpReceiver, XdpSender), Error> {
    // SAFETY: the call takes only numbers.
    let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(Error::last("socket", format!("AF_XDP for {name}"), RIGHT));
    }
    // SAFETY: the kernel has just opened it, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    debug_assert!(FRAME_BYTES % page_bytes() == 0 || page_bytes() > FRAME_BYTES);
    let memory = Mapping::new(2 * FRAMES as usize * FRAME_BYTES)?;
    let region = libc::xdp_umem_reg_v1 {
        addr: memory.start() as u64,
        len: memory.bytes() as u64,
        chunk_size: FRAME_BYTES as u32,
        headroom: 0,
    };
    let set = |option, value: u32, what: &str| {
        set_at(&socket, libc::SOL_XDP, option, &value, what, "free memory")
    };
    let locked = "raise the locked-memory limit (ulimit -l), or free memory";
    set_at(&socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &region, "XDP_UMEM_REG", locked)?;
    set(libc::XDP_UMEM_FILL_RING, FRAMES, "XDP_UMEM_FILL_RING")?;
    set(libc::XDP_UMEM_COMPLETION_RING, FRAMES, "XDP_UMEM_COMPLETION_RING")?;
    set(libc::XDP_RX_RING, FRAMES, "XDP_RX_RING")?;
    set(libc::XDP_TX_RING, FRAMES, "XDP_TX_RING")?;
    let [filled, send, mut fill, sent] = Ring::all_of(&socket, FRAMES)?;
    let frame = |index: u32| u64::from(index) * FRAME_BYTES as u64;
    for index in 0..FRAMES {
        fill.push_address(frame(index));
    }
    fill.publish();
    bind(&socket, name, interface, number)?;
    program.map_or(Ok(()), |program| program.add(number, &socket))?;
    let queue = Arc::new(Queue { socket, memory, _program: program.cloned(), interface });
    let at_start = XdpCounts::default();
    let receiver = XdpReceiver {
        fill,
        filled,
        taken: None,
        unpublished: 0,
        at_start,
        queue: Arc::clone(&queue),
    };
    let free = (FRAMES..2 * FRAMES).map(frame).collect();
    Ok((receiver, XdpSender { send, sent, free, is_behind: false, queue }))
}

fn bind(socket: &OwnedFd, name: &str, interface: u32, number: u32) -> Result<(), Error> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: interface,
        sxdp_queue_id: number,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: the address is valid for reads of its size during the call.
    let status = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
        )
    };
    match status {
        0 => Ok(()),
        _ => Err(Error::last("bind", format!("AF_XDP socket on queue {number} of {name}"), BUSY)),
    }
}

impl AsFd for XdpReceiver {
    /// Returns a descriptor that is readable when frames are waiting.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.socket.as_fd()
    }
}

impl XdpReceiver {
    /// Takes the next frame; `None` if there is none.
    #[inline]
    pub fn receive(&mut self) -> Option<Received<'_>> {
        if let Some(frame) = self.taken.take() {
            // The receiver has as many frames as the ring has entries, so there is always room.
            self.fill.push_address(frame);
            self.unpublished += 1;
            if self.unpublished == PUBLISHED_TOGETHER {
                self.publish();
            }
        }
        let Some((address, bytes)) = self.filled.pop_description() else {
            if self.unpublished > 0 {
                self.publish();
            }
            self.wake();
            return None;
        };
        let (address, bytes) = (address as usize, bytes as usize);
        self.taken = Some((address / FRAME_BYTES * FRAME_BYTES) as u64);
        let all = self.queue.memory.bytes();
        if address > all || bytes > all - address {
            return None;
        }
        let start = self.queue.memory.start();
        // SAFETY: within the memory, by the check; the kernel does not write to a frame between the
        // receive ring and the fill ring.
        let bytes = unsafe { std::slice::from_raw_parts(start.add(address), bytes) };
        Some(Received {
            bytes,
            original_bytes: bytes.len() as u32,
            time_ns: 0,
            vlan: None,
            offload: Offload::default(),
        })
    }

    /// Returns unused frames and ring entries to the kernel.
    fn publish(&mut self) {
        self.fill.publish();
        self.filled.release();
        self.unpublished = 0;
    }

    /// Wakes the driver if it needs a wakeup before it uses the fill ring.
    fn wake(&self) {
        if self.fill.needs_wakeup() {
            let mut poll = libc::pollfd {
                fd: self.queue.socket.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: the structure is valid during the call.
            unsafe { libc::poll(&raw mut poll, 1, 0) };
        }
    }

    /// Starts receiving: discards frames received earlier, and counts losses from now on.
    pub fn start(&mut self) {
        // Bounded, because frames may arrive faster than they are discarded. All earlier frames fit
        // in the ring, which has this number of entries.
        for _ in 0..FRAMES {
            if self.receive().is_none() {
                break;
            }
        }
        self.at_start = self.read_counts();
    }

    /// Returns the frames that the kernel dropped since the last call to [`Self::start`].
    pub fn counts(&self) -> XdpCounts {
        self.read_counts().since(self.at_start)
    }

    /// Returns the frames that the kernel dropped since the queue was opened.
    fn read_counts(&self) -> XdpCounts {
        let mut words = [0; 12];
        let read = get_at(&self.queue.socket, libc::SOL_XDP, libc::XDP_STATISTICS, &mut words);
        read.map_or_else(XdpCounts::default, |()| XdpCounts::decode(&words))
    }

    /// Returns the number of frames received but not yet taken.
    pub fn waiting(&self) -> u64 {
        self.filled.filled().into()
    }

    /// Returns whether the interface still exists.
    pub fn state(&self) -> PortState {
        match exists(self.queue.interface) {
            true => PortState::Unchanged,
            false => PortState::Gone,
        }
    }
}

impl XdpSender {
    /// Sends `frames` (at most [`SEND_MAX`]) in order, without blocking. Stops at the first frame
    /// that is too long or for which there is no room.
    #[inline]
    pub fn send<'f>(&mut self, frames: impl Iterator<Item = &'f [u8]>) -> Sent {
        self.collect();
        let mut result = Sent { frames: 0, refused: None };
        for frame in frames.take(SEND_MAX) {
            if frame.len() > FRAME_BYTES {
                result.refused = Some(SendRefusal::TooLong);
                break;
            }
            let Some(address) = self.free.pop() else {
                result.refused = Some(SendRefusal::Full);
                break;
            };
            let start = self.queue.memory.start();
            // SAFETY: the free list holds addresses of whole frames within the memory, which the
            // kernel does not read while they are free.
            let room =
                unsafe { std::slice::from_raw_parts_mut(start.add(address as usize), frame.len()) };
            room.copy_from_slice(frame);
            // The sender has as many frames as the ring has entries, so there is always room.
            self.send.push_description(address, frame.len() as u32);
            result.frames += 1;
        }
        self.send.publish();
        let refused = self.kick().filter(|_| result.frames == 0);
        result.refused = refused.or(result.refused);
        result
    }

    /// Puts sent frames back on the free list.
    fn collect(&mut self) {
        while let Some(address) = self.sent.pop_address() {
            self.free.push(address / FRAME_BYTES as u64 * FRAME_BYTES as u64);
        }
        self.sent.release();
    }

    /// Makes the kernel send frames that earlier calls left in the transmit ring, if any. Returns
    /// whether the ring is empty now.
    #[inline]
    pub fn flush(&mut self) -> bool {
        if self.is_behind {
            self.collect();
            self.kick();
        }
        !self.is_behind
    }

    /// Makes the kernel send the frames in the transmit ring, with the minimum number of calls. A
    /// call ends early if the interface is full or drops a frame, or if the socket's send buffer is
    /// full; the next send or flush continues with the remaining frames. It cannot be determined
    /// whether a call sent any frame: before Linux 6.17, the kernel does not publish its progress
    /// until the ring is empty.
    fn kick(&mut self) -> Option<SendRefusal> {
        let socket = self.queue.socket.as_raw_fd();
        let flags = libc::MSG_DONTWAIT;
        let mut refusal = None;
        for _ in 0..self.send.unread().div_ceil(SENT_PER_CALL) {
            // SAFETY: no data, no address.
            let status =
                unsafe { libc::sendto(socket, std::ptr::null(), 0, flags, std::ptr::null(), 0) };
            refusal = (status < 0).then(SendRefusal::last);
            if !matches!(refusal, None | Some(SendRefusal::Full)) || self.send.unread() == 0 {
                break;
            }
        }
        self.is_behind = self.send.unread() > 0;
        refusal.filter(|refusal| *refusal != SendRefusal::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_two_counters_count_is_one_loss() {
        let mut words = [0; 12];
        // Dropped, ring full, fill ring empty, in native byte order; other counters are at 9.
        let numbers = [7u64, 9, 9, 3, 5, 9];
        for (index, number) in numbers.iter().enumerate() {
            let bytes = number.to_ne_bytes();
            let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
            (words[2 * index], words[2 * index + 1]) = (half(0), half(4));
        }
        let counts = XdpCounts::decode(&words);
        assert_eq!(counts, XdpCounts { ring_full: 8, too_long: 2 });
        let earlier = XdpCounts { ring_full: 6, too_long: 2 };
        assert_eq!(counts.since(earlier), XdpCounts { ring_full: 2, too_long: 0 });
    }
}
