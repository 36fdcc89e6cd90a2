// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gains on single connections, for the program as a whole.

use super::super::facts::{Facts, Subject};
use super::super::measure::Measure;
use super::super::requests;
use super::super::roles::{has_requests, is_accepted};
use linerate_record::stats::Estimate;
use linerate_record::why::SocketCounts;

/// Scales a gain on the connection `subject` to the program: to the part of its connections on
/// which `measure` is at least `least`. If the program's clients wait for replies meanwhile, they
/// may all wait for the few connections on which it queries its servers, so only these count.
pub(super) fn of_connections(
    facts: &Facts<'_>,
    subject: Subject<'_>,
    gain: Estimate,
    (measure, least): (Measure, f64),
) -> Estimate {
    /// Share of the time with a delayed reply below which clients hardly wait.
    const HARDLY: f64 = 0.05;
    let queries = |one: &SocketCounts| has_requests(one) && !is_accepted(facts, one);
    let do_wait = requests::delayed(facts).is_none_or(|delayed| delayed.high >= HARDLY);
    let may_hold_all = do_wait && matches!(subject, Subject::Socket(socket) if queries(socket));
    let among = || facts.connections().filter(|one| !may_hold_all || queries(one));
    let is_held = |one: &&SocketCounts| {
        measure.of(facts, Subject::Socket(one)).is_some_and(|share| share.value >= least)
    };
    let held = among().filter(is_held).count().max(1);
    let part = (held as f64 / among().count().max(1) as f64).min(1.0);
    let high = if may_hold_all { gain.high } else { part * gain.high };
    Estimate { high, ..gain.scale(part) }
}
