// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs each of the two stacks with itself and with the other one, over two plain queues. The
//! queues lose nothing, so any failure is a stack's, and each stack checks the segments of the
//! other.

use linerate_tcpbench::endpoint::{
    Checksums, Config, Congestion, Endpoint, HEADER_BYTES, Side, Stack, State, WireMode,
};
use linerate_tcpbench::lwip::Lwip;
use linerate_tcpbench::routines::{Reading, Routines};
use linerate_tcpbench::smol::Smoltcp;
use linerate_tcpbench::wire::{Frame, Pool, Port};
use std::collections::VecDeque;

/// Returns both stacks, or smoltcp alone if lwIP was not built.
fn stacks() -> Vec<Box<dyn Stack>> {
    let lwip = Lwip::new();
    match lwip.check(1460).and_then(|()| lwip.check(8000)) {
        Ok(()) => vec![Box::new(lwip), Box::new(Smoltcp)],
        Err(error) => {
            println!("SKIP: lwIP: {error}");
            vec![Box::new(Smoltcp)]
        }
    }
}

fn config(side: Side) -> Config {
    Config {
        side,
        segment: 1460,
        buffer: 64 * 1460,
        routines: Routines::selected(),
        checksums: Checksums::Routines,
        wire: WireMode::Copy,
        nagle: false,
        ack_delay: 0,
        congestion: Congestion::None,
        seed: 1,
    }
}

/// Client, server and the wire between them.
struct Pair {
    client: Box<dyn Endpoint>,
    server: Box<dyn Endpoint>,
    up: VecDeque<Frame>,
    down: VecDeque<Frame>,
    pool: Pool,
    now: u64,
}

impl Pair {
    fn new(client: &dyn Stack, server: &dyn Stack, like: &Config) -> Self {
        let end = |stack: &dyn Stack, side| {
            let config = Config { side, ..like.clone() };
            stack.endpoint(&config).unwrap_or_else(|error| panic!("{}: {error}", stack.name()))
        };
        Self {
            client: end(client, Side::Client),
            server: end(server, Side::Server),
            up: VecDeque::new(),
            down: VecDeque::new(),
            pool: Pool::new(like.segment + HEADER_BYTES),
            now: 0,
        }
    }

    /// Opens a connection between both ends.
    fn open(&mut self) {
        self.server.open(self.now).expect("it listens");
        self.client.open(self.now).expect("it connects");
        self.turn_until("open", |pair| {
            (pair.client.state(), pair.server.state()) == (State::Open, State::Open)
        });
    }

    /// Runs one iteration: both ends process arrived frames and send pending ones. `disturb` may
    /// change the client's frames.
    fn turn(&mut self, disturb: impl FnOnce(&mut VecDeque<Frame>)) {
        // When no event is pending, advances time to the next timer.
        let is_idle = self.up.is_empty() && self.down.is_empty();
        let timers = [self.client.poll_at(self.now), self.server.poll_at(self.now)];
        self.now += 1;
        if let (true, Some(at)) = (is_idle, timers.into_iter().flatten().min()) {
            self.now = self.now.max(at);
        }
        let Self { up, down, pool, .. } = self;
        self.client.poll(self.now, &mut Port { arrived: down, sent: up, pool });
        disturb(up);
        self.server.poll(self.now, &mut Port { arrived: up, sent: down, pool });
    }

    fn turn_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..100_000 {
            if done(self) {
                return;
            }
            self.turn(|_| {});
        }
        panic!("not {what}: {:?}, {:?}", self.client.state(), self.server.state());
    }

    /// Sends a stream from the client to the server and returns what arrives.
    fn transfer(
        &mut self,
        stream: &[u8],
        mut disturb: impl FnMut(&mut VecDeque<Frame>),
    ) -> Vec<u8> {
        let (mut sent, mut received) = (0, Vec::new());
        let mut into = vec![0; 100_000];
        for _ in 0..100_000 {
            sent += self.client.send(&stream[sent..]);
            self.turn(&mut disturb);
            let count = self.server.receive(&mut into);
            received.extend_from_slice(&into[..count]);
            if received.len() >= stream.len() {
                return received;
            }
        }
        received
    }
}

fn stream(bytes: u32) -> Vec<u8> {
    (0..bytes).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect()
}

/// Calls `judge` with every pair of stacks.
fn pairs(like: &Config, mut judge: impl FnMut(&str, Pair)) {
    let stacks = stacks();
    for client in &stacks {
        for server in &stacks {
            let name = format!("{} to {}", client.name(), server.name());
            judge(&name, Pair::new(client.as_ref(), server.as_ref(), like));
        }
    }
}

#[test]
fn a_stream_arrives_whole_between_any_two() {
    let stream = stream(3_000_000);
    for wire in [WireMode::Copy, WireMode::Reference] {
        for checksums in [Checksums::Routines, Checksums::Stack, Checksums::Off] {
            for (segment, buffer) in [(1460, 64 * 1460), (8000, 33 * 8000)] {
                let like = Config { wire, checksums, segment, buffer, ..config(Side::Client) };
                pairs(&like, |name, mut pair| {
                    let what = format!("{name}, {wire:?}, {checksums:?}, {segment}");
                    pair.open();
                    let received = pair.transfer(&stream, |_| {});
                    assert!(received == stream, "{what}: {} bytes", received.len());
                    let counters = [pair.client.counters(), pair.server.counters()];
                    assert_eq!(counters.map(|c| c.bad_checksums), [0, 0], "{what}");
                });
            }
        }
    }
}

