// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests when a queue queries the state of its ports, and what it counts when it stops.

use super::*;
use crate::kernels::StageKernels;
use crate::live::segments::tests::coalesced;
use crate::pool::Pool;
use linerate_linux::network::Network;
use linerate_linux::port::{PacketSender, open_tap};
use std::net::Ipv4Addr;

fn queue(open: &Ports) -> LiveQueue<'_> {
    let rules =
        Rules { buffer_bytes: 2048, cuts: true, steers: Vec::new(), limit: None, queue: [0, 1] };
    LiveQueue::new(open, Vec::new(), rules)
}

#[test]
fn segments_that_were_not_delivered_are_dropped_by_name() {
    let Ok(open) = Ports::none() else { return println!("SKIP: netlink is not permitted here") };
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
    let Ok(open) = Ports::none() else { return println!("SKIP: netlink is not permitted here") };
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

/// Returns a queue whose only port has received `frames` frames of 200 bytes each.
fn received(open: &Ports, frames: usize) -> Result<LiveQueue<'_>, linerate_linux::Error> {
    let name = "lrlong0";
    // The interface belongs to this thread's namespace, which ends with the thread.
    linerate_linux::enter_new_network()?;
    let queues = open_tap(name, 1)?;
    Network::own()?.bring_up(name, Ipv4Addr::new(10, 9, 8, 1), 24)?;
    let mut sender = PacketSender::open(name)?;
    let frame = [0xff; 200];
    for _ in 0..frames {
        assert_eq!(sender.send([&frame[..]].into_iter()).frames, 1);
    }
    let receivers = queues.into_iter().map(|(receiver, _)| Receiver::Tap(receiver)).collect();
    let rules =
        Rules { buffer_bytes: 64, cuts: true, steers: Vec::new(), limit: None, queue: [0, 1] };
    Ok(LiveQueue::new(open, receivers, rules))
}

/// The worker must notice the end of the run even if frames arrive faster than it drops them.
#[test]
fn a_poll_refuses_a_limited_number_of_frames_and_says_so() {
    let Ok(open) = Ports::none() else { return println!("SKIP: netlink is not permitted here") };
    let run = || {
        let mut queue = match received(&open, 100) {
            Ok(queue) => queue,
            Err(error) => return println!("SKIP: {error}"),
        };
        let mut pool = Pool::new(4, 64);
        let mut stock = Stock::new(pool.packets(0), Vec::new(), StageKernels::default());
        let mut poll = |queue: &mut LiveQueue<'_>| queue.poll(&mut stock, &mut Burst::new(), 32, 0);
        let long = |queue: &LiveQueue<'_>| queue.counts.drops[TOO_LONG].packets;
        assert_eq!((poll(&mut queue), long(&queue)), (Poll::Dropped, 32));
        // The kernel may send frames of its own, for example to announce an address.
        let rest = (0..8).map(|_| poll(&mut queue)).collect::<Vec<_>>();
        assert_eq!(rest[..2], [Poll::Dropped; 2]);
        assert_eq!(rest[7], Poll::Starved);
        assert!(long(&queue) >= 100, "{}", long(&queue));
    };
    std::thread::scope(|scope| scope.spawn(run).join().expect("no panic"));
}

#[test]
fn frames_without_a_timestamp_have_the_time_of_their_poll() {
    let frame = |time_ns| Received {
        bytes: &[0; 60],
        original_bytes: 60,
        time_ns,
        vlan: None,
        offload: Offload::default(),
    };
    let mut clock = Clock::default();
    let first = clock.time_ns(&frame(0));
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!((clock.time_ns(&frame(7)), clock.time_ns(&frame(0))), (7, first));
    assert!(Clock::default().time_ns(&frame(0)) >= first + 2_000_000);
}
