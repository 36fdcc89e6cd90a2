// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the section `[costs]`: valid costs, stages missing from this build, and all errors.

use crate::kinds::{KINDS, STEM};
use linerate_path::check::{Described, read, read_to_plan};
use linerate_path::costs::{FOREIGN, GivenCosts, Idling};
use linerate_path::spec::State;

/// A valid file of 18 lines: two stages, of which one has a kind missing from this build, and their
/// costs.
const GOOD: &str = "\
[source]
kind = 'generator'
[[stage]]
kind = 'parse'
[[stage]]
kind = 'rlp'
[costs]
from = 'a profile'
[[costs.stages]]
name = 'parse'
ns = 20
[[costs.stages]]
name = 'rlp'
state = 'flow'
instructions = 560
l1_misses = 14.2
l2_misses = 6.4
fitted = ['instructions']
";

fn described(text: &str) -> Described {
    read_to_plan(text, STEM, KINDS).unwrap_or_else(|problems| panic!("{problems}"))
}

fn costs(text: &str) -> GivenCosts {
    described(text).costs.expect("the file has costs")
}

fn messages(text: &str) -> String {
    read_to_plan(text, STEM, KINDS).map_or_else(|e| e.to_string(), |_| "nothing".to_owned())
}

#[test]
fn costs_are_read_in_the_order_of_the_stages() {
    let found = described(GOOD);
    let costs = found.costs.expect("the file has costs");
    assert_eq!((costs.from.as_str(), costs.flows, costs.spread), ("a profile", 1, None));
    let [parse, rlp] = &costs.stages[..] else { panic!("two stages") };
    assert_eq!((parse.ns, parse.reach, parse.work), (Some(20.0), 1.0, None));
    let work = rlp.work.expect("its instructions are there");
    assert_eq!((work.instructions, work.l1_misses, work.l2_misses), (560.0, 14.2, 6.4));
    assert_eq!(
        (rlp.ns, rlp.state, &rlp.fitted[..]),
        (None, Some(State::PerFlow), &["instructions".to_owned()][..])
    );
    let kinds: Vec<&str> = found.specs.iter().map(|spec| spec.kind).collect();
    assert_eq!(kinds, ["parse", FOREIGN.kind]);
    assert_eq!(found.path.stages[1].kind, "rlp");
    let swapped = GOOD.replace("'parse'\nns = 20", "'sink'\nns = 20")
        + "[[costs.stages]]\nname = 'parse'\nns = 3e1\n";
    let costs = self::costs(&swapped);
    assert_eq!(costs.sink.and_then(|sink| sink.ns), Some(20.0));
    assert_eq!((costs.stages[0].ns, costs.source), (Some(30.0), None));
}

#[test]
fn a_foreign_stage_that_says_nothing_of_its_state_keeps_one_for_all() {
    let state = |text: &str| described(text).specs[1].state;
    assert_eq!(state(GOOD), State::PerFlow);
    assert_eq!(state(&GOOD.replace("state = 'flow'\n", "")), State::Global);
    let replicated =
        "[mapping]\nworkers = [{ stages = ['parse'] }, { stages = ['rlp'], replicas = 2 }]\n";
    assert_eq!(messages(&format!("{GOOD}{replicated}")), "nothing");
    let refused = messages(&format!("{}{replicated}", GOOD.replace("state = 'flow'\n", "")));
    assert!(refused.contains("has global state"), "{refused}");
}

#[test]
fn what_can_be_planned_need_not_run() {
    let problems = read(GOOD, STEM, KINDS).expect_err("rlp is not a stage here").to_string();
    assert!(problems.starts_with("6:8: 'kind' cannot be 'rlp'; "), "{problems}");
    assert!(
        problems.ends_with("(a stage defined only in [costs] can be planned, not run)"),
        "{problems}"
    );
    let known = GOOD.replace("kind = 'rlp'", "kind = 'count'\nname = 'rlp'");
    assert!(read(&known, STEM, KINDS).is_ok(), "a path with costs may run");
    let without = &GOOD[..GOOD.find("[costs]").expect("it is there")];
    let to_run = read(without, STEM, KINDS).expect_err("no stage").to_string();
    let own = " (or your own, written with linerate new-stage)";
    let way = " (or any other kind, if [[costs.stages]] gives the stage's costs)";
    assert_eq!(messages(without), to_run.replace(own, way));
    assert!(to_run.contains(own), "{to_run}");
}

#[test]
fn neighbours_are_read() {
    let text = format!(
        "{GOOD}[[costs.neighbours]]\nname = 'rx'\ncpus = [4, 5]\ninstructions = 20\nns = 2400.0\n\
         [[costs.neighbours]]\nname = 'idle'\ndoes = 'spin'\ncpus = [6]\n"
    );
    let neighbours = costs(&text).neighbours;
    assert_eq!(neighbours.len(), 2);
    assert_eq!((neighbours[0].does, &neighbours[0].cpus[..]), (Idling::Polls, &[4, 5][..]));
    assert_eq!((neighbours[0].instructions, neighbours[0].ns), (20.0, 2400.0));
    assert_eq!((neighbours[1].does, neighbours[1].ns), (Idling::Spins, 0.0));
}

