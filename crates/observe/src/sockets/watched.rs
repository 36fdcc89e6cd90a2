// SPDX-License-Identifier: MIT OR Apache-2.0
//! A socket: its readings, and the resulting counts over the window.

use super::canonical;
use linerate_linux::network::{InetProtocol, InetSocket, PacketSocket, SocketMemory, TcpInfo};
use linerate_record::why::{SocketCounts, SocketKind, TcpCounts};

/// Fields that are read for every socket.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) receive_queue: u64,
    pub(super) send_queue: u64,
    pub(super) memory: Option<SocketMemory>,
    /// Packets dropped; `None` if unreadable.
    pub(super) drops: Option<u32>,
    pub(super) inet: Option<InetSocket>,
}

/// A watched socket.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) kind: SocketKind,
    pub(super) local: String,
    pub(super) remote: Option<String>,
    pub(super) ring_bytes: Option<u64>,
    /// Interface index of a packet socket.
    pub(super) interface: u32,
    pub(super) first: Option<State>,
    pub(super) last: State,
    pub(super) is_closed: bool,
    pub(super) reads: u64,
    pub(super) receive_queue: u64,
    pub(super) receive_queue_max: u64,
    /// Number of readings with a non-empty receive queue.
    pub(super) waited: u64,
    pub(super) send_queue: u64,
    pub(super) app_limited: u64,
    pub(super) held: u64,
    /// Readings in which data was received last, and those in which either may have come last.
    received_last: u64,
    either_last: u64,
    pub(super) peer_window_max: Option<u32>,
}

pub(super) fn state_of(socket: &InetSocket) -> State {
    State {
        receive_queue: socket.receive_queue.into(),
        send_queue: socket.send_queue.into(),
        memory: socket.memory,
        drops: socket.memory.map(|memory| memory.drops),
        inet: Some(socket.clone()),
    }
}

/// Returns whether Nagle's algorithm is holding back data: less than a full segment is unsent and
/// earlier segments are unacknowledged, although the congestion and receive windows have room.
fn is_held(tcp: &TcpInfo) -> bool {
    let has_less_than_a_segment = (1..tcp.mss).contains(&tcp.not_sent);
    let has_room = tcp.unacked < tcp.cwnd && tcp.peer_window.is_none_or(|peer| peer >= tcp.mss);
    has_less_than_a_segment && tcp.unacked > 0 && has_room
}

/// What came last on a connection, some time ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// Data was received.
    Received,
    /// Data was received and sent within the same clock tick, and all data is acknowledged. As a
    /// request that follows a reply acknowledges it, the request came last, unless the peer
    /// acknowledges replies by themselves.
    Either,
    /// Data was sent, or something happened just now.
    Other,
}

fn last(tcp: &TcpInfo) -> Last {
    /// The longest clock tick (CONFIG_HZ=250 and above): data that arrived this long ago is not
    /// merely between two reads of the program.
    const AGO_MS: u32 = 4;
    let (received, sent) = (tcp.data_received_ms_ago, tcp.data_sent_ms_ago);
    let is_acknowledged = tcp.unacked == 0 && tcp.ack_received_ms_ago >= received;
    match received {
        ..AGO_MS => Last::Other,
        _ if received < sent => Last::Received,
        _ if received == sent && is_acknowledged => Last::Either,
        _ => Last::Other,
    }
}

impl Watched {
    pub(super) fn new_inet(socket: &InetSocket, state: State, is_start: bool) -> Self {
        let kind = match (socket.protocol, socket.is_listening) {
            (InetProtocol::Tcp, false) => SocketKind::Tcp,
            (InetProtocol::Tcp, true) => SocketKind::TcpListen,
            (InetProtocol::Udp, _) => SocketKind::Udp,
        };
        let remote = (socket.remote.port() != 0).then(|| canonical(socket.remote).to_string());
        let local = canonical(socket.local).to_string();
        Self::new(kind, local, remote, state, is_start)
    }

    pub(super) fn new_packet(
        socket: &PacketSocket,
        local: String,
        state: State,
        is_start: bool,
    ) -> Self {
        Self {
            ring_bytes: socket.receive_ring.map(|ring| ring.bytes()),
            interface: socket.interface,
            ..Self::new(SocketKind::Packet, local, None, state, is_start)
        }
    }

    pub(super) fn new(
        kind: SocketKind,
        local: String,
        remote: Option<String>,
        state: State,
        is_start: bool,
    ) -> Self {
        let mut watched = Self {
            kind,
            local,
            remote,
            ring_bytes: None,
            interface: 0,
            first: is_start.then(|| state.clone()),
            last: state.clone(),
            is_closed: false,
            reads: 0,
            receive_queue: 0,
            receive_queue_max: 0,
            waited: 0,
            send_queue: 0,
            app_limited: 0,
            held: 0,
            received_last: 0,
            either_last: 0,
            peer_window_max: None,
        };
        let is_tcp = kind == SocketKind::Tcp;
        watched.take(state, is_tcp);
        watched
    }

    pub(super) fn take(&mut self, state: State, is_tcp: bool) {
        self.reads += 1;
        self.receive_queue += state.receive_queue;
        self.receive_queue_max = self.receive_queue_max.max(state.receive_queue);
        self.waited += u64::from(state.receive_queue > 0);
        self.send_queue += state.send_queue;
        let tcp = state.inet.as_ref().and_then(|socket| socket.tcp);
        if let Some(tcp) = tcp.filter(|_| is_tcp) {
            self.app_limited += u64::from(tcp.is_app_limited);
            self.held += u64::from(is_held(&tcp));
            self.received_last += u64::from(last(&tcp) == Last::Received);
            self.either_last += u64::from(last(&tcp) == Last::Either);
            self.peer_window_max = self.peer_window_max.max(tcp.peer_window);
        }
        self.last = state;
    }

