// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolves sample addresses to functions and places: by the mapping that contains the address,
//! then by the function in its file.
//!
//! During the window, an address is reduced to a spot: a few bytes of a file or of the kernel.
//! Files are opened during the window, because their process may exit, and parsed after it, because
//! symbol tables take longer than samples.

mod files;
mod jit;

use super::functions::Functions;
use super::kernel::KernelSymbols;
use super::maps::{self, BYTES_BEFORE, INSTRUCTION_BYTES, Mapping, Mappings, Memory};
use super::polling::Place;
use jit::PerfMap;
use linerate_record::why::Unread;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A function of a process or of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FunctionName {
    pub name: String,
    pub file: String,
}

/// Size of a spot in bytes, unless requested otherwise: functions are aligned to it.
const SPOT_BYTES: u64 = 16;
/// Size of a place in bytes.
const PLACE_BYTES: u64 = 64;
/// Maximum number of files whose functions are read; functions in further files are named by
/// address.
const MAX_FILES: usize = 256;
/// File name of kernel functions.
pub(crate) const KERNEL: &str = "kernel";
/// File name of functions that a program generated at run time and named itself.
const JIT: &str = "[jit]";
/// Function and file name of generated code without names.
const ANONYMOUS: &str = "[anon]";

/// Location of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Region {
    Kernel,
    /// A file, by number.
    File(u32),
    /// Code that a program generated, by number; the position is its address.
    Generated(u32),
    /// Code without functions, by number: `[vdso]`.
    Named(u32),
}

/// Symbols of all sampled processes.
#[derive(Debug)]
pub(crate) struct Spots {
    /// Size of a spot in bytes.
    grain: u64,
    /// Spots by number: a region, and an offset in it.
    spots: Vec<(Region, u64)>,
    numbers: HashMap<(Region, u64), u32>,
    processes: HashMap<u32, Process>,
    files: Vec<MappedFile>,
    generated: Vec<Generated>,
    /// File numbers by device and inode.
    file_numbers: HashMap<(String, u64), u32>,
    names: Vec<FunctionName>,
    /// Shared mappings by device and inode.
    shared_numbers: HashMap<(String, u64), u32>,
}

impl Default for Spots {
    fn default() -> Self {
        Self {
            grain: SPOT_BYTES,
            spots: Vec::new(),
            numbers: HashMap::new(),
            processes: HashMap::new(),
            files: Vec::new(),
            generated: Vec::new(),
            file_numbers: HashMap::new(),
            names: Vec::new(),
            shared_numbers: HashMap::new(),
        }
    }
}

/// A file with code.
#[derive(Debug)]
struct MappedFile {
    name: String,
    path: String,
    /// The file, or the reason why it cannot be read.
    file: Result<File, String>,
}

/// Code that a program generated at run time.
#[derive(Debug)]
struct Generated {
    pid: u32,
    /// Its perf map file, once it exists.
    map: Option<File>,
}

#[derive(Debug, Default)]
struct Process {
    mappings: Mappings,
    /// Whether the mappings were read in this slice.
    is_fresh: bool,
    /// Spots of addresses seen.
    spots: HashMap<u64, u32>,
    /// Number of the code that it generated.
    generated: Option<u32>,
}

impl Spots {
    /// Spots of one byte: callers are found by the byte before the return address, which may be the
    /// last of a function.
    pub(crate) fn of_bytes() -> Self {
        Self { grain: 1, ..Self::default() }
    }

    /// Whether an address of a process is in code: a damaged call chain contains other addresses.
    pub(crate) fn is_code(&self, pid: u32, address: u64) -> bool {
        let known = self.processes.get(&pid);
        known.is_some_and(|process| maps::find(&process.mappings.code, address).is_some())
    }

    /// Adds code that a process has mapped, replacing what was there.
    pub(crate) fn map(&mut self, pid: u32, mapping: Mapping) {
        let process = self.processes.entry(pid).or_default();
        let is_there = |address: &u64| (mapping.start..mapping.end).contains(address);
        process.spots.retain(|address, _| !is_there(address));
        maps::insert(&mut process.mappings.code, mapping);
    }

    /// Handles execve(2): the old mappings are gone.
    pub(crate) fn begin_program(&mut self, pid: u32) {
        self.processes.insert(pid, Process::default());
    }

