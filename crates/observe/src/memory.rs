// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads single words from the memory of watched processes, at addresses that they passed to system
//! calls. Requires the same permission as /proc/PID/syscall; does not stop the processes.

use linerate_machine::Root;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Open /proc/PID/mem files, by process.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    files: BTreeMap<u32, Option<File>>,
}

impl Memory {
    /// Returns the 4-byte word at `address`; `None` if it is not readable.
    pub(crate) fn word(&mut self, root: &Root, pid: u32, address: u64) -> Option<u32> {
        let open = || File::open(root.path(&format!("proc/{pid}/mem"))).ok();
        let file = self.files.entry(pid).or_insert_with(open).as_ref()?;
        let mut word = [0; 4];
        file.read_exact_at(&mut word, address).ok()?;
        Some(u32::from_ne_bytes(word))
    }
}
