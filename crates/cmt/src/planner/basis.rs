// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collects the figures on which a simulated plan is based, and where each figure comes from.

use super::rates::MODEL_ERROR;
use super::setup::MEMORY_SHARE;
use super::simulator::Simulator;
use linerate_plan::inputs::{input, origin};
use linerate_plan::sample::UNKNOWN_SPREAD;
use linerate_record::plan::{Input, Origin};
use linerate_record::units::three_digits;

impl Simulator<'_> {
    pub(super) fn inputs(&self) -> Vec<Input> {
        let costs = self.simulation.costs;
        let mut list: Vec<Input> = Vec::new();
        for (cost, work) in costs.stages.iter().zip(&self.world.works) {
            let figures = [
                ("instructions", work.instructions),
                ("l1_misses", work.l1_misses),
                ("l2_misses", work.l2_misses),
                ("io_ns", work.io_ns),
                ("bubble_cycles", work.bubble_cycles),
                ("poll_instructions", work.poll_instructions),
                ("poll_ns", work.poll_ns),
                ("turn_instructions", work.turn_instructions),
                ("turn_ns", work.turn_ns),
            ];
            list.extend(figures.into_iter().filter(|(_, value)| *value > 0.0).map(
                |(key, value)| {
                    let name = format!("{} {key}", cost.name);
                    input(&name, &three_digits(value), origin(cost, key))
                },
            ));
        }
        let is = |given| if given { Origin::Given } else { Origin::Assumed };
        let hand_over = format!("{} cycles", self.world.hand_over_cycles());
        let spread = 100.0 * costs.spread.unwrap_or(UNKNOWN_SPREAD);
        let percent = |share: f64| format!("{} % either way", three_digits(share));
        if let Some(unit) = self.simulation.chip.unit("lsu") {
            let share = three_digits(costs.memory_share.unwrap_or(MEMORY_SHARE));
            let name = format!("{} uses per instruction", self.simulation.chip.units[unit].name);
            list.push(input(&name, &share, is(costs.memory_share.is_some())));
        }
        list.extend([
            input("hand-over", &hand_over, is(costs.handover_ns.is_some())),
            input("cost uncertainty", &percent(spread), is(costs.spread.is_some())),
            input("simulator error", &percent(100.0 * MODEL_ERROR), Origin::Assumed),
        ]);
        list
    }
}
