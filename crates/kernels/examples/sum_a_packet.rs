// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds a UDP packet around a payload: copies and sums the payload in one pass, then writes both
//! checksums.
//!
//! Run it with `cargo run -p linerate-kernels --example sum_a_packet`.

use linerate_kernels::{Kernel, Kernels, Sum, checksum, copy_checksum};

const IP: usize = 20;
const UDP: usize = 8;

fn main() {
    let payload = b"sum me while you move me";
    let segment = (UDP + payload.len()) as u16;
    let mut packet = vec![0; IP + UDP + payload.len()];
    let (ip, rest) = packet.split_at_mut(IP);
    let (udp, room) = rest.split_at_mut(UDP);

    let sum = copy_checksum(room, payload, Sum::ZERO);

    udp[..2].copy_from_slice(&4242u16.to_be_bytes());
    udp[2..4].copy_from_slice(&53u16.to_be_bytes());
    udp[4..6].copy_from_slice(&segment.to_be_bytes());
    let addresses = [192, 0, 2, 1, 198, 51, 100, 7];
    let sum = checksum::header(udp, sum) + checksum::pseudo_ipv4(&addresses, 17, segment);
    udp[6..].copy_from_slice(&sum.finish_udp().to_be_bytes());

    ip[..2].copy_from_slice(&[0x45, 0]);
    ip[2..4].copy_from_slice(&(IP as u16 + segment).to_be_bytes());
    ip[8..10].copy_from_slice(&[64, 17]);
    ip[12..].copy_from_slice(&addresses);
    let sum = checksum::header(ip, Sum::ZERO);
    ip[10..12].copy_from_slice(&sum.finish().to_be_bytes());

    let selected = Kernels::selected();
    println!("copied and summed by {}", selected.origin(Kernel::CopyChecksum));
    println!("{packet:02x?}");
}
