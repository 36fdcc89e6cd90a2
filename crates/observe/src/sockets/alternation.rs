// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines how many segments requests and replies take, and the state of a connection while no
//! request is pending. The symbols are those of `turns`.

use super::reading::{Asks, Reading, of_requests_and_replies};

/// Maximum number of requests in flight on a connection with regular exchanges.
const IN_FLIGHT: i64 = 3;
/// Minimum number of exchanges from which `a` and `b` are determined.
const EXCHANGES_MIN: u32 = 20;
/// Maximum number of segments of a request or reply.
pub(super) const SEGMENTS_MAX: u32 = 16;

/// A connection on which requests and replies alternate.
#[derive(Clone, Debug)]
pub(super) struct Alternation {
    /// Number of segments of a request.
    of_request: u32,
    of_reply: u32,
    pub(super) exchanges: u32,
    /// For each reading, `of_reply * (segments of requests) - of_request * (segments of replies)`,
    /// counted since the connection was opened.
    pub(super) differences: Vec<i64>,
    /// Difference while no request is pending, or an upper bound on it: the minimum of all readings
    /// or, if acknowledgments show that a request was pending even then, less.
    pub(super) least: i64,
    most: i64,
    /// Minimum amount by which the difference exceeds `least` while a request is pending.
    pub(super) pending: i64,
}

impl Alternation {
    /// Determines from `readings` how requests and replies alternate; `None` if they do not do so
    /// regularly.
    pub(super) fn of(readings: &[Reading], asks: Asks) -> Option<Self> {
        let first = of_requests_and_replies(readings.first()?, asks);
        let since = |reading: &Reading| {
            let (asked, answered) = of_requests_and_replies(reading, asks);
            (asked.wrapping_sub(first.0), answered.wrapping_sub(first.1))
        };
        let (asked, answered) = since(readings.last()?);
        let (of_request, of_reply) = match (asked, answered) {
            (0, _) | (_, 0) => return None,
            (asked, answered) if answered >= asked => (1, rounded(answered, asked)),
            (asked, answered) => (rounded(asked, answered), 1),
        };
        let exchanges = asked / of_request;
        if exchanges < EXCHANGES_MIN || of_request.max(of_reply) > SEGMENTS_MAX {
            return None;
        }
        let of = |(asked, answered): (u32, u32)| {
            i64::from(of_reply) * i64::from(asked) - i64::from(of_request) * i64::from(answered)
        };
        let at_first = of(first);
        let differences: Vec<i64> =
            readings.iter().map(|reading| at_first + of(since(reading))).collect();
        let (least, most) = (*differences.iter().min()?, *differences.iter().max()?);
        let one = i64::from(of_request * of_reply);
        // The program also waits for the rest of a server's reply. The rest of its own replies may
        // wait for a client that reads slowly, which is no delay of the program.
        let pending = if asks == Asks::Program { 1 } else { one };
        let is_regular = most - least <= IN_FLIGHT * one;
        // A request of several segments may not have been sent completely.
        let ahead = if of_request == 1 { one } else { pending };
        let proven = least_proven(readings, &differences, asks).map(|proven| proven - ahead);
        let least = proven.map_or(least, |idle| idle.min(least));
        is_regular.then_some(Self {
            of_request,
            of_reply,
            exchanges,
            differences,
            least,
            most,
            pending,
        })
    }

    /// Returns by how much one pending request increases the difference.
    fn one(&self) -> i64 {
        i64::from(self.of_request * self.of_reply)
    }

    pub(super) fn is_constant(&self) -> bool {
        self.most - self.least < self.pending
    }

    /// Returns whether the difference is that of `idle` in all readings, so that no request was
    /// pending.
    pub(super) fn is_at(&self, idle: Idle) -> bool {
        self.is_constant()
            && (self.of_request, self.of_reply) == (idle.of_request, idle.of_reply)
            && self.least == idle.difference
    }

    /// Returns whether the difference is that of `idle` plus one pending request in all readings.
    pub(super) fn is_ahead_of(&self, idle: Idle) -> bool {
        self.is_constant()
            && (self.of_request, self.of_reply) == (idle.of_request, idle.of_reply)
            && self.least == idle.difference + self.one()
    }
}

/// State of connections to one service while no request is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Idle {
    of_request: u32,
    of_reply: u32,
    difference: i64,
}

impl Idle {
    /// Determines the state from all connections to one service. `None` if none of them was read
    /// both with and without a pending request, or if they did not begin alike.
    pub(super) fn of(connections: &[Alternation]) -> Option<Self> {
        let varies = |one: &&Alternation| !one.is_constant();
        let first = connections.iter().find(varies)?;
        let idle = Self {
            of_request: first.of_request,
            of_reply: first.of_reply,
            difference: first.least,
        };
        let fits = |one: &Alternation| {
            let is_idle = one.least == idle.difference
                && (one.of_request, one.of_reply) == (idle.of_request, idle.of_reply);
            is_idle || one.is_ahead_of(idle)
        };
        connections.iter().all(fits).then_some(idle)
    }
}

/// Returns the smallest difference at which a request of the program was certainly pending, because
/// the server had not acknowledged it; `None` unless at least two readings show that, as one
/// reading may be of a connection being closed, which has unacknowledged data without a request.
fn least_proven(readings: &[Reading], differences: &[i64], asks: Asks) -> Option<i64> {
    let all = readings.iter().zip(differences).filter(|_| asks == Asks::Program);
    let mut proven: Vec<i64> =
        all.filter(|(reading, _)| reading.has_unacked).map(|(_, difference)| *difference).collect();
    proven.sort_unstable();
    proven.get(1).copied()
}

fn rounded(larger: u32, smaller: u32) -> u32 {
    (f64::from(larger) / f64::from(smaller)).round() as u32
}
