// SPDX-License-Identifier: MIT OR Apache-2.0
mod closed;
mod kernel;

use super::peers::{other_ends, owners_of};
use super::*;
use linerate_linux::network::{Listed, PacketSocket, SocketMemory, TcpInfo};

fn memory(drops: u32) -> Option<SocketMemory> {
    Some(SocketMemory { received: 0, receive_buffer: 212_992, send_buffer: 212_992, drops })
}

fn packet(drops: u32, receive_ring: bool) -> PacketSocket {
    let ring = linerate_linux::network::PacketRing {
        blocks: 2,
        block_bytes: 4096,
        frames: 4,
        frame_bytes: 2048,
    };
    PacketSocket {
        inode: 9,
        interface: 3,
        receive_ring: receive_ring.then_some(ring),
        transmit_ring: None,
        memory: memory(drops),
    }
}

fn watching() -> Sockets {
    let mut sockets = Sockets::new(false, None);
    sockets.owners.insert(9, 7);
    sockets.names.insert(3, "v2".to_owned());
    sockets
}

#[test]
fn drops_are_differences_of_a_counter_that_wraps() {
    let mut sockets = watching();
    sockets.take_packet(vec![packet(u32::MAX, false)], true);
    sockets.take_packet(vec![packet(4, false)], false);
    let folder = tempfile::tempdir().expect("a folder");
    let found = sockets.finish(&Root::new(folder.path()), &BTreeMap::new());
    assert_eq!((found[0].local.as_str(), found[0].pid, found[0].drops), ("v2", 7, Some(5)));
    assert_eq!(found[0].receive_buffer, Some(212_992));
    // The next window begins with the last reading.
    sockets.take_packet(vec![packet(6, false)], false);
    let next = sockets.finish(&Root::new(folder.path()), &BTreeMap::new());
    assert_eq!((next[0].drops, next[0].reads), (Some(2), Some(1)));
}

#[test]
fn what_a_ring_drops_is_not_known() {
    let mut sockets = watching();
    sockets.take_packet(vec![packet(0, true)], true);
    assert_eq!(sockets.packet_interfaces(), BTreeSet::from([3]));
    assert_eq!(sockets.describe(9).as_deref(), Some("packet v2"));
    let folder = tempfile::tempdir().expect("a folder");
    let found = sockets.finish(&Root::new(folder.path()), &BTreeMap::new());
    assert_eq!((found[0].drops, found[0].receive_buffer), (None, Some(8192)));
}

#[test]
fn sockets_of_others_are_left_out() {
    let mut sockets = Sockets::new(false, None);
    sockets.take_packet(vec![packet(0, true)], true);
    assert!(sockets.watched.is_empty());
}

#[test]
fn addresses_of_both_families_are_the_same() {
    let mapped: SocketAddr = "[::ffff:10.0.0.1]:80".parse().expect("an address");
    assert_eq!(canonical(mapped).to_string(), "10.0.0.1:80");
}

#[test]
fn owners_are_found_by_their_descriptors() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("proc/7/fd");
    std::fs::create_dir_all(&at).expect("a folder");
    std::os::unix::fs::symlink("socket:[55]", at.join("3")).expect("a link");
    std::os::unix::fs::symlink("/dev/null", at.join("0")).expect("a link");
    let root = Root::new(folder.path());
    assert_eq!(owners_of(&root, &BTreeSet::from([55, 56]), 100), BTreeMap::from([(55, 7)]));
}

#[test]
fn a_socket_passes_to_a_process_that_is_still_observed() {
    let folder = tempfile::tempdir().expect("a folder");
    for pid in [7, 8] {
        let at = folder.path().join(format!("proc/{pid}/fd"));
        std::fs::create_dir_all(&at).expect("a folder");
        std::os::unix::fs::symlink("socket:[55]", at.join("3")).expect("a link");
    }
    let root = Root::new(folder.path());
    let mut sockets = Sockets::new(false, None);
    sockets.find_descriptors(&root, &[7, 8]);
    assert_eq!(sockets.owners, BTreeMap::from([(55, 7)]));
    // Process 7 has ended.
    sockets.find_descriptors(&root, &[8]);
    assert_eq!(sockets.owners, BTreeMap::from([(55, 8)]));
}

