// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces, drivers, queueing disciplines and protocol counters of one network namespace.

use crate::namespace::Namespace;
use crate::packets::Tunnels;
use crate::procfs::net::{grown, parse_dev, parse_snmp_lines, parse_snmp6_lines};
use crate::protocols::Protocols;
use crate::reader::Reader;
use linerate_linux::network::{Link, Network, Qdisc, Setting};
use linerate_machine::Root;
use linerate_record::why::{InterfaceCounts, QdiscCounts};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of interfaces whose driver counters are read. Container hosts have hundreds of
/// interfaces, but few NICs.
const DRIVERS_MAX: usize = 32;

/// Parent of a root qdisc (TC_H_ROOT).
const ROOT: u32 = 0xffff_ffff;
/// Parent of an ingress qdisc (TC_H_INGRESS).
const INGRESS: u32 = 0xffff_fff1;

/// Driver counters at the start, as names and values.
type DriverCounters = (Vec<String>, BTreeMap<String, u64>);

/// Readings at the start of the window.
#[derive(Debug, Default)]
pub(crate) struct Interfaces {
    links: BTreeMap<String, Link>,
    qdiscs: Vec<Qdisc>,
    drivers: BTreeMap<String, DriverCounters>,
    /// NICs whose driver counters are not read because there are too many.
    left_out: BTreeSet<String>,
    protocols: BTreeMap<String, u64>,
    /// Files of the protocol counters; `None` before the window.
    files: Option<Protocols>,
    /// Protocol counters and queueing disciplines at the end of the window, once they were read.
    last: Option<(BTreeMap<String, u64>, Vec<Qdisc>)>,
}

/// Counts over the window.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) interfaces: Vec<InterfaceCounts>,
    pub(crate) protocols: BTreeMap<String, u64>,
    /// Interfaces that disappeared during the window.
    pub(crate) vanished: Vec<String>,
    /// NICs with traffic whose driver counters were not read because there are too many.
    pub(crate) without_driver: Vec<String>,
    /// Whether connection tracking may have dropped packets that could not be counted.
    pub(crate) is_conntrack_hidden: bool,
}

/// Returns the interfaces, from netlink or else from /proc.
pub(crate) fn links(root: &Root, namespace: &Namespace) -> Vec<Link> {
    let asked = namespace.network.as_ref().and_then(|network| network.links().ok());
    asked.unwrap_or_else(|| parse_dev(&root.text(&namespace.file("dev")).unwrap_or_default()))
}

/// Returns the packets and bytes that passed through the named TUN devices; `None` if a device is
/// not among the links.
pub(crate) fn through(links: &[Link], names: &BTreeSet<String>) -> Option<Tunnels> {
    let devices: Vec<&Link> = links.iter().filter(|link| names.contains(&link.name)).collect();
    let sum = |of: fn(&Link) -> u64| devices.iter().map(|link| of(link)).sum::<u64>();
    (!names.is_empty() && devices.len() == names.len()).then(|| Tunnels {
        devices: devices.len(),
        written: (sum(|link| link.rx_packets), sum(|link| link.rx_bytes)),
        read: (sum(|link| link.tx_packets), sum(|link| link.tx_bytes)),
    })
}

/// Returns whether packets may be dropped at a full connection tracking table without a readable
/// counter: the kernel has connection tracking, but no `stat/nf_conntrack`
/// (CONFIG_NF_CONNTRACK_PROCFS). A table far from full drops none.
fn is_conntrack_hidden(root: &Root, namespace: &Namespace, has_counter: bool) -> bool {
    /// A table with at least this fraction of its maximum number of entries may have been full
    /// at some time in the window.
    const NEARLY_FULL: f64 = 0.9;
    let number = |text: Option<String>| -> Option<f64> { text?.trim().parse().ok() };
    let most = number(root.text("proc/sys/net/netfilter/nf_conntrack_max"));
    let Some(most) = most else { return false };
    let path = "proc/sys/net/netfilter/nf_conntrack_count";
    let entries = number(namespace.setting(root, Setting::ConntrackCount, path));
    !has_counter && entries.is_none_or(|entries| entries >= NEARLY_FULL * most)
}

/// UDP and TCP counters, read every slice.
#[derive(Debug)]
pub(crate) struct Transport {
    snmp: Reader,
    snmp6: Reader,
}

