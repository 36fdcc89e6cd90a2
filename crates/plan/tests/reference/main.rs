// SPDX-License-Identifier: MIT OR Apache-2.0
//! Diagnosis, prediction, advice and kernels against a simulator of queues and against full
//! enumeration.

mod advice;
mod diagnosis;
mod kernels;
mod one_state;
mod plan;
mod prediction;
mod sim;
