// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event counts for chases of each size, with plausibility checks.
//!
//! The number of loads in a chase is known, so each count can be checked against it. Events are
//! counted for this thread in user mode only, because interrupts are not part of the chase.
//!
//! The checks are in `hierarchy::events`. Events on other CPUs are not counted.

use crate::arena::Arena;
use crate::bench::Bench;
use crate::chase::{Chain, Cursor, Layout};
use linerate_counters::catalog::Catalog;
use linerate_counters::event::{Class, Event};
use linerate_counters::opener::{Kernel, Opener};
use linerate_counters::rotation::Counts;
use linerate_counters::session::{Options, Scope, Session};
use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::refusal::{Explainer, Explanation};
use linerate_hierarchy::events::{Caches, Judgement, Known, Row, judge};
use linerate_record::memory::{EventOfChase, EventsOfSize, MemoryLevel, Order, TlbLevel};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};
use std::time::Instant;

/// Chains to walk, and what is known about the machine.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Walk order.
    pub order: Order,
    /// Chain sizes in bytes.
    pub sizes: &'a [u64],
    /// Measured cache levels.
    pub levels: &'a [MemoryLevel],
    /// Measured TLB levels.
    pub tlb: &'a [TlbLevel],
}

/// Portable names of the events to count.
const EVENTS: [&str; 7] =
    ["cycles", "instructions", "loads", "l1d_misses", "l2_misses", "ll_misses", "dtlb_misses"];

/// Number of loads between two clock reads; these loads take between 60 us and 3 ms.
const STRETCH: u64 = 1 << 14;

/// Minimum number of loads; below this, counter reads dominate the cost.
const LEAST_LOADS: u64 = 1 << 18;

/// A counting session.
struct Counters<'a> {
    opener: &'a dyn Opener,
    around: &'a HostFacts,
    catalog: &'a Catalog,
}

/// Counts this thread's events while it walks a chain of each size in `arena`. Sizes for which no
/// time remains are omitted.
///
/// # Errors
/// Returns why this machine cannot count events, and the fix.
pub fn measure(
    bench: &Bench<'_>,
    arena: &mut Arena,
    request: &Request<'_>,
    deadline: Instant,
) -> Result<Vec<EventsOfSize>, String> {
    let (around, catalog) = (HostFacts::gather(), Catalog::of_this_machine());
    let counters = Counters { opener: &Kernel, around: &around, catalog: &catalog };
    measure_with(&counters, bench, arena, request, deadline)
}

fn measure_with(
    counters: &Counters<'_>,
    bench: &Bench<'_>,
    arena: &mut Arena,
    request: &Request<'_>,
    deadline: Instant,
) -> Result<Vec<EventsOfSize>, String> {
    let (events, mut session) = open(counters)?;
    session.start().map_err(|error| {
        format!("cannot start the counters: {error}; `linerate doctor` shows why")
    })?;
    let mut chain = Chain::new(arena, Layout::dense(request.order, bench.line), bench.seed);
    let most = (chain.capacity() * bench.line) as u64;
    let sizes: Vec<u64> = request.sizes.iter().copied().filter(|size| *size <= most).collect();
    let mut walks = Vec::new();
    for (done, &bytes) in sizes.iter().enumerate() {
        let now = Instant::now();
        let left = deadline.saturating_duration_since(now);
        let until = now + left / (sizes.len() - done) as u32;
        chain.resize((bytes / bench.line as u64) as usize);
        walks.extend(walk(bench, &chain, &mut session, until).map(|walk| (bytes, walk)));
    }
    session.stop();
    let rows: Vec<Row> = walks.iter().map(|(bytes, walk)| walk.row(*bytes, &events)).collect();
    let judgements = judge(&rows, &known(bench, request));
    let of_size = |((bytes, walk), judgements): (&(u64, Walk), Vec<Judgement>)| EventsOfSize {
        bytes: *bytes,
        loads: walk.loads,
        events: walk.record(&events, &session, judgements),
    };
    Ok(walks.iter().zip(judgements).map(of_size).collect())
}

