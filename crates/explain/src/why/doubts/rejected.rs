// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that do not get past the socket layer: rejected by a socket's filter, sent to an address
//! or port without a socket, or held back by a very small receive buffer.

use super::super::called;
use super::super::facts::Facts;
use super::super::losses::{has_drop_reasons, is_much};
use super::super::words::percent;
use super::Doubt;
use linerate_record::units::{grouped, memory_size};
use linerate_record::why::{PacketCount, SocketCounts, SocketKind};

/// Detects a UDP socket that drops datagrams although its buffer is not full, and a listening
/// socket that drops connection attempts although its accept queue is not.
pub(super) fn by_sockets(facts: &Facts<'_>) -> Option<Doubt> {
    let rejected = |socket: &SocketCounts| {
        socket.drops.unwrap_or(0) - socket.buffer_drops(facts.observation).unwrap_or(0)
    };
    let most = |kind| {
        let sockets = facts.observation.sockets.iter().filter(move |one| one.kind == kind);
        sockets.map(|one| (one, rejected(one))).max_by_key(|(_, count)| *count)
    };
    let of_udp = most(SocketKind::Udp).and_then(|(socket, count)| {
        let all = count + facts.packets().unwrap_or(0);
        let what = format!("{} datagrams ({} %)", grouped(count), share_of(count, all));
        let why = "a full receive buffer does not account for them, so the socket's filter \
                   rejected them (SO_ATTACH_FILTER, SO_ATTACH_BPF), or their checksum was wrong";
        let next = "Look at the filter (ss -uab shows classic ones) and at InCsumErrors in nstat";
        let (why, next) = match has_drop_reasons(facts) {
            true => (why.to_owned(), next.to_owned()),
            // Some kernels count these drops at the socket only.
            false => (
                format!(
                    "{why}; or the memory of all UDP sockets had reached its limit \
                     (net.ipv4.udp_mem)"
                ),
                format!("{next}; compare UDP: mem in /proc/net/sockstat with net.ipv4.udp_mem"),
            ),
        };
        is_much(count, all).then(|| doubt(socket, &what, &why, &next))?
    });
    of_udp.or_else(|| {
        let (socket, count) = most(SocketKind::TcpListen)?;
        let all = count + facts.protocol("Tcp.PassiveOpens")?;
        let what = format!("{} connection attempts ({} %)", grouped(count), share_of(count, all));
        let why = "a full accept queue does not account for them, so a BPF program \
                   (IPAddressDeny= of a systemd unit), an IPsec policy or TCP-MD5 rejected them, \
                   or the queue of half-open connections was full";
        let next = "Compare TcpExtListenDrops, TcpExtTCPReqQFullDrop and TcpExtTCPMD5NotFound in \
                    nstat; bpftool cgroup tree lists BPF programs";
        is_much(count, all).then(|| doubt(socket, &what, why, next))?
    })
}

fn share_of(part: u64, all: u64) -> String {
    percent(part as f64 / all.max(1) as f64)
}

fn doubt(socket: &SocketCounts, what: &str, why: &str, next: &str) -> Option<Doubt> {
    let local = &socket.local;
    let sentence = format!(
        "Cannot tell whether {what} that socket {local} rejected were meant for the program: {why}."
    );
    Doubt::new(sentence, next)
}

