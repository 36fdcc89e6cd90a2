// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognizes threads that wait for a mutex, and finds out which thread holds it.
//!
//! A thread asleep in futex(2) may wait for a lock or, if the thread is idle, for work. The
//! arguments of the call distinguish some cases:
//!
//! ```text
//! FUTEX_LOCK_PI, FUTEX_LOCK_PI2:          a priority-inheriting mutex
//! FUTEX_WAIT for the value 2, no timeout: a glibc mutex: 2 means locked, with waiting threads.
//!                                         glibc's condition variables, semaphores and barriers
//!                                         wait with FUTEX_WAIT_BITSET.
//! ```
//!
//! The second rule holds only for glibc: musl's condition variables wait for 2 as well. Locks of
//! other libraries and languages are not recognized.
//!
//! The kernel puts the owner's thread ID into the futex of a priority-inheriting mutex
//! (Documentation/locking/pi-futex.rst); glibc keeps it 8 bytes after the futex (struct_mutex.h:
//! lock, count, owner). Low-level locks of glibc have no owner field, so an owner that is not a
//! thread of the process is discarded.

use crate::memory::Memory;
use linerate_machine::Root;
use std::collections::BTreeMap;

/// Operations of futex(2), and the flags of the operation argument (linux/futex.h).
const WAIT: u64 = 0;
const LOCK_PI: u64 = 6;
const LOCK_PI2: u64 = 13;
const PRIVATE_OR_REALTIME: u64 = 128 | 256;
/// Value of a locked glibc mutex for which threads are waiting.
const CONTENDED: u64 = 2;
/// Bits of a priority-inheriting futex that hold the thread ID (FUTEX_TID_MASK).
const OWNER_BITS: u32 = 0x3fff_ffff;
/// Byte offset of the owner field in a glibc mutex, relative to its futex.
const OWNER_AT: u64 = 8;

/// Kind of mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Priority-inheriting.
    Inheriting,
    /// A glibc mutex, provided that the process uses glibc.
    OfGlibc,
}

/// Returns the kind of mutex that a futex(2) call with these arguments waits on; `None` if it may
/// be waiting on something else.
fn kind(arguments: [u64; 4]) -> Option<Kind> {
    let [_, operation, value, timeout] = arguments;
    match operation & 0xffff_ffff & !PRIVATE_OR_REALTIME {
        LOCK_PI | LOCK_PI2 => Some(Kind::Inheriting),
        WAIT if value & 0xffff_ffff == CONTENDED && timeout == 0 => Some(Kind::OfGlibc),
        _ => None,
    }
}

/// A mutex that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mutex {
    /// Thread that holds the mutex; `None` if no thread holds it at this moment, or if the owner is
    /// not readable.
    pub(crate) holder: Option<u32>,
}

/// Finds the mutexes that threads wait for.
#[derive(Debug, Default)]
pub(crate) struct Mutexes {
    /// Whether each process uses the GNU C library.
    have_glibc: BTreeMap<u32, bool>,
}

impl Mutexes {
    /// Returns the mutex for which a thread of the process waits in futex(2) with these arguments;
    /// `None` if it may wait for anything else.
    pub(crate) fn waited_for(
        &mut self,
        root: &Root,
        memory: &mut Memory,
        pid: u32,
        arguments: [u64; 4],
    ) -> Option<Mutex> {
        let kind = kind(arguments)?;
        if kind == Kind::OfGlibc && !self.has_glibc(root, pid) {
            return None;
        }
        let (address, bits) = match kind {
            Kind::Inheriting => (Some(arguments[0]), OWNER_BITS),
            Kind::OfGlibc => (arguments[0].checked_add(OWNER_AT), u32::MAX),
        };
        let owner = address.and_then(|address| memory.word(root, pid, address));
        let owner = owner.map(|word| word & bits).filter(|owner| *owner != 0);
        let is_thread = |owner: &u32| root.exists(&format!("proc/{pid}/task/{owner}"));
        Some(Mutex { holder: owner.filter(is_thread) })
    }

