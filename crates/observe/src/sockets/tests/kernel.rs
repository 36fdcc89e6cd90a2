// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets of the running kernel.

use super::*;

/// Opens a listening socket and returns it as listed by the kernel.
fn listening() -> (std::net::TcpListener, InetSocket) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let local = listener.local_addr().expect("an address");
    let network = Network::own().expect("netlink");
    let (all, _) = listing::list(&network, InetProtocol::Tcp).expect("a list");
    let found = all.into_iter().find(|one| one.is_listening && one.local == local);
    (listener, found.expect("the socket is listed"))
}

#[test]
fn a_listening_socket_that_is_not_found_alone_is_closed_only_if_lists_omit_it() {
    let root = Root::new(std::path::Path::new("/"));
    let namespace = Namespace::of(&root, None, &mut Vec::new());
    let (listener, socket) = listening();
    let inode = u64::from(socket.inode);
    let mut sockets = Sockets::new(false, None);
    sockets.owners.insert(inode, 7);
    sockets.take_tcp((vec![socket.clone()], true), Moment::Start, true);
    // The kernel answers for another socket of the same address, or for none.
    drop(listener);
    sockets.read(&root, &namespace);
    assert!(!sockets.watched[&inode].is_closed);
    // With many sockets, the lists within the window read listening sockets only.
    let reads = sockets.watched[&inode].reads;
    let many = (1..=40).map(|n| connection(1_000_000 + n, 0, 0)).chain([socket]).collect();
    sockets.take_tcp((many, true), Moment::Within, true);
    assert_eq!(sockets.watched[&inode].reads, reads + 1);
    sockets.take_tcp((Vec::new(), true), Moment::Within, true);
    sockets.take_tcp((Vec::new(), false), Moment::Within, true);
    assert!(!sockets.watched[&inode].is_closed);
    sockets.take_tcp((Vec::new(), true), Moment::Within, true);
    assert!(sockets.watched[&inode].is_closed);
}

#[test]
fn the_first_window_begins_when_it_is_restarted() {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    let root = Root::new(std::path::Path::new("/"));
    let namespace = Namespace::of(&root, None, &mut Vec::new());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    let mut client = std::net::TcpStream::connect(address).expect("a connection");
    let (mut server, _) = listener.accept().expect("a connection");
    let link = std::fs::read_link(format!("/proc/self/fd/{}", client.as_raw_fd())).expect("a link");
    let inode = crate::sleep::socket_inode(&link.to_string_lossy()).expect("a socket");
    let mut sockets = Sockets::new(false, None);
    sockets.owners.insert(inode, 7);
    sockets.look(&root, &namespace, &[], Moment::Start);
    let mut send = |bytes: usize| {
        client.write_all(&vec![1; bytes]).expect("sent");
        server.read_exact(&mut vec![0; bytes]).expect("received");
        server.write_all(&[1]).expect("sent");
        client.read_exact(&mut [0]).expect("received");
    };
    // Before the window begins, and within it.
    send(1000);
    sockets.restart(&root, &namespace);
    assert_eq!(sockets.traffic(), (0, 0));
    send(30);
    sockets.read(&root, &namespace);
    assert_eq!(sockets.traffic().1, 31);
    assert_eq!(sockets.watched[&inode].reads, 2);
}

#[test]
fn more_connections_than_are_read_in_a_slice_are_read_in_rotation() {
    let root = Root::new(std::path::Path::new("/"));
    let namespace = Namespace::of(&root, None, &mut Vec::new());
    let of = |count: u32| {
        let mut sockets = Sockets::new(false, None);
        sockets.owners.extend((1..=count).map(|inode| (inode.into(), 7)));
        sockets.take_inet((1..=count).map(|inode| connection(inode, 0, 0)).collect(), true);
        sockets.read(&root, &namespace);
        sockets.were_read_in_rotation()
    };
    assert!(!of(32) && of(33));
}

#[test]
fn a_packet_socket_has_the_name_of_an_interface_that_is_new() {
    let Ok(network) = Network::own() else { return };
    let mut sockets = Sockets::new(false, None);
    let links = network.links().expect("interfaces");
    let lo = links.iter().find(|link| link.name == "lo").expect("there is one");
    let of_lo = [PacketSocket { interface: lo.index, ..packet(0, false) }];
    sockets.find_names(&network, &of_lo);
    assert!(sockets.names.is_empty(), "a socket of another program");
    sockets.owners.insert(9, 7);
    let mut named = |index| {
        sockets.find_names(&network, &[PacketSocket { interface: index, ..packet(0, false) }]);
        sockets.names.get(&index).cloned()
    };
    assert_eq!((named(lo.index).as_deref(), named(0)), (Some("lo"), None));
    assert_eq!(named(7_654_321).as_deref(), Some("interface 7654321"));
}
