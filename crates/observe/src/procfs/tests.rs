// SPDX-License-Identifier: MIT OR Apache-2.0
use super::cpus::{Softnet, parse_interrupts, parse_softirqs, parse_softnet};
use super::net::{grown, parse_dev, parse_snmp, parse_snmp6, parse_sockets};
use super::task::{InCall, SchedStat, Stat, Status, describe_status, parse_io_calls};
use linerate_linux::network::InetProtocol;
use proptest::prelude::*;

/// A line in the format of Linux 6.18.
const STAT: &str = "11340 (bash) S 11337 11340 11340 0 -1 4194560 3725 43711 7 25 1 2 30 7 20 0 1 \
                    0 2734508 5124096 976 18446744073709551615 1 1 0 0 0 0 65536 4 1132560123 1 0 \
                    0 17 1 0 0 0 0 0 1 1 1 1 1 1 1 0";

#[test]
fn connection_tracking_is_summed_over_cpus() {
    let text = "entries  found drop early_drop\n00000040  00000002 0000000a 00000000\n\
                00000040  00000001 00000006 00000001\n";
    let counters = super::net::parse_conntrack(text);
    assert_eq!(counters["Conntrack.drop"], 16);
    assert_eq!((counters["Conntrack.found"], counters.get("Conntrack.entries")), (3, None));
    assert!(super::net::parse_conntrack("").is_empty());
}

#[test]
fn a_thread_is_read_whatever_its_name() {
    let stat = Stat::parse(STAT).unwrap();
    assert_eq!((stat.name.as_str(), stat.state, stat.parent), ("bash", 'S', 11337));
    assert_eq!((stat.user_ticks, stat.system_ticks, stat.cpu), (1, 2, 1));
    assert_eq!((stat.minor_faults, stat.major_faults), (3725, 7));
    assert_eq!((stat.began_ticks, stat.wait_status), (2_734_508, Some(0)));
    assert_eq!((stat.nice, stat.policy), (0, Some(0)));
    assert!(!stat.is_kernel_thread && !stat.has_ended());
    let odd = Stat::parse(&STAT.replace("(bash)", "(a) R (b)")).unwrap();
    assert_eq!((odd.name.as_str(), odd.state), ("a) R (b", 'S'));
    assert_eq!(Stat::parse("1 (x) R 0"), None);
}

#[test]
fn ends_have_words() {
    assert_eq!(describe_status(0x100), "exit status 1");
    assert_eq!(describe_status(9), "SIGKILL");
    assert_eq!(describe_status(0x80 | 11), "SIGSEGV");
    assert_eq!(describe_status(40), "signal 40");
}

#[test]
fn scheduler_and_status_as_recorded() {
    let expected = SchedStat { run_ns: 33_938_583, delay_ns: 129_410_457, times: 144 };
    assert_eq!(SchedStat::parse("33938583 129410457 144\n"), Some(expected));
    assert_eq!(SchedStat::parse("1 2"), None);
    let status = Status::parse(
        "Name:\ta:b\nTgid:\t7\nUid:\t0\t33\t0\t0\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n\
         voluntary_ctxt_switches:\t81\nnonvoluntary_ctxt_switches:\t63\n",
    );
    assert_eq!((status.process, status.uid, status.allowed), (7, 33, vec![0, 1]));
    assert_eq!((status.voluntary_switches, status.involuntary_switches), (81, 63));
}

#[test]
fn what_a_thread_is_in() {
    let wait = "232 0x5 0x7f 0x200 0xffffffffffffffff 0x0 0x0 0x7ffd 0x7f3d\n";
    let arguments = [5, 0x7f, 0x200, u64::MAX];
    assert_eq!(InCall::parse(wait), Some(InCall::Call { number: 232, arguments }));
    assert_eq!(InCall::parse("running\n"), Some(InCall::Running));
    assert_eq!(InCall::parse("-1 0x7ffd 0x7f3d\n"), Some(InCall::Elsewhere));
    assert_eq!(InCall::parse(""), None);
}

#[test]
fn softnet_of_old_and_new_kernels() {
    // 4.19: 11 columns; 5.10: the CPU is column 13; 6.18: two more columns.
    let old = "0000002c 00000001 00000002 0 0 0 0 0 0 0 0\n0000002d 0 0 0 0 0 0 0 0 0 0\n";
    let softnet = parse_softnet(old, &[0, 2]);
    assert_eq!(softnet[&0], Softnet { processed: 44, dropped: 1, squeezed: 2 });
    assert_eq!(softnet[&2].processed, 45);
    let new = "0000adae 0 3 0 0 0 0 0 0 0 0 0 00000001 00000000 00000000\n";
    assert_eq!(parse_softnet(new, &[0, 1])[&1].squeezed, 3);
}

