// SPDX-License-Identifier: MIT OR Apache-2.0
//! Diagnosis, prediction and advice against a simulator of queues and against full enumeration.

mod advice;
mod diagnosis;
mod prediction;
mod sim;
