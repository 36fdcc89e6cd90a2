// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples in the output of `perf script`, as a profile.
//!
//! ```text
//! comm pid[/tid] [cpu] seconds: [period] event: [address function+offset (file)]
//!         address function+offset (file)          one line for each frame, innermost first
//! ```
//!
//! If several events were sampled, the one with the most samples is used. Shares are weighted by
//! the period of each sample, since perf adapts the period to a rate unless it is fixed (`-c`).

mod line;
mod shares;

use crate::{NothingRead, numbered};
use line::{Frame, Header, frame, header};
use linerate_record::profile::{CallTree, CostClass, ProfileReport};
use linerate_record::profile::{MachineLimits, SampledProgram, SampledThread, SamplingMethod};
use linerate_record::units::counted;
use linerate_record::why::Unread;
use linerate_record::{Figure, Tier};
use shares::{Sample, Shares};
use std::collections::{BTreeSet, HashMap};

/// Events that count nanoseconds of CPU time.
const CLOCKS: [&str; 2] = ["cpu-clock", "task-clock"];
/// Magic number at the start of a file written by `perf record`.
const DATA: &str = "PERFILE2";
const UNKNOWN: &str = "[unknown]";
/// Why figures that the samples do not contain are absent.
const IMPORTED: &str = "the profile was imported from perf script";

/// Returns whether a line is the first line of a sample, or the start of a `perf record` file.
pub(crate) fn is_its_own(line: &str) -> bool {
    header(line).is_some() || line.starts_with(DATA)
}

/// Reads the samples. `class_of` returns the kind of work of a function, given its name and module.
///
/// # Errors
/// Returns an error if there are no samples.
pub fn read(
    text: &str,
    class_of: fn(&str, &str) -> CostClass,
) -> Result<ProfileReport, NothingRead> {
    let nothing = |sentence: &str| NothingRead { sentence: sentence.to_owned(), line: None };
    if text.starts_with(DATA) {
        return Err(nothing(
            "this file was written by perf record; convert it to text: perf script -i FILE | \
             linerate import -",
        ));
    }
    let mut reader = Reader::default();
    for (number, line) in numbered(text) {
        reader.take(number, line);
    }
    reader.end_sample();
    let events = std::mem::take(&mut reader.events);
    let counts = events.iter().zip(0_usize..).map(|(event, at)| (event.samples.len(), at));
    let most = counts.max_by_key(|(samples, at)| (*samples, std::cmp::Reverse(*at)));
    let Some((_, chosen)) = most else {
        let error = nothing("no `perf script` samples found");
        return Err(NothingRead { line: reader.skipped.map(|(first, _)| first), ..error });
    };
    let mut unread = reader.unread();
    let others = events.iter().enumerate().filter(|(at, _)| *at != chosen);
    unread.extend(others.map(|(_, event)| Unread {
        what: "other_events".to_owned(),
        reason: format!(
            "not used: {} of {}",
            counted(event.samples.len() as u64, "sample"),
            event.name
        ),
        fix: None,
    }));
    events.into_iter().nth(chosen).map_or_else(
        || Err(nothing("no `perf script` samples found")),
        |event| Ok(reader.report(event, unread, class_of)),
    )
}

/// A sampled event.
struct Event {
    name: String,
    has_kernel: bool,
    samples: Vec<Sample>,
    /// Whether `perf script` printed the periods.
    has_periods: bool,
}

/// A sample whose frames are being read.
struct Open {
    event: usize,
    thread: u32,
    time_ns: u64,
    period: Option<u64>,
    /// Functions, innermost first.
    functions: Vec<u32>,
}

/// What has been read so far.
#[derive(Default)]
struct Reader {
    events: Vec<Event>,
    open: Option<Open>,
    /// Name and module of each function.
    functions: Vec<(String, String)>,
    function_numbers: HashMap<(String, String), u32>,
    threads: Vec<(Option<u32>, u32, String)>,
    thread_numbers: HashMap<u32, u32>,
    chains: Vec<(u32, Vec<u32>)>,
    chain_numbers: HashMap<(u32, Vec<u32>), u32>,
    /// Number of the first line that is neither a sample nor a frame, and the count of such lines.
    skipped: Option<(u64, u64)>,
    /// Number of samples of the idle task.
    idle: u64,
}

