// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulator of strands against one that knows no shortcut; plans by it against what must never
//! be and what the Netra document has.

mod cycle_by_cycle;
#[path = "../../../plan/tests/reference/one_state.rs"]
mod one_state;
mod planner;
#[path = "../../../plan/tests/reference/sim.rs"]
#[expect(dead_code, reason = "only its random paths are of use here")]
mod sim;
mod simulator;