#[test]
fn a_closed_connection_has_the_ends_that_are_open_between_its_addresses() {
    let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let (server, gone) = (at("127.0.0.1:80"), at("127.0.0.1:40001"));
    let open = BTreeMap::from([
        ((at("127.0.0.1:40002"), server), 2),
        ((at("127.0.0.1:40003"), server), 3),
        // Closed: in TIME_WAIT, which has no inode.
        ((at("127.0.0.1:40004"), server), 0),
        ((server, at("127.0.0.1:40002")), 12),
    ]);
    let watched = BTreeMap::from([
        (11, (server, gone)),
        (12, (server, at("127.0.0.1:40002"))),
        (13, (server, at("10.0.0.9:40001"))),
        (14, (gone, at("127.0.0.1:81"))),
    ]);
    let expected = BTreeMap::from([(11, vec![2, 3]), (12, vec![2])]);
    assert_eq!(other_ends(&watched, &open), expected);
}

#[test]
fn a_brief_connection_leads_to_the_socket_that_its_server_listens_on() {
    let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let open = BTreeMap::from([
        ((at("127.0.0.1:8080"), at("0.0.0.0:0")), 20),
        ((at("0.0.0.0:9000"), at("0.0.0.0:0")), 21),
    ]);
    let watched = BTreeMap::from([
        (11, (at("127.0.0.1:40001"), at("127.0.0.1:8080"))),
        (12, (at("10.0.0.1:40002"), at("10.0.0.1:9000"))),
        // The same ports of another machine.
        (13, (at("10.0.0.1:40003"), at("10.0.0.2:9000"))),
        (14, (at("10.0.0.1:40004"), at("10.0.0.2:8080"))),
    ]);
    let expected = BTreeMap::from([(11, vec![20]), (12, vec![21])]);
    assert_eq!(other_ends(&watched, &open), expected);
}

/// Returns a connection of process 7.
fn connection(inode: u32, receive_queue: u32, send_queue: u32) -> InetSocket {
    InetSocket::of_listed(Listed {
        protocol: InetProtocol::Tcp,
        is_listening: false,
        local: "10.0.0.1:80".parse().expect("an address"),
        remote: "10.0.0.2:4000".parse().expect("an address"),
        inode,
        receive_queue,
        send_queue,
    })
}

#[test]
fn a_queue_alone_is_reason_to_report_a_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let found = |receive_queue, send_queue| {
        let mut sockets = watching();
        sockets.take_inet(vec![connection(9, receive_queue, send_queue)], true);
        sockets.take_inet(vec![connection(9, 0, send_queue)], false);
        sockets.finish(&Root::new(folder.path()), &BTreeMap::new())
    };
    assert_eq!(found(0, 0), []);
    assert_eq!(found(0, 100)[0].send_queue_mean, 100.0);
    assert!(found(100, 0)[0].receive_queue_share.is_some_and(|share| share > 0.0 && share < 1.0));
}

#[test]
fn connections_that_begin_and_end_within_the_window_come_and_go() {
    let mut sockets = watching();
    sockets.owners.insert(10, 7);
    sockets.take_inet(vec![connection(9, 0, 0)], true);
    sockets.listed.extend([9, 10]);
    assert!(!sockets.replaces_connections());
    sockets.take_inet(vec![connection(10, 0, 0)], false);
    assert!(!sockets.come_and_go() && sockets.replaces_connections());
    sockets.watched.get_mut(&10).expect("it is watched").is_closed = true;
    assert!(sockets.come_and_go());
}

/// Returns a connection (or a listening socket, if there is no remote address) with this many
/// segments of data received and sent.
fn tcp(inode: u32, local: &str, remote: &str, received: u32, sent: u32) -> InetSocket {
    let listed = Listed {
        protocol: InetProtocol::Tcp,
        is_listening: remote.is_empty(),
        local: local.parse().expect("an address"),
        remote: if remote.is_empty() { "0.0.0.0:0" } else { remote }.parse().expect("address"),
        inode,
        receive_queue: 0,
        send_queue: 0,
    };
    let tcp = TcpInfo {
        data_segments_in: received,
        data_segments_out: sent,
        bytes_received: 50 * u64::from(received),
        bytes_acked: 50 * u64::from(sent),
        ..TcpInfo::default()
    };
    let mut socket = InetSocket::of_listed(listed);
    socket.tcp = Some(tcp);
    socket
}

