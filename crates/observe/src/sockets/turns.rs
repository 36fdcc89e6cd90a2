// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines whose turn it is on a connection that carries requests and replies, that is, whether
//! a request is pending. Performs no I/O.
//!
//! If a request takes `a` segments and its reply `b`, then after each complete exchange the
//! difference
//!
//! ```text
//! d = b * (segments of requests) - a * (segments of replies)
//! ```
//!
//! has the same value, and while a request has no reply, it is larger by `a b`. While a reply of
//! several segments is incomplete, it is larger by less than that. The constant
//! depends on how the connection began (a greeting, a TLS handshake), and is known once both states
//! have been read; if all readings are of one state, the times of the last segments show which. `a`
//! and `b` follow from the segments of many exchanges. If the difference drifts, or more than
//! [`IN_FLIGHT`] requests are in flight, requests and replies do not alternate in this manner. The
//! times of the last segments then show only waits of several milliseconds:
//!
//! ```text
//! (a, b) = the ratio of the segments in the window, with a = 1 or b = 1
//! d[i]   = b asked[i] - a answered[i]          for each reading i
//! if max d - min d is at most IN_FLIGHT a b:  pending[i] = d[i] - min d >= a b
//!   (requests of the program, which waits for whole replies: d[i] - min d >= 1)
//! otherwise:  pending[i] = the request came last, a while ago
//! ```
//!
//! `min d` is too high if a request was pending in every reading of a connection, which is common
//! if the next request follows each reply at once. Acknowledgments show that: a request of the
//! program that the server has not acknowledged is pending, and a client that sends no segments
//! without data leaves each reply unacknowledged until its next request. Connections to one service
//! usually begin alike, so that `b (segments of requests) - a (segments of replies)`, counted since
//! each was opened, has one value `D` on all of them while no request is pending ([`Idle`]). One
//! connection that was read in both states shows `D`; on the others, a constant `D + a b` means
//! that a request was pending in every reading. If none of this shows the state of a connection, it
//! is not known, and the connection is left out.
//!
//! `min d` also remains too high on a connection with several requests in flight, or with
//! replies that pause halfway (as Nagle's algorithm makes them), so that the number of pending
//! requests is a lower bound.

use super::alternation::{Alternation, Idle, SEGMENTS_MAX};
use super::reading::{Asks, Last, Reading, of_requests_and_replies};

/// Whether a request was pending in one reading of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Reading number.
    pub(super) tick: u32,
    /// Whether a request was pending, that is, had no reply yet.
    pub(super) is_pending: bool,
    /// Whether the pending request had been waiting for 4 ms or longer.
    pub(super) is_late: bool,
}

/// Whether a request was pending, for each reading of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turns {
    pub(super) all: Vec<Turn>,
    /// Number of exchanges; `None` if requests and replies do not alternate in a regular manner.
    pub(super) exchanges: Option<u32>,
    /// Whether the readings show in which of them a request was pending. If not, none counts as
    /// pending.
    pub(super) is_known: bool,
}

impl Turns {
    /// Determines for each reading of a connection whether a request was pending. `sends_pure_acks`
    /// is whether the peer acknowledges replies with segments without data.
    /// `idle` is the state of connections to the same service without a pending request, if known.
    pub(super) fn of(
        readings: &[Reading],
        asks: Asks,
        sends_pure_acks: bool,
        idle: Option<Idle>,
    ) -> Self {
        by_segments(readings, asks, sends_pure_acks, idle).unwrap_or_else(|| {
            let states = readings.iter().map(|one| is_last(one, asks, sends_pure_acks));
            let states: Vec<Option<bool>> = states.collect();
            let unknown = states.iter().filter(|state| state.is_none()).count();
            let pending = states.iter().map(|state| state.unwrap_or(false));
            Self {
                all: readings.iter().zip(pending).map(|(one, is)| turn(one, is)).collect(),
                exchanges: None,
                is_known: 2 * unknown <= states.len(),
            }
        })
    }

    /// Returns the fraction of readings in which a request was pending.
    pub(super) fn share(&self) -> f64 {
        let pending = self.all.iter().filter(|turn| turn.is_pending).count();
        pending as f64 / self.all.len().max(1) as f64
    }
}

