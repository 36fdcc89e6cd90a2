// SPDX-License-Identifier: MIT OR Apache-2.0
//! The methods of sending and receiving that are compared with plain calls.

use crate::protocol::{Test, Way};
use linerate_record::stream::StreamMode;

/// A method, and the plain method that it is compared with.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) plain: &'static str,
    pub(crate) mode: StreamMode,
    way: Way,
    pub(crate) message: u32,
}

/// Size of TCP messages in bytes: large, so that the copy dominates the cost.
const LARGE: u32 = 128 << 10;
/// Payload of UDP datagrams in bytes: fits in a frame, so that the system call dominates the cost.
const FRAME: u32 = 1472;

const fn tcp(name: &'static str, way: Way) -> Method {
    Method { name, plain: "send", mode: StreamMode::Tcp, way, message: LARGE }
}

const fn udp(name: &'static str, way: Way) -> Method {
    Method { name, plain: "udp_send", mode: StreamMode::Udp, way, message: FRAME }
}

/// All methods. Each plain one comes before the methods that are compared with it.
pub(crate) const METHODS: &[Method] = &[
    tcp("send", Way::Plain),
    tcp("sendfile", Way::SendFile),
    tcp("zerocopy", Way::ZeroCopy),
    tcp("io_uring", Way::Ring),
    udp("udp_send", Way::Plain),
    udp("mmsg", Way::Batches),
    udp("udp_io_uring", Way::Ring),
    udp("gso", Way::Segment),
    udp("gso_gro", Way::SegmentAndGro),
];

impl Method {
    /// Returns the test for this method, with the durations and CPUs of `like`.
    pub(crate) fn test(&self, like: Test) -> Test {
        Test {
            mode: self.mode,
            way: self.way,
            message: self.message,
            connections: 1,
            send_buffer: None,
            // The automatic size: with a smaller one, a UDP receiver loses most datagrams as soon
            // as it is descheduled.
            receive_buffer: None,
            rate_bits_per_s: None,
            writes: 1,
            ..like
        }
    }
}
