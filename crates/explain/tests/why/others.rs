// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic of other programs on the same machine, which has causes of its own.

use crate::example::explain;
use crate::example::{cpu, features, interface, observation, packets, privileged, thread};
use crate::seeds::{
    backlog_overflow, firewall_rules_on_a_cpu, napi_budget, no_segmentation, one_receive_cpu,
    software_checksum,
};
use linerate_record::why::Cause::{self, *};
use linerate_record::why::ThreadState::{Asleep, User};
use linerate_record::why::{CpuCounts, InterfaceCounts, Observation, Unread, WhyFinding};

fn first(seen: &Observation) -> WhyFinding {
    explain(seen).swap_remove(0)
}

fn is_found(seen: &Observation, cause: Cause) -> bool {
    explain(seen).iter().any(|finding| finding.cause == cause)
}

/// Returns a program that received `own` packets, on a machine whose NIC eth0 received 800,000 and
/// dropped 200,000 more, and whose other NIC received `others`.
fn full_card(own: u64, others: u64) -> Observation {
    let eth0 = InterfaceCounts { rx_missed: 200_000, ..interface("eth0", 800_000) };
    let receiver = CpuCounts { net_rx: 300_000, ..cpu(0, 0.0, 0.0, 0.3) };
    Observation {
        interfaces: vec![eth0, interface("eth1", others)],
        cpus: vec![receiver, cpu(1, 0.05, 0.0, 0.0)],
        packets: packets(own, 100 * own),
        ..observation(vec![thread("sink", 100, &[(User, 0.05), (Asleep, 0.95)])])
    }
}

type Machine = fn() -> Observation;

const MACHINES: [(Machine, Cause); 5] = [
    (backlog_overflow, BacklogOverflow),
    (napi_budget, NapiBudget),
    (one_receive_cpu, OneReceiveCpu),
    (firewall_rules_on_a_cpu, FirewallRules),
    (|| full_card(500_000, 0), RingOverflow),
];

#[test]
fn what_the_machine_receives_does_not_concern_a_program_without_packets() {
    for (machine, cause) in MACHINES {
        let mut seen = machine();
        assert!(is_found(&seen, cause), "{cause:?}");
        seen.packets = packets(100, 10_000);
        assert!(!is_found(&seen, cause), "{cause:?}: {}", first(&seen).sentence);
        // A batch job.
        (seen.packets, seen.sockets) = (None, Vec::new());
        assert!(!is_found(&seen, cause), "{cause:?}: {}", first(&seen).sentence);
        assert!(!first(&seen).sentence.contains(cause.name()), "{}", first(&seen).sentence);
        // Its packets could not be counted.
        seen.unread.push(Unread {
            what: "udp_datagrams".to_owned(),
            reason: "other programs receive datagrams too".to_owned(),
            fix: None,
        });
        let unknown = first(&seen);
        assert_eq!(unknown.cause, CannotTell, "{cause:?}: {}", unknown.sentence);
        assert!(unknown.sentence.contains(cause.name()), "{}", unknown.sentence);
        // An interface was observed, and not a program.
        seen.watched.interface = Some("eth0".to_owned());
        seen.threads.clear();
        assert!(is_found(&seen, cause), "{cause:?}: {}", first(&seen).sentence);
    }
}

#[test]
fn a_full_ring_of_another_nic_is_not_the_programs() {
    assert!(is_found(&full_card(500_000, 50_000), RingOverflow));
    // All of the program's packets may have arrived on the other one.
    let seen = full_card(500_000, 1_000_000);
    assert!(!is_found(&seen, RingOverflow), "{}", first(&seen).sentence);
    assert_eq!(first(&seen).cause, CannotTell);
}

#[test]
fn offloads_of_an_interface_that_others_use_are_not_the_cause() {
    let off = features(&[("tx-checksum-ip-generic", false), ("tx-tcp-segmentation", false)]);
    let on = features(&[("tx-checksum-ip-generic", true), ("tx-tcp-segmentation", true)]);
    for (seed, cause) in
        [(software_checksum as Machine, SoftwareChecksum), (no_segmentation, NoSegmentation)]
    {
        let mut seen = seed();
        assert!(is_found(&seen, cause));
        let own = seen.interfaces[0].clone();
        // A bridge with the same offloads, behind which the same bytes pass.
        seen.interfaces.push(InterfaceCounts { name: "br0".to_owned(), ..own.clone() });
        assert!(is_found(&seen, cause), "{}", first(&seen).sentence);
        // The program sends through an interface with offloads, others through one without.
        let tx_bytes = own.tx_bytes;
        let others = |tx_bytes| InterfaceCounts { name: "v9".to_owned(), tx_bytes, ..own.clone() };
        let sends =
            InterfaceCounts { name: "eth0".to_owned(), features: on.clone(), ..own.clone() };
        for bytes in [10_000_000, tx_bytes / 2, tx_bytes] {
            seen.interfaces = vec![sends.clone(), others(bytes)];
            assert!(!is_found(&seen, cause), "{bytes}: {}", first(&seen).sentence);
        }
        // Most of the program's bytes must have passed through it.
        seen.interfaces[0].tx_bytes = tx_bytes / 10;
        assert!(is_found(&seen, cause), "{}", first(&seen).sentence);
    }
    // Only the program behind a TUN or TAP device can switch its offloads on.
    let mut seen = privileged(software_checksum());
    seen.interfaces[0].features = off;
    assert!(is_found(&seen, SoftwareChecksum));
    seen.interfaces[0].driver = Some("tun".to_owned());
    assert!(!is_found(&seen, SoftwareChecksum) && !is_found(&seen, NoSegmentation));
}
