// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encodes the subset of Protocol Buffers that pprof uses: numbers, strings, messages and packed
//! lists of numbers (protobuf.dev/programming-guides/encoding).

/// A message under construction.
#[derive(Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

/// Wire type of numbers.
const VARINT: u32 = 0;
/// Wire type of strings, messages and packed lists, whose length precedes them.
const LENGTH: u32 = 2;

impl Message {
    /// Adds a number. 0 is the default value and is therefore omitted.
    pub(super) fn number(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.tag(field, VARINT);
            self.varint(number);
        }
    }

    pub(super) fn numbers(&mut self, field: u32, numbers: &[u64]) {
        let mut packed = Self::default();
        numbers.iter().for_each(|number| packed.varint(*number));
        self.block(field, &packed.bytes);
    }

    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.block(field, text.as_bytes());
    }

    pub(super) fn message(&mut self, field: u32, message: &Self) {
        self.block(field, &message.bytes);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn block(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.bytes.extend(bytes);
    }

    fn tag(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    /// Encodes a varint: seven bits per byte, lowest first; all bytes but the last have the highest
    /// bit set.
    fn varint(&mut self, mut number: u64) {
        while number > 0x7f {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples from the Protocol Buffers specification.
    #[test]
    fn fields_are_written_as_specified() {
        let mut message = Message::default();
        message.number(1, 150);
        message.number(9, 0);
        assert_eq!(message.bytes, [0x08, 0x96, 0x01]);
        let mut outer = Message::default();
        outer.text(2, "testing");
        outer.message(3, &message);
        let text = [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67];
        assert_eq!(outer.bytes, [&text[..], &[0x1a, 0x03, 0x08, 0x96, 0x01]].concat());
        let mut packed = Message::default();
        packed.numbers(6, &[3, 270, 86942]);
        assert_eq!(packed.bytes, [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        let mut most = Message::default();
        most.varint(u64::MAX);
        assert_eq!(most.bytes.len(), 10);
    }
}
