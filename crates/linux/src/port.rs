// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives and sends whole frames on a network interface.
//!
//! A receiver or sender belongs to one thread at a time. Once open, it needs no privileges and does
//! not allocate. Frames are not parsed here.

mod offload;
mod ring;
mod send;
mod socket;
mod tap;
mod xdp;

pub use offload::{Offload, Segmentation};
pub use ring::{PacketReceiver, ReceiveRules, RingCounts};
pub use send::PacketSender;
pub use socket::interface_index;
pub use tap::{TapReceiver, TapSender, open_tap};
pub use xdp::{XdpCounts, XdpReceiver, XdpSender, open_xdp};

/// Maximum number of frames per send call.
pub const SEND_MAX: usize = 256;

/// A received frame, valid until its receiver is called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'r> {
    /// Frame contents from the Ethernet header on, without the FCS.
    pub bytes: &'r [u8],
    /// Original length in bytes; greater than the length of `bytes` if the kernel truncated the
    /// frame.
    pub original_bytes: u32,
    /// Receive timestamp in nanoseconds since 1970-01-01 UTC; 0 if the kernel does not report one.
    pub time_ns: u64,
    /// VLAN tag that the kernel stripped from the frame: EtherType and tag control information.
    pub vlan: Option<(u16, u16)>,
    /// Checksum and segmentation work that offloads left undone.
    pub offload: Offload,
}

/// Result of sending several frames in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Number of frames that the kernel accepted, starting with the first.
    pub frames: usize,
    /// Why the next frame was refused; `None` if all were accepted, or if the kernel gave no
    /// reason.
    pub refused: Option<SendRefusal>,
}

/// Reason why the kernel refused a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRefusal {
    /// A queue is full: the socket's, the interface's, or its peer's.
    Full,
    /// The frame is longer than the MTU allows, or is too short for an Ethernet header.
    TooLong,
    /// The interface is down.
    Down,
    /// The interface no longer exists.
    Gone,
    /// Any other error number, as in errno(3).
    Other(i32),
}

impl SendRefusal {
    /// Returns the refusal for an error number.
    fn of(errno: i32) -> Self {
        match errno {
            libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM | libc::EBUSY => Self::Full,
            libc::EMSGSIZE | libc::EINVAL => Self::TooLong,
            libc::ENETDOWN | libc::EIO => Self::Down,
            libc::ENXIO | libc::ENODEV | libc::EBADFD => Self::Gone,
            other => Self::Other(other),
        }
    }

    /// Returns the refusal for the call that has just failed on this thread.
    fn last() -> Self {
        Self::of(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

/// State of an interface, as reported by its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// Nothing was reported since the last call.
    Unchanged,
    /// The interface went down since the last call; it may be up again.
    WentDown,
    /// The interface no longer exists, so nothing more will be received.
    Gone,
}
