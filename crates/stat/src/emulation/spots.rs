// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the counts per instruction that the plug-in writes to a file on request
//! (`cachesim/plugin/spots.h`).
//!
//! ```text
//! for each row: file name          store it, and skip the rows that it takes up
//!               start of a block   use its execution count for all instructions of the block
//!               every instruction  add its counts to those of the same instruction so far
//! ```

use super::names::COUNTERS;
use crate::sim::SimError;
use linerate_record::stat::{CodeCounts, CodeFile, CodeSpot};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Name of the file, which is in the same directory as the other counts.
pub(super) const FILE: &str = "spots";

const MAGIC: &[u8] = b"LRSPOTS1";
const HEAD_BYTES: usize = 4096;
/// Size of the fields before the counts in a row: position, file and block.
const FACTS_BYTES: usize = 16;
const ROW_BYTES: usize = FACTS_BYTES + 8 * COUNTERS.len();
/// Value of the file field that marks a row with a file name.
const IS_NAME: u32 = u32::MAX;
/// Maximum length of a file name, which consists of device, inode and path.
const MAX_NAME_BYTES: u64 = 4096 + 128;
/// Bytes read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// Counters of one instruction.
type Row = [u64; COUNTERS.len()];

/// Counts of all instructions.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Spots {
    files: Vec<CodeFile>,
    /// Counts per instruction, by file index and position within the file.
    spots: HashMap<(Option<u32>, u64), Row>,
    rest: Row,
}

/// File names read so far, without duplicates. Several rows may contain the same name, one for each
/// process that uses the file.
#[derive(Debug, Default)]
struct Names {
    files: Vec<CodeFile>,
    indices: HashMap<CodeFile, u32>,
    by_row: HashMap<u32, u32>,
}

/// Reads the counts from the file in `folder`.
///
/// # Errors
/// Returns [`SimError::BadSpots`] if the file is missing or not in the format of the plug-in.
pub(super) fn read(folder: &Path) -> Result<Spots, SimError> {
    let path = folder.join(FILE);
    let bad = |reason: String| SimError::BadSpots { path: path.display().to_string(), reason };
    let file = File::open(&path).map_err(|error| bad(error.to_string()))?;
    parse(BufReader::with_capacity(BUFFER_BYTES, file)).map_err(bad)
}

impl Spots {
    /// Returns the counts of events by instruction. `events` are event names, each with the
    /// counters that add up to the event, such as `loads + stores`.
    pub(super) fn counts(&self, by: &str, events: &[(String, &str)]) -> CodeCounts {
        let place = |counter: &str| COUNTERS.iter().position(|one| *one == counter);
        let parts: Vec<Vec<usize>> = events
            .iter()
            .map(|(_, native)| native.split(" + ").filter_map(place).collect())
            .collect();
        let of = |row: &Row| -> Vec<u64> {
            let sum = |sum: u64, part: &usize| sum.saturating_add(row[*part]);
            parts.iter().map(|parts| parts.iter().fold(0, sum)).collect()
        };
        let mut spots: Vec<CodeSpot> = self
            .spots
            .iter()
            .map(|((file, position), row)| CodeSpot {
                file: *file,
                position: *position,
                counts: of(row),
            })
            .collect();
        spots.sort_by_key(|spot| (spot.file, spot.position));
        CodeCounts {
            by: by.to_owned(),
            events: events.iter().map(|(name, _)| name.clone()).collect(),
            files: self.files.clone(),
            spots,
            rest: of(&self.rest),
        }
    }
}

/// Counts by position and by the row that holds the file's name; row 0 means that there is no file.
#[derive(Default)]
struct Rows(HashMap<(u32, u64), Row>);

impl Rows {
    fn add(&mut self, place: (u32, u64), counts: &Row) {
        if counts.iter().any(|count| *count > 0) {
            add(self.0.entry(place).or_insert([0; COUNTERS.len()]), counts);
        }
    }
}

fn add(sums: &mut Row, counts: &Row) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum = sum.saturating_add(*count);
    }
}

