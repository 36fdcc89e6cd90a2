// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests warnings about stages that let no packet through or have nothing to do.

use crate::example::run_report;
use linerate_record::run::{DeadEnd, Ledger, RunReport, Tally};
use linerate_record::{Body, Warning};
use std::collections::BTreeMap;

/// Builds a run with two replicas of `parse` and `verify`. In each replica, `verify` drops packets
/// for the given causes and lets none through.
fn run(drops: [&[(&str, u64)]; 2]) -> RunReport {
    let mut report = run_report();
    let mut worker = report.workers.remove(0);
    worker.stages.iter_mut().for_each(|stage| stage.bypassed = 0);
    for drops in drops {
        let mut worker = worker.clone();
        let verify = &mut worker.stages[1].ledger;
        let tally = |packets: &u64| Tally { packets: *packets, bytes: 64 * packets };
        verify.drops = drops.iter().map(|(cause, n)| ((*cause).to_owned(), tally(n))).collect();
        verify.output = Tally::default();
        report.workers.push(worker);
    }
    report
}

#[test]
fn the_stage_that_nothing_left_is_found_with_its_causes() {
    let ended = |run: &RunReport| run.dead_end();
    let [few, many]: [&[_]; 2] = [&[("bad", 300), ("cut", 693)], &[("bad", 993)]];
    let dead = run([few, many]);
    let causes = vec!["bad".to_owned(), "cut".to_owned()];
    let expected = DeadEnd { stage: "verify".to_owned(), packets: 2000, causes, passed: 0 };
    assert_eq!(ended(&dead), Some(expected));

    // One replica lets a packet through, or still holds one that it may let through, so there is no
    // dead end.
    let mut alive = dead.clone();
    alive.workers[1].stages[1].ledger.output.packets = 1;
    assert_eq!(ended(&alive), None);
    let mut held = dead.clone();
    held.workers[0].stages[1].ledger.held.packets = 1;
    assert_eq!(ended(&held), None);

    // The stage that dropped nearly all packets is reported, not the stage that dropped the last
    // few.
    let mut two = dead.clone();
    for worker in &mut two.workers {
        let mut last = worker.stages[1].clone();
        let few = Tally { packets: 7, bytes: 448 };
        let verify = &mut worker.stages[1].ledger;
        verify.drops.get_mut("bad").expect("a cause").packets -= 7;
        verify.output = few;
        "count".clone_into(&mut last.name);
        (last.ledger.input, last.ledger.drops) = (few, [("odd".to_owned(), few)].into());
        worker.stages.insert(2, last);
    }
    let end = ended(&two).expect("a dead end");
    assert_eq!((end.stage.as_str(), end.packets, end.passed), ("verify", 2000, 14));
    assert!(end.to_string().starts_with("`verify` dropped all but 14 of the 2,000 "), "{end}");

    let mut consumed = dead.clone();
    for worker in &mut consumed.workers {
        let ledger = &mut worker.stages[1].ledger;
        (ledger.drops, ledger.consumed) = (BTreeMap::new(), ledger.input);
    }
    assert_eq!(ended(&consumed).map(|end| end.causes), Some(Vec::new()));

    // Packets that bypassed the stage count as let through.
    let mut branch = dead.clone();
    branch.workers[1].stages[1].bypassed = 1;
    assert_eq!(ended(&branch), None);

    assert_eq!(ended(&run_report()), None, "packets came through");
    let mut idle = dead;
    idle.workers.iter_mut().flat_map(|worker| &mut worker.stages).for_each(|stage| {
        stage.ledger.input = Tally::default();
    });
    assert_eq!(ended(&idle), None, "no packet was offered");
}

/// Returns a run whose interface refused `refused` of 1000 packets with cause `tx_down`.
fn refusing(refused: u64) -> RunReport {
    let mut report = run_report();
    report.workers.truncate(1);
    let stage = |name: &str| {
        let mut stage = report.workers[0].stages[0].clone();
        name.clone_into(&mut stage.name);
        (stage.packets, stage.kpps, stage.bypassed) = (1000, Some(50.0), 0);
        let tally = |packets| Tally { packets, bytes: 64 * packets };
        stage.ledger = Ledger { input: tally(1000), output: tally(1000), ..Ledger::default() };
        stage.drops.clear();
        stage
    };
    let (source, mut sink) = (stage("source"), stage("sink"));
    let lost = Tally { packets: refused, bytes: 64 * refused };
    let ledger = &mut sink.ledger;
    ledger.output = Tally::default();
    ledger.consumed = Tally { packets: 1000 - refused, bytes: 64 * (1000 - refused) };
    ledger.drops = BTreeMap::from([("tx_down".to_owned(), lost)]);
    sink.drops = BTreeMap::from([("tx_down".to_owned(), refused)]);
    report.workers[0].stages = vec![source, stage("verify"), sink];
    report
}

