// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stages of the application on the data plane.

mod bad_input;
mod dissector;
mod mappings;
mod params;
mod reverse;
mod rig;
mod traffic;
