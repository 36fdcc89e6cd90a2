// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring runs on the processors at hand, alone or beside a load.

use crate::failure::Failure;
use crate::kinds::{kinds, specs};
use crate::processors::assign;
use crate::progress::Progress;
use linerate_dataplane::traffic::Traffic;
use linerate_dataplane::{Counting, Job, Watch};
use linerate_kernels::Kernels;
use linerate_path::check::read;
use linerate_path::model::{Mapping, Path, Rate, RunLength, RunOptions};
use linerate_record::run::RunReport;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A load ends with the run it stands beside; this is only its bound.
const LOAD_SECONDS_MAX: f64 = 60.0;

/// A path of ordinary packet work: every header looked at, every byte summed.
const PACKET_WORK: &str = "\
[source]\nkind = \"generator\"\n[[stage]]\nkind = \"parse\"\n[[stage]]\nkind = \"verify\"\n";

/// The path of packet work with the source, the buffers and the options of `like`; its rate is not
/// paced.
///
/// # Panics
/// Never: the text is fixed, and a test reads it.
pub(crate) fn packet_work(like: &Path) -> Path {
    let work = read(PACKET_WORK, "work", specs()).expect("the text is a path").path;
    let run = RunOptions { rate: Rate::Max, ..like.run };
    Path { source: like.source.clone(), run, ..work }
}

/// Runs mappings on the processors at hand.
pub(crate) struct Bench<'a> {
    /// The path at hand.
    pub(crate) path: &'a Path,
    /// Its packets.
    pub(crate) traffic: &'a Traffic,
    /// The processors, best first.
    pub(crate) cpus: &'a [u32],
    /// Whether the processors are virtual, so that other guests may share their cores.
    pub(crate) is_guest: bool,
    /// Checksum and copy for all workers.
    pub(crate) kernels: Kernels,
    /// Set when the user wants an end.
    pub(crate) stop: &'a AtomicBool,
    /// What a person sees meanwhile.
    pub(crate) progress: &'a Progress,
    /// Seconds of measuring done.
    pub(crate) done: &'a Cell<f64>,
    /// Seconds of measuring planned.
    pub(crate) planned: f64,
}

impl Bench<'_> {
    /// The same with the processors in another order.
    pub(crate) fn on<'b>(&'b self, cpus: &'b [u32]) -> Bench<'b> {
        Bench { cpus, done: self.done, ..*self }
    }

    /// The same with other kernels.
    pub(crate) fn with(&self, kernels: Kernels) -> Bench<'_> {
        Bench { kernels, ..*self }
    }

    /// Runs `mapping` of the path for so many seconds, and tells the share of the kernels and what
    /// hardware counters show.
    pub(crate) fn profile(
        &self,
        mapping: &Mapping,
        burst: u32,
        seconds: f64,
    ) -> Result<RunReport, Failure> {
        let cpus = assign(self.path, mapping, self.cpus, false)?;
        let options = RunOptions { burst, ..self.path.run };
        let counting = Counting::of_this_machine();
        let job = self.job(self.path, mapping, &cpus, options);
        self.measure(Job { replay: true, counting: Some(&counting), ..job }, seconds)
    }

    /// Runs `mapping` of `path` for so many seconds; with `confine` the source repeats that many
    /// packets.
    pub(crate) fn run(
        &self,
        path: &Path,
        mapping: &Mapping,
        burst: u32,
        seconds: f64,
        confine: Option<usize>,
    ) -> Result<RunReport, Failure> {
        let cpus = assign(path, mapping, self.cpus, false)?;
        let options = RunOptions { burst, ..path.run };
        self.measure(Job { confine, ..self.job(path, mapping, &cpus, options) }, seconds)
    }

    fn measure(&self, job: Job<'_>, seconds: f64) -> Result<RunReport, Failure> {
        let options = RunOptions { length: RunLength::Seconds(seconds), ..job.options };
        let job = Job { options, ..job };
        let before = self.done.get();
        let at = |_: &str, share: f64| self.progress.at((before + share * seconds) / self.planned);
        let watch = Watch::new(self.stop, &at);
        let outcome = linerate_dataplane::run(&job, &watch).map_err(Failure::new)?;
        self.done.set(before + seconds);
        Ok(outcome.report)
    }

    /// As [`Bench::run`], while packet work keeps the processors busy that the mapping leaves free.
    pub(crate) fn run_loaded(
        &self,
        path: &Path,
        mapping: &Mapping,
        burst: u32,
        seconds: f64,
        confine: Option<usize>,
    ) -> Result<RunReport, Failure> {
        let used = assign(path, mapping, self.cpus, false)?;
        let free: Vec<u32> = self.cpus.iter().copied().filter(|cpu| !used.contains(cpu)).collect();
        if free.is_empty() {
            return self.run(path, mapping, burst, seconds, confine);
        }
        let load_path = packet_work(self.path);
        let mut load = Mapping::merged(load_path.stages.len());
        load.segments[0].replicas = free.len() as u32;
        let options = RunOptions { length: RunLength::Seconds(LOAD_SECONDS_MAX), ..load_path.run };
        let job = self.job(&load_path, &load, &free, options);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let load =
                scope.spawn(|| linerate_dataplane::run(&job, &Watch::new(&stop, &|_, _| {})));
            let measured = self.run(path, mapping, burst, seconds, confine);
            stop.store(true, Ordering::Relaxed);
            match load.join() {
                Ok(Ok(_)) => measured,
                Ok(Err(error)) => Err(Failure::new(error)),
                Err(_) => Err(Failure::new("the load beside a calibrating run panicked")),
            }
        })
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
            kernels: self.kernels,
            ..Job::new(path, kinds(), self.traffic, cpus)
        }
    }

    /// Whether the user wants an end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_work_is_a_path() {
        let text = "[source]\nkind = \"generator\"\n[[stage]]\nkind = \"parse\"\n";
        let like = read(text, "like", specs()).expect("a path").path;
        let work = packet_work(&like);
        assert_eq!(work.stages.len(), 2);
        assert_eq!(work.source, like.source);
    }
}
