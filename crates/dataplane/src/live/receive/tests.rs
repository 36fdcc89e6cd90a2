// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests what a queue counts when it ends, and how often it asks whether its ports are gone.

use super::*;
use crate::live::segments::tests::coalesced;

fn queue(open: &Ports) -> LiveQueue<'_> {
    let rules =
        Rules { buffer_bytes: 2048, cuts: true, steers: Vec::new(), limit: None, queue: [0, 1] };
    LiveQueue::new(open, Vec::new(), rules)
}

#[test]
fn segments_that_were_not_delivered_are_dropped_by_name() {
    let Ok(open) = Ports::none() else { return println!("SKIP: netlink may not be used here") };
    let mut queue = queue(&open);
    assert_eq!(queue.segments.load(&coalesced(), None, 1200), Some(3));
    queue.segments.skip();
    queue.retire();
    // The second and the third datagram: 1200 and 100 bytes, each with 42 bytes of headers.
    let rest = Tally { packets: 2, bytes: 1200 + 100 + 2 * 42 };
    assert_eq!(queue.drops(), BTreeMap::from([("run_ended".to_owned(), rest)]));
}
