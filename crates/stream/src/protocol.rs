// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages between client and server, and the limits that a server enforces.

use crate::account::Account;
use linerate_record::stream::StreamMode;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Protocol version, which must be the same at both ends.
pub const VERSION: u32 = 3;

/// Default port of a server; not assigned by IANA.
pub const PORT: u16 = 5210;

/// Maximum message size on a TCP stream, in bytes.
pub const MAX_MESSAGE: u32 = 4 << 20;
/// Maximum UDP payload over IPv4, in bytes.
pub const MAX_DATAGRAM: u32 = 65_507;
/// Maximum number of connections of a test.
pub const MAX_CONNECTIONS: u32 = 64;
/// Maximum socket buffer size that may be requested, in bytes.
pub const MAX_BUFFER: u32 = 64 << 20;
/// Minimum rate of a connection in bits per second: one byte per second, the unit of
/// SO_MAX_PACING_RATE.
pub const MIN_RATE: u64 = 8;
/// Maximum duration of either phase of a test: the warm-up or the measurement.
pub const MAX_TIME: Duration = Duration::from_secs(60);
/// Maximum pause of either side after a call.
pub const MAX_PAUSE: Duration = Duration::from_secs(1);

/// First message of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Version of the protocol.
    pub(crate) linerate_stream: u32,
    pub(crate) token: Option<String>,
}

/// Further messages of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    Test(Test),
    /// The client has sent everything.
    Sent,
}

/// Messages of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Welcome,
    Refused {
        reason: String,
    },
    /// The ports to connect to, and the nonce to send there.
    Ready {
        ports: Vec<u16>,
        nonce: u64,
    },
    /// All connections are established; the test begins.
    Started,
    /// Counts from the server's side of the test.
    Account(Box<Account>),
    Failed {
        reason: String,
    },
}

/// How bytes are sent and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// send(2) and recv(2).
    Plain,
    SendFile,
    ZeroCopy,
    /// sendmmsg and recvmmsg.
    Batches,
    /// io_uring at the sender.
    Ring,
    /// UDP_SEGMENT at the sender.
    Segment,
    /// UDP_SEGMENT at the sender, UDP_GRO at the receiver.
    SegmentAndGro,
}

/// Parameters of one measurement at a point of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Test {
    pub(crate) mode: StreamMode,
    pub(crate) is_server_sender: bool,
    pub(crate) way: Way,
    pub(crate) send_buffer: Option<u32>,
    pub(crate) receive_buffer: Option<u32>,
    pub(crate) message: u32,
    pub(crate) connections: u32,
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
    pub(crate) nodelay: bool,
    pub(crate) rate_bits_per_s: Option<u64>,
    pub(crate) write_pause: Duration,
    pub(crate) read_pause: Duration,
    pub(crate) writes: u32,
    /// CPU to which the server's threads are pinned.
    pub(crate) server_cpu: Option<u32>,
    /// Whether both sides sample the functions of their threads.
    #[serde(default)]
    pub(crate) is_sampled: bool,
}

impl Test {
    /// Describes the first limit that the test exceeds, if any.
    pub(crate) fn excess(&self) -> Option<String> {
        let most = if self.mode == StreamMode::Udp { MAX_DATAGRAM } else { MAX_MESSAGE };
        let buffers = [self.send_buffer, self.receive_buffer];
        let buffer = buffers.into_iter().flatten().max().unwrap_or(0);
        let pause = self.write_pause.max(self.read_pause);
        if !(1..=most).contains(&self.message) {
            return Some(format!(
                "invalid message size of {} bytes: must be 1 to {most}",
                self.message
            ));
        }
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            return Some(format!(
                "invalid number of connections {}: must be 1 to {MAX_CONNECTIONS}",
                self.connections
            ));
        }
        if buffer > MAX_BUFFER {
            return Some(format!(
                "invalid buffer size of {buffer} bytes: must be at most {MAX_BUFFER}"
            ));
        }
        if let Some(rate) = self.rate_bits_per_s.filter(|rate| *rate < MIN_RATE) {
            return Some(format!("invalid rate of {rate} b/s: must be at least {MIN_RATE}"));
        }
        if self.warm_up > MAX_TIME || self.measured > MAX_TIME {
            let most = MAX_TIME.as_secs();
            return Some(format!("the warm-up or the measurement is longer than {most} s"));
        }
        (pause > MAX_PAUSE || self.writes == 0 || self.writes > self.message.max(1)).then(|| {
            "a pause is longer than 1 s, or the number of writes per message is 0 or greater than \
             the message size in bytes"
                .to_owned()
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn test() -> Test {
        Test {
            mode: StreamMode::Tcp,
            is_server_sender: false,
            way: Way::Plain,
            send_buffer: None,
            receive_buffer: None,
            message: 1000,
            connections: 1,
            warm_up: Duration::ZERO,
            measured: Duration::from_millis(100),
            nodelay: false,
            rate_bits_per_s: None,
            write_pause: Duration::ZERO,
            read_pause: Duration::ZERO,
            writes: 1,
            server_cpu: None,
            is_sampled: false,
        }
    }

    #[test]
    fn each_limit_is_enforced() {
        assert_eq!(test().excess(), None);
        assert_eq!(Test { rate_bits_per_s: Some(MIN_RATE), ..test() }.excess(), None);
        for bad in [
            Test { message: 0, ..test() },
            Test { message: MAX_MESSAGE + 1, ..test() },
            Test { mode: StreamMode::Udp, message: MAX_DATAGRAM + 1, ..test() },
            Test { connections: 0, ..test() },
            Test { connections: MAX_CONNECTIONS + 1, ..test() },
            Test { send_buffer: Some(MAX_BUFFER + 1), ..test() },
            Test { receive_buffer: Some(u32::MAX), ..test() },
            Test { rate_bits_per_s: Some(0), ..test() },
            Test { rate_bits_per_s: Some(MIN_RATE - 1), ..test() },
            Test { measured: MAX_TIME + Duration::from_nanos(1), ..test() },
            Test { warm_up: Duration::MAX, ..test() },
            Test { read_pause: Duration::from_secs(2), ..test() },
            Test { writes: 0, ..test() },
            Test { writes: 1001, ..test() },
        ] {
            assert!(bad.excess().is_some(), "{bad:?}");
        }
    }
}
