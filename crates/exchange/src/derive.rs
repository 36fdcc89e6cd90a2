// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics derived from a strand's counts, as in table 10-5 of "Netra Data Plane Software Suite
//! 2.0".
//!
//! ```text
//! packet rate              = packets / ticks * clock         between consecutive readings
//! instructions per packet  = instructions / packets          of slices with a preceding reading
//! cycles per instruction   = ticks / instructions            from the start of a slice to its end
//! events per 1000          = count / instructions * 1000     of the slices that counted the event
//! ```
//!
//! The counts of all slices are summed before they are divided, so that a short slice has little
//! weight. With five slices or more, the interval is that of the median over slices. Ticks are
//! treated as cycles, which is correct if the processor's own cycle counter was read.
//!
//! A slice whose overflow indicator is set contributes time and packets, but no counts: it is
//! unknown which counter overflowed, or how often.

use crate::{CYCLES, INSTRUCTIONS, Processor};
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval};
use linerate_record::strands::{InputFault, Slice, StrandCounts, StrandEvent};
use linerate_record::{Figure, Tier};

/// Unit names used in figures.
pub(crate) mod unit {
    pub(crate) const KPPS: &str = "kpps";
    pub(crate) const TICKS_PER_PACKET: &str = "ticks/packet";
    pub(crate) const INSTRUCTIONS_PER_PACKET: &str = "instructions/packet";
    pub(crate) const CPI: &str = "cycles/instruction";
    pub(crate) const IPC: &str = "instructions/cycle";
    pub(crate) const EVENTS: &str = "events";
    pub(crate) const PER_PACKET: &str = "events/packet";
    pub(crate) const PTI: &str = "events/1000 instructions";
}

/// Computes a strand's metrics from its slices, and lists inconsistencies among the slices.
pub fn from_slices(
    cpu: u32,
    slices: Vec<Slice>,
    processor: &Processor,
) -> (StrandCounts, Vec<InputFault>) {
    let mut faults = Vec::new();
    let counted: Vec<Counted> = slices
        .iter()
        .zip(befores(&slices))
        .filter_map(|(slice, before)| Counted::from_slice(slice, before, processor, &mut faults))
        .collect();
    let (packets, ticks) = between_readings(&slices);
    let strand = StrandCounts {
        name: None,
        cpu: Some(cpu),
        packets,
        ticks,
        kpps: kpps(&slices, processor),
        ticks_per_packet: ticks_per_packet(&slices),
        instructions_per_packet: per_packet(&counted),
        cpi: cpi(&counted, false),
        ipc: cpi(&counted, true),
        events: events(&counted),
        nodes: Vec::new(),
        slices,
        cpi_by_cause: None,
    };
    (strand, faults)
}

/// Returns the reading before each slice; `None` if that reading is missing.
fn befores(slices: &[Slice]) -> impl Iterator<Item = Option<&Slice>> {
    let earlier = std::iter::once(None).chain(slices.iter().map(Some));
    slices.iter().zip(earlier).map(|(slice, before)| before.filter(|_| !slice.is_first))
}

/// Returns the ticks and packets of each slice that has a preceding reading.
fn readings(slices: &[Slice]) -> Vec<(u64, u64)> {
    let of = |(slice, before): (&Slice, Option<&Slice>)| {
        let before = before?;
        Some((slice.to_ticks.checked_sub(before.to_ticks)?, slice.user.checked_sub(before.user)?))
    };
    slices.iter().zip(befores(slices)).filter_map(of).collect()
}

/// Returns the total packets and ticks between counter readings; `None` if a total is unknown.
fn between_readings(slices: &[Slice]) -> (Option<u64>, Option<u64>) {
    let all = readings(slices);
    if all.is_empty() {
        return (None, None);
    }
    let sum = |pick: fn(&(u64, u64)) -> u64| all.iter().map(pick).try_fold(0, u64::checked_add);
    (sum(|(_, packets)| *packets), sum(|(ticks, _)| *ticks))
}

