// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the address of a sample to its function and its place, by numbers: which process has what
//! mapped there, and which function of that file it is.

use super::functions::Functions;
use super::kernel::KernelSymbols;
use super::maps::{self, Mapping};
use super::polling::Place;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// A function of a process or of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FunctionName {
    pub name: String,
    pub file: String,
}

/// Bytes of code that are a place of their own.
const PLACE_BYTES: u64 = 64;
/// Files whose functions are read; those beyond are named by their addresses.
const MAX_FILES: usize = 256;
/// The file of kernel functions.
pub(super) const KERNEL: &str = "kernel";

/// What is known of the code of all processes.
#[derive(Default)]
pub(super) struct Names {
    /// By number.
    pub functions: Vec<FunctionName>,
    numbers: HashMap<FunctionName, u32>,
    /// By number.
    pub places: Vec<Place>,
    place_numbers: HashMap<(u32, u64), u32>,
    processes: HashMap<u32, Process>,
    /// By device and inode.
    files: HashMap<(String, u64), Option<Functions>>,
    kernel: Option<KernelSymbols>,
    kernel_places: HashMap<u64, u32>,
}

#[derive(Default)]
struct Process {
    mappings: Vec<Mapping>,
    /// Whether the mappings were read in this slice.
    is_fresh: bool,
    /// Places of addresses that were met.
    places: HashMap<u64, u32>,
}

impl Names {
    /// Lets mappings be read again where an address is in none of those known.
    pub(super) fn begin_slice(&mut self) {
        self.processes.values_mut().for_each(|process| process.is_fresh = false);
    }

    /// Reads what a process has mapped, while it is there.
    pub(super) fn learn(&mut self, pid: u32) {
        self.processes.entry(pid).or_insert_with(|| Process::read(pid));
    }

    /// The number of the place at an address of a process.
    pub(super) fn place(&mut self, pid: u32, address: u64, is_kernel: bool) -> u32 {
        if is_kernel {
            return self.kernel_place(address);
        }
        self.learn(pid);
        let process = self.processes.entry(pid).or_default();
        if let Some(&place) = process.places.get(&address) {
            return place;
        }
        if maps::find(&process.mappings, address).is_none() && !process.is_fresh {
            *process = Process::read(pid);
        }
        let mapping = maps::find(&process.mappings, address).cloned();
        let (start, name) = self.user_function(pid, address, mapping);
        let place = self.number_place(name, start, address, false);
        self.processes.entry(pid).or_default().places.insert(address, place);
        place
    }

    /// A place for what was not sampled.
    pub(super) fn place_of(&mut self, name: &str, file: &str, is_kernel: bool) -> u32 {
        let name = FunctionName { name: name.to_owned(), file: file.to_owned() };
        self.number_place(name, 0, 0, is_kernel)
    }

    fn kernel_place(&mut self, address: u64) -> u32 {
        if let Some(&place) = self.kernel_places.get(&address) {
            return place;
        }
        let symbols = self.kernel.get_or_insert_with(|| {
            KernelSymbols::parse(std::fs::read_to_string("/proc/kallsyms").unwrap_or_default())
        });
        let (start, name) = symbols.find(address).unwrap_or((0, "[kernel]"));
        let name = FunctionName { name: name.to_owned(), file: KERNEL.to_owned() };
        let place = self.number_place(name, start, address, true);
        self.kernel_places.insert(address, place);
        place
    }

    /// The first address and the name of a function of a process.
    fn user_function(
        &mut self,
        pid: u32,
        address: u64,
        mapping: Option<Mapping>,
    ) -> (u64, FunctionName) {
        let Some(mapping) = mapping else {
            let unknown = "[unknown]".to_owned();
            return (0, FunctionName { name: unknown.clone(), file: unknown });
        };
        let file = mapping.name().to_owned();
        if file.starts_with('[') {
            return (0, FunctionName { name: file.clone(), file });
        }
        let offset = address - mapping.start + mapping.offset;
        let may_read = self.files.len() < MAX_FILES;
        let key = (mapping.device.clone(), mapping.inode);
        let read = || open(pid, &mapping).filter(|_| may_read).and_then(Functions::read);
        let functions = self.files.entry(key).or_insert_with(read).as_ref();
        let in_file = functions.and_then(|functions| functions.address_of(offset));
        let found = functions.and_then(|functions| functions.find(in_file?));
        let start = found.as_ref().map_or(in_file.unwrap_or(offset), |function| function.start);
        let name = found.and_then(|function| function.name);
        let name = name.unwrap_or_else(|| format!("{file}+{start:#x}"));
        (
            address.wrapping_sub(in_file.unwrap_or(offset).wrapping_sub(start)),
            FunctionName { name, file },
        )
    }

    /// The number of the place at `address` of the function that begins at `start`.
    fn number_place(
        &mut self,
        name: FunctionName,
        start: u64,
        address: u64,
        is_kernel: bool,
    ) -> u32 {
        let next = self.functions.len() as u32;
        let function = *self.numbers.entry(name.clone()).or_insert(next);
        if function == next {
            self.functions.push(name);
        }
        let next = self.places.len() as u32;
        let block = address.wrapping_sub(start) / PLACE_BYTES;
        let place = *self.place_numbers.entry((function, block)).or_insert(next);
        if place == next {
            self.places.push(Place { function, is_kernel });
        }
        place
    }
}

impl Process {
    fn read(pid: u32) -> Self {
        let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let mappings = maps::parse(&String::from_utf8_lossy(&text));
        Self { mappings, is_fresh: true, places: HashMap::new() }
    }
}

/// The file of a mapping, as its process sees it: the mapped one itself, also where another has its
/// name now; else the one of that name, if it is the same.
fn open(pid: u32, mapping: &Mapping) -> Option<File> {
    let Mapping { start, end, .. } = mapping;
    let itself = File::open(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
    if let Ok(file) = itself {
        return Some(file);
    }
    let file = File::open(format!("/proc/{pid}/root{}", mapping.path)).ok()?;
    file.metadata().is_ok_and(|meta| meta.ino() == mapping.inode && meta.is_file()).then_some(file)
}
