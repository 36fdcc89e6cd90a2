// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate memory --events`: events per load for pointer chains of different sizes, simulated if
//! they cannot be counted.
//!
//! The simulated program is linerate itself: `memory --chase BYTES:LINE:LOADS` walks a chain of
//! loads, one per line in random order, and exits. Each chain is simulated twice, with different
//! numbers of loads. The difference between the two event counts is due only to the extra loads.

use super::MemoryArgs;
use crate::emit::Answer;
use crate::failure::Failure;
use crate::interrupt::INTERRUPTED;
use crate::progress::Progress;
use crate::stat::caches;
use linerate_linux::signal::{Caught, Pending};
use linerate_memory::arena::Arena;
use linerate_memory::chase::{Chain, Cursor, Layout};
use linerate_record::memory::{EventOfChase, EventsOfSize, MemoryReport, Order, PageKind};
use linerate_record::units::memory_size;
use linerate_record::{Figure, Tier};
use linerate_stat::sim::Geometry;
use linerate_stat::{Request, Watch, What};
use std::ffi::OsString;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Events in the table, in column order. The last column is [`EXTERNAL`].
const EVENTS: [&str; 6] =
    ["loads", "l1d_misses", "l2_misses", "ll_misses", "micro_tlb_misses", "main_tlb_misses"];

/// Event name for accesses that miss all simulated caches.
const EXTERNAL: &str = "external";

/// Minimum difference in loads between the two simulated runs.
const LOADS: u64 = 1 << 16;

/// Size of the smallest chain, in bytes.
const LEAST_BYTES: u64 = 1 << 10;
/// Bounds on the size of the largest chain, in bytes. Within these bounds, the largest chain is
/// four times as large as the last-level cache.
const MOST_BYTES: [u64; 2] = [1 << 20, 64 << 20];

/// Maximum deviation from one simulated load per executed load; counts that deviate more are marked
/// as doubtful.
const TOLERANCE: f64 = 0.01;

/// A pointer chain to walk, as passed to the simulated program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chase {
    bytes: u64,
    line: u32,
    loads: u64,
}

impl FromStr for Chase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let chase = match parts.as_slice() {
            [bytes, line, loads] => {
                bytes.parse().ok().zip(line.parse::<u32>().ok()).zip(loads.parse().ok())
            }
            _ => None,
        };
        let ((bytes, line), loads) = chase.ok_or("expected BYTES:LINE:LOADS")?;
        let is_sound = (8..=4096).contains(&line) && line.is_power_of_two();
        match is_sound && bytes >= u64::from(line) && bytes <= MOST_BYTES[1] {
            true => Ok(Self { bytes, line, loads }),
            false => Err("the line size or the length of the chain is out of range".to_owned()),
        }
    }
}

impl Chase {
    /// Walks the chain.
    pub(super) fn walk(self) -> Result<Answer, Failure> {
        let Self { bytes, line, loads } = self;
        let mut arena = Arena::unread(bytes as usize, PageKind::Base, &AtomicBool::new(false))
            .map_err(Failure::new)?;
        let layout = Layout::dense(Order::Random, line as usize);
        let mut chain = Chain::new(&mut arena, layout, 1);
        chain.resize((bytes / u64::from(line)) as usize);
        let mut cursor = Cursor::default();
        chain.run(&mut cursor, loads);
        Ok(Answer::Done)
    }

    /// Returns the command line of the simulated program. The number of loads is padded to a fixed
    /// width, so that the stack layout is the same in both runs.
    fn argv(self) -> Result<Vec<OsString>, Failure> {
        let program = std::env::current_exe().map_err(|error| {
            Failure::new(format!("cannot locate linerate's own executable: {error}"))
        })?;
        let chase = format!("{}:{}:{:012}", self.bytes, self.line, self.loads);
        Ok(vec![program.into(), "memory".into(), "--chase".into(), chase.into()])
    }
}

/// A simulation that --events may require.
pub(super) struct Simulation<'a> {
    args: &'a MemoryArgs,
    /// The requested caches; without --caches, those of this machine.
    given: Option<Geometry>,
}

