// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the threads to sample, and reports those that are not sampled.

use crate::procfs::task::Stat;
use linerate_linux::perf::OpenError;
use linerate_machine::Root;
use linerate_record::why::Unread;

/// Returns the threads of processes, most CPU time first.
pub(super) fn threads(root: &Root, pids: &[u32]) -> Vec<u32> {
    let ran = |pid: u32, tid: u32| {
        let stat = root.text(&format!("proc/{pid}/task/{tid}/stat"));
        stat.and_then(|text| Stat::parse(&text)).map_or(0, |s| s.user_ticks + s.system_ticks)
    };
    let of_process = |&pid: &u32| {
        let names = root.names(&format!("proc/{pid}/task")).into_iter();
        let tids = names.filter_map(|name| name.parse().ok());
        tids.map(move |tid| (ran(pid, tid), tid)).collect::<Vec<(u64, u32)>>()
    };
    let mut threads: Vec<(u64, u32)> = pids.iter().flat_map(of_process).collect();
    threads.sort_by_key(|&(ran, tid)| (std::cmp::Reverse(ran), tid));
    threads.into_iter().map(|(_, tid)| tid).collect()
}

pub(super) fn too_many(threads: usize) -> Unread {
    Unread {
        what: "threads".to_owned(),
        reason: format!("{threads} threads were not sampled: the open-file limit was reached"),
        fix: Some("ulimit -n 65536  # in the shell, before linerate".to_owned()),
    }
}

pub(super) fn refused_threads(threads: usize, error: OpenError) -> Unread {
    Unread {
        what: "threads".to_owned(),
        reason: format!("{threads} threads were not sampled: {error}"),
        fix: None,
    }
}