#[test]
fn every_damaged_segment_is_refused_and_sent_again() {
    let stream = stream(1_000_000);
    for wire in [WireMode::Copy, WireMode::Reference] {
        pairs(&Config { wire, ..config(Side::Client) }, |name, mut pair| {
            pair.open();
            // Chosen at random, because a fixed period might always hit the same segment.
            let (mut random, mut damaged) = (fastrand::Rng::with_seed(1), 0);
            let received = pair.transfer(&stream, |up| {
                for frame in up {
                    if random.u8(..13) == 0 {
                        let bytes = frame.bytes_mut();
                        bytes[random.usize(..bytes.len())] ^= 1 << random.u8(..8);
                        damaged += 1;
                    }
                }
            });
            assert!(received == stream, "{name}, {wire:?}: {} bytes", received.len());
            let refused = pair.server.counters().bad_checksums;
            assert!(damaged > 50 && refused == damaged, "{name}, {wire:?}: {refused}, {damaged}");
        });
    }
}

#[test]
fn connections_open_and_close_again_and_again() {
    pairs(&config(Side::Client), |name, mut pair| {
        for round in 0..40 {
            pair.open();
            let request = stream(round + 1);
            assert_eq!(pair.transfer(&request, |_| {}), request, "{name}");
            assert_eq!(pair.server.send(b"answer"), 6, "{name}");
            pair.turn(|_| {});
            pair.turn(|_| {});
            let mut answer = [0; 16];
            assert_eq!(pair.client.receive(&mut answer), 6, "{name}");
            pair.client.close();
            pair.turn_until("closed by the client", |pair| {
                pair.server.state() == State::PeerClosed
            });
            pair.server.close();
            pair.turn_until("closed", |pair| {
                (pair.client.state(), pair.server.state()) == (State::Closed, State::Closed)
            });
        }
    });
}

#[test]
fn a_segment_that_lwip_was_not_built_for_is_refused_with_where_sizes_stand() {
    let lwip = Lwip::new();
    if let Err(error) = lwip.check(1460) {
        return println!("SKIP: lwIP: {error}");
    }
    let refused = lwip.endpoint(&Config { segment: 536, ..config(Side::Client) });
    let said = refused.err().expect("there is no object for this size");
    assert!(said.contains("536") && said.contains("lwip/Makefile"), "{said}");
}

/// Returns the total frames sent by both ends, and received by both.
fn frames(pair: &Pair) -> [u64; 2] {
    let [client, server] = [pair.client.counters(), pair.server.counters()];
    [client.sent + server.sent, client.received + server.received]
}

#[test]
fn what_is_watched_is_what_was_sent() {
    let stream = stream(1_000_000);
    let like = config(Side::Client);
    for stack in stacks() {
        let mut pair = Pair::new(stack.as_ref(), stack.as_ref(), &like);
        pair.open();
        let before = frames(&pair);
        pair.client.watch(Some(Reading::Waiting));
        pair.server.watch(Some(Reading::Waiting));
        assert!(pair.transfer(&stream, |_| {}) == stream);
        let (sender, receiver) = (pair.client.tallies(), pair.server.tallies());
        // Each byte is copied three times: from the application or its ring, into the receiver's
        // driver, and to the application.
        assert_eq!(sender.copy_checksum.bytes, 1_000_000);
        assert_eq!(receiver.copy_checksum.bytes, 1_000_000);
        assert_eq!(receiver.copy.bytes, 1_000_000);
        // Headers are the only data summed without a copy; lwIP sums them separately only where it
        // writes them.
        assert_eq!((sender.checksum.calls, receiver.checksum.calls), (0, 0));
        let of_headers = |frames: u64| frames * HEADER_BYTES as u64;
        let [sent, received] = std::array::from_fn(|i| of_headers(frames(&pair)[i] - before[i]));
        let alone = sender.header.bytes + receiver.header.bytes;
        let copied = sender.copy_header.bytes + receiver.copy_header.bytes;
        let expected =
            if stack.copies_by_routines() { [sent, received] } else { [0, sent + received] };
        assert_eq!([alone, copied], expected, "{}", stack.name());
        // The drivers' own sums are counted but not timed.
        assert_eq!((receiver.copy_header.timed, receiver.copy_header.ticks), (0, 0));
        for tally in [&sender.copy_checksum, &receiver.copy] {
            assert!(tally.ticks > 0 && tally.timed == tally.calls);
        }
        for tally in [&sender.copy_checksum, &receiver.copy, &receiver.copy_header] {
            assert_eq!(tally.lengths.iter().sum::<u64>(), tally.calls);
            assert_eq!(tally.alignments.iter().sum::<u64>(), tally.calls);
        }
        pair.client.watch(None);
        assert_eq!(pair.transfer(&stream, |_| {}).len(), stream.len());
    }
}
