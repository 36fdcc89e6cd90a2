// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process events needed for symbol resolution: code mappings, names, new processes.

use super::{array, half, word};

/// A process event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A file or anonymous memory was mapped as code.
    Mapped(Mapped<'a>),
    /// A thread was renamed.
    Named {
        /// ID of the thread's process.
        pid: u32,
        /// Thread ID.
        tid: u32,
        /// New name, usually at most 15 bytes.
        name: &'a [u8],
        /// Whether execve(2) renamed the thread, which also removes all mappings of the process.
        is_exec: bool,
        /// Kernel clock, nanoseconds.
        time_ns: u64,
    },
    /// A thread was started, in its parent's process or in a new one.
    Started {
        /// ID of the thread's process.
        pid: u32,
        /// ID of the parent process.
        parent: u32,
        /// ID of the new thread.
        tid: u32,
        /// Kernel clock, nanoseconds.
        time_ns: u64,
    },
}

/// A code mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapped<'a> {
    /// Process ID.
    pub pid: u32,
    /// Start address.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Offset of `start` in the file.
    pub offset: u64,
    /// Device of the file: major and minor number.
    pub device: (u32, u32),
    /// Inode of the file; 0 if not a file.
    pub inode: u64,
    /// Path of the file, or a pseudo-name such as `//anon` or `[vdso]`.
    pub path: &'a [u8],
    /// Kernel clock, nanoseconds.
    pub time_ns: u64,
}

impl Change<'_> {
    /// Returns the event's time on the kernel clock, in nanoseconds.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Mapped(mapped) => mapped.time_ns,
            Self::Named { time_ns, .. } | Self::Started { time_ns, .. } => *time_ns,
        }
    }
}

const COMM: u32 = 3;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
/// `PERF_RECORD_MISC_COMM_EXEC`.
const BY_EXEC: u16 = 0x2000;
/// Size of the trailer of all records except samples: thread, time, CPU.
const TRAILER_BYTES: usize = 24;

/// Parses a record; `None` if it is not a complete process event.
pub(super) fn change(kind: u32, misc: u16, body: &[u8]) -> Option<Change<'_>> {
    let end = body.len().checked_sub(TRAILER_BYTES)?;
    let time_ns = word(body, end + 8)?;
    let text = |from| Some(until_zero(body.get(from..end)?));
    let (pid, second) = (half(body, 0)?, half(body, 4)?);
    match kind {
        COMM => {
            let is_exec = misc & BY_EXEC != 0;
            Some(Change::Named { pid, tid: second, name: text(8)?, is_exec, time_ns })
        }
        FORK => Some(Change::Started { pid, parent: second, tid: half(body, 8)?, time_ns }),
        MMAP2 => Some(Change::Mapped(Mapped {
            pid,
            start: word(body, 8)?,
            bytes: word(body, 16)?,
            offset: word(body, 24)?,
            device: (half(body, 32)?, half(body, 36)?),
            inode: array(body, 40).map(u64::from_ne_bytes)?,
            path: text(64)?,
            time_ns,
        })),
        _ => None,
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