/// Opens a session with the [`EVENTS`] that this processor supports; at least one must open.
fn open(counters: &Counters<'_>) -> Result<(Vec<Event>, Session), String> {
    let Counters { opener, around, catalog } = *counters;
    let resolved = EVENTS.map(|name| catalog.resolve(name));
    let mut unknown = resolved.iter().filter_map(|event| event.as_ref().err());
    let reason = unknown.next().map(ToString::to_string);
    let events: Vec<Event> = resolved.into_iter().flatten().collect();
    let options = Options { user_only: Some(true), inherit: false, ..Options::default() };
    let session = Session::open(opener, around.root(), &events, &Scope::CurrentThread, &options);
    if session.outcomes().iter().any(Result::is_ok) {
        return Ok((events, session));
    }
    let explainer = Explainer::new(around, catalog.is_known_processor());
    let outcomes = session.outcomes().iter().zip(&events);
    let mut refused =
        outcomes.filter_map(|(outcome, event)| Some((outcome.as_ref().err()?, event)));
    let refused = refused.next().map(|(refusal, event)| explainer.explain(refusal, event));
    let reason = refused.as_ref().map(in_words).or(reason);
    Err(reason.unwrap_or_else(|| "no events are known for this processor".to_owned()))
}

fn in_words(refusal: &Explanation) -> String {
    match &refusal.fix {
        Some(fix) => format!("{}; try: {fix}", refusal.sentence),
        None => refusal.sentence.clone(),
    }
}

/// Event counts for one walked chain.
struct Walk {
    loads: u64,
    seconds: f64,
    counts: Counts,
}

/// Walks until time is up. `None` if too few loads completed.
fn walk(
    bench: &Bench<'_>,
    chain: &Chain<'_>,
    session: &mut Session,
    until: Instant,
) -> Option<Walk> {
    let mut cursor = Cursor::default();
    let is_over = || bench.windows.is_stopped() || Instant::now() >= until;
    let mut warm = 0;
    while warm < chain.len() as u64 && !is_over() {
        warm += chain.run(&mut cursor, STRETCH);
    }
    // Discard counts since the last walk.
    session.lap();
    let (start, mut loads) = (Instant::now(), 0);
    let mut next_turn = start + session.turn();
    while !is_over() {
        loads += chain.run(&mut cursor, STRETCH);
        let now = Instant::now();
        if now >= next_turn {
            next_turn = now + session.turn();
        }
    }
    let (seconds, counts) = (start.elapsed().as_secs_f64(), session.lap());
    (loads >= LEAST_LOADS).then_some(Walk { loads, seconds, counts })
}

impl Walk {
    /// Returns the counted `events` with their estimates.
    fn counted<'a>(
        &'a self,
        events: &'a [Event],
    ) -> impl Iterator<Item = (usize, &'a Event, Estimate)> {
        let tallies = events.iter().zip(&self.counts.events).enumerate();
        tallies.filter_map(|(place, (event, tally))| Some((place, event, tally.as_ref()?.estimate)))
    }

    fn row(&self, bytes: u64, events: &[Event]) -> Row {
        let counts =
            self.counted(events).map(|(_, event, count)| (event.name.clone(), count.value));
        Row { bytes, loads: self.loads, seconds: self.seconds, counts: counts.collect() }
    }

    fn record(
        &self,
        events: &[Event],
        session: &Session,
        judgements: Vec<Judgement>,
    ) -> Vec<EventOfChase> {
        let loads = self.loads as f64;
        let record =
            |((place, event, count), judgement): ((usize, &Event, Estimate), Judgement)| {
                let Estimate { value, low, high, .. } = count;
                let per_load = Estimate {
                    value: value / loads,
                    low: low / loads,
                    high: high / loads,
                    ..count
                };
                let tier = match event.class {
                    Class::Hardware if session.is_user_only(place) => Tier::User,
                    Class::Hardware => Tier::Hw,
                    Class::Software | Class::Tracepoint => Tier::Sw,
                };
                EventOfChase {
                    event: event.name.clone(),
                    per_load: Figure::number(
                        "1/load",
                        per_load,
                        tier,
                        "events counted over a \
                        known number of loads",
                    ),
                    plausible: judgement.plausible,
                    doubt: judgement.doubt,
                }
            };
        self.counted(events).zip(judgements).map(record).collect()
    }
}

fn known(bench: &Bench<'_>, request: &Request<'_>) -> Known {
    let small = |level: &&TlbLevel| level.pages == linerate_record::memory::PageKind::Base;
    let pages = |level: &TlbLevel| {
        let pages = level.entries.as_number().or(level.onset.as_number());
        pages.map(|pages| pages as u64)
    };
    let levels: Vec<u64> = request.tlb.iter().filter(small).filter_map(pages).collect();
    Known {
        order: request.order,
        line_bytes: bench.line as u64,
        page_bytes: bench.page as u64,
        caches: Caches::named(request.levels),
        tlb: levels.first().copied().zip(levels.last().copied()),
        core_ghz: bench.core_ghz,
    }
}

#[cfg(test)]
mod tests;
