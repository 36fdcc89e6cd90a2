// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolves sampled code locations to functions and code blocks. Symbol tables are read once, even
//! if many windows use them.

use super::jit::PerfMap;
use crate::sampler::functions::Functions;
use crate::sampler::kernel::Kernel;
use crate::sampler::polling::Place;
use linerate_record::why::Unread;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Seek;
use std::os::unix::fs::FileExt;

/// A function of a process or of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FunctionName {
    pub name: String,
    pub file: String,
}

/// Size of a code block in bytes.
const PLACE_BYTES: u64 = 64;
/// File name of kernel functions.
pub(crate) const KERNEL: &str = "kernel";
/// File name of functions that a program generated at run time and named itself.
const JIT: &str = "[jit]";
/// Function and file name of generated code without names.
const ANONYMOUS: &str = "[anon]";

/// Functions and code blocks (places), indexed by number.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Code without function names, and the reason.
    pub unread: Vec<Unread>,
    /// Whether kernel code was sampled, but the kernel hides all of its names.
    pub hides_kernel: bool,
    pub functions: Vec<FunctionName>,
    pub places: Vec<Place>,
    /// Code block number of each code location (spot).
    pub of_spots: Vec<u32>,
    /// Position in a file of each code location (spot); `None` for code that is not in a file.
    pub locations: Vec<Option<Location>>,
    /// Files with code, indexed by file number, if they can be read.
    files: Vec<Option<File>>,
}

/// Code in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Location {
    /// File number.
    pub file: u32,
    /// File offset of the first byte of the function, or of the code location if the function is
    /// unknown.
    pub start: u64,
    /// Offset of the code location in the function.
    pub offset: u64,
}

impl Names {
    /// Returns the index of the function that contains a code location.
    pub(crate) fn function_of(&self, spot: u32) -> u32 {
        self.places[self.of_spots[spot as usize] as usize].function
    }

    /// Returns up to `bytes` bytes of code from an offset in a file; fewer at the end of the file.
    pub(crate) fn code(&self, file: u32, start: u64, bytes: usize) -> Option<Vec<u8>> {
        let mut code = vec![0; bytes];
        let read = self.files.get(file as usize)?.as_ref()?.read_at(&mut code, start).ok()?;
        code.truncate(read);
        Some(code)
    }

    /// Returns the name of the function that contains a code location.
    pub(crate) fn name_of(&self, spot: u32) -> &str {
        let place = self.of_spots[spot as usize];
        &self.functions[self.places[place as usize].function as usize].name
    }
}

/// Symbol tables of the files and of the kernel, and the names found in them.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    pub(crate) names: Names,
    files: Vec<(String, Option<Functions>)>,
    /// Perf map files by number of the generated code (`Region::Generated`), each with its length
    /// when it was read; `None` if there was no file to read.
    maps: Vec<Option<(u64, PerfMap)>>,
    kernel: Kernel,
    /// Whether a kernel function was found.
    has_kernel_names: bool,
    place_numbers: HashMap<(u32, u64), u32>,
    function_numbers: HashMap<FunctionName, u32>,
}

impl Resolver {
    /// Reads the kernel functions at `addresses`.
    pub(super) fn read_kernel(&mut self, addresses: impl Iterator<Item = u64>) {
        let addresses: BTreeSet<u64> = addresses.collect();
        self.kernel.read(addresses.clone());
        self.has_kernel_names |=
            addresses.iter().any(|address| self.kernel.find(*address).is_some());
        self.names.hides_kernel |= !addresses.is_empty();
        self.names.hides_kernel &= !self.has_kernel_names;
    }

    /// Returns the functions of a file, if it has any.
    pub(crate) fn functions(&self, number: u32) -> Option<&Functions> {
        self.files.get(number as usize)?.1.as_ref()
    }

    /// Returns the number of files read.
    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    /// Reads the functions of the next file. `file` is `None` if it could not be opened.
    pub(super) fn add_file(&mut self, name: &str, file: Option<File>) {
        self.names.files.push(file.as_ref().and_then(|file| file.try_clone().ok()));
        self.files.push((name.to_owned(), file.and_then(Functions::read)));
    }

