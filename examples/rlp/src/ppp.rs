// SPDX-License-Identifier: MIT OR Apache-2.0
//! PPP in HDLC-like framing (RFC 1662), octet-stuffed, with FCS-16: the format of an A10 stream
//! that carries packets.
//!
//! ```text
//!  7e | ff 03 | protocol | packet ... | FCS, low byte first | 7e
//!      \_______________ 7d and 7e escaped ______________/
//! ```
//!
//! Negotiation is not implemented. Address and control fields are always present, and no character
//! below 0x20 is escaped (async control character map of zero). Frames are not decoded here; only a
//! terminal would do that.

/// Frame delimiter; any number of flags may separate two frames (RFC 1662, 4.4.1).
pub const FLAG: u8 = 0x7e;
const ESCAPE: u8 = 0x7d;

/// PPP protocol number of IPv4 (RFC 1332).
pub const PROTOCOL_IPV4: u16 = 0x0021;
/// PPP protocol number of IPv6 (RFC 5072).
pub const PROTOCOL_IPV6: u16 = 0x0057;

/// CRC table: each byte's remainder modulo x^16 + x^12 + x^5 + 1, bits reflected (RFC 1662, C.2).
const REMAINDERS: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            let carry = if remainder & 1 == 1 { 0x8408 } else { 0 };
            remainder = remainder >> 1 ^ carry;
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
};

/// Computes the frame check sequence (FCS-16) of `bytes`.
pub fn check_sequence(bytes: impl IntoIterator<Item = u8>) -> u16 {
    let step = |sum: u16, byte: u8| sum >> 8 ^ REMAINDERS[usize::from(sum as u8 ^ byte)];
    !bytes.into_iter().fold(u16::MAX, step)
}

/// Appends a packet's PPP frame to `stream`, with a flag at either end.
pub fn push_frame(protocol: u16, packet: &[u8], stream: &mut Vec<u8>) {
    let [high, low] = protocol.to_be_bytes();
    let head = [0xff, 0x03, high, low];
    let sum = check_sequence(head.iter().chain(packet).copied()).to_le_bytes();
    stream.push(FLAG);
    for byte in head.iter().chain(packet).chain(&sum).copied() {
        if byte == FLAG || byte == ESCAPE {
            stream.extend([ESCAPE, byte ^ 0x20]);
        } else {
            stream.push(byte);
        }
    }
    stream.push(FLAG);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes the check sequence bit by bit, as defined in RFC 1662, C.1.
    fn slow(bytes: &[u8]) -> u16 {
        let mut sum = u16::MAX;
        for byte in bytes {
            for bit in 0..8 {
                let carry = (sum ^ u16::from(*byte) >> bit) & 1 == 1;
                sum = sum >> 1 ^ if carry { 0x8408 } else { 0 };
            }
        }
        !sum
    }

    /// Returns the unescaped frame contents between the flags.
    fn read(stream: &[u8]) -> Vec<Vec<u8>> {
        let frames = stream.split(|byte| *byte == FLAG).filter(|frame| !frame.is_empty());
        let undo = |frame: &[u8]| {
            let mut bytes = frame.iter();
            let mut read = Vec::new();
            while let Some(byte) = bytes.next() {
                let escaped = (*byte == ESCAPE).then(|| bytes.next().map(|next| next ^ 0x20));
                read.push(escaped.flatten().unwrap_or(*byte));
            }
            read
        };
        frames.map(undo).collect()
    }

    #[test]
    fn the_check_sequence_has_its_published_value() {
        // CRC-16/X-25 check value for "123456789", and the remainder of a frame that includes its
        // sequence (RFC 1662, C.2).
        assert_eq!(check_sequence(*b"123456789"), 0x906e);
        assert_eq!(check_sequence(b"123456789\x6e\x90".iter().copied()), !0xf0b8);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn frames_read_back(packets in prop::collection::vec(
            prop::collection::vec(prop_oneof![Just(FLAG), Just(ESCAPE), any::<u8>()], 0..80), 0..4,
        )) {
            let mut stream = Vec::new();
            packets.iter().for_each(|packet| push_frame(PROTOCOL_IPV6, packet, &mut stream));
            let frames = read(&stream);
            prop_assert_eq!(frames.len(), packets.len());
            for (frame, packet) in frames.iter().zip(&packets) {
                let (body, sum) = frame.split_at(frame.len() - 2);
                prop_assert_eq!(&body[..4], [0xff, 0x03, 0x00, 0x57]);
                prop_assert_eq!(&body[4..], &packet[..]);
                prop_assert_eq!(slow(body).to_le_bytes(), sum);
            }
        }
    }
}
