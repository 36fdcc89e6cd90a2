// SPDX-License-Identifier: MIT OR Apache-2.0
//! Local ports for TCP connections.

use crate::namespace::Namespace;
use linerate_machine::Root;
use linerate_record::why::LocalPorts;

/// Returns the local ports for TCP connections, and the number of connections in TIME_WAIT; `None`
/// if unreadable. The range can only be read in our own network namespace.
pub(crate) fn local_ports(root: &Root, namespace: &Namespace) -> Option<LocalPorts> {
    let setting = |name: &str| {
        let text = root.text(&format!("proc/sys/net/ipv4/{name}"));
        text.filter(|_| namespace.is_own)
    };
    let text = setting("ip_local_port_range")?;
    let mut ports = text.split_whitespace().map(|port| port.parse().ok());
    let range = [ports.next()??, ports.next()??];
    let time_wait = time_wait(&root.text(&namespace.file("sockstat"))?)?;
    let reuse = setting("tcp_tw_reuse").and_then(|text| text.trim().parse().ok());
    Some(LocalPorts { range, time_wait, reuse })
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
        assert_eq!(local_ports(&root, &namespace(true)), None);
        put("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
        let sockstat = "sockets: used 9\nTCP: inuse 5 orphan 0 tw 31 alloc 8 mem 2\nUDP: inuse 1\n";
        put("proc/7/net/sockstat", sockstat);
        let found = local_ports(&root, &namespace(true)).expect("ports");
        let expected = LocalPorts { range: [32_768, 60_999], time_wait: 31, reuse: None };
        assert_eq!((found.number(), &found), (28_232, &expected));
        put("proc/sys/net/ipv4/tcp_tw_reuse", "2\n");
        let found = local_ports(&root, &namespace(true));
        assert_eq!(found, Some(LocalPorts { reuse: Some(2), ..expected }));
        // The settings are those of our own namespace.
        assert_eq!(local_ports(&root, &namespace(false)), None);
        for damaged in ["", "TCP: inuse 5", "TCP: tw", "TCP: tw x"] {
            put("proc/7/net/sockstat", damaged);
            assert_eq!(local_ports(&root, &namespace(true)), None, "{damaged}");
        }
    }
}
