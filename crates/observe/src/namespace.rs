// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network namespace of the observed processes.

use crate::descriptors::Open;
use crate::refusal::as_root;
use crate::target::{open_id, stat_of};
use linerate_linux::network::{Network, Setting};
use linerate_machine::Root;
use linerate_record::why::Unread;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Keyword for processes whose network namespace was not read.
pub(crate) const OTHER_NAMESPACES: &str = "other_namespaces";

/// Access to a network namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    /// The namespace's directory in /proc: `proc/PID/net`, or `proc/self/net` for our own, which
    /// remains readable if the program ends.
    pub(crate) folder: String,
    /// The process, in /proc, whose namespace this is.
    pub(crate) process: String,
    /// Netlink and ioctl sockets in the namespace; `None` if it cannot be entered.
    pub(crate) network: Option<Network>,
    /// Whether this is our own namespace. /sys shows only the interfaces of our own namespace.
    pub(crate) is_own: bool,
}

impl Namespace {
    /// Returns a process's namespace, or our own if no process is given. Failures are added to
    /// `unread`.
    pub(crate) fn of(root: &Root, pid: Option<u32>, unread: &mut Vec<Unread>) -> Self {
        let process = pid;
        let pid = pid.map(|pid| open_id(root, pid));
        let name =
            |process: &str| std::fs::read_link(root.path(&format!("proc/{process}/ns/net"))).ok();
        let process_id = pid.map_or("self".to_owned(), |pid| pid.to_string());
        let (is_own, reader) = match (name("self"), name(&process_id)) {
            (Some(own), Some(its)) if own == its => (true, "self"),
            (Some(_), Some(_)) => (false, process_id.as_str()),
            // Unreadable: if a process hides its namespace, assume that it is ours.
            _ => (true, process_id.as_str()),
        };
        let folder = format!("proc/{reader}/net");
        let opened = match (root.is_here(), is_own, pid) {
            (false, ..) => None,
            (true, false, Some(pid)) => Some(Network::of_process(pid)),
            _ => Some(Network::own()),
        };
        let network = match opened.transpose() {
            Ok(network) => network,
            Err(error) => {
                unread.push(Unread {
                    what: "sockets_and_drivers".to_owned(),
                    reason: format!("the program's network namespace cannot be queried: {error}"),
                    fix: process.map(as_root),
                });
                None
            }
        };
        Self { folder, process: process_id, network, is_own }
    }

    /// Adds an entry to `unread` if some of `pids` have sockets in another network namespace than
    /// this one, so that their sockets and interfaces are not read. A process without sockets, such
    /// as a wrapper that started the program, is not reported.
    pub(crate) fn note_others(&self, root: &Root, pids: &[u32], unread: &mut Vec<Unread>) {
        let process = &self.process;
        let link = std::fs::read_link(root.path(&format!("proc/{process}/ns/net")));
        let Ok(own) = link else { return };
        let is_other = |pid: &&u32| name_of(root, **pid).is_some_and(|name| name != own);
        let others = pids.iter().filter(is_other);
        let others: Vec<u32> =
            others.filter(|pid| may_have_sockets(root, **pid)).copied().collect();
        let Some(one) = others.first() else { return };
        let who = match others.len() {
            1 => format!("process {one} is in a different network namespace"),
            n => format!("{n} processes, including {one}, are in different network namespaces"),
        };
        unread.push(Unread {
            what: OTHER_NAMESPACES.to_owned(),
            reason: format!(
                "{who} from process {process}: sockets and interfaces there were not read"
            ),
            fix: Some(format!("linerate why {one}")),
        });
    }

    /// Returns the value of a setting in this namespace; `None` if unreadable. The file at `path`,
    /// in /proc/sys, only shows the value in our own namespace.
    pub(crate) fn setting(&self, root: &Root, setting: Setting, path: &str) -> Option<String> {
        match (&self.network, self.is_own) {
            (_, true) => root.text(path),
            (Some(network), false) => network.setting(setting),
            (None, false) => None,
        }
    }

    /// Returns the path of a file in the namespace's directory.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }
}

/// Returns the identity of a process's network namespace; `None` if unreadable.
fn name_of(root: &Root, pid: u32) -> Option<PathBuf> {
    let link = |id: u32| std::fs::read_link(root.path(&format!("proc/{id}/ns/net"))).ok();
    link(pid).or_else(|| link(Some(open_id(root, pid)).filter(|id| *id != pid)?))
}

