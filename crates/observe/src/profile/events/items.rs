// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contents of the rings: samples, and events of the sampled processes.

use crate::sampler::maps::Mapping;
use linerate_linux::sample::{Change, Registers, Sample};

/// A sample or a process event.
pub(in crate::profile) struct Item {
    pub(in crate::profile) time_ns: u64,
    pub(in crate::profile) pid: u32,
    pub(in crate::profile) what: What,
}

/// Kind of item.
pub(in crate::profile) enum What {
    /// A sample of a thread, with the call chain, innermost first. Each address has a flag that is
    /// true for kernel code.
    Sample { tid: u32, chain: Vec<(u64, bool)>, user: Option<UserState> },
    /// The process has mapped code.
    Mapped(Mapping),
    /// A thread was renamed. After execve(2), its process runs another program.
    Named { tid: u32, name: String, is_exec: bool },
    /// The process was started by `parent`.
    Started { parent: u32 },
}

/// Registers and a stack copy, from which user-mode callers are found.
pub(in crate::profile) struct UserState {
    pub(in crate::profile) registers: Registers,
    pub(in crate::profile) ip: u64,
    pub(in crate::profile) stack: Vec<u8>,
}

/// Converts a sample.
pub(super) fn of_sample(sample: &Sample<'_>) -> Item {
    Item {
        time_ns: sample.time_ns,
        pid: sample.pid,
        what: What::Sample { tid: sample.tid, chain: chain(sample), user: user_state(sample) },
    }
}

/// Returns the addresses of a sample and its callers.
fn chain(sample: &Sample<'_>) -> Vec<(u64, bool)> {
    let chain: Vec<(u64, bool)> = sample.chain().collect();
    if chain.is_empty() { vec![(sample.ip, sample.is_kernel)] } else { chain }
}

fn user_state(sample: &Sample<'_>) -> Option<UserState> {
    let registers = sample.registers?;
    let stack = sample.stack.to_vec();
    Some(UserState { registers, ip: sample.user_ip, stack })
}

/// Converts a process event.
pub(super) fn of_change(change: &Change<'_>) -> Item {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (pid, what) = match *change {
        Change::Mapped(mapped) => {
            let (major, minor) = mapped.device;
            let mapping = Mapping {
                start: mapped.start,
                end: mapped.start.saturating_add(mapped.bytes),
                offset: mapped.offset,
                device: format!("{major:02x}:{minor:02x}"),
                inode: mapped.inode,
                path: text(mapped.path),
            };
            (mapped.pid, What::Mapped(mapping))
        }
        Change::Named { pid, tid, name, is_exec, .. } => {
            (pid, What::Named { tid, name: text(name), is_exec })
        }
        Change::Started { pid, parent, .. } => (pid, What::Started { parent }),
    };
    Item { time_ns: change.time_ns(), pid, what }
}
