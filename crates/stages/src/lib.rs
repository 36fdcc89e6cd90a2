// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stages of a packet path: parse, verify, filter, NAT44, forward, GRE, count.
