// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to measure: the points of a sweep and the time to spend on them.

use crate::StreamError;
use crate::methods::{METHODS, Method};
use crate::protocol::{MAX_TIME, Test, Way};
use linerate_record::stream::StreamMode;
use std::time::Duration;

/// Returns whether a function copies data, given its name and its file (`kernel` for the kernel).
pub type IsCopy = fn(&str, &str) -> bool;

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Request {
    /// Traffic type.
    pub mode: StreamMode,
    /// Points of the sweep; at least one.
    pub points: Vec<Point>,
    /// Total measurement time of all tests.
    pub time: Duration,
    /// Number of rounds; each point is tested once per round.
    pub rounds: u64,
    /// Random seed for the order of the tests in a round.
    pub seed: u64,
    /// Whether the server sends.
    pub reverse: bool,
    /// Whether to send small segments without delay (TCP_NODELAY).
    pub nodelay: bool,
    /// Maximum send rate of each connection in bits per second; unlimited if `None`.
    pub rate_bits_per_s: Option<u64>,
    /// Pause of the sender after each message.
    pub write_pause: Duration,
    /// Pause of the receiver after each read.
    pub read_pause: Duration,
    /// Number of write calls per request.
    pub writes: u32,
    /// CPUs to which client and server are pinned; not pinned if `None`.
    pub cpus: Option<[u32; 2]>,
    /// Whether to compare methods of sending and receiving.
    pub compare: bool,
    /// Returns whether a function copies data, for the share of copies of each method.
    pub is_copy: IsCopy,
}

/// A point of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Requested send buffer size in bytes; chosen by the kernel if `None`.
    pub send_buffer: Option<u32>,
    /// Requested receive buffer size in bytes; chosen by the kernel if `None`.
    pub receive_buffer: Option<u32>,
    /// Bytes per call, datagram or request.
    pub message: u32,
    /// Number of simultaneous connections.
    pub connections: u32,
}

/// Warm-up before each measurement, to get past slow start and cold caches. It lasts longer than
/// the first few round trips on any path within a machine or a site.
pub(crate) const WARM_UP: Duration = Duration::from_millis(50);
/// Measurement time of a test in which functions are sampled: 40 to 200 samples of a busy thread.
/// The sampler has room for the samples of 1 s.
const SAMPLED: Duration = Duration::from_millis(400);
/// Default message size of a TCP stream, in bytes. It is close to what file copies and iperf3 use
/// (128 KiB), and large enough that the cost of a system call no longer matters.
const STREAM_MESSAGE: u32 = 64 << 10;
/// Default datagram payload in bytes: the largest that fits in an Ethernet frame.
const DATAGRAM: u32 = 1472;
/// Default request size in bytes, as in netperf's TCP_RR.
const REQUEST: u32 = 1;

/// Buffer sizes of the default sweep: automatic, then from 8 KiB, half the default of the systems
/// in AN2581, up to 208 KiB, the default of net.core.wmem_max.
const BUFFERS: [Option<u32>; 7] = [
    None,
    Some(8 << 10),
    Some(16 << 10),
    Some(32 << 10),
    Some(64 << 10),
    Some(128 << 10),
    Some(208 << 10),
];
/// TCP message sizes of the default sweep, in bytes, in addition to the default size.
const MESSAGES: [u32; 3] = [128, 1 << 10, 8 << 10];
/// Datagram payloads of the default sweep, in bytes, in addition to the default payload.
const DATAGRAMS: [u32; 2] = [64, 8 << 10];

/// Returns the default message size of a mode, in bytes.
pub(crate) fn default_message(mode: StreamMode) -> u32 {
    match mode {
        StreamMode::Tcp => STREAM_MESSAGE,
        StreamMode::Udp => DATAGRAM,
        StreamMode::Request => REQUEST,
    }
}

