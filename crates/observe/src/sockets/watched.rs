// SPDX-License-Identifier: MIT OR Apache-2.0
//! A socket: its readings, and the resulting counts over the window.

use super::alternation::{Alternation, Idle};
use super::canonical;
use super::reading::{Asks, Reading};
use super::turns::{Turns, is_one_way};
use linerate_linux::clock_tick_ms;
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
    /// Number of complete lists in a row in which the socket was missing.
    pub(super) absences: u32,
    /// Whether the kernel does not find this listening socket at its address, because another one
    /// listens there too.
    pub(super) is_hidden: bool,
    pub(super) reads: u64,
    pub(super) receive_queue: u64,
    pub(super) receive_queue_max: u64,
    /// Number of readings with a non-empty receive queue.
    pub(super) waited: u64,
    pub(super) send_queue: u64,
    pub(super) app_limited: u64,
    pub(super) held: u64,
    pub(super) corked: u64,
    /// Number of readings that found data newly acknowledged by the peer since the previous
    /// reading.
    delivering: u64,
    /// Readings of a TCP connection, at most [`READINGS_MAX`].
    readings: Vec<Reading>,
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

/// Why data is held back although it could be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Nagle's algorithm: earlier segments are unacknowledged.
    ByNagle,
    /// The program holds the data back with TCP_CORK or MSG_MORE. No other segment is in flight.
    ByProgram,
}

/// Returns why less than a full segment of data is held back, although the congestion and receive
/// windows have room for it.
fn held(tcp: &TcpInfo) -> Option<Held> {
    let has_less_than_a_segment = (1..tcp.mss).contains(&tcp.not_sent);
    let has_window = tcp.unacked < tcp.cwnd && tcp.peer_window.is_none_or(|peer| peer >= tcp.mss);
    let by = match (tcp.unacked, tcp.peer_window) {
        (1.., _) => Held::ByNagle,
        (0, Some(_)) => Held::ByProgram,
        // Kernels before 5.4 do not report the peer's window. If it is closed, no segment is in
        // flight either.
        (0, None) => return None,
    };
    (has_less_than_a_segment && has_window).then_some(by)
}

/// Maximum number of readings kept per connection to determine whether requests are pending.
const READINGS_MAX: usize = 4096;

impl Watched {
    pub(super) fn new_inet(socket: &InetSocket, state: State, is_start: bool, tick: u32) -> Self {
        let kind = match (socket.protocol, socket.is_listening) {
            (InetProtocol::Tcp, false) => SocketKind::Tcp,
            (InetProtocol::Tcp, true) => SocketKind::TcpListen,
            (InetProtocol::Udp, _) => SocketKind::Udp,
        };
        let remote = (socket.remote.port() != 0).then(|| canonical(socket.remote).to_string());
        let local = canonical(socket.local).to_string();
        Self::new(kind, local, remote, state, is_start, tick)
    }

    pub(super) fn new_packet(
        socket: &PacketSocket,
        local: String,
        state: State,
        is_start: bool,
        tick: u32,
    ) -> Self {
        Self {
            ring_bytes: socket.receive_ring.map(|ring| ring.bytes()),
            interface: socket.interface,
            ..Self::new(SocketKind::Packet, local, None, state, is_start, tick)
        }
    }