/// Parses a file. The error says what is wrong with the file.
fn parse(mut from: impl Read) -> Result<Spots, String> {
    let used = head(&mut from)?;
    let (mut found, mut names) = (Spots::default(), Names::default());
    let mut by_row = Rows::default();
    let mut row = [0; ROW_BYTES];
    // The instructions of the current block that are still to come, and its executions.
    let (mut left, mut executions) = (0, 0);
    let mut number = 0;
    while number <= used {
        next(&mut from, &mut row, number)?;
        let (position, file, block) = (long(&row, 0), word(&row, 8), word(&row, 12));
        if file == IS_NAME {
            let rows = names.add(&mut from, number, position, &row)?;
            number = number.saturating_add(rows);
            continue;
        }
        let mut counts = [0; COUNTERS.len()];
        for (place, count) in counts.iter_mut().enumerate() {
            *count = long(&row, FACTS_BYTES + 8 * place);
        }
        if block > 0 {
            if u64::from(number) + u64::from(block) > u64::from(used) + 1 {
                return Err(format!(
                    "the block at row {number} claims {block} instructions, but fewer rows are left"
                ));
            }
            (left, executions) = (block, counts[0]);
        }
        counts[0] = if left > 0 { executions } else { 0 };
        left = u32::saturating_sub(left, 1);
        match number {
            0 => found.rest = counts,
            // The name of a file comes after the first block that is in it.
            _ => by_row.add((file, position), &counts),
        }
        number += 1;
    }
    for ((file, position), counts) in by_row.0 {
        let index = names.by_row.get(&file).copied();
        if file != 0 && index.is_none() {
            return Err(format!("an instruction refers to row {file}, which has no file name"));
        }
        add(found.spots.entry((index, position)).or_insert([0; COUNTERS.len()]), &counts);
    }
    found.files = names.files;
    Ok(found)
}

/// Reads the file's header, and returns the number of rows in use, not counting the first one.
fn head(from: &mut impl Read) -> Result<u32, String> {
    let mut head = [0; HEAD_BYTES];
    from.read_exact(&mut head).map_err(|error| format!("the header cannot be read: {error}"))?;
    if !head.starts_with(MAGIC) {
        return Err("the file does not start with the plug-in's magic number".to_owned());
    }
    let [counters, row_bytes, rows, used] = [8, 12, 16, 20].map(|at| word(&head, at));
    if (counters as usize, row_bytes as usize) != (COUNTERS.len(), ROW_BYTES) {
        return Err(format!("unexpected layout: {counters} counters in rows of {row_bytes} bytes"));
    }
    if used >= rows {
        return Err(format!(
            "the header marks row {used} as in use, but there are only {rows} rows"
        ));
    }
    Ok(used)
}

impl Names {
    /// Adds the file name that begins in `row`, and returns the number of rows that it takes up.
    fn add(
        &mut self,
        from: &mut impl Read,
        number: u32,
        length: u64,
        row: &[u8; ROW_BYTES],
    ) -> Result<u32, String> {
        if length > MAX_NAME_BYTES {
            return Err(format!("the file name in row {number} is too long: {length} bytes"));
        }
        let length = length as usize;
        let mut bytes = row[FACTS_BYTES..].to_vec();
        let mut rows = 1;
        while bytes.len() < length {
            let mut more = [0; ROW_BYTES];
            next(from, &mut more, number + rows)?;
            bytes.extend(more);
            rows += 1;
        }
        bytes.truncate(length);
        if bytes.contains(&0) {
            // The process has not finished the name, or was killed before that: as yet, no
            // instruction refers to it.
            return Ok(rows);
        }
        let name = String::from_utf8_lossy(&bytes);
        let file = code_file(&name)
            .ok_or_else(|| format!("invalid file name in row {number}: '{name}'"))?;
        let next = self.files.len() as u32;
        let index = *self.indices.entry(file.clone()).or_insert(next);
        if index == next {
            self.files.push(file);
        }
        self.by_row.insert(number, index);
        Ok(rows)
    }
}

/// Parses the end of a line of /proc/PID/maps: `fd:00 131    /usr/bin/cat`.
fn code_file(text: &str) -> Option<CodeFile> {
    let mut words = text.splitn(3, ' ');
    let (device, inode, path) = (words.next()?, words.next()?, words.next()?);
    let (device, path) = (device.to_owned(), path.trim_start().to_owned());
    Some(CodeFile { device, inode: inode.parse().ok()?, path })
}

