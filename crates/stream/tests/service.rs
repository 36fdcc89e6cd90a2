// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests client and server over loopback in one process, including unauthenticated clients.

use linerate_record::stream::{StreamMode, StreamPathKind, StreamReport};
use linerate_stream::protocol::VERSION;
use linerate_stream::{Limits, Outcome, Point, Request, StreamError, Target, measure, serve};
use linerate_trial::Watch;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const TOKEN: &str = "only for this test";

/// A server that is stopped when its test ends.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(address: &str) -> Result<Self, StreamError> {
        let address = address.parse().expect("an address");
        let limits = Limits { token: Some(TOKEN.to_owned()), is_for_one: false };
        let service = serve(address, limits)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (address, flag) = (service.address(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || service.run(&flag, &|_| {}));
        Ok(Self { address, stop, thread: Some(thread) })
    }

    fn measure(&self, request: &Request) -> Result<Outcome, StreamError> {
        measure_at(self.address, Some(TOKEN), request)
    }

    fn report(&self, request: &Request) -> StreamReport {
        let outcome = self.measure(request).expect("a measurement");
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        outcome.report
    }

    /// Returns what the server sends in reply to `bytes` until it closes the connection.
    fn answer(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        // The server may close while this end still writes.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn measure_at(
    address: SocketAddr,
    token: Option<&str>,
    request: &Request,
) -> Result<Outcome, StreamError> {
    let target = Target::Server {
        host: address.ip().to_string(),
        port: address.port(),
        token: token.map(str::to_owned),
    };
    let program = || Err(std::io::Error::other("no child is needed"));
    measure(request, &target, &program, &Watch::unattended())
}

fn request(mode: StreamMode, message: u32) -> Request {
    let point = Point { send_buffer: None, receive_buffer: None, message, connections: 1 };
    Request {
        mode,
        points: vec![point],
        time: Duration::from_millis(100),
        rounds: 1,
        seed: 1,
        reverse: false,
        nodelay: false,
        rate_bits_per_s: None,
        write_pause: Duration::ZERO,
        read_pause: Duration::ZERO,
        writes: 1,
        cpus: None,
        compare: false,
        is_copy: |name, file| file == "kernel" && name.contains("copy"),
    }
}

#[test]
fn a_stream_is_measured_in_both_directions() {
    let server = Running::start("127.0.0.1:0").expect("a server");
    for reverse in [false, true] {
        let request = Request { reverse, ..request(StreamMode::Tcp, 16 << 10) };
        let report = server.report(&request);
        let point = &report.points[0];
        assert!(point.gbps.as_number() > Some(0.0), "{point:?}");
        assert!(point.cpu_us_per_kb.as_number() > Some(0.0), "{point:?}");
        let tcp = point.tcp.expect("TCP_INFO");
        assert!(tcp.segments > 0 && tcp.segment_bytes > 0.0, "{tcp:?}");
        assert_eq!(report.explained, Some(0));
    }
}

#[test]
fn an_own_address_is_no_other_host() {
    // The address that packets to elsewhere would have; nothing is sent.
    let probe = UdpSocket::bind("0.0.0.0:0").expect("a port");
    let own = probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr());
    let Ok(own) = own.map(|address| address.ip()) else {
        return println!("SKIP: this machine has no route");
    };
    let server = Running::start(&format!("{own}:0")).expect("a server");
    for reverse in [false, true] {
        let report = server.report(&Request { reverse, ..request(StreamMode::Tcp, 16 << 10) });
        assert_eq!(report.path.kind, StreamPathKind::Loopback, "{own}");
        assert_eq!(report.path.interface.as_deref(), Some("lo"), "{own}");
    }
}

#[test]
fn connections_add_up() {
    let server = Running::start("127.0.0.1:0").expect("a server");
    let mut request = request(StreamMode::Tcp, 16 << 10);
    request.points[0].connections = 3;
    let report = server.report(&request);
    assert_eq!(report.points[0].connections, 3);
    assert!(report.points[0].gbps.as_number() > Some(0.0));
}

