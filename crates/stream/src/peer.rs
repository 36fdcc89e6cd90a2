// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets up the connections of a test at both ends. They are authenticated by a nonce, which keeps
//! out any other client that connects to the port.

use crate::StreamError;
use crate::error::socket_error;
use crate::line::is_timeout;
use crate::protocol::Test;
use crate::side::{Connection, STEP};
use linerate_linux::{network, socket};
use linerate_record::stream::StreamMode;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long both ends wait for the connections of a test.
const JOIN: Duration = Duration::from_secs(5);
/// How long a new connection may take to send the nonce.
const SHOW: Duration = Duration::from_millis(300);
/// Size of the first message on a connection in bytes: nonce and index.
const PROOF: usize = 12;

const SETTING_UP: &str = "while the connections were being set up";

fn failed(error: std::io::Error) -> StreamError {
    socket_error(SETTING_UP, error)
}

/// A server's sockets while it waits for the connections of a test.
pub(crate) enum Waiting {
    Tcp(TcpListener),
    Udp(Vec<UdpSocket>),
}

impl Waiting {
    /// Opens the sockets on the address through which the client reached the server.
    pub(crate) fn open(test: &Test, mut address: SocketAddr) -> Result<Self, StreamError> {
        address.set_port(0);
        let bound = |error| StreamError::Bind { address, error };
        if test.mode != StreamMode::Udp {
            let listener = TcpListener::bind(address).map_err(bound)?;
            // Accepted sockets inherit the buffers, which must be set before the window is
            // advertised.
            set_buffers(&listener, test)?;
            listener.set_nonblocking(true).map_err(failed)?;
            return Ok(Self::Tcp(listener));
        }
        let one = |_| {
            let udp = UdpSocket::bind(address).map_err(bound)?;
            set_buffers(&udp, test)?;
            Ok(udp)
        };
        (0..test.connections).map(one).collect::<Result<_, _>>().map(Self::Udp)
    }

    pub(crate) fn ports(&self) -> Result<Vec<u16>, StreamError> {
        let port = |address: std::io::Result<SocketAddr>| Ok(address.map_err(failed)?.port());
        match self {
            Self::Tcp(listener) => Ok(vec![port(listener.local_addr())?]),
            Self::Udp(all) => all.iter().map(|udp| port(udp.local_addr())).collect(),
        }
    }

    /// Waits for the connections of this client, and accepts no others.
    pub(crate) fn join(
        self,
        test: &Test,
        nonce: u64,
        client: IpAddr,
    ) -> Result<Vec<Connection>, StreamError> {
        let deadline = Instant::now() + JOIN;
        match self {
            Self::Tcp(listener) => {
                let mut all = Vec::new();
                while all.len() < test.connections as usize {
                    let (stream, from) = accept(&listener, deadline)?;
                    if from.ip() == client && is_proved(&stream, nonce) {
                        set_up(&stream, test)?;
                        all.push(Connection::Tcp(stream));
                    }
                }
                Ok(all)
            }
            Self::Udp(all) => {
                let join = |udp| join_udp(udp, nonce, client, deadline).map(Connection::Udp);
                all.into_iter().map(join).collect()
            }
        }
    }
}

fn late() -> StreamError {
    let what = format!("its connections did not arrive within {} s", JOIN.as_secs());
    StreamError::Late { what }
}

fn accept(
    listener: &TcpListener,
    deadline: Instant,
) -> Result<(TcpStream, SocketAddr), StreamError> {
    loop {
        match listener.accept() {
            Ok(accepted) => return Ok(accepted),
            Err(error) if is_timeout(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) if is_timeout(&error) => return Err(late()),
            Err(error) => return Err(failed(error)),
        }
    }
}

fn is_proved(mut stream: &TcpStream, nonce: u64) -> bool {
    let mut proof = [0; PROOF];
    stream.set_nonblocking(false).is_ok()
        && stream.set_read_timeout(Some(SHOW)).is_ok()
        && stream.read_exact(&mut proof).is_ok()
        && proof[..8] == nonce.to_be_bytes()
}

/// Waits for the nonce and echoes it.
fn join_udp(
    udp: UdpSocket,
    nonce: u64,
    client: IpAddr,
    deadline: Instant,
) -> Result<UdpSocket, StreamError> {
    udp.set_read_timeout(Some(STEP)).map_err(failed)?;
    let mut proof = [0; PROOF];
    loop {
        match udp.recv_from(&mut proof) {
            Ok((PROOF, from)) if from.ip() == client && proof[..8] == nonce.to_be_bytes() => {
                udp.connect(from).map_err(failed)?;
                udp.send(&proof).map_err(failed)?;
                set_timeouts_udp(&udp)?;
                return Ok(udp);
            }
            Err(error) if !is_timeout(&error) => return Err(failed(error)),
            _ if Instant::now() >= deadline => return Err(late()),
            _ => {}
        }
    }
}

/// Opens the connections of a test to a server. Only the port of `server` is replaced, because an
/// IPv6 link-local address is valid only with its interface.
pub(crate) fn connect(
    test: &Test,
    server: SocketAddr,
    ports: &[u16],
    nonce: u64,
) -> Result<Vec<Connection>, StreamError> {
    let one = |index: u32| {
        let port = ports.get(index as usize).or(ports.first()).copied().unwrap_or(0);
        let mut address = server;
        address.set_port(port);
        let mut proof = [0; PROOF];
        proof[..8].copy_from_slice(&nonce.to_be_bytes());
        proof[8..].copy_from_slice(&index.to_be_bytes());
        match test.mode {
            StreamMode::Udp => connect_udp(test, address, &proof).map(Connection::Udp),
            _ => connect_tcp(test, address, &proof).map(Connection::Tcp),
        }
    };
    (0..test.connections).map(one).collect()
}

