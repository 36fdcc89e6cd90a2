// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options, statistics and bulk calls for this program's own stream and datagram sockets, beyond
//! what the standard library offers.

mod bulk;
#[cfg(feature = "io-uring")]
mod ring;

pub use bulk::{
    Batch, Completions, completions, receive_batch, send_batch, send_file, send_zerocopy,
};

#[cfg(feature = "io-uring")]
pub use ring::{Order, SendRing, Sent};

use crate::Error;
use crate::network::{SocketMemory, TcpInfo};
use std::os::fd::{AsFd, AsRawFd};

/// Options that libc does not define on every target, with their values from the kernel's headers.
const SO_MEMINFO: libc::c_int = 55;
const SO_ZEROCOPY: libc::c_int = 60;
const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;

/// Buffer size for `tcp_info`, enough for every version so far.
const TCP_INFO_ROOM: usize = 512;
/// Number of elements in an SK_MEMINFO array.
const MEMORY_NUMBERS: usize = 9;

/// Requests a send buffer of `bytes` bytes (SO_SNDBUF). The kernel doubles the size for
/// bookkeeping, and caps it at net.core.wmem_max.
///
/// # Errors
/// Returns an error if the descriptor is not a socket.
pub fn set_send_buffer(socket: &impl AsFd, bytes: u32) -> Result<(), Error> {
    set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes, "SO_SNDBUF")
}

/// Limits TCP's sending rate, in bytes per second (SO_MAX_PACING_RATE). If the queueing discipline
/// does not pace, TCP does so itself.
///
/// # Errors
/// Returns an error if the descriptor is not a socket.
pub fn set_pacing_limit(socket: &impl AsFd, bytes_per_s: u64) -> Result<(), Error> {
    set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_s, "SO_MAX_PACING_RATE")
}

/// Makes a UDP socket report datagrams dropped by the interface's queue as ENOBUFS (IP_RECVERR).
///
/// # Errors
/// Returns an error if the descriptor is not an internet socket.
pub fn report_queue_drops(socket: &impl AsFd, is_v6: bool) -> Result<(), Error> {
    let on: libc::c_int = 1;
    match is_v6 {
        false => set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, &on, "IP_RECVERR"),
        true => set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &on, "IPV6_RECVERR"),
    }
}

/// Allows [`send_zerocopy`] on a TCP socket (SO_ZEROCOPY).
///
/// # Errors
/// Returns an error if the kernel is older than 4.14, or if the descriptor is not a stream socket.
pub fn allow_zerocopy(socket: &impl AsFd) -> Result<(), Error> {
    let on: libc::c_int = 1;
    set(socket, libc::SOL_SOCKET, SO_ZEROCOPY, &on, "SO_ZEROCOPY")
}

/// Makes the kernel segment each send into datagrams of `bytes` bytes (UDP_SEGMENT). 0 turns this
/// off.
///
/// # Errors
/// Returns an error if the kernel is older than 4.18, or if the descriptor is not a UDP socket.
pub fn set_udp_segment(socket: &impl AsFd, bytes: u16) -> Result<(), Error> {
    set(socket, libc::SOL_UDP, UDP_SEGMENT, &libc::c_int::from(bytes), "UDP_SEGMENT")
}

/// Lets the kernel return several datagrams of equal length in one read (UDP_GRO).
///
/// # Errors
/// Returns an error if the kernel is older than 5.0, or if the descriptor is not a UDP socket.
pub fn allow_udp_gro(socket: &impl AsFd) -> Result<(), Error> {
    let on: libc::c_int = 1;
    set(socket, libc::SOL_UDP, UDP_GRO, &on, "UDP_GRO")
}

/// Returns a connection's TCP_INFO.
///
/// # Errors
/// Returns an error if the descriptor is not a TCP socket, or if the kernel is older than 4.10.
pub fn tcp_info(socket: &impl AsFd) -> Result<TcpInfo, Error> {
    let mut bytes = [0_u8; TCP_INFO_ROOM];
    let filled = get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes, "TCP_INFO")?;
    TcpInfo::decode(&bytes[..filled]).ok_or(Error::Call {
        call: "getsockopt",
        value: "TCP_INFO".to_owned(),
        errno: libc::EINVAL,
        advice: "this kernel is too old: Linux 4.10 or later is needed",
    })
}

