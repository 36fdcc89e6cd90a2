// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines which cache level holds a path's packets, and how long loads from it take.
//!
//! A source cycles through its frames and copies each one into a buffer, so every path reuses
//! frames and buffers. The level follows from the sizes measured by `linerate memory`:
//!
//! ```text
//! share  = (frames + buffers) / queues of the source: the minimum that one worker touches
//! home   = the nearest level that holds `share`
//! cost   = the time of a load from that level with the most expensive address translation: the
//!          upper end of its interval
//! ```
//!
//! The cost is an upper bound, because loads overlap and frames are read in order, which helps
//! prefetchers. It is unknown if it was not measured or only has a lower bound. Whether a stage
//! waits for memory at all is determined separately, by comparing a run on a few packets with one
//! on all of them ([`MemoryCheck`](crate::costs::MemoryCheck)); [`waits`] combines the two. Stage
//! tables are not included, as only the stages know their size.

use crate::costs::{Costs, StageCost};
use linerate_record::memory::{MemoryLevel, MemoryReport};
use linerate_record::run::PacketsHome;
use linerate_record::units::{memory_size, three_digits};
use linerate_record::{Figure, Tier};

/// Memory used by a path's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Total size in bytes of the frames that the source cycles through.
    pub frames: u64,
    /// Total size in bytes of all buffers, an upper bound on the buffer memory touched.
    pub buffers: u64,
    /// Number of source queues, which share the frames and buffers between them.
    pub queues: u32,
}

/// Where a path's packets are in the memory hierarchy.
#[derive(Clone, Debug, PartialEq)]
pub struct Home {
    /// Bytes of frames and buffers used by one worker.
    pub bytes: u64,
    /// Nearest cache level that holds the worker's frames and buffers, or memory.
    pub level: String,
    /// Longest stall that a load from `level` can cause, or why the stall is unknown.
    pub wait: Result<Wait, String>,
    /// Conclusion in words if the packets do not fit in L2; otherwise `None`.
    pub sentence: Option<String>,
}

/// Upper bound on the time of a load from one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    /// In nanoseconds.
    pub ns: f64,
    /// In core cycles; `None` if the core clock is unknown.
    pub cycles: Option<f64>,
}

/// A machine's memory profile.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownMemory {
    /// Results of `linerate memory` on this machine.
    pub report: MemoryReport,
    /// Age of the profile in words, such as `3 hours`.
    pub age: String,
}

/// Why the level that holds a path's packets is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// No machine profile.
    NoProfile,
    /// The machine profile does not determine the level, for the given reason.
    CannotTell(String),
}

impl Unknown {
    fn reason(&self) -> &str {
        match self {
            Self::NoProfile => "no machine profile; create one with `linerate memory`",
            Self::CannotTell(reason) => reason,
        }
    }
}

/// Determines which level holds a path's packets, according to the machine profile `memory`, which
/// is `age` old.
///
/// # Errors
/// Returns an error with the reason if the level is unknown.
pub fn home(footprint: &Footprint, memory: &MemoryReport, age: &str) -> Result<Home, String> {
    let bytes = (footprint.frames + footprint.buffers) / u64::from(footprint.queues.max(1));
    let size = |level: &MemoryLevel| level.size_bytes.as_number();
    let holds = |level: &MemoryLevel| size(level).is_none_or(|size| bytes as f64 <= size);
    let place =
        memory.levels.iter().position(holds).ok_or("no level in the profile is large enough")?;
    let covers = |from: u64, to: u64| (from..to).contains(&bytes);
    if let Some(part) = memory.unresolved.iter().find(|u| covers(u.from_bytes, u.to_bytes)) {
        let size = memory_size(bytes as f64);
        return Err(format!(
            "the profile does not show which level holds {size}: {}",
            part.sentence
        ));
    }
    let level = &memory.levels[place];
    let wait = worst(memory, level);
    // Exceeding L1 alone costs little, and the packets of most paths exceed it.
    let before = place.checked_sub(1).filter(|before| *before > 0).map(|b| &memory.levels[b]);
    let sentence = before.and_then(|before| {
        let parts = Footprint { queues: footprint.queues.max(1), ..*footprint };
        Some(sentence(&parts, (before, size(before)?), (level, &wait), age))
    });
    Ok(Home { bytes, level: level.name.clone(), wait, sentence })
}

