// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rust equivalents of the structures and constants in `include/linerate/stage.h`.

use std::ffi::{c_char, c_int, c_void};

/// Version of the C interface that this program supports: `LINERATE_STAGE_ABI` in `stage.h`.
pub(crate) const VERSION: u32 = 1;

/// Type of a parameter (`LINERATE_TYPE_INTEGER` in `stage.h`).
pub(crate) const TYPE_INTEGER: u32 = 1;
pub(crate) const TYPE_BOOL: u32 = 2;
pub(crate) const TYPE_TEXT: u32 = 3;

/// The stage keeps no state between packets (`LINERATE_STATE_NONE` in `stage.h`).
pub(crate) const STATE_NONE: u32 = 1;
pub(crate) const STATE_PER_FLOW: u32 = 2;
pub(crate) const STATE_GLOBAL: u32 = 3;

/// Flag of a stage that needs parsed headers (`LINERATE_NEEDS_HEADERS` in `stage.h`).
pub(crate) const NEEDS_HEADERS: u32 = 1;
pub(crate) const REORDERS: u32 = 2;

/// Declaration of a parameter: `struct linerate_param` in `stage.h`.
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

/// Value of a parameter: `struct linerate_value` in `stage.h`.
#[repr(C)]
pub(crate) struct RawValue {
    pub(crate) integer: i64,
    pub(crate) text: *const c_char,
}

/// Argument of `init`: `struct linerate_setup` in `stage.h`.
#[repr(C)]
pub(crate) struct RawSetup {
    pub(crate) values: *const RawValue,
    pub(crate) replica: u32,
    pub(crate) replicas: u32,
    pub(crate) error: *mut c_char,
    pub(crate) error_bytes: usize,
    pub(crate) instance: *mut c_void,
}

/// Signature of `init`, which returns 0 if it has built an instance.
pub(crate) type Init = unsafe extern "C" fn(*mut RawSetup) -> c_int;
/// Signature of `process`. Takes the instance and the burst, both as untyped pointers.
pub(crate) type Process = unsafe extern "C" fn(*mut c_void, *mut c_void);
/// Signature of `read_counts`. Takes the instance and the array to which it writes the counts, both
/// as untyped pointers.
pub(crate) type ReadCounts = unsafe extern "C" fn(*mut c_void, *mut c_void);
/// Signature of `fini`, which frees the instance.
pub(crate) type Fini = unsafe extern "C" fn(*mut c_void);

/// Description of a stage: `struct linerate_stage` in `stage.h`.
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

// SAFETY: the structure is a constant in a loaded object, and is only read.
unsafe impl Sync for RawStage {}
// SAFETY: as for `Sync`.
unsafe impl Send for RawStage {}