impl Transport {
    pub(crate) fn open(root: &Root, namespace: &Namespace) -> Self {
        let open = |name: &str| Reader::open(root, &namespace.file(name));
        Self { snmp: open("snmp"), snmp6: open("snmp6") }
    }

    /// Returns the UDP datagrams and TCP segments that the namespace has received and sent.
    /// Datagrams over IPv6, which are in another file, are included only if `has_udp`.
    pub(crate) fn read(&mut self, has_udp: bool) -> (u64, u64) {
        let groups = ["Tcp:", "Udp:"];
        let is_counted = |line: &&str| groups.iter().any(|group| line.starts_with(group));
        let mut counters = parse_snmp_lines(self.snmp.text().lines().filter(is_counted));
        if has_udp {
            let of_udp = |line: &&str| line.starts_with("Udp6");
            counters.extend(parse_snmp6_lines(self.snmp6.text().lines().filter(of_udp)));
        }
        let sum = |names: &[&str]| names.iter().filter_map(|name| counters.get(*name)).sum();
        let datagrams =
            sum(&["Udp.InDatagrams", "Udp.OutDatagrams", "Udp6.InDatagrams", "Udp6.OutDatagrams"]);
        // TCP counters include segments over IPv6.
        (datagrams, sum(&["Tcp.InSegs", "Tcp.OutSegs"]))
    }
}

impl Interfaces {
    /// Reads the counters at the start. `wanted` is the requested interface. Counters that are
    /// compared with each other are read first, because reading those of drivers takes
    /// milliseconds.
    pub(crate) fn start(root: &Root, namespace: &Namespace, wanted: Option<&str>) -> Self {
        let mut files = Protocols::open(root, namespace);
        let links = links(root, namespace);
        let (protocols, qdiscs) = (files.read(), qdiscs(namespace));
        let links: BTreeMap<String, Link> =
            links.into_iter().map(|link| (link.name.clone(), link)).collect();
        let mut drivers = BTreeMap::new();
        let mut names = by_importance(&links, wanted);
        let left_out = names.split_off(names.len().min(DRIVERS_MAX));
        let left_out = left_out.into_iter().filter(|name| links[*name].kind.is_none());
        let left_out = left_out.cloned().collect();
        if let Some(network) = &namespace.network {
            for name in names {
                let Ok(counters) = network.driver_counter_names(name) else { continue };
                let values = values(network, name, &counters);
                drivers.insert(name.clone(), (counters, values));
            }
        }
        let files = Some(files);
        Self { links, qdiscs, drivers, left_out, protocols, files, last: None }
    }

    /// Reads the protocol counters and queueing disciplines at the end of the window. Interfaces
    /// and drivers are read separately. If the protocol counters have become unreadable, their
    /// readings from the start of the window remain.
    pub(crate) fn read(&mut self, namespace: &Namespace) {
        let protocols = self.files.as_mut().map(Protocols::read).unwrap_or_default();
        let protocols = if protocols.is_empty() { self.protocols.clone() } else { protocols };
        self.last = Some((protocols, qdiscs(namespace)));
    }

    /// Returns the differences from the start to the last [`Interfaces::read`]. `links` are the
    /// last readings.
    pub(crate) fn finish(
        &mut self,
        root: &Root,
        namespace: &Namespace,
        wanted: Option<&str>,
        links: &[Link],
    ) -> Found {
        if self.last.is_none() {
            self.read(namespace);
        }
        let (now, qdiscs) = self.last.take().unwrap_or_default();
        let mut interfaces = Vec::new();
        let mut vanished = self.links.clone();
        for link in links {
            // A new interface counts from 0.
            let none = Link::default();
            let before = self.links.get(&link.name).filter(|before| before.index == link.index);
            if before.is_some() {
                vanished.remove(&link.name);
            }
            let mut counts = difference(before.unwrap_or(&none), link);
            counts.qdiscs = self.qdiscs_of(namespace, link, &qdiscs);
            let is_quiet = [counts.rx_packets, counts.tx_packets, counts.rx_dropped]
                .into_iter()
                .chain([counts.tx_dropped, counts.rx_errors, counts.tx_errors, counts.rx_missed])
                .all(|count| count == 0);
            if is_quiet && Some(link.name.as_str()) != wanted {
                continue;
            }
            if let Some(network) = &namespace.network {
                self.ask_driver(network, &mut counts);
            }
            if namespace.is_own && is_in_sysfs(root, link) {
                read_sysfs(root, &mut counts);
            }
            interfaces.push(counts);
        }
        let names = interfaces.iter().map(|one| &one.name);
        let without_driver = names.filter(|name| self.left_out.contains(*name)).cloned().collect();
        let has_counter = self.files.as_mut().is_some_and(Protocols::has_conntrack);
        let protocols = grown(&self.protocols, &now);
        self.protocols = now;
        self.qdiscs = qdiscs;
        self.links = links.iter().map(|link| (link.name.clone(), link.clone())).collect();
        Found {
            interfaces,
            protocols,
            vanished: vanished.into_keys().collect(),
            without_driver,
            is_conntrack_hidden: is_conntrack_hidden(root, namespace, has_counter),
        }
    }