#[test]
fn traffic_is_the_sum_over_the_connections_since_the_start() {
    let mut sockets = watching();
    sockets.owners.insert(10, 7);
    let reading = |inode, segments: u32| {
        let mut socket = tcp(inode, "10.0.0.1:80", "10.0.0.2:4000", segments, segments);
        if let Some(tcp) = &mut socket.tcp {
            (tcp.segments_in, tcp.segments_out) = (segments, segments.wrapping_mul(2));
        }
        socket
    };
    // The kernel's counters of segments have 32 bits and wrap around.
    sockets.take_inet(vec![reading(9, u32::MAX / 2)], true);
    sockets.take_inet(vec![reading(9, u32::MAX / 2 + 10), reading(10, 5)], false);
    assert_eq!(sockets.traffic(), (30 + 15, 1000 + 500));
    let counts = sockets.watched.values().map(Watched::tcp);
    let segments: u64 = counts.map(|tcp| tcp.segments_in + tcp.segments_out).sum();
    assert_eq!(segments, 45);
}

#[test]
fn requests_of_all_connections_are_read_together() {
    let mut sockets = Sockets::new(false, None);
    (1..=5).for_each(|inode| {
        sockets.owners.insert(inode, 7);
    });
    let readings = 40;
    for n in 0..readings {
        sockets.tick += 1;
        // Every second reading, a client waits, and the program waits for a server.
        let waits = n % 2;
        let all = vec![
            tcp(1, "10.0.0.1:80", "", 0, 0),
            tcp(2, "10.0.0.1:80", "10.0.0.2:4000", 10 * n + waits, 10 * n),
            tcp(3, "10.0.0.1:80", "10.0.0.2:4001", 10 * n, 10 * n),
            tcp(4, "10.0.0.1:9000", "10.0.0.9:5432", 10 * n, 10 * n + waits),
            // No traffic since its only request, which has no reply.
            tcp(5, "10.0.0.1:80", "10.0.0.2:4002", 1, 0),
        ];
        // A second reading in the same slice replaces the first.
        sockets.take_inet(all.clone(), n == 0);
        sockets.take_inet(all, false);
    }
    let counts = sockets.requests(4.0).expect("requests");
    assert_eq!((counts.readings, counts.connections, counts.silent), (40, 2, 1));
    assert_eq!([counts.pending_share, counts.awaiting_share], [0.5; 2]);
    assert_eq!([counts.pending_mean, counts.awaiting_mean], [0.5; 2]);
    assert_eq!(counts.server.as_deref(), Some("10.0.0.9:5432"));
    // One connection waits half of 4 s; together, they carry 781 requests.
    assert_eq!(counts.requests, 781);
    let time = counts.reply_time.estimate().expect("a time");
    assert!((time.value - 2.0 / 781.0).abs() < 1e-9 && time.low < time.value, "{time:?}");
    assert_eq!(Sockets::new(false, None).requests(4.0), Err(0));
}

#[test]
fn a_client_that_always_waits_is_counted_as_waiting() {
    let mut sockets = Sockets::new(false, None);
    sockets.owners.extend((1..=4).map(|inode| (inode, 7)));
    for n in 0..10 {
        sockets.tick = n;
        let connection = |inode, ahead| {
            tcp(inode, "10.0.0.1:80", &format!("10.0.0.2:{inode}"), 10 * n + ahead, 10 * n)
        };
        let listening = tcp(1, "10.0.0.1:80", "", 0, 0);
        // One client is read once between a reply and the next request, another one never, and a
        // third never waits.
        let all =
            vec![listening, connection(2, u32::from(n != 5)), connection(3, 1), connection(4, 0)];
        sockets.take_inet(all, n == 0);
    }
    let counts = sockets.requests(1.0).expect("requests");
    assert_eq!((counts.readings, counts.connections), (10, 3));
    assert_eq!((counts.pending_share, counts.pending_mean), (1.0, 1.9));
}

