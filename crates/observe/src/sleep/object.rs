// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects that system calls wait for: files, sockets, futexes and mutexes.

use super::{Object, Place, wait_channel};
use crate::memory::Memory;
use crate::mutex::Mutexes;
use linerate_linux::{FirstArgument, is_named_pipe, system_call};
use linerate_machine::Root;
use linerate_record::why::SleepTime;
use std::path::Path;

/// Determines the objects that system calls wait for.
#[derive(Debug, Default)]
pub(super) struct Reader {
    memory: Memory,
    mutexes: Mutexes,
}

impl Reader {
    /// Returns the system call in which a thread sleeps, with its object and, if that is a mutex,
    /// the thread that holds it.
    pub(super) fn place_of(
        &mut self,
        root: &Root,
        (pid, tid): (u32, u32),
        number: u64,
        arguments: [u64; 4],
    ) -> Option<(Place, Option<u32>)> {
        let (on, argument) = system_call(number)?;
        let first = arguments[0];
        let mut holder = None;
        let object = match argument {
            FirstArgument::Descriptor if on == "sendfile" && reads_disk(root, pid, tid) => {
                file(root, (pid, tid), arguments[1])
            }
            FirstArgument::Descriptor => file(root, (pid, tid), first),
            FirstArgument::PollSet if arguments[1] == 1 => {
                let descriptor = self.memory.word(root, pid, first);
                descriptor.and_then(|descriptor| file(root, (pid, tid), descriptor.into()))
            }
            FirstArgument::Futex if is_join(root, pid, arguments) => {
                return Some((Place::of(SleepTime::JOIN), None));
            }
            FirstArgument::Futex => {
                let mutex = self.mutexes.waited_for(root, &mut self.memory, pid, arguments);
                holder = mutex.and_then(|mutex| mutex.holder);
                Some(mutex.map_or(Object::Futex(first), |_| Object::Mutex(first)))
            }
            FirstArgument::PollSet | FirstArgument::Other => None,
        };
        Some((Place { on: on.to_owned(), object }, holder))
    }
}

/// Returns whether futex(2) with these arguments is called by pthread_join, which waits on a futex
/// that holds the joined thread's ID until that thread ends. If the thread has just ended, the
/// futex is recognized by two properties: it is not private, unlike those of locks within a
/// process, because the kernel wakes it; and it holds an ID above that of the process, unless IDs
/// have wrapped around. In a container, whose IDs differ from those here, joins are not recognized.
pub(super) fn is_join(root: &Root, pid: u32, arguments: [u64; 4]) -> bool {
    /// Lowest value regarded as a thread ID: lower values may be lock states or sequence numbers.
    const LEAST: u32 = 256;
    /// FUTEX_WAIT, FUTEX_WAIT_BITSET and FUTEX_PRIVATE_FLAG (linux/futex.h).
    const WAITS: [u32; 2] = [0, 9];
    const PRIVATE: u32 = 128;
    /// Largest thread ID on 64-bit machines (PID_MAX_LIMIT in linux/threads.h).
    const MOST: u32 = 4 << 20;
    let [operation, tid] = [arguments[1] as u32, arguments[2] as u32];
    let has_ended = || {
        WAITS.contains(&(operation & 0x7f)) && operation & PRIVATE == 0 && tid > pid && tid <= MOST
    };
    tid >= LEAST && (root.exists(&format!("proc/{pid}/task/{tid}")) || has_ended())
}

/// Returns whether a thread is waiting for a page to be read from a disk. In sendfile(2), it may be
/// waiting for that or for space in the socket's buffer.
fn reads_disk(root: &Root, pid: u32, tid: u32) -> bool {
    let channel = wait_channel(root, &format!("proc/{pid}/task/{tid}"));
    ["folio_wait", "io_schedule", "wait_on_page", "filemap_"]
        .iter()
        .any(|on| channel.starts_with(on))
}

fn file(root: &Root, (pid, tid): (u32, u32), descriptor: u64) -> Option<Object> {
    let path = root.path(&format!("proc/{pid}/task/{tid}/fd/{descriptor}"));
    let link = std::fs::read_link(&path).ok()?;
    Some(Object::File(of_kind(&path, link.to_string_lossy().into_owned())))
}

/// Adds the kind to the link target of a descriptor, at `path`, if the target does not show it: a
/// named pipe looks like a file, but is read and written by programs.
pub(crate) fn of_kind(path: &Path, link: String) -> String {
    if link.starts_with('/') && is_named_pipe(path) { format!("fifo {link}") } else { link }
}
