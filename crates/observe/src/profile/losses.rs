// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts packets lost at the interfaces and UDP sockets of a network namespace.

use crate::procfs::net::{parse_dev, parse_snmp, parse_snmp6};
use linerate_machine::Root;

/// Loss counters of a network namespace.
pub(super) struct Losses {
    /// A process in the namespace.
    pid: u32,
    /// The interface whose drops are counted; `None` for all interfaces.
    interface: Option<String>,
}

impl Losses {
    pub(super) fn new(pid: u32, interface: Option<&str>) -> Self {
        Self { pid, interface: interface.map(str::to_owned) }
    }

    /// Returns the names of the counters that are summed.
    pub(super) fn counter(&self) -> String {
        let of = self.interface.as_deref().unwrap_or("all interfaces");
        format!("rx_dropped and tx_dropped on {of}, and Udp.RcvbufErrors")
    }

    /// Returns the number of packets lost so far.
    pub(super) fn read(&self, root: &Root) -> u64 {
        let text = |name: &str| root.text(&format!("proc/{}/net/{name}", self.pid));
        let links = parse_dev(&text("dev").unwrap_or_default());
        let is_it = |name: &str| self.interface.as_deref().is_none_or(|wanted| wanted == name);
        let at_links: u64 = links
            .iter()
            .filter(|link| is_it(&link.name))
            .map(|link| link.rx_dropped + link.tx_dropped)
            .sum();
        let udp = parse_snmp(&text("snmp").unwrap_or_default());
        let udp6 = parse_snmp6(&text("snmp6").unwrap_or_default());
        let at_sockets = udp.get("Udp.RcvbufErrors").copied().unwrap_or(0)
            + udp6.get("Udp6.RcvbufErrors").copied().unwrap_or(0);
        at_links + at_sockets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_those_of_the_interface_and_of_sockets() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        let net = folder.path().join("proc/7/net");
        std::fs::create_dir_all(&net).expect("a folder");
        let dev = "Inter\n face\n a: 1 1 0 5 0 0 0 0 1 1 0 2 0 0 0 0\n \
                   b: 1 1 0 40 0 0 0 0 1 1 0 0 0 0 0 0\n";
        std::fs::write(net.join("dev"), dev).expect("a file");
        std::fs::write(net.join("snmp"), "Udp: RcvbufErrors\nUdp: 100\n").expect("a file");
        std::fs::write(net.join("snmp6"), "Udp6RcvbufErrors 1000\n").expect("a file");
        assert_eq!(Losses::new(7, None).read(&root), 1147);
        assert_eq!(Losses::new(7, Some("a")).read(&root), 1107);
        assert_eq!(Losses::new(8, None).read(&root), 0);
    }
}
