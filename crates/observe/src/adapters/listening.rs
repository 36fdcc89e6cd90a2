// SPDX-License-Identifier: MIT OR Apache-2.0
//! UNIX sockets on which observed processes listen.

use crate::target::stat_of;
use linerate_machine::Root;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Type of a UNIX socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Byte stream.
    Stream,
    /// Messages (SOCK_SEQPACKET).
    Messages,
}

/// A UNIX socket on which an observed process listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listening {
    pub(super) pid: u32,
    /// Process name, at most 15 bytes.
    pub(super) program: String,
    pub(super) kind: Kind,
    /// Path as the process sees it.
    pub(super) path: String,
}

/// Returns the listening sockets in `unix`, the text of /proc/PID/net/unix. `owners` maps inodes to
/// processes.
pub(super) fn listening(root: &Root, unix: &str, owners: &BTreeMap<u64, u32>) -> Vec<Listening> {
    let of_line = |line: &str| {
        let (inode, kind, path) = parse_unix(line)?;
        let pid = *owners.get(&inode)?;
        Some(Listening { pid, program: stat_of(root, pid)?.name, kind, path })
    };
    unix.lines().filter_map(of_line).collect()
}

/// Returns the path of a socket via /proc/PID/root, as it may be in another mount namespace.
pub(super) fn below_root(socket: &Listening) -> PathBuf {
    seen_by(socket.pid, &socket.path)
}

/// Returns the path, via /proc/PID/root, of the file that a process sees at `path`.
pub(super) fn seen_by(pid: u32, path: &str) -> PathBuf {
    PathBuf::from(format!("proc/{pid}/root")).join(path.trim_start_matches('/'))
}

/// Listening flag in /proc/net/unix.
const LISTENS: u64 = 0x1_0000;
/// Socket types in /proc/net/unix.
const STREAM: &str = "0001";
const SEQPACKET: &str = "0005";

/// Parses a line of /proc/net/unix. Returns inode, type and path of a listening socket bound to a
/// file.
fn parse_unix(line: &str) -> Option<(u64, Kind, String)> {
    let mut columns = line.split_ascii_whitespace().skip(3);
    let flags = u64::from_str_radix(columns.next()?, 16).ok()?;
    let kind = match columns.next()? {
        STREAM => Kind::Stream,
        SEQPACKET => Kind::Messages,
        _ => return None,
    };
    let inode = columns.nth(1)?.parse().ok()?;
    let path = columns.next()?;
    let is_meant =
        flags & LISTENS != 0 && path.starts_with('/') && !path.split('/').any(|name| name == "..");
    is_meant.then(|| (inode, kind, renamed(path).to_owned()))
}

/// Returns the current path of a socket that was renamed after bind. HAProxy binds `PATH.PID.tmp`
/// and renames it, but the kernel reports the original name.
fn renamed(path: &str) -> &str {
    let known = path.strip_suffix(".tmp").and_then(|rest| rest.rsplit_once('.'));
    match known {
        Some((path, pid)) if !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) => path,
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn listening_sockets_with_a_file_are_found() {
        let line = |flags: &str, kind: &str, path: &str| {
            parse_unix(&format!("0000000000000000: 00000002 00000000 {flags} {kind} 01 99 {path}"))
        };
        let found = line("00010000", "0005", "/run/dpdk/rte/dpdk_telemetry.v2");
        assert_eq!(found, Some((99, Kind::Messages, "/run/dpdk/rte/dpdk_telemetry.v2".to_owned())));
        let found = line("00010000", "0001", "/run/haproxy/admin.sock.4711.tmp");
        assert_eq!(found, Some((99, Kind::Stream, "/run/haproxy/admin.sock".to_owned())));
        assert_eq!(line("00000000", "0001", "/run/x"), None);
        assert_eq!(line("00010000", "0001", "@x"), None);
        assert_eq!(line("00010000", "0001", "/run/../x"), None);
        assert_eq!(parse_unix("Num RefCount Protocol Flags Type St Inode Path"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn damaged_lines_are_left_out(line in "[0-9a-f: /.]{0,90}|.{0,60}") {
            parse_unix(&line);
        }
    }
}
