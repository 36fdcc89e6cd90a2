// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many flows a single thread could share with others.

use crate::example::explain;
use crate::example::{cpu, socket, thread};
use crate::seeds::single_thread;
use linerate_record::why::Cause::{CannotTell, SingleThread};
use linerate_record::why::ThreadState::{Kernel, User, Waiting};
use linerate_record::why::{Observation, SocketCounts, SocketKind, TcpCounts, WhyFinding};

/// Returns a program with one busy thread, and connections with these numbers of segments.
fn with(segments: &[u64]) -> Observation {
    let mut seen = single_thread();
    let connection = |(n, segments): (usize, &u64)| SocketCounts {
        tcp: Some(TcpCounts {
            bytes_received: 100 * segments,
            bytes_acked: 1000 * segments,
            segments_in: segments / 2,
            segments_out: segments / 2,
            ..TcpCounts::default()
        }),
        ..socket(SocketKind::Tcp, "10.0.0.1:80", Some(&format!("10.0.0.2:{}", 4000 + n)))
    };
    seen.sockets.truncate(1);
    seen.sockets.extend(segments.iter().enumerate().map(connection));
    seen
}

fn single(seen: &Observation) -> Option<WhyFinding> {
    explain(seen).into_iter().find(|finding| finding.cause == SingleThread)
}

#[test]
fn a_second_connection_is_a_flow_if_it_carries_packets() {
    assert!(single(&with(&[100_000, 100_000])).is_some());
    assert!(single(&with(&[100_000, 70_000])).is_some());
    // A replica and its heartbeat, or a download and a small request.
    assert!(single(&with(&[400_000, 100])).is_none());
    assert!(single(&with(&[400_000, 100, 2_000, 30_000])).is_none());
    assert!(single(&with(&[400_000])).is_none());
    // Many small ones next to a large one.
    assert!(single(&with(&[[400_000].as_slice(), &[20_000; 20]].concat())).is_some());
}

#[test]
fn the_largest_flow_limits_the_gain() {
    let mut seen = with(&[200_000, 100_000]);
    seen.cpus.extend([cpu(2, 0.0, 0.0, 0.0), cpu(3, 0.0, 0.0, 0.0)]);
    let gain = single(&seen).unwrap().gain.percent;
    assert!((gain.high.unwrap() - 50.0).abs() < 1.0, "{gain:?}");
    let equal = single(&with(&[100_000; 8])).unwrap().gain.percent;
    assert!(equal.high.unwrap() > 70.0, "{equal:?}");
}

#[test]
fn a_tunnel_with_a_resolver_carries_one_flow() {
    let mut seen = with(&[]);
    seen.threads = vec![thread("openvpn", 100, &[(User, 0.95), (Kernel, 0.03), (Waiting, 0.02)])];
    let udp = |local: &str, remote, share| SocketCounts {
        receive_queue_share: Some(share),
        ..socket(SocketKind::Udp, local, remote)
    };
    let tunnel = udp("0.0.0.0:1194", None, 0.9);
    let resolver = udp("10.0.0.1:40001", Some("10.0.0.2:53"), 0.0);
    seen.sockets = vec![tunnel.clone(), resolver];
    seen.protocols = [("Udp.InDatagrams".to_owned(), 400_000)].into();
    assert_eq!(explain(&seen)[0].cause, CannotTell, "{}", explain(&seen)[0].sentence);
    // Two ports with packets.
    seen.sockets[1] = udp("0.0.0.0:1195", None, 0.5);
    assert!(single(&seen).is_some());
    // A few datagrams next to connections, and a connection with a few segments next to a tunnel.
    let mut server = with(&[100_000, 100_000]);
    server.sockets.push(tunnel.clone());
    server.protocols.insert("Udp.InDatagrams".to_owned(), 50);
    assert!(single(&server).is_some());
    let mut peer = with(&[1_000]);
    peer.sockets.push(tunnel);
    peer.protocols.insert("Udp.InDatagrams".to_owned(), 400_000);
    assert!(single(&peer).is_none());
}