fn next(from: &mut impl Read, row: &mut [u8; ROW_BYTES], number: u32) -> Result<(), String> {
    from.read_exact(row).map_err(|error| format!("row {number} cannot be read: {error}"))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into();
    u32::from_ne_bytes(bytes.expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..at + 8].try_into();
    u64::from_ne_bytes(bytes.expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EVENTS: [&str; 2] = ["instructions", "loads + stores"];

    /// Returns a row: position, file, block, executions, loads.
    fn row(position: u64, file: u32, block: u32, executions: u64, loads: u64) -> Vec<u8> {
        let mut bytes = position.to_ne_bytes().to_vec();
        bytes.extend(file.to_ne_bytes());
        bytes.extend(block.to_ne_bytes());
        bytes.extend(executions.to_ne_bytes());
        bytes.extend(loads.to_ne_bytes());
        bytes.resize(ROW_BYTES, 0);
        bytes
    }

    fn name(text: &str) -> Vec<u8> {
        let mut bytes = row(text.len() as u64, IS_NAME, 0, 0, 0);
        bytes.truncate(FACTS_BYTES);
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(ROW_BYTES), 0);
        bytes
    }

    /// Returns a trace file with two blocks of a program, one block of code that is not backed by a
    /// file, and one block executed by another process.
    fn file() -> Vec<u8> {
        let long_path = format!("fd:00 131      /{}/walk", "d".repeat(200));
        let rows = [
            row(0, 0, 1, 50, 3),
            row(0x1000, 3, 2, 10, 0),
            row(0x1004, 3, 0, 0, 10),
            name(&long_path),
            row(0x1004, 3, 1, 5, 5),
            row(0x7000, 0, 1, 1, 0),
            row(0x8000, 3, 1, 0, 0),
            name(&long_path),
            row(0x1000, 8, 1, 100, 1),
        ]
        .concat();
        let used = (rows.len() / ROW_BYTES) as u32 - 1;
        let mut bytes = MAGIC.to_vec();
        for field in [COUNTERS.len() as u32, ROW_BYTES as u32, 1 << 22, used] {
            bytes.extend(field.to_ne_bytes());
        }
        bytes.resize(HEAD_BYTES, 0);
        [bytes, rows].concat()
    }

    fn counts(bytes: &[u8]) -> Result<CodeCounts, String> {
        let events = EVENTS.map(|native| (native.to_owned(), native));
        Ok(parse(bytes)?.counts("instructions", &events))
    }

    #[test]
    fn executions_of_a_block_count_for_each_of_its_instructions() {
        let found = counts(&file()).unwrap();
        let spots: Vec<_> =
            found.spots.iter().map(|one| (one.file, one.position, one.counts.as_slice())).collect();
        let expected = [
            (None, 0x7000, &[1, 0][..]),
            (Some(0), 0x1000, &[110, 1]),
            (Some(0), 0x1004, &[15, 15]),
        ];
        assert_eq!(spots, expected);
        assert_eq!(found.rest, [50, 3]);
        let [program] = found.files.as_slice() else { panic!("{:?}", found.files) };
        assert_eq!((program.device.as_str(), program.inode), ("fd:00", 131));
        assert!(program.path.ends_with("d/walk"), "{}", program.path);
    }

    #[test]
    fn damage_is_named() {
        let changed = |at: usize, value: u32| {
            let mut bytes = file();
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            counts(&bytes).unwrap_err()
        };
        let of_row = |row: usize| HEAD_BYTES + row * ROW_BYTES;
        assert!(changed(0, 0).contains("magic number"));
        assert!(changed(8, 3).contains("3 counters"));
        assert!(changed(20, 1 << 22).contains("only 4194304 rows"));
        assert!(changed(20, 4000).contains("cannot be read"));
        assert!(changed(of_row(1) + 8, 77).contains("row 77, which has no file name"));
        assert!(changed(of_row(1) + 12, 5000).contains("claims 5000 instructions"));
        assert!(changed(of_row(3), 1 << 20).contains("too long: 1048576 bytes"));
        assert!(changed(of_row(3), 5).contains("row 3: 'fd:00'"));
        assert!(counts(b"").unwrap_err().contains("header"));
    }

    #[test]
    fn a_name_that_is_not_written_to_its_end_is_skipped() {
        let mut bytes = file();
        let name = HEAD_BYTES + 8 * ROW_BYTES;
        // The process has not got to the block in this file, which is the last row.
        bytes.truncate(bytes.len() - ROW_BYTES);
        let used = (bytes.len() - HEAD_BYTES) / ROW_BYTES - 1;
        bytes[20..24].copy_from_slice(&(used as u32).to_ne_bytes());
        let whole = counts(&bytes).unwrap();
        for written in [0, 5, 11, 150] {
            let mut half = bytes.clone();
            half[name + FACTS_BYTES + written..].fill(0);
            assert_eq!(counts(&half).unwrap(), whole, "{written}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn survives_damaged_files(
            damage in prop::collection::vec((0usize..6000, any::<u8>()), 1..30),
            length in 0usize..6000,
        ) {
            let mut bytes = file();
            for (at, byte) in damage {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(length);
            let _ = counts(&bytes);
        }
    }
}
