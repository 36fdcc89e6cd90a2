// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples the system calls in which threads sleep.

mod brief;
mod object;

use crate::freezer::Freezer;
use crate::procfs::task::InCall;
use crate::threads::{Thread, Threads, text_of};
use linerate_machine::Root;
use linerate_record::why::SleepTime;
use object::Reader;
pub(crate) use object::of_kind;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};

/// Maximum number of sampled threads.
const SAMPLED_MAX: usize = 64;
/// Maximum number of samples per tick. A sample takes a few microseconds.
const PER_TICK: usize = 4;

/// Name prefix of the threads in which the kernel carries out blocking io_uring requests. For these
/// threads, the kernel reports the system call of the thread that created them.
const URING_WORKER: &str = "iou-wrk-";

/// System call or kernel function in which a thread was found asleep, and the object it waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    on: String,
    object: Option<Object>,
}

impl Place {
    /// Creates a wait in the system call or kernel function `on`, without an object.
    fn of(on: &str) -> Self {
        Self { on: on.to_owned(), object: None }
    }
}

/// Object that a system call waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    /// A file descriptor, by its link target.
    File(String),
    /// A futex, by its address.
    Futex(u64),
    /// A futex that is known to be a mutex, by its address.
    Mutex(u64),
}

/// Samples of a thread.
#[derive(Debug, Default)]
struct Samples {
    file: Option<File>,
    is_refused: bool,
    asleep: BTreeMap<Place, Count>,
}

impl Samples {
    /// Returns the system call that the thread is in; `None` if it is unreadable. `read` returns
    /// the contents of a file.
    fn call(&mut self, read: impl Fn(&File) -> io::Result<String>) -> Option<InCall> {
        match read(self.file.as_ref()?) {
            Ok(text) => InCall::parse(&text),
            // The owner of a process may open the file even if Yama forbids attaching to the
            // process. The kernel checks that when the file is read.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.is_refused = true;
                None
            }
            // The thread has ended. Its samples are kept until the end of the window, but not the
            // descriptor.
            Err(_) => {
                self.file = None;
                None
            }
        }
    }
}

/// Number of samples in which a thread was asleep in one system call or kernel function.
#[derive(Debug, Default)]
struct Count {
    samples: u64,
    /// Number of samples in which each thread held the mutex that the sampled thread was waiting
    /// for, by thread ID.
    holders: BTreeMap<u32, u64>,
}

impl Count {
    fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        for (&holder, samples) in &other.holders {
            *self.holders.entry(holder).or_default() += samples;
        }
    }

    /// Returns the thread that held the mutex in most samples; `None` if no thread held it in at
    /// least half of the samples.
    fn holder(&self) -> Option<u32> {
        let most = self.holders.iter().max_by_key(|(_, samples)| **samples);
        most.filter(|(_, samples)| 2 * **samples >= self.samples).map(|(tid, _)| *tid)
    }
}

/// Samples of all threads.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    samples: BTreeMap<(u32, u32), Samples>,
    reader: Reader,
    freezer: Freezer,
    /// Threads that are sampled in rotation, by process and thread ID.
    chosen: Vec<(u32, u32)>,
    /// Index in `chosen` of the next thread to sample.
    next: usize,
    /// Number of threads that were not chosen at the start of the last rotation.
    left_out: usize,
    /// Inodes of the sockets on which threads slept in the last tick.
    sockets: Vec<u64>,
}

impl Sleepers {
    /// Samples the next [`PER_TICK`] threads in rotation.
    pub(crate) fn tick(&mut self, root: &Root, threads: &Threads) {
        self.sockets.clear();
        for _ in 0..PER_TICK.min(self.chosen.len().max(1)) {
            if self.next >= self.chosen.len() {
                self.choose(threads);
            }
            let Some(&(pid, tid)) = self.chosen.get(self.next) else { return };
            self.next += 1;
            if let Some(thread) = threads.followed(pid, tid) {
                self.sample(root, thread);
            }
        }
    }