impl Reader {
    fn take(&mut self, number: u64, line: &str) {
        if let Some(header) = header(line) {
            self.end_sample();
            // The idle task (swapper) has this ID on each CPU.
            match header.tid {
                0 => self.idle += 1,
                _ => self.begin_sample(&header),
            }
        } else if line.trim().is_empty() {
            self.end_sample();
        } else if let (Some(frame), true) = (frame(line), self.open.is_some()) {
            self.add(&frame);
        } else if !line.trim_start().starts_with('#') {
            self.skipped.get_or_insert((number, 0)).1 += 1;
        }
    }

    fn begin_sample(&mut self, header: &Header<'_>) {
        let known = self.events.iter().position(|event| event.name == header.event);
        let event = known.unwrap_or_else(|| {
            let name = header.event.to_owned();
            let has_kernel = !header.modifiers.contains('u') || header.modifiers.contains('k');
            self.events.push(Event { name, has_kernel, samples: Vec::new(), has_periods: true });
            self.events.len() - 1
        });
        let next = self.threads.len() as u32;
        let thread = *self.thread_numbers.entry(header.tid).or_insert(next);
        match self.threads.get_mut(thread as usize) {
            // A thread has the name of its last sample.
            Some((.., name)) if name != header.comm => header.comm.clone_into(name),
            Some(_) => {}
            None => self.threads.push((header.pid, header.tid, header.comm.to_owned())),
        }
        let Header { time_ns, period, .. } = *header;
        self.open = Some(Open { event, thread, time_ns, period, functions: Vec::new() });
        if let Some(frame) = &header.frame {
            self.add(frame);
        }
    }

    /// Adds a frame to the open sample. An inlined function counts as part of its caller.
    fn add(&mut self, frame: &Frame<'_>) {
        if frame.is_inlined {
            return;
        }
        let key = (frame.name.unwrap_or(UNKNOWN).to_owned(), frame.module.to_owned());
        let function = self.function(key);
        if let Some(open) = &mut self.open {
            open.functions.push(function);
        }
    }

    fn function(&mut self, key: (String, String)) -> u32 {
        let next = self.functions.len() as u32;
        let number = *self.function_numbers.entry(key.clone()).or_insert(next);
        if number == next {
            self.functions.push(key);
        }
        number
    }

    fn end_sample(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        if open.functions.is_empty() {
            let unknown = (UNKNOWN.to_owned(), UNKNOWN.to_owned());
            open.functions.push(self.function(unknown));
        }
        let leaf = open.functions[0];
        open.functions.reverse();
        let next = self.chains.len() as u32;
        let key = (open.thread, open.functions);
        let chain = *self.chain_numbers.entry(key.clone()).or_insert(next);
        if chain == next {
            self.chains.push(key);
        }
        let event = &mut self.events[open.event];
        event.has_periods &= open.period.is_some_and(|period| period > 0);
        let weight = open.period.unwrap_or(1) as f64;
        event.samples.push(Sample {
            time_ns: open.time_ns,
            thread: open.thread,
            chain,
            leaf,
            weight,
        });
    }

    /// Returns the lines that were not read.
    fn unread(&self) -> Vec<Unread> {
        let skipped = self.skipped.map(|(first, lines)| Unread {
            what: "lines".to_owned(),
            reason: format!(
                "skipped {}, neither samples nor frames, from line {first} on",
                counted(lines, "line")
            ),
            fix: None,
        });
        let idle = (self.idle > 0).then(|| Unread {
            what: "idle_task".to_owned(),
            reason: format!("left out {} samples of idle CPUs (swapper)", self.idle),
            fix: None,
        });
        skipped.into_iter().chain(idle).collect()
    }

