// SPDX-License-Identifier: MIT OR Apache-2.0
use super::super::{Function, Functions};
use super::*;
use proptest::prelude::*;
use std::io::Write;
use std::path::Path;
use std::process::Command;

const ORDER: Endianness = Endianness::Big;
/// Address of the first function.
const CODE: u64 = 0x40_1000;
const TABLE: u64 = 0x50_0000;
const NAMES: u64 = 100;
const MODULE_AT: u64 = 0x1000;

/// Returns a table of two functions, and the description of the module.
fn file(start: u64) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xff, 0xff, 0xf1, 0, 0, 1, 8];
    for word in [2, 1, start, NAMES, 0, 0, 0, 120] {
        bytes.extend(u64::to_be_bytes(word));
    }
    bytes.resize(NAMES as usize, 0);
    bytes.extend(b"main.a\0main.(*T).b\0");
    bytes.resize(120, 0);
    // Pairs of code and entry, the end of the code, and the two entries.
    for word in [0_u32, 20, 0x40, 28, 0x100, 0, 0, 0x40, 7] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.resize(MODULE_AT as usize, 0);
    bytes.extend(TABLE.to_be_bytes());
    bytes.extend([0; 19 * 8]);
    for address in [CODE, CODE + 0x100, CODE] {
        bytes.extend(address.to_be_bytes());
    }
    bytes
}

fn places() -> Vec<Place> {
    let place = |name: &str, address, offset, bytes| Place {
        name: name.to_owned(),
        address,
        offset,
        bytes,
    };
    vec![place(".gopclntab", TABLE, 0, 160), place(".noptrdata", 0x60_0000, MODULE_AT, 184)]
}

fn read(bytes: &[u8], places: &[Place]) -> Option<(GoTable, File)> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Some((GoTable::read(&file, places, ORDER)?, file))
}

fn starts(bytes: &[u8], places: &[Place]) -> Option<Vec<(u64, u64)>> {
    let (table, _) = read(bytes, places)?;
    Some(table.functions.iter().map(|one| (one.start, one.end)).collect())
}

#[test]
fn functions_have_bounds_and_names() {
    let (table, file) = read(&file(0), &places()).unwrap();
    let [first, second] = table.functions.as_slice() else { panic!("{table:?}") };
    assert_eq!((first.start, first.end), (CODE, CODE + 0x40));
    assert_eq!((second.start, second.end), (CODE + 0x40, CODE + 0x100));
    let names = [first, second].map(|one| table.name_at(&file, one.at).unwrap());
    assert_eq!(names, [NAMES, NAMES + 7]);
}

#[test]
fn the_start_of_the_code_must_be_known() {
    let both = Some(vec![(CODE, CODE + 0x40), (CODE + 0x40, CODE + 0x100)]);
    // Go 1.18 to 1.25 have it in the table.
    assert_eq!(starts(&file(CODE), &places()[..1]), both);
    assert_eq!(starts(&file(0), &places()[..1]), None);
    let mut relocated = file(0);
    relocated.truncate(MODULE_AT as usize);
    relocated.resize(MODULE_AT as usize + 200, 0);
    let at = relocated.len() as u64;
    let of_module = [(0, TABLE), (160, CODE), (168, CODE + 0x100), (176, CODE)];
    for (offset, value) in of_module {
        for word in [0x60_0000 + offset, 8, value] {
            relocated.extend(word.to_be_bytes());
        }
    }
    let relocations = Place { name: ".rela".to_owned(), address: 0, offset: at, bytes: 96 };
    let with = |bytes: &[u8]| {
        let mut all = places();
        all.push(relocations.clone());
        starts(bytes, &all)
    };
    assert_eq!(with(&relocated), both);
    // The highest address does not agree with the table.
    relocated[at as usize + 2 * 24 + 23] ^= 1;
    assert_eq!(with(&relocated), None);
}

#[test]
fn other_versions_are_not_read() {
    for (at, byte) in [(3, 0xfa), (3, 0xfb), (3, 0), (4, 1), (7, 2)] {
        let mut bytes = file(CODE);
        bytes[at] = byte;
        assert_eq!(starts(&bytes, &places()), None);
    }
}

const SOURCE: &str = "package main

type T struct{ n uint64 }

//go:noinline
func (t *T) Spin(k int) uint64 {
\tfor i := 0; i < k; i++ {
\t\tt.n = t.n*31 + 1
\t}
\treturn t.n
}

func main() { println((&T{1}).Spin(9)) }
";

/// Builds a stripped Go program; `None` without a Go compiler.
fn built(folder: &Path, mode: &str) -> Option<File> {
    std::fs::write(folder.join("main.go"), SOURCE).unwrap();
    std::fs::write(folder.join("go.mod"), "module spin\n").unwrap();
    let mut go = Command::new("go");
    go.current_dir(folder).args(["build", "-buildmode", mode, "-ldflags=-s -w", "-o", mode]);
    go.env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local");
    let output = go.env("CGO_ENABLED", "0").output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(File::open(folder.join(mode)).unwrap())
}

#[test]
fn a_stripped_program_has_the_names_of_its_source() {
    let folder = tempfile::tempdir().unwrap();
    for mode in ["exe", "pie"] {
        let Some(file) = built(folder.path(), mode) else {
            eprintln!("SKIP: no Go compiler");
            return;
        };
        let functions = Functions::read(file).unwrap();
        let go = functions.go.as_ref().unwrap();
        let found = go.functions.iter().find_map(|one| {
            let function = functions.find(one.start + 1)?;
            (function.name.as_deref() == Some("main.(*T).Spin")).then_some((one, function))
        });
        let (one, function) = found.unwrap();
        assert_eq!(function.start, one.start);
        assert_eq!(functions.bounds(one.start + 3), Some(one.start..one.end));
        let name = |address| functions.find(address).map(|one: Function| one.name);
        assert_ne!(name(one.end), Some(function.name));
    }
}

proptest! {
    #[test]
    fn any_table_is_read(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        length in prop::option::of(any::<prop::sample::Index>()),
        is_huge: bool,
    ) {
        let mut bytes = file(0);
        for (at, byte) in damage {
            // Most damage goes to the table, which is short.
            let at = at.index(400);
            let at = if at < 160 { at } else { MODULE_AT as usize + at - 216 };
            bytes[at.min(MODULE_AT as usize + 183)] = byte;
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len()));
        }
        let mut places = places();
        if is_huge {
            places[0].bytes = u64::MAX;
            places[1].bytes = u64::MAX;
        }
        if let Some((table, file)) = read(&bytes, &places) {
            for one in &table.functions {
                let _ = table.name_at(&file, one.at);
            }
        }
    }
}
