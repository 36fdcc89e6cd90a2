// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sockets in the details of a diagnosis: the most conspicuous sockets individually, the others
//! summed by local address.

use super::{maybe, put};
use crate::Style;
use crate::layout::Grid;
use crate::value::significant;
use linerate_record::why::SocketCounts;
use std::cmp::Ordering;

/// Maximum number of sockets shown individually. The same limit applies to the rows for groups of
/// other sockets.
const MOST: usize = 10;

/// Formats the sockets, starting with those that have losses or stalls.
pub(super) fn sockets(sockets: &[SocketCounts], style: &Style) -> String {
    let mut sockets: Vec<&SocketCounts> = sockets.iter().collect();
    sockets.sort_by(|a, b| by_prominence(a, b));
    let (own, others) = sockets.split_at(sockets.len().min(MOST));
    let groups = groups(others);
    let mut grid = Grid::new(&[
        "socket",
        "local",
        "remote",
        ">queued",
        ">buffer",
        ">dropped",
        ">rwnd\nlimited s",
        ">sndbuf\nlimited s",
        ">resent",
    ]);
    own.iter().for_each(|socket| put(&mut grid, row(&[socket])));
    groups.iter().take(MOST).for_each(|group| put(&mut grid, row(group)));
    let left_out: usize = groups.iter().skip(MOST).map(Vec::len).sum();
    let left_out = match left_out {
        0 => String::new(),
        left_out => format!("{left_out} more sockets (--json)\n"),
    };
    grid.render(style) + &left_out
}

/// Orders sockets by prominence, highest first: losses, then stalls, queues and traffic.
fn by_prominence(a: &SocketCounts, b: &SocketCounts) -> Ordering {
    let lost = |socket: &SocketCounts| {
        socket.drops.unwrap_or(0) + socket.tcp.as_ref().map_or(0, |tcp| tcp.retransmitted)
    };
    let stalled_s = |socket: &SocketCounts| {
        socket.tcp.as_ref().map_or(0.0, |tcp| tcp.rwnd_limited_s + tcp.sndbuf_limited_s)
    };
    let bytes = |socket: &SocketCounts| {
        socket.tcp.as_ref().map_or(0, |tcp| tcp.bytes_received + tcp.bytes_acked)
    };
    let queued = |socket: &SocketCounts| socket.receive_queue_max;
    (lost(b).cmp(&lost(a)))
        .then(stalled_s(b).total_cmp(&stalled_s(a)))
        .then(queued(b).cmp(&queued(a)))
        .then(bytes(b).cmp(&bytes(a)))
}

/// Groups sockets of the same kind by local address, largest groups first. Outgoing connections
/// have different local ports, so they are grouped by remote address.
fn groups<'a>(sockets: &[&'a SocketCounts]) -> Vec<Vec<&'a SocketCounts>> {
    let mut groups: Vec<Vec<&SocketCounts>> = Vec::new();
    for socket in sockets {
        let is_alike = |group: &Vec<&SocketCounts>| {
            group.iter().all(|other| {
                other.kind == socket.kind
                    && (other.local == socket.local
                        || socket.remote.is_some() && other.remote == socket.remote)
            })
        };
        match groups.iter_mut().find(|group| is_alike(group)) {
            Some(group) => group.push(socket),
            None => groups.push(vec![socket]),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}

/// Formats the row of a socket or group of sockets. In a group, counts and times are added up; for
/// queues and buffers, the maximum is shown.
fn row(group: &[&SocketCounts]) -> Vec<String> {
    let sum = |of: fn(&SocketCounts) -> Option<u64>| -> Option<u64> {
        group.iter().filter_map(|socket| of(socket)).reduce(|a, b| a + b)
    };
    let seconds = |of: fn(&SocketCounts) -> Option<f64>| {
        let sum = group.iter().filter_map(|socket| of(socket)).reduce(|a, b| a + b);
        sum.map_or_else(|| "-".to_owned(), significant)
    };
    vec![
        group.first().map_or_else(String::new, |socket| socket.kind.label().to_owned()),
        common(group, |socket| &socket.local),
        common(group, |socket| socket.remote.as_deref().unwrap_or_default()),
        maybe(group.iter().map(|socket| socket.receive_queue_max).max()),
        maybe(group.iter().filter_map(|socket| socket.receive_buffer).max()),
        maybe(sum(|socket| socket.drops)),
        seconds(|socket| Some(socket.tcp.as_ref()?.rwnd_limited_s)),
        seconds(|socket| Some(socket.tcp.as_ref()?.sndbuf_limited_s)),
        maybe(sum(|socket| Some(socket.tcp.as_ref()?.retransmitted))),
    ]
}

/// Returns the address shared by all sockets of a group, or their number if the addresses differ.
fn common(group: &[&SocketCounts], of: fn(&SocketCounts) -> &str) -> String {
    match group {
        [first, rest @ ..] if rest.iter().all(|socket| of(socket) == of(first)) => {
            of(first).to_owned()
        }
        _ => format!("{} sockets", group.len()),
    }
}