fn turn(reading: &Reading, is_pending: bool) -> Turn {
    Turn { tick: reading.tick, is_pending, is_late: is_pending && reading.last != Last::Now }
}

/// Determines from segment counts when a request was pending; `None` if requests and replies do not
/// alternate regularly.
fn by_segments(
    readings: &[Reading],
    asks: Asks,
    sends_pure_acks: bool,
    idle: Option<Idle>,
) -> Option<Turns> {
    let all = Alternation::of(readings, asks)?;
    let always = match idle {
        Some(idle) if all.is_ahead_of(idle) => Some(true),
        Some(idle) if all.is_at(idle) => Some(false),
        _ if all.is_constant() => is_always_pending(readings, asks, sends_pure_acks),
        _ => Some(false),
    };
    let always_pending = always == Some(true);
    let is_pending = |difference: &i64| always_pending || difference - all.least >= all.pending;
    let each = readings.iter().zip(&all.differences);
    Some(Turns {
        all: each.map(|(reading, difference)| turn(reading, is_pending(difference))).collect(),
        exchanges: Some(all.exchanges),
        is_known: always.is_some(),
    })
}

/// Returns whether a request was pending in all readings, given that one was pending in all of them
/// or in none; `None` if they do not show which. If a reply came last in any reading, none was
/// pending.
fn is_always_pending(readings: &[Reading], asks: Asks, sends_pure_acks: bool) -> Option<bool> {
    let (request, reply) = match asks {
        Asks::Peer => (Last::Received, Last::Sent),
        Asks::Program => (Last::Sent, Last::Received),
    };
    let has = |last| readings.iter().any(|reading| reading.last == last);
    if has(reply) {
        return Some(false);
    }
    if has(request) {
        return Some(true);
    }
    let has_unacked = readings.iter().any(|reading| reading.has_unacked);
    match (asks, sends_pure_acks) {
        // A client acknowledges a reply with its next request.
        (Asks::Peer, false) => Some(!has_unacked),
        // Replies were not acknowledged yet, so no next request had arrived.
        (Asks::Peer, true) => has_unacked.then_some(false),
        // A server acknowledges a request with its reply.
        (Asks::Program, false) => Some(false),
        (Asks::Program, true) => None,
    }
}

/// Returns whether one end sends many segments for each one from the other, so that they cannot be
/// requests and replies.
pub(super) fn is_one_way(readings: &[Reading]) -> bool {
    /// Minimum number of segments from the busier end for the connection to count as one-way;
    /// large requests or replies have fewer.
    const SEGMENTS: u32 = 10;
    /// Minimum ratio of the segments from the busier end to those from the other end; large
    /// requests or replies have a lower ratio.
    const RATIO: u32 = 20;
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else { return false };
    let received = last.received.wrapping_sub(first.received);
    let sent = last.sent.wrapping_sub(first.sent);
    received.max(sent) >= SEGMENTS && received.max(sent) / RATIO >= received.min(sent)
}