#[test]
fn every_datagram_has_a_place() {
    let server = Running::start("127.0.0.1:0").expect("a server");
    let slow = Duration::from_millis(1);
    let report = server.report(&Request { read_pause: slow, ..request(StreamMode::Udp, 1000) });
    let udp = report.points[0].udp.expect("datagrams");
    let drops = udp.buffer_drops.expect("the kernel counts dropped datagrams");
    assert!(udp.received > 0 && drops > 0, "{udp:?}");
    assert_eq!(udp.sent, udp.received + drops + udp.lost.expect("known"), "{udp:?}");
}

#[test]
fn paced_datagrams_keep_their_rate() {
    let server = Running::start("127.0.0.1:0").expect("a server");
    let rate = Some(8_000_000);
    let report = server.report(&Request { rate_bits_per_s: rate, ..request(StreamMode::Udp, 100) });
    let udp = report.points[0].udp.expect("datagrams");
    // 10,000 datagrams per second during the warm-up, the measurement, and a tail that
    // preemption may prolong.
    assert!(udp.sent > 0 && udp.sent < 100_000, "{udp:?}");
}

#[test]
fn requests_are_answered_one_at_a_time() {
    let server = Running::start("127.0.0.1:0").expect("a server");
    let report = server.report(&request(StreamMode::Request, 100));
    let point = &report.points[0];
    assert!(point.requests_per_s.as_number() > Some(0.0), "{point:?}");
    assert!(point.round_trip_us.as_number() > Some(0.0), "{point:?}");
}

#[test]
fn methods_are_compared_with_plain_calls() {
    let server = Running::start("127.0.0.1:0").expect("a server");
    let time = Duration::from_secs(1);
    let request = Request { compare: true, rounds: 1, time, ..request(StreamMode::Tcp, 1000) };
    let report = server.report(&request);
    let names: Vec<&str> = report.methods.iter().map(|method| method.name.as_str()).collect();
    let expected = [
        "send",
        "sendfile",
        "zerocopy",
        "io_uring",
        "udp_send",
        "mmsg",
        "udp_io_uring",
        "gso",
        "gso_gro",
    ];
    assert_eq!(names, expected);
    for method in &report.methods {
        let has_reason = method.gbps.reason.is_some();
        assert!(has_reason || method.gbps.as_number() > Some(0.0), "{method:?}");
        let copies = method.copy_share.as_ref().expect("a figure");
        match copies.as_number() {
            Some(share) => assert!((0.0..=1.0).contains(&share), "{method:?}"),
            None => assert!(copies.reason.is_some(), "{method:?}"),
        }
    }
    // Of calls with 128 KiB, the copies are a good part, if they can be seen.
    let plain = report.methods[0].copy_share.as_ref().and_then(|copies| copies.as_number());
    match plain {
        Some(share) => assert!(share > 0.05, "{:?}", report.methods[0]),
        None => println!("SKIP the share of copies: {:?}", report.methods[0].copy_share),
    }
}

/// The client fails before it sends the first byte; the server must not wait for the bytes until
/// the client has given up.
#[test]
fn a_client_that_fails_at_once_ends_the_test_with_its_reason() {
    let server = Running::start("127.0.0.1:0").expect("a server");
    let cpu = linerate_linux::allowed_cpus().expect("CPUs")[0];
    for (mode, reverse) in [(StreamMode::Tcp, false), (StreamMode::Tcp, true)] {
        // The client's CPU does not exist.
        let (cpus, time) = (Some([60_000, cpu]), Duration::from_secs(60));
        let outcome = server.measure(&Request { cpus, time, reverse, ..request(mode, 1000) });
        let error = outcome.expect("an outcome").error;
        let is_own = |error: &StreamError| match error {
            StreamError::Failed { reason } => reason.contains("60000"),
            _ => false,
        };
        assert!(error.as_ref().is_some_and(is_own), "{error:?}");
    }
}

#[test]
fn ipv6_works_alone() {
    let server = match Running::start("[::1]:0") {
        Ok(server) => server,
        Err(error) => return println!("SKIP: {error}"),
    };
    for mode in [StreamMode::Tcp, StreamMode::Udp] {
        assert!(server.report(&request(mode, 1000)).points[0].gbps.as_number() > Some(0.0));
    }
}

