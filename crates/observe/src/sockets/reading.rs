// SPDX-License-Identifier: MIT OR Apache-2.0
//! One reading of a connection that carries requests and replies.

use linerate_linux::network::TcpInfo;

/// The end that sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// The peer.
    Peer,
    /// The program.
    Program,
}

/// A reading of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Reading number, which is the same for all connections that are read together.
    pub(super) tick: u32,
    /// Segments with data, since the connection was opened.
    pub(super) received: u32,
    pub(super) sent: u32,
    /// Whether the connection was being opened, and its SYN had no answer for 100 ms or longer.
    pub(super) is_opening: bool,
    /// Whether the SYN of a connection that was being opened was sent again.
    pub(super) is_syn_repeated: bool,
    pub(super) last: Last,
    /// Whether data was sent that the peer had not acknowledged yet. Neither its reply nor its next
    /// request can have arrived, as both would have acknowledged the data.
    pub(super) has_unacked: bool,
}

impl Reading {
    /// Creates a reading. `clock_ms` is the length of the kernel's clock tick.
    pub(super) fn new(tick: u32, tcp: &TcpInfo, clock_ms: f64) -> Self {
        Self {
            tick,
            received: tcp.data_segments_in,
            sent: tcp.data_segments_out,
            is_opening: tcp.is_opening,
            is_syn_repeated: tcp.is_syn_repeated,
            last: Last::of(tcp, clock_ms),
            has_unacked: tcp.unacked > 0,
        }
    }
}

/// Direction of the last data on a connection, if that was at least 4 ms ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// Data was received.
    Received,
    /// Data was sent.
    Sent,
    /// Data was received and sent within the same clock tick, and all data is acknowledged. A
    /// request carries the acknowledgment of the reply before it, so the request came last, unless
    /// the peer acknowledges replies in separate segments (pure ACKs).
    Either,
    /// Data was received or sent less than 4 ms plus one clock tick ago.
    Now,
}

impl Last {
    /// Determines the direction. `clock_ms` is the length of the clock tick in which the kernel
    /// counts the age of data: data that is `n` ticks old arrived between `n - 1` and `n + 1` ticks
    /// ago.
    pub(super) fn of(tcp: &TcpInfo, clock_ms: f64) -> Self {
        /// Longest time between two reads of a program that keeps up. Data that arrived before that
        /// was left waiting.
        const AGO_MS: f64 = 4.0;
        let (received, sent) = (tcp.data_received_ms_ago, tcp.data_sent_ms_ago);
        let is_acknowledged = tcp.unacked == 0 && tcp.ack_received_ms_ago >= received;
        match f64::from(received.min(sent)) {
            ago if ago < AGO_MS + clock_ms => Self::Now,
            _ if received < sent => Self::Received,
            _ if received == sent && is_acknowledged => Self::Either,
            _ => Self::Sent,
        }
    }
}

/// Returns the segments of requests and of replies, since the connection was opened.
pub(super) fn of_requests_and_replies(reading: &Reading, asks: Asks) -> (u32, u32) {
    match asks {
        Asks::Peer => (reading.received, reading.sent),
        Asks::Program => (reading.sent, reading.received),
    }
}
