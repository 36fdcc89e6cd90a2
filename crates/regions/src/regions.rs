// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's regions: their names, threads, and record.

use crate::figures;
use crate::stay::Stay;
use crate::thread::Thread;
use crate::tree::{Log, Outcome, Region};
use crate::writer;
use linerate_counters::catalog::Catalog;
use linerate_counters::event::{Event, split_names};
use linerate_counters::opener::Kernel;
use linerate_counters::thread_group::{Machine, ThreadGroup};
use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::refusal::Explainer;
use linerate_linux::allowed_cpus;
use linerate_machine::provenance::{command_line, provenance};
use linerate_machine::ticks::ticks_per_s;
use linerate_record::regions::{RegionReport, RegionsReport};
use linerate_record::{Body, Record};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};

/// Events that are counted unless others are requested.
pub const DEFAULT_EVENTS: [&str; 2] = ["instructions", "cycles"];

/// Events to count in regions, and where to write the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Event names, as listed by `linerate stat --list`; at most [`EVENTS_MAX`](crate::EVENTS_MAX).
    /// If empty, only ticks are measured, which has the least overhead.
    pub events: Vec<String>,
    /// Exclude events that occur in the kernel on the thread's behalf.
    pub user_only: bool,
    /// Output file for the record. Written by [`Regions::finish`], and earlier by a background
    /// thread if `updates` is set.
    pub file: Option<PathBuf>,
    /// Update `file` from a background thread while the program runs, so that it exists however the
    /// program ends. The first update is after 50 ms; intervals then grow to one second. The
    /// background thread starts with the first thread that counts, handles no signals, and runs
    /// only when nothing else needs its CPU.
    pub updates: bool,
}

impl Default for Options {
    fn default() -> Self {
        let events = DEFAULT_EVENTS.map(str::to_owned).to_vec();
        Self { events, user_only: false, file: None, updates: true }
    }
}

impl Options {
    /// Reads the options from environment variables. `LINERATE_REGIONS` names the output file; `%p`
    /// in the name is replaced by the PID. `LINERATE_REGIONS_EVENTS` lists event names, separated
    /// by commas; if empty, only ticks are measured. `LINERATE_REGIONS_UPDATES=0` disables
    /// background updates. Unset variables select the defaults.
    pub fn from_environment() -> Self {
        let file = std::env::var_os("LINERATE_REGIONS").filter(|name| !name.is_empty());
        let names = std::env::var("LINERATE_REGIONS_EVENTS").ok();
        let split = |names: String| {
            split_names(&names).into_iter().filter(|name| !name.is_empty()).collect()
        };
        let default = Self::default();
        Self {
            events: names.map_or(default.events, split),
            file: file.map(|name| with_process_number(Path::new(&name))),
            updates: std::env::var_os("LINERATE_REGIONS_UPDATES").is_none_or(|value| value != "0"),
            ..default
        }
    }
}

fn with_process_number(file: &Path) -> PathBuf {
    let file = match file.to_str() {
        Some(name) => name.replace("%p", &std::process::id().to_string()).into(),
        None => file.to_owned(),
    };
    // Made absolute, because the program may change its working directory before the record is
    // written.
    std::path::absolute(&file).unwrap_or(file)
}

/// A program's regions. Cloning returns another handle to the same regions.
#[derive(Clone, Debug)]
pub struct Regions {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    /// This machine's events, loaded on first use.
    catalog: OnceLock<Catalog>,
    /// Each event requested in the options, or why its name is invalid.
    events: OnceLock<Vec<Result<Event, String>>>,
    host_facts: HostFacts,
    names: Mutex<Vec<String>>,
    /// Number of regions created so far: the length of `names`, readable without a lock.
    made: Arc<AtomicU32>,
    logs: Mutex<Vec<Arc<Log>>>,
    sampled: Mutex<Vec<RegionReport>>,
    /// CPUs to which measured threads were pinned when they began to count. Threads that were
    /// allowed on several CPUs are not included.
    pinned: Mutex<Vec<u32>>,
    /// Whether the record is complete. The lock is held while the record's file is written.
    is_finished: Mutex<bool>,
    writer: Once,
}

