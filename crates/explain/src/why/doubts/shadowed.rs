// SPDX-License-Identifier: MIT OR Apache-2.0
//! A UDP socket that gets nothing because another socket has the same port.

use super::super::facts::Facts;
use super::Doubt;
use linerate_record::units::{counted, grouped};
use linerate_record::why::{SocketCounts, SocketKind};

/// Detects a program that has not run once, and so received none of the datagrams of its network
/// namespace, while sockets of other programs are bound to the port of one of its sockets.
pub(super) fn by_port(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum number of datagrams per second in the network namespace.
    const PER_S: f64 = 10.0;
    /// Ports whose sockets share them on purpose, each for an interface or for a multicast group:
    /// DHCP, SSDP and mDNS.
    const SHARED: [&str; 4] = ["67", "68", "1900", "5353"];
    let is_shadowed = |socket: &&SocketCounts| {
        socket.kind == SocketKind::Udp
            && socket.port_sharers.is_some_and(|others| others > 0)
            && socket.receive_queue_max == 0
    };
    let socket = facts.observation.sockets.iter().find(is_shadowed)?;
    let others = u64::from(socket.port_sharers?);
    let received = facts.datagrams("InDatagrams")?;
    let threads = &facts.observation.threads;
    let has_slept_through = threads.iter().all(|thread| thread.voluntary_switches == 0);
    let (_, port) = socket.local.rsplit_once(':')?;
    if !has_slept_through
        || threads.is_empty()
        || facts.observation.threads_left_out > 0
        || (received as f64) < PER_S * facts.elapsed()
        || SHARED.contains(&port)
    {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell whether the program should have received the {} datagrams that other \
             sockets in its network namespace received: it received none, and {} of other programs \
             {} bound to its port {port}, too. The kernel gives each datagram to one of these \
             sockets: without SO_REUSEPORT, to the one that was bound last.",
            grouped(received),
            counted(others, "socket"),
            if others == 1 { "is" } else { "are" }
        ),
        format!(
            "Find the other program, and stop it or change its port: ss -ulnp 'sport = :{port}'"
        ),
    )
}
