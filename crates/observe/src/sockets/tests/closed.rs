// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets that are closed, and connections to servers that last longer than those of clients.

use super::*;

fn finish(sockets: &mut Sockets) {
    let folder = tempfile::tempdir().expect("a folder");
    sockets.finish(&Root::new(folder.path()), &BTreeMap::new());
}

#[test]
fn closed_connections_are_forgotten_however_many_there_are() {
    let mut sockets = Sockets::new(false, None);
    sockets.owners.extend((1..=200).map(|inode| (inode, 7)));
    let list = |inodes: std::ops::RangeInclusive<u32>| {
        (inodes.map(|inode| connection(inode, 0, 0)).collect::<Vec<_>>(), true)
    };
    sockets.take_tcp(list(1..=100), Moment::Start, true);
    finish(&mut sockets);
    // The kernel may leave out a socket once.
    sockets.take_tcp(list(51..=150), Moment::Within, true);
    sockets.take_tcp(list(1..=150), Moment::Within, true);
    finish(&mut sockets);
    assert_eq!(sockets.watched.len(), 150);
    // One that was not found at its address is closed, unless a later list has it.
    for inode in [60, 140] {
        sockets.watched.get_mut(&inode).expect("it is watched").is_closed = true;
    }
    sockets.take_tcp(list(101..=150), Moment::Within, true);
    assert!(sockets.watched[&60].is_closed && !sockets.watched[&140].is_closed);
    sockets.take_tcp(list(101..=150), Moment::Within, true);
    assert!(sockets.watched[&1].is_closed);
    finish(&mut sockets);
    assert_eq!(sockets.watched.keys().copied().collect::<Vec<_>>(), Vec::from_iter(101..=150));
}

#[test]
fn listening_sockets_that_the_kernel_does_not_find_take_no_turns() {
    let root = Root::new(std::path::Path::new("/"));
    let namespace = Namespace::of(&root, None, &mut Vec::new());
    let mut sockets = Sockets::new(false, None);
    sockets.owners.extend((1..=48).map(|inode| (inode, 7)));
    let listening = |inode| tcp(inode, "10.0.0.1:80", "", 0, 0);
    sockets.take_inet((1..=40).map(listening).collect(), true);
    sockets.take_inet((41..=48).map(|inode| connection(inode, 0, 0)).collect(), true);
    sockets.watched.values_mut().take(39).for_each(|watched| watched.is_hidden = true);
    sockets.read(&root, &namespace);
    assert!(!sockets.were_read_in_rotation());
}

#[test]
fn a_packet_socket_that_was_closed_shares_no_interface() {
    let mut sockets = watching();
    sockets.owners.insert(10, 7);
    sockets.take_packet(vec![packet(0, false)], true);
    sockets.take_packet(vec![packet(3, false)], false);
    assert_eq!(sockets.packet_drops(), Some(3));
    sockets.take_packet(vec![PacketSocket { inode: 10, ..packet(2, false) }], false);
    assert_eq!(sockets.packet_drops(), None);
    sockets.watched.get_mut(&9).expect("it is watched").is_closed = true;
    assert_eq!(sockets.packet_drops(), Some(5));
}

#[test]
fn waits_on_connections_that_last_count_for_all_if_those_of_clients_are_brief() {
    let mut sockets = Sockets::new(false, None);
    sockets.owners.extend((1..=300).map(|inode| (inode, 7)));
    let asks = |inode: u32| tcp(inode, "10.0.0.1:80", &format!("10.0.0.2:{inode}"), 1, 0);
    // In any reading, the program waits on half of its 100 connections to a server.
    let opened = |inode: u32, n: u32| {
        let waits = (inode + n) % 2;
        tcp(inode, &format!("10.0.0.1:{}", 1000 + inode), "10.0.0.9:5432", 10 * n, 10 * n + waits)
    };
    sockets.take_inet(vec![tcp(1, "10.0.0.1:80", "", 0, 0)], true);
    for n in 0..50 {
        sockets.tick = n;
        let is_turn = |inode: u32| n == 0 || n == 49 || (inode + n / 2).is_multiple_of(10);
        let read = (2..=101).filter(|inode| is_turn(*inode));
        sockets.take_inet(read.map(|inode| opened(inode, n)).collect(), n == 0);
        // Each search finds new connections of clients, more than those that last.
        if n % 5 == 0 {
            sockets.looks.insert(n);
            let first = 110 + 2 * n;
            sockets.take_inet((first..first + 10).map(asks).collect(), false);
        }
    }
    sockets.is_in_rotation = true;
    let counts = sockets.requests(5.0).expect("requests");
    assert_eq!((counts.readings, counts.pending_mean), (10, 10.0));
    assert!((counts.awaiting_mean - 50.0).abs() < 10.0, "{}", counts.awaiting_mean);
}

#[test]
fn drops_before_the_window_do_not_count_where_sockets_are_read_from_proc() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Root::new(folder.path());
    let namespace = Namespace::of(&root, Some(7), &mut Vec::new());
    assert!(namespace.network.is_none());
    let put = |drops: u32| {
        let text = format!(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  \
             timeout inode ref pointer drops\n  1: 00000000:14E9 00000000:0000 07 \
             00000000:00000000 00:00000000 00000000     0        0 9 2 0000000000000000 {drops}\n"
        );
        crate::tree::put(&root, "proc/7/net/udp", &text);
    };
    let mut sockets = watching();
    put(5);
    sockets.take_listed(&root, &namespace, InetProtocol::Udp, true);
    put(50);
    sockets.restart(&root, &namespace);
    put(53);
    sockets.take_listed(&root, &namespace, InetProtocol::Udp, false);
    let found = sockets.finish(&root, &BTreeMap::new());
    assert_eq!((found.len(), found[0].drops, found[0].reads), (1, Some(3), Some(2)));
}
