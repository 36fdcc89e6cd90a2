// SPDX-License-Identifier: MIT OR Apache-2.0
//! PROFILE_DUMP ver 2.0: console output of the Netra DPS profiler.
//!
//! The format follows code example 10-2 in chapter 10 of "Netra Data Plane Software Suite 2.0". All
//! numbers are hexadecimal, and each line has one of two types:
//!
//! ```text
//! start   CPUID,ID,1,ticks,PC,group,code of counter 1,code of counter 2
//! update  CPUID,ID,2,ticks,PC,group,counter 1,counter 2,overflow,user data
//! ```
//!
//! A start means that the counters were programmed for a pair of events; the strand's next update
//! means that they were read. The profiled program cycles through the events. The user data is the
//! number of packets so far. A dump is enclosed by `PROFILE_DUMP_START,ver,2.0` and
//! `PROFILE_DUMP_END`; there may be several dumps, with other output between them.
//!
//! ```text
//! for each line inside a dump
//!     invalid            -> a fault; the strand's state is discarded, or that of all strands if
//!                           the CPUID is invalid as well
//!     start              -> remember ticks and codes; a previous start without an update is a
//!                           fault
//!     update             -> a slice, with its start, if there is one, and the preceding reading,
//!                           if no line between the two was invalid
//! ```
//!
//! The first update in a dump ends a slice that began before the dump. The events of that slice are
//! unknown, so only the update's time and packets are used, as the start of the next slice.
//!
//! Counters are 32 bits wide. ID and PC are preserved, but not interpreted.

use crate::slices::{COUNT_MAX, Written};
use crate::{NothingRead, Processor, derive, numbered};
use linerate_record::strands::{ForeignFormat, InputFault, Place, Slice, StrandsReport};
use std::collections::BTreeMap;
use std::fmt::Write;

const START: &str = "PROFILE_DUMP_START";
const END: &str = "PROFILE_DUMP_END";
const VERSION: &str = "2.0";
const COLUMNS: &str = "CPUID,ID,Type,Cycles,PC,Grp,Evt_Hi,Evt_Lo,Overflow,User Data";

/// Number of the group of per-strand counters, the only group whose event codes are in the
/// processor's table.
const GROUP: u64 = 1;

/// Returns whether a line unmistakably comes from a PROFILE_DUMP.
pub(crate) fn is_its_own(line: &str) -> bool {
    line.trim().starts_with(START)
}

/// Reads a text that contains one or more dumps.
///
/// # Errors
/// Returns an error if no line was usable.
pub fn read(text: &str, processor: &Processor) -> Result<StrandsReport, NothingRead> {
    let mut reader = Reader { is_cut: !text.ends_with('\n'), ..Reader::default() };
    let last = text.lines().count() as u64;
    for (line, text) in numbered(text) {
        reader.line(line, text.trim(), line == last);
    }
    reader.end(last);
    let mut faults = reader.faults;
    let mut strands = Vec::new();
    for cpu in reader.order {
        let slices = reader.strands.remove(&cpu).map_or_else(Vec::new, |strand| strand.slices);
        if slices.is_empty() {
            continue;
        }
        let (strand, senseless) = derive::from_slices(cpu, slices, processor);
        faults.extend(senseless);
        strands.push(strand);
    }
    faults.sort_by_key(|fault| fault.line);
    if strands.is_empty() {
        return Err(nothing(faults.first()));
    }
    Ok(StrandsReport {
        format: ForeignFormat::ProfileDump,
        format_version: Some(VERSION.to_owned()),
        machine: None,
        strands,
        lines: reader.lines,
        faults,
    })
}

fn nothing(fault: Option<&InputFault>) -> NothingRead {
    match fault {
        Some(fault) => NothingRead { line: Some(fault.line), sentence: fault.sentence.clone() },
        None => {
            NothingRead { line: None, sentence: format!("no reading between {START} and {END}") }
        }
    }
}

/// Position of the reader relative to the dumps in the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// Before, between or after the dumps.
    #[default]
    Outside,
    /// In a dump of a supported version.
    Inside,
    /// In a dump that is skipped because it is invalid or of an unsupported version.
    Refused,
}

/// Parser state for one of the dump's strands.
#[derive(Debug, Default)]
struct Strand {
    slices: Vec<Slice>,
    /// Most recent start without an update, with its line number.
    started: Option<(u64, Start)>,
    /// Ticks and user data of the last update; `None` if a later update may have been lost.
    last: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Reader {
    part: Part,
    strands: BTreeMap<u32, Strand>,
    /// Strand CPUIDs, in order of appearance.
    order: Vec<u32>,
    faults: Vec<InputFault>,
    lines: u64,
    /// Whether the text ends without a line feed.
    is_cut: bool,
}

impl Reader {
    fn fault(&mut self, line: u64, sentence: impl Into<String>) {
        self.faults.push(InputFault { line, sentence: sentence.into() });
    }