    pub(super) fn new(
        kind: SocketKind,
        local: String,
        remote: Option<String>,
        state: State,
        is_start: bool,
        tick: u32,
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
            absences: 0,
            is_hidden: false,
            reads: 0,
            receive_queue: 0,
            receive_queue_max: 0,
            waited: 0,
            send_queue: 0,
            app_limited: 0,
            held: 0,
            corked: 0,
            delivering: 0,
            readings: Vec::new(),
            peer_window_max: None,
        };
        watched.take(state, tick);
        watched
    }

    /// Adds a reading. `tick` is the same for sockets that are read together.
    pub(super) fn take(&mut self, state: State, tick: u32) {
        self.reads += 1;
        self.absences = 0;
        self.receive_queue += state.receive_queue;
        self.receive_queue_max = self.receive_queue_max.max(state.receive_queue);
        self.waited += u64::from(state.receive_queue > 0);
        self.send_queue += state.send_queue;
        let tcp = state.inet.as_ref().and_then(|socket| socket.tcp);
        if let Some(tcp) = tcp.filter(|_| self.kind == SocketKind::Tcp) {
            self.app_limited += u64::from(tcp.is_app_limited);
            self.held += u64::from(held(&tcp) == Some(Held::ByNagle));
            self.corked += u64::from(held(&tcp) == Some(Held::ByProgram));
            let before = self.last.inet.as_ref().and_then(|socket| socket.tcp);
            let has_more = before.is_some_and(|before| tcp.bytes_acked > before.bytes_acked);
            self.delivering += u64::from(has_more);
            // Of several readings in the same slice, keep the last one.
            self.readings.pop_if(|last| last.tick == tick);
            if self.readings.len() < READINGS_MAX {
                self.readings.push(Reading::new(tick, &tcp, clock_tick_ms()));
            }
            self.peer_window_max = self.peer_window_max.max(tcp.peer_window);
        }
        self.last = state;
    }

    /// Returns the local port.
    pub(super) fn port(&self) -> Option<u16> {
        self.last.inet.as_ref().map(|socket| socket.local.port())
    }

    /// Returns whether the kernel can be queried about this socket alone.
    pub(super) fn can_be_queried(&self) -> bool {
        self.last.inet.as_ref().is_some_and(InetSocket::can_be_queried)
    }

    /// Returns whether the socket is open and has not turned out to be hidden by another one.
    pub(super) fn has_turn(&self) -> bool {
        !self.is_closed && !self.is_hidden
    }

    /// Returns the number of the last reading of a TCP connection.
    pub(super) fn last_tick(&self) -> Option<u32> {
        self.readings.last().map(|reading| reading.tick)
    }

    /// Returns whether the socket was open for the whole window.
    pub(super) fn is_whole(&self) -> bool {
        self.first.is_some() && !self.is_closed
    }

    /// Begins the next window, starting from the last readings.
    pub(super) fn begin_window(&mut self) {
        self.first = Some(self.last.clone());
        (self.reads, self.waited, self.app_limited) = (0, 0, 0);
        (self.held, self.corked, self.delivering) = (0, 0, 0);
        (self.receive_queue, self.receive_queue_max, self.send_queue) = (0, 0, 0);
        self.readings.clear();
        self.peer_window_max = None;
    }

    /// Begins the window with the last reading, which counts as a reading of the window.
    pub(super) fn begin_with_last(&mut self) {
        self.first = Some(self.last.clone());
    }

    /// Returns the drops over the window; `None` for a socket with a receive ring, whose drops only
    /// its owner can read.
    pub(super) fn reported_drops(&self) -> Option<u64> {
        self.drops().filter(|_| self.ring_bytes.is_none())
    }

    pub(super) fn drops(&self) -> Option<u64> {
        let now = self.last.drops?;
        let before = match &self.first {
            Some(first) => first.drops?,
            None => 0,
        };
        Some(u64::from(now.wrapping_sub(before)))
    }

    /// Returns the segments and the bytes of a TCP connection in the window, in both directions.
    pub(super) fn traffic(&self) -> (u64, u64) {
        let of = |state: &State| state.inet.as_ref().and_then(|socket| socket.tcp);
        let Some(now) = of(&self.last) else { return (0, 0) };
        let before = self.first.as_ref().and_then(of).unwrap_or_default();
        let segments = [
            now.segments_in.wrapping_sub(before.segments_in),
            now.segments_out.wrapping_sub(before.segments_out),
        ];
        let received = now.bytes_received.saturating_sub(before.bytes_received);
        let acked = now.bytes_acked.saturating_sub(before.bytes_acked);
        (segments.map(u64::from).iter().sum(), received + acked)
    }

    /// Returns the TCP counts over the window; all zero if the kernel reports none.
    pub(super) fn tcp(&self) -> TcpCounts {
        let of = |state: &State| state.inet.as_ref().and_then(|socket| socket.tcp);
        let Some(now) = of(&self.last) else { return TcpCounts::default() };
        let before = self.first.as_ref().and_then(of).unwrap_or_default();
        let seconds = |now: u64, before: u64| now.saturating_sub(before) as f64 / 1e6;
        let more = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        TcpCounts {
            bytes_received: now.bytes_received.saturating_sub(before.bytes_received),
            bytes_acked: now.bytes_acked.saturating_sub(before.bytes_acked),
            segments_in: more(now.segments_in, before.segments_in),
            segments_out: more(now.segments_out, before.segments_out),
            data_segments_in: Some(more(now.data_segments_in, before.data_segments_in)),
            data_segments_out: Some(more(now.data_segments_out, before.data_segments_out)),
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
            rtt_variation_s: Some(f64::from(now.rtt_variation_us) / 1e6),
            held_share: Some(self.held as f64 / self.reads.max(1) as f64),
            corked_share: Some(self.corked as f64 / self.reads.max(1) as f64),
            unanswered_share: self.unanswered_share(),
            delivering_share: Some(self.delivering as f64 / self.reads.max(1) as f64),
            peer_window_max: self.peer_window_max.map(u64::from),
            pacing_limit_bytes_per_s: now.max_pacing_rate.map(|rate| rate as f64),
        }
    }

    /// Returns whether practically all data flows in one direction.
    pub(super) fn is_one_way(&self) -> bool {
        is_one_way(&self.readings)
    }

    /// Returns, for each reading, whether a request was pending. `asks` is the end that sends
    /// requests, and `idle` is the state of connections to the same service while no request is
    /// pending, if known.
    pub(super) fn turns(&self, asks: Asks, idle: Option<Idle>) -> Turns {
        let of = |state: &State| state.inet.as_ref().and_then(|socket| socket.tcp);
        let now = of(&self.last).unwrap_or_default();
        let before = self.first.as_ref().and_then(of).unwrap_or_default();
        let with_data = now.data_segments_in.wrapping_sub(before.data_segments_in);
        let segments = now.segments_in.wrapping_sub(before.segments_in);
        // Each reply that is acknowledged separately needs a segment without data.
        let sends_pure_acks = 2 * (segments - with_data.min(segments)) > with_data;
        Turns::of(&self.readings, asks, sends_pure_acks, idle)
    }

    /// Returns the fraction of readings in which the program had not replied to the peer; `None` if
    /// the readings do not show it.
    fn unanswered_share(&self) -> Option<f64> {
        let turns = self.turns(Asks::Peer, None);
        turns.is_known.then(|| turns.share())
    }

    /// Returns the readings in which a SYN had no answer. If the server answers on other
    /// connections (`is_answering`), it may just be far away, so only SYNs that were sent again
    /// count.
    pub(super) fn openings(&self, is_answering: bool) -> impl Iterator<Item = u32> {
        let has_none = move |reading: &&Reading| {
            if is_answering { reading.is_syn_repeated } else { reading.is_opening }
        };
        self.readings.iter().filter(has_none).map(|reading| reading.tick)
    }

    /// Returns how requests and replies alternate, if they do so regularly.
    pub(super) fn alternation(&self, asks: Asks) -> Option<Alternation> {
        Alternation::of(&self.readings, asks)
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
            drops: self.reported_drops(),
            port_sharers: None,
            tcp: has_tcp.then(|| self.tcp()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_segment_waits_for_nagle_or_for_the_program() {
        let tcp = |unacked, peer_window| TcpInfo {
            mss: 1448,
            not_sent: 100,
            cwnd: 10,
            unacked,
            peer_window,
            ..TcpInfo::default()
        };
        assert_eq!(held(&tcp(1, Some(65_536))), Some(Held::ByNagle));
        assert_eq!(held(&tcp(0, Some(65_536))), Some(Held::ByProgram));
        assert_eq!(held(&tcp(0, Some(0))), None);
        // The window is not reported: it may be closed if nothing is in flight.
        assert_eq!(held(&tcp(1, None)), Some(Held::ByNagle));
        assert_eq!(held(&tcp(0, None)), None);
    }
}
