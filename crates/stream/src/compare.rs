// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares methods of sending and receiving with plain calls that are measured in the same rounds.

use crate::assemble::{self, Context, Visit};
use crate::functions::copy_share;
use crate::methods::{METHODS, Method};
use crate::request::{IsCopy, Point};
use linerate_record::kernels::Skipped;
use linerate_record::stats::{CONFIDENCE, paired_ratio};
use linerate_record::stream::{StreamMethod, StreamPoint};
use linerate_record::{Figure, Tier};

/// Tests of a method, by round; `None` for a failed test.
pub(crate) type Rounds = Vec<Option<Visit>>;

/// Compares the methods. `visits` contains the tests of each method, by the method's index in
/// [`METHODS`], and `sampled` each method's test in which functions were sampled.
pub(crate) fn compared(
    visits: &[Rounds],
    sampled: &[Option<Visit>],
    skipped: &[Skipped],
    is_copy: IsCopy,
) -> Vec<StreamMethod> {
    let points: Vec<Option<StreamPoint>> =
        METHODS.iter().zip(visits).map(|(method, visits)| figures(method, visits)).collect();
    let mut all = Vec::new();
    for (index, (method, point)) in METHODS.iter().zip(&points).enumerate() {
        let plain = METHODS.iter().position(|other| other.name == method.plain);
        let is_plain = plain == Some(index);
        let base = plain.and_then(|plain| visits.get(plain));
        let reason = skipped.iter().find(|skipped| skipped.what == method.name);
        let reason = reason.map_or("too few tests", |skipped| skipped.reason.as_str());
        let ratio = |of: fn(&Visit) -> f64, method: &str| match base {
            Some(base) if !is_plain => compare(base, &visits[index], of, method, reason),
            _ => Figure::absent("ratio", Tier::Sw, method, "this method is the baseline"),
        };
        let absent = |unit: &str| Figure::absent(unit, Tier::Sw, "", reason);
        all.push(StreamMethod {
            name: method.name.to_owned(),
            compared_with: (!is_plain).then(|| method.plain.to_owned()),
            message_bytes: method.message.into(),
            gbps: point.as_ref().map_or_else(|| absent("Gb/s"), |point| point.gbps.clone()),
            cpu_us_per_kb: point
                .as_ref()
                .map_or_else(|| absent("us/KB"), |point| point.cpu_us_per_kb.clone()),
            speed: ratio(Visit::rate, "throughput relative to the plain method, paired by round"),
            demand: ratio(
                Visit::demand,
                "service demand relative to the plain method, paired by \
                                          round",
            ),
            copy_share: Some(copy_share(sampled.get(index).and_then(Option::as_ref), is_copy)),
            note: visits.get(index).and_then(|visits| note(visits)),
        });
    }
    all
}

fn figures(method: &Method, visits: &[Option<Visit>]) -> Option<StreamPoint> {
    let visits: Vec<Visit> = visits.iter().flatten().cloned().collect();
    let point =
        Point { send_buffer: None, receive_buffer: None, message: method.message, connections: 1 };
    let context = Context {
        mode: method.mode,
        is_client_sender: true,
        has_same_machine: true,
        paced_bits_per_s: None,
    };
    (!visits.is_empty()).then(|| assemble::point(&point, &visits, &context))
}

/// Compares two methods in pairs of tests from the same round, because a disturbance affects both
/// tests of a pair.
fn compare(
    base: &[Option<Visit>],
    visits: &[Option<Visit>],
    of: fn(&Visit) -> f64,
    method: &str,
    reason: &str,
) -> Figure {
    let pairs =
        base.iter().zip(visits).filter_map(|(base, visit)| base.as_ref().zip(visit.as_ref()));
    let (base, visits): (Vec<f64>, Vec<f64>) =
        pairs.map(|(base, visit)| (of(base), of(visit))).unzip();
    if base.is_empty() {
        return Figure::absent("ratio", Tier::Sw, method, reason);
    }
    Figure::number("ratio", paired_ratio(&base, &visits, CONFIDENCE), Tier::Sw, method)
}

/// Returns a note if the kernel copied most of the data sent with MSG_ZEROCOPY.
fn note(visits: &[Option<Visit>]) -> Option<String> {
    let threads = || visits.iter().flatten().flat_map(|visit| &visit.sender.threads);
    let lent: u64 = threads().map(|thread| thread.lent).sum();
    let copied: u64 = threads().map(|thread| thread.lent_copied).sum();
    (lent > 0 && 2 * copied > lent).then(|| {
        "the kernel copied the data anyway, as it does when the receiver is on this machine; \
         zero-copy pays off only with a physical interface"
            .to_owned()
    })
}

impl Visit {
    fn received(&self) -> (f64, f64) {
        let threads = &self.receiver.threads;
        let bytes = threads.iter().map(|thread| thread.bytes).sum::<u64>() as f64;
        (bytes, threads.first().map_or(1, |thread| thread.elapsed_ns.max(1)) as f64)
    }

    fn rate(&self) -> f64 {
        let (bytes, ns) = self.received();
        bytes / ns
    }
}

#[cfg(test)]
mod tests;
