// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP and UDP sockets (sock_diag).

use super::netlink::{attribute, dump, get};
use super::{Network, u32_at, u64_at};
use crate::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Message type SOCK_DIAG_BY_FAMILY.
pub(super) const BY_FAMILY: u16 = 20;

/// Lengths of `inet_diag_sockid` and `inet_diag_msg` in bytes.
const ID: usize = 48;
const MESSAGE: usize = 72;

/// Attribute types, and the bits that request them.
const INFO: u16 = 2;
const MEMORY: u16 = 7;
const EXTENSIONS: u8 = 1 << (INFO - 1) | 1 << (MEMORY - 1);

/// Message type TCPDIAG_GETSOCK, which lists TCP sockets of all address families at once.
const ALL_FAMILIES: u16 = 18;

/// All TCP states except TCP_TIME_WAIT, TCP_SYN_RECV and TCP_NEW_SYN_RECV, in which a socket
/// belongs to no program, and TCP_BOUND_INACTIVE, in which it has no traffic and the kernel would
/// walk another hash table.
const STATES: u32 = !(1 << 6 | 1 << 3 | 1 << 12 | 1 << 13);

/// TCPI_OPT_WSCALE.
const OPTION_WINDOW_SCALE: u8 = 4;

/// TCP state of a connection whose SYN has no answer yet.
const SYN_SENT: u8 = 2;
/// TCP state of a listening socket.
const LISTEN: u8 = 10;

/// Socket transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InetProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Snapshot of the state of a TCP or UDP socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InetSocket {
    /// TCP or UDP.
    pub protocol: InetProtocol,
    /// Whether the socket is listening.
    pub is_listening: bool,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address; all zero if not connected.
    pub remote: SocketAddr,
    /// Socket inode, as in /proc/PID/fd.
    pub inode: u32,
    /// Receive queue: unread bytes (for UDP, including packet overhead) or, for a listening socket,
    /// connections not yet accepted.
    pub receive_queue: u32,
    /// Send queue: bytes not yet acknowledged or not yet sent.
    pub send_queue: u32,
    /// Socket buffers; `None` if the kernel does not report them.
    pub memory: Option<SocketMemory>,
    /// TCP_INFO; `None` for other protocols and on kernels before 4.10.
    pub tcp: Option<TcpInfo>,
    id: [u8; ID],
}

/// A socket listed in /proc/net/{tcp,udp}, the fallback where sock_diag is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// TCP or UDP.
    pub protocol: InetProtocol,
    /// Whether the socket is listening.
    pub is_listening: bool,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address; all zero if not connected.
    pub remote: SocketAddr,
    /// Socket inode, as in /proc/PID/fd.
    pub inode: u32,
    /// Receive queue: unread bytes.
    pub receive_queue: u32,
    /// Send queue: bytes not yet acknowledged or not yet sent.
    pub send_queue: u32,
}

/// A socket's buffers and drops, as accounted by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMemory {
    /// Receive buffer in use, in bytes, including what the kernel itself needs per packet.
    pub received: u32,
    /// Receive buffer size in bytes.
    pub receive_buffer: u32,
    /// Send buffer size in bytes.
    pub send_buffer: u32,
    /// Packets dropped since the socket was opened, mostly because its receive buffer was full.
    /// Wraps at 32 bits.
    pub drops: u32,
}