/// Detects datagrams to addresses or ports without a socket, for a program with a UDP socket.
pub(super) fn at_ports(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum number of datagrams without a socket, as a fraction of the program's packets. A few
    /// always arrive, for example from port scans.
    const MANY: f64 = 0.1;
    /// Start of the default ephemeral port range (ip_local_port_range), which clients use.
    const CHOSEN: u16 = 32_768;
    let port = |socket: &SocketCounts| socket.local.rsplit(':').next()?.parse::<u16>().ok();
    let serves = |socket: &&SocketCounts| {
        socket.kind == SocketKind::Udp
            && socket.remote.is_none()
            && port(socket).is_some_and(|port| port < CHOSEN)
    };
    let socket = facts.observation.sockets.iter().find(serves)?;
    let missed = facts.datagrams("NoPorts")?;
    let packets = facts.packets()?;
    if !is_much(missed, packets) || (missed as f64) < MANY * packets as f64 {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell whether {} datagrams to addresses or ports on which no UDP socket listens \
             (Udp.NoPorts) were meant for the program, which handled {} packets; it listens on {}.",
            grouped(missed),
            grouped(packets),
            socket.local
        ),
        "Compare their destination (tcpdump -ni any icmp shows the rejections) with the address \
         and port that the program listens on (ss -ulnp)",
    )
}

/// Detects datagrams that were not sent: calls that send are more frequent than datagrams
/// that leave.
pub(super) fn failed_sends(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of the calls. System calls are sampled: in records of healthy programs,
    /// their number is up to 17 % too low.
    const SHARE: f64 = 0.1;
    /// Minimum number per second.
    const PER_S: f64 = 10.0;
    // Other kinds of sockets are sent to by the same calls. Unix domain sockets that are not
    // connected, as for the journal, are not listed, and are sent to by sendmsg.
    let has_others = facts.observation.sockets.iter().any(|one| one.kind != SocketKind::Udp);
    let counter = facts.observation.packets.as_ref().map(|one| one.counter.as_str());
    let sends_messages = called::count(facts, "sendmsg") > 0;
    if has_others || sends_messages || counter != Some(PacketCount::DATAGRAMS) {
        return None;
    }
    let calls = called::count(facts, "sendto");
    // A full send buffer or queueing discipline; other rules name these.
    let full = facts.datagrams("SndbufErrors")?;
    let failed = calls.saturating_sub(facts.datagrams("OutDatagrams")?).saturating_sub(full);
    if (failed as f64) < (SHARE * calls as f64).max(PER_S * facts.elapsed()) {
        return None;
    }
    let pid = facts.observation.watched.pids.first().copied().unwrap_or(0);
    Doubt::new(
        format!(
            "Cannot tell why {} of {} calls to send a datagram ({} %) sent none: they failed, for \
             example for lack of a route or because of a firewall rule, or each collects data for \
             a later call (MSG_MORE).",
            grouped(failed),
            grouped(calls),
            share_of(failed, calls)
        ),
        format!("See the errors: strace -f -Z -e trace=sendto -p {pid}"),
    )
}

/// Detects a connection whose receive buffer is smaller than one large segment.
pub(super) fn small_window(facts: &Facts<'_>) -> Option<Doubt> {
    /// Size of a large segment (TSO, GRO), in bytes. By default, buffers are larger.
    const SEGMENT: u64 = 65_536;
    /// Minimum number of bytes per second in a bulk transfer.
    const RATE: f64 = 10_000.0;
    /// Minimum number of bytes per segment in a bulk transfer.
    const SIZE: u64 = 500;
    let is_small = |socket: &&SocketCounts| {
        socket.receive_buffer.is_some_and(|bytes| bytes < SEGMENT)
            && socket.tcp.as_ref().is_some_and(|tcp| {
                tcp.bytes_received as f64 >= RATE * facts.elapsed()
                    && tcp.bytes_received > 2 * tcp.bytes_acked
                    && tcp.bytes_received >= SIZE * tcp.segments_in
            })
    };
    let socket = facts.connections().find(is_small)?;
    Doubt::new(
        format!(
            "Cannot tell whether the receive buffer of connection {} ({}) limits its sender: it is \
             smaller than one large segment.",
            socket.local,
            memory_size(socket.receive_buffer.unwrap_or(0) as f64)
        ),
        "Leave SO_RCVBUF unset, so that the kernel sizes the buffer, and compare the rates; at the \
         sender, see rwnd_limited in ss -ti",
    )
}