    fn has_glibc(&mut self, root: &Root, pid: u32) -> bool {
        let read = || root.text(&format!("proc/{pid}/maps")).is_some_and(|maps| has_glibc(&maps));
        *self.have_glibc.entry(pid).or_insert_with(read)
    }
}

/// Returns whether `maps`, the text of /proc/PID/maps, contains the GNU C library. The names of
/// other C libraries differ.
fn has_glibc(maps: &str) -> bool {
    maps.lines().any(|line| {
        let name = line.rsplit('/').next().unwrap_or_default();
        name.starts_with("libc.so.6") || name.starts_with("libc-2.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::task::InCall;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn a_mutex_differs_from_other_futexes() {
        let wait = |operation, value, timeout| kind([0x7f00, operation, value, timeout]);
        assert_eq!(wait(128, 2, 0), Some(Kind::OfGlibc));
        assert_eq!(wait(0, 2, 0), Some(Kind::OfGlibc));
        assert_eq!(wait(128, 2, 0x7ffd), None);
        assert_eq!(wait(128, 1, 0), None);
        // FUTEX_WAIT_BITSET: a condition variable, semaphore, or lock of another language.
        assert_eq!(wait(128 + 9, 2, 0), None);
        assert_eq!(wait(128 + 256 + 9, 0, 0), None);
        assert_eq!(wait(128 + 6, 0, 0), Some(Kind::Inheriting));
        assert_eq!(wait(128 + 13, 0, 0), Some(Kind::Inheriting));
    }

    #[test]
    fn glibc_is_found_in_the_maps() {
        let line = |file: &str| format!("7f0 r-xp 00028000 fe:01 15466 {file}\n");
        assert!(has_glibc(&line("/usr/lib/x86_64-linux-gnu/libc.so.6")));
        assert!(has_glibc(&line("/lib/libc-2.31.so")));
        assert!(!has_glibc(&line("/lib/ld-musl-x86_64.so.1")));
        assert!(!has_glibc(""));
    }

    /// The main thread holds a mutex that another thread waits for, until stdin is closed.
    const TWO_THREADS: &str = "
import ctypes, os, sys, threading
libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
libc.pthread_mutex_init(mutex, None)
libc.pthread_mutex_lock(mutex)
other = threading.Thread(target=lambda: libc.pthread_mutex_lock(mutex), daemon=True)
other.start()
print(ctypes.addressof(mutex), threading.get_native_id(), other.native_id, flush=True)
sys.stdin.read()
os._exit(0)
";

    #[test]
    fn the_holder_of_a_mutex_is_found() {
        let python = Command::new("python3")
            .args(["-c", TWO_THREADS])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut python) = python else { return println!("SKIP: no python3") };
        let input = python.stdin.take();
        let mut line = String::new();
        BufReader::new(python.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let numbers: Vec<u64> = line.split_whitespace().map(|one| one.parse().unwrap()).collect();
        let &[address, holder, waiter] = numbers.as_slice() else { panic!("{line:?}") };
        let (root, pid) = (Root::new(std::path::Path::new("/")), python.id());
        let arguments = (0..5000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            match InCall::parse(&root.text(&format!("proc/{pid}/task/{waiter}/syscall"))?)? {
                InCall::Call { arguments, .. } if arguments[0] == address => Some(arguments),
                _ => None,
            }
        });
        let mut mutexes = Mutexes::default();
        let found = arguments.and_then(|arguments| {
            mutexes.waited_for(&root, &mut Memory::default(), pid, arguments)
        });
        let has_glibc = has_glibc(&root.text(&format!("proc/{pid}/maps")).unwrap_or_default());
        drop(input);
        python.wait().unwrap();
        match (arguments, has_glibc) {
            (None, _) => println!("SKIP: system calls of own processes are not readable"),
            (_, false) => println!("SKIP: python3 does not use glibc"),
            (Some(arguments), true) => {
                let holder = u32::try_from(holder).ok();
                assert_eq!(found, Some(Mutex { holder }), "{arguments:x?}");
            }
        }
    }
}