/// Returns the longest stall of a load from a level, that is, with the most expensive address
/// translation. Without measured costs, returns the level's latency.
fn worst(memory: &MemoryReport, level: &MemoryLevel) -> Result<Wait, String> {
    let costs = memory.costs.iter().filter(|cost| cost.level == level.name);
    let mut figures: Vec<_> = costs.map(|cost| (&cost.ns, &cost.cycles)).collect();
    figures.push((&level.latency_ns, &level.latency_cycles));
    let mut most = Wait { ns: 0.0, cycles: Some(0.0) };
    for (ns, cycles) in figures {
        most.ns = most.ns.max(upper(ns)?);
        most.cycles = most.cycles.zip(upper(cycles).ok()).map(|(a, b)| a.max(b));
    }
    Ok(most)
}

/// Returns the upper end of a figure's interval or, without an interval, its value.
fn upper(figure: &Figure) -> Result<f64, String> {
    match (figure.as_number(), figure.low, figure.high) {
        (Some(value), None, None) => Ok(value),
        (Some(_), _, Some(high)) => Ok(high),
        (Some(_), Some(_), None) => Err("only a lower bound was measured".to_owned()),
        (None, ..) => Err(figure.reason.clone().unwrap_or_else(|| "not measured".to_owned())),
    }
}

fn sentence(
    parts: &Footprint,
    (before, size): (&MemoryLevel, f64),
    (level, wait): (&MemoryLevel, &Result<Wait, String>),
    age: &str,
) -> String {
    let each = u64::from(parts.queues);
    let of_each = if each > 1 { " per queue" } else { "" };
    let waits = match wait {
        Ok(Wait { ns, cycles }) => {
            let cycles = cycles.map(|cycles| format!(" ({} cycles)", three_digits(cycles)));
            format!(
                "waits up to {} ns{} for {}, less if loads overlap",
                three_digits(*ns),
                cycles.unwrap_or_default(),
                level.name
            )
        }
        Err(reason) => {
            format!(
                "waits an unknown time for {} ({reason}); run linerate memory without --quick",
                level.name
            )
        }
    };
    format!(
        "packets take up to {}{of_each} (frames {}, buffers up to {}), more than {} ({} by \
         `linerate memory`, {age} ago): a load that misses this level {waits}",
        memory_size(((parts.frames + parts.buffers) / each) as f64),
        memory_size((parts.frames / each) as f64),
        memory_size((parts.buffers / each) as f64),
        before.name,
        memory_size(size),
    )
}

/// Returns where a path's packets are, for the record. Includes a sentence if they exceed a cache,
/// or if the machine profile does not determine the level.
pub fn packets_home(home: &Result<Home, Unknown>) -> PacketsHome {
    const METHOD: &str = "bytes of frames and buffers compared with this machine's profile";
    let number = |unit: &str, value: Result<f64, &str>| match value {
        Ok(value) => Figure::exact(unit, value, Tier::Model, METHOD),
        Err(reason) => Figure::absent(unit, Tier::Model, METHOD, reason),
    };
    let sentence = match home {
        Ok(home) => home.sentence.clone(),
        Err(Unknown::NoProfile) => None,
        Err(Unknown::CannotTell(reason)) => {
            Some(format!("the cache level that holds the packets is unknown: {reason}"))
        }
    };
    let home = home.as_ref().map_err(Unknown::reason);
    let level = match home {
        Ok(home) => Figure::text(&home.level, Tier::Model, METHOD),
        Err(reason) => Figure::absent("text", Tier::Model, METHOD, reason),
    };
    let wait = home.and_then(|home| home.wait.as_ref().map_err(String::as_str));
    let no_clock = "the profile has no upper bound of the load latency in cycles";
    let cycles = wait.and_then(|wait| wait.cycles.ok_or(no_clock));
    PacketsHome {
        bytes: number("B", home.map(|home| home.bytes as f64)),
        level,
        miss_ns: number("ns", wait.map(|wait| wait.ns)),
        miss_cycles: number("cycles", cycles),
        sentence,
    }
}

