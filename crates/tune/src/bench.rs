// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs mappings on the available CPUs, while the CPUs that they leave free are idle or under
//! background load.

use crate::assign::assign;
use crate::error::TuneError;
use linerate_dataplane::traffic::Traffic;
use linerate_dataplane::{Counting, Job, StageKind, Watch};
use linerate_kernels::{Kernels, VariantError};
use linerate_path::check::read;
use linerate_path::model::{IdleRules, Mapping, Path, Rate, RunLength, RunOptions, SELECTED};
use linerate_path::spec::{Kinds, StageSpec};
use linerate_record::run::RunReport;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time limit for a background load, in seconds. The load is stopped earlier if the run that it
/// accompanies ends.
const LOAD_SECONDS_MAX: f64 = 60.0;

/// Time for which a background load runs before the measurement starts, in seconds: caches are then
/// warm, and clock frequencies have settled.
const LOAD_WARM_UP_SECONDS: f64 = 0.06;

/// Interval at which a measurement that is about to start checks whether its load is running.
const LOOK_UP: Duration = Duration::from_millis(1);

/// A path with typical packet work, which reads every header and sums every byte.
const PACKET_WORK: &str = "\
[source]\nkind = \"generator\"\n[[stage]]\nkind = \"parse\"\n[[stage]]\nkind = \"verify\"\n";

/// Returns the kernels of one variant or, for `selected`, the best variant of each kernel.
///
/// # Errors
/// Returns an error if the variant does not exist or cannot run here.
pub fn kernels(name: &str) -> Result<Kernels, VariantError<'_>> {
    if name == SELECTED { Ok(Kernels::selected()) } else { Kernels::by_name(name) }
}

/// Makes workers poll in all runs of `tune` but those that compare idle policies, because a wake-up
/// would count as part of the cost of a ring.
static POLLING: IdleRules = IdleRules::POLLING;

/// Returns the path used as background load and for measuring rings. Source, buffers and run
/// options are those of `like`, but the rate is unlimited.
pub(crate) fn packet_work(like: &Path, kinds: &[StageKind]) -> Result<Path, TuneError> {
    let stages: Vec<StageSpec> = kinds.iter().map(|kind| kind.spec).collect();
    let work = read(PACKET_WORK, "work", Kinds { stages: &stages, sources: &[], plugins: &[] })
        .map_err(|problems| TuneError::NoPacketWork(problems.display("work").to_string()))?;
    let run = RunOptions { rate: Rate::Max, ..like.run };
    Ok(Path { source: like.source.clone(), run, ..work.path })
}

/// Progress of a tuning session: current step, and completed fraction of the total measuring time.
pub(crate) struct Progress<'a> {
    pub(crate) watch: &'a Watch<'a>,
    step: RefCell<String>,
    /// Completed measuring time, in seconds.
    done: Cell<f64>,
    /// Planned measuring time, in seconds.
    planned: f64,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(watch: &'a Watch<'a>, planned: f64) -> Self {
        Self { watch, step: RefCell::default(), done: Cell::new(0.0), planned }
    }

    /// Sets the current step, and reports it to the observer.
    pub(crate) fn step(&self, name: &str) {
        name.clone_into(&mut self.step.borrow_mut());
        self.at(0.0);
    }

    /// Reports progress to the observer. `seconds` is the time since the start of the current run.
    fn at(&self, seconds: f64) {
        self.watch.progress(&self.step.borrow(), (self.done.get() + seconds) / self.planned);
    }
}