#[test]
fn interfaces_that_refuse_all_packets_are_a_dead_end() {
    let end = refusing(1000).dead_end().expect("nothing was sent");
    assert_eq!(end.to_string(), "the interfaces refused all 1,000 packets (tx_down)");
    assert_eq!(end.outcome(), "no packet was sent");
    assert!(end.is_drop() && end.remedy().contains("ip link set"), "{}", end.remedy());
    assert_eq!(refusing(999).dead_end(), None);

    // A stage that drops most packets by design does not hide the interface.
    let mut filtered = refusing(1000);
    let tally = |packets| Tally { packets, bytes: 64 * packets };
    let [_, stage, sink] = &mut filtered.workers[0].stages[..] else { panic!("three rows") };
    stage.ledger.output = tally(50);
    stage.ledger.drops = BTreeMap::from([("rule".to_owned(), tally(950))]);
    sink.ledger.input = tally(50);
    sink.ledger.drops = BTreeMap::from([("tx_down".to_owned(), tally(50))]);
    let end = filtered.dead_end().expect("nothing was sent");
    assert_eq!(end.to_string(), "the interfaces refused all 50 packets (tx_down)");
}

#[test]
fn packets_that_interfaces_refuse_are_not_delivered() {
    let rate = |refused| refusing(refused).delivered_kpps().as_number();
    assert_eq!((rate(0), rate(800), rate(1000)), (Some(50.0), Some(10.0), Some(0.0)));
    let kept = |refused| refusing(refused).kept_share();
    assert_eq!((kept(0), kept(750), kept(1000)), (1.0, 0.25, 0.0));
}

/// Returns the warnings about idle stages for two replicas of `verify`, given how many packets each
/// received and its reason for idling.
fn idle_warnings(replicas: [(u64, Option<&str>); 2]) -> Vec<Warning> {
    let mut report = run([&[], &[]]);
    for (worker, (packets, idle)) in report.workers.iter_mut().zip(replicas) {
        worker.stages[1].packets = packets;
        worker.stages[1].idle = idle.map(str::to_owned);
    }
    warnings(report)
}

/// Returns the warnings about idle stages.
fn warnings(report: RunReport) -> Vec<Warning> {
    let record = crate::example::record(Body::Run(Box::new(report)));
    let is_idle = |warning: &Warning| matches!(warning, Warning::IdleStage { .. });
    record.warnings().into_iter().filter(is_idle).collect()
}

#[test]
fn warns_of_a_stage_that_found_nothing_to_do_on_any_worker() {
    let expected = [Warning::IdleStage {
        stage: "verify".to_owned(),
        packets: 1200,
        reason: "`l4` = false".to_owned(),
    }];
    assert_eq!(idle_warnings([(900, Some("`l4` = false")), (300, Some("x"))]), expected);
    assert_eq!(idle_warnings([(1200, Some("`l4` = false")), (0, None)]), expected);
    assert_eq!(idle_warnings([(900, Some("`l4` = false")), (300, None)]), []);
    let mut report = run([&[], &[]]);
    for worker in &mut report.workers {
        let stage = &mut worker.stages[1];
        (stage.packets, stage.bypassed, stage.idle) = (0, 600, Some("no class".to_owned()));
    }
    let around = warnings(report.clone());
    assert!(matches!(&around[..], [Warning::IdleStage { packets: 1200, .. }]), "{around:?}");
    report.workers[1].stages[1].packets = 1;
    report.workers[1].stages[1].idle = None;
    assert_eq!(warnings(report), []);
    assert_eq!(
        expected[0].to_string(),
        "`verify` applied to none of the 1200 packets (`l4` = false): its measured cost applies \
         only to such packets; for its full cost, replay packets that its parameters apply to"
    );
}
