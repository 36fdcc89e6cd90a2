// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use object::{ObjectSymbol, ReadCache};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines 2, 6 and 7 are those of `inner` and `outer`.
const SOURCE: &str = "__attribute__((noinline)) unsigned inner(unsigned x) {
    return x * 7 + 5;
}

unsigned outer(unsigned x) {
    x ^= inner(x) + 3;
    return inner(x + 1);
}

int main(void) { return outer(1); }
";

/// Compiles the source with these options.
fn compiled(folder: &Path, options: &[&str]) -> PathBuf {
    let (source, program) = (folder.join("lines.c"), folder.join("lines"));
    std::fs::write(&source, SOURCE).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(compiler);
    command.current_dir(folder).args(["-O1", "-o", "lines", "lines.c"]).args(options);
    assert!(command.status().unwrap().success());
    program
}

/// Returns the address range of a function.
fn function(program: &Path, name: &str) -> std::ops::Range<u64> {
    let file = File::open(program).unwrap();
    let cache = ReadCache::new(&file);
    let elf = object::File::parse(&cache).unwrap();
    let symbol = elf.symbol_by_name(name).unwrap();
    symbol.address()..symbol.address() + symbol.size()
}

fn lines_of(program: &Path, range: std::ops::Range<u64>) -> BTreeSet<(String, u32)> {
    let lines = Lines::read(&File::open(program).unwrap(), range.clone()).unwrap();
    let found = range.filter_map(|address| lines.of(address));
    found.map(|source| (source.file, source.line)).collect()
}

#[test]
fn functions_have_the_lines_of_their_source() {
    for options in [
        &["-g"][..],
        &["-gdwarf-4"],
        &["-gdwarf-5", "-ffunction-sections"],
        // Without the index of units, each unit is searched.
        &["-gdwarf-5", "-Wl,--strip-debug", "-g"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        if options.contains(&"-Wl,--strip-debug") {
            let program = compiled(folder.path(), &["-g"]);
            let removed = Command::new("objcopy")
                .args(["--remove-section", ".debug_aranges"])
                .arg(&program)
                .status();
            assert!(removed.unwrap().success());
        } else {
            compiled(folder.path(), options);
        }
        let program = folder.path().join("lines");
        let path = folder.path().canonicalize().unwrap().join("lines.c");
        let path = path.to_str().unwrap();
        let inner = lines_of(&program, function(&program, "inner"));
        assert!(inner.contains(&(path.to_owned(), 2)), "{options:?} {inner:?}");
        assert!(inner.iter().all(|(_, line)| (1..=3).contains(line)), "{options:?} {inner:?}");
        let outer = lines_of(&program, function(&program, "outer"));
        assert!(outer.contains(&(path.to_owned(), 6)), "{options:?} {outer:?}");
        assert!(outer.contains(&(path.to_owned(), 7)), "{options:?} {outer:?}");
    }
}

#[test]
fn a_program_without_line_tables_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let read = |options: &[&str]| {
        let program = compiled(folder.path(), options);
        let address = function(&program, "inner").start;
        Lines::read(&File::open(&program).unwrap(), std::iter::once(address)).unwrap_err()
    };
    assert!(read(&["-g0"]).contains("compile with -g"));
    assert!(read(&["-g", "-gz=zlib"]).contains("compressed"));
    let maps = File::open("/proc/self/maps").unwrap();
    assert!(Lines::read(&maps, std::iter::once(0)).unwrap_err().contains("not an ELF file"));
}

#[test]
fn this_function_has_its_line() {
    let here = line!();
    let functions = super::super::Functions::read(File::open("/proc/self/exe").unwrap()).unwrap();
    let address = this_function_has_its_line as fn() as usize as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let maps = crate::sampler::maps::parse(&maps).code;
    let mapping = crate::sampler::maps::find(&maps, address).unwrap();
    let address = functions.address_of(address - mapping.start + mapping.offset).unwrap();
    let lines = Lines::read(&File::open("/proc/self/exe").unwrap(), std::iter::once(address));
    let line = lines.unwrap().of(address).unwrap();
    assert!(line.file.ends_with("crates/observe/src/sampler/functions/lines/tests.rs"), "{line:?}");
    assert!((here - 2..=here).contains(&line.line), "{line:?}");
}

/// Returns a program with line tables, and the file offsets of its debug sections.
fn with_sections() -> WithSections {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), &["-g"]);
    let bytes = std::fs::read(&program).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let of_debug = elf.sections().filter(|one| one.name().unwrap().starts_with(".debug_"));
    let range = |section: object::Section<'_, '_>| {
        let (offset, bytes) = section.file_range().unwrap();
        offset as usize..(offset + bytes) as usize
    };
    let sections = of_debug.map(range).collect();
    (bytes.clone(), sections, function(&program, "outer"))
}

/// A program's bytes, its sections with debug information, and the addresses of a function.
type WithSections = (Vec<u8>, Vec<std::ops::Range<usize>>, std::ops::Range<u64>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn damaged_debug_information_is_read_to_an_end(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u16>(), any::<u8>()),
                                        1..30),
        length in prop::option::of(any::<prop::sample::Index>()),
    ) {
        static PROGRAM: std::sync::OnceLock<WithSections> = std::sync::OnceLock::new();
        let (bytes, sections, function) = PROGRAM.get_or_init(with_sections);
        let mut bytes = bytes.clone();
        for (section, at, byte) in damage {
            let section = section.get(sections);
            if !section.is_empty() {
                bytes[section.start + usize::from(at) % section.len()] = byte;
            }
        }
        if let Some(length) = length {
            let first = sections.iter().map(|section| section.start).min().unwrap();
            bytes.truncate(first + length.index(bytes.len() - first));
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let lines = Lines::read(&File::open(file.path()).unwrap(), function.clone());
        if let Ok(lines) = lines {
            function.clone().for_each(|address| drop(lines.of(address)));
        }
    }
}