impl<'a> Simulation<'a> {
    /// Returns the simulation that the arguments request, if any. If it will certainly be required,
    /// checks that it works, because the measurement before it may take a minute.
    pub(super) fn given(args: &'a MemoryArgs) -> Result<Option<Self>, Failure> {
        if !args.events {
            return Ok(None);
        }
        let given = args.caches.as_deref().map(caches::given).transpose()?;
        if let Some(geometry) = &given {
            let line = geometry.caches().d1.line_bytes;
            counts(Chase { bytes: LEAST_BYTES, line, loads: 1 }, geometry)?;
        }
        Ok(Some(Self { args, given }))
    }

    /// Simulates the events of a report if none were counted, or if other caches are requested. If
    /// the simulation fails or is interrupted, the report gets the events simulated so far or, if
    /// it has no events at all, the reason.
    pub(super) fn run(self, report: &mut MemoryReport, stop: &AtomicBool) -> Result<(), Failure> {
        if report.conditions.interrupted || (!report.events.is_empty() && self.given.is_none()) {
            return Ok(());
        }
        let simulated = self.sizes(stop);
        // The terminal's Ctrl-C ends the simulator, too, and thus looks like its failure.
        let interrupted = stop.load(Ordering::Relaxed);
        report.conditions.interrupted |= interrupted;
        let (events, failure) = match simulated {
            Ok(events) => (events, None),
            Err((events, _)) if interrupted => (events, None),
            Err((events, failure)) => (events, Some(failure)),
        };
        if !events.is_empty() {
            (report.events, report.events_reason) = (events, None);
        } else if report.events.is_empty() {
            let why = failure.as_ref().map(|failure| format!("not simulated: {failure}"));
            report.events_reason = Some(why.unwrap_or_else(|| INTERRUPTED.to_owned()));
        }
        failure.map_or(Ok(()), Err)
    }

    /// Simulates chains of all sizes. On failure, also returns the events of the sizes simulated so
    /// far.
    fn sizes(&self, stop: &AtomicBool) -> Result<Vec<EventsOfSize>, (Vec<EventsOfSize>, Failure)> {
        let mut events = Vec::new();
        let geometry = match &self.given {
            Some(given) => given.clone(),
            None => match Geometry::this_machine() {
                Ok(geometry) => geometry,
                Err(error) => return Err((events, Failure::new(error))),
            },
        };
        let progress = Progress::new(self.args.output.quiet());
        progress.step("events, simulated");
        let sizes = sizes(&geometry, self.args.max);
        for (done, &bytes) in sizes.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            progress.at(done as f64 / sizes.len() as f64);
            match of_size(bytes, &geometry) {
                Ok(of_size) => events.push(of_size),
                Err(failure) => {
                    progress.clear();
                    return Err((events, failure));
                }
            }
        }
        progress.clear();
        Ok(events)
    }
}

/// Returns the sizes of the chains to simulate, in bytes, up to the memory limit.
fn sizes(geometry: &Geometry, max: Option<u64>) -> Vec<u64> {
    let [least, most] = MOST_BYTES;
    let most = (4 * geometry.caches().ll.bytes).clamp(least, most).min(max.unwrap_or(most));
    (0..).map(|n| LEAST_BYTES << n).take_while(|bytes| *bytes <= most).collect()
}

/// Simulates a chain twice, with different numbers of loads.
fn of_size(bytes: u64, geometry: &Geometry) -> Result<EventsOfSize, Failure> {
    let line = geometry.caches().d1.line_bytes;
    let lines = bytes / u64::from(line);
    // Walk the chain a whole number of times; the first walk brings it into the caches.
    let loads = lines * LOADS.div_ceil(lines);
    let of = |loads| counts(Chase { bytes, line, loads }, geometry);
    let (less, more) = (of(loads)?, of(2 * loads)?);
    let per_load = |name: &str, (less, more): (&Figure, &Figure)| {
        let method = format!("simulated with the caches of {}", geometry.caches().name);
        match (less.as_number(), more.as_number()) {
            (Some(less), Some(more)) => {
                Figure::exact("per load", (more - less) / loads as f64, Tier::Sim, &method)
            }
            _ => {
                let none = || format!("{name} is not simulated");
                let reason = more.reason.clone().unwrap_or_else(none);
                Figure::absent("per load", Tier::Sim, &method, &reason)
            }
        }
    };
    let mut figures: Vec<(String, Figure)> = EVENTS
        .iter()
        .zip(less.iter().zip(&more))
        .map(|(name, pair)| ((*name).to_owned(), per_load(name, pair)))
        .collect();
    let figure = |name: &str| figures.iter().find(|(other, _)| other == name).map(|(_, f)| f);
    let last = ["ll_misses", "l1d_misses"].map(figure).into_iter().flatten();
    let external = last.into_iter().find(|figure| figure.as_number().is_some()).cloned();
    figures.extend(external.map(|figure| (EXTERNAL.to_owned(), figure)));
    // Remove cache levels that the processor lacks.
    figures.retain(|(name, figure)| !name.starts_with("l") || figure.as_number().is_some());
    let events = figures.into_iter().map(|(event, per_load)| judged(event, per_load, bytes));
    Ok(EventsOfSize { bytes, loads, events: events.collect() })
}