    /// Handles fork(2): the child inherits the mappings.
    pub(crate) fn fork(&mut self, parent: u32, child: u32) {
        let mappings = self.processes.get(&parent).map(|process| process.mappings.clone());
        let process = Process { mappings: mappings.unwrap_or_default(), ..Process::default() };
        self.processes.insert(child, process);
    }

    /// Allows mappings to be read again for addresses outside all known ones.
    pub(crate) fn begin_slice(&mut self) {
        self.processes.values_mut().for_each(|process| process.is_fresh = false);
        self.open_perf_maps();
    }

    /// Opens perf map files that have appeared, for processes that still run the same program.
    fn open_perf_maps(&mut self) {
        for (number, generated) in self.generated.iter_mut().enumerate() {
            let process = self.processes.get(&generated.pid);
            let is_same = process.is_some_and(|now| now.generated == Some(number as u32));
            if generated.map.is_none() && is_same {
                generated.map = jit::open(generated.pid);
            }
        }
    }

    /// Reads the mappings of a process while it exists.
    pub(crate) fn learn(&mut self, pid: u32) {
        self.processes.entry(pid).or_insert_with(|| Process::read(pid));
    }

    /// Spot of an address in a process.
    pub(crate) fn spot(&mut self, pid: u32, address: u64, is_kernel: bool) -> u32 {
        if is_kernel {
            return self.number(Region::Kernel, address);
        }
        let process = self.processes.entry(pid).or_insert_with(|| Process::read(pid));
        if let Some(&spot) = process.spots.get(&address) {
            return spot;
        }
        if maps::find(&process.mappings.code, address).is_none() && !process.is_fresh {
            process.read_again(pid);
        }
        let spot = match maps::find(&process.mappings.code, address).cloned() {
            None => self.named("[unknown]", "[unknown]"),
            Some(mapping) if self.is_generated(pid, &mapping) => {
                let generated = self.generated(pid);
                self.number(Region::Generated(generated), address)
            }
            Some(mapping) if mapping.name().starts_with('[') => {
                self.named(mapping.name(), mapping.name())
            }
            Some(mapping) => {
                let file = self.file(pid, &mapping);
                self.number(Region::File(file), address - mapping.start + mapping.offset)
            }
        };
        self.processes.entry(pid).or_default().spots.insert(address, spot);
        spot
    }

    /// The code mapping that contains an address of a process, and the number of its file; `None`
    /// for code outside files.
    pub(crate) fn module(&mut self, pid: u32, address: u64) -> Option<(Mapping, u32)> {
        let mapping = maps::find(&self.processes.get(&pid)?.mappings.code, address)?.clone();
        if mapping.name().starts_with('[') || self.is_generated(pid, &mapping) {
            return None;
        }
        let number = self.file(pid, &mapping);
        Some((mapping, number))
    }

    /// A file with code, if it can be read.
    pub(crate) fn file_of(&self, number: u32) -> Option<&File> {
        self.files[number as usize].file.as_ref().ok()
    }

    /// Code before an address in a process, and of the instruction there; truncated at the ends of
    /// its file. `None` for code outside files.
    pub(super) fn code(&mut self, pid: u32, address: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let mapping = maps::find(&self.processes.get(&pid)?.mappings.code, address)?.clone();
        if mapping.name().starts_with('[') {
            return None;
        }
        let number = self.file(pid, &mapping);
        let file = self.files[number as usize].file.as_ref().ok()?;
        let offset = address - mapping.start + mapping.offset;
        let before = (offset as usize).min(BYTES_BEFORE);
        let mut bytes = vec![0; before + INSTRUCTION_BYTES];
        let read = file.read_at(&mut bytes, offset - before as u64).ok()?;
        bytes.truncate(read);
        let code = bytes.split_off(before.min(read));
        Some((bytes, code))
    }

    /// Memory identity and offset of an address in a process.
    pub(super) fn memory(&mut self, pid: u32, address: u64) -> (Memory, u64) {
        let mappings = self.processes.get(&pid).map(|process| &process.mappings.shared);
        let Some(mapping) = mappings.and_then(|shared| maps::find(shared, address)) else {
            return (Memory::Process(pid), address);
        };
        let next = self.shared_numbers.len() as u32;
        let key = (mapping.device.clone(), mapping.inode);
        let at = address - mapping.start + mapping.offset;
        (Memory::Shared(*self.shared_numbers.entry(key).or_insert(next)), at)
    }

