// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests live paths between real programs: two hosts in network namespaces, with the forwarder
//! between them.
//!
//! Needs root, iproute2, iputils and iperf3; a test that lacks one prints `SKIP: reason`. All
//! traffic stays in namespaces that the test creates and removes. Every child has a time limit.

mod faults;
mod forward;
mod scene;
mod stress;
mod wires;