/// Returns the points of a sweep. If `buffers` and `messages` are both empty, it first varies the
/// buffer size at the default message size, then the message size with automatic buffers.
/// Otherwise, it combines each buffer size with each message size; an empty list means the default.
pub fn sweep(
    mode: StreamMode,
    buffers: &[Option<u32>],
    messages: &[u32],
    connections: &[u32],
) -> Vec<Point> {
    let usual = default_message(mode);
    let point = |buffer: Option<u32>, message, connections| Point {
        send_buffer: buffer,
        receive_buffer: buffer,
        message,
        connections,
    };
    let is_default = buffers.is_empty() && messages.is_empty();
    let connections = if connections.is_empty() { &[1] } else { connections };
    let mut pairs: Vec<(Option<u32>, u32)> = Vec::new();
    match (is_default, mode) {
        (true, StreamMode::Request) => pairs.push((None, usual)),
        (true, _) => {
            let others: &[u32] = if mode == StreamMode::Udp { &DATAGRAMS } else { &MESSAGES };
            pairs.extend(BUFFERS.map(|buffer| (buffer, usual)));
            pairs.extend(others.iter().map(|message| (None, *message)));
        }
        (false, _) => {
            let buffers = if buffers.is_empty() { &[None] } else { buffers };
            let messages = if messages.is_empty() { &[usual] } else { messages };
            pairs.extend(buffers.iter().flat_map(|b| messages.iter().map(|m| (*b, *m))));
        }
    }
    let all = connections.iter().flat_map(|n| pairs.iter().map(move |(b, m)| point(*b, *m, *n)));
    all.collect()
}

