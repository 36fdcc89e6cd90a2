// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ttl`: TODO: describe it.
//!
//! This is a template: replace the TTL code and its tests with your own. The template decrements
//! the TTL of IPv4 packets and corrects the header checksum, as a router does (RFC 1812, 5.3.1;
//! RFC 1624 for the checksum). It drops packets that are not IPv4, and those whose TTL is below
//! `min_ttl`.

#![forbid(unsafe_code)]

use linerate_stage_api::params::{Params, Reader};
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{
    BuildContext, BuildError, Burst, Extension, Packet, Stage, StageContext, StageKind, causes,
};

/// The kinds of stage that this crate adds to linerate.
pub static EXTENSION: Extension = Extension { stages: &[KIND], sources: &[] };

const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "ttl",
        help: "TODO: describe it (template: decrements the TTL of IPv4 packets).",
        params: &[ParamSpec {
            name: "min_ttl",
            kind: ParamKind::Integer { min: 1, max: 255 },
            default: Default::Integer(2),
            help: "Smallest TTL that is forwarded.",
        }],
        // True if the stage reads packet.meta().layers, which the stage `parse` fills.
        needs_headers: false,
        // State that the stage keeps between packets: None, PerFlow or Global. It decides whether
        // linerate may run replicas of the stage.
        state: State::None,
        keeps_order: true,
        drop_causes: CAUSES,
    },
    build,
);

causes! {
    /// The frame has no complete IPv4 header.
    NotIpv4 = "not_ipv4",
    /// The TTL is below `min_ttl`.
    Expired = "ttl_expired",
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Offset of the TTL in the frame.
const TTL: usize = ETHERNET + 8;
/// Offset of the header checksum in the frame.
const CHECKSUM: usize = ETHERNET + 10;

struct TtlStage {
    min: u8,
    forwarded: u64,
}

/// Builds one worker's stage. The checker has verified that parameters are present and in range.
fn build(params: &Params, _: &BuildContext) -> Result<Box<dyn Stage>, BuildError> {
    Ok(Box::new(TtlStage { min: Reader(params).integer("min_ttl")?, forwarded: 0 }))
}

impl TtlStage {
    fn forward(&mut self, packet: &mut Packet<'_>) -> Result<(), Cause> {
        let frame = packet.bytes_mut();
        if frame.len() < ETHERNET + 20 || frame[12..15] != [0x08, 0x00, 0x45] {
            return Err(Cause::NotIpv4);
        }
        if frame[TTL] < self.min {
            return Err(Cause::Expired);
        }
        frame[TTL] -= 1;
        // The checksum is the complement of a sum in which the TTL is the upper byte of a word.
        let checksum = u16::from_be_bytes([frame[CHECKSUM], frame[CHECKSUM + 1]]);
        let (sum, carry) = checksum.overflowing_add(0x0100);
        frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
        self.forwarded += 1;
        Ok(())
    }
}

impl Stage for TtlStage {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| Cause::judge(self.forward(packet)));
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("forwarded", self.forwarded)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_stage_api::testing::Pool;

    /// Returns the one's complement sum of the IPv4 header: 0xffff if its checksum is correct.
    fn sum(frame: &[u8]) -> u16 {
        let words = frame[ETHERNET..ETHERNET + 20].chunks(2);
        let sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
        (sum % 0xffff) as u16
    }

    /// Returns a frame with this TTL and a correct checksum.
    fn frame(ttl: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[TTL] = ttl;
        let checksum = !sum(&frame);
        frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
        frame
    }

    // TODO: test your stage instead; this test fails for any other than the template.
    #[test]
    fn the_ttl_is_decremented_and_the_checksum_stays_right() {
        for ttl in 1..=255 {
            let mut pool = Pool::new(1, 64);
            let mut burst = Burst::new();
            for mut packet in pool.packets(0) {
                assert!(packet.fill(&frame(ttl)));
                burst.push(packet);
            }
            let mut context = StageContext::default();
            TtlStage { min: 2, forwarded: 0 }.process(&mut burst, &mut context);
            match burst.iter().next() {
                Some(packet) => {
                    assert_eq!(packet.bytes()[TTL], ttl - 1);
                    assert_eq!(sum(packet.bytes()), 0, "{ttl}");
                }
                None => {
                    assert_eq!(ttl, 1);
                    assert_eq!(context.account.drops[Cause::Expired as usize].packets, 1);
                }
            }
        }
    }
}
