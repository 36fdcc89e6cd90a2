// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects how callers are found: by frame pointers, or from copies of the stack.

use super::events::SampleRate;
use super::{ProfileRequest, ProfileTarget};
use crate::ObserveError;
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;

/// Method of finding callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGraph {
    /// Frame pointers, followed by the kernel: cheap, but blind in code that keeps none.
    FramePointers,
    /// `.eh_frame`, from a copy of this many bytes of the stack with each sample.
    Dwarf(u32),
    /// Frame pointers if the program keeps them, otherwise `.eh_frame`.
    Auto,
}

/// Default stack bytes per sample, as in `perf record`.
pub const STACK_BYTES: u32 = 8192;
/// Maximum samples per second for which `Auto` copies stacks: at higher rates copies are lost and
/// cost too much, so it follows frame pointers.
const MAX_RATE: u64 = 2500;
/// Maximum stack bytes: a ring record is at most 64 KiB, including the sample's other fields.
const MAX_STACK_BYTES: u32 = 63 << 10;
/// Whether stacks can be unwound here.
const IS_POSSIBLE: bool = cfg!(target_arch = "x86_64");

impl CallGraph {
    /// Returns the number of stack bytes per sample; 0 for frame pointers.
    ///
    /// # Errors
    ///
    /// Stack copies were requested on a CPU architecture for which stacks cannot be unwound.
    pub(super) fn stack_bytes(
        self,
        request: &ProfileRequest,
        pids: &[u32],
    ) -> Result<u32, ObserveError> {
        match self {
            Self::FramePointers => Ok(0),
            Self::Dwarf(_) if !IS_POSSIBLE => Err(ObserveError::NotSampled {
                reason: "stacks can be unwound on x86-64 only".to_owned(),
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

/// Whether every program keeps frame pointers or has no unwind table.
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

/// Resolves the file of a command as execvp(3) does.
fn found(name: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
