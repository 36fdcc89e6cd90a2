// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that reach the machine, but not the program.

use crate::example::explain;
use crate::example::{observation, packets, socket, thread};
use linerate_record::why::Cause::*;
use linerate_record::why::ThreadState::{Asleep, User};
use linerate_record::why::{Observation, SleepTime, SocketKind, WhyFinding};

fn first(seen: &Observation) -> WhyFinding {
    explain(seen).remove(0)
}

/// Returns an idle receiver of datagrams, with these counters of its network namespace.
fn receiver(counters: &[(&str, u64)]) -> Observation {
    let mut receiver = thread("receiver", 100, &[(User, 0.05), (Asleep, 0.95)]);
    receiver.asleep_on = vec![SleepTime {
        on: "recvfrom".to_owned(),
        share: 0.95,
        object: Some("udp 0.0.0.0:9000".to_owned()),
        holder: None,
    }];
    let mut seen = observation(vec![receiver]);
    seen.sockets = vec![socket(SocketKind::Udp, "0.0.0.0:9000", None)];
    seen.packets = packets(10_000, 1_000_000);
    let all = [("Ip.InReceives", 20_000), ("Ip.InDelivers", 20_000), ("Udp.InDatagrams", 10_000)];
    let all = all.iter().chain(counters);
    seen.protocols = all.map(|&(name, count)| (name.to_owned(), count)).collect();
    seen
}

#[test]
fn counters_of_the_network_namespace_name_the_loss() {
    assert_eq!(first(&receiver(&[])).cause, NothingWrong);
    let checksum = first(&receiver(&[("Udp.InCsumErrors", 3000)]));
    assert_eq!(checksum.cause, BadChecksum, "{}", checksum.sentence);
    assert!(checksum.sentence.contains("3,000 packets (23 %)"), "{}", checksum.sentence);
    // Segments with a bad checksum are no concern of a program without TCP.
    assert_ne!(first(&receiver(&[("Tcp.InCsumErrors", 3000)])).cause, BadChecksum);
    let route =
        first(&receiver(&[("TcpExt.IPReversePathFilter", 8000), ("Ip.InDelivers", 12_000)]));
    assert_eq!(route.cause, ReversePathFilter, "{}", route.sentence);
}

#[test]
fn fragments_are_lost_on_the_way_or_rejected() {
    let fragments = |late: u64| {
        let counters = [("Ip.ReasmOKs", 3900), ("Ip.ReasmFails", 800), ("Ip.ReasmTimeout", late)];
        first(&receiver(&counters))
    };
    let lost = fragments(800);
    assert_eq!(lost.cause, ReassemblyFailed, "{}", lost.sentence);
    assert!(lost.sentence.contains("did not arrive in time"), "{}", lost.sentence);
    let rejected = fragments(0);
    assert_eq!(rejected.cause, ReassemblyFailed, "{}", rejected.sentence);
    assert!(rejected.fix.unwrap().contains("ipfrag_high_thresh"), "{}", rejected.sentence);
}

#[test]
fn drops_that_leave_a_program_nothing_are_named() {
    let with = |counters: &[(&str, u64)]| {
        let mut seen = receiver(counters);
        seen.packets = None;
        seen.protocols.insert("Udp.InDatagrams".to_owned(), 0);
        first(&seen)
    };
    // The route back to the sender uses another interface: no datagram arrives.
    let route = with(&[
        ("Ip.InReceives", 8000),
        ("Ip.InDelivers", 0),
        ("TcpExt.IPReversePathFilter", 8000),
    ]);
    assert_eq!(route.cause, CannotTell, "{}", route.sentence);
    assert!(
        route.sentence.contains("8,000 packets that the reverse path filter"),
        "{}",
        route.sentence
    );
    assert!(route.fix.as_ref().unwrap().starts_with("If they were, route the"), "{route:?}");
    let table = with(&[("Conntrack.drop", 4000), ("Conntrack.insert_failed", 0)]);
    assert_eq!(table.cause, CannotTell, "{}", table.sentence);
    assert!(table.sentence.contains("the full connection tracking table"), "{}", table.sentence);
    assert!(table.fix.as_ref().unwrap().contains("nf_conntrack_max"), "{table:?}");
}