/// Returns a sentence per memory-bound stage that expresses its waiting time as a number of loads
/// from the level that holds the packets.
pub fn waits(costs: &Costs, home: &Home, ticks_per_s: f64) -> Vec<String> {
    let all = [&costs.source, &costs.sink].into_iter().chain(&costs.stages);
    let waiting = all.filter_map(|cost| Some((cost, cost.ticks.value - cost.hot_ticks?.value)));
    let told = waiting.filter(|(_, ticks)| *ticks > 0.0);
    told.map(|(cost, ticks)| wait(cost, ticks, home, ticks_per_s)).collect()
}

fn wait(cost: &StageCost, ticks: f64, home: &Home, ticks_per_s: f64) -> String {
    let ns = ticks / ticks_per_s * 1e9;
    let loads = home.wait.as_ref().map_or(String::new(), |wait| {
        let (loads, level) = (three_digits(ns / wait.ns), &home.level);
        format!(", equivalent to {loads} or more dependent loads from {level}")
    });
    format!(
        "`{}` is memory-bound: {} of its {} ticks per packet ({} ns) disappear when the source \
         repeats a few packets{loads}",
        cost.name,
        three_digits(ticks),
        three_digits(cost.ticks.value),
        three_digits(ns),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_report::{absent, report as memory};
    use linerate_record::memory::Unresolved;
    use linerate_record::stats::Estimate;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn home_at(frames: u64, buffers: u64, queues: u32) -> Home {
        home(&Footprint { frames, buffers, queues }, &memory(), "3 hours").expect("a level")
    }

    #[test]
    fn packets_are_in_the_nearest_level_that_holds_them() {
        for (bytes, level, ns, is_told) in [
            (32 * KIB, "L1", 1.0, false),
            (32 * KIB + 1, "L2", 4.0, false),
            (MIB, "L2", 4.0, false),
            (MIB + 1, "L3", 15.0, true),
            (8 * MIB + 1, "memory", 100.0, true),
        ] {
            let home = home_at(bytes, 0, 1);
            let wait = Wait { ns, cycles: Some(4.0 * ns) };
            assert_eq!((home.level.as_str(), home.wait), (level, Ok(wait)), "{bytes}");
            assert_eq!(home.sentence.is_some(), is_told, "{bytes}: {:?}", home.sentence);
        }
    }

    #[test]
    fn queues_divide_what_there_is() {
        assert_eq!(home_at(MIB, MIB, 1).level, "L3");
        let divided = home_at(MIB, MIB, 2);
        assert_eq!((divided.bytes, divided.level.as_str()), (MIB, "L2"));
        assert_eq!(home_at(MIB, MIB, 0), home_at(MIB, MIB, 1));
    }

    #[test]
    fn the_sentence_names_bytes_levels_and_costs() {
        let wanted = "packets take up to 3.5 MiB per queue (frames 3 MiB, buffers up to 512 KiB), \
                      more than L2 (1 MiB by `linerate memory`, 3 hours ago): a load that misses \
                      this level waits up to 15 ns (60 cycles) for L3, less if loads overlap";
        assert_eq!(home_at(6 * MIB, MIB, 2).sentence.as_deref(), Some(wanted));
    }

    #[test]
    fn undetermined_profile_values_are_not_reported() {
        let footprint = Footprint { frames: 3 * MIB, buffers: 0, queues: 1 };
        let part = Unresolved {
            from_bytes: 2 * MIB,
            to_bytes: 6 * MIB,
            cause: "moved".to_owned(),
            sentence: "it moved".to_owned(),
        };
        let moved = MemoryReport { unresolved: vec![part], ..memory() };
        let reason = home(&footprint, &moved, "1 day").expect_err("it moved");
        assert!(reason.contains("it moved") && reason.contains("3 MiB"), "{reason}");
        let none = MemoryReport { levels: Vec::new(), ..memory() };
        assert!(home(&footprint, &none, "1 day").is_err());
        let mut silent = memory();
        silent.levels[2].latency_ns = absent("ns");
        silent.costs.clear();
        let told = home(&footprint, &silent, "1 day").expect("a level");
        assert_eq!(told.wait, Err("not measured".to_owned()));
        let sentence = told.sentence.expect("it exceeds L2");
        let wanted = "waits an unknown time for L3 (not measured); run linerate memory without \
                      --quick";
        assert!(sentence.ends_with(wanted), "{sentence}");
    }

    /// Tests page-walk costs with a full interval, with only a lower end, and without a value. Only
    /// the full interval yields a wait.
    #[test]
    fn an_upper_bound_is_the_upper_end() {
        let footprint = Footprint { frames: 3 * MIB, buffers: 0, queues: 1 };
        let with = |low, high| {
            let mut memory = memory();
            (memory.costs[0].ns.low, memory.costs[0].ns.high) = (low, high);
            home(&footprint, &memory, "1 day").expect("a level")
        };
        let told = with(Some(14.0), Some(33.1));
        assert_eq!(told.wait.as_ref().map(|wait| wait.ns), Ok(33.1));
        assert!(told.sentence.is_some_and(|text| text.contains("waits up to 33.1 ns")));
        let told = with(Some(14.0), None);
        assert!(told.wait.is_err_and(|reason| reason.contains("lower bound")));
        assert!(told.sentence.is_some_and(|text| !text.contains("at most 1")));
        let mut memory = memory();
        memory.costs[0].ns = absent("ns");
        assert!(home(&footprint, &memory, "1 day").expect("a level").wait.is_err());
        // Without a known core clock, the wait is known only in ns.
        memory.costs.clear();
        memory.levels[2].latency_cycles = absent("cycles");
        let wait = home(&footprint, &memory, "1 day").expect("a level").wait;
        assert_eq!(wait, Ok(Wait { ns: 12.0, cycles: None }));
    }

    #[test]
    fn memory_bound_stages_are_reported_in_loads() {
        let exactly = |value| Estimate { value, low: value, high: value, confidence: 0.9, n: 9 };
        let stage = |name: &str, ticks, hot: Option<f64>| StageCost {
            name: name.to_owned(),
            ticks: exactly(ticks),
            reach: 1.0,
            hot_ticks: hot.map(exactly),
        };
        let costs = Costs {
            source: stage("source", 40.0, None),
            stages: vec![stage("nat44", 150.0, Some(60.0)), stage("count", 5.0, Some(6.0))],
            sink: stage("sink", 5.0, None),
            burst: 32,
            workers: 1,
        };
        // 90 ticks of 1/3 ns are 30 ns, or two loads of 15 ns.
        let told = waits(&costs, &home_at(2 * MIB, 0, 1), 3e9);
        assert_eq!(told.len(), 1, "{told:?}");
        let wanted = "`nat44` is memory-bound: 90 of its 150 ticks per packet (30 ns) disappear \
             when the source repeats a few packets, equivalent to 2 or more dependent loads from \
             L3";
        assert_eq!(told[0], wanted);
        let unknown = Home { wait: Err("not measured".to_owned()), ..home_at(2 * MIB, 0, 1) };
        let told = waits(&costs, &unknown, 3e9);
        assert!(told[0].ends_with("disappear when the source repeats a few packets"), "{told:?}");
    }
}