    fn ask_driver(&mut self, network: &Network, counts: &mut InterfaceCounts) {
        let name = counts.name.clone();
        if let Ok(driver) = network.driver(&name) {
            counts.driver = Some(driver.name).filter(|name| !name.is_empty());
        }
        counts.features = network.features(&name).unwrap_or_default().into_iter().collect();
        if let Some((names, before)) = self.drivers.get_mut(&name) {
            let now = values(network, &name, names);
            counts.driver_counters = grown(before, &now);
            *before = now;
        }
    }

    fn qdiscs_of(&self, namespace: &Namespace, link: &Link, now: &[Qdisc]) -> Vec<QdiscCounts> {
        let count = |qdisc: &Qdisc| {
            let is_same = |before: &&Qdisc| {
                (before.interface, before.handle, before.parent, &before.kind)
                    == (qdisc.interface, qdisc.handle, qdisc.parent, &qdisc.kind)
            };
            let none = Qdisc::default();
            let before = self.qdiscs.iter().find(is_same).unwrap_or(&none);
            let network = namespace.network.as_ref();
            qdisc_difference(before, qdisc, network.and_then(|network| network.rate_of(qdisc)))
        };
        now.iter().filter(|qdisc| qdisc.interface == link.index).map(count).collect()
    }
}

/// Returns the names of the interfaces: the wanted one, NICs, and then virtual interfaces, such as
/// those of containers.
fn by_importance<'l>(links: &'l BTreeMap<String, Link>, wanted: Option<&str>) -> Vec<&'l String> {
    let mut names: Vec<&String> = links.keys().collect();
    names.sort_by_key(|name| (Some(name.as_str()) != wanted, links[*name].kind.is_some()));
    names
}

fn qdiscs(namespace: &Namespace) -> Vec<Qdisc> {
    namespace.network.as_ref().and_then(|network| network.qdiscs().ok()).unwrap_or_default()
}

fn values(network: &Network, name: &str, names: &[String]) -> BTreeMap<String, u64> {
    network.driver_counters(name, names).unwrap_or_default().into_iter().collect()
}

fn qdisc_difference(before: &Qdisc, now: &Qdisc, rate: Option<u64>) -> QdiscCounts {
    // The counters have 32 bits and wrap around.
    let more = |before: u32, now: u32| u64::from(now.wrapping_sub(before));
    let parent = match now.parent {
        ROOT | INGRESS => None,
        parent => Some(format!("{:x}:{:x}", parent >> 16, parent & 0xffff)),
    };
    let handle = match (now.handle, &parent) {
        // Qdiscs that the kernel adds by itself have no handle and are distinguished by parent.
        (0, None) => "0:".to_owned(),
        (0, Some(parent)) => format!("0: parent {parent}"),
        (handle, _) => format!("{:x}:", handle >> 16),
    };
    QdiscCounts {
        kind: now.kind.clone(),
        handle,
        parent,
        bytes: now.bytes.saturating_sub(before.bytes),
        packets: now.packets.saturating_sub(before.packets),
        drops: more(before.drops, now.drops),
        overlimits: more(before.overlimits, now.overlimits),
        requeues: more(before.requeues, now.requeues),
        queued_packets: now.queued_packets.into(),
        queued_bytes: now.queued_bytes.into(),
        rate_bits_per_s: rate.map(|rate| rate as f64 * 8.0),
        delay_s: now.delay_ns.map(|delay| delay as f64 / 1e9),
    }
}

