// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares diagnosis, prediction, advice and kernels with a queueing simulator and with exhaustive
//! enumeration.

mod advice;
mod diagnosis;
mod kernels;
mod one_state;
mod plan;
mod prediction;
mod sim;