/// TCP_INFO. Counters start when the connection is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Whether the connection is being opened and its SYN has had no answer for 100 ms or longer.
    /// Most SYNs are answered sooner, after a round trip.
    pub is_opening: bool,
    /// Whether the connection is being opened and its SYN has been retransmitted. The first
    /// retransmission takes place after a second.
    pub is_syn_repeated: bool,
    /// Whether the application limits the delivery rate.
    pub is_app_limited: bool,
    /// Largest segment sent, bytes.
    pub mss: u32,
    /// Segments in flight.
    pub unacked: u32,
    /// Bytes written by the program but not yet sent.
    pub not_sent: u32,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: u32,
    /// Mean deviation of the round-trip time, in microseconds.
    pub rtt_variation_us: u32,
    /// Minimum round-trip time over recent minutes, microseconds; 0 without a sample.
    pub min_rtt_us: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Retransmitted segments.
    pub retransmitted: u32,
    /// Bytes sent and acknowledged.
    pub bytes_acked: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Segments sent. Wraps at 32 bits.
    pub segments_out: u32,
    /// Segments received. Wraps at 32 bits.
    pub segments_in: u32,
    /// Delivery rate, bytes per second.
    pub delivery_rate: u64,
    /// Time with data in flight or waiting to be sent, microseconds.
    pub busy_us: u64,
    /// Part of `busy_us` in which the receiver's window limited sending, microseconds.
    pub rwnd_limited_us: u64,
    /// Part of `busy_us` in which the socket's own send buffer limited sending, microseconds.
    pub sndbuf_limited_us: u64,
    /// Retransmitted segments that the peer had already received (DSACK); `None` before Linux 4.19.
    pub needless: Option<u32>,
    /// Pacing limit (SO_MAX_PACING_RATE), bytes per second; `None` if not set.
    pub max_pacing_rate: Option<u64>,
    /// Window advertised by the peer, bytes; `None` before Linux 5.4.
    pub peer_window: Option<u32>,
    /// Whether window scaling is in use; without it, a window is at most 64 KiB (RFC 7323).
    pub is_window_scaled: bool,
    /// Data segments received. Wraps at 32 bits.
    pub data_segments_in: u32,
    /// Data segments sent. Wraps at 32 bits.
    pub data_segments_out: u32,
    /// Payload bytes sent, retransmissions included; `None` before Linux 4.19.
    pub bytes_sent: Option<u64>,
    /// Time since data was last sent, milliseconds, in steps of the kernel's clock tick.
    pub data_sent_ms_ago: u32,
    /// Time since data was last received, milliseconds, in steps of the kernel's clock tick.
    pub data_received_ms_ago: u32,
    /// Time since an acknowledgement was last received, milliseconds, in steps of the kernel's
    /// clock tick.
    pub ack_received_ms_ago: u32,
}

impl TcpInfo {
    /// Parses `tcp_info`, which must extend at least through the field `tcpi_sndbuf_limited`.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            is_opening: false,
            is_syn_repeated: false,
            is_app_limited: app_limited_bit(*bytes.get(7)?),
            mss: u32_at(bytes, 16)?,
            unacked: u32_at(bytes, 24)?,
            not_sent: u32_at(bytes, 144)?,
            rtt_us: u32_at(bytes, 68)?,
            rtt_variation_us: u32_at(bytes, 72)?,
            // The kernel's minimum is the maximum value until there is a sample.
            min_rtt_us: u32_at(bytes, 148).map(|us| if us == u32::MAX { 0 } else { us })?,
            cwnd: u32_at(bytes, 80)?,
            retransmitted: u32_at(bytes, 100)?,
            bytes_acked: u64_at(bytes, 120)?,
            bytes_received: u64_at(bytes, 128)?,
            segments_out: u32_at(bytes, 136)?,
            segments_in: u32_at(bytes, 140)?,
            delivery_rate: u64_at(bytes, 160)?,
            busy_us: u64_at(bytes, 168)?,
            rwnd_limited_us: u64_at(bytes, 176)?,
            sndbuf_limited_us: u64_at(bytes, 184)?,
            needless: u32_at(bytes, 216),
            max_pacing_rate: u64_at(bytes, 112).filter(|rate| !is_unlimited(*rate)),
            peer_window: u32_at(bytes, 228),
            is_window_scaled: bytes.get(5)? & OPTION_WINDOW_SCALE != 0,
            data_segments_in: u32_at(bytes, 152)?,
            data_segments_out: u32_at(bytes, 156)?,
            bytes_sent: u64_at(bytes, 200),
            data_sent_ms_ago: u32_at(bytes, 44)?,
            data_received_ms_ago: u32_at(bytes, 52)?,
            ack_received_ms_ago: u32_at(bytes, 56)?,
        })
    }
}