#[test]
fn a_wrong_token_is_refused_and_says_so() {
    let server = Running::start("127.0.0.1:0").expect("a server");
    for token in [None, Some("wrong")] {
        let error = measure_at(server.address, token, &request(StreamMode::Tcp, 1)).unwrap_err();
        assert!(error.to_string().contains("--token-file"), "{error}");
    }
}

#[test]
fn other_versions_are_refused_with_both_numbers() {
    let server = Running::start("127.0.0.1:0").expect("a server");
    let answer = server.answer(b"{\"linerate_stream\":999,\"token\":null}\n");
    assert!(answer.contains("999") && answer.contains(&format!("version {VERSION}")), "{answer}");
}

#[test]
fn strangers_do_not_disturb() {
    let server = Running::start("127.0.0.1:0").expect("a server");
    // Silent clients stay connected.
    let silent: Vec<TcpStream> =
        (0..5).map(|_| TcpStream::connect(server.address).expect("a connection")).collect();
    assert_eq!(server.answer(b"GET / HTTP/1.1\r\n\r\n"), "");
    assert_eq!(server.answer(&vec![b'x'; 1 << 20]), "", "a flood without an end of line");
    assert_eq!(server.answer(b"\n\n\n"), "");
    let report = server.report(&request(StreamMode::Tcp, 1000));
    assert_eq!(report.points.len(), 1);
    drop(silent);
}

#[test]
fn strangers_during_a_test_do_not_end_it() {
    let server = Running::start("127.0.0.1:0").expect("a server");
    let request = Request { time: Duration::from_secs(2), ..request(StreamMode::Tcp, 1000) };
    std::thread::scope(|scope| {
        let measured = scope.spawn(|| server.report(&request));
        let mut strangers = Vec::new();
        while !measured.is_finished() {
            let mut stranger = TcpStream::connect(server.address).expect("a connection");
            // The server may close while this end still writes.
            let _ = stranger.write_all(&[b'x'; 10_000]);
            strangers.push(stranger);
            std::thread::sleep(Duration::from_millis(50));
        }
        let report = measured.join().expect("a report");
        assert!(report.points[0].gbps.as_number() > Some(0.0) && report.ended_by.is_none());
        assert!(strangers.len() > 5, "{} strangers", strangers.len());
    });
}

#[test]
fn a_port_in_use_and_an_open_address_without_token_are_refused() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("its address");
    let error = serve(address, Limits::default()).unwrap_err().to_string();
    assert!(error.contains("in use") && error.contains("--port"), "{error}");
    let open = "0.0.0.0:0".parse().expect("an address");
    let error = serve(open, Limits::default()).unwrap_err().to_string();
    assert!(error.contains("--token-file"), "{error}");
}

/// Starts a server that replies to each message with the next of `answers`, then closes.
fn scripted(answers: &'static [&'static str]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut room = [0; 4096];
        for answer in answers {
            let _ = stream.read(&mut room);
            let _ = stream.write_all(answer.as_bytes());
        }
        // Read what the client still sends, so that it sees an orderly close and not a reset.
        let _ = stream.read(&mut room);
    });
    address
}

#[test]
fn a_server_that_is_none_is_named() {
    let address = scripted(&["SSH-2.0-none\r\n"]);
    let error = measure_at(address, None, &request(StreamMode::Tcp, 1)).unwrap_err().to_string();
    assert!(error.contains("does not speak") && error.contains("SSH-2.0"), "{error}");
}

#[test]
fn a_server_that_ends_between_tests_ends_the_measurement_with_an_error() {
    let address = scripted(&["\"Welcome\"\n"]);
    let outcome = measure_at(address, None, &request(StreamMode::Tcp, 1)).expect("an outcome");
    assert!(matches!(outcome.error, Some(StreamError::PeerEnded { .. })), "{:?}", outcome.error);
    assert!(outcome.report.ended_by.is_some() && outcome.report.points.is_empty());
}

#[test]
fn a_closed_port_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    drop(listener);
    let error = measure_at(address, None, &request(StreamMode::Tcp, 1)).unwrap_err().to_string();
    assert!(error.contains("cannot connect") && error.contains("--server"), "{error}");
}