#[test]
fn udp_sockets_that_the_kernel_cannot_list_are_read_from_proc() {
    use std::os::fd::AsRawFd;
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = receiver.local_addr().expect("an address");
    let root = Root::new(std::path::Path::new("/"));
    let link = format!("proc/self/fd/{}", receiver.as_raw_fd());
    let link = std::fs::read_link(root.path(&link)).expect("a link").display().to_string();
    let inode: u64 = link.trim_start_matches("socket:[").trim_end_matches(']').parse().expect("it");
    let namespace = Namespace::of(&root, None, &mut Vec::new());
    let mut sockets = Sockets::new(false, None);
    sockets.owners.insert(inode, 7);
    sockets.read_udp(None, &root, &namespace, true);
    assert!(sockets.has(SocketKind::Udp) && sockets.has_unqueried_udp());
    // Its queue is read again at the end of a slice, from whatever lists it.
    receiver.send_to(&[0; 100], address).expect("sent");
    sockets.read(&root, &namespace);
    let [found] = &sockets.finish(&root, &BTreeMap::new())[..] else { panic!("one socket") };
    assert_eq!((found.inode, found.local.clone()), (inode, address.to_string()));
    assert!(found.reads == Some(2) && found.receive_queue_max >= 100, "{found:?}");
    assert_eq!(found.drops, Some(0));
}

#[test]
fn a_connection_from_proc_is_not_taken_for_closed() {
    let root = Root::new(std::path::Path::new("/"));
    let namespace = Namespace::of(&root, None, &mut Vec::new());
    let mut sockets = watching();
    sockets.take_inet(vec![connection(9, 0, 0)], true);
    sockets.read(&root, &namespace);
    assert!(!sockets.watched[&9].is_closed);
}

#[test]
fn brief_connections_count_in_the_searches_only() {
    let mut sockets = Sockets::new(false, None);
    sockets.owners.extend((1..=20).map(|inode| (inode, 7)));
    let listening = tcp(1, "10.0.0.1:80", "", 0, 0);
    let asks = |inode| tcp(inode, "10.0.0.1:80", &format!("10.0.0.2:{}", 4000 + inode), 1, 0);
    for n in 0..30 {
        sockets.tick = n;
        sockets.take_inet(vec![listening.clone()], n == 0);
        // Every third reading is a search. Every second search finds a request without a reply,
        // which is still there one reading later.
        if n % 3 == 0 {
            sockets.looks.insert(n);
        }
        if n % 6 <= 1 {
            sockets.take_inet(vec![asks(2 + n / 6)], false);
        }
    }
    let counts = sockets.requests(3.0).expect("requests");
    assert_eq!((counts.readings, counts.connections), (10, 5));
    assert_eq!((counts.pending_share, counts.pending_mean), (0.5, 0.5));
    // The same readings of a connection that lasts are all counted.
    let mut lasting = Sockets::new(false, None);
    lasting.owners.extend([(1, 7), (2, 7)]);
    for n in 0..30 {
        lasting.tick = n;
        lasting.looks.extend((n % 3 == 0).then_some(n));
        lasting.take_inet(vec![listening.clone(), asks(2)], n == 0);
    }
    assert_eq!(lasting.requests(3.0).expect("requests").readings, 30);
}

