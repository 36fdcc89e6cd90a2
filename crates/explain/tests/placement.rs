// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests answers about workers that share CPUs and cores, for every form of record.

#[path = "../../plan/tests/reference/sim.rs"]
#[expect(dead_code, reason = "one of its worlds is enough here")]
mod sim;

use linerate_explain::questions::{Inquiry, ask};
use linerate_record::answers::{Answer, AnswerVerdict};
use linerate_record::run::RunReport;
use linerate_record::{Body, Provenance, Record};
use proptest::prelude::*;
use sim::{Dice, World, mapping, run};
use std::sync::OnceLock;

/// Where workers are, as far as a record shows it.
#[derive(Clone, Debug)]
struct Places {
    /// The CPU of each worker.
    workers: Vec<u32>,
    /// The CPUs that the program was allowed to use.
    cpus: Vec<u32>,
    siblings: Option<Vec<Vec<u32>>>,
    available: Option<u32>,
}

impl Places {
    fn share_a_cpu(&self) -> bool {
        (1..self.workers.len()).any(|at| self.workers[..at].contains(&self.workers[at]))
    }

    fn share_a_core(&self) -> bool {
        let used = |core: &Vec<u32>| self.workers.iter().filter(|cpu| core.contains(cpu)).count();
        self.share_a_cpu() || self.siblings.iter().flatten().any(|core| used(core) > 1)
    }

    /// Returns whether the record shows for certain that no two workers shared a core.
    fn are_shown_apart(&self) -> bool {
        let crowded = self.available.is_some_and(|cpus| self.workers.len() > cpus as usize);
        let known = self.workers.iter().all(|cpu| self.cpus.contains(cpu));
        self.siblings.is_some() && known && !crowded && !self.share_a_core()
    }

    fn record(&self) -> Record {
        let mut run = of_three_workers().clone();
        for (worker, cpu) in run.workers.iter_mut().zip(&self.workers) {
            worker.cpu = *cpu;
        }
        run.cpus_available = self.available;
        let (cpus, siblings) = (self.cpus.clone(), self.siblings.clone());
        let provenance = Provenance { cpus, siblings, ..Provenance::default() };
        Record { provenance, body: Body::Run(Box::new(run)) }
    }

    fn answer(&self, id: &str) -> Answer {
        let record = self.record();
        let asked = Inquiry {
            record: &record,
            file: "run.json",
            against: None,
            processor: None,
            line_bits_per_s: None,
            costs: None,
        };
        ask(&asked, Some(id)).expect("a question").answers.remove(0)
    }
}

/// Returns a run with three workers, of which the first is the slowest; the others poll.
fn of_three_workers() -> &'static RunReport {
    static RUN: OnceLock<RunReport> = OnceLock::new();
    RUN.get_or_init(|| {
        let mut world = World::random(&mut Dice::new(3), 3);
        world.stages = vec![400.0, 50.0, 50.0];
        world.capture = vec![(0, None); 16];
        (world.period, world.jitter, world.slowdown, world.drop_when_full) = (0.0, 0.0, 1.0, false);
        run(&world, &mapping(&[(1, 1), (1, 1), (1, 1)]), 0.01, 1)
    })
}

const CPUS: u32 = 6;

fn places() -> impl Strategy<Value = Places> {
    let cpus = || proptest::collection::vec(0..CPUS, 0..6);
    let siblings = proptest::option::of(proptest::collection::vec(cpus(), 0..4));
    let available = proptest::option::of(0..CPUS);
    let usable = prop_oneof![Just((0..CPUS).collect::<Vec<u32>>()), cpus()];
    (proptest::collection::vec(0..CPUS, 3), usable, siblings, available).prop_map(
        |(workers, cpus, siblings, available)| Places { workers, cpus, siblings, available },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn workers_are_called_apart_only_where_the_record_shows_it(places in places()) {
        let placement = places.answer("placement");
        let wanted = match (places.share_a_core(), places.are_shown_apart()) {
            (true, _) => AnswerVerdict::Answered,
            (false, true) => AnswerVerdict::DoesNotArise,
            (false, false) => AnswerVerdict::CannotTell,
        };
        // Siblings in a record with more workers than CPUs are not trusted, because the recorded
        // CPUs are not the ones that were used.
        let crowded = places.available.is_some_and(|cpus| cpus < 3) && !places.share_a_cpu();
        let wanted = if crowded { AnswerVerdict::CannotTell } else { wanted };
        prop_assert_eq!(placement.verdict, wanted, "{:?} {:?}", places, placement);
        let parking = places.answer("parking");
        if parking.verdict == AnswerVerdict::DoesNotArise {
            let polling = Places { workers: places.workers[1..].to_vec(), ..places.clone() };
            prop_assert!(!polling.share_a_core(), "{:?} {:?}", places, parking);
            prop_assert!(places.siblings.is_some() && !crowded, "{:?} {:?}", places, parking);
        }
    }
}

#[test]
fn workers_that_share_cpus_are_named() {
    let places = Places {
        workers: vec![0, 1, 0],
        cpus: vec![0, 1],
        siblings: Some(Vec::new()),
        available: Some(2),
    };
    let placement = places.answer("placement");
    assert_eq!(placement.verdict, AnswerVerdict::Answered);
    assert_eq!(placement.sentence, "it matters now, because 2 workers share 1 CPU: 0.0, 2.0");
    let parking = places.answer("parking");
    assert_eq!(parking.verdict, AnswerVerdict::Answered, "{parking:?}");
    assert!(parking.sentence.contains("2.0 busy-poll, and share their CPUs"), "{parking:?}");
}
