// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes a simulator's event counts per instruction to functions and source lines. No counts
//! are lost: the functions' counts add up to those of all instructions.

use crate::sampler::functions::Functions;
use crate::sampler::functions::lines::Lines;
use crate::sampler::maps::Mapping;
use crate::sampler::names::files;
use linerate_record::profile::SourceLine;
use linerate_record::stat::{CodeCounts, CodeFile, CodeSpot, HotFunction, HotLine, HotSpots};
use linerate_record::why::Unread;
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of source lines listed per function.
const MOST_LINES: usize = 20;
/// Code with neither symbols nor an unwind table is divided into parts of this size, in bytes.
const PART_BYTES: u64 = 256;
/// Function and file name of code that is not in a file.
const ANONYMOUS: &str = "[anon]";
/// Function and file name for instructions that the simulator had no room to count individually.
const REST: &str = "[other code]";

/// Sums the counts of instructions by function and source line. Files are read in their current
/// state. No names are read from a file that was replaced after the run; the result lists such
/// files.
pub fn hot_spots(code: &CodeCounts) -> HotSpots {
    let mut sums = Sums::default();
    let mut unread = Vec::new();
    let mut by_file = BTreeMap::<Option<u32>, Vec<&CodeSpot>>::new();
    for spot in &code.spots {
        by_file.entry(spot.file).or_default().push(spot);
    }
    for (number, spots) in by_file {
        match number.and_then(|number| code.files.get(number as usize)) {
            Some(file) => add_file(&mut sums, &mut unread, file, &spots),
            None => spots
                .iter()
                .for_each(|spot| sums.function(ANONYMOUS, ANONYMOUS).add(None, &spot.counts)),
        }
    }
    if code.rest.iter().any(|count| *count > 0) {
        sums.function(REST, REST).add(None, &code.rest);
        unread.push(Unread {
            what: "names".to_owned(),
            reason: format!(
                "no function names for {REST}: the command executed instructions at more \
                 addresses than the simulator has room for (4,194,303), or TMPDIR's file system \
                 is full"
            ),
            fix: None,
        });
    }
    sums.ranked(code, unread)
}

/// Counts of a function.
#[derive(Debug, Default)]
struct Sum {
    counts: Vec<u64>,
    /// Counts by source file and line number.
    lines: BTreeMap<(String, u32), Vec<u64>>,
}

impl Sum {
    fn add(&mut self, line: Option<SourceLine>, counts: &[u64]) {
        add(&mut self.counts, counts);
        if let Some(SourceLine { file, line }) = line {
            add(self.lines.entry((file, line)).or_default(), counts);
        }
    }
}

fn add(sums: &mut Vec<u64>, counts: &[u64]) {
    sums.resize(sums.len().max(counts.len()), 0);
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum = sum.saturating_add(*count);
    }
}

/// Counts by name and module.
#[derive(Debug, Default)]
struct Sums(BTreeMap<(String, String), Sum>);

impl Sums {
    fn function(&mut self, name: &str, module: &str) -> &mut Sum {
        self.0.entry((name.to_owned(), module.to_owned())).or_default()
    }

    /// Sorts functions and lines by their counts of the requested event.
    fn ranked(self, code: &CodeCounts, unread: Vec<Unread>) -> HotSpots {
        let place = code.events.iter().position(|event| *event == code.by).unwrap_or(0);
        let rank = |counts: &[u64]| std::cmp::Reverse(counts.get(place).copied());
        let mut totals = vec![0; code.events.len()];
        let mut functions = Vec::new();
        for ((name, module), sum) in self.0 {
            add(&mut totals, &sum.counts);
            let line = |((file, line), counts)| HotLine { file, line, counts };
            let mut lines: Vec<HotLine> = sum.lines.into_iter().map(line).collect();
            lines.sort_by_key(|line| rank(&line.counts));
            lines.truncate(MOST_LINES);
            functions.push(HotFunction { name, module, counts: sum.counts, lines });
        }
        functions.sort_by_key(|function| rank(&function.counts));
        let (by, events) = (code.by.clone(), code.events.clone());
        HotSpots { by, events, totals, functions, unread }
    }
}

/// Adds the instructions of a file.
fn add_file(sums: &mut Sums, unread: &mut Vec<Unread>, file: &CodeFile, spots: &[&CodeSpot]) {
    let mapping = mapping(file);
    let module = mapping.name();
    let opened = files::open(std::process::id(), &mapping);
    let missing = |what: &str, reason: String| Unread { what: what.to_owned(), reason, fix: None };
    let opened = opened.map_err(|reason| {
        let reason = format!("no function names for {}: {reason}", file.path);
        unread.push(missing("names", reason));
    });
    let opened = opened.ok();
    let functions = opened.as_ref().and_then(|file| Functions::read(file.try_clone().ok()?));
    let lines = opened.as_ref().and_then(|file| {
        let address = |spot: &&CodeSpot| functions.as_ref()?.address_of(spot.position);
        let cannot = |reason: String| {
            unread.push(missing("lines", format!("no source lines for {module}: {reason}")));
        };
        Lines::read(file, spots.iter().filter_map(address)).map_err(cannot).ok()
    });
    let mut code = Code { module, functions, lines, last: None };
    for spot in spots {
        let (name, line) = code.at(spot.position);
        sums.function(&name, module).add(line, &spot.counts);
    }
}

