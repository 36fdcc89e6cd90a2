// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends a request to a program and reads the reply, with time and size limits.

use super::configuration::location;
use super::description::Transport;
use linerate_linux::monotonic_ns;
use linerate_linux::seqpacket::connect_stream;
use linerate_machine::Root;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// Timeout for connecting, for each part of a reply, and for the whole reply.
const DEADLINE: Duration = Duration::from_millis(200);

/// Maximum reply size.
const ANSWER_MAX: usize = 1 << 20;

/// Address of a program's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A UNIX socket, by its path relative to the root.
    Unix(PathBuf),
    /// An HTTP page.
    Http(SocketAddr, String),
}

/// Sends the request and returns the reply as text.
pub(super) fn ask(
    root: &Root,
    place: &Place,
    transport: &Transport,
    question: &str,
) -> Result<String, String> {
    let io = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::WouldBlock => format!("no reply within {DEADLINE:?}"),
        _ => error.to_string(),
    };
    match (place, transport) {
        (Place::Unix(path), Transport::Unix { end, .. }) => {
            let path = root.path(&path.display().to_string());
            let stream = connect_stream(&path, DEADLINE).map_err(|error| error.to_string())?;
            (&stream).write_all(question.as_bytes()).map_err(io)?;
            answer(&stream, end.as_deref()).map_err(io)?
        }
        (Place::Http(address, page), _) => {
            let mut stream = TcpStream::connect_timeout(address, DEADLINE).map_err(io)?;
            stream.set_read_timeout(Some(DEADLINE)).map_err(io)?;
            stream.set_write_timeout(Some(DEADLINE)).map_err(io)?;
            stream.write_all(question.replace("{}", page).as_bytes()).map_err(io)?;
            let text = answer(&stream, None).map_err(io)??;
            match text.split_once(' ') {
                Some((_, rest)) if rest.starts_with("200 ") => Ok(text),
                _ => Err(text
                    .lines()
                    .next()
                    .unwrap_or("the reply is empty")
                    .chars()
                    .take(80)
                    .collect()),
            }
        }
        (Place::Unix(_), Transport::Http { .. }) => Err("the reply is not HTTP".to_owned()),
    }
}

/// Reads a reply up to `end` or, without one, until the connection is closed.
fn answer(mut stream: impl Read, end: Option<&str>) -> std::io::Result<Result<String, String>> {
    let until_ns = monotonic_ns() + DEADLINE.as_nanos() as u64;
    let mut bytes = Vec::new();
    let mut part = [0; 16 << 10];
    loop {
        let got = stream.read(&mut part)?;
        bytes.extend_from_slice(&part[..got]);
        // Only the new bytes, with some before them, can contain the end.
        let tail = bytes.len().saturating_sub(got + end.map_or(0, str::len));
        let has_end = end.is_some_and(|end| contains(&bytes[tail..], end.as_bytes()));
        if got == 0 || has_end {
            let text = String::from_utf8(bytes);
            return Ok(text.map_err(|_| "the reply is not text".to_owned()));
        }
        if bytes.len() > ANSWER_MAX {
            return Ok(Err(format!("the reply is longer than {ANSWER_MAX} bytes")));
        }
        if monotonic_ns() > until_ns {
            return Ok(Err(format!("the reply is incomplete after {DEADLINE:?}")));
        }
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len().max(1)).any(|window| window == part)
}

/// Returns the HTTP pages that may have counters: each of the program's addresses, with the path of
/// the `location` block that contains `directive` in the configuration of process `pid`.
pub(super) fn pages(
    root: &Root,
    pid: u32,
    configuration: &str,
    directive: &str,
    addresses: &[SocketAddr],
) -> Vec<Place> {
    let Some(path) = location(root, pid, configuration, directive) else { return Vec::new() };
    let place = |address: &SocketAddr| {
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        Place::Http(SocketAddr::new(ip, address.port()), path.clone())
    };
    addresses.iter().map(place).collect()
}