/// One slice's usable counts.
struct Counted {
    ticks: f64,
    instructions: Option<f64>,
    /// Packets since the preceding reading; `None` if that reading is missing.
    packets: Option<f64>,
    /// Name, native name and count of each event other than instructions.
    events: Vec<(String, String, f64)>,
}

impl Counted {
    fn from_slice(
        slice: &Slice,
        before: Option<&Slice>,
        processor: &Processor,
        faults: &mut Vec<InputFault>,
    ) -> Option<Self> {
        let mut fault = |sentence: String| faults.push(InputFault { line: slice.line, sentence });
        let ticks = slice.to_ticks.checked_sub(slice.from_ticks?)? as f64;
        if slice.overflow != 0 {
            fault(format!(
                "the overflow indicator is {:x}, so the counts are discarded; time and packets are \
                 kept",
                slice.overflow
            ));
            return None;
        }
        let counters = [(slice.code_hi, slice.count_hi), (slice.code_lo, slice.count_lo)];
        let mut instructions = None;
        let mut events = Vec::new();
        for (code, count) in counters.into_iter().filter_map(|(code, count)| Some((code?, count))) {
            match processor.event(code) {
                Some(event) if event.name == INSTRUCTIONS => instructions = Some(count as f64),
                Some(event) => {
                    events.push((event.name.clone(), event.native.clone(), count as f64));
                }
                None => events.push((format!("code_{code:x}"), format!("{code:x}"), count as f64)),
            }
        }
        let most = processor.instructions_per_tick.map(|rate| rate * ticks);
        if let (Some(counted), Some(most)) = (instructions, most)
            && counted > most
        {
            fault(format!(
                "{counted} instructions in {ticks} ticks exceed the processor's issue rate, so the \
                 counts are discarded"
            ));
            return None;
        }
        let packets = before.and_then(|before| slice.user.checked_sub(before.user));
        Some(Self { ticks, instructions, packets: packets.map(|n| n as f64), events })
    }
}

const METHOD: &str = "sums over the dump's slices";

/// Returns the ratio of two sums. The interval is computed for the median of the individual ratios.
fn ratio(unit: &str, scale: f64, pairs: &[(f64, f64)], why_not: &str) -> Figure {
    let (above, below) =
        pairs.iter().fold((0.0, 0.0), |(above, below), pair| (above + pair.0, below + pair.1));
    if pairs.is_empty() || below <= 0.0 {
        return Figure::absent(unit, Tier::Hw, METHOD, why_not);
    }
    let value = scale * above / below;
    let single = pairs.iter().filter(|(_, below)| *below > 0.0);
    let single: Vec<f64> = single.map(|(above, below)| scale * above / below).collect();
    let around = median_interval(&single, CONFIDENCE);
    let estimate =
        Estimate { value, low: around.low.min(value), high: around.high.max(value), ..around };
    Figure::number(unit, estimate, Tier::Hw, METHOD)
}

const NO_PACKETS: &str = "the dump has no two consecutive readings, so the number of packets is \
                          unknown";
const NO_INSTRUCTIONS: &str = "no slice counts instructions under this machine's event code: set \
                               --machine to another machine, or to a TOML file that lists the \
                               machine's event codes as [[event]]";

fn kpps(slices: &[Slice], processor: &Processor) -> Figure {
    let Some(clock) = processor.clock_ghz else {
        let why = "the clock rate is unknown: name the processor with --machine";
        return Figure::absent(unit::KPPS, Tier::Hw, METHOD, why);
    };
    let pairs: Vec<(f64, f64)> =
        readings(slices).iter().map(|&(ticks, packets)| (packets as f64, ticks as f64)).collect();
    // A clock in GHz is ticks per ns, and one packet per ns is a million kilopackets per second.
    ratio(unit::KPPS, clock * 1e6, &pairs, NO_PACKETS)
}