fn connect_tcp(test: &Test, address: SocketAddr, proof: &[u8]) -> Result<TcpStream, StreamError> {
    let mut stream = TcpStream::connect_timeout(&address, JOIN)
        .map_err(|error| StreamError::Connect { server: address.to_string(), error })?;
    set_buffers(&stream, test)?;
    stream.write_all(proof).map_err(failed)?;
    set_up(&stream, test)?;
    Ok(stream)
}

fn connect_udp(test: &Test, address: SocketAddr, proof: &[u8]) -> Result<UdpSocket, StreamError> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => [0; 4].into(),
        SocketAddr::V6(_) => [0_u16; 8].into(),
    };
    let udp = UdpSocket::bind((any, 0)).map_err(failed)?;
    set_buffers(&udp, test)?;
    udp.connect(address).map_err(failed)?;
    udp.set_read_timeout(Some(STEP)).map_err(failed)?;
    let deadline = Instant::now() + JOIN;
    let mut answer = [0; PROOF];
    while Instant::now() < deadline {
        // Retransmit in each iteration: a datagram may be lost.
        udp.send(proof).map_err(failed)?;
        match udp.recv(&mut answer) {
            Ok(PROOF) if answer == proof => {
                set_timeouts_udp(&udp)?;
                return Ok(udp);
            }
            Err(error) if !is_timeout(&error) => return Err(failed(error)),
            _ => {}
        }
    }
    Err(late())
}

fn set_buffers(socket: &impl AsFd, test: &Test) -> Result<(), StreamError> {
    if let Some(bytes) = test.send_buffer {
        socket::set_send_buffer(socket, bytes)?;
    }
    if let Some(bytes) = test.receive_buffer {
        network::set_receive_buffer(socket, bytes)?;
    }
    Ok(())
}

fn set_up(stream: &TcpStream, test: &Test) -> Result<(), StreamError> {
    stream.set_nonblocking(false).map_err(failed)?;
    stream.set_nodelay(test.nodelay).map_err(failed)?;
    stream.set_read_timeout(Some(STEP)).map_err(failed)?;
    stream.set_write_timeout(Some(STEP)).map_err(failed)?;
    if let Some(rate) = test.rate_bits_per_s {
        socket::set_pacing_limit(stream, rate / 8)?;
    }
    Ok(())
}

fn set_timeouts_udp(udp: &UdpSocket) -> Result<(), StreamError> {
    udp.set_read_timeout(Some(STEP)).map_err(failed)?;
    udp.set_write_timeout(Some(STEP)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::test;

    const NONCE: u64 = 0x0102_0304_0506_0708;

    fn joined(test: &Test, strangers: impl FnOnce(u16)) -> (Vec<Connection>, Vec<Connection>) {
        let here = SocketAddr::from(([127, 0, 0, 1], 9));
        let waiting = Waiting::open(test, here).expect("a port");
        let ports = waiting.ports().expect("ports");
        strangers(ports[0]);
        std::thread::scope(|scope| {
            let server = scope.spawn(move || waiting.join(test, NONCE, here.ip()));
            let client = connect(test, here, &ports, NONCE).expect("connections");
            (client, server.join().expect("it returns").expect("connections"))
        })
    }

    #[test]
    fn strangers_at_the_data_port_take_no_part() {
        let test = Test { connections: 2, ..test() };
        let mut strangers = Vec::new();
        let (client, server) = joined(&test, |port| {
            let silent = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
            let mut wrong = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
            wrong.write_all(&[0; PROOF]).expect("it is sent");
            strangers.extend([silent, wrong]);
        });
        let ports = |all: &[Connection], local: bool| {
            let port = |one: &Connection| match one {
                Connection::Tcp(stream) if local => stream.local_addr().unwrap().port(),
                Connection::Tcp(stream) => stream.peer_addr().unwrap().port(),
                Connection::Udp(_) => panic!("a stream"),
            };
            all.iter().map(port).collect::<Vec<u16>>()
        };
        assert_eq!(ports(&client, true), ports(&server, false));
    }

    #[test]
    fn datagrams_of_strangers_take_no_part() {
        let test = Test { mode: StreamMode::Udp, ..test() };
        let (client, server) = joined(&test, |port| {
            let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
            for datagram in [&[0; PROOF][..], b"", b"short", &[9; 1000]] {
                stranger.send_to(datagram, ("127.0.0.1", port)).expect("it is sent");
            }
        });
        let (Connection::Udp(client), Connection::Udp(server)) = (&client[0], &server[0]) else {
            panic!("datagrams")
        };
        assert_eq!(server.peer_addr().unwrap().port(), client.local_addr().unwrap().port());
    }

    #[test]
    fn buffers_are_set_before_connections_are_accepted() {
        let test = Test { receive_buffer: Some(20_000), ..test() };
        let (_client, server) = joined(&test, |_| ());
        let Connection::Tcp(stream) = &server[0] else { panic!("a stream") };
        assert_eq!(socket::memory(stream).unwrap().receive_buffer, 40_000);
    }
}
