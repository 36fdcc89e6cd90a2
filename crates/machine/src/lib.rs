// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this machine is: processors, clocks, and how it slows down when shared.
