// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves packets between two rings on one thread, without any stage, as testpmd's io mode does with
//! two net_ring ports; `cargo xtask live` compares the two.
//!
//! ```text
//! ring 0 -> burst of up to 32 -> ring 1 -> burst of up to 32 -> ring 0 ...
//! ```
//!
//! Prints how many packets per second were moved from one ring to the other, measured over 1.5 s
//! after a warm-up of 0.5 s.
//!
//! `cargo run --release -p linerate-dataplane --example ring_io`

use linerate_dataplane::Packet;
use linerate_dataplane::pool::Pool;
use linerate_dataplane::ring::{Consumer, Producer, ring};
use std::time::{Duration, Instant};

/// Entries per ring, as in net_ring.
const CAPACITY: usize = 1024;

/// Packets per burst, and in each ring at the start, as with testpmd's `--tx-first`.
const BURST: usize = 32;

/// Buffer size in bytes, enough for the frames of a link with an MTU of 1500.
const BUFFER_BYTES: usize = 2048;

/// Rounds between two readings of the clock.
const ROUNDS: u32 = 10_000;

type Ring<'p> = (Producer<Packet<'p>>, Consumer<Packet<'p>>);

fn main() {
    let mut pool = Pool::new(2 * BURST, BUFFER_BYTES);
    let mut packets = pool.packets(0);
    let mut rings: [Ring<'_>; 2] = [ring(CAPACITY), ring(CAPACITY)];
    let mut burst = Vec::with_capacity(BURST);
    for (producer, _) in &mut rings {
        burst.extend(packets.drain(..BURST));
        producer.push_from(&mut burst);
    }
    spin(&mut rings, &mut burst, Duration::from_millis(500));
    let (moved, seconds) = spin(&mut rings, &mut burst, Duration::from_millis(1500));
    let held: usize = rings.iter().map(|(_, consumer)| consumer.len()).sum();
    assert_eq!((held, burst.len()), (2 * BURST, 0), "no packet is lost");
    println!("{:.0} packets/s", moved as f64 / seconds);
}

/// Moves packets for `time`. Returns the number of packets moved and the elapsed seconds.
fn spin<'p>(rings: &mut [Ring<'p>; 2], burst: &mut Vec<Packet<'p>>, time: Duration) -> (u64, f64) {
    let [first, second] = rings;
    let begun = Instant::now();
    let mut moved = 0;
    loop {
        for _ in 0..ROUNDS {
            moved += pass(&mut first.1, &mut second.0, burst);
            moved += pass(&mut second.1, &mut first.0, burst);
        }
        let passed = begun.elapsed();
        if passed >= time {
            return (moved, passed.as_secs_f64());
        }
    }
}

/// Moves a burst from one ring to the other, which has room for it. Returns the number of packets
/// moved.
#[inline]
fn pass<'p>(
    from: &mut Consumer<Packet<'p>>,
    to: &mut Producer<Packet<'p>>,
    burst: &mut Vec<Packet<'p>>,
) -> u64 {
    from.pop_into(burst, BURST);
    to.push_from(burst) as u64
}