    fn line(&mut self, line: u64, text: &str, is_last: bool) {
        if let Some(rest) = text.strip_prefix(START) {
            self.begin(line, rest);
        } else if text == END {
            self.finish(line);
        } else if self.part == Part::Inside && !text.is_empty() {
            if text.starts_with("CPUID") {
                self.columns(line, text);
            } else {
                self.record(line, text, is_last);
            }
        }
    }

    fn begin(&mut self, line: u64, rest: &str) {
        if self.part != Part::Outside {
            self.fault(line, format!("a dump begins before the {END} of the previous one"));
        }
        self.forget_all();
        self.part = match rest.strip_prefix(",ver,") {
            Some(VERSION) => Part::Inside,
            Some(version) => {
                self.fault(
                    line,
                    format!(
                        "unsupported version `{}`, expected {VERSION}: dump skipped",
                        shortened(version)
                    ),
                );
                Part::Refused
            }
            None => {
                self.fault(
                    line,
                    format!(
                        "no version (expected `{START},ver,{VERSION}`): dump \
                                          skipped"
                    ),
                );
                Part::Refused
            }
        };
    }

    fn finish(&mut self, line: u64) {
        if self.part == Part::Outside {
            self.fault(line, format!("{END} without a {START}: the lines before it were skipped"));
        }
        self.part = Part::Outside;
    }

    fn end(&mut self, line: u64) {
        if self.part == Part::Inside {
            self.fault(line, format!("the input ends before {END}: the dump is truncated"));
        }
    }

    /// Discards all strands' state, because lines may be missing.
    fn forget_all(&mut self) {
        for strand in self.strands.values_mut() {
            (strand.started, strand.last) = (None, None);
        }
    }

    fn columns(&mut self, line: u64, text: &str) {
        if text != COLUMNS {
            self.fault(line, "unexpected columns for this version: dump skipped");
            self.part = Part::Refused;
        }
    }

    fn record(&mut self, line: u64, text: &str, is_last: bool) {
        self.lines += 1;
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        let cpu = fields[0];
        let cpu = if is_number(cpu) { u32::from_str_radix(cpu, 16).ok() } else { None };
        let read = match is_last && self.is_cut {
            true => Err(
                "the input ends in the middle of this line, so its last number may be truncated"
                    .to_owned(),
            ),
            false => read_record(&fields),
        };
        match (cpu, read) {
            (Some(cpu), Ok(record)) => self.take(line, cpu, &record),
            (Some(cpu), Err(sentence)) => {
                self.fault(line, format!("{sentence}; line skipped"));
                if let Some(strand) = self.strands.get_mut(&cpu) {
                    (strand.started, strand.last) = (None, None);
                }
            }
            // The invalid line's strand is unknown, so any strand may be affected.
            (None, read) => {
                let sentence =
                    read.err().unwrap_or_else(|| format!("no CPUID: `{}`", shortened(fields[0])));
                self.fault(line, format!("{sentence}; line skipped"));
                self.forget_all();
            }
        }
    }

    fn take(&mut self, line: u64, cpu: u32, record: &Entry) {
        if !self.strands.contains_key(&cpu) {
            self.order.push(cpu);
        }
        let strand = self.strands.entry(cpu).or_default();
        let sentence = match *record {
            Entry::Start(start) => strand.start(line, start),
            Entry::Update(update) => strand.update(line, update),
        };
        if let Some(sentence) = sentence {
            self.fault(line, sentence);
        }
    }
}

impl Strand {
    fn start(&mut self, line: u64, start: Start) -> Option<String> {
        let lost = self.started.replace((line, start));
        if self.last.is_some_and(|(last, _)| start.ticks < last) {
            (self.started, self.last) = (None, None);
            return Some(
                "ticks went backwards: earlier and later readings are kept separate".to_owned(),
            );
        }
        let (line, _) = lost?;
        self.last = None;
        Some(format!(
            "the counters started on line {line} were restarted here without having been read"
        ))
    }

