// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the gzip format (RFC 1952) with stored (uncompressed) blocks (RFC 1951, 3.2.4). pprof
//! readers expect gzip, and per-function profiles are small enough without compression.

/// Wraps `bytes` as a gzip file.
pub(super) fn stored(bytes: &[u8]) -> Vec<u8> {
    // Magic, deflate, no flags, no time, no extra flags, unknown OS.
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let blocks: Vec<&[u8]> = match bytes.is_empty() {
        true => vec![bytes],
        false => bytes.chunks(usize::from(u16::MAX)).collect(),
    };
    for (at, block) in blocks.iter().enumerate() {
        file.push(u8::from(at + 1 == blocks.len()));
        let length = block.len() as u16;
        file.extend(length.to_le_bytes());
        file.extend((!length).to_le_bytes());
        file.extend(*block);
    }
    file.extend(crc32(bytes).to_le_bytes());
    file.extend((bytes.len() as u32).to_le_bytes());
    file
}

/// Returns the CRC-32 (RFC 1952, section 8), computed bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc: u32, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_sequence_is_the_published_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn long_contents_take_several_blocks() {
        let file = stored(&vec![7; 70_000]);
        assert_eq!(file.len(), 10 + 2 * 5 + 70_000 + 8);
        assert_eq!((file[10], file[10 + 5 + 65_535]), (0, 1));
        assert_eq!(stored(b"")[10..15], [1, 0, 0, 0xff, 0xff]);
    }
}