/// Why the record could not be written.
#[derive(Debug)]
pub enum WriteError {
    /// The file cannot be written.
    File {
        /// Path of the file.
        file: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// The record contains an invalid number.
    Record(linerate_record::WriteError),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, error } => {
                write!(f, "{}: {error}; set LINERATE_REGIONS to another file", file.display())
            }
            Self::Record(error) => write!(f, "regions record: {error}"),
        }
    }
}

impl std::error::Error for WriteError {}

impl Regions {
    /// Creates a set of regions that counts according to `options`. No counter is opened before the
    /// first thread counts.
    pub fn new(options: &Options) -> Self {
        let shared = Shared {
            options: options.clone(),
            catalog: OnceLock::new(),
            events: OnceLock::new(),
            host_facts: HostFacts::gather(),
            names: Mutex::default(),
            made: Arc::default(),
            logs: Mutex::default(),
            sampled: Mutex::default(),
            pinned: Mutex::default(),
            is_finished: Mutex::new(false),
            writer: Once::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the region with this name, creating it if necessary. Takes a lock, so call it once
    /// per region, not per visit.
    pub fn region(&self, name: &str) -> Region {
        let mut names = lock(&self.shared.names);
        let known = names.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        self.shared.made.store(u32::try_from(names.len()).unwrap_or(u32::MAX), Relaxed);
        Region(u32::try_from(index).unwrap_or(Region::OUTSIDE.0))
    }

    /// Starts counting for the calling thread. Opens its counters and calibrates the overhead,
    /// which takes 0.05 to 2 ms; the returned value cannot be sent to another thread. Call this
    /// once per thread: a second call opens another set of counters.
    pub fn thread(&self) -> Thread {
        let thread = self.uncalibrated_thread();
        thread.calibrate(|| drop(thread.enter(Region::CALIBRATION)));
        thread
    }

    /// Starts counting for the calling thread like [`Regions::thread`], but without calibrating the
    /// measurement overhead.
    pub(crate) fn uncalibrated_thread(&self) -> Thread {
        let known: Vec<Event> = self.events().iter().flatten().cloned().collect();
        let counters = self.counters(&known);
        let outcomes = self.explained(&counters, &known);
        let thread = Thread::new(counters, &outcomes, &self.shared.made);
        lock(&self.shared.logs).push(Arc::clone(thread.log()));
        if let Ok(&[cpu]) = allowed_cpus().as_deref() {
            lock(&self.shared.pinned).push(cpu);
        }
        self.shared.writer.call_once(|| self.keep_file());
        thread
    }

    /// Starts the background thread that keeps the record's file up to date, if the options request
    /// it and the file can be replaced.
    fn keep_file(&self) {
        let Options { file: Some(file), updates: true, .. } = &self.shared.options else { return };
        if writer::is_replaceable(file) {
            // If the thread cannot start, the record is still written at the end.
            let shared = Arc::downgrade(&self.shared);
            let _ = writer::start(move || {
                shared.upgrade().is_some_and(|shared| Self { shared }.update_in_background())
            });
        }
    }

    /// Writes the results so far from the background thread, on CPUs that no measured thread is
    /// pinned to. Returns whether to continue.
    fn update_in_background(&self) -> bool {
        writer::leave_cpus(&lock(&self.shared.pinned).clone());
        self.update().unwrap_or_else(|error| {
            eprintln!("linerate_regions: {error}");
            false
        })
    }

    /// Writes the results so far. Returns `false` if the record is already complete.
    fn update(&self) -> Result<bool, WriteError> {
        let Some(file) = self.shared.options.file.as_deref() else { return Ok(false) };
        // Build the JSON text before taking the lock, so that a thread that calls `finish` waits
        // only for the file.
        let json = self.json()?;
        let is_finished = lock(&self.shared.is_finished);
        if *is_finished {
            return Ok(false);
        }
        store(file, &json).map(|()| true)
    }

    /// Opens counters for `events` in the calling thread.
    pub(crate) fn counters(&self, events: &[Event]) -> ThreadGroup {
        let pmu_user = self.shared.host_facts.pmu_user();
        let machine =
            Machine { opener: &Kernel, pmu_user: pmu_user.as_ref(), compares_marks: true };
        ThreadGroup::open(machine, events, self.shared.options.user_only)
    }

    /// Returns the evidence tier of each of `events`, or why it is not counted.
    pub(crate) fn explained(&self, counters: &ThreadGroup, events: &[Event]) -> Vec<Outcome> {
        let explainer = Explainer {
            host_facts: &self.shared.host_facts,
            is_known_processor: self.catalog().is_known_processor(),
            takes_registers: true,
        };
        let outcomes = counters.outcomes().iter().zip(events);
        let explained = outcomes.map(|(outcome, event)| {
            outcome.as_ref().copied().map_err(|refusal| explainer.explain(refusal, event))
        });
        explained.collect()
    }

    /// Returns the event with each of these names on this machine, or why the name is invalid.
    pub(crate) fn look_up(&self, names: &[String]) -> Vec<Result<Event, String>> {
        let resolve = |name: &String| self.catalog().resolve(name).map_err(|e| e.to_string());
        names.iter().map(resolve).collect()
    }

    fn catalog(&self) -> &Catalog {
        self.shared.catalog.get_or_init(Catalog::of_this_machine)
    }

    fn events(&self) -> &[Result<Event, String>] {
        self.shared.events.get_or_init(|| self.look_up(&self.shared.options.events))
    }

    /// Adds a sampler's results to the report.
    pub(crate) fn add(&self, report: RegionReport) {
        lock(&self.shared.sampled).push(report);
    }

    /// Reports the counts so far. Threads may still be running, in which case each count may lag by
    /// one visit. The first call takes 20 ms to calibrate the tick rate.
    pub fn report(&self) -> RegionsReport {
        let names = lock(&self.shared.names).clone();
        let logs = lock(&self.shared.logs).clone();
        let asked = &self.shared.options.events;
        let ticks_per_ns = ticks_per_s() / 1e9;
        let stays: Vec<_> = logs.iter().map(|log| Stay::from_log(log, ticks_per_ns)).collect();
        let mut report = figures::report(&logs, &stays, ticks_per_ns, &names, asked, self.events());
        report.regions.extend(lock(&self.shared.sampled).iter().cloned());
        report
    }

    /// Returns the report as a record.
    pub fn record(&self) -> Record {
        let report = self.report();
        let program = std::env::current_exe().ok();
        let program =
            program.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let program = program.as_deref().unwrap_or("a program");
        Record {
            provenance: provenance(
                &format!("{program} with linerate-regions {}", env!("CARGO_PKG_VERSION")),
                None,
                "unknown (the program's compiler)",
                &command_line(),
            ),
            body: Body::Regions(Box::new(report)),
        }
    }

    /// Writes the record to `file`.
    ///
    /// # Errors
    /// Returns a [`WriteError`] if the record contains an invalid number or the file cannot be
    /// written.
    pub fn write(&self, file: &Path) -> Result<(), WriteError> {
        store(file, &self.json()?)
    }

    fn json(&self) -> Result<String, WriteError> {
        self.record().to_json_pretty().map_err(WriteError::Record)
    }

    /// Writes the record to the file given in the options, if any, and returns the file's name.
    /// Stops the background updates.
    ///
    /// # Errors
    /// Returns a [`WriteError`] if the record contains an invalid number or the file cannot be
    /// written.
    pub fn finish(&self) -> Result<Option<&Path>, WriteError> {
        let Some(file) = self.shared.options.file.as_deref() else { return Ok(None) };
        let mut is_finished = lock(&self.shared.is_finished);
        *is_finished = true;
        self.write(file).map(|()| Some(file))
    }
}

fn store(file: &Path, json: &str) -> Result<(), WriteError> {
    writer::replace(file, json.as_bytes())
        .map_err(|error| WriteError::File { file: file.to_owned(), error })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
