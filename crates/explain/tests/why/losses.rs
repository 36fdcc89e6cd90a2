// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lost segments of requests and replies, and emulated networks.

use crate::connections::{assert_first, first, idle_sender};
use linerate_record::why::Cause::{RateLimiter, TcpLoss};
use linerate_record::why::TcpCounts;

#[test]
fn lost_replies_hold_up_clients_that_wait_for_each() {
    // As many small requests and replies each way as segments.
    let server = |lost: u64, busy_s: f64| {
        let tcp = TcpCounts {
            busy_s,
            retransmitted: lost,
            needless: Some(0),
            app_limited_share: 1.0,
            ..TcpCounts::default()
        };
        let mut seen = idle_sender(50_000, tcp);
        let counts = seen.sockets[0].tcp.as_mut().unwrap();
        (counts.bytes_received, counts.segments_in) = (40_000, 1_000);
        (counts.segments_out, counts.data_segments_in) = (1_000, Some(1_000));
        seen
    };
    let finding = assert_first(&server(20, 4.2), TcpLoss);
    assert!(finding.sentence.contains("2 % of all segments"), "{}", finding.sentence);
    // Repaired sooner than by a timeout, or hardly any data was unacknowledged.
    assert_ne!(first(&server(200, 4.2)).cause, TcpLoss);
    assert_ne!(first(&server(20, 0.5)).cause, TcpLoss);
}

#[test]
fn the_rate_of_an_emulated_network_is_a_limit() {
    let mut seen = crate::seeds::rate_limiter();
    let qdisc = &mut seen.interfaces[0].qdiscs[0];
    (qdisc.kind, qdisc.overlimits) = ("netem".to_owned(), 0);
    assert_ne!(first(&seen).cause, RateLimiter);
    seen.interfaces[0].qdiscs[0].queued_packets = 900;
    assert!(assert_first(&seen, RateLimiter).sentence.contains("The netem qdisc on"));
}