/// Returns whether the last data was a request rather than a reply, judging by the times of the
/// last segments; `None` if the last segments of both directions are from the same clock tick, and
/// acknowledgments do not show their order.
fn is_last(reading: &Reading, asks: Asks, sends_pure_acks: bool) -> Option<bool> {
    let (asked, answered) = of_requests_and_replies(reading, asks);
    // Before the first request, the times are those of connection establishment. A program that is
    // still opening a connection to a server waits for that server.
    if asked == 0 {
        return Some(reading.is_opening && asks == Asks::Program);
    }
    if answered == 0 && (1..=SEGMENTS_MAX).contains(&asked) {
        return Some(true);
    }
    match (reading.last, asks) {
        (Last::Received, Asks::Peer) | (Last::Sent, Asks::Program) => Some(true),
        (Last::Either, _) if sends_pure_acks => None,
        (Last::Either, Asks::Peer) => Some(true),
        _ => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_linux::network::TcpInfo;

    fn reading(tick: u32, received: u32, sent: u32) -> Reading {
        Reading {
            tick,
            received,
            sent,
            is_opening: false,
            is_syn_repeated: false,
            last: Last::Now,
            has_unacked: false,
        }
    }

    fn pending(readings: &[Reading], asks: Asks) -> Option<Vec<bool>> {
        let turns = by_segments(readings, asks, false, None)?;
        Some(turns.all.into_iter().map(|turn| turn.is_pending).collect())
    }

    #[test]
    fn a_request_without_reply_is_one_segment_ahead() {
        // A greeting, then 10 exchanges between readings.
        let readings =
            [(10, 11), (21, 21), (30, 31), (41, 41)].map(|(received, sent)| (received, sent));
        let readings: Vec<Reading> =
            (0..).zip(readings).map(|(tick, (r, s))| reading(tick, r, s)).collect();
        let expected = Some(vec![false, true, false, true]);
        assert_eq!(pending(&readings, Asks::Peer), expected);
        assert_eq!(Turns::of(&readings, Asks::Peer, false, None).share(), 0.5);
        assert_eq!(Turns::of(&readings, Asks::Peer, false, None).exchanges, Some(31));
        // The other end sees the same, with sent and received exchanged.
        let swapped = readings.iter().map(|one| reading(one.tick, one.sent, one.received));
        assert_eq!(pending(&swapped.collect::<Vec<_>>(), Asks::Program), expected);
    }

    #[test]
    fn requests_and_replies_may_take_several_segments() {
        let replies_of_three =
            [reading(0, 10, 30), reading(1, 21, 60), reading(2, 30, 89), reading(3, 40, 120)];
        // In the third reading, a reply is being sent: two of its three segments have been sent.
        assert_eq!(pending(&replies_of_three, Asks::Peer), Some(vec![false, true, false, false]));
        let requests_of_two = [reading(0, 20, 10), reading(1, 42, 20), reading(2, 61, 30)];
        assert_eq!(pending(&requests_of_two, Asks::Peer), Some(vec![false, true, false]));
    }

    #[test]
    fn the_rest_of_a_servers_reply_is_waited_for() {
        // A request of one segment, and a reply of two, of which the second comes late. The next
        // request follows at once, so the state after a whole reply is not read.
        let readings: Vec<Reading> = [(0, 0), (10, 19), (20, 40), (30, 59), (40, 80)]
            .iter()
            .zip(0..)
            .map(|(&(sent, received), tick)| reading(tick, received, sent))
            .collect();
        let expected = Some(vec![false, true, false, true, false]);
        assert_eq!(pending(&readings, Asks::Program), expected);
        // A client that has half of its reply may read slowly.
        let swapped = readings
            .iter()
            .map(|one| Reading { has_unacked: true, ..reading(one.tick, one.sent, one.received) });
        assert_eq!(pending(&swapped.collect::<Vec<_>>(), Asks::Peer), Some(vec![false; 5]));
    }

    #[test]
    fn one_connection_shows_the_idle_state_of_all_to_the_same_service() {
        // A greeting of one segment each; the next request follows each reply at once.
        let always = |ahead: u32| [reading(0, 11, 10 + ahead), reading(1, 61, 60 + ahead)];
        let both = [reading(0, 5, 5), reading(1, 40, 39), reading(2, 70, 70)];
        let of = |readings: &[Reading]| Alternation::of(readings, Asks::Peer).expect("requests");
        let idle = Idle::of(&[of(&always(0)), of(&both), of(&always(1))]);
        assert!(idle.is_some());
        let share =
            |readings: &[Reading], idle| Turns::of(readings, Asks::Peer, true, idle).share();
        assert_eq!([share(&always(0), idle), share(&always(1), idle)], [1.0, 0.0]);
        assert!((share(&both, idle) - 1.0 / 3.0).abs() < 1e-9);
        // Without such a connection, or if connections begin differently, nothing is known.
        let is_known = |idle| Turns::of(&always(0), Asks::Peer, true, idle).is_known;
        assert!(is_known(idle) && !is_known(None));
        assert_eq!(Idle::of(&[of(&always(0)), of(&always(1))]), None);
        let other = [reading(0, 5, 2), reading(1, 40, 36), reading(2, 70, 67)];
        assert_eq!(Idle::of(&[of(&both), of(&other)]), None);
    }

    #[test]
    fn messages_without_replies_are_no_requests() {
        let messages = |sent: u32| [reading(0, 5, 5), reading(1, 500, 5 + sent)];
        assert!(is_one_way(&messages(0)) && is_one_way(&messages(10)));
        assert!(!is_one_way(&messages(400)));
        assert!(!is_one_way(&[reading(0, 5, 5), reading(1, 8, 5)]) && !is_one_way(&[]));
    }

    #[test]
    fn the_times_tell_a_constant_state() {
        let of = |all: &[Last]| {
            let readings = (0_u32..).zip(all);
            let readings: Vec<Reading> =
                readings.map(|(n, &last)| Reading { last, ..reading(n, 50 * n, 50 * n) }).collect();
            let share = |asks, itself| Turns::of(&readings, asks, itself, None).share();
            [share(Asks::Peer, false), share(Asks::Peer, true), share(Asks::Program, false)]
        };
        assert_eq!(of(&[Last::Either, Last::Now, Last::Either]), [1.0, 0.0, 0.0]);
        assert_eq!(of(&[Last::Either, Last::Received, Last::Now]), [1.0, 1.0, 0.0]);
        assert_eq!(of(&[Last::Either, Last::Sent, Last::Either]), [0.0, 0.0, 1.0]);
        assert_eq!(of(&[Last::Now, Last::Now, Last::Now]), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn acknowledgments_show_a_constant_state() {
        // The next request follows each reply at once.
        let of = |unacked: &[bool]| {
            let readings = (0_u32..)
                .zip(unacked)
                .map(|(n, &has_unacked)| Reading { has_unacked, ..reading(n, 50 * n, 50 * n) });
            readings.collect::<Vec<_>>()
        };
        let share = |unacked: &[bool], asks, pure| {
            let turns = Turns::of(&of(unacked), asks, pure, None);
            turns.is_known.then(|| turns.share())
        };
        // The server has not acknowledged the program's requests: it has not replied to them.
        let busy = [true; 4];
        assert_eq!(share(&busy, Asks::Program, false), Some(1.0));
        assert_eq!(share(&busy, Asks::Program, true), Some(1.0));
        // In one reading, the reply has arrived.
        let mut seen = of(&[true, true, false, true]);
        seen[2].received += 1;
        let turns = Turns::of(&seen, Asks::Program, false, None);
        assert_eq!((turns.is_known, turns.share()), (true, 0.75));
        // A server that acknowledges requests at once may or may not have replied.
        let acked = [false; 4];
        assert_eq!(share(&acked, Asks::Program, false), Some(0.0));
        assert_eq!(share(&acked, Asks::Program, true), None);
        // A client acknowledges the reply with its next request, or it has the reply only.
        assert_eq!(share(&acked, Asks::Peer, false), Some(1.0));
        assert_eq!(share(&[false, true, false], Asks::Peer, false), Some(0.0));
        assert_eq!(share(&acked, Asks::Peer, true), None);
        assert_eq!(share(&[false, true, false], Asks::Peer, true), Some(0.0));
    }

    #[test]
    fn few_exchanges_of_one_tick_each_do_not_show_who_is_waiting() {
        let readings = (0..4).map(|n| Reading { last: Last::Either, ..reading(n, n + 1, n + 1) });
        let readings: Vec<Reading> = readings.collect();
        let of = |pure| {
            let turns = Turns::of(&readings, Asks::Peer, pure, None);
            turns.is_known.then(|| turns.share())
        };
        assert_eq!([of(false), of(true)], [Some(1.0), None]);
    }

    #[test]
    fn counters_wrap() {
        let readings = [reading(0, u32::MAX, u32::MAX), reading(1, 20, 19), reading(2, 40, 40)];
        assert_eq!(pending(&readings, Asks::Peer), Some(vec![false, true, false]));
    }

    #[test]
    fn other_traffic_has_no_turns() {
        // A reply takes 1 or 2 segments.
        let drifting: Vec<Reading> = (0..50).map(|n| reading(n, 10 * n, 13 * n)).collect();
        assert_eq!(pending(&drifting, Asks::Peer), None);
        // An upload, and too few exchanges.
        let upload: Vec<Reading> = (0..50).map(|n| reading(n, 1000 * n, 0)).collect();
        assert_eq!(pending(&upload, Asks::Peer), None);
        assert_eq!(pending(&[reading(0, 0, 0), reading(1, 9, 8)], Asks::Peer), None);
        assert_eq!(pending(&[], Asks::Peer), None);
    }

    /// Returns what came last on a connection on which data was received, data sent, and an
    /// acknowledgement received this many milliseconds ago.
    fn last(received: u32, sent: u32, acknowledged: u32, unacked: u32) -> Last {
        last_at(4.0, received, sent, acknowledged, unacked)
    }

    /// Like [`last`], with a clock tick of this length in milliseconds.
    fn last_at(clock_ms: f64, received: u32, sent: u32, acknowledged: u32, unacked: u32) -> Last {
        let tcp = TcpInfo {
            data_received_ms_ago: received,
            data_sent_ms_ago: sent,
            ack_received_ms_ago: acknowledged,
            unacked,
            ..TcpInfo::default()
        };
        Last::of(&tcp, clock_ms)
    }

    #[test]
    fn the_clock_rounds_a_wait_up_by_as_much_as_a_tick() {
        let ago = |clock_ms, ms| last_at(clock_ms, ms, 40, ms, 0);
        // One tick may have begun right after the request arrived.
        assert_eq!([ago(4.0, 4), ago(4.0, 8)], [Last::Now, Last::Received]);
        assert_eq!([ago(1.0, 4), ago(1.0, 5)], [Last::Now, Last::Received]);
        assert_eq!([ago(10.0, 10), ago(10.0, 20)], [Last::Now, Last::Received]);
    }

    #[test]
    fn a_request_without_a_reply_came_last() {
        assert_eq!(last(20, 40, 20, 0), Last::Received);
        // The request followed the previous reply at once, and acknowledged it.
        assert_eq!(last(20, 20, 20, 0), Last::Either);
        // The reply is in flight, or was acknowledged 40 ms later.
        assert_eq!(last(20, 20, 20, 1), Last::Sent);
        assert_eq!(last(60, 60, 20, 0), Last::Sent);
        assert_eq!(last(60, 20, 20, 0), Last::Sent);
        // A moment ago: the program may be about to read it.
        assert_eq!(last(0, 40, 0, 0), Last::Now);
        assert_eq!(last(40, 0, 0, 0), Last::Now);
    }

    #[test]
    fn long_waits_show_in_the_times_of_the_last_segments() {
        let of = |received, sent, last| Reading { last, ..reading(0, received, sent) };
        let share = |one: Reading, asks| Turns::of(&[one], asks, false, None).share();
        assert_eq!(share(of(5, 5, Last::Received), Asks::Peer), 1.0);
        assert!(Turns::of(&[of(5, 5, Last::Received)], Asks::Peer, false, None).all[0].is_late);
        assert!(!Turns::of(&[of(1, 0, Last::Now)], Asks::Peer, false, None).all[0].is_late);
        assert_eq!(share(of(5, 5, Last::Sent), Asks::Peer), 0.0);
        assert_eq!(share(of(5, 5, Last::Sent), Asks::Program), 1.0);
        assert_eq!(share(of(5, 5, Last::Either), Asks::Peer), 1.0);
        assert_eq!(Turns::of(&[of(5, 5, Last::Either)], Asks::Peer, true, None).share(), 0.0);
        // A connection without requests.
        assert_eq!(share(of(0, 0, Last::Either), Asks::Peer), 0.0);
        // The first request of a connection.
        assert_eq!(share(of(1, 0, Last::Now), Asks::Peer), 1.0);
        assert_eq!(share(of(0, 1, Last::Now), Asks::Program), 1.0);
        assert_eq!(share(of(5000, 0, Last::Now), Asks::Peer), 0.0);
        // A server that has not accepted the connection yet.
        let opening = Reading { is_opening: true, ..of(0, 0, Last::Now) };
        assert_eq!([share(opening, Asks::Program), share(opening, Asks::Peer)], [1.0, 0.0]);
    }
}
