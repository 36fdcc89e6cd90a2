// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses program replies, which may be malformed.

use super::description::Description;
use serde_json::Value;
use std::collections::BTreeMap;

/// Counters of one port or of all ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) missed: u64,
    pub(super) bytes: u64,
    pub(super) others: BTreeMap<String, u64>,
}

/// Totals over all ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) counters: Counters,
    /// Whether every port's driver counts missed packets.
    pub(super) is_missed_known: bool,
}

impl Totals {
    /// Adds a port's counters.
    pub(super) fn add(&mut self, port: Counters, is_missed_counted: bool) {
        let sum = &mut self.counters;
        sum.received = sum.received.saturating_add(port.received);
        sum.sent = sum.sent.saturating_add(port.sent);
        sum.missed = sum.missed.saturating_add(port.missed);
        sum.bytes = sum.bytes.saturating_add(port.bytes);
        for (name, count) in port.others {
            let other = sum.others.entry(name).or_default();
            *other = other.saturating_add(count);
        }
        self.is_missed_known &= is_missed_counted;
    }
}

impl Counters {
    /// Returns whether a count of packets (received, sent or missed) or bytes is lower than in
    /// `before`.
    pub(super) fn is_behind(&self, before: &Self) -> bool {
        self.received < before.received
            || self.sent < before.sent
            || self.missed < before.missed
            || self.bytes < before.bytes
    }
}

/// Returns the contents of a reply, that is, the value whose key is the request without its
/// parameter.
fn value(answer: &str, question: &str) -> Option<Value> {
    let key = question.split(',').next()?;
    serde_json::from_str::<Value>(answer).ok()?.get_mut(key).map(Value::take)
}

/// Parses the list of numbers in the reply to `question`.
pub(super) fn parse_list(answer: &str, question: &str) -> Option<Vec<u64>> {
    value(answer, question)?.as_array()?.iter().map(Value::as_u64).collect()
}

/// Parses a text field from the reply to `question`, or from a reply that is itself the object.
pub(super) fn parse_field(answer: &str, question: Option<&str>, field: &str) -> Option<String> {
    let object = match question {
        Some(question) => value(answer, question)?,
        None => serde_json::from_str(answer).ok()?,
    };
    let text = object.get(field)?.as_str()?;
    // Names are short; a longer text is not a name.
    let is_name = text.len() <= 200 && !text.chars().any(char::is_control);
    is_name.then(|| text.to_owned())
}

/// Parses the counters of a port.
pub(super) fn parse_counters(answer: &str, description: &Description) -> Option<Counters> {
    let object = value(answer, &description.counters)?;
    let count = |field: &str| object.get(field).and_then(Value::as_u64);
    let others = description.others.iter().filter_map(|name| Some((name.clone(), count(name)?)));
    Some(Counters {
        received: count(&description.received)?,
        sent: count(&description.sent)?,
        missed: count(&description.missed).unwrap_or(0),
        bytes: count(&description.bytes).unwrap_or(0),
        others: others.collect(),
    })
}