fn difference(before: &Link, now: &Link) -> InterfaceCounts {
    // A counter that went backwards was reset, so its value is the count since then.
    let more = |of: fn(&Link) -> u64| of(now).checked_sub(of(before)).unwrap_or(of(now));
    InterfaceCounts {
        name: now.name.clone(),
        driver: now.kind.clone(),
        mtu: now.mtu,
        rx_queues: now.rx_queues,
        tx_queues: now.tx_queues,
        rx_packets: more(|link| link.rx_packets),
        rx_bytes: more(|link| link.rx_bytes),
        rx_dropped: more(|link| link.rx_dropped),
        rx_errors: more(|link| link.rx_errors),
        rx_missed: more(|link| link.rx_missed),
        rx_no_handler: more(|link| link.rx_no_handler),
        tx_packets: more(|link| link.tx_packets),
        tx_bytes: more(|link| link.tx_bytes),
        tx_dropped: more(|link| link.tx_dropped),
        tx_errors: more(|link| link.tx_errors),
        ..InterfaceCounts::default()
    }
}

/// Returns whether /sys shows this interface and not one of the same name in another network
/// namespace. /sys belongs to the namespace in which it was mounted.
fn is_in_sysfs(root: &Root, link: &Link) -> bool {
    let text = |name: &str| root.text(&format!("sys/class/net/{}/{name}", link.name));
    let is_number = text("ifindex").is_none_or(|number| number == link.index.to_string());
    let address: Vec<String> = link.address.iter().map(|byte| format!("{byte:02x}")).collect();
    let is_address = address.is_empty() || text("address").is_none_or(|a| a == address.join(":"));
    is_number && is_address
}

