// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples the system calls in which threads sleep.

use crate::procfs::task::InCall;
use crate::threads::{Thread, Threads, text_of};
use linerate_linux::{FirstArgument, system_call};
use linerate_machine::Root;
use linerate_record::why::SleepTime;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;

/// Maximum number of sampled threads, and of samples per tick: a sample takes a few microseconds.
const SAMPLED_MAX: usize = 64;
const PER_TICK: usize = 4;

/// Pseudo-call of a thread stopped by a signal or a debugger.
const STOPPED: &str = "stopped";

/// Where a thread was asleep at a sample.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    on: String,
    object: Option<Object>,
}

/// Object that a call waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    /// A file descriptor, by the target of its link.
    File(String),
    /// The address of a futex.
    Futex(u64),
}

/// Samples of one thread.
#[derive(Debug, Default)]
struct Samples {
    file: Option<File>,
    is_refused: bool,
    asleep: BTreeMap<Place, u64>,
}

/// Samples of all threads.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    samples: BTreeMap<(u32, u32), Samples>,
    /// Next thread to sample, if there are too many for one tick.
    next: usize,
}

impl Sleepers {
    /// Samples threads; if there are many, the ones that are next in order.
    pub(crate) fn tick(&mut self, root: &Root, threads: &Threads) {
        let followed: Vec<&Thread> =
            threads.all.iter().filter(|thread| thread.is_followed()).take(SAMPLED_MAX).collect();
        if followed.is_empty() {
            return;
        }
        for step in 0..followed.len().min(PER_TICK) {
            self.sample(root, followed[(self.next + step) % followed.len()]);
        }
        self.next = (self.next + PER_TICK) % followed.len().max(1);
    }

    fn sample(&mut self, root: &Root, thread: &Thread) {
        let (pid, tid) = (thread.pid, thread.tid);
        let folder = format!("proc/{pid}/task/{tid}");
        let samples = self.samples.entry((pid, tid)).or_insert_with(|| {
            let file = File::open(root.path(&format!("{folder}/syscall")));
            let is_refused =
                file.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
            Samples { file: file.ok(), is_refused, ..Samples::default() }
        });
        let call = match &samples.file {
            Some(file) => text_of(file).and_then(|text| InCall::parse(&text)),
            None => None,
        };
        let place = match call {
            Some(InCall::Running) => return,
            Some(_) if thread.is_stopped() => Some(Place { on: STOPPED.to_owned(), object: None }),
            Some(InCall::Call { number, first }) => place_of(root, pid, number, first),
            Some(InCall::Elsewhere) => None,
            None => {
                // Only the slices show whether the thread sleeps.
                if !thread.is_asleep() {
                    return;
                }
                None
            }
        };
        let place =
            place.unwrap_or_else(|| Place { on: wait_channel(root, &folder), object: None });
        *samples.asleep.entry(place).or_default() += 1;
    }

    /// What a thread slept on: its share of time asleep, `asleep`, apportioned by samples.
    /// `describe` formats an object.
    pub(crate) fn of(
        &self,
        thread: &Thread,
        asleep: f64,
        describe: impl Fn(&Object) -> String,
    ) -> Vec<SleepTime> {
        let Some(samples) = self.samples.get(&(thread.pid, thread.tid)) else { return Vec::new() };
        let all: u64 = samples.asleep.values().sum();
        let mut counts: BTreeMap<(String, Option<String>), u64> = BTreeMap::new();
        for (place, count) in &samples.asleep {
            let object = place.object.as_ref().map(&describe);
            *counts.entry((place.on.clone(), object)).or_default() += count;
        }
        let share = |count: u64| asleep.max(0.0) * count as f64 / all as f64;
        let mut times: Vec<SleepTime> = counts
            .into_iter()
            .map(|((on, object), count)| SleepTime { on, share: share(count), object })
            .collect();
        times.sort_by(|a, b| b.share.total_cmp(&a.share));
        times
    }

    /// Whether the system calls of some thread could not be read.
    pub(crate) fn were_refused(&self) -> bool {
        self.samples.values().any(|samples| samples.is_refused)
    }
}

fn place_of(root: &Root, pid: u32, number: u64, first: u64) -> Option<Place> {
    let (on, argument) = system_call(number)?;
    let object = match argument {
        FirstArgument::Descriptor => {
            let link = std::fs::read_link(root.path(&format!("proc/{pid}/fd/{first}"))).ok();
            link.map(|link| Object::File(link.to_string_lossy().into_owned()))
        }
        FirstArgument::Futex => Some(Object::Futex(first)),
        FirstArgument::Other => None,
    };
    Some(Place { on: on.to_owned(), object })
}

/// Kernel function in which a thread waits, without compiler suffixes.
fn wait_channel(root: &Root, folder: &str) -> String {
    let text = root.text(&format!("{folder}/wchan")).filter(|text| text != "0");
    let name = text.as_deref().and_then(|text| text.split('.').next()).unwrap_or("not known");
    name.to_owned()
}

/// Inode in the link of a socket, `socket:[4711]`.
pub(crate) fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Formats an object that is not a known socket: `pipe`, `/dev/net/tun`.
pub(crate) fn describe(object: &Object) -> String {
    match object {
        Object::Futex(address) => format!("futex {address:#x}"),
        Object::File(link) => match (link.strip_prefix("anon_inode:"), link.split_once(":[")) {
            (Some(kind), _) | (None, Some((kind, _))) => kind.to_owned(),
            (None, None) => link.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_words() {
        let file = |link: &str| describe(&Object::File(link.to_owned()));
        assert_eq!(file("pipe:[55]"), "pipe");
        assert_eq!(file("anon_inode:[eventpoll]"), "[eventpoll]");
        assert_eq!(file("/dev/net/tun"), "/dev/net/tun");
        assert_eq!(describe(&Object::Futex(4096)), "futex 0x1000");
        assert_eq!(socket_inode("socket:[4711]"), Some(4711));
        assert_eq!(socket_inode("pipe:[4711]"), None);
    }
}
