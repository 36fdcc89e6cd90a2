// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the rules for a mapping, and its short form.

use crate::generate::{cases, mapping, specs};
use linerate_path::mapping::{Refusal, describe};
use linerate_path::model::{Mapping, PacketClass, Params, Segment, StageUse};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;

const KINDS: [&str; 6] = ["parse", "verify", "filter", "nat44", "verify", "count"];

fn stages() -> Vec<StageUse> {
    let name = |(i, kind): (usize, &&str)| StageUse {
        name: format!("{kind}{i}"),
        kind: (*kind).to_owned(),
        only: PacketClass::All,
        params: Params::new(),
    };
    KINDS.iter().enumerate().map(name).collect()
}

fn segment(stages: Range<usize>, replicas: u32, cpus: &[u32]) -> Segment {
    Segment { stages, replicas, cpus: cpus.to_vec() }
}

/// Parses the short form of a mapping, as the documentation of `describe` defines it.
fn undescribed(text: &str, stages: &[StageUse]) -> Mapping {
    let index = |name: &str| stages.iter().position(|s| s.name == name).expect("a known name");
    let segment = |part: &str| {
        let (names, replicas) = match part.split_once(" x") {
            Some((names, replicas)) => (names, replicas.parse().expect("a number")),
            None => (part, 1),
        };
        let first = names.split(['+', '…']).next().expect("a first name");
        let last = names.split(['+', '…']).next_back().expect("a last name");
        Segment { stages: index(first)..index(last) + 1, replicas, cpus: Vec::new() }
    };
    Mapping { segments: text.split(" | ").map(segment).collect() }
}

/// Returns whether the mapping can be run, according to rules that are stated independently of the
/// code under test.
fn runs(mapping: &Mapping) -> bool {
    let in_order: Vec<usize> = mapping.segments.iter().flat_map(|s| s.stages.clone()).collect();
    let cpus: Vec<u32> = mapping.segments.iter().flat_map(|s| s.cpus.clone()).collect();
    in_order.iter().copied().eq(0..KINDS.len())
        && mapping.segments.iter().all(|s| {
            !s.stages.is_empty()
                && s.replicas >= 1
                && (s.cpus.is_empty() || s.cpus.len() == s.replicas as usize)
                && !(s.replicas > 1 && KINDS[s.stages.clone()].contains(&"count"))
        })
        && cpus.iter().collect::<BTreeSet<_>>().len() == cpus.len()
        && mapping.workers() <= 64
}

fn any_mapping() -> impl Strategy<Value = Mapping> {
    let replicas = prop_oneof![8 => 0_u32..3, 1 => 30_u32..70];
    let segment = (0..7_usize, 0..7_usize, replicas, prop::collection::vec(0_u32..6, 0..3));
    prop::collection::vec(segment, 0..4).prop_map(|segments| Mapping {
        segments: segments
            .into_iter()
            .map(|(start, end, replicas, cpus)| Segment { stages: start..end, replicas, cpus })
            .collect(),
    })
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn the_short_form_loses_nothing_but_processors(mapping in mapping(specs(KINDS))) {
        let mut bare = mapping.clone();
        bare.segments.iter_mut().for_each(|segment| segment.cpus.clear());
        prop_assert_eq!(undescribed(&describe(&mapping, &stages()), &stages()), bare);
    }

    #[test]
    fn the_check_agrees_with_the_rules(good in mapping(specs(KINDS)), any in any_mapping()) {
        prop_assert!(runs(&good));
        prop_assert_eq!(good.check(&specs(KINDS)), Ok(()));
        prop_assert_eq!(any.check(&specs(KINDS)).is_ok(), runs(&any), "{:?}", any);
    }

    #[test]
    fn one_change_to_a_good_mapping_is_judged_right(
        mut changed in mapping(specs(KINDS)),
        at in any::<prop::sample::Index>(),
        change in 0..5,
    ) {
        let at = at.index(changed.segments.len());
        let segment = &mut changed.segments[at];
        match change {
            0 => segment.replicas += 1,
            1 => segment.replicas = 0,
            2 => segment.cpus.push(100),
            3 => segment.stages.end += 1,
            _ => segment.stages.start += 1,
        }
        prop_assert_eq!(changed.check(&specs(KINDS)).is_ok(), runs(&changed), "{:?}", changed);
    }
}

#[test]
fn describes_in_one_line() {
    let mapping = Mapping {
        segments: vec![segment(0..2, 1, &[]), segment(2..5, 2, &[]), segment(5..6, 1, &[])],
    };
    assert_eq!(
        describe(&mapping, &stages()),
        "parse0+verify1 | filter2+nat443+verify4 x2 | count5"
    );
    assert_eq!(describe(&Mapping::merged(6), &stages()), "parse0…count5");
    assert_eq!(describe(&Mapping::merged(9), &stages()), "", "a mapping of another path");
}

#[test]
fn says_why() {
    let refused = |segments: Vec<Segment>| Mapping { segments }.check(&specs(KINDS));
    for (segments, refusal) in [
        (
            vec![segment(0..3, 1, &[]), segment(4..6, 1, &[])],
            Refusal::NotConsecutive { segment: 1 },
        ),
        (vec![segment(0..5, 1, &[])], Refusal::NotCovered { stage: 5 }),
        (vec![segment(0..7, 1, &[])], Refusal::NotCovered { stage: 6 }),
        (vec![segment(0..6, 0, &[])], Refusal::NoReplica { segment: 0 }),
        (vec![segment(0..6, 1, &[1, 2])], Refusal::CpuCount { segment: 0, cpus: 2, replicas: 1 }),
        (
            vec![segment(0..1, 2, &[1, 2]), segment(1..6, 1, &[2])],
            Refusal::CpuTwice { segment: 1, index: 0, cpu: 2 },
        ),
        (vec![segment(0..6, 2, &[])], Refusal::GlobalState { segment: 0, stage: 5, kind: "count" }),
        (
            vec![segment(0..1, 33, &[]), segment(1..2, 33, &[]), segment(2..6, 1, &[])],
            Refusal::TooManyWorkers { segment: 1, workers: 66 },
        ),
    ] {
        assert_eq!(refused(segments), Err(vec![refusal]));
    }
}