/// Runs mappings on the available CPUs.
#[derive(Clone, Copy)]
pub(crate) struct Bench<'a> {
    /// Path to tune.
    pub(crate) path: &'a Path,
    /// Packets offered by the path's source.
    pub(crate) traffic: &'a Traffic,
    /// CPUs available for pinning workers, best first.
    pub(crate) cpus: &'a [u32],
    /// Whether the CPUs are virtual, in which case the hypervisor may give their hardware threads
    /// to other guests at any time.
    pub(crate) is_guest: bool,
    /// Checksum and copy variants called by all workers.
    pub(crate) kernels: Kernels,
    /// Path that serves as background load.
    pub(crate) packet_work: &'a Path,
    /// Progress of the session, updated by every run.
    pub(crate) progress: &'a Progress<'a>,
    /// Stage kinds of the path and of the background load.
    pub(crate) kinds: &'a [StageKind],
}

impl Bench<'_> {
    /// Returns the same bench with the CPUs in another order.
    pub(crate) fn on<'b>(&'b self, cpus: &'b [u32]) -> Bench<'b> {
        Bench { cpus, ..*self }
    }

    /// Returns the same bench with other kernels.
    pub(crate) fn with(&self, kernels: Kernels) -> Bench<'_> {
        Bench { kernels, ..*self }
    }

    /// Runs the path with `mapping` for this many seconds, and also measures kernel shares and
    /// hardware counters.
    pub(crate) fn profile(
        &self,
        mapping: &Mapping,
        burst: u32,
        seconds: f64,
    ) -> Result<RunReport, TuneError> {
        let cpus = assign(self.path, mapping, self.cpus, false)?;
        let options = RunOptions { burst, ..self.path.run };
        let counting = Counting::of_this_machine();
        let job = self.job(self.path, mapping, &cpus, options);
        self.measure(Job { replay: true, counting: Some(&counting), ..job }, seconds)
    }

    /// Runs `path` with `mapping` for this many seconds. If `confine` is set, each queue of the
    /// source repeats only this number of packets.
    pub(crate) fn run(
        &self,
        path: &Path,
        mapping: &Mapping,
        burst: u32,
        seconds: f64,
        confine: Option<usize>,
    ) -> Result<RunReport, TuneError> {
        let cpus = assign(path, mapping, self.cpus, false)?;
        let options = RunOptions { burst, ..path.run };
        self.measure(Job { confine, ..self.job(path, mapping, &cpus, options) }, seconds)
    }

    /// Runs `path` with the path's own mapping and these idle policies for this many seconds.
    pub(crate) fn run_idle(
        &self,
        path: &Path,
        idle: &IdleRules,
        seconds: f64,
    ) -> Result<RunReport, TuneError> {
        let cpus = assign(path, &path.mapping, self.cpus, false)?;
        let job = self.job(path, &path.mapping, &cpus, path.run);
        self.measure(Job { idle, ..job }, seconds)
    }

    fn measure(&self, job: Job<'_>, seconds: f64) -> Result<RunReport, TuneError> {
        let options = RunOptions { length: RunLength::Seconds(seconds), ..job.options };
        let job = Job { options, ..job };
        let at = |_: &str, share: f64| self.progress.at(share * seconds);
        let outcome = linerate_dataplane::run(&job, &self.progress.watch.with_progress(&at))?;
        self.progress.done.set(self.progress.done.get() + seconds);
        Ok(outcome.report)
    }

    /// Does the same as [`Bench::run`], while packet work loads the CPUs that the mapping leaves
    /// free.
    pub(crate) fn run_loaded(
        &self,
        path: &Path,
        mapping: &Mapping,
        burst: u32,
        seconds: f64,
        confine: Option<usize>,
    ) -> Result<RunReport, TuneError> {
        let used = assign(path, mapping, self.cpus, false)?;
        let free: Vec<u32> = self.cpus.iter().copied().filter(|cpu| !used.contains(cpu)).collect();
        if free.is_empty() {
            return self.run(path, mapping, burst, seconds, confine);
        }
        let load_path = self.packet_work;
        let mut load = Mapping::merged(load_path.stages.len());
        load.segments[0].replicas = free.len() as u32;
        let options = RunOptions { length: RunLength::Seconds(LOAD_SECONDS_MAX), ..load_path.run };
        let job = self.job(load_path, &load, &free, options);
        let measure = || self.run(path, mapping, burst, seconds, confine);
        while_loaded(&job, self.progress.watch.stop(), measure)?
    }

    fn job<'j>(
        &'j self,
        path: &'j Path,
        mapping: &'j Mapping,
        cpus: &'j [u32],
        options: RunOptions,
    ) -> Job<'j> {
        Job {
            mapping,
            options,
            idle: &POLLING,
            kernels: self.kernels,
            ..Job::new(path, self.kinds, self.traffic, cpus)
        }
    }

    /// Returns the stop flag and progress observer shared by all runs.
    pub(crate) fn watch(&self) -> &Watch<'_> {
        self.progress.watch
    }
}