    /// Spot of something without an address.
    pub(crate) fn named(&mut self, name: &str, file: &str) -> u32 {
        let name = FunctionName { name: name.to_owned(), file: file.to_owned() };
        let known = self.names.iter().position(|known| *known == name);
        let number = known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        self.number(Region::Named(number as u32), 0)
    }

    fn file(&mut self, pid: u32, mapping: &Mapping) -> u32 {
        let next = self.files.len() as u32;
        let key = (mapping.device.clone(), mapping.inode);
        let number = *self.file_numbers.entry(key).or_insert(next);
        if number == next {
            let file = match self.files.len() < MAX_FILES {
                true => files::open(pid, mapping),
                false => Err(format!("more than {MAX_FILES} files")),
            };
            let (name, path) = (mapping.name().to_owned(), mapping.path.clone());
            self.files.push(MappedFile { name, path, file });
        }
        number
    }

    /// Whether the code of a mapping was generated at run time.
    fn is_generated(&self, pid: u32, mapping: &Mapping) -> bool {
        let is_known = self.file_numbers.contains_key(&(mapping.device.clone(), mapping.inode));
        !is_known && files::is_generated(pid, mapping)
    }

    /// Returns the number of the code that a process generated.
    fn generated(&mut self, pid: u32) -> u32 {
        let next = self.generated.len() as u32;
        let process = self.processes.entry(pid).or_default();
        let number = *process.generated.get_or_insert(next);
        if number == next {
            self.generated.push(Generated { pid, map: jit::open(pid) });
        }
        number
    }

    fn number(&mut self, region: Region, position: u64) -> u32 {
        let spot = (region, position / self.grain * self.grain);
        let next = self.spots.len() as u32;
        let number = *self.numbers.entry(spot).or_insert(next);
        if number == next {
            self.spots.push(spot);
        }
        number
    }

    /// What has no function names, and why. Only sampled files are opened.
    fn unread(&self) -> Vec<Unread> {
        let of_file = |one: &MappedFile| {
            let reason = one.file.as_ref().err()?;
            Some(Unread {
                what: "names".to_owned(),
                reason: format!("functions of {} have no names: {reason}", one.path),
                fix: Some(
                    "run as root, which can read deleted files and files of containers".to_owned(),
                ),
            })
        };
        let of_process = |one: &Generated| {
            let pid = one.pid;
            one.map.is_none().then(|| Unread {
                what: "names".to_owned(),
                reason: format!(
                    "code generated by process {pid} has no names: no perf map file in /tmp"
                ),
                fix: Some(
                    "node --perf-basic-prof, python3 -X perf, jcmd PID Compiler.perfmap".to_owned(),
                ),
            })
        };
        let files = self.files.iter().filter_map(of_file);
        files.chain(self.generated.iter().filter_map(of_process)).collect()
    }

    /// Resolves the functions and places of all spots, after the window.
    pub(crate) fn resolve(mut self) -> Names {
        self.open_perf_maps();
        let of_kernel = self.spots.iter().filter(|(region, _)| *region == Region::Kernel);
        let grain = self.grain;
        let addresses = of_kernel.map(|(_, position)| last_byte(*position, grain)).collect();
        let kernel = kernel_symbols(addresses);
        let mut names = Names { unread: self.unread(), ..Names::default() };
        let of_file = |one: MappedFile| (one.name, one.file.ok().and_then(Functions::read));
        let files: Vec<_> = self.files.into_iter().map(of_file).collect();
        let of_map = |one: Generated| one.map.map(PerfMap::read);
        let maps: Vec<_> = self.generated.into_iter().map(of_map).collect();
        let mut place_numbers = HashMap::new();
        let mut function_numbers = HashMap::new();
        for (region, position) in self.spots {
            let (name, offset) = match region {
                Region::Kernel => kernel_function(&kernel, position, grain),
                Region::File(number) => user_function(&files[number as usize], position, grain),
                Region::Generated(number) => {
                    generated_function(maps[number as usize].as_ref(), position, grain)
                }
                Region::Named(number) => (self.names[number as usize].clone(), 0),
            };
            let is_kernel = name.file == KERNEL;
            let next = names.functions.len() as u32;
            let function = *function_numbers.entry(name.clone()).or_insert(next);
            if function == next {
                names.functions.push(name);
            }
            let next = names.places.len() as u32;
            let place = *place_numbers.entry((function, offset / PLACE_BYTES)).or_insert(next);
            if place == next {
                names.places.push(Place { function, is_kernel });
            }
            names.of_spots.push(place);
        }
        names
    }
}