fn ticks_per_packet(slices: &[Slice]) -> Figure {
    let pairs: Vec<(f64, f64)> =
        readings(slices).iter().map(|&(ticks, packets)| (ticks as f64, packets as f64)).collect();
    ratio(unit::TICKS_PER_PACKET, 1.0, &pairs, NO_PACKETS)
}

fn per_packet(counted: &[Counted]) -> Figure {
    let pairs: Vec<(f64, f64)> =
        counted.iter().filter_map(|slice| Some((slice.instructions?, slice.packets?))).collect();
    let why = if counted.iter().any(|slice| slice.instructions.is_some()) {
        NO_PACKETS
    } else {
        NO_INSTRUCTIONS
    };
    ratio(unit::INSTRUCTIONS_PER_PACKET, 1.0, &pairs, why)
}

fn cpi(counted: &[Counted], is_inverted: bool) -> Figure {
    let pairs = counted.iter().filter_map(|slice| Some((slice.ticks, slice.instructions?)));
    if is_inverted {
        let pairs: Vec<(f64, f64)> = pairs.map(|(ticks, n)| (n, ticks)).collect();
        return ratio(unit::IPC, 1.0, &pairs, NO_INSTRUCTIONS);
    }
    ratio(unit::CPI, 1.0, &pairs.collect::<Vec<_>>(), NO_INSTRUCTIONS)
}

/// Returns the totals of each event, in the order in which events first appear.
fn events(counted: &[Counted]) -> Vec<StrandEvent> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for (name, native, _) in counted.iter().flat_map(|slice| &slice.events) {
        if !names.iter().any(|(known, _)| known == name) {
            names.push((name, native));
        }
    }
    names.into_iter().map(|(name, native)| event(name, native, counted)).collect()
}

fn event(name: &str, native: &str, counted: &[Counted]) -> StrandEvent {
    let with = |slice: &Counted| {
        let found = slice.events.iter().find(|(event, _, _)| event == name);
        found.map(|(_, _, count)| *count)
    };
    let per = |pick: fn(&Counted) -> Option<f64>| -> Vec<(f64, f64)> {
        counted.iter().filter_map(|slice| Some((with(slice)?, pick(slice)?))).collect()
    };
    let counts: Vec<f64> = counted.iter().filter_map(with).collect();
    let mut count = Figure::exact(unit::EVENTS, counts.iter().sum(), Tier::Hw, METHOD);
    count.n = counts.len() as u64;
    StrandEvent {
        name: name.to_owned(),
        native: native.to_owned(),
        count,
        per_packet: ratio(unit::PER_PACKET, 1.0, &per(|slice| slice.packets), NO_PACKETS),
        pti: ratio(unit::PTI, 1e3, &per(|slice| slice.instructions), NO_INSTRUCTIONS),
    }
}

/// An event's total count as reported by another program. For a multiplexed event, this is a
/// scaled count.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sum {
    /// Event name as spelled in linerate's records.
    pub(crate) name: String,
    /// Event name in the input.
    pub(crate) native: String,
    /// Count, or why there is none.
    pub(crate) count: Result<f64, String>,
    /// Raw count, before scaling; a lower bound on the count.
    pub(crate) least: f64,
    pub(crate) tier: Tier,
    pub(crate) method: String,
}

impl Sum {
    /// Returns whether part of the count was scaled up.
    pub(crate) fn is_scaled(&self) -> bool {
        self.count.as_ref().is_ok_and(|count| self.least < *count)
    }
}

