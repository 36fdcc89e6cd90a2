// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures of `include/linerate/stage.h`.

use std::ffi::{c_char, c_int, c_void};

/// `LINERATE_STAGE_ABI`.
pub(crate) const VERSION: u32 = 1;

/// `LINERATE_TYPE_...`.
pub(crate) const TYPE_INTEGER: u32 = 1;
pub(crate) const TYPE_BOOL: u32 = 2;
pub(crate) const TYPE_TEXT: u32 = 3;

/// `LINERATE_STATE_...`.
pub(crate) const STATE_NONE: u32 = 1;
pub(crate) const STATE_PER_FLOW: u32 = 2;
pub(crate) const STATE_GLOBAL: u32 = 3;

/// `LINERATE_NEEDS_HEADERS`, `LINERATE_REORDERS`.
pub(crate) const NEEDS_HEADERS: u32 = 1;
pub(crate) const REORDERS: u32 = 2;

/// `struct linerate_param`.
#[repr(C)]
pub(crate) struct RawParam {
    pub(crate) name: *const c_char,
    pub(crate) help: *const c_char,
    pub(crate) kind: u32,
    pub(crate) required: u32,
    pub(crate) min: i64,
    pub(crate) max: i64,
    pub(crate) integer: i64,
    pub(crate) text: *const c_char,
}

/// `struct linerate_value`.
#[repr(C)]
pub(crate) struct RawValue {
    pub(crate) integer: i64,
    pub(crate) text: *const c_char,
}

/// `struct linerate_setup`.
#[repr(C)]
pub(crate) struct RawSetup {
    pub(crate) values: *const RawValue,
    pub(crate) replica: u32,
    pub(crate) replicas: u32,
    pub(crate) error: *mut c_char,
    pub(crate) error_bytes: usize,
    pub(crate) instance: *mut c_void,
}

/// `init`.
pub(crate) type Init = unsafe extern "C" fn(*mut RawSetup) -> c_int;
/// Signature of `process`, which receives the burst as an untyped pointer.
pub(crate) type Process = unsafe extern "C" fn(*mut c_void, *mut c_void);
/// Signature of `read_counts`, which receives the counts as an untyped pointer.
pub(crate) type ReadCounts = unsafe extern "C" fn(*mut c_void, *mut c_void);
/// `fini`.
pub(crate) type Fini = unsafe extern "C" fn(*mut c_void);

/// `struct linerate_stage`.
#[repr(C)]
pub(crate) struct RawStage {
    pub(crate) abi: u32,
    pub(crate) state: u32,
    pub(crate) flags: u32,
    pub(crate) reserved: u32,
    pub(crate) name: *const c_char,
    pub(crate) help: *const c_char,
    pub(crate) params: *const RawParam,
    pub(crate) drop_causes: *const *const c_char,
    pub(crate) counts: *const *const c_char,
    pub(crate) init: Option<Init>,
    pub(crate) process: Option<Process>,
    pub(crate) read_counts: Option<ReadCounts>,
    pub(crate) fini: Option<Fini>,
}

// SAFETY: the structure is a constant of a loaded object: it is only read.
unsafe impl Sync for RawStage {}
// SAFETY: as above.
unsafe impl Send for RawStage {}
