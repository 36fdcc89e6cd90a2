// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network namespace of the observed processes.

use crate::refusal::as_root;
use linerate_linux::network::Network;
use linerate_machine::Root;
use linerate_record::why::Unread;

/// Access to a network namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    /// The namespace's directory in /proc: `proc/PID/net`.
    pub(crate) folder: String,
    /// Netlink and ioctl sockets in the namespace; `None` if it cannot be entered.
    pub(crate) network: Option<Network>,
    /// Whether this is our own namespace. /sys shows only the interfaces of our own namespace.
    pub(crate) is_own: bool,
}

impl Namespace {
    /// Returns a process's namespace, or our own if no process is given. Failures are added to
    /// `unread`.
    pub(crate) fn of(root: &Root, pid: Option<u32>, unread: &mut Vec<Unread>) -> Self {
        let name =
            |process: &str| std::fs::read_link(root.path(&format!("proc/{process}/ns/net"))).ok();
        let process = pid.map_or("self".to_owned(), |pid| pid.to_string());
        let is_own = match (name("self"), name(&process)) {
            (Some(own), Some(its)) => own == its,
            // Unreadable: if a process hides its namespace, assume that it is ours.
            _ => true,
        };
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
                    fix: pid.map(as_root),
                });
                None
            }
        };
        Self { folder: format!("proc/{process}/net"), network, is_own }
    }

    /// Adds an entry to `unread` if some of `pids` are not in the first process's network
    /// namespace, so that their sockets and interfaces are not read.
    pub(crate) fn note_others(root: &Root, pids: &[u32], unread: &mut Vec<Unread>) {
        let Some((first, others)) = pids.split_first() else { return };
        let name = |pid: &u32| std::fs::read_link(root.path(&format!("proc/{pid}/ns/net"))).ok();
        let Some(own) = name(first) else { return };
        let is_other = |pid: &&u32| name(pid).is_some_and(|name| name != own);
        let others: Vec<u32> = others.iter().filter(is_other).copied().collect();
        let Some(one) = others.first() else { return };
        let who = match others.len() {
            1 => format!("process {one} is in a different network namespace"),
            n => format!("{n} processes, including {one}, are in different network namespaces"),
        };
        unread.push(Unread {
            what: "other_namespaces".to_owned(),
            reason: format!(
                "{who} from process {first}: sockets and interfaces there were not read"
            ),
            fix: Some(format!("linerate why {one}")),
        });
    }

    /// Returns the path of a file in the namespace's directory.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }
}
