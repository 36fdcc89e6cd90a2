// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings and answers for runs measured by these tests.

use crate::rig::{Folder, answered, edge, linerate, record, report};
use linerate_record::Body;
use linerate_record::answers::AnswerVerdict;

#[test]
fn workers_that_share_cpus_are_not_called_alone() {
    let folder = Folder::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rlp-config1.toml");
    let kept = folder.file("run.json");
    let run = ["run", "-q", "--oversubscribe", "--time", "300ms", "--record", &kept, path];
    let done = linerate(&run);
    assert_eq!(done.status, Some(0), "{done:?}");
    let Body::Run(run) = record(&std::fs::read_to_string(&kept).expect("a record")).body else {
        panic!("{kept} is no run")
    };
    let cpus = run.cpus_available.expect("it is recorded") as usize;
    if run.workers.len() <= cpus {
        println!("SKIP: {} workers have {cpus} CPUs here", run.workers.len());
        return;
    }
    for question in ["placement", "parking"] {
        let done = linerate(&["explain", "--json", "--ask", question, &kept]);
        let Body::Answers(answers) = record(&done.stdout).body else { panic!("{done:?}") };
        let answer = &answers.answers[0];
        assert_ne!(answer.verdict, AnswerVerdict::DoesNotArise, "{answer:?}");
    }
}

#[test]
fn the_replay_is_not_a_bottleneck_and_has_a_separate_line() {
    let folder = Folder::new();
    let file = folder.write("path.toml", edge(&[]));
    let run = report(&["run", "--json", "--oversubscribe", "--time", "300ms", &file]);
    if let Some(stage) = run.finding.and_then(|finding| finding.bottleneck) {
        assert!(!["source", "sink", "ring in", "ring out"].contains(&stage.as_str()), "{stage}");
    }
    let text = answered(0, &["run", "-q", "--oversubscribe", "--time", "300ms", &file]);
    assert!(text.contains("\nreplay      source and sink account for "), "{text}");
}
