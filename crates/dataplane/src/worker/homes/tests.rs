// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that each buffer returns to its own queue.

use super::*;
use crate::pool::Pool;
use crate::ring::ring;

#[test]
fn buffers_return_to_their_own_queues_in_order() {
    for queues in [1_usize, 3] {
        let mut pools: Vec<Pool> = (0..queues).map(|_| Pool::new(8, 64)).collect();
        let mut own: Vec<Vec<Packet<'_>>> =
            (0..).zip(&mut pools).map(|(q, p)| p.packets(q)).collect();
        let (mut homes, mut returns) = (Homes::default(), Vec::new());
        for _ in 0..queues {
            let (producer, consumer) = ring(8);
            homes.add(producer);
            returns.push(consumer);
        }
        // A burst with buffers of all queues in turn, then one with buffers of the last queue only.
        for take in [queues, 1] {
            let mut released = Vec::new();
            for round in 0..3_u8 {
                for queue in own.iter_mut().rev().take(take) {
                    let mut packet = queue.pop().unwrap();
                    assert!(packet.fill(&[round]));
                    released.push(packet);
                }
            }
            homes.give_back(&mut released);
            assert!(released.is_empty());
            for (queue, (returned, own)) in returns.iter_mut().zip(&mut own).enumerate() {
                let expected = if queue >= queues - take { 3 } else { 0 };
                for round in 0..expected {
                    let packet = returned.pop().expect("three buffers per queue");
                    assert_eq!((packet.home(), packet.bytes()), (queue, &[round][..]));
                    own.insert(0, packet);
                }
                assert!(returned.pop().is_none());
            }
        }
    }
}