/// Returns whether a process has sockets open, or hides its descriptors.
fn may_have_sockets(root: &Root, pid: u32) -> bool {
    let open = Open::of(root, pid);
    open.is_hidden() || !open.sockets.is_empty()
}

/// Returns the process whose network namespace is read: the first of `pids`, unless they are in
/// several namespaces, as when the first is a wrapper that started the program in another one. In
/// that case, returns the process with sockets that used the most CPU time.
pub(crate) fn representative(root: &Root, pids: &[u32]) -> Option<u32> {
    let first = *pids.first()?;
    let mut namespaces = BTreeMap::<PathBuf, Vec<u32>>::new();
    for &pid in pids {
        if let Some(name) = name_of(root, pid) {
            namespaces.entry(name).or_default().push(pid);
        }
    }
    if namespaces.len() < 2 {
        return Some(first);
    }
    let ticks = |pid: u32| stat_of(root, pid).map_or(0, |one| one.user_ticks + one.system_ticks);
    let users = |pids: Vec<u32>| -> Vec<u32> {
        pids.into_iter().filter(|pid| may_have_sockets(root, *pid)).collect()
    };
    let groups = namespaces.into_values().map(users).filter(|group| !group.is_empty());
    let used = |group: &Vec<u32>| group.iter().map(|pid| ticks(*pid)).sum::<u64>();
    // Of namespaces with the same CPU time, that of the process that was started first.
    let chosen =
        groups.max_by_key(|group| (used(group), std::cmp::Reverse(group.first().copied())));
    chosen.and_then(|group| group.into_iter().max_by_key(|pid| ticks(*pid))).or(Some(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::put;
    use std::os::unix::fs::symlink;

    /// Adds a process in a network namespace, with CPU time in ticks and perhaps a socket.
    fn process(root: &Root, pid: u32, namespace: &str, ticks: u32, has_socket: bool) {
        let fields = (4..=52).map(|field| if field == 14 { ticks } else { 0 }.to_string());
        let fields: Vec<String> = fields.collect();
        put(root, &format!("proc/{pid}/stat"), &format!("{pid} (a) S {}", fields.join(" ")));
        let folder = root.path(&format!("proc/{pid}"));
        for sub in ["ns", "fd", "net"] {
            std::fs::create_dir_all(folder.join(sub)).expect("a folder");
        }
        symlink(format!("net:[{namespace}]"), folder.join("ns/net")).expect("a link");
        symlink("/dev/null", folder.join("fd/0")).expect("a link");
        if has_socket {
            symlink(format!("socket:[{pid}]"), folder.join("fd/3")).expect("a link");
        }
    }

    #[test]
    fn a_wrapper_does_not_hide_the_namespace_of_the_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        process(&root, 10, "1", 900, false);
        process(&root, 11, "2", 3, true);
        process(&root, 12, "2", 70, true);
        assert_eq!(representative(&root, &[10, 11, 12]), Some(12));
        // In one namespace, the first process is as good as any other.
        assert_eq!(representative(&root, &[11, 12]), Some(11));
        // Without sockets anywhere, nothing distinguishes the processes.
        process(&root, 13, "3", 50, false);
        assert_eq!(representative(&root, &[10, 13]), Some(10));
        assert_eq!(representative(&root, &[]), None);

        let mut unread = Vec::new();
        let of = |pid: u32| Namespace {
            folder: format!("proc/{pid}/net"),
            process: pid.to_string(),
            network: None,
            is_own: false,
        };
        // The wrapper has no sockets: nothing is missed.
        of(12).note_others(&root, &[10, 11, 12], &mut unread);
        assert!(unread.is_empty(), "{unread:?}");
        of(10).note_others(&root, &[10, 11, 12], &mut unread);
        let [one] = unread.as_slice() else { panic!("{unread:?}") };
        assert_eq!((one.what.as_str(), one.fix.as_deref()), OTHERS);
        assert!(one.reason.starts_with("2 processes, including 11, are"), "{}", one.reason);
        assert!(one.reason.contains("from process 10:"), "{}", one.reason);
    }

    #[test]
    fn the_counters_of_our_own_namespace_outlast_the_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        process(&root, 10, "1", 0, true);
        process(&root, 11, "2", 0, true);
        symlink("10", folder.path().join("proc/self")).expect("a link");
        let file = |pid| Namespace::of(&root, Some(pid), &mut Vec::new()).file("snmp");
        assert_eq!([file(10), file(11)], ["proc/self/net/snmp", "proc/11/net/snmp"]);
    }

    const OTHERS: (&str, Option<&str>) = ("other_namespaces", Some("linerate why 11"));
}