/// Calls `measure` while the workers of `load` run. Waits for the workers to start first: with many
/// CPUs, allocating their buffers takes longer than a short measurement. `stop` ends this wait.
fn while_loaded<R>(
    load: &Job<'_>,
    stop: &AtomicBool,
    measure: impl FnOnce() -> R,
) -> Result<R, TuneError> {
    let (is_running, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let run = || {
        let progress = |_: &str, share: f64| {
            let has_begun = share * LOAD_SECONDS_MAX >= LOAD_WARM_UP_SECONDS;
            is_running.fetch_or(has_begun, Ordering::Relaxed);
        };
        linerate_dataplane::run(load, &Watch::new(&is_over, &progress))
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, run);
        let thread = thread.map_err(TuneError::NoThread)?;
        let stopped = || stop.load(Ordering::Relaxed) || thread.is_finished();
        while !is_running.load(Ordering::Relaxed) && !stopped() {
            std::thread::sleep(LOOK_UP);
        }
        let measured = measure();
        is_over.store(true, Ordering::Relaxed);
        match thread.join() {
            Ok(Ok(_)) => Ok(measured),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(TuneError::LoadPanicked),
        }
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use linerate_dataplane::generator::Generator;

    /// Parses a path file with stages of the kinds in `linerate_stages`.
    pub(crate) fn path(text: &str) -> Path {
        let stages: Vec<StageSpec> =
            linerate_stages::EXTENSION.stages.iter().map(|kind| kind.spec).collect();
        read(text, "t", Kinds { stages: &stages, sources: &[], plugins: &[] }).expect("a path").path
    }

    #[test]
    fn the_load_has_the_source_of_the_path() {
        let like = path("[source]\nkind = \"generator\"\n[[stage]]\nkind = \"parse\"\n");
        let work = packet_work(&like, linerate_stages::EXTENSION.stages).expect("it has both");
        assert_eq!(work.stages.len(), 2);
        assert_eq!(work.source, like.source);
    }

    /// A worker's thread starts once its buffers have been allocated.
    #[test]
    fn the_load_runs_before_the_measurement_starts() {
        let work = path("[source]\nkind = \"generator\"\n[[stage]]\nkind = \"parse\"\n");
        let generator = Generator { sizes: &[60], flows: 8, seed: 1 };
        let traffic = Traffic::generate(generator, 2048, &[]).expect("valid parameters");
        let job = Job::new(&work, linerate_stages::EXTENSION.stages, &traffic, &[0]);
        let workers = || {
            let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it").flatten();
            let names = tasks.flat_map(|task| std::fs::read_to_string(task.path().join("comm")));
            names.filter(|name| name.trim() == "worker 0.0").count()
        };
        let running = AtomicBool::new(false);
        assert_eq!(while_loaded(&job, &running, workers).expect("it runs"), 1);
    }

    #[test]
    fn names_the_stage_that_the_load_lacks() {
        let like = path("[source]\nkind = \"generator\"\n[[stage]]\nkind = \"parse\"\n");
        let error = packet_work(&like, &[]).expect_err("no stages").to_string();
        assert!(error.contains("parse") && error.contains("verify"), "{error}");
    }
}