/// Functions and places by number.
#[derive(Default)]
pub(crate) struct Names {
    /// What has no function names, and why.
    pub unread: Vec<Unread>,
    pub functions: Vec<FunctionName>,
    pub places: Vec<Place>,
    /// The place of each spot.
    pub of_spots: Vec<u32>,
}

impl Names {
    /// Number of the function at a spot.
    pub(crate) fn function_of(&self, spot: u32) -> u32 {
        self.places[self.of_spots[spot as usize] as usize].function
    }

    /// The name of the function at a spot.
    pub(super) fn name_of(&self, spot: u32) -> &str {
        let place = self.of_spots[spot as usize];
        &self.functions[self.places[place as usize].function as usize].name
    }
}

/// The byte that determines the name of a kernel spot: the function that covers most of the spot
/// contains its last byte.
fn last_byte(spot: u64, grain: u64) -> u64 {
    spot.saturating_add(grain - 1)
}

fn kernel_symbols(addresses: BTreeSet<u64>) -> KernelSymbols {
    if addresses.is_empty() {
        return KernelSymbols::default();
    }
    let list = File::open("/proc/kallsyms");
    list.map(|list| KernelSymbols::read(list, addresses)).unwrap_or_default()
}

/// Name of a kernel function, and the offset of `address` in the function.
fn kernel_function(kernel: &KernelSymbols, address: u64, grain: u64) -> (FunctionName, u64) {
    let found = kernel.find(last_byte(address, grain));
    let (start, name) = found.unwrap_or((address, "[kernel]"));
    let name = FunctionName { name: name.to_owned(), file: KERNEL.to_owned() };
    (name, address.saturating_sub(start))
}

/// Name of a function in a file, and the position of `offset` in the function. A function without a
/// symbol is named after its first address, or after that of the spot if its start is unknown.
fn user_function(
    file: &(String, Option<Functions>),
    offset: u64,
    grain: u64,
) -> (FunctionName, u64) {
    let (file, functions) = file;
    let address = functions.as_ref().and_then(|functions| functions.address_of(offset));
    let at = |address: u64| functions.as_ref()?.find(address);
    let found = address.and_then(|address| at(address).or_else(|| at(last_byte(address, grain))));
    let start = found.as_ref().map_or(address.unwrap_or(offset), |function| function.start);
    let name = found.and_then(|function| function.name);
    let name = name.unwrap_or_else(|| format!("{file}+{start:#x}"));
    (FunctionName { name, file: file.clone() }, address.unwrap_or(offset).saturating_sub(start))
}

/// The name of a generated function, and the offset of `address` in it.
fn generated_function(map: Option<&PerfMap>, address: u64, grain: u64) -> (FunctionName, u64) {
    let found =
        map.and_then(|map| map.find(address).or_else(|| map.find(last_byte(address, grain))));
    let (start, name, file) = match found {
        Some((start, name)) => (start, name, JIT),
        None => (address, ANONYMOUS.to_owned(), ANONYMOUS),
    };
    (FunctionName { name, file: file.to_owned() }, address.saturating_sub(start))
}

impl Process {
    fn read(pid: u32) -> Self {
        let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let mappings = maps::parse(&String::from_utf8_lossy(&text));
        Self { mappings, is_fresh: true, ..Self::default() }
    }

    /// Reads the mappings again; keeps the known ones if the process has exited.
    fn read_again(&mut self, pid: u32) {
        let now = Self::read(pid);
        match now.mappings.code.is_empty() {
            true => self.is_fresh = true,
            false => *self = Self { generated: self.generated, ..now },
        }
    }
}