/// Checks that the simulated number of loads per executed load is 1, within [`TOLERANCE`].
fn judged(event: String, per_load: Figure, bytes: u64) -> EventOfChase {
    let plausible = match (event.as_str(), per_load.as_number()) {
        ("loads", Some(loads)) => Some((loads - 1.0).abs() <= TOLERANCE),
        _ => None,
    };
    let doubt = (plausible == Some(false)).then(|| {
        format!(
            "a walk over {} loads each line once, so this figure should be 1",
            memory_size(bytes as f64)
        )
    });
    EventOfChase { event, per_load, plausible, doubt }
}

/// Simulates one run and returns its event counts.
fn counts(chase: Chase, geometry: &Geometry) -> Result<Vec<Figure>, Failure> {
    let request = Request {
        events: EVENTS.map(str::to_owned).to_vec(),
        tier: Some(Tier::Sim),
        caches: Some(geometry.clone()),
        plugin: Some(linerate_cachesim::PLUGIN),
        ..Request::new(What::Command { argv: chase.argv()? })
    };
    let pending = Pending::new();
    let outcome = request
        .run(&Watch { signals: &pending, tell: &|_| {} })
        .map_err(|error| Failure::new(error.to_string()))?;
    let _: Option<Caught> = pending.take();
    if outcome.status != 0 {
        return Err(Failure::new(format!("the simulation exited with status {}", outcome.status)));
    }
    Ok(outcome.report.events.into_iter().map(|event| event.count).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use linerate_record::fixtures;

    #[test]
    fn chains_are_bytes_lines_and_loads() {
        let chase = Chase { bytes: 4096, line: 32, loads: 1000 };
        assert_eq!("4096:32:000000001000".parse(), Ok(chase));
        let argv = chase.argv().unwrap();
        assert_eq!(argv[1..], ["memory", "--chase", "4096:32:000000001000"].map(OsString::from));
        for bad in ["", "4096", "4096:33:1", "16:32:1", "4096:4:1", "999999999999:64:1", "x:64:1"] {
            assert!(bad.parse::<Chase>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_interrupted_simulation_marks_the_report_and_keeps_it() {
        let cli = Cli::try_parse_from(["linerate", "memory", "--events"]).unwrap();
        let Command::Memory(args) = &cli.command else { unreachable!("a command") };
        let given = Some(Geometry::named("arm1176").unwrap());
        let mut report = MemoryReport { events: Vec::new(), ..fixtures::memory() };
        report.conditions.interrupted = false;
        let levels = report.levels.clone();
        let done = Simulation { args, given }.run(&mut report, &AtomicBool::new(true));
        assert!(done.is_ok(), "the interruption is reported for the whole command");
        assert!(report.conditions.interrupted);
        assert_eq!(report.events_reason.as_deref(), Some(INTERRUPTED));
        assert_eq!(report.levels, levels);
    }

    #[test]
    fn sizes_leave_every_cache_within_bounds() {
        let of = |name: &str| sizes(&Geometry::named(name).unwrap(), None);
        assert_eq!((of("arm1176").first(), of("arm1176").last()), (Some(&1024), Some(&(1 << 20))));
        assert_eq!(of("cortex_a7").last(), Some(&(2 << 20)));
        assert_eq!(of("zen5").last(), Some(&(64 << 20)));
        let limited = sizes(&Geometry::named("zen5").unwrap(), Some(9 << 20));
        assert_eq!(limited.last(), Some(&(8 << 20)));
    }
}
