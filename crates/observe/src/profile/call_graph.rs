// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects how to find callers: by frame pointers, or from stack copies.

use super::events::SampleRate;
use super::{ProfileRequest, ProfileTarget};
use crate::ObserveError;
use linerate_record::profile::SamplingMethod;
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;

/// How to find callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGraph {
    /// By frame pointers, which the kernel follows. Cheap, but fails in code without frame
    /// pointers.
    FramePointers,
    /// By `.eh_frame`, from a copy of this many bytes of stack per sample.
    Dwarf(u32),
    /// By frame pointers if the program has them, otherwise by `.eh_frame`.
    Auto,
}

/// Default number of stack bytes copied per sample, as in `perf record`.
pub const STACK_BYTES: u32 = 8192;
/// Maximum sampling rate, in samples per second, at which `Auto` copies stacks. At higher rates, it
/// uses frame pointers, because copying costs too much and copies are lost.
const MAX_RATE: u64 = 2500;
/// Whether this architecture supports stack unwinding.
const IS_POSSIBLE: bool = cfg!(target_arch = "x86_64");

impl CallGraph {
    /// Returns the stack bytes per sample; 0 for frame pointers.
    ///
    /// # Errors
    ///
    /// Returns an error if stack copies were requested on an architecture without stack unwinding.
    pub(super) fn stack_bytes(
        self,
        request: &ProfileRequest,
        pids: &[u32],
    ) -> Result<u32, ObserveError> {
        match self {
            Self::FramePointers => Ok(0),
            Self::Dwarf(_) if !IS_POSSIBLE => Err(ObserveError::NotSampled {
                reason: "stacks can only be unwound on x86-64".to_owned(),
                fix: Some("--call-graph fp".to_owned()),
            }),
            Self::Dwarf(bytes) => {
                Ok(bytes.clamp(8, SamplingMethod::MAX_STACK_BYTES).next_multiple_of(8))
            }
            Self::Auto => {
                let is_rare =
                    request.rate.period_ns() >= SampleRate::PerSecond(MAX_RATE).period_ns();
                let is_needed = IS_POSSIBLE && is_rare && !has_frame_pointers(request, pids);
                Ok(if is_needed { STACK_BYTES } else { 0 })
            }
        }
    }
}

/// Returns whether every program has frame pointers or lacks an unwind table.
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

/// Resolves a command's file as execvp(3) does.
fn found(name: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
