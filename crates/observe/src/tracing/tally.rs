// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the events of a tracepoint, in total and by the value of one of their fields.

use super::format::{Field, Format};
use crate::duty::Duty;
use linerate_linux::errno::EINVAL;
use linerate_linux::perf::{self, Event, OpenError, Request, Selector, TRACEPOINT, Target};
use linerate_linux::sample::{self, Fields, Record, Ring, Sampling};
use linerate_record::why::KernelEvent;
use std::collections::BTreeMap;
use std::ffi::CString;

/// The event to count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Name: `skb:kfree_skb`.
    pub name: &'static str,
    /// Field to count by, and the word that precedes its values in reports.
    pub field: Option<(&'static str, &'static str)>,
    /// Sampling period: the field is read once per this many events.
    pub period: u64,
    /// Whether only observed threads' events are counted.
    pub is_of_watched: bool,
    /// Restricts the events that are counted.
    pub filter: Option<Filter>,
}

impl Wanted {
    /// Returns the count of all of a tracepoint's events, in all threads.
    pub(super) const fn all(name: &'static str) -> Self {
        Self { name, field: None, period: 1, is_of_watched: false, filter: None }
    }
}

/// A filter on the fields of a tracepoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    /// Name in reports.
    pub name: &'static str,
    /// Returns the expression for the kernel; empty if nothing is to be counted.
    pub expression: fn() -> String,
}

/// A counted tracepoint.
#[derive(Debug)]
pub(super) struct Tally {
    pub wanted: Wanted,
    format: Format,
    field: Option<Field>,
    counted: Vec<Counted>,
    values: BTreeMap<i64, u64>,
    duty: Duty,
}

#[derive(Debug)]
struct Counted {
    tid: Option<u32>,
    event: Event,
    ring: Option<Ring>,
    /// Events so far.
    events: u64,
    /// Events before the window.
    before: u64,
}

impl Counted {
    /// Returns the number of events in the window.
    fn in_window(&self) -> u64 {
        self.events.saturating_sub(self.before)
    }
}

/// Number of events per slice up to which every slice is counted. At 0.5 us per event and with
/// slices of 0.1 s, the limit is 0.25 % of a CPU.
const LIMIT: u64 = 500;
/// Like [`LIMIT`], for events that are only counted, at 0.1 us each: 0.5 % of a CPU.
const FILTERED_LIMIT: u64 = 5000;
/// Maximum ratio of the window to the slices in which a filtered event was on. Its count is used in
/// place of an exact counter.
const MOST_SCALED: f64 = 1.5;
/// Size of a ring, in bytes.
const RING_BYTES: usize = 32 << 10;
/// Maximum number of field values to list.
const MAX_VALUES: usize = 10;

impl Tally {
    pub(super) fn new(wanted: Wanted, format: Format, now_ns: u64) -> Self {
        let field = wanted.field.and_then(|(name, _)| format.field(name));
        let limit = if wanted.filter.is_some() { FILTERED_LIMIT } else { LIMIT };
        let duty = Duty::new(limit, now_ns);
        Self { wanted, format, field, counted: Vec::new(), values: BTreeMap::new(), duty }
    }

    pub(super) fn request(&self) -> Request {
        Request { disabled: false, ..Request::new(Selector::new(TRACEPOINT, self.format.id)) }
    }

    /// Starts counting on a CPU or for a thread.
    pub(super) fn open(&mut self, target: Target) -> Result<(), OpenError> {
        let sampling =
            Sampling { period: self.wanted.period, fields: Fields::TRACEPOINT, skips_idle: false };
        let event = match self.field {
            Some(_) => sample::open(&self.request(), &sampling, target)?,
            None => perf::open(&self.request(), target, None)?,
        };
        if let Some(filter) = self.wanted.filter {
            let refused = |errno| OpenError { errno };
            let text = CString::new((filter.expression)()).map_err(|_| refused(EINVAL))?;
            let set = event.filter(&text);
            set.map_err(|error| refused(error.raw_os_error().unwrap_or(EINVAL)))?;
        }
        // Events are counted even without a ring.
        let ring =
            self.field.and_then(|_| Ring::map_bytes(&event, RING_BYTES, Fields::TRACEPOINT).ok());
        let tid = match target {
            Target::Thread(tid) => Some(tid),
            _ => None,
        };
        self.counted.push(Counted { tid, event, ring, events: 0, before: 0 });
        Ok(())
    }

