// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protocol counters of a network namespace. Their files stay open: a file that was opened through
//! a process remains readable after the process has ended, because the open file keeps the network
//! namespace alive.

use crate::namespace::Namespace;
use crate::procfs::net::{parse_conntrack, parse_snmp, parse_snmp6};
use crate::reader::Reader;
use linerate_machine::Root;
use std::collections::BTreeMap;

/// The counters' files.
#[derive(Debug)]
pub(crate) struct Protocols {
    snmp: Reader,
    netstat: Reader,
    snmp6: Reader,
    conntrack: Reader,
}

impl Protocols {
    pub(crate) fn open(root: &Root, namespace: &Namespace) -> Self {
        let open = |name: &str| Reader::open(root, &namespace.file(name));
        Self {
            snmp: open("snmp"),
            netstat: open("netstat"),
            snmp6: open("snmp6"),
            conntrack: open("stat/nf_conntrack"),
        }
    }

    /// Returns the current counters, by name.
    pub(crate) fn read(&mut self) -> BTreeMap<String, u64> {
        let mut counters = parse_snmp(self.snmp.text());
        counters.extend(parse_snmp(self.netstat.text()));
        counters.extend(parse_snmp6(self.snmp6.text()));
        counters.extend(parse_conntrack(self.conntrack.text()));
        counters
    }

    /// Returns whether the kernel exports the counters of connection tracking.
    pub(crate) fn has_conntrack(&mut self) -> bool {
        !self.conntrack.text().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn the_counters_of_a_namespace_outlast_the_program() {
        let child = Command::new("unshare")
            .args(["-Urn", "sh", "-c", "ip link set lo up; echo; read x; ping -c 3 127.0.0.1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else { return println!("SKIP: no unshare") };
        let mut line = [0];
        let ready = child.stdout.as_mut().unwrap().read(&mut line);
        let root = Root::new(std::path::Path::new("/"));
        let namespace = Namespace::of(&root, Some(child.id()), &mut Vec::new());
        let mut counters = Protocols::open(&root, &namespace);
        let before = counters.read();
        drop(child.stdin.take().map(|mut input| input.write_all(b"\n")));
        child.wait().unwrap();
        if !ready.is_ok_and(|bytes| bytes == 1) {
            return println!("SKIP: not root, or user namespaces are not permitted here");
        }
        assert!(!namespace.is_own && !before.is_empty());
        assert!(!root.exists(&namespace.file("snmp")));
        let after = counters.read();
        let is_there = |(name, count): (&String, &u64)| after.get(name).is_some_and(|n| n >= count);
        assert!(before.iter().all(is_there), "{before:?} {after:?}");
    }
}
