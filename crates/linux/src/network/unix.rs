// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unix domain sockets (sock_diag).

use super::inet::BY_FAMILY;
use super::netlink::{attribute, dump};
use super::{Network, u32_at};
use crate::Error;

/// Length of `unix_diag_msg`.
const MESSAGE: usize = 16;

/// Attributes to request: UDIAG_SHOW_NAME, _PEER and _RQLEN.
const SHOW: u32 = 0x01 | 0x04 | 0x10;

const NAME: u16 = 0;
const PEER: u16 = 2;
const QUEUES: u16 = 4;

/// State of a listening socket (TCP_LISTEN, which other families use too).
const LISTENS: u8 = 10;

/// Snapshot of a Unix domain socket's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// Socket inode, as in /proc/PID/fd.
    pub inode: u32,
    /// Whether the socket accepts connections.
    pub is_listening: bool,
    /// Path, or `@` and the name of an abstract socket; `None` if the socket is unnamed, like those
    /// of clients. Accepted connections have the name of the listening socket.
    pub name: Option<String>,
    /// Inode of the socket at the other end; `None` if not connected.
    pub peer: Option<u32>,
    /// Bytes received but not read; for a listening socket, connections not yet accepted.
    pub receive_queue: u32,
    /// Bytes sent but not read by the peer; for a listening socket, the maximum length of its
    /// queue.
    pub send_queue: u32,
}

impl UnixSocket {
    /// Parses `unix_diag_msg` and its attributes.
    fn decode(body: &[u8]) -> Option<Self> {
        let (state, inode) = (*body.get(2)?, u32_at(body, 4)?);
        let attributes = body.get(MESSAGE..)?;
        let queues = attribute(attributes, QUEUES)?;
        Some(Self {
            inode,
            is_listening: state == LISTENS,
            name: attribute(attributes, NAME).and_then(name),
            peer: attribute(attributes, PEER).and_then(|peer| u32_at(peer, 0)),
            receive_queue: u32_at(queues, 0)?,
            send_queue: u32_at(queues, 4)?,
        })
    }
}

/// Formats a socket name. Names of abstract sockets begin with a NUL byte, and may contain further
/// NUL bytes.
fn name(bytes: &[u8]) -> Option<String> {
    let printable = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\0', "@");
    match bytes {
        [] => None,
        [0, ..] => Some(printable(bytes)),
        path => Some(super::text(path)),
    }
}

impl Network {
    /// Returns all Unix domain sockets.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have unix_diag.
    pub fn unix_sockets(&self) -> Result<Vec<UnixSocket>, Error> {
        let mut request = vec![libc::AF_UNIX as u8, 0, 0, 0];
        request.extend(u32::MAX.to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        request.extend(SHOW.to_ne_bytes());
        request.extend([0; 8]);
        dump(&self.diag, BY_FAMILY, &request, |_, body| UnixSocket::decode(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// Returns an accepted connection on /run/a, as laid out in `unix_diag.h`.
    fn answer() -> Vec<u8> {
        let mut body = vec![1, 1, 1, 0];
        body.extend([4711u32, 1, 0].iter().flat_map(|n| n.to_ne_bytes()));
        let mut attribute = |kind: u16, bytes: &[u8]| {
            body.extend((4 + bytes.len() as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(bytes);
            body.resize(body.len().next_multiple_of(4), 0);
        };
        attribute(NAME, b"/run/a");
        attribute(PEER, &4712u32.to_ne_bytes());
        let queues: Vec<u8> = [100u32, 7].iter().flat_map(|n| n.to_ne_bytes()).collect();
        attribute(QUEUES, &queues);
        body
    }

    #[test]
    fn a_connection_is_decoded() {
        let expected = UnixSocket {
            inode: 4711,
            is_listening: false,
            name: Some("/run/a".to_owned()),
            peer: Some(4712),
            receive_queue: 100,
            send_queue: 7,
        };
        assert_eq!(UnixSocket::decode(&answer()), Some(expected));
        assert_eq!(name(b"\0abstract"), Some("@abstract".to_owned()));
        assert_eq!(name(b""), None);
    }

    /// Returns the inode of a socket of this process.
    fn inode(socket: &impl AsRawFd) -> u32 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let text = link.to_str().unwrap().trim_start_matches("socket:[").trim_end_matches(']');
        text.parse().unwrap()
    }

    #[test]
    fn the_kernel_lists_both_ends_of_a_connection() {
        let path = std::env::temp_dir().join(format!("linerate-unix-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.write_all(b"12345").unwrap();
        std::fs::remove_file(&path).unwrap();
        let sockets = match Network::own().and_then(|network| network.unix_sockets()) {
            Ok(sockets) if !sockets.is_empty() => sockets,
            other => {
                eprintln!("SKIP: Unix domain sockets are not listed here: {other:?}");
                return;
            }
        };
        let of = |inode: u32| sockets.iter().find(|socket| socket.inode == inode).unwrap();
        let (listening, accepted, own) =
            (of(inode(&listener)), of(inode(&server)), of(inode(&client)));
        assert!(listening.is_listening && !accepted.is_listening);
        assert_eq!(accepted.name.as_deref(), path.to_str());
        assert_eq!((accepted.peer, accepted.receive_queue), (Some(inode(&client)), 5));
        assert_eq!((own.peer, own.name.as_deref()), (Some(inode(&server)), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn damaged_answers_are_left_out(cut in 0usize..60, at in 0usize..60, byte: u8) {
            let mut body = answer();
            let at = at % body.len();
            body[at] = byte;
            body.truncate(cut);
            UnixSocket::decode(&body);
        }
    }
}
