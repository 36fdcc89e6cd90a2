// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that a run's ledgers account for every packet.

use linerate_record::run::{RunReport, Tally, WorkerReport};

/// Checks the input and output of every stage, and the packets passed between workers. The bytes of
/// packets that are still in a ring are unknown, so bytes must balance only if all rings are empty.
pub(crate) fn assert_conserved(report: &RunReport) {
    for worker in &report.workers {
        for stage in &worker.stages {
            let ledger = &stage.ledger;
            assert!(ledger.is_conserved(), "{} {}: {ledger:?}", worker.name, stage.name);
        }
        for pair in worker.stages.windows(2) {
            // Packets that bypassed a stage leave it as well. Only their number is known.
            let left = pair[0].ledger.output.packets + pair[0].bypassed;
            assert_eq!(left, pair[1].ledger.input.packets + pair[1].bypassed, "{}", pair[1].name);
            let [left, given] = [pair[0].ledger.output, pair[1].ledger.input].map(|t| t.bytes);
            let is_whole = pair[0].bypassed + pair[1].bypassed == 0;
            assert!(!is_whole || left == given, "{}: {left} and {given} bytes", pair[1].name);
        }
    }
    let last = report.workers.iter().map(|s| s.segment).max().expect("a run has workers");
    for segment in 0..last {
        let sum = |segment, pick: &dyn Fn(&WorkerReport) -> Tally| {
            let workers = report.workers.iter().filter(move |s| s.segment == segment);
            workers.map(pick).sum::<Tally>()
        };
        let out = sum(segment, &|s| s.stages.last().expect("a tail").ledger.output);
        let next = sum(segment + 1, &|s| s.stages[0].ledger.input);
        let rings = report.rings.iter().filter(|r| r.name.starts_with(&format!("{segment}.")));
        let held: u64 = rings.map(|ring| ring.held).sum();
        assert_eq!(out.packets, next.packets + held, "out of segment {segment}");
        assert!(held > 0 || out.bytes == next.bytes, "out of segment {segment}");
    }
}
