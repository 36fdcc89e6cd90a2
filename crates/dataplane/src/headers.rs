// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the network header of a frame begins: the same for buckets and for the repair of captures.

pub(crate) const ETHERNET_BYTES: usize = 14;
pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherTypes of VLAN tags: IEEE 802.1Q, 802.1ad, and the pre-standard EtherType for 802.1ad.
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const VLAN_TAGS: usize = 4;
const TAG_BYTES: usize = 4;

/// Returns the big-endian number at offset `at`; `None` if it is truncated.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the offset of the network header, after up to four VLAN tags, and its EtherType; `None`
/// if the frame is truncated before it.
pub(crate) fn network_layer(frame: &[u8]) -> Option<(usize, u16)> {
    let mut l3 = ETHERNET_BYTES;
    let mut ethertype = be16(frame, l3 - 2)?;
    for _ in 0..VLAN_TAGS {
        if !ETHERTYPES_VLAN.contains(&ethertype) {
            break;
        }
        l3 += TAG_BYTES;
        ethertype = be16(frame, l3 - 2)?;
    }
    Some((l3, ethertype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_four_tags_are_skipped() {
        let frame = |tags: &[u16]| {
            let mut frame = vec![0; 12];
            for tag in tags {
                frame.extend(tag.to_be_bytes());
                frame.extend([0, 5]);
            }
            frame.extend([0x86, 0xdd]);
            frame
        };
        let (tag, service, old) = (0x8100, 0x88a8, 0x9100);
        for tags in [&[][..], &[tag], &[service, tag], &[old, old, tag], &[tag; 4]] {
            let frame = frame(tags);
            let l3 = ETHERNET_BYTES + tags.len() * TAG_BYTES;
            assert_eq!(network_layer(&frame), Some((l3, ETHERTYPE_IPV6)), "{tags:x?}");
            assert_eq!(network_layer(&frame[..frame.len() - 1]), None, "{tags:x?}");
        }
        assert_eq!(network_layer(&frame(&[tag; 5])), Some((30, tag)));
    }
}
