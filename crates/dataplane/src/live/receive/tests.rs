// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests when a queue queries the state of its ports, and what it counts at its end.

use super::*;
use crate::kernels::StageKernels;
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
    // The second and the third datagram, of 1200 and 100 bytes, each with 42 bytes of headers.
    let rest = Tally { packets: 2, bytes: 1200 + 100 + 2 * 42 };
    assert_eq!(queue.drops(), BTreeMap::from([("run_ended".to_owned(), rest)]));
}

#[test]
fn empty_polls_query_the_ports_at_a_fixed_interval() {
    let Ok(open) = Ports::none() else { return println!("SKIP: netlink may not be used here") };
    let mut queue = queue(&open);
    let mut stock = Stock::new(Vec::new(), Vec::new(), StageKernels::default());
    let mut poll = |queue: &mut LiveQueue<'_>| queue.poll(&mut stock, &mut Burst::new(), 32, 0);
    // The queue has no port, so it is finished as soon as it queries their state.
    let finished = (0..2 * IDLE_POLLS).filter(|_| poll(&mut queue) == Poll::Finished);
    let finished: Vec<u32> = finished.collect();
    assert_eq!(finished, [IDLE_POLLS - 1, 2 * IDLE_POLLS - 1]);
    queue.query_soon();
    assert_eq!(poll(&mut queue), Poll::Finished);
}
