// SPDX-License-Identifier: MIT OR Apache-2.0
//! Diagnosis, prediction, advice and kernels against a simulator of queues and against full
//! enumeration; the simulator of strands against one that knows no shortcut.

mod advice;
mod cmt;
mod diagnosis;
mod kernels;
mod plan;
mod prediction;
mod questions;
mod sim;