#[test]
fn waits_on_brief_connections_to_servers_are_read_in_the_searches_only() {
    let mut sockets = Sockets::new(false, None);
    sockets.owners.extend((1..=20).map(|inode| (inode, 7)));
    for n in 0..30 {
        sockets.tick = n;
        let mut all = vec![
            tcp(1, "10.0.0.1:80", "", 0, 0),
            tcp(2, "10.0.0.1:80", "10.0.0.2:4000", 10 * n + u32::from(n % 3 == 0), 10 * n),
        ];
        sockets.looks.extend((n % 3 == 0).then_some(n));
        // Each search but the first finds a request at a server, which is answered by the next
        // reading.
        if n % 3 == 0 && n > 0 {
            let local = format!("10.0.0.1:{}", 5000 + n);
            all.push(tcp(3 + n / 3, &local, "10.0.0.9:5432", 0, 1));
        }
        sockets.take_inet(all, n == 0);
    }
    let counts = sockets.requests(3.0).expect("requests");
    assert_eq!((counts.readings, counts.server_readings), (30, Some(10)));
    assert_eq!((counts.awaiting_share, counts.awaiting_mean), (0.9, 0.9));
    assert!((counts.pending_share - 1.0 / 3.0).abs() < 1e-9, "{}", counts.pending_share);
}

#[test]
fn a_udp_socket_that_is_missing_from_two_lists_was_closed() {
    let udp = |inode| {
        InetSocket::of_listed(Listed {
            protocol: InetProtocol::Udp,
            is_listening: false,
            local: format!("10.0.0.1:{}", 4000 + inode).parse().expect("an address"),
            remote: "10.0.0.2:53".parse().expect("an address"),
            inode,
            receive_queue: 0,
            send_queue: 0,
        })
    };
    let folder = tempfile::tempdir().expect("a folder");
    let root = Root::new(folder.path());
    let mut sockets = watching();
    sockets.owners.extend([(10, 7), (11, 7)]);
    let inodes = |sockets: &Sockets| sockets.watched.keys().copied().collect::<Vec<_>>();
    sockets.take_udp((vec![udp(9), udp(10), udp(11)], true), true);
    // A list that breaks off shows nothing, and the kernel may skip a socket once.
    sockets.take_udp((vec![udp(9)], false), false);
    sockets.take_udp((vec![udp(9), udp(11)], true), false);
    sockets.take_udp((vec![udp(9), udp(10)], true), false);
    assert_eq!(sockets.finish(&root, &BTreeMap::new()).len(), 3);
    assert_eq!(inodes(&sockets), [9, 10, 11]);
    // Its counts in this window are still reported.
    sockets.take_udp((vec![udp(9), udp(10)], true), false);
    assert_eq!(sockets.finish(&root, &BTreeMap::new()).len(), 3);
    assert_eq!(inodes(&sockets), [9, 10]);
}

#[test]
fn pending_requests_of_connections_that_are_read_in_rotation_count_for_all() {
    let mut sockets = Sockets::new(false, None);
    let count = 100;
    sockets.owners.extend((1..=count + 1).map(|inode| (u64::from(inode), 7)));
    let listening = tcp(1, "10.0.0.1:80", "", 0, 0);
    // In any reading, a client waits on a fifth of the connections.
    let connection = |inode: u32, n: u32| {
        let waits = u32::from((inode + n).is_multiple_of(5));
        tcp(inode, "10.0.0.1:80", &format!("10.0.0.2:{inode}"), 10 * n + waits, 10 * n)
    };
    sockets.take_inet(vec![listening], true);
    for n in 0..50 {
        sockets.tick = n;
        // A tenth is read within the window, and all are read at its ends.
        let is_turn = |inode: u32| n == 0 || n == 49 || (inode + n / 2).is_multiple_of(10);
        let read = (2..=count + 1).filter(|inode| is_turn(*inode));
        sockets.take_inet(read.map(|inode| connection(inode, n)).collect(), n == 0);
    }
    sockets.is_in_rotation = true;
    let counts = sockets.requests(5.0).expect("requests");
    assert_eq!(counts.connections, u64::from(count));
    assert!((counts.pending_mean - 20.0).abs() < 5.0, "{}", counts.pending_mean);
}

#[test]
fn sockets_without_an_inode_are_not_one_socket() {
    let mut sockets = Sockets::new(true, None);
    let orphan = |drops: u32| {
        let mut socket = connection(0, 0, 0);
        socket.memory = memory(drops);
        socket
    };
    sockets.take_inet(vec![orphan(5)], true);
    sockets.take_inet(vec![orphan(3)], false);
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(sockets.finish(&Root::new(folder.path()), &BTreeMap::new()), []);
}