    /// Begins the next window, starting from the last readings.
    pub(super) fn begin_window(&mut self) {
        self.first = Some(self.last.clone());
        (self.reads, self.waited, self.app_limited, self.held) = (0, 0, 0, 0);
        (self.receive_queue, self.receive_queue_max, self.send_queue) = (0, 0, 0);
        (self.received_last, self.either_last) = (0, 0);
        self.peer_window_max = None;
    }

    pub(super) fn drops(&self) -> Option<u64> {
        let now = self.last.drops?;
        let before = match &self.first {
            Some(first) => first.drops?,
            None => 0,
        };
        Some(u64::from(now.wrapping_sub(before)))
    }

    /// Returns the TCP counts over the window; all zero if the kernel reports none.
    pub(super) fn tcp(&self) -> TcpCounts {
        let of = |state: &State| state.inet.as_ref().and_then(|socket| socket.tcp);
        let Some(now) = of(&self.last) else { return TcpCounts::default() };
        let before = self.first.as_ref().and_then(of).unwrap_or_default();
        let seconds = |now: u64, before: u64| now.saturating_sub(before) as f64 / 1e6;
        let more = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        let with_data = more(now.data_segments_in, before.data_segments_in);
        let segments_in = more(now.segments_in, before.segments_in);
        // Replies that are acknowledged by themselves need a segment without data each.
        let acknowledges_by_itself = 2 * segments_in.saturating_sub(with_data) > with_data;
        let either = if acknowledges_by_itself { 0 } else { self.either_last };
        let unanswered = self.received_last + either;
        TcpCounts {
            bytes_received: now.bytes_received.saturating_sub(before.bytes_received),
            bytes_acked: now.bytes_acked.saturating_sub(before.bytes_acked),
            segments_in,
            segments_out: more(now.segments_out, before.segments_out),
            retransmitted: more(now.retransmitted, before.retransmitted),
            needless: now.needless.map(|needless| more(needless, before.needless.unwrap_or(0))),
            busy_s: seconds(now.busy_us, before.busy_us),
            rwnd_limited_s: seconds(now.rwnd_limited_us, before.rwnd_limited_us),
            sndbuf_limited_s: seconds(now.sndbuf_limited_us, before.sndbuf_limited_us),
            app_limited_share: self.app_limited as f64 / self.reads.max(1) as f64,
            rtt_s: f64::from(now.rtt_us) / 1e6,
            cwnd: now.cwnd,
            mss: now.mss,
            delivery_bytes_per_s: now.delivery_rate as f64,
            min_rtt_s: f64::from(now.min_rtt_us) / 1e6,
            held_share: Some(self.held as f64 / self.reads.max(1) as f64),
            unanswered_share: Some(unanswered as f64 / self.reads.max(1) as f64),
            peer_window_max: self.peer_window_max.map(u64::from),
            pacing_limit_bytes_per_s: now.max_pacing_rate.map(|rate| rate as f64),
        }
    }

    pub(super) fn counts(&self, inode: u64, pid: u32, peer: Option<&u32>) -> SocketCounts {
        let has_tcp = self.last.inet.as_ref().is_some_and(|socket| socket.tcp.is_some());
        let mean = |sum: u64| sum as f64 / self.reads.max(1) as f64;
        let memory = self.last.memory;
        SocketCounts {
            kind: self.kind,
            inode,
            pid,
            local: self.local.clone(),
            remote: self.remote.clone(),
            peer_pid: peer.copied(),
            reads: Some(self.reads),
            receive_queue_mean: mean(self.receive_queue),
            receive_queue_max: self.receive_queue_max,
            receive_queue_share: Some(self.waited as f64 / self.reads.max(1) as f64),
            receive_buffer: self.ring_bytes.or(memory.map(|memory| memory.receive_buffer.into())),
            send_queue_mean: mean(self.send_queue),
            send_buffer: memory.map(|memory| memory.send_buffer.into()),
            // Only a ring's own program can read its drop counter.
            drops: self.drops().filter(|_| self.ring_bytes.is_none()),
            tcp: has_tcp.then(|| self.tcp()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the state of a connection on which data was received, data sent, and an
    /// acknowledgement received this many milliseconds ago.
    fn state(received: u32, sent: u32, acknowledged: u32, unacked: u32) -> TcpInfo {
        TcpInfo {
            data_received_ms_ago: received,
            data_sent_ms_ago: sent,
            ack_received_ms_ago: acknowledged,
            unacked,
            ..TcpInfo::default()
        }
    }

    #[test]
    fn a_request_without_a_reply_came_last() {
        assert_eq!(last(&state(20, 40, 20, 0)), Last::Received);
        // The request followed the previous reply at once, and acknowledged it.
        assert_eq!(last(&state(20, 20, 20, 0)), Last::Either);
        // The reply is in flight, or was acknowledged 40 ms later.
        assert_eq!(last(&state(20, 20, 20, 1)), Last::Other);
        assert_eq!(last(&state(60, 60, 20, 0)), Last::Other);
        assert_eq!(last(&state(60, 20, 20, 0)), Last::Other);
        // A moment ago: the program may be about to read it.
        assert_eq!(last(&state(0, 40, 0, 0)), Last::Other);
    }
}
