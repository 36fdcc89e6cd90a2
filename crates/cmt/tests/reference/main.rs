// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the strand simulator with a reference without shortcuts, and checks plans against
//! invariants and the Netra document.

mod cycle_by_cycle;
#[path = "../../../plan/tests/reference/one_state.rs"]
mod one_state;
mod planner;
#[path = "../../../plan/tests/reference/sim.rs"]
#[expect(dead_code, reason = "only its random paths are of use here")]
mod sim;
mod simulator;