    fn update(&mut self, line: u64, update: Update) -> Option<String> {
        let Update { ticks, counts, overflow, user, place } = update;
        let is_back = |from: u64, now: u64| now < from;
        let started = self.started.take();
        let backwards = started.is_some_and(|(_, start)| is_back(start.ticks, ticks))
            || self.last.is_some_and(|(last, packets)| is_back(last, ticks) || user < packets);
        let started = started.filter(|_| !backwards).map(|(_, start)| start);
        self.slices.push(Slice {
            line,
            from_ticks: started.map(|start| start.ticks),
            to_ticks: ticks,
            code_hi: started.map(|start| start.codes[0]),
            code_lo: started.map(|start| start.codes[1]),
            count_hi: counts[0],
            count_lo: counts[1],
            overflow,
            user,
            is_first: backwards || self.last.is_none(),
            from: started.map(|start| start.place).unwrap_or_default(),
            to: place,
        });
        self.last = Some((ticks, user));
        backwards.then(|| {
            "ticks or packets went backwards: earlier and later readings are kept separate"
                .to_owned()
        })
    }
}

/// A valid line of a dump.
enum Entry {
    Start(Start),
    Update(Update),
}

/// A line of type 1, written when the counters were programmed.
#[derive(Clone, Copy, Debug)]
struct Start {
    ticks: u64,
    codes: [u64; 2],
    place: Place,
}

/// A line of type 2, written when the counters were read.
#[derive(Clone, Copy, Debug)]
struct Update {
    ticks: u64,
    counts: [u64; 2],
    overflow: u64,
    user: u64,
    place: Place,
}

/// Accepts only hexadecimal digits; `from_str_radix` would accept a sign.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn read_record(fields: &[&str]) -> Result<Entry, String> {
    let mut numbers = Vec::with_capacity(10);
    for (at, field) in (1..).zip(fields.iter().take(10)) {
        let number = is_number(field).then(|| u64::from_str_radix(field, 16).ok()).flatten();
        numbers.push(number.ok_or_else(|| {
            format!("field {at} is not a 64-bit hexadecimal number: `{}`", shortened(field))
        })?);
    }
    let wanted = match numbers.get(2) {
        Some(1) => 8,
        Some(2) => 10,
        Some(other) => return Err(format!("invalid record type {other:x}; expected 1 or 2")),
        None => return Err(format!("invalid number of fields: {}", fields.len())),
    };
    if fields.len() != wanted {
        return Err(format!("{} fields, expected {wanted}", fields.len()));
    }
    if numbers[5] != GROUP {
        return Err(format!("counter group {:x} has unknown event codes", numbers[5]));
    }
    let (ticks, counters) = (numbers[3], [numbers[6], numbers[7]]);
    let place = Place { id: numbers[1], pc: numbers[4] };
    if wanted == 8 {
        return Ok(Entry::Start(Start { ticks, codes: counters, place }));
    }
    if counters.iter().any(|count| *count > COUNT_MAX) {
        return Err("a count exceeds the 32 bits of a counter".to_owned());
    }
    let (overflow, user) = (numbers[8], numbers[9]);
    Ok(Entry::Update(Update { ticks, counts: counters, overflow, user, place }))
}

/// Returns a field, shortened for an error message and stripped of control characters.
fn shortened(field: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut short: String = field.chars().take(20).map(shown).collect();
    if field.chars().nth(20).is_some() {
        short.push_str("...");
    }
    short
}

/// Writes strands' readings as a dump. Reading the dump back yields the same readings. ID and PC
/// are 0 unless the readings came from a dump.
pub fn write(strands: &[Written]) -> String {
    let mut text = String::new();
    for strand in strands {
        open(&mut text);
        for (at, slice) in strand.slices.iter().enumerate() {
            // Begin a new dump, because only the beginning of a dump resets a strand's state.
            if slice.is_first && at > 0 {
                close(&mut text);
                open(&mut text);
            }
            append_slice(&mut text, strand.number, slice);
        }
        close(&mut text);
    }
    text
}

fn open(text: &mut String) {
    let _ = writeln!(text, "{START},ver,{VERSION}\n{COLUMNS}");
}

fn close(text: &mut String) {
    let _ = writeln!(text, "{END}");
}

fn append_slice(text: &mut String, cpu: u32, slice: &Slice) {
    if let (Some(from), Some(hi), Some(lo)) = (slice.from_ticks, slice.code_hi, slice.code_lo) {
        let Place { id, pc } = slice.from;
        let _ = writeln!(text, "{cpu:x},{id:x},1,{from:x},{pc:x},{GROUP:x},{hi:x},{lo:x}");
    }
    let Slice { to_ticks, count_hi, count_lo, overflow, user, to: Place { id, pc }, .. } = slice;
    let _ = writeln!(
        text,
        "{cpu:x},{id:x},2,{to_ticks:x},{pc:x},{GROUP:x},{count_hi:x},{count_lo:x},{overflow:x},\
         {user:x}"
    );
}