    fn report(
        &self,
        mut event: Event,
        mut unread: Vec<Unread>,
        class_of: fn(&str, &str) -> CostClass,
    ) -> ProfileReport {
        event.samples.sort_by_key(|sample| sample.time_ns);
        if !event.has_periods {
            event.samples.iter_mut().for_each(|sample| sample.weight = 1.0);
        }
        let is_clock = CLOCKS.contains(&event.name.as_str());
        let total: f64 = event.samples.iter().map(|sample| sample.weight).sum();
        let count = event.samples.len() as f64;
        let period_ns = match is_clock && event.has_periods {
            true => total / count,
            false => {
                unread.push(Unread {
                    what: "cpu_time".to_owned(),
                    reason: "perf recorded no CPU time, so it is estimated from the shortest \
                             intervals between two samples of a thread"
                        .to_owned(),
                    fix: None,
                });
                shares::gap_ns(&event.samples)
            }
        };
        unread.extend(shares::uneven(&event.samples));
        let first = event.samples.first().map_or(0, |sample| sample.time_ns);
        let last = event.samples.last().map_or(0, |sample| sample.time_ns);
        let elapsed_s = ((last - first) as f64 + period_ns) / 1e9;
        let slices = Shares::new(&event.samples);
        let sampling = SamplingMethod {
            event: if is_clock { CLOCKS[0].to_owned() } else { event.name.clone() },
            rate_hz: 1e9 / period_ns.max(1.0),
            has_kernel: event.has_kernel,
            is_by_cpu: false,
            slices: slices.number() as u32,
            stack_bytes: None,
            incomplete_chains: None,
            sample_cost: None,
        };
        let mut report = empty(sampling, elapsed_s, count * period_ns / 1e9);
        report.samples = event.samples.len() as u64;
        report.unread = unread;
        let indices = slices.functions(&mut report, &self.functions, &self.chains, class_of);
        report.classes = slices.classes(&report, &indices);
        self.add_calls(&mut report, &event, &indices);
        report
    }

    /// Adds the threads, most samples first, and the call tree.
    fn add_calls(&self, report: &mut ProfileReport, event: &Event, indices: &HashMap<u32, u32>) {
        let tier = report.tier();
        let mut of_threads = HashMap::<u32, u64>::new();
        let mut of_chains = HashMap::<u32, u64>::new();
        for sample in &event.samples {
            *of_threads.entry(sample.thread).or_default() += 1;
            *of_chains.entry(sample.chain).or_default() += 1;
        }
        let mut order: Vec<(u32, u64)> = of_threads.into_iter().collect();
        order.sort_by_key(|&(thread, samples)| (std::cmp::Reverse(samples), thread));
        let absent = |unit| Figure::absent(unit, tier, "", IMPORTED);
        for (thread, samples) in &order {
            let (pid, tid, name) = self.threads[*thread as usize].clone();
            report.threads.push(SampledThread {
                pid: pid.unwrap_or(tid),
                tid,
                name,
                samples: *samples,
                busy: absent("ratio"),
                ns_per_packet: absent("ns/packet"),
                capacity: absent("packets/s"),
            });
        }
        let pids = order.iter().filter_map(|(thread, _)| self.threads[*thread as usize].0);
        report.sampled.pids = pids.collect::<BTreeSet<u32>>().into_iter().collect();
        report.sampled.name =
            report.threads.first().map_or_else(String::new, |one| one.name.clone());
        let place: HashMap<u32, u32> = order.iter().map(|(thread, _)| *thread).zip(0..).collect();
        let mut chains: Vec<(u32, u64)> = of_chains.into_iter().collect();
        chains.sort_unstable();
        let mut tree = CallTree::default();
        for (chain, samples) in chains {
            let (thread, functions) = &self.chains[chain as usize];
            tree.add(place[thread], functions.iter().map(|function| indices[function]), samples);
        }
        report.calls = tree.nodes;
    }
}

/// Returns a profile without samples.
fn empty(sampling: SamplingMethod, elapsed_s: f64, cpu_s: f64) -> ProfileReport {
    ProfileReport {
        sampled: SampledProgram {
            name: String::new(),
            pids: Vec::new(),
            is_command: false,
            ended: None,
            interrupted: false,
        },
        elapsed_s,
        sampling,
        cpu_s,
        samples: 0,
        lost_samples: 0,
        threads: Vec::new(),
        functions: Vec::new(),
        classes: Vec::new(),
        calls: Vec::new(),
        packets: None,
        observer: Figure::absent("ratio", Tier::Sw, "", IMPORTED),
        evidence: Vec::new(),
        bounds: Vec::new(),
        asleep_on: Vec::new(),
        limits: MachineLimits::default(),
        simulated: None,
        memory: Vec::new(),
        shared_lines: Vec::new(),
        annotated: None,
        timeline: None,
        imported_from: Some("perf script".to_owned()),
        unread: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
