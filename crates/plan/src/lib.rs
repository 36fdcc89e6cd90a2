// SPDX-License-Identifier: MIT OR Apache-2.0
//! Diagnosis, models and advice: from a run record to a better mapping.