    /// Returns whether any event is open.
    #[cfg(test)]
    pub(super) fn is_open(&self) -> bool {
        !self.counted.is_empty()
    }

    /// Begins the window.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.end_slice(now_ns);
        self.values.clear();
        self.counted.iter_mut().for_each(|counted| counted.before = counted.events);
        if self.duty.begin_window(now_ns) {
            self.switch(true);
        }
    }

    pub(super) fn end_slice(&mut self, now_ns: u64) {
        let mut events = 0;
        for counted in &mut self.counted {
            let total = counted.event.read().map_or(counted.events, |read| read.values()[0]);
            events += total.saturating_sub(counted.events);
            counted.events = total;
            let (Some(ring), Some(field)) = (&mut counted.ring, self.field) else { continue };
            ring.drain(|record| match record {
                Record::Sample(sample) => {
                    *self.values.entry(field.number(sample.raw)).or_default() += 1;
                }
                // Lost events are still counted, but the counts by value come from the others.
                Record::Lost(_) | Record::Throttled | Record::Process(_) | Record::Other(_) => {}
            });
        }
        let was_on = self.duty.is_on();
        self.duty.end_slice(events, now_ns);
        if was_on != self.duty.is_on() {
            self.switch(!was_on);
        }
    }

    /// Switches the events on or off.
    fn switch(&self, is_on: bool) {
        for counted in &self.counted {
            // Enabling or disabling the event fails if the thread has ended.
            let _ = if is_on { counted.event.enable() } else { counted.event.disable() };
        }
    }

    /// Returns the number of events per thread.
    pub(super) fn by_thread(&self) -> BTreeMap<u32, u64> {
        let scale = self.duty.scale();
        let of = |counted: &Counted| Some((counted.tid?, scaled(counted.in_window(), scale)));
        self.counted.iter().filter_map(of).collect()
    }

    /// Returns the number of events, in total and by value. Counts by value are extrapolated from
    /// sampled events.
    pub(super) fn events(&self, name_of: impl Fn(i64) -> String) -> Vec<KernelEvent> {
        let scale = self.duty.scale();
        if self.wanted.filter.is_some() && scale > MOST_SCALED {
            return Vec::new();
        }
        let total: u64 = self.counted.iter().map(Counted::in_window).sum();
        let event = |filter, count| KernelEvent {
            event: self.wanted.name.to_owned(),
            filter,
            is_of_watched: self.wanted.is_of_watched,
            count,
        };
        let filter = self.wanted.filter.map(|filter| filter.name.to_owned());
        let mut found = vec![event(filter, scaled(total, scale))];
        let seen: u64 = self.values.values().sum();
        let mut values: Vec<(i64, u64)> = self.values.iter().map(|(&v, &n)| (v, n)).collect();
        values.sort_by_key(|&(value, count)| (std::cmp::Reverse(count), value));
        for (value, count) in values.into_iter().take(MAX_VALUES) {
            let (_, word) = self.wanted.field.unwrap_or_default();
            let name = self.format.names.get(&value).cloned().unwrap_or_else(|| name_of(value));
            let share = count as f64 / seen as f64;
            found.push(event(Some(format!("{word} {name}")), scaled(total, scale * share)));
        }
        found
    }
}

fn scaled(count: u64, scale: f64) -> u64 {
    (count as f64 * scale).round() as u64
}
