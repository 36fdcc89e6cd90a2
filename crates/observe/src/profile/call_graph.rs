// SPDX-License-Identifier: MIT OR Apache-2.0
//! How callers are found: by frame pointers, or from copies of the stack.

use super::events::SampleRate;
use super::{ProfileRequest, ProfileTarget};
use crate::ObserveError;
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;

/// How callers are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGraph {
    /// By frame pointers, by the kernel: cheap, and blind in code that keeps none.
    FramePointers,
    /// By `.eh_frame`, from a copy of this many bytes of the stack with each sample.
    Dwarf(u32),
    /// By frame pointers where the program keeps them, else by `.eh_frame`.
    Auto,
}

/// Bytes of the stack in a sample, unless said otherwise: as of `perf record`.
pub const STACK_BYTES: u32 = 8192;
/// With more samples per second than this, copies of the stack are lost on the way, and cost too
/// much: `Auto` follows frame pointers then.
const MAX_RATE: u64 = 2500;
/// A record of the ring has 64 KiB at most, the sample's other fields included.
const MAX_STACK_BYTES: u32 = 63 << 10;
/// Whether stacks can be unwound here.
const IS_POSSIBLE: bool = cfg!(target_arch = "x86_64");

impl CallGraph {
    /// Bytes of the stack that samples carry; 0 for frame pointers.
    ///
    /// # Errors
    /// Stacks are asked for where they cannot be unwound.
    pub(super) fn stack_bytes(
        self,
        request: &ProfileRequest,
        pids: &[u32],
    ) -> Result<u32, ObserveError> {
        match self {
            Self::FramePointers => Ok(0),
            Self::Dwarf(_) if !IS_POSSIBLE => Err(ObserveError::NotSampled {
                reason: "stacks are unwound on x86-64 only".to_owned(),
                fix: Some("--call-graph fp".to_owned()),
            }),
            Self::Dwarf(bytes) => Ok(bytes.clamp(8, MAX_STACK_BYTES).next_multiple_of(8)),
            Self::Auto => {
                let is_rare =
                    request.rate.period_ns() >= SampleRate::PerSecond(MAX_RATE).period_ns();
                let is_needed = IS_POSSIBLE && is_rare && !has_frame_pointers(request, pids);
                Ok(if is_needed { STACK_BYTES } else { 0 })
            }
        }
    }
}

/// Whether all programs keep frame pointers, or have no rows of unwinding.
fn has_frame_pointers(request: &ProfileRequest, pids: &[u32]) -> bool {
    let files: Vec<PathBuf> = match &request.target {
        ProfileTarget::Command(words) => {
            words.first().and_then(|name| found(name)).into_iter().collect()
        }
        _ => pids.iter().map(|pid| format!("/proc/{pid}/exe").into()).collect(),
    };
    let mut opened = files.iter().filter_map(|file| File::open(file).ok());
    opened.all(|file| keeps_frame_pointers(&file))
}

#[cfg(target_arch = "x86_64")]
fn keeps_frame_pointers(file: &File) -> bool {
    let sections = crate::sampler::functions::sections::UnwindSections::read(file);
    sections.and_then(|sections| sections.has_frame_pointers()).unwrap_or(true)
}

#[cfg(not(target_arch = "x86_64"))]
fn keeps_frame_pointers(_: &File) -> bool {
    true
}

/// The file of a command, as execvp(3) finds it.
fn found(name: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
