// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of frame storage and impairments.

use super::*;
use crate::lent::{Lender, Lent};
use std::cell::Cell;
use std::ffi::c_void;
use std::rc::Rc;

/// Returns a packet with correct checksums and some payload.
fn packet(pool: &mut Pool, payload: usize) -> Frame {
    let mut frame = pool.take(HEADER_BYTES + payload);
    let bytes = frame.bytes_mut();
    bytes.fill(0);
    bytes[..4].copy_from_slice(&[0x45, 0, 0, 0]);
    let total = (HEADER_BYTES + payload) as u16;
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes[9] = 6;
    bytes[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    bytes[32] = 0x50;
    bytes[HEADER_BYTES..].iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
    let (header, segment) = bytes.split_at_mut(20);
    let addresses = header[12..20].try_into().unwrap();
    let pseudo = checksum::pseudo_ipv4(addresses, 6, segment.len() as u16);
    let sum = checksum::partial(segment, pseudo).finish();
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    let sum = checksum::header(header, Sum::ZERO).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Sends `frames` frames in one direction, each numbered in its payload, and returns those that
/// arrive.
fn through(impairments: Impairments, frames: usize) -> (Vec<Vec<u8>>, Carried) {
    let mut wire = Wire::new(1500, impairments, true, 7);
    let mut arrived = Vec::new();
    for number in 0..frames {
        let port = wire.port(Side::Client);
        let frame = packet(port.pool, number % 1000);
        port.sent.push_back(frame);
    }
    for now in 0..100_000 {
        wire.carry(now);
        let port = wire.port(Side::Server);
        for frame in port.arrived.drain(..) {
            arrived.push(frame.bytes().to_vec());
            port.pool.put(frame);
        }
    }
    (arrived, wire.carried())
}

#[test]
fn a_plain_wire_keeps_order_and_bytes() {
    let (arrived, carried) = through(Impairments::default(), 900);
    let payloads: Vec<usize> = arrived.iter().map(|bytes| bytes.len() - 40).collect();
    assert_eq!(payloads, (0..900).collect::<Vec<_>>());
    assert_eq!(carried.frames, 900);
    assert!(arrived.iter().all(|bytes| sums_match(bytes)));
}

#[test]
fn each_impairment_does_what_it_counts() {
    let all = Impairments {
        loss: 0.1,
        reorder: 0.1,
        duplicate: 0.1,
        corrupt: 0.5,
        ..Impairments::default()
    };
    let (arrived, carried) = through(all, 5000);
    let Carried { lost, duplicated, corrupted, masked, reordered, .. } = carried;
    assert_eq!(arrived.len() as u64, 5000 + duplicated - lost - masked);
    let damaged = arrived.iter().filter(|bytes| !sums_match(bytes)).count() as u64;
    assert_eq!(damaged, corrupted);
    // Two bits in the same column cancel out if they flip in opposite directions.
    assert!(masked > 0 && masked < corrupted / 10, "{carried:?}");
    for (count, share) in [(lost, 0.1), (duplicated, 0.09), (reordered, 0.09)] {
        let expected = 5000.0 * share;
        assert!((count as f64 - expected).abs() < expected / 5.0, "{carried:?}");
    }
    assert_eq!(through(all, 5000), (arrived, carried), "the same seed gives the same corruption");
}

#[test]
fn frames_held_back_are_overtaken_and_nothing_else_happens() {
    let reorder = Impairments { reorder: 0.2, ..Impairments::default() };
    let (arrived, carried) = through(reorder, 900);
    let mut payloads: Vec<usize> = arrived.iter().map(|bytes| bytes.len() - 40).collect();
    assert!(!payloads.is_sorted() && carried.reordered > 0);
    payloads.sort_unstable();
    assert_eq!(payloads, (0..900).collect::<Vec<_>>());
}

#[test]
fn delay_and_rate_are_kept() {
    let slow = Impairments { delay: 1000, rate: Some(0.5), ..Impairments::default() };
    let mut wire = Wire::new(1500, slow, true, 1);
    for _ in 0..3 {
        let port = wire.port(Side::Client);
        let frame = packet(port.pool, 60);
        port.sent.push_back(frame);
    }
    wire.carry(10);
    let mut times = Vec::new();
    while let Some(at) = wire.next_arrival() {
        assert!(wire.port(Side::Server).arrived.is_empty());
        wire.carry(at);
        times.push(at);
        wire.port(Side::Server).arrived.clear();
    }
    // 100 bytes take 200 us each, one after the other.
    assert_eq!(times, [1210, 1410, 1610]);
}

#[test]
fn frames_without_payload_can_be_spared() {
    let only_data = Impairments { loss: 1.0, only_data: true, ..Impairments::default() };
    let (arrived, carried) = through(only_data, 2000);
    assert_eq!((arrived.len(), carried.lost), (2, 1998));
}

#[test]
fn the_last_segment_is_described() {
    let mut wire = Wire::new(1500, Impairments::default(), true, 1);
    wire.keep_last();
    assert!(wire.last().contains("no segment was sent"));
    let port = wire.port(Side::Client);
    let frame = packet(port.pool, 60);
    port.sent.push_back(frame);
    wire.carry(1);
    assert!(wire.last().contains("60 bytes, sequence number 0, checksum 0x"), "{}", wire.last());
}

/// Bytes to lend, and how often they are currently lent.
struct Shelf {
    bytes: [u8; 60],
    out: Cell<usize>,
}

impl Lender for Shelf {
    unsafe fn take_back(&self, _: NonNull<c_void>) {
        self.out.set(self.out.get() - 1);
    }
}

fn borrow(shelf: &Rc<Shelf>) -> Lent {
    shelf.out.set(shelf.out.get() + 1);
    // SAFETY: the bytes are not written, and the lender keeps the shelf alive.
    unsafe {
        Lent::new(
            Rc::clone(shelf) as Rc<dyn Lender>,
            NonNull::dangling(),
            NonNull::from(&shelf.bytes[..]),
        )
    }
}

#[test]
fn lent_bytes_are_read_in_place_and_given_back_once() {
    let shelf = Rc::new(Shelf { bytes: [7; 60], out: Cell::new(0) });
    let mut pool = Pool::new(100);
    let mut frame = pool.lend(borrow(&shelf));
    assert_eq!((frame.bytes().as_ptr(), frame.length()), (shelf.bytes.as_ptr(), 60));
    let (header, payload) = frame.pinned(40);
    assert_ne!(header.as_ptr().cast_const().cast(), shelf.bytes.as_ptr(), "headers are written");
    assert_eq!(payload.as_ptr().cast_const().cast(), shelf.bytes[40..].as_ptr());
    assert_eq!(shelf.out.get(), 1);
    frame.bytes_mut()[0] = 8;
    assert_eq!((frame.bytes()[0], frame.bytes()[1], shelf.out.get()), (8, 7, 0));
    pool.put(frame);
    let lent = pool.lend(borrow(&shelf));
    pool.put(lent);
    assert_eq!((shelf.out.get(), shelf.bytes), (0, [7; 60]));
}