    /// Reads the perf map files that are new or have grown, in the order of their numbers.
    pub(super) fn read_maps(&mut self, files: impl Iterator<Item = Option<File>>) {
        for (number, file) in files.enumerate() {
            if self.maps.len() <= number {
                self.maps.push(None);
            }
            let Some(mut file) = file else { continue };
            let length = file.metadata().map_or(0, |data| data.len());
            let is_known = self.maps[number].as_ref().is_some_and(|(known, _)| *known == length);
            // The offset is shared with the descriptor that this one was duplicated from.
            if !is_known && file.rewind().is_ok() {
                self.maps[number] = Some((length, PerfMap::read(file)));
            }
        }
    }

    /// Adds the next code location, with its function and its offset in the function. `in_file` is
    /// the number of the file and the offset in it, if the code is in a file.
    pub(super) fn add_spot(
        &mut self,
        (name, offset): (FunctionName, u64),
        in_file: Option<(u32, u64)>,
    ) {
        self.names.locations.push(in_file.and_then(|(file, position)| {
            position.checked_sub(offset).map(|start| Location { file, start, offset })
        }));
        let names = &mut self.names;
        let is_kernel = name.file == KERNEL;
        let next = names.functions.len() as u32;
        let function = *self.function_numbers.entry(name.clone()).or_insert(next);
        if function == next {
            names.functions.push(name);
        }
        let next = names.places.len() as u32;
        let place = *self.place_numbers.entry((function, offset / PLACE_BYTES)).or_insert(next);
        if place == next {
            names.places.push(Place { function, is_kernel });
        }
        names.of_spots.push(place);
    }

    /// Returns the name of a kernel function, and the offset of `address` in it.
    pub(super) fn kernel_function(&self, address: u64, grain: u64) -> (FunctionName, u64) {
        let last = last_byte(address, grain);
        let (start, name) = self.kernel.find(last).unwrap_or((address, "[kernel]"));
        let name = FunctionName { name: name.to_owned(), file: KERNEL.to_owned() };
        (name, address.saturating_sub(start))
    }

    /// Returns the name of a function in a file, and the position of `offset` in the function. A
    /// function without a symbol is named after its first address, or after the address of the code
    /// location if the start is unknown.
    pub(super) fn user_function(
        &self,
        number: u32,
        offset: u64,
        grain: u64,
    ) -> (FunctionName, u64) {
        let (file, functions) = &self.files[number as usize];
        let address = functions.as_ref().and_then(|functions| functions.address_of(offset));
        let at = |address: u64| functions.as_ref()?.find(address);
        let found =
            address.and_then(|address| at(address).or_else(|| at(last_byte(address, grain))));
        let start = found.as_ref().map_or(address.unwrap_or(offset), |function| function.start);
        let name = found.and_then(|function| function.name);
        let name = name.unwrap_or_else(|| format!("{file}+{start:#x}"));
        let offset = address.unwrap_or(offset).saturating_sub(start);
        (FunctionName { name, file: file.clone() }, offset)
    }

    /// Returns the name of a generated function, and the offset of `address` in it.
    pub(super) fn generated_function(
        &self,
        number: u32,
        address: u64,
        grain: u64,
    ) -> (FunctionName, u64) {
        let map = self.maps.get(number as usize).and_then(|map| map.as_ref());
        let found = map
            .and_then(|(_, map)| map.find(address).or_else(|| map.find(last_byte(address, grain))));
        let (start, name, file) = match found {
            Some((start, name)) => (start, name, JIT),
            None => (address, ANONYMOUS.to_owned(), ANONYMOUS),
        };
        (FunctionName { name, file: file.to_owned() }, address.saturating_sub(start))
    }
}

/// Returns the address at which the function of a code location of `grain` bytes is looked up. This
/// is the last byte of the location, which is in the function that covers most of the location.
pub(super) fn last_byte(spot: u64, grain: u64) -> u64 {
    spot.saturating_add(grain - 1)
}
