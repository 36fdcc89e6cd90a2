// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs random paths and stops them at random times. Each run must terminate with a balanced ledger
//! and preserve the order within buckets.

mod common;
#[path = "common/conserved.rs"]
mod conserved;

use common::{OPTIONS, kinds, mapping, path, run_on_one, stage, traffic};
use conserved::assert_conserved;
use fastrand::Rng;
use linerate_dataplane::{Job, Outcome, Watch, run};
use linerate_path::model::{FullRing, IdlePolicy, IdleRules, Rate, RunLength, RunOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Number of random paths to run; each takes some 50 ms.
const CASES: usize = 40;

/// Time after which a run that has not ended counts as hung.
const PATIENCE: Duration = Duration::from_secs(30);

fn one_of<T: Copy>(random: &mut Rng, all: &[T]) -> T {
    all[random.usize(..all.len())]
}

#[derive(Clone, Debug)]
struct Case {
    segments: Vec<(usize, u32)>,
    options: RunOptions,
    idle: IdleRules,
    audit: bool,
    confine: Option<usize>,
    stop_after: Option<Duration>,
}

impl Case {
    fn random(random: &mut Rng) -> Self {
        let mut segments = Vec::new();
        let mut left = 4;
        while left > 0 {
            let stages = 1 + random.u64(..left) as usize;
            segments.push((stages, one_of(random, &[1, 1, 2, 3])));
            left -= stages as u64;
        }
        let length = match random.u64(..3) {
            0 => RunLength::Seconds(0.03),
            1 => RunLength::Packets(random.u64(..30)),
            _ => RunLength::Packets(random.u64(..30_000)),
        };
        let rate = match random.u64(..4) {
            0 => Rate::Capture,
            1 => Rate::PacketsPerSecond(1e4 * 10_f64.powi(random.u64(..6) as i32)),
            _ => Rate::Max,
        };
        Self {
            segments,
            options: RunOptions {
                length,
                rate,
                burst: one_of(random, &[1, 2, 7, 32, 255, 256]),
                ring: one_of(random, &[2, 4, 16, 256, 4096]),
                full_ring: one_of(random, &[FullRing::Wait, FullRing::Drop]),
            },
            idle: IdleRules {
                policy: one_of(random, &IdlePolicy::ALL),
                park_after_s: one_of(random, &[None, Some(0.0), Some(1e-5)]),
                workers: vec![None, Some(one_of(random, &IdlePolicy::ALL))],
            },
            audit: random.u64(..2) == 0,
            confine: one_of(random, &[None, None, Some(1), Some(100)]),
            stop_after: one_of(random, &[None, Some(0), Some(1), Some(30), Some(70)])
                .map(Duration::from_millis),
        }
    }

    /// Runs the case with all workers on at most two CPUs, because other tests need CPUs too.
    fn run(&self) -> Outcome {
        let stages = ["drop", "number", "spin", "trim"].map(|kind| stage(kind, "turns", 20));
        let (path, mapping) = (path(stages.to_vec()), mapping(&self.segments));
        let some = linerate_linux::allowed_cpus().expect("a list of processors");
        let cpus: Vec<u32> = some.iter().take(2).cycle().take(mapping.workers()).copied().collect();
        let (kinds, traffic) = (kinds(), traffic());
        let job = Job {
            mapping: &mapping,
            options: self.options,
            idle: &self.idle,
            oversubscribe: mapping.workers() > some.len().min(2),
            confine: self.confine,
            audit: self.audit,
            replay: true,
            ..Job::new(&path, &kinds, &traffic, &cpus)
        };
        let stop = AtomicBool::new(self.stop_after == Some(Duration::ZERO));
        std::thread::scope(|scope| {
            let (ended, end) = channel::<()>();
            if let Some(delay) = self.stop_after {
                let stop = &stop;
                scope.spawn(move || {
                    if end.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
                        stop.store(true, Ordering::Relaxed);
                    }
                });
            }
            let outcome = run(&job, &Watch::new(&stop, &|_, _| {}));
            drop(ended);
            outcome.expect("nothing is broken")
        })
    }

    fn check(&self, outcome: &Outcome) {
        let report = &outcome.report;
        assert_conserved(report);
        assert!(report.rings.iter().all(|ring| ring.held == 0), "all rings are drained");
        let sinks =
            report.workers.iter().filter_map(|s| s.stages.iter().find(|s| s.name == "sink"));
        let delivered: u64 = sinks.map(|sink| sink.ledger.consumed.packets).sum();
        assert_eq!(outcome.kept.len() as u64, delivered);
        let offered = report.workers.iter().map(|s| &s.stages[0]).filter(|s| s.name == "source");
        let offered: u64 = offered.map(|source| source.ledger.created.packets).sum();
        match self.options.length {
            RunLength::Packets(packets) if self.stop_after.is_none() && self.confine.is_none() => {
                assert_eq!(offered, packets);
            }
            RunLength::Packets(packets) => assert!(offered <= packets),
            RunLength::Seconds(_) => {}
        }
        self.check_order(outcome);
    }

    fn check_order(&self, outcome: &Outcome) {
        let traffic = traffic();
        let mut last = [None; linerate_dataplane::BUCKETS];
        for (position, _, frame) in outcome.kept.iter() {
            assert!(position % 7 != 0, "{position} was dropped");
            let of = traffic.frames()[position as usize % traffic.len()];
            let last = &mut last[usize::from(of.bucket)];
            assert!(*last < Some(position), "{position} after {last:?} of bucket {}", of.bucket);
            *last = Some(position);
            assert_eq!(frame.len(), 60.min(usize::from(of.bytes) + 2));
        }
    }
}

#[test]
fn runs_of_every_shape_end_and_add_up() {
    let mut random = Rng::with_seed(1);
    for _ in 0..CASES {
        let case = Case::random(&mut random);
        let (sender, receiver) = channel();
        let own = case.clone();
        let thread = std::thread::spawn(move || {
            let outcome = own.run();
            own.check(&outcome);
            sender.send(()).expect("the receiver is waiting");
        });
        match receiver.recv_timeout(PATIENCE) {
            Ok(()) => thread.join().expect("it has ended well"),
            Err(RecvTimeoutError::Timeout) => panic!("hangs: {case:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("fails: {case:?}"),
        }
    }
}

#[test]
fn rings_of_two_and_bursts_of_many_do_not_lock_up() {
    let path = path(vec![stage("number", "", 0), stage("trim", "", 0), stage("drop", "", 0)]);
    let options = RunOptions { burst: 256, ring: 2, ..OPTIONS };
    let outcome = run_on_one(&path, &mapping(&[(1, 3), (1, 3), (1, 3)]), options).expect("ends");
    assert_conserved(&outcome.report);
    assert_eq!(outcome.kept.len(), 20_000 - 20_000_usize.div_ceil(7));
}
