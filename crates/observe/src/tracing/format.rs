// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the fields of a tracepoint from its `format` file in tracefs.

use std::collections::BTreeMap;

/// Position and size of a field in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    offset: usize,
    bytes: usize,
    is_signed: bool,
}

impl Field {
    /// Returns the field as a number; 0 if the record is too short, or if the field does not have
    /// 1, 2, 4 or 8 bytes. Unsigned fields of 8 bytes are reinterpreted as signed.
    pub(super) fn number(self, record: &[u8]) -> i64 {
        let Some(bytes) = record.get(self.offset..self.offset + self.bytes) else {
            return 0;
        };
        match (bytes, self.is_signed) {
            (&[a], false) => i64::from(a),
            (&[a], true) => i64::from(i8::from_ne_bytes([a])),
            (&[a, b], false) => i64::from(u16::from_ne_bytes([a, b])),
            (&[a, b], true) => i64::from(i16::from_ne_bytes([a, b])),
            (&[a, b, c, d], false) => i64::from(u32::from_ne_bytes([a, b, c, d])),
            (&[a, b, c, d], true) => i64::from(i32::from_ne_bytes([a, b, c, d])),
            (&[a, b, c, d, e, f, g, h], _) => i64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            _ => 0,
        }
    }

    /// Returns the text in the field, up to the first NUL.
    pub(super) fn text(self, record: &[u8]) -> String {
        let bytes = record.get(self.offset..self.offset + self.bytes).unwrap_or_default();
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// The format of a tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Format {
    /// Tracepoint ID, which is the first field of each record.
    pub id: u64,
    fields: BTreeMap<String, Field>,
    /// Names of values, if listed in the print format: `{ 3, "NO_SOCKET" }`.
    pub names: BTreeMap<i64, String>,
}

/// Maximum field size. A longer field indicates a damaged line.
const MAX_BYTES: usize = 4096;

impl Format {
    pub(super) fn parse(text: &str) -> Self {
        let mut format = Self::default();
        for line in text.lines().map(str::trim) {
            if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().unwrap_or(0);
            } else if let Some((name, field)) = line.strip_prefix("field:").and_then(field) {
                format.fields.insert(name, field);
            } else if let Some(text) = line.strip_prefix("print fmt:") {
                format.names = names(text);
            }
        }
        format
    }

    pub(super) fn field(&self, name: &str) -> Option<Field> {
        self.fields.get(name).copied()
    }
}

/// Parses a field: `char prev_comm[16]; offset:8; size:16; signed:0;`.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let name = parts.next()?.split('[').next()?.rsplit(' ').next()?.to_owned();
    let (mut offset, mut bytes, mut is_signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", number)) => offset = number.parse().ok(),
            Some(("size", number)) => bytes = number.parse().ok(),
            Some(("signed", number)) => is_signed = number == "1",
            _ => {}
        }
    }
    let (offset, bytes): (usize, usize) = (offset?, bytes?);
    (offset <= MAX_BYTES && bytes <= MAX_BYTES)
        .then_some((name, Field { offset, bytes, is_signed }))
}

/// Returns the pairs `{ number, "name" }` in a string.
fn names(text: &str) -> BTreeMap<i64, String> {
    let pair = |part: &str| {
        let (number, rest) = part.split_once(',')?;
        let name = rest.trim().strip_prefix('"')?.split('"').next()?;
        Some((number.trim().parse().ok()?, name.to_owned()))
    };
    text.split('{').filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KFREE_SKB: &str = "name: kfree_skb\nID: 2310\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:void * skbaddr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:char comm[4];\toffset:16;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:36;\tsize:4;\tsigned:1;\n\
        \tfield:enum skb_drop_reason reason;\toffset:36;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"reason: %s\", __print_symbolic(REC->reason, { 3, \"NO_SOCKET\" }, \
        { 6, \"SOCKET_RCVBUFF\" })\n";

    #[test]
    fn fields_and_names_are_read() {
        let format = Format::parse(KFREE_SKB);
        assert_eq!(format.id, 2310);
        let mut record = vec![0; 40];
        record[36..40].copy_from_slice(&6u32.to_ne_bytes());
        record[16..20].copy_from_slice(b"ab\0x");
        assert_eq!(format.field("reason").unwrap().number(&record), 6);
        assert_eq!(format.field("comm").unwrap().text(&record), "ab");
        assert_eq!(format.field("reason").unwrap().number(&record[..38]), 0);
        record[36..40].fill(0xff);
        assert_eq!(format.field("reason").unwrap().number(&record), i64::from(u32::MAX));
        assert_eq!(format.field("next_pid").unwrap().number(&record), -1);
        assert_eq!(format.names[&6], "SOCKET_RCVBUFF");
        assert_eq!(format.field("nothing"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(
            text in "(?s)(field:|ID:|print fmt:|[ -~\t\n;]){0,60}",
            record: Vec<u8>,
        ) {
            let format = Format::parse(&text);
            for field in format.fields.values() {
                let _ = (field.number(&record), field.text(&record));
            }
        }
    }
}