/// Computes a strand's metrics from an input that contains only totals. `packets` is the packet
/// count, or the reason why it is unknown.
pub(crate) fn from_sums(
    name: Option<String>,
    cpu: Option<u32>,
    sums: &[Sum],
    packets: Result<f64, &str>,
) -> StrandCounts {
    let absent = |unit: &str, without: &str| {
        Figure::absent(unit, Tier::Hw, "input", packets.err().unwrap_or(without))
    };
    let said = |tier| CertainCount {
        tier,
        count: packets.map_err(str::to_owned),
        is_scaled: false,
        least: packets.unwrap_or(0.0),
    };
    let of = |name: &str| sums.iter().find(|sum| sum.name == name);
    let missing = |name: &str| Err(format!("the input has no {name}"));
    let told = |sum: &Sum| CertainCount {
        tier: sum.tier,
        count: sum.count.clone(),
        is_scaled: sum.is_scaled(),
        least: sum.least,
    };
    let [cycles, instructions] = [CYCLES, INSTRUCTIONS].map(|name| {
        of(name).map_or_else(
            || CertainCount { tier: Tier::Hw, count: missing(name), is_scaled: false, least: 0.0 },
            told,
        )
    });
    let events = sums.iter().map(|sum| StrandEvent {
        name: sum.name.clone(),
        native: sum.native.clone(),
        count: match &sum.count {
            Ok(count) => Figure {
                low: sum.is_scaled().then_some(sum.least),
                ..Figure::exact(unit::EVENTS, *count, sum.tier, &sum.method)
            },
            Err(why) => Figure::absent(unit::EVENTS, sum.tier, &sum.method, why),
        },
        per_packet: quotient(unit::PER_PACKET, 1.0, &told(sum), &said(sum.tier)),
        pti: quotient(unit::PTI, 1e3, &told(sum), &instructions),
    });
    StrandCounts {
        name,
        cpu,
        packets: packets.ok().map(|packets| packets as u64),
        ticks: None,
        kpps: rate(of("duration_time_ns"), packets.ok())
            .unwrap_or_else(|| absent(unit::KPPS, "the input has no wall time")),
        ticks_per_packet: absent(unit::TICKS_PER_PACKET, "the input has no ticks"),
        instructions_per_packet: quotient(
            unit::INSTRUCTIONS_PER_PACKET,
            1.0,
            &instructions,
            &said(Tier::Hw),
        ),
        cpi: quotient(unit::CPI, 1.0, &cycles, &instructions),
        ipc: quotient(unit::IPC, 1.0, &instructions, &cycles),
        events: events.collect(),
        nodes: Vec::new(),
        slices: Vec::new(),
        cpi_by_cause: None,
    }
}

/// Returns packets divided by the input's wall time.
fn rate(duration: Option<&Sum>, packets: Option<f64>) -> Option<Figure> {
    let duration = duration?;
    let ns = duration.count.as_ref().ok().filter(|ns| **ns > 0.0)?;
    Some(Figure::exact(
        unit::KPPS,
        packets? / ns * 1e6,
        duration.tier,
        "packet count from --packets, divided by wall time",
    ))
}

/// A count with its evidence tier and a guaranteed lower bound.
struct CertainCount {
    tier: Tier,
    /// Count, or why there is none.
    count: Result<f64, String>,
    is_scaled: bool,
    /// Guaranteed lower bound on the count.
    least: f64,
}

/// Returns the ratio of two counts. If one of them was scaled, its lower bound limits the ratio on
/// one side only. If both were scaled, the ratio has no bounds.
fn quotient(unit: &str, scale: f64, above: &CertainCount, below: &CertainCount) -> Figure {
    const METHOD: &str = "counts from the input";
    // The quotient gets the weaker evidence tier of the two counts.
    let tier = above.tier.max(below.tier);
    match (&above.count, &below.count) {
        (Ok(count), Ok(each)) if *each > 0.0 => {
            let over = |above: f64, below: f64| Some(scale * above / below);
            let (low, high) = match (above.is_scaled, below.is_scaled) {
                (true, false) => (over(above.least, *each), None),
                (false, true) if below.least > 0.0 => (None, over(*count, below.least)),
                _ => (None, None),
            };
            let method = match above.is_scaled || below.is_scaled {
                true => "counts from the input, already scaled up",
                false => METHOD,
            };
            Figure { low, high, ..Figure::exact(unit, scale * count / each, tier, method) }
        }
        (Err(why), _) | (_, Err(why)) => Figure::absent(unit, tier, METHOD, why),
        (Ok(_), Ok(_)) => Figure::absent(unit, tier, METHOD, "division by a count of 0"),
    }
}
