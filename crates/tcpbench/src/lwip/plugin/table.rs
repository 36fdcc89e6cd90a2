// SPDX-License-Identifier: MIT OR Apache-2.0
//! The object's function table, as declared in `crates/tcpbench/lwip/plugin.h`.

use crate::routines::{ALIGNMENT_CLASSES, LENGTH_CLASSES};
use linerate_kernels::bench::{ChecksumFn, CopyChecksumFn, CopyFn};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::AtomicU8;

/// Version of the function table: `LR_LWIP_TABLE_VERSION` in `plugin.h`.
pub(super) const TABLE_VERSION: u32 = 2;

/// Equivalent of `struct lr_lwip_routines`; null selects lwIP's own routine.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::lwip) struct Routines {
    pub(in crate::lwip) checksum: Option<ChecksumFn>,
    pub(in crate::lwip) copy: Option<CopyFn>,
    pub(in crate::lwip) copy_checksum: Option<CopyChecksumFn>,
    /// Maximum length in bytes of inline sums, which cover whole 32-bit words; 0 for none.
    pub(in crate::lwip) inline_bytes: u32,
}

/// Equivalent of `struct lr_lwip_tally` in `plugin.h`.
#[repr(C)]
pub(super) struct RawTally {
    pub(super) calls: u64,
    pub(super) bytes: u64,
    pub(super) ticks: u64,
    pub(super) lengths: [u64; LENGTH_CLASSES],
    pub(super) alignments: [u64; ALIGNMENT_CLASSES],
}

/// Equivalent of `struct lr_lwip_watch` in `plugin.h`.
#[repr(C)]
pub(super) struct Watch {
    pub(super) ticks: Option<extern "C" fn() -> u64>,
    pub(super) activity: *const AtomicU8,
}

/// Which component computes TCP and IP checksums.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lwip) enum Sums {
    /// Checksums are sent as 0 and not verified.
    Off,
    /// lwIP computes and verifies them, through the routines.
    Lwip,
    /// lwIP computes them for the frames that it sends; the driver has verified received frames.
    ArriveVerified,
}

/// Equivalent of `struct lr_lwip_settings` in `plugin.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::lwip) struct Settings {
    pub(in crate::lwip) address: [u8; 4],
    pub(in crate::lwip) peer: [u8; 4],
    pub(in crate::lwip) port: u16,
    pub(in crate::lwip) is_server: bool,
    pub(in crate::lwip) sums: Sums,
    pub(in crate::lwip) nagle: bool,
    pub(in crate::lwip) wide_open: bool,
    pub(in crate::lwip) seed: u32,
    pub(in crate::lwip) buffer: u32,
}

/// Equivalent of `struct lr_lwip_frame` in `plugin.h`.
#[repr(C)]
pub(super) struct RawFrame {
    pub(super) handle: *mut c_void,
    pub(super) bytes: *mut u8,
    pub(super) length: usize,
}

/// Equivalent of `struct lr_lwip_table` in `plugin.h`.
#[repr(C)]
pub(super) struct Table {
    pub(super) version: u32,
    pub(super) segment: u32,
    pub(super) lwip: *const c_char,
    pub(super) begin: unsafe extern "C" fn(*const Settings) -> c_int,
    pub(super) end: unsafe extern "C" fn(),
    pub(super) use_routines: unsafe extern "C" fn(*const Routines),
    pub(super) watch: unsafe extern "C" fn(*const Watch),
    pub(super) tallies: unsafe extern "C" fn() -> *const [RawTally; 4],
    pub(super) advance: unsafe extern "C" fn(u32),
    pub(super) next_timer: unsafe extern "C" fn() -> u32,
    pub(super) open: unsafe extern "C" fn() -> c_int,
    pub(super) state: unsafe extern "C" fn() -> c_int,
    pub(super) send_room: unsafe extern "C" fn() -> usize,
    pub(super) send: unsafe extern "C" fn(*const u8, usize) -> usize,
    pub(super) receive: unsafe extern "C" fn(*mut u8, usize) -> usize,
    pub(super) close: unsafe extern "C" fn(),
    pub(super) flush: unsafe extern "C" fn(),
    pub(super) sent: unsafe extern "C" fn() -> RawFrame,
    pub(super) drop: unsafe extern "C" fn(*mut c_void),
    pub(super) room: unsafe extern "C" fn(usize) -> RawFrame,
    pub(super) input: unsafe extern "C" fn(*mut c_void),
    pub(super) input_in_place:
        unsafe extern "C" fn(*mut u8, usize, *const u8, usize, *mut c_void) -> c_int,
    pub(super) reclaim: unsafe extern "C" fn() -> *mut c_void,
    pub(super) bad_checksums: unsafe extern "C" fn() -> u64,
}
