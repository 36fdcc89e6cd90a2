// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets, interfaces and queueing disciplines of a network namespace, through netlink and
//! ethtool.
//!
//! A [`Network`] is a set of sockets opened in one network namespace, this program's or another's.
//! They refer to that namespace no matter which thread uses them. Once the sockets are open,
//! queries need no privileges. Replies are decoded by pure functions that accept any bytes;
//! truncated parts, and parts with a wrong length, are skipped.

mod buffer;
mod ethtool;
mod inet;
mod links;
mod namespace;
mod netlink;
mod packet;
mod pair;
mod qdisc;
mod settings;
mod unix;
mod xdp;

pub use buffer::set_receive_buffer;
pub use ethtool::Driver;
pub use inet::{InetProtocol, InetSocket, Listed, SocketMemory, TcpInfo};
pub use links::Link;
pub use packet::{PacketRing, PacketSocket};
pub use qdisc::Qdisc;
pub use settings::Setting;
pub use unix::UnixSocket;
pub use xdp::XdpSocket;

use crate::Error;
use std::os::fd::{FromRawFd, OwnedFd};

/// Sockets for querying a network namespace.
#[derive(Debug)]
pub struct Network {
    diag: netlink::Socket,
    route: netlink::Socket,
    control: OwnedFd,
    settings: settings::Files,
}

/// Number of sockets of a [`Network`].
const NUMBER: usize = 3;

/// Domain, type and protocol of the sockets of a [`Network`], in field order.
const SOCKETS: [(i32, i32, i32); NUMBER] = [
    (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_SOCK_DIAG),
    (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE),
    (libc::AF_INET, libc::SOCK_DGRAM, 0),
];

impl Network {
    /// Opens the sockets in this program's own namespace.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel lacks or forbids netlink.
    pub fn own() -> Result<Self, Error> {
        let [diag, route, control] = SOCKETS.map(|(domain, kind, protocol)| {
            // SAFETY: the call takes only numbers.
            let number = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) };
            match number < 0 {
                // SAFETY: the kernel has just opened it, and nothing else owns it.
                false => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
                true => Err(Error::last(
                    "socket",
                    format!("domain {domain}, protocol {protocol}"),
                    "allow netlink sockets in this sandbox",
                )),
            }
        });
        Self::new([diag?, route?, control?], settings::open())
    }

    /// Opens the sockets in another process's namespace: a child enters it, opens the sockets,
    /// passes them to this process and exits. Requires permission to enter the namespace: either
    /// root, or a user namespace of the same user.
    ///
    /// # Errors
    /// Returns an error if the process has exited, or if entering its namespaces is not permitted.
    pub fn of_process(pid: u32) -> Result<Self, Error> {
        let (sockets, settings) = namespace::files_of(pid)?;
        Self::new(sockets, settings)
    }

    fn new(sockets: [OwnedFd; NUMBER], settings: settings::Files) -> Result<Self, Error> {
        let [diag, route, control] = sockets;
        let (diag, route) = (netlink::prepare(diag)?, netlink::prepare(route)?);
        Ok(Self { diag, route, control, settings })
    }
}

/// Reads a 32-bit number in host byte order from a message.
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Reads a 64-bit number in host byte order from a message.
fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
}

/// Returns the string up to its first NUL byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