/// Reads values that are only in sysfs: link speed, RPS.
fn read_sysfs(root: &Root, counts: &mut InterfaceCounts) {
    let folder = format!("sys/class/net/{}", counts.name);
    let megabits: Option<f64> = root.number(&format!("{folder}/speed"));
    // -1 if unknown to the driver; some virtual NICs report a nominal speed, such as 10.
    counts.link_bits_per_s = megabits.filter(|speed| *speed > 0.0).map(|speed| speed * 1e6);
    let queues = root.names(&format!("{folder}/queues"));
    for queue in queues.iter().filter(|queue| queue.starts_with("rx-")) {
        let mask = root.text(&format!("{folder}/queues/{queue}/rps_cpus")).unwrap_or_default();
        if mask.bytes().any(|byte| byte.is_ascii_hexdigit() && byte != b'0') {
            counts.rps_masks.push(format!("{queue}: {mask}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_differences_wrap_and_start_again() {
        let before = Link { rx_packets: 10, rx_dropped: 5, ..Link::default() };
        let now = Link { name: "v".to_owned(), rx_packets: 3, rx_dropped: 9, ..Link::default() };
        let counts = difference(&before, &now);
        assert_eq!((counts.rx_packets, counts.rx_dropped), (3, 4));
        let before = Qdisc { drops: u32::MAX, handle: 0x8001_0000, ..Qdisc::default() };
        let now = Qdisc { drops: 4, ..before.clone() };
        let counts = qdisc_difference(&before, &now, Some(1000));
        assert_eq!((counts.drops, counts.handle.as_str()), (5, "8001:"));
        assert_eq!(counts.rate_bits_per_s, Some(8000.0));
        let below = Qdisc { parent: 0x8001_0002, ..Qdisc::default() };
        assert_eq!(qdisc_difference(&below, &below, None).handle, "0: parent 8001:2");
        let below = Qdisc { handle: 0x000a_0000, ..below };
        let counts = qdisc_difference(&below, &below, None);
        assert_eq!((counts.handle.as_str(), counts.parent.as_deref()), ("a:", Some("8001:2")));
        let root = Qdisc { parent: ROOT, ..below };
        assert_eq!(qdisc_difference(&root, &root, None).parent, None);
    }

    #[test]
    fn nics_come_before_the_interfaces_of_containers() {
        let link = |(name, kind): (&str, Option<&str>)| {
            let (name, kind) = (name.to_owned(), kind.map(str::to_owned));
            (name.clone(), Link { name, kind, ..Link::default() })
        };
        let all = [("cali1", Some("veth")), ("br0", Some("bridge")), ("eth0", None), ("lo", None)];
        let links: BTreeMap<String, Link> = all.map(link).into();
        assert_eq!(by_importance(&links, None), ["eth0", "lo", "br0", "cali1"]);
        assert_eq!(by_importance(&links, Some("cali1")), ["cali1", "eth0", "lo", "br0"]);
    }

    #[test]
    fn packets_of_tunnels_are_summed_if_all_are_there() {
        let device = |name: &str, rx_packets, tx_packets| Link {
            name: name.to_owned(),
            rx_packets,
            tx_packets,
            ..Link::default()
        };
        let links = [device("tun0", 10, 500), device("tun1", 490, 8), device("eth0", 7, 7)];
        let of = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            through(&links, &names).map(|found| (found.devices, found.written.0, found.read.0))
        };
        assert_eq!(of(&["tun0"]), Some((1, 10, 500)));
        assert_eq!(of(&["tun0", "tun1"]), Some((2, 500, 508)));
        assert_eq!((of(&[]), of(&["tun0", "tun9"])), (None, None));
    }

    #[test]
    fn sysfs_of_another_namespace_is_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        let at = folder.path().join("sys/class/net/eth0");
        std::fs::create_dir_all(&at).expect("a folder");
        std::fs::write(at.join("ifindex"), "2\n").expect("a file");
        std::fs::write(at.join("address"), "02:00:00:00:00:0a\n").expect("a file");
        let link = |index: u32, last: u8| Link {
            name: "eth0".to_owned(),
            index,
            address: vec![2, 0, 0, 0, 0, last],
            ..Link::default()
        };
        assert!(is_in_sysfs(&root, &link(2, 10)));
        assert!(!is_in_sysfs(&root, &link(3, 10)));
        assert!(!is_in_sysfs(&root, &link(2, 11)));
    }

    #[test]
    fn without_netlink_the_texts_of_proc_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        let put = |path: &str, text: &str| crate::tree::put(&root, path, text);
        let dev = |rx: u64| format!("Inter\n face\n eth0: 64 {rx} 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
        put("proc/7/net/dev", &dev(5));
        put("proc/7/net/snmp", "Udp: RcvbufErrors\nUdp: 4\n");
        let namespace = Namespace {
            folder: "proc/7/net".to_owned(),
            process: "7".to_owned(),
            network: None,
            is_own: true,
        };
        let mut start = Interfaces::start(&root, &namespace, None);
        put("proc/7/net/dev", &dev(25));
        put("proc/7/net/snmp", "Udp: RcvbufErrors\nUdp: 6\n");
        put("sys/class/net/eth0/speed", "10000\n");
        put("sys/class/net/eth0/queues/rx-0/rps_cpus", "00,00000003\n");
        put("sys/class/net/eth0/queues/rx-1/rps_cpus", "00,00000000\n");
        let found = start.finish(&root, &namespace, None, &links(&root, &namespace));
        assert_eq!(found.interfaces.len(), 1);
        let eth0 = &found.interfaces[0];
        assert_eq!((eth0.rx_packets, eth0.link_bits_per_s), (20, Some(1e10)));
        assert_eq!(eth0.rps_masks, ["rx-0: 00,00000003"]);
        assert_eq!(found.protocols["Udp.RcvbufErrors"], 2);
        assert!(!found.is_conntrack_hidden, "there is no connection tracking");
        // The next window begins with the last readings.
        put("proc/7/net/dev", &dev(26));
        let next = start.finish(&root, &namespace, None, &links(&root, &namespace));
        assert_eq!((next.interfaces[0].rx_packets, next.protocols.len()), (1, 0));
    }

    #[test]
    fn drops_of_connection_tracking_are_hidden_if_its_table_may_be_full() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        let put = |path: &str, text: &str| crate::tree::put(&root, path, text);
        let is_hidden = |is_own, has_counter| {
            let namespace = Namespace {
                folder: "proc/7/net".to_owned(),
                process: "7".to_owned(),
                network: None,
                is_own,
            };
            is_conntrack_hidden(&root, &namespace, has_counter)
        };
        put("proc/sys/net/netfilter/nf_conntrack_max", "1000\n");
        put("proc/sys/net/netfilter/nf_conntrack_count", "990\n");
        assert!(is_hidden(true, false));
        put("proc/sys/net/netfilter/nf_conntrack_count", "20\n");
        assert!(!is_hidden(true, false) && is_hidden(false, false));
        assert!(!is_hidden(false, true));
    }
}