/// Returns a socket's buffer sizes and drops, as accounted by the kernel (SO_MEMINFO).
///
/// # Errors
/// Returns an error if the descriptor is not a socket, or if the kernel is older than 4.12.
pub fn memory(socket: &impl AsFd) -> Result<SocketMemory, Error> {
    let mut bytes = [0_u8; 4 * MEMORY_NUMBERS];
    let filled = get(socket, libc::SOL_SOCKET, SO_MEMINFO, &mut bytes, "SO_MEMINFO")?;
    SocketMemory::decode(&bytes[..filled]).ok_or(Error::Call {
        call: "getsockopt",
        value: "SO_MEMINFO".to_owned(),
        errno: libc::EINVAL,
        advice: "this kernel is too old: Linux 4.12 or later is needed",
    })
}

fn set<T>(
    socket: &impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
    name: &str,
) -> Result<(), Error> {
    // SAFETY: `value` is readable for its whole size during the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    match status {
        0 => Ok(()),
        _ => Err(Error::last(
            "setsockopt",
            name.to_owned(),
            "pass a socket that supports this option",
        )),
    }
}

/// Reads a socket option into `room` and returns the number of bytes filled.
fn get(
    socket: &impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    room: &mut [u8],
    name: &str,
) -> Result<usize, Error> {
    let mut length = room.len() as libc::socklen_t;
    // SAFETY: `room` is writable for `length` bytes during the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            room.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    match status {
        0 => Ok(room.len().min(length as usize)),
        _ => Err(Error::last(
            "getsockopt",
            name.to_owned(),
            "pass a socket that supports this option",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn tcp_info_counts_what_was_sent() {
        let (mut near, mut far) = pair();
        near.write_all(&[7; 1000]).unwrap();
        far.read_exact(&mut [0; 1000]).unwrap();
        let info = tcp_info(&near).unwrap();
        assert!(info.bytes_sent >= Some(1000), "{info:?}");
        assert!(info.data_segments_out >= 1, "{info:?}");
        assert_eq!(tcp_info(&far).unwrap().bytes_received, 1000);
    }

    #[test]
    fn buffers_are_granted_as_the_kernel_doubles_them() {
        let (near, _far) = pair();
        set_send_buffer(&near, 16 << 10).unwrap();
        assert_eq!(memory(&near).unwrap().send_buffer, 32 << 10);
    }

    #[test]
    fn an_option_of_another_kind_of_socket_is_refused() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = tcp_info(&udp).unwrap_err().to_string();
        assert!(error.contains("TCP_INFO"), "{error}");
        assert!(set_udp_segment(&pair().0, 1).is_err());
    }

    #[test]
    fn a_batch_arrives_as_it_was_sent() {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        let mut sending = Batch::new(4, 100);
        assert_eq!(send_batch(&near, &mut sending).unwrap(), 4);
        let mut receiving = Batch::new(8, 200);
        let (messages, bytes) = receive_batch(&far, &mut receiving).unwrap();
        assert_eq!((messages, bytes), (4, 400));
    }

    #[test]
    fn a_file_and_lent_memory_arrive_whole() {
        let (near, mut far) = pair();
        let file = crate::file_in_memory(&[5; 3000]).unwrap();
        assert_eq!(send_file(&near, &file, 1000, 2000).unwrap(), 2000);
        allow_zerocopy(&near).unwrap();
        let lent = vec![9; 4096];
        assert_eq!(send_zerocopy(&near, &lent).unwrap(), 4096);
        let mut received = vec![0; 2000 + 4096];
        far.read_exact(&mut received).unwrap();
        assert!(received[..2000].iter().all(|byte| *byte == 5));
        assert!(received[2000..].iter().all(|byte| *byte == 9));
        let done = completions(&near).unwrap();
        assert_eq!(done.calls, 1, "{done:?}");
    }
}
