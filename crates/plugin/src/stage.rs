// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a stage from a shared object as a stage of the data plane.

use crate::abi::{Process, RawSetup, RawValue, ReadCounts};
use crate::{FILE, Loaded};
use linerate_linux::crash::guarded;
use linerate_stage_api::foreign::{FailureKind, Foreign, ForeignFailure};
use linerate_stage_api::params::{Params, Value, fail};
use linerate_stage_api::{BuildContext, BuildError, Burst, Stage, StageContext};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;

/// Size of the buffer for the error message of `init`, in bytes.
const ERROR_BYTES: usize = 256;

/// An instance of the stage, used by one worker.
pub(crate) struct Foreigner {
    loaded: Loaded,
    process: Process,
    instance: *mut c_void,
    foreign: Foreign,
    /// Whether a function in the object has crashed, after which none of its functions is called
    /// again.
    is_broken: bool,
}

// SAFETY: stage.h allows any thread to use an instance, but only one thread at a time.
unsafe impl Send for Foreigner {}

/// Arguments of [`call_init`], and the status that `init` returned.
struct InitCall {
    init: crate::abi::Init,
    setup: RawSetup,
    status: i32,
}

unsafe extern "C" fn call_init(call: *mut c_void, _: *mut c_void) {
    // SAFETY: `init` passes a pointer to an `InitCall`.
    let call = unsafe { &mut *call.cast::<InitCall>() };
    // SAFETY: stage.h gives `init` this type, and the setup is filled in as stage.h specifies.
    call.status = unsafe { (call.init)(&raw mut call.setup) };
}

unsafe extern "C" fn call_fini(fini: *mut c_void, instance: *mut c_void) {
    // SAFETY: `drop` passes a pointer to the function.
    let fini = unsafe { *fini.cast::<crate::abi::Fini>() };
    // SAFETY: `init` returned this instance, and nothing uses it after this call.
    unsafe { fini(instance) }
}

impl Foreigner {
    /// Builds an instance of a loaded stage for one replica.
    pub(crate) fn build(
        loaded: &Loaded,
        params: &Params,
        context: &BuildContext,
    ) -> Result<Self, BuildError> {
        let process = loaded.raw.process.ok_or_else(|| fail(FILE, "no `process`".to_owned()))?;
        let instance = init(loaded, params, context).map_err(|why| fail(FILE, why))?;
        let foreign = Foreign::new(loaded.spec.drop_causes.len());
        Ok(Self { loaded: *loaded, process, instance, foreign, is_broken: false })
    }
}

/// Calls the object's `init`, and returns the instance that it built; NULL if the object has no
/// `init`.
fn init(loaded: &Loaded, params: &Params, context: &BuildContext) -> Result<*mut c_void, String> {
    let Some(init) = loaded.raw.init else { return Ok(null_mut()) };
    let mut texts = Vec::new();
    let mut values = Vec::new();
    for param in &loaded.spec.params[1..] {
        let (integer, text) = match params.get(param.name) {
            Some(Value::Integer(integer)) => (*integer, std::ptr::null()),
            Some(Value::Bool(is_true)) => (i64::from(*is_true), std::ptr::null()),
            Some(Value::Text(text)) => {
                let text = CString::new(text.as_str())
                    .map_err(|_| format!("{} contains a NUL byte", param.name))?;
                let pointer = text.as_ptr();
                texts.push(text);
                (0, pointer)
            }
            other => {
                return Err(format!("{} has no value of the right type: {other:?}", param.name));
            }
        };
        values.push(RawValue { integer, text });
    }
    let mut error: [c_char; ERROR_BYTES] = [0; ERROR_BYTES];
    let setup = RawSetup {
        values: values.as_ptr(),
        replica: context.replica,
        replicas: context.replicas,
        error: error.as_mut_ptr(),
        error_bytes: ERROR_BYTES,
        instance: null_mut(),
    };
    let mut call = InitCall { init, setup, status: 0 };
    // SAFETY: the setup and all that it points to outlive the call; after a crash the instance is
    // not used.
    unsafe { guarded(call_init, (&raw mut call).cast(), null_mut()) }
        .map_err(|crash| format!("its `init` crashed: {crash}"))?;
    if call.status != 0 {
        error[ERROR_BYTES - 1] = 0;
        // SAFETY: the last byte of the buffer has just been set to 0, so the string ends within it.
        let reason = unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy();
        let reason = if reason.is_empty() { "no reason given".into() } else { reason };
        return Err(format!("its `init` returned {}: {reason}", call.status));
    }
    Ok(call.setup.instance)
}

impl Stage for Foreigner {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        let Self { process, instance, is_broken, foreign, .. } = self;
        let result = foreign.process(burst, context, |seen| {
            // SAFETY: stage.h gives `process` this type; the instance is its own, and the burst is
            // valid during the call. After a crash, `is_broken` keeps the instance from being used.
            unsafe { guarded(*process, *instance, std::ptr::from_mut(seen).cast()) }.map_err(
                |crash| {
                    *is_broken = true;
                    crash.to_string()
                },
            )
        });
        if let Err(message) = result {
            let kind = if *is_broken { FailureKind::Crash } else { FailureKind::Invalid };
            // The worker reports this with the packet at the burst's cursor. Unlike `panic!`, this
            // call does not print a panic message.
            std::panic::resume_unwind(Box::new(ForeignFailure { kind, message }));
        }
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let Some(read) = self.loaded.raw.read_counts.filter(|_| !self.is_broken) else {
            return Vec::new();
        };
        let read: ReadCounts = read;
        let mut values = vec![0_u64; self.loaded.counts.len()];
        // SAFETY: by stage.h, the function writes one value per name in `counts`, and `values` has
        // room for them.
        let result = unsafe { guarded(read, self.instance, values.as_mut_ptr().cast()) };
        match result {
            Ok(()) => self.loaded.counts.iter().copied().zip(values).collect(),
            Err(_) => Vec::new(),
        }
    }
}

impl Drop for Foreigner {
    fn drop(&mut self) {
        if let Some(mut fini) = self.loaded.raw.fini.filter(|_| !self.is_broken) {
            // SAFETY: nothing uses the instance afterwards.
            let _ = unsafe { guarded(call_fini, (&raw mut fini).cast(), self.instance) };
        }
    }
}
