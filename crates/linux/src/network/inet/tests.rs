// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use proptest::prelude::*;
use std::net::{TcpListener, UdpSocket};

/// Returns a connection from 127.0.0.1:5201 to 127.0.0.1:40000 with all requested data.
fn answer(info_bytes: usize) -> Vec<u8> {
    let mut body = vec![libc::AF_INET as u8, 1, 0, 0];
    body.extend([0x14, 0x51, 0x9c, 0x40]);
    for _ in 0..2 {
        body.extend([127, 0, 0, 1]);
        body.extend([0; 12]);
    }
    body.extend([0u32, 7, 0, 0, 11, 22, 1000, 4711].iter().flat_map(|n| n.to_ne_bytes()));
    let mut put = |kind: u16, bytes: &[u8]| {
        body.extend((4 + bytes.len() as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(bytes);
    };
    let memory = [1u32, 212_992, 3, 87_040, 5, 6, 7, 8, 9];
    put(MEMORY, &memory.iter().flat_map(|n| n.to_ne_bytes()).collect::<Vec<_>>());
    let mut info: Vec<u8> = (0..=255).collect();
    info.truncate(info_bytes);
    put(INFO, &info);
    body
}

#[test]
fn a_connection_is_decoded_with_its_numbers() {
    let socket = InetSocket::decode(InetProtocol::Tcp, &answer(240)).unwrap();
    assert_eq!(socket.local, "127.0.0.1:5201".parse().unwrap());
    assert_eq!(socket.remote, "127.0.0.1:40000".parse().unwrap());
    assert_eq!((socket.inode, socket.receive_queue, socket.send_queue), (4711, 11, 22));
    let memory =
        SocketMemory { received: 1, receive_buffer: 212_992, send_buffer: 87_040, drops: 9 };
    assert_eq!(socket.memory, Some(memory));
    let at = |at: u8| u64::from_ne_bytes(std::array::from_fn(|index| at + index as u8));
    let tcp = socket.tcp.unwrap();
    assert_eq!(
        (tcp.busy_us, tcp.rwnd_limited_us, tcp.sndbuf_limited_us),
        (at(168), at(176), at(184))
    );
    assert_eq!(tcp.cwnd, u32::from_ne_bytes([80, 81, 82, 83]));
    assert!(tcp.is_app_limited);
    assert_eq!(tcp.peer_window, Some(u32::from_ne_bytes([228, 229, 230, 231])));
    assert_eq!(tcp.max_pacing_rate, Some(at(112)));
}

#[test]
fn without_a_sample_there_is_no_round_trip_time() {
    let of = |min_rtt: u32| {
        let mut info = vec![0; 240];
        info[148..152].copy_from_slice(&min_rtt.to_ne_bytes());
        TcpInfo::decode(&info).expect("a whole tcp_info").min_rtt_us
    };
    assert_eq!((of(u32::MAX), of(25)), (0, 25));
}

#[test]
fn a_syn_has_no_answer_after_longer_than_a_round_trip() {
    let of = |state: u8, repeated: u8, expires_ms: u32| {
        let mut body = vec![0; 72];
        (body[1], body[2], body[3]) = (state, 1, repeated);
        body[52..56].copy_from_slice(&expires_ms.to_ne_bytes());
        unanswered(&body)
    };
    let [established, syn_sent] = [1, 2];
    assert_eq!(of(syn_sent, 0, 990), Some([false; 2]));
    assert_eq!(of(syn_sent, 0, 850), Some([true, false]));
    assert_eq!(of(syn_sent, 1, 1990), Some([true, true]));
    // A connection that retransmits data.
    assert_eq!(of(established, 2, 10), Some([false; 2]));
    assert_eq!(unanswered(&[0; 10]), None);
}

#[test]
fn what_an_older_kernel_does_not_say_is_absent() {
    let of = |bytes| InetSocket::decode(InetProtocol::Tcp, &answer(bytes)).unwrap().tcp.unwrap();
    assert!(of(224).peer_window.is_none() && of(224).needless.is_some(), "before 5.4");
    assert!(of(208).needless.is_none(), "before 4.19");
    let socket = InetSocket::decode(InetProtocol::Tcp, &answer(184)).unwrap();
    assert_eq!(socket.tcp, None);
    assert_eq!(SocketMemory::decode(&[0; 32]), None);
    assert_eq!(InetSocket::decode(InetProtocol::Udp, &answer(240)).unwrap().tcp, None);
}

#[test]
fn an_own_socket_is_found_and_found_again() {
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let found = Network::own()
        .and_then(|network| Ok((network.inet_sockets(InetProtocol::Tcp, false)?, network)));
    let (sockets, network) = match found {
        Ok(found) => found,
        Err(error) => return println!("SKIP: {error}"),
    };
    let address = own.local_addr().unwrap();
    let socket = sockets.iter().find(|socket| socket.local == address).unwrap();
    let again = network.inet_socket(socket).unwrap().unwrap();
    assert_eq!((again.inode, again.local), (socket.inode, socket.local));
    assert!(again.is_listening && again.tcp.is_none());
    let sockets = network.inet_sockets(InetProtocol::Udp, false).unwrap();
    let address = udp.local_addr().unwrap();
    let listed = sockets.iter().find(|socket| socket.local == address).unwrap();
    let memory = listed.memory;
    assert!(memory.is_some_and(|memory| memory.drops == 0 && memory.receive_buffer > 0));
    // Unread datagrams show in the socket found by its address.
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[0; 100], address).unwrap();
    let found = network.inet_socket(listed).unwrap().unwrap();
    assert_eq!((found.inode, found.local), (listed.inode, address));
    assert!(found.receive_queue >= 100, "{found:?}");
    drop(udp);
    assert_eq!(network.inet_socket(listed).unwrap(), None);
    drop(own);
    assert_eq!(network.inet_socket(socket).unwrap(), None);
}

#[test]
fn the_sockets_of_both_address_families_are_listed_at_once() {
    let network = match Network::own() {
        Ok(network) => network,
        Err(error) => return println!("SKIP: {error}"),
    };
    let own = ["127.0.0.1:0", "[::1]:0"].map(TcpListener::bind);
    let own: Vec<_> = own.into_iter().flatten().map(|one| (one.local_addr(), one)).collect();
    assert!(!own.is_empty());
    let all = match network.tcp_sockets() {
        Ok(all) => all,
        Err(error) => return println!("SKIP: {error}"),
    };
    for (address, _) in own {
        let address = address.unwrap();
        let found = all.iter().filter(|socket| socket.local == address);
        let families = [false, true];
        let lists = families.map(|is_v6| network.inet_sockets(InetProtocol::Tcp, is_v6).unwrap());
        let one = lists.iter().flatten().find(|socket| socket.local == address);
        assert_eq!(found.collect::<Vec<_>>(), [one.unwrap()]);
    }
}

/// The kernel has no handler for a protocol number reserved for experiments (RFC 3692), as one
/// without the module udp_diag has none for UDP. It says so at the end of an empty list.
#[test]
fn a_protocol_that_the_kernel_cannot_list_is_an_error() {
    let network = match Network::own() {
        Ok(network) => network,
        Err(error) => return println!("SKIP: {error}"),
    };
    let mut request = request(false, InetProtocol::Udp, &[0; ID]);
    request[1] = 253;
    let listed = dump(&network.diag, BY_FAMILY, &request, |_, body| u32_at(body, 0));
    let error = listed.unwrap_err().to_string();
    assert!(error.contains("No such file") && error.contains("udp_diag"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn damaged_answers_are_left_out(cut in 0usize..400, at in 0usize..400, byte: u8) {
        let mut body = answer(240);
        let at = at % body.len();
        body[at] = byte;
        body.truncate(cut);
        InetSocket::decode(InetProtocol::Tcp, &body);
    }
}
