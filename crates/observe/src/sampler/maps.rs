// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process's mappings, from /proc/PID/maps.

/// Maximum length of an x86 instruction, in bytes.
pub(super) const INSTRUCTION_BYTES: usize = 15;
/// Bytes before a sample that suffice to synchronize decoding.
pub(super) const BYTES_BEFORE: usize = 48;

/// Identifies memory across processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Memory {
    /// Private to this process; several threads may use it.
    Process(u32),
    /// A mapping shared between processes, by its number.
    Shared(u32),
}

/// A mapping of a file, or of anonymous memory, in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// First address.
    pub start: u64,
    /// End address (exclusive).
    pub end: u64,
    /// Offset of `start` in the file.
    pub offset: u64,
    /// Device of the file as formatted by the kernel: `fd:00`.
    pub device: String,
    /// Inode of the file; 0 if there is none.
    pub inode: u64,
    /// Path of the file, or `[vdso]`; empty without a file.
    pub path: String,
}

/// Relevant mappings of a process, sorted by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mappings {
    /// Mappings with code.
    pub code: Vec<Mapping>,
    /// Data mappings that may be shared with other processes.
    pub shared: Vec<Mapping>,
}

/// Parses /proc/PID/maps, skipping lines that are not mappings.
pub(super) fn parse(text: &str) -> Mappings {
    let mut found = Mappings::default();
    for (mapping, rights) in text.lines().filter_map(mapping) {
        match (rights.get(2), rights.get(3)) {
            (Some(b'x'), _) => found.code.push(mapping),
            (_, Some(b's')) => found.shared.push(mapping),
            _ => {}
        }
    }
    found.code.sort_by_key(|mapping| mapping.start);
    found.shared.sort_by_key(|mapping| mapping.start);
    found
}

/// Parses /proc/PID/maps: all mappings in order, and whether each is shared with other processes.
pub(crate) fn parse_all(text: &str) -> Vec<(Mapping, bool)> {
    let all = text.lines().filter_map(mapping);
    all.map(|(mapping, rights)| (mapping, rights.get(3) == Some(&b's'))).collect()
}

/// Parses a line, `7f00-8f00 r-xp 00001000 fd:00 1234   /usr/lib/libc.so.6`; returns the mapping
/// and its permissions.
fn mapping(line: &str) -> Option<(Mapping, &[u8])> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?.as_bytes();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mapping = Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(fields.next()?)?,
        device: fields.next()?.to_owned(),
        inode: fields.next()?.parse().ok()?,
        path: fields.next().unwrap_or("").trim_start().to_owned(),
    };
    (mapping.start < mapping.end).then_some((mapping, rights))
}

/// Inserts a mapping into a sorted list, replacing whatever it overlaps.
pub(super) fn insert(mappings: &mut Vec<Mapping>, new: Mapping) {
    let mut rest = Vec::new();
    mappings.retain_mut(|old| {
        if old.end <= new.start || new.end <= old.start {
            return true;
        }
        if new.end < old.end {
            let offset = old.offset + (new.end - old.start);
            rest.push(Mapping { start: new.end, offset, ..old.clone() });
        }
        old.end = new.start;
        old.start < new.start
    });
    mappings.extend(rest);
    mappings.push(new);
    mappings.sort_by_key(|mapping| mapping.start);
}

/// Returns the mapping that contains an address.
pub(super) fn find(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    let behind = mappings.partition_point(|mapping| mapping.start <= address);
    mappings[..behind].last().filter(|mapping| address < mapping.end)
}

impl Mapping {
    /// Returns the display name: file name, `[vdso]`, or `[anon]` for anonymous memory, such as
    /// that of JIT compilers.
    pub(crate) fn name(&self) -> &str {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        match path.rsplit('/').next() {
            Some("") | None => "[anon]",
            Some(name) if self.inode == 0 && !name.starts_with('[') => "[anon]",
            Some(name) if name.starts_with("[anon") => "[anon]",
            Some(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAPS: &str = "\
55d0c0a00000-55d0c0a02000 r--p 00000000 fd:00 131 /usr/bin/cat
55d0c0a02000-55d0c0a06000 r-xp 00002000 fd:00 131 /usr/bin/cat
7f2000000000-7f2000010000 rwxp 00000000 00:00 0 
7f3000000000-7f3000010000 r-xp 00001000 fd:00 77                         /tmp/my lib.so (deleted)
7f4000000000-7f4000010000 rw-s 00001000 00:01 88                         /dev/zero (deleted)
7ffd1c1f2000-7ffd1c1f4000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn executable_mappings_are_found_by_address() {
        let Mappings { code: mappings, shared } = parse(MAPS);
        let name = |address| find(&mappings, address).map(Mapping::name);
        assert_eq!(name(0x55d0_c0a0_2000), Some("cat"));
        assert_eq!(name(0x55d0_c0a0_5fff), Some("cat"));
        assert_eq!(name(0x55d0_c0a0_6000), None);
        assert_eq!(name(0x55d0_c0a0_0000), None);
        assert_eq!(name(0x7f20_0000_0001), Some("[anon]"));
        assert_eq!(name(0x7f30_0000_0000), Some("my lib.so"));
        assert_eq!(name(0x7ffd_1c1f_2000), Some("[vdso]"));
        assert_eq!(name(0), None);
        assert_eq!((mappings[0].offset, mappings[0].inode), (0x2000, 131));
        let shared: Vec<_> = shared.iter().map(|one| (one.start, one.inode)).collect();
        assert_eq!(shared, [(0x7f40_0000_0000, 88)]);
    }

    #[test]
    fn a_mapping_takes_the_place_of_what_was_there() {
        let mapping = |start, end, offset, path: &str| Mapping {
            start,
            end,
            offset,
            device: "00:00".to_owned(),
            inode: 1,
            path: path.to_owned(),
        };
        let mut mappings =
            vec![mapping(0x1000, 0x5000, 0x100, "a"), mapping(0x6000, 0x7000, 0, "b")];
        insert(&mut mappings, mapping(0x2000, 0x3000, 0, "c"));
        let found: Vec<_> = mappings.iter().map(|m| (m.start, m.end, m.offset, &*m.path)).collect();
        let expected = [
            (0x1000, 0x2000, 0x100, "a"),
            (0x2000, 0x3000, 0, "c"),
            (0x3000, 0x5000, 0x2100, "a"),
            (0x6000, 0x7000, 0, "b"),
        ];
        assert_eq!(found, expected);
        insert(&mut mappings, mapping(0x2000, 0x7000, 0, "d"));
        let found: Vec<_> = mappings.iter().map(|m| (m.start, m.end)).collect();
        assert_eq!(found, [(0x1000, 0x2000), (0x2000, 0x7000)]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(?s).{0,200}", address: u64) {
            let mappings = parse(&text).code;
            let _ = find(&mappings, address).map(Mapping::name);
        }

        #[test]
        fn any_line_alike_is_read(
            line in "[0-9a-f]{0,18}-[0-9a-f]{0,18} [rwxps-]{0,5} [0-9a-f ]{0,30}.{0,9}",
        ) {
            for mapping in parse(&line).code {
                prop_assert!(find(std::slice::from_ref(&mapping), mapping.start).is_some());
            }
        }
    }
}