    /// Begins a rotation. If there are too many threads, chooses those that have run or waited for
    /// a CPU longest so far.
    fn choose(&mut self, threads: &Threads) {
        let followed = threads.all.iter().filter(|thread| thread.is_followed());
        let mut followed: Vec<&Thread> = followed.collect();
        if followed.len() > SAMPLED_MAX {
            followed.sort_by_cached_key(|thread| std::cmp::Reverse(thread.wanted_ns()));
        }
        self.left_out = followed.len().saturating_sub(SAMPLED_MAX);
        followed.truncate(SAMPLED_MAX);
        self.chosen = followed.iter().map(|thread| (thread.pid, thread.tid)).collect();
        self.next = 0;
    }

    /// Returns the inodes of the sockets on which threads slept in the last tick.
    pub(crate) fn sockets(&self) -> &[u64] {
        &self.sockets
    }

    /// Returns how many threads are not sampled because there are too many.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns in how many samples a thread was asleep.
    pub(crate) fn samples(&self, thread: &Thread) -> u64 {
        let samples = self.samples.get(&(thread.pid, thread.tid));
        samples.map_or(0, |samples| samples.asleep.values().map(|count| count.samples).sum())
    }

    fn sample(&mut self, root: &Root, thread: &Thread) {
        let (pid, tid) = (thread.pid, thread.tid);
        let is_frozen = self.freezer.is_frozen(root, pid);
        let folder = format!("proc/{pid}/task/{tid}");
        let samples = self.samples.entry((pid, tid)).or_insert_with(|| {
            let file = File::open(root.path(&format!("{folder}/syscall")));
            let is_refused =
                file.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
            Samples { file: file.ok(), is_refused, ..Samples::default() }
        });
        let call = samples.call(text_of);
        let mut holder = None;
        let place = match call {
            Some(InCall::Running) => return,
            Some(_) if is_frozen => Some(Place::of(SleepTime::FROZEN)),
            // io_uring workers make no system calls of their own.
            Some(_) if thread.name.starts_with(URING_WORKER) => None,
            Some(_) if thread.is_stopped(root) => Some(Place::of(SleepTime::STOPPED)),
            Some(InCall::Call { .. }) if is_short_of_memory(root, thread, &folder) => None,
            Some(InCall::Call { number, arguments }) => {
                let found = self.reader.place_of(root, (pid, tid), number, arguments);
                found.map(|(place, of)| {
                    holder = of;
                    place
                })
            }
            Some(InCall::Elsewhere) => None,
            None => {
                // The call is unreadable. Only the thread's state at the last read shows whether it
                // sleeps.
                if matches!(thread.state(), None | Some('R')) {
                    return;
                }
                is_frozen.then(|| Place::of(SleepTime::FROZEN))
            }
        };
        let place = place.unwrap_or_else(|| Place::of(&wait_channel(root, &folder)));
        if let Some(Object::File(link)) = &place.object {
            self.sockets.extend(socket_inode(link));
        }
        let count = samples.asleep.entry(place).or_default();
        count.samples += 1;
        if let Some(holder) = holder {
            *count.holders.entry(holder).or_default() += 1;
        }
    }

    /// Returns the calls in which a thread slept, and the objects that it waited for. `asleep`, the
    /// fraction of time that it slept, is divided among them in proportion to their samples.
    /// `describe` formats an object.
    pub(crate) fn of(
        &self,
        thread: &Thread,
        asleep: f64,
        describe: impl Fn(&Object) -> String,
    ) -> Vec<SleepTime> {
        let Some(samples) = self.samples.get(&(thread.pid, thread.tid)) else { return Vec::new() };
        let all: u64 = samples.asleep.values().map(|count| count.samples).sum();
        // Several objects may have the same description.
        let mut counts: BTreeMap<(String, Option<String>), Count> = BTreeMap::new();
        for (place, count) in &samples.asleep {
            let object = place.object.as_ref().map(&describe);
            counts.entry((place.on.clone(), object)).or_default().add(count);
        }
        brief::merge(&mut counts);
        let share = |count: u64| asleep.max(0.0) * count as f64 / all as f64;
        let mut times: Vec<SleepTime> = counts
            .into_iter()
            .map(|((on, object), count)| SleepTime {
                on,
                share: share(count.samples),
                object,
                holder: count.holder(),
            })
            .collect();
        times.sort_by(|a, b| b.share.total_cmp(&a.share));
        times
    }