/// Returns whether all bits are set, which means no limit: 32 bits in older kernels, 64 since Linux
/// 4.20.
fn is_unlimited(rate: u64) -> bool {
    rate == u64::MAX || rate == u64::from(u32::MAX)
}

/// Reads the first bit of a C bit-field: the lowest bit on little-endian machines, otherwise the
/// highest.
fn app_limited_bit(byte: u8) -> bool {
    let bit = if cfg!(target_endian = "little") { 1 } else { 0x80 };
    byte & bit != 0
}

impl SocketMemory {
    /// Parses the SK_MEMINFO array. Its ninth number, the drops, was added in Linux 4.7.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |index: usize| u32_at(bytes, 4 * index);
        Some(Self {
            received: number(0)?,
            receive_buffer: number(1)?,
            send_buffer: number(3)?,
            drops: number(8)?,
        })
    }
}

impl InetSocket {
    /// Converts a listed socket. The result has no buffers and no TCP_INFO, and cannot be queried
    /// ([`InetSocket::can_be_queried`]).
    pub fn of_listed(listed: Listed) -> Self {
        let Listed { protocol, is_listening, local, remote, inode, receive_queue, send_queue } =
            listed;
        Self {
            protocol,
            is_listening,
            local,
            remote,
            inode,
            receive_queue,
            send_queue,
            memory: None,
            tcp: None,
            id: [0; ID],
        }
    }

    /// Returns whether the kernel can find the socket with [`Network::inet_socket`], which it
    /// cannot for sockets from /proc/net ([`InetSocket::of_listed`]).
    pub fn can_be_queried(&self) -> bool {
        self.id != [0; ID]
    }

    /// Parses `inet_diag_msg` and its attributes.
    fn decode(protocol: InetProtocol, body: &[u8]) -> Option<Self> {
        let id: [u8; ID] = body.get(4..4 + ID)?.try_into().ok()?;
        let attributes = body.get(MESSAGE..)?;
        let is_v6 = match i32::from(body[0]) {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => return None,
        };
        let (local, remote) = (address(is_v6, &id[4..20]), address(is_v6, &id[20..36]));
        let is_listening = protocol == InetProtocol::Tcp && body[1] == LISTEN;
        let [is_opening, is_syn_repeated] = unanswered(body)?;
        Some(Self {
            protocol,
            is_listening,
            local: SocketAddr::new(local, u16::from_be_bytes([id[0], id[1]])),
            remote: SocketAddr::new(remote, u16::from_be_bytes([id[2], id[3]])),
            inode: u32_at(body, 68)?,
            receive_queue: u32_at(body, 56)?,
            send_queue: u32_at(body, 60)?,
            memory: attribute(attributes, MEMORY).and_then(SocketMemory::decode),
            tcp: attribute(attributes, INFO)
                .filter(|_| protocol == InetProtocol::Tcp && !is_listening)
                .and_then(TcpInfo::decode)
                .map(|tcp| TcpInfo { is_opening, is_syn_repeated, ..tcp }),
            id,
        })
    }
}

/// Returns whether a connection's SYN has had no answer for 100 ms or longer, and whether it has
/// been retransmitted. Derives both from the retransmission timer: `idiag_timer`, `idiag_retrans`
/// and `idiag_expires` (milliseconds until the timer expires).
fn unanswered(body: &[u8]) -> Option<[bool; 2]> {
    /// Time without an answer that is longer than most round trips.
    const SYN_MS: u32 = 100;
    /// Time after which a SYN is sent again (TCP_TIMEOUT_INIT).
    const FIRST_MS: u32 = 1000;
    /// The retransmission timer is running.
    const RETRANSMITS: u8 = 1;
    let (state, timer, repeated) = (*body.get(1)?, *body.get(2)?, *body.get(3)? > 0);
    let is_opening = state == SYN_SENT && timer == RETRANSMITS;
    let is_late = u32_at(body, 52)? <= FIRST_MS - SYN_MS;
    Some([is_opening && (repeated || is_late), is_opening && repeated])
}

