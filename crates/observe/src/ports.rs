// SPDX-License-Identifier: MIT OR Apache-2.0
//! Local ports for TCP connections.

use crate::namespace::Namespace;
use crate::reader::Reader;
use crate::refusal::as_root;
use linerate_linux::network::Setting;
use linerate_machine::Root;
use linerate_record::why::{LocalPorts, Unread};

/// Source of the number of connections in TIME_WAIT. The file stays open, so that it remains
/// readable if the program ends.
#[derive(Debug)]
pub(crate) struct Ports {
    sockstat: Reader,
}

impl Ports {
    pub(crate) fn open(root: &Root, namespace: &Namespace) -> Self {
        Self { sockstat: Reader::open(root, &namespace.file("sockstat")) }
    }

    /// Returns the local ports for TCP connections, and the number of connections in TIME_WAIT;
    /// `None`, with a note in `unread`, if unreadable.
    pub(crate) fn read(
        &mut self,
        root: &Root,
        namespace: &Namespace,
        unread: &mut Vec<Unread>,
    ) -> Option<LocalPorts> {
        let found = self.local_ports(root, namespace);
        if found.is_none() {
            let is_barred = !namespace.is_own && namespace.network.is_none();
            let (reason, fix) = match is_barred {
                true => (
                    "the range of local ports is set in the program's network namespace, which \
                     cannot be entered",
                    namespace.process.parse().ok().map(as_root),
                ),
                false => (
                    "net.ipv4.ip_local_port_range, or /proc/net/sockstat of the program's network \
                     namespace, cannot be read",
                    None,
                ),
            };
            let what = "local_ports".to_owned();
            unread.push(Unread { what, reason: reason.to_owned(), fix });
        }
        found
    }

    fn local_ports(&mut self, root: &Root, namespace: &Namespace) -> Option<LocalPorts> {
        let setting = |setting, name: &str| {
            namespace.setting(root, setting, &format!("proc/sys/net/ipv4/{name}"))
        };
        let text = setting(Setting::LocalPortRange, "ip_local_port_range")?;
        let mut ports = text.split_whitespace().map(|port| port.parse().ok());
        let range = [ports.next()??, ports.next()??];
        let time_wait = time_wait(self.sockstat.text())?;
        let reuse = setting(Setting::TimeWaitReuse, "tcp_tw_reuse");
        let reuse = reuse.and_then(|text| text.trim().parse().ok());
        Some(LocalPorts { range, time_wait, reuse })
    }
}

/// Returns the number of connections in TIME_WAIT from the text of /proc/net/sockstat, which also
/// counts those over IPv6: `TCP: inuse 5 orphan 0 tw 31 alloc 8 mem 2`.
fn time_wait(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_whitespace();
    words.find(|word| *word == "tw")?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::put;
    use std::io::Read;
    use std::path::Path;
    use std::process::{Command, Stdio};

    #[test]
    fn the_range_and_the_connections_in_time_wait_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        let put = |path: &str, text: &str| put(&root, path, text);
        let namespace = |is_own| Namespace {
            folder: "proc/7/net".to_owned(),
            process: "7".to_owned(),
            network: None,
            is_own,
        };
        let local_ports = |namespace: &Namespace| {
            let mut unread = Vec::new();
            let found = Ports::open(&root, namespace).read(&root, namespace, &mut unread);
            assert_eq!(found.is_none(), unread.len() == 1);
            found.ok_or_else(|| unread.remove(0))
        };
        let error = local_ports(&namespace(true)).unwrap_err();
        assert_eq!((error.what.as_str(), error.fix), ("local_ports", None));
        put("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
        let sockstat = "sockets: used 9\nTCP: inuse 5 orphan 0 tw 31 alloc 8 mem 2\nUDP: inuse 1\n";
        put("proc/7/net/sockstat", sockstat);
        let found = local_ports(&namespace(true)).expect("ports");
        let expected = LocalPorts { range: [32_768, 60_999], time_wait: 31, reuse: None };
        assert_eq!((found.number(), &found), (28_232, &expected));
        put("proc/sys/net/ipv4/tcp_tw_reuse", "2\n");
        let found = local_ports(&namespace(true));
        assert_eq!(found, Ok(LocalPorts { reuse: Some(2), ..expected }));
        // /proc/sys shows the settings of our own namespace.
        let error = local_ports(&namespace(false)).unwrap_err();
        assert_eq!(error.fix.as_deref(), Some("sudo linerate why 7"));
        for damaged in ["", "TCP: inuse 5", "TCP: tw", "TCP: tw x"] {
            put("proc/7/net/sockstat", damaged);
            assert!(local_ports(&namespace(true)).is_err(), "{damaged}");
        }
    }

    #[test]
    fn the_ports_of_another_namespace_are_read_too() {
        let script = "echo 40000 40200 > /proc/sys/net/ipv4/ip_local_port_range; echo; read x";
        let child = Command::new("unshare")
            .args(["-Urn", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else { return println!("SKIP: no unshare") };
        let ready = child.stdout.as_mut().unwrap().read(&mut [0]);
        let root = Root::new(Path::new("/"));
        let mut unread = Vec::new();
        let namespace = Namespace::of(&root, Some(child.id()), &mut unread);
        let mut ports = Ports::open(&root, &namespace);
        drop(child.stdin.take());
        child.wait().unwrap();
        if !ready.is_ok_and(|bytes| bytes == 1) {
            return println!("SKIP: not root, or user namespaces are not permitted here");
        }
        // The process has ended.
        let found = ports.read(&root, &namespace, &mut unread);
        assert_eq!((found.map(|ports| ports.range), unread), (Some([40_000, 40_200]), vec![]));
    }
}