#[test]
fn interrupts_by_source_and_cpu() {
    let softirqs = "           CPU0       CPU2       \n  HI:          0          0\n      \
                    NET_RX:      23638      33504\n";
    assert_eq!(parse_softirqs(softirqs, "NET_RX")[&2], 33_504);
    assert!(parse_softirqs(softirqs, "NET_TX").is_empty());
    let text = "           CPU0       CPU2       \n 38:          0      34243 PCI-MSIX   \
                1-edge      virtio2-input.0\nLOC:    6313361    6700278   Local timer interrupts\n\
                ERR:          0\n";
    let counts = parse_interrupts(text);
    assert_eq!(counts[&2]["virtio2-input.0"], 34_243);
    assert_eq!(counts[&0]["LOC"], 6_313_361);
    assert_eq!(counts[&0].len(), 1, "without those that are 0: {counts:?}");
}

#[test]
fn interfaces_and_protocols_as_recorded() {
    let text = "Inter-|   Receive\n face |bytes\n    lo:   11827      87    0    0    0     0 0 \
                0    11827      87    0    0    0  0  0 0\neth0:1: 1 2 3 4 5 6 7 8 9 10 11 12 13\n";
    let links = parse_dev(text);
    assert_eq!((links[0].name.as_str(), links[0].rx_packets), ("lo", 87));
    assert_eq!((links[1].name.as_str(), links[1].tx_dropped), ("eth0:1", 12));
    let snmp = parse_snmp(
        "Tcp: RtoMin MaxConn InSegs\nTcp: 200 -1 44071\nUdp: InDatagrams NoPorts\nUdp: 380 0\n",
    );
    assert_eq!(snmp["Tcp.InSegs"], 44_071);
    assert_eq!(snmp.get("Tcp.MaxConn"), None);
    assert_eq!(snmp["Udp.NoPorts"], 0);
    let six = parse_snmp6("Udp6InDatagrams  \t5\nUdpLite6InDatagrams 0\nIp6InReceives\t77\n");
    assert_eq!((six["Udp6.InDatagrams"], six["UdpLite6.InDatagrams"]), (5, 0));
    let mut more = snmp.clone();
    more.insert("Tcp.InSegs".to_owned(), 44_075);
    more.insert("Udp.InDatagrams".to_owned(), 0);
    let grown = grown(&snmp, &more);
    assert_eq!(grown.into_iter().collect::<Vec<_>>(), [("Tcp.InSegs".to_owned(), 4)]);
}

#[test]
fn sockets_as_listed() {
    let head =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n";
    let line = |local: &str, state: &str, drops: &str| {
        format!(
            "{head} 12: {local} 00000000:0000 {state} 00000001:00000300 00:00000000 00000000 0 0 \
             4711 2 0000000000000000 {drops}\n"
        )
    };
    // Words are in host byte order: this is an address on a little-endian machine.
    let v4 = u32::from_ne_bytes([127, 0, 0, 1]);
    let udp = parse_sockets(&line(&format!("{v4:08X}:0035"), "07", "60148"), InetProtocol::Udp);
    let (socket, drops) = udp[0];
    assert_eq!((socket.local.to_string().as_str(), drops), ("127.0.0.1:53", Some(60_148)));
    assert_eq!((socket.inode, socket.receive_queue, socket.send_queue), (4711, 0x300, 1));
    let one = u32::from_ne_bytes([0, 0, 0, 1]);
    let local = format!("{:024X}{one:08X}:0050", 0);
    let tcp = parse_sockets(&line(&local, "0A", "0"), InetProtocol::Tcp);
    assert_eq!((tcp[0].0.local.to_string().as_str(), tcp[0].1), ("[::1]:80", None));
    assert!(tcp[0].0.is_listening);
    assert!(parse_sockets(&line("zz:0", "07", "1"), InetProtocol::Udp).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn damaged_texts_are_survived(
        text in "[a-zA-Z0-9:() \n.\\-x]{0,200}|(cpu[0-9 \n]{0,30}){0,9}",
    ) {
        Stat::parse(&text);
        SchedStat::parse(&text);
        Status::parse(&text);
        InCall::parse(&text);
        parse_softnet(&text, &[0, 1]);
        parse_softirqs(&text, "NET_RX");
        parse_interrupts(&text);
        parse_dev(&text);
        parse_snmp(&text);
        parse_snmp6(&text);
        parse_sockets(&text, InetProtocol::Udp);
    }
}

#[test]
fn calls_of_read_and_write_are_summed() {
    let text = "rchar: 6976\nwchar: 0\nsyscr: 10\nsyscw: 4\nread_bytes: 0\n";
    assert_eq!(parse_io_calls(text), Some(14));
    assert_eq!(parse_io_calls("syscr: 10\nsyscw: x\n"), None);
    assert_eq!(parse_io_calls(""), None);
}
