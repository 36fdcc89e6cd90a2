// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plugin for QEMU's user-mode emulators that simulates caches, TLBs and branch predictors.
//!
//! The plugin is written in C and compiled together with this crate: `plugin/plugin.c` documents
//! how to use it, and `plugin/cpu.h` documents what it simulates. [`PLUGIN`] holds the compiled
//! shared object. Programs write it to a file and start an emulator with it, as `linerate stat
//! --tier sim` does; this crate does not start an emulator.

#![forbid(unsafe_code)]

/// The plugin as a shared object, for emulators that run on this target.
pub const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cachesim.so"));