/// Returns a mapping with which to open the file. It has no addresses: path and inode identify the
/// file.
fn mapping(file: &CodeFile) -> Mapping {
    let CodeFile { device, inode, path } = file.clone();
    Mapping { start: 0, end: 0, offset: 0, device, inode, path }
}

/// A file with code.
struct Code<'a> {
    module: &'a str,
    functions: Option<Functions>,
    lines: Option<Lines>,
    /// Address range and name of the function found last.
    last: Option<(Range<u64>, String)>,
}

impl Code<'_> {
    /// Returns the name of the function at an offset in the file, and the source line at that
    /// offset.
    fn at(&mut self, offset: u64) -> (String, Option<SourceLine>) {
        let functions = self.functions.as_ref();
        let Some(address) = functions.and_then(|functions| functions.address_of(offset)) else {
            return (self.part(offset), None);
        };
        let line = self.lines.as_ref().and_then(|lines| lines.of(address));
        match &self.last {
            Some((range, name)) if range.contains(&address) => (name.clone(), line),
            _ => (self.function(address), line),
        }
    }

    /// Returns the name of the function at an address. A function without a name is identified by
    /// its module and first address.
    fn function(&mut self, address: u64) -> String {
        let functions = self.functions.as_ref();
        let bounds = functions.and_then(|functions| functions.bounds(address));
        let found = functions.and_then(|functions| functions.find(address));
        let (Some(bounds), Some(found)) = (bounds, found) else { return self.part(address) };
        let name = found.name.unwrap_or_else(|| format!("{}+{:#x}", self.module, found.start));
        self.last = Some((bounds, name.clone()));
        name
    }

    fn part(&self, address: u64) -> String {
        format!("{}+{:#x}", self.module, address / PART_BYTES * PART_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::maps;

    #[inline(never)]
    fn a_hot_function_of_this_test(x: u64) -> u64 {
        std::hint::black_box(x.wrapping_mul(3) ^ 9)
    }

    /// Returns this program's file, and the file offset of the function above.
    fn own() -> (CodeFile, u64) {
        let address = a_hot_function_of_this_test as fn(u64) -> u64 as usize as u64;
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mapping = maps::parse_all(&text)
            .into_iter()
            .map(|(mapping, _)| mapping)
            .find(|mapping| (mapping.start..mapping.end).contains(&address))
            .unwrap();
        let offset = address - mapping.start + mapping.offset;
        let Mapping { device, inode, path, .. } = mapping;
        (CodeFile { device, inode, path }, offset)
    }

    fn spot(file: Option<u32>, position: u64, counts: [u64; 2]) -> CodeSpot {
        CodeSpot { file, position, counts: counts.to_vec() }
    }

    fn code(files: Vec<CodeFile>, spots: Vec<CodeSpot>) -> CodeCounts {
        CodeCounts {
            by: "l1d_misses".to_owned(),
            events: vec!["instructions".to_owned(), "l1d_misses".to_owned()],
            files,
            spots,
            rest: vec![0, 0],
        }
    }

    #[test]
    fn functions_are_named_ranked_and_add_up_to_the_total() {
        assert_eq!(a_hot_function_of_this_test(1), 10);
        let (file, offset) = own();
        let spots = vec![
            spot(None, 0x7000, [40, 2]),
            spot(None, 0x9000, [2, 0]),
            spot(Some(0), offset, [7, 3]),
            spot(Some(0), offset + 1, [7, 5]),
        ];
        let code = CodeCounts { rest: vec![100, 1], ..code(vec![file], spots) };
        let hot = hot_spots(&code);
        let [own, anonymous, rest] = hot.functions.as_slice() else { panic!("{hot:?}") };
        assert!(own.name.ends_with("a_hot_function_of_this_test"), "{own:?}");
        assert_eq!(own.counts, [14, 8]);
        assert_eq!((anonymous.name.as_str(), &anonymous.counts), ("[anon]", &vec![42, 2]));
        assert_eq!((rest.name.as_str(), &rest.counts), ("[other code]", &vec![100, 1]));
        assert_eq!(hot.totals, [156, 11]);
        assert!(hot.unread.iter().any(|one| one.reason.contains("executed instructions at more")));
    }

    #[test]
    fn a_file_that_is_gone_or_replaced_keeps_its_counts() {
        let (file, offset) = own();
        let replaced = CodeFile { inode: 1, ..file };
        let gone = CodeFile { path: "/no/such/file".to_owned(), ..replaced.clone() };
        let spots = vec![spot(Some(0), offset, [5, 1]), spot(Some(1), 0x1234, [6, 2])];
        let hot = hot_spots(&code(vec![replaced, gone], spots));
        assert_eq!(hot.functions[0].name, "file+0x1200");
        assert_eq!(hot.totals, [11, 3]);
        let reasons: Vec<&str> = hot.unread.iter().map(|one| one.reason.as_str()).collect();
        assert!(reasons[0].ends_with("was replaced after it was mapped"), "{reasons:?}");
        assert!(reasons[1].contains("was deleted"), "{reasons:?}");
    }
}