/// Mistakes: text to replace in [`GOOD`], its replacement, and the expected message.
const MISTAKES: &[(&str, &str, &str)] = &[
    (
        "name = 'rlp'\nstate",
        "name = 'rpl'\nstate",
        "6:8: 'kind' cannot be 'rlp': [costs] has no figures for this stage; valid: 'parse', \
         'verify', 'filter', 'nat44', 'count'\n13:8: unknown stage 'rpl'; did you mean 'rlp'?",
    ),
    (
        "name = 'rlp'\nstate",
        "name = 'parse'\nstate",
        "6:8: 'kind' cannot be 'rlp': [costs] has no figures for this stage; valid: 'parse', \
         'verify', 'filter', 'nat44', 'count'\n13:8: stage 'parse' already has costs; keep one of \
         the two",
    ),
    (
        "name = 'parse'\nns = 20",
        "name = 'sink'\nns = 20",
        "7:1: stage 'parse' has no costs; add [[costs.stages]] with name = \"parse\"",
    ),
    ("ns = 20", "ns = -1", "11:6: 'ns' is -1; it must be from 0 to 10000000"),
    ("ns = 20", "ns = nan", "11:6: 'ns' is nan; it must be from 0 to 10000000"),
    ("ns = 20", "ns = 1e300", "11:6: 'ns' is 1e300; it must be from 0 to 10000000"),
    ("ns = 20", "ns = 0", "11:6: 'ns' must be above 0"),
    (
        "ns = 20",
        "ns = '20'",
        "11:6: 'ns' must be a number from 0 to 10000000, not a string; example: ns = 1",
    ),
    (
        "ns = 20",
        "reach = 0.5",
        "9:1: the cost is missing: neither 'ns' nor 'instructions' is set; set one of them, or \
         both",
    ),
    (
        "ns = 20",
        "ns = 20\npoll_ns = 3",
        "12:11: 'poll_ns' needs 'instructions'; set 'instructions' (per packet)",
    ),
    ("ns = 20", "ns = 20\nreach = 1.5", "12:9: 'reach' is 1.5; it must be from 0 to 1"),
    ("l2_misses = 6.4", "l2_misses = 16", "17:13: 'l2_misses' (16) exceeds 'l1_misses' (14.2)"),
    (
        "l1_misses = 14.2\n",
        "",
        "16:13: 'l2_misses' needs 'l1_misses'; every L2 miss is also an L1 miss",
    ),
    (
        "l1_misses = 14.2",
        "l1_misses = 600",
        "16:13: 'l1_misses' (600) exceeds 'instructions' (560)",
    ),
    (
        "instructions = 560",
        "instructions = -5",
        "15:16: 'instructions' is -5; it must be from 0 to 10000000",
    ),
    // The only error is the invalid value: as the stage's state is unknown, its replication is not
    // reported.
    (
        "fitted = ['instructions']\n",
        "poll_ns = 1e8\n[mapping]\nworkers = [{ stages = ['parse'] }, \
             { stages = ['rlp'], replicas = 2 }]\n",
        "18:11: 'poll_ns' is 1e8; it must be from 0 to 10000000",
    ),
    (
        "fitted = ['instructions']\n",
        "[[costs.neighbours]]\nname = 'rx'\ncpus = [3]\ninstructions = 1e8\n",
        "21:16: 'instructions' is 1e8; it must be from 0 to 10000000",
    ),
    ("state = 'flow'", "state = 'flows'", "14:9: 'state' cannot be 'flows'; did you mean 'flow'?"),
    (
        "['instructions']",
        "['instruction']",
        "18:11: unknown cost 'instruction'; did you mean 'instructions'?",
    ),
    (
        "['instructions']",
        "['ns']",
        "18:11: 'ns' is not set in this entry; list only costs that this entry sets",
    ),
    (
        "from = 'a profile'\n",
        "",
        "7:1: 'from' is missing in [costs]; example: from = \"a profile\"",
    ),
    (
        "from = 'a profile'",
        "from = 'a profile'\nflows = 0",
        "9:9: 'flows' is 0; it must be from 1 to 64",
    ),
    (
        "from = 'a profile'",
        "from = 'a profile'\nspread = 2",
        "9:10: 'spread' is 2; it must be from 0 to 1",
    ),
    (
        "kind = 'rlp'",
        "kind = 'rlp'\nmtu = 9",
        "7:1: unknown key 'mtu' in [[stage]] of kind 'foreign'; valid: 'kind', 'name', 'only'",
    ),
    (
        "kind = 'rlp'",
        "kind = 'prase'\nname = 'x'",
        "6:8: 'kind' cannot be 'prase': [costs] has no figures for this stage; did you mean \
         'parse'?\n14:8: unknown stage 'rlp'; valid: 'parse', 'x', 'source', 'sink'",
    ),
];

#[test]
fn every_mistake_has_its_place_and_its_words() {
    for (part, changed, expected) in MISTAKES {
        assert!(GOOD.contains(part), "{part}");
        assert_eq!(messages(&GOOD.replacen(part, changed, 1)), *expected, "{changed}");
    }
}

#[test]
fn neighbours_have_processors_of_their_own() {
    let with = |text: &str| messages(&format!("{GOOD}[[costs.neighbours]]\nname = 'rx'\n{text}"));
    assert_eq!(with("does = 'spin'\ncpus = []\n"), "22:8: 'cpus' must not be empty");
    assert_eq!(with("cpus = [1]\n"), "19:1: a poll takes at least 1 instruction");
    assert_eq!(
        with("does = 'spin'\ncpus = [1, 2, 1]\n"),
        "22:15: CPU 1 is used twice; each neighbour needs its own CPUs"
    );
    let many: Vec<String> = (0..65).map(|cpu| cpu.to_string()).collect();
    let many = with(&format!("does = 'spin'\ncpus = [{}]\n", many.join(",")));
    assert!(many.contains("neighbours use 65 CPUs; the limit is 64"), "{many}");
}