    /// Begins the next window.
    pub(crate) fn begin_window(&mut self, threads: &Threads) {
        self.samples.retain(|&(pid, tid), _| threads.has(pid, tid));
        self.samples.values_mut().for_each(|samples| samples.asleep.clear());
        self.reader = Reader::default();
    }

    /// Returns whether the kernel denied access to the system calls of a thread.
    pub(crate) fn were_refused(&self) -> bool {
        self.samples.values().any(|samples| samples.is_refused)
    }
}

/// Returns whether the kernel holds up a thread at the end of a system call because memory is
/// short, or its control group is above `memory.high`. Only a thread in an uninterruptible sleep
/// can be held up.
fn is_short_of_memory(root: &Root, thread: &Thread, folder: &str) -> bool {
    thread.state() == Some('D') && SleepTime::MEMORY.contains(&wait_channel(root, folder).as_str())
}

/// Returns the kernel function in which a thread waits, without compiler suffixes.
fn wait_channel(root: &Root, folder: &str) -> String {
    let text = root.text(&format!("{folder}/wchan")).filter(|text| text != "0");
    let name =
        text.as_deref().and_then(|text| text.split('.').next()).unwrap_or(SleepTime::NOT_KNOWN);
    name.to_owned()
}

/// Parses the inode number from the link target of a socket: `socket:[4711]`.
pub(crate) fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Formats an object other than a known socket: `pipe` or `/dev/net/tun`, for example.
pub(crate) fn describe(object: &Object) -> String {
    match object {
        Object::Futex(address) => format!("futex {address:#x}"),
        Object::Mutex(address) => format!("mutex {address:#x}"),
        Object::File(link) => match (link.strip_prefix("anon_inode:"), link.split_once(":[")) {
            (Some(kind), _) | (None, Some((kind, _))) => kind.to_owned(),
            (None, None) => link.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::object::is_join;
    use super::*;
    use crate::tree::put;
    use std::path::Path;

    #[test]
    fn of_many_threads_those_that_work_are_sampled() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let count = 2 * SAMPLED_MAX as u32;
        let set = |tid: u32, run_ns: u32| {
            let task = format!("proc/1/task/{tid}");
            put(&root, &format!("{task}/stat"), &format!("{tid} (a) S {}", "0 ".repeat(49)));
            put(&root, &format!("{task}/schedstat"), &format!("{run_ns} 0 1\n"));
        };
        (1..=count).for_each(|tid| set(tid, 0));
        let mut threads = Threads::default();
        threads.look(&root, &[1], 0, 0);
        // The threads with even IDs work.
        (2..=count).step_by(2).for_each(|tid| set(tid, 1000));
        threads.read(&root, 0, 10_000);
        let mut sleepers = Sleepers::default();
        for _ in 0..SAMPLED_MAX {
            sleepers.tick(&root, &threads);
        }
        assert_eq!(sleepers.left_out(), SAMPLED_MAX);
        assert_eq!(sleepers.samples.len(), SAMPLED_MAX);
        assert!(sleepers.samples.keys().all(|(_, tid)| tid % 2 == 0));
        let of_tid = |tid: u32| threads.followed(1, tid).map(|thread| sleepers.samples(thread));
        assert_eq!([of_tid(2), of_tid(1)], [Some(PER_TICK as u64), Some(0)]);
    }

    #[test]
    fn a_thread_short_of_memory_waits_in_no_call() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let seen = |state: char, channel: &str| {
            let task = "proc/1/task/1";
            put(&root, &format!("{task}/stat"), &format!("1 (a) {state} {}", "0 ".repeat(49)));
            put(&root, &format!("{task}/schedstat"), "1 0 1\n");
            put(&root, &format!("{task}/wchan"), channel);
            let mut threads = Threads::default();
            threads.look(&root, &[1], 0, 0);
            is_short_of_memory(&root, &threads.all[0], task)
        };
        assert!(seen('D', "mem_cgroup_handle_over_high"));
        assert!(!seen('D', "folio_wait_bit_common"));
        assert!(!seen('S', "mem_cgroup_handle_over_high"));
    }

    #[test]
    fn a_call_that_may_be_opened_but_not_read_is_refused() {
        let own = File::open("/proc/thread-self/syscall").expect("a file");
        let mut samples = Samples { file: Some(own), ..Samples::default() };
        assert!(samples.call(text_of).is_some());
        assert!(!samples.is_refused);
        let refuse = |_: &File| Err(io::Error::from_raw_os_error(linerate_linux::errno::EPERM));
        assert_eq!(samples.call(refuse), None);
        assert!(samples.is_refused && samples.file.is_some());
    }

    #[test]
    fn the_descriptor_of_a_thread_that_has_ended_is_closed() {
        let own = File::open("/proc/thread-self/syscall").expect("a file");
        let mut samples = Samples { file: Some(own), ..Samples::default() };
        let ended = |_: &File| Err(io::Error::from_raw_os_error(linerate_linux::errno::ESRCH));
        assert_eq!(samples.call(ended), None);
        assert!(samples.file.is_none() && !samples.is_refused);
    }

    #[test]
    fn a_named_pipe_is_not_taken_for_a_file() {
        let place = tempfile::tempdir().unwrap();
        let (pipe, file) = (place.path().join("pipe"), place.path().join("file"));
        std::fs::write(&file, "").unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|status| status.success()));
        let of = |path: &Path| of_kind(path, path.to_string_lossy().into_owned());
        assert_eq!(of(&pipe), format!("fifo {}", pipe.display()));
        assert_eq!(of(&file), file.to_string_lossy());
        assert_eq!(of(&place.path().join("gone")), place.path().join("gone").to_string_lossy());
    }

    #[test]
    fn the_holder_of_objects_with_one_description_is_that_of_most_samples() {
        let held = |samples, holder| Count { samples, holders: [(holder, samples)].into() };
        let mut all = Count::default();
        all.add(&held(20, 7));
        all.add(&held(3, 8));
        all.add(&Count { samples: 2, ..Count::default() });
        assert_eq!((all.samples, all.holder()), (25, Some(7)));
        all.add(&held(20, 8));
        assert_eq!(all.holder(), Some(8));
    }

    #[test]
    fn a_futex_that_holds_a_thread_id_is_a_join() {
        let folder = tempfile::tempdir().unwrap();
        for tid in [5, 4711] {
            std::fs::create_dir_all(folder.path().join(format!("proc/5/task/{tid}"))).unwrap();
        }
        let root = Root::new(folder.path());
        let waits = |operation: u64, value: u64| is_join(&root, 5, [4096, operation, value, 0]);
        assert!(waits(265, 4711) && waits(128, 4711));
        // The value is the lower half of the argument.
        assert!(waits(265, 0x1_0000_0000 + 4711));
        // A thread that has ended; a lock within the process; another operation.
        assert!(waits(265, 4712) && waits(0, 4712));
        assert!(!waits(265 + 128, 4712) && !waits(6, 4712));
        // States of locks may equal small thread IDs.
        assert!(!waits(265, 5) && !waits(265, 200));
        // A robust mutex with waiting threads.
        assert!(!waits(0, 0x8000_1000));
    }

    #[test]
    fn objects_have_words() {
        let file = |link: &str| describe(&Object::File(link.to_owned()));
        assert_eq!(file("pipe:[55]"), "pipe");
        assert_eq!(file("anon_inode:[eventpoll]"), "[eventpoll]");
        assert_eq!(file("/dev/net/tun"), "/dev/net/tun");
        assert_eq!(describe(&Object::Futex(4096)), "futex 0x1000");
        assert_eq!(describe(&Object::Mutex(4096)), "mutex 0x1000");
        assert_eq!(socket_inode("socket:[4711]"), Some(4711));
        assert_eq!(socket_inode("pipe:[4711]"), None);
    }
}