impl Request {
    /// Returns the methods to compare; empty unless `compare` is set.
    pub(crate) fn methods(&self) -> &'static [Method] {
        if self.compare { METHODS } else { &[] }
    }

    /// Returns the number of tests per round: one of each point and of each method.
    fn tests(&self) -> u64 {
        (self.points.len() + self.methods().len()) as u64
    }

    /// Returns the number of visits: the tests of all rounds.
    pub(crate) fn visits(&self) -> u64 {
        self.tests().saturating_mul(self.rounds)
    }

    /// Returns the measurement time of one visit.
    pub(crate) fn visit(&self) -> Duration {
        self.time.div_f64(self.visits().max(1) as f64)
    }

    /// Returns the number of tests in which functions are sampled, one of each method, and the
    /// measurement time of one such test.
    pub(crate) fn sampled(&self) -> (u64, Duration) {
        (self.methods().len() as u64, SAMPLED)
    }

    /// Returns the test of a point.
    pub(crate) fn test(&self, point: &Point) -> Test {
        Test {
            mode: self.mode,
            is_server_sender: self.reverse && self.mode != StreamMode::Request,
            way: Way::Plain,
            send_buffer: point.send_buffer,
            receive_buffer: point.receive_buffer,
            message: point.message,
            connections: point.connections,
            warm_up: WARM_UP,
            measured: self.visit(),
            nodelay: self.nodelay,
            rate_bits_per_s: self.rate_bits_per_s,
            write_pause: self.write_pause,
            read_pause: self.read_pause,
            writes: self.writes.min(point.message),
            server_cpu: self.cpus.map(|[_, server]| server),
            is_sampled: false,
        }
    }

    /// Checks the time of the tests, and the limits that the server enforces, so that violations
    /// are reported before anything runs.
    pub(crate) fn check(&self) -> Result<(), StreamError> {
        self.check_time()?;
        let excess = self.points.iter().find_map(|point| self.test(point).excess());
        excess.map_or(Ok(()), |what| Err(StreamError::Invalid { what }))
    }

    /// Checks that each test gets enough time, and not too much, of the total.
    fn check_time(&self) -> Result<(), StreamError> {
        let invalid = |what: String| Err(StreamError::Invalid { what });
        const LEAST: Duration = Duration::from_millis(20);
        if self.points.is_empty() || self.visit() < LEAST {
            return invalid(format!(
                "{} tests in each of {} rounds get only {:.0} ms each if all rounds together take \
                 {:.1} s; a test needs at least {} ms: increase --time or measure fewer points",
                self.tests(),
                self.rounds,
                self.visit().as_secs_f64() * 1e3,
                self.time.as_secs_f64(),
                LEAST.as_millis(),
            ));
        }
        // A side looks at its clock between pauses. Its window would otherwise open and close long
        // before or after that of the other side, or between two messages.
        let pause = self.write_pause.max(self.read_pause);
        if pause > self.visit() / 10 {
            return invalid(format!(
                "a pause of {:.1} ms is longer than a tenth of a test ({:.0} ms): increase --time, \
                 or decrease --write-pause and --read-pause",
                pause.as_secs_f64() * 1e3,
                self.visit().as_secs_f64() * 1e3,
            ));
        }
        if self.visit() > MAX_TIME {
            return invalid(format!(
                "{} tests in each of {} rounds take {:.0} s each if all rounds together take {:.1} \
                 s; a server measures for at most {} s per test: decrease --time or increase \
                 --rounds",
                self.tests(),
                self.rounds,
                self.visit().as_secs_f64(),
                self.time.as_secs_f64(),
                MAX_TIME.as_secs(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_combined_and_their_absence_is_a_star() {
        let all = sweep(StreamMode::Tcp, &[], &[], &[]);
        assert_eq!(all.len(), BUFFERS.len() + MESSAGES.len());
        assert_eq!((all[0].send_buffer, all[0].message), (None, STREAM_MESSAGE));
        let some = sweep(StreamMode::Tcp, &[None, Some(4096)], &[1, 2, 3], &[1, 2]);
        assert_eq!(some.len(), 12);
        assert_eq!(some[11].connections, 2);
        assert_eq!(sweep(StreamMode::Request, &[], &[], &[]).len(), 1);
        assert_eq!(sweep(StreamMode::Udp, &[Some(9)], &[], &[])[0].message, DATAGRAM);
    }

    fn request(time: Duration) -> Request {
        Request {
            mode: StreamMode::Request,
            points: sweep(StreamMode::Request, &[], &[], &[]),
            time,
            rounds: 3,
            seed: 1,
            reverse: false,
            nodelay: false,
            rate_bits_per_s: None,
            write_pause: Duration::ZERO,
            read_pause: Duration::ZERO,
            writes: 1,
            cpus: None,
            compare: false,
            is_copy: |_, _| false,
        }
    }

    #[test]
    fn compared_methods_share_the_time_with_the_points() {
        let alone = request(Duration::from_secs(60));
        let compared = Request { compare: true, ..alone.clone() };
        assert_eq!((alone.visits(), alone.visit()), (3, Duration::from_secs(20)));
        assert_eq!(compared.visits(), 3 * (1 + METHODS.len() as u64));
        assert_eq!(compared.visit() * compared.visits() as u32, compared.time);
    }

    #[test]
    fn pauses_are_short_in_comparison_to_visits() {
        let usual = request(Duration::from_secs(1));
        let pause = Duration::from_millis(33);
        assert!(Request { read_pause: pause, ..usual.clone() }.check().is_ok());
        let pause = Duration::from_millis(34);
        let slow = [
            Request { write_pause: pause, ..usual.clone() },
            Request { read_pause: pause, ..usual },
        ];
        for request in slow {
            let error = request.check().unwrap_err().to_string();
            assert!(error.contains("34.0 ms") && error.contains("--time"), "{error}");
        }
    }

    #[test]
    fn limits_of_the_server_are_checked_before_anything_runs() {
        let usual = request(Duration::from_secs(1));
        let point = usual.points[0];
        let of = |point: Point| Request { points: vec![usual.points[0], point], ..usual.clone() };
        for (bad, reason) in [
            (of(Point { message: 0, ..point }), "message size of 0 bytes"),
            (of(Point { connections: 65, ..point }), "number of connections 65"),
            (of(Point { receive_buffer: Some(u32::MAX), ..point }), "buffer size of 4294967295"),
            (Request { rate_bits_per_s: Some(0), ..usual.clone() }, "rate of 0 b/s"),
        ] {
            let error = bad.check().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn visits_have_a_shortest_and_a_longest_time() {
        let longest = 3 * MAX_TIME;
        assert!(request(longest).check().is_ok());
        let error = |request: Request| request.check().unwrap_err().to_string();
        let long = error(request(longest + Duration::from_secs(3)));
        assert!(long.contains("61 s each") && long.contains("--rounds"), "{long}");
        let short = Request { compare: true, ..request(Duration::from_millis(90)) };
        assert!(error(short).contains("10 tests in each of 3 rounds"));
        assert!(request(Duration::from_millis(90)).check().is_ok());
    }
}
