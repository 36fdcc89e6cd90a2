// SPDX-License-Identifier: MIT OR Apache-2.0
//! What sampled processes did, as far as names of functions depend on it: mappings of code, names,
//! new processes.

use super::{array, half, word};

/// Something that a process did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// It mapped a part of a file, or anonymous memory, as code.
    Mapped(Mapped<'a>),
    /// A thread was named.
    Named {
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The name, at most 15 bytes as a rule.
        name: &'a [u8],
        /// Whether by execve(2), which ends all mappings of the process.
        is_exec: bool,
        /// Clock of the kernel, nanoseconds.
        time_ns: u64,
    },
    /// A thread was started, in its parent's process or in one of its own.
    Started {
        /// Its process.
        pid: u32,
        /// The process that started it.
        parent: u32,
        /// The thread.
        tid: u32,
        /// Clock of the kernel, nanoseconds.
        time_ns: u64,
    },
}

/// A mapping of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapped<'a> {
    /// The process.
    pub pid: u32,
    /// First address.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Position of `start` in the file.
    pub offset: u64,
    /// Device of the file: major and minor number.
    pub device: (u32, u32),
    /// Inode of the file; 0 without one.
    pub inode: u64,
    /// Path of the file, or a word: `//anon`, `[vdso]`.
    pub path: &'a [u8],
    /// Clock of the kernel, nanoseconds.
    pub time_ns: u64,
}

impl Change<'_> {
    /// When it was, by the clock of the kernel, nanoseconds.
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
/// What follows every record but samples: thread, time, CPU.
const TRAILER_BYTES: usize = 24;

/// What a record says of a process, if it is one of these, and whole.
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
