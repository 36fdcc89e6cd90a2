// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages and mappings of simulated paths.

use super::Dice;
use linerate_path::model::{Mapping, Segment};
use linerate_path::spec::{StageSpec, State};

pub(crate) fn name(stage: usize) -> String {
    format!("stage{stage}")
}

/// Returns one specification per stage; those in `global` have global state.
pub(crate) fn kinds(stages: usize, global: &[usize]) -> Vec<StageSpec> {
    let state = |i| {
        if global.contains(&i) { State::Global } else { State::PerFlow }
    };
    let spec = |i| StageSpec {
        kind: "stage",
        help: "",
        params: &[],
        needs_headers: false,
        state: state(i),
        keeps_order: true,
        drop_causes: &[],
    };
    (0..stages).map(spec).collect()
}

pub(crate) fn mapping(parts: &[(usize, u32)]) -> Mapping {
    let mut start = 0;
    let segment = |&(stages, replicas): &(usize, u32)| {
        let range = start..start + stages;
        start += stages;
        Segment { stages: range, replicas, cpus: Vec::new() }
    };
    Mapping { segments: parts.iter().map(segment).collect() }
}

/// Returns a random mapping of `stages` stages onto at most `cpus` workers.
pub(crate) fn random_mapping(dice: &mut Dice, stages: usize, cpus: usize) -> Mapping {
    let (mut parts, mut left, mut free) = (Vec::new(), stages, cpus);
    while left > 0 {
        let take = if free == 1 { left } else { 1 + dice.below(left) };
        let most = if take == left { free } else { free - 1 };
        let replicas = 1 + dice.below(most).min(dice.below(most));
        parts.push((take, replicas as u32));
        (left, free) = (left - take, free - replicas);
    }
    mapping(&parts)
}