fn address(is_v6: bool, bytes: &[u8]) -> IpAddr {
    let mut whole = [0; 16];
    whole.copy_from_slice(&bytes[..16]);
    match is_v6 {
        true => IpAddr::V6(Ipv6Addr::from(whole)),
        false => IpAddr::V4(Ipv4Addr::new(whole[0], whole[1], whole[2], whole[3])),
    }
}

/// Swaps the local and remote ends of an `inet_diag_sockid`. For UDP, the kernel looks up the
/// socket that would receive a packet with the request's addresses, so the source is the remote
/// end.
fn with_ends_swapped(id: &[u8; ID]) -> [u8; ID] {
    let mut swapped = *id;
    swapped[..2].copy_from_slice(&id[2..4]);
    swapped[2..4].copy_from_slice(&id[..2]);
    swapped[4..20].copy_from_slice(&id[20..36]);
    swapped[20..36].copy_from_slice(&id[4..20]);
    swapped
}

/// Builds `inet_diag_req_v2`.
fn request(is_v6: bool, protocol: InetProtocol, id: &[u8; ID]) -> Vec<u8> {
    let family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
    let protocol = match protocol {
        InetProtocol::Tcp => libc::IPPROTO_TCP,
        InetProtocol::Udp => libc::IPPROTO_UDP,
    } as u8;
    let mut bytes = vec![family, protocol, EXTENSIONS, 0];
    bytes.extend(STATES.to_ne_bytes());
    bytes.extend(id);
    bytes
}

impl Network {
    /// Returns all TCP sockets. Takes half as long as a list per address family, because the kernel
    /// walks its hash table, which holds the sockets of all families, only once.
    ///
    /// # Errors
    /// Returns an error if the kernel has no tcp_diag, or if it could not list all sockets.
    pub fn tcp_sockets(&self) -> Result<Vec<InetSocket>, Error> {
        // `inet_diag_req`: family, two prefix lengths, extensions, addresses, states, and whether
        // to list bound ports.
        let mut request = vec![libc::AF_INET as u8, 0, 0, EXTENSIONS];
        request.extend([0; ID]);
        request.extend(STATES.to_ne_bytes());
        request.extend([0; 4]);
        let decode = |body: &[u8]| InetSocket::decode(InetProtocol::Tcp, body);
        dump(&self.diag, ALL_FAMILIES, &request, |_, body| decode(body))
    }

    /// Returns all TCP or UDP sockets in an address family. Costs a few microseconds per socket
    /// and, for TCP, a millisecond to walk the kernel's hash table.
    ///
    /// # Errors
    /// Returns an error if the kernel has no sock_diag for this protocol, or if it could not list
    /// all sockets.
    pub fn inet_sockets(
        &self,
        protocol: InetProtocol,
        is_v6: bool,
    ) -> Result<Vec<InetSocket>, Error> {
        let request = request(is_v6, protocol, &[0; ID]);
        dump(&self.diag, BY_FAMILY, &request, |_, body| InetSocket::decode(protocol, body))
    }

    /// Returns a known socket's current state; `None` if the socket was closed or, for UDP and
    /// listening sockets, if the kernel finds another one at the same address (SO_REUSEPORT).
    ///
    /// # Errors
    /// Returns an error if the kernel does not answer.
    pub fn inet_socket(&self, seen: &InetSocket) -> Result<Option<InetSocket>, Error> {
        let id = match seen.protocol {
            InetProtocol::Tcp => seen.id,
            InetProtocol::Udp => with_ends_swapped(&seen.id),
        };
        let request = request(seen.local.is_ipv6(), seen.protocol, &id);
        let mut found = None;
        let answer = get(&self.diag, BY_FAMILY, &request, |_, body| {
            found = InetSocket::decode(seen.protocol, body);
        });
        match answer {
            Ok(()) => Ok(found.filter(|socket| socket.inode == seen.inode)),
            // ENOENT: closed. ESTALE: replaced by another socket.
            Err(Error::Call { errno: libc::ENOENT | libc::ESTALE, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
