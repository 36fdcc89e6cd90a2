// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel functions cached on disk, in a directory that does not survive a reboot. Reading the
//! kernel's own list takes a hundred times as long.
//!
//! The file is valid for one boot and one set of loaded modules, which form its key. It only covers
//! addresses between the first and last function of the kernel image or a module, since other code
//! (BPF programs, trampolines) comes and goes without changing the key.
//!
//! ```text
//! magic, lengths of the parts (u32)
//! key
//! (first, last) address of each contiguous range (u64)
//! start of each function, ascending (u64)
//! end of each name in the text of all names (u32)
//! names, one after the other
//! ```

use crate::procfs;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// First bytes of the file. The digit is the layout version.
const MAGIC: [u8; 8] = *b"lr-ksym1";
const FILE: &str = "kernel-symbols";
/// Size of the magic and the four lengths.
const HEAD_BYTES: usize = 8 + 4 * 4;
/// Maximum size of a file to read: ten times that of a large kernel.
const MAX_BYTES: u64 = 64 << 20;

/// Returns the directory for the file, which is emptied on reboot and writable only by this user:
/// `/run` for root, otherwise the user's runtime directory.
pub(super) fn folder() -> Option<PathBuf> {
    match procfs::user()? {
        0 => Some(PathBuf::from("/run/linerate")),
        _ => std::env::var_os("XDG_RUNTIME_DIR")
            .filter(|folder| !folder.is_empty())
            .map(|folder| Path::new(&folder).join("linerate")),
    }
}

/// Identifies the running kernel's code by the boot ID and by the name, size and address of each
/// module.
pub(super) fn key() -> Option<String> {
    let mut key = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // Kernels without module support lack this file.
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    for line in modules.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // Fields: name, size, reference count, dependent modules, state, address. Reference counts
        // change all the time.
        if let [name, size, _, _, _, address, ..] = words[..] {
            key.extend([name, " ", size, " ", address, "\n"]);
        }
    }
    Some(key)
}

/// A new file, which is moved into place once complete.
pub(super) struct NewFile {
    file: File,
    /// Temporary name, next to the final one.
    path: PathBuf,
}

impl NewFile {
    /// Creates the file, and the directory if it is missing.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created or written to.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let path = folder.join(format!("{FILE}.{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path })
    }

    /// Writes the functions, and renames the file to its final name.
    ///
    /// # Errors
    /// Returns an error if the file system is full or the directory is gone.
    pub(super) fn write(mut self, kept: &Kept, key: &str) -> io::Result<()> {
        self.file.write_all(&kept.bytes(key))?;
        fs::rename(&self.path, self.path.with_file_name(FILE))
    }
}

impl Drop for NewFile {
    /// Removes an incomplete file; a complete one has been renamed.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Functions of the kernel image and its modules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// Start of the first and last function of the image, and of each module.
    ranges: Vec<(u64, u64)>,
    /// Function starts, in ascending order.
    starts: Vec<u64>,
    /// End of each name within `names`.
    ends: Vec<u32>,
    names: Vec<u8>,
}

impl Kept {
    /// Builds the table from all code symbols: start, name, and module (`None` for the image).
    pub(super) fn build<'a>(
        symbols: impl IntoIterator<Item = (u64, &'a str, Option<&'a str>)>,
    ) -> Self {
        let mut kept = Self::default();
        let mut all: Vec<(u64, &str, Option<&str>)> = symbols.into_iter().collect();
        // If several functions have the same start, the name of the last one in the list is used,
        // as when streaming.
        all.sort_by_key(|(start, _, _)| *start);
        let mut last = None;
        for (start, name, module) in all {
            if module.is_some_and(|module| module == "bpf" || module.starts_with("__")) {
                last = None;
                continue;
            }
            match kept.ranges.last_mut() {
                Some(range) if last == Some(module) => range.1 = start,
                _ => kept.ranges.push((start, start)),
            }
            last = Some(module);
            if kept.starts.last() == Some(&start) {
                kept.starts.pop();
                kept.ends.pop();
                kept.names.truncate(kept.ends.last().map_or(0, |end| *end as usize));
            }
            kept.starts.push(start);
            kept.names.extend_from_slice(name.as_bytes());
            kept.ends.push(kept.names.len() as u32);
        }
        kept
    }

    /// Returns the start and name of the function at an address; `None` outside of all ranges.
    pub(super) fn find(&self, address: u64) -> Option<(u64, &str)> {
        let range = self.ranges.partition_point(|(first, _)| *first <= address).checked_sub(1)?;
        if address > self.ranges.get(range)?.1 {
            return None;
        }
        let at = self.starts.partition_point(|start| *start <= address).checked_sub(1)?;
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        let name = self.names.get(from..self.ends[at] as usize)?;
        Some((self.starts[at], std::str::from_utf8(name).ok()?))
    }

    /// Reads the file in `folder`, if it belongs to this user and has this key.
    pub(super) fn read(folder: &Path, key: &str) -> Option<Self> {
        let file = File::open(folder.join(FILE)).ok()?;
        let found = file.metadata().ok()?;
        let is_own = Some(found.uid()) == procfs::user() && found.mode() & 0o022 == 0;
        if !is_own || !found.is_file() || found.len() > MAX_BYTES {
            return None;
        }
        let mut bytes = Vec::with_capacity(found.len() as usize);
        file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        Self::parse(&bytes, key)
    }

    fn bytes(&self, key: &str) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for length in [key.len(), self.ranges.len(), self.starts.len(), self.names.len()] {
            bytes.extend((length as u32).to_ne_bytes());
        }
        bytes.extend(key.as_bytes());
        let of_ranges = self.ranges.iter().flat_map(|(first, last)| [first, last]);
        bytes.extend(of_ranges.chain(&self.starts).flat_map(|number| number.to_ne_bytes()));
        bytes.extend(self.ends.iter().flat_map(|end| end.to_ne_bytes()));
        bytes.extend(&self.names);
        bytes
    }

    /// Parses a file; `None` if it is damaged or has another key.
    fn parse(bytes: &[u8], key: &str) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let (magic, lengths) = head.split_at(MAGIC.len());
        let lengths: Vec<usize> = numbers(lengths).into_iter().map(|n: u32| n as usize).collect();
        let [of_key, ranges, starts, of_names] = lengths[..] else { return None };
        let (found, rest) = rest.split_at_checked(of_key)?;
        if magic != MAGIC || found != key.as_bytes() {
            return None;
        }
        let (range_bytes, rest) = rest.split_at_checked(ranges.checked_mul(16)?)?;
        let (start_bytes, rest) = rest.split_at_checked(starts.checked_mul(8)?)?;
        let (end_bytes, names) = rest.split_at_checked(starts.checked_mul(4)?)?;
        let pairs: Vec<u64> = numbers(range_bytes);
        let kept = Self {
            ranges: pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
            starts: numbers(start_bytes),
            ends: numbers(end_bytes),
            names: names.to_vec(),
        };
        (names.len() == of_names).then_some(kept)
    }
}

/// Parses integers in native byte order.
fn numbers<T: Number>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(T::from_bytes).collect()
}

trait Number {
    fn from_bytes(bytes: &[u8]) -> Self;
}

impl Number for u32 {
    fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_ne_bytes(bytes.try_into().unwrap_or_default())
    }
}

impl Number for u64 {
    fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_ne_bytes(bytes.try_into().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    const KEY: &str = "boot\nmodule 100 0xc000\n";

    fn write(folder: &Path, kept: &Kept) {
        NewFile::create(folder).unwrap().write(kept, KEY).unwrap();
    }

    fn kept() -> Kept {
        Kept::build([
            (0x2000, "second", None),
            (0x1000, "first", None),
            (0x9000, "trampoline", Some("__builtin__ftrace")),
            (0xa000, "bpf_prog", Some("bpf")),
            (0xc000, "of_module", Some("module")),
            (0xc100, "alias", Some("module")),
            (0xc100, "last", Some("module")),
        ])
    }

    #[test]
    fn finds_functions_of_the_image_and_of_modules_only() {
        let kept = kept();
        assert_eq!(kept.find(0x1fff), Some((0x1000, "first")));
        assert_eq!(kept.find(0x2000), Some((0x2000, "second")));
        assert_eq!(kept.find(0xc0ff), Some((0xc000, "of_module")));
        assert_eq!(kept.find(0xc100), Some((0xc100, "last")));
        // The end of the last function is unknown; BPF programs change without a new key.
        for outside in [0xfff, 0x2001, 0x9000, 0xa000, 0xbfff, 0xc101] {
            assert_eq!(kept.find(outside), None, "{outside:#x}");
        }
    }

    #[test]
    fn a_file_is_read_only_with_its_own_key() {
        let folder = tempfile::tempdir().unwrap();
        let nested = folder.path().join("linerate");
        write(&nested, &kept());
        assert_eq!(Kept::read(&nested, KEY), Some(kept()));
        assert_eq!(Kept::read(&nested, "another boot"), None);
        assert_eq!(Kept::read(folder.path(), KEY), None);
        drop(NewFile::create(&nested).unwrap());
        assert_eq!(Kept::read(&nested, KEY), Some(kept()));
        // Replaced by a second write; nothing else remains in the directory.
        write(&nested, &Kept::default());
        assert_eq!(Kept::read(&nested, KEY), Some(Kept::default()));
        assert_eq!(fs::read_dir(&nested).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_others_may_write_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &kept());
        let file = folder.path().join(FILE);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o622)).unwrap();
        assert_eq!(Kept::read(folder.path(), KEY), None);
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_rejected_or_answers(
            at in 0..400_usize,
            byte: u8,
            length in 0..400_usize,
            address in 0..0x1_0000_u64,
        ) {
            let mut bytes = kept().bytes(KEY);
            if let Some(old) = bytes.get_mut(at) {
                *old = byte;
            }
            bytes.truncate(length);
            if let Some(kept) = Kept::parse(&bytes, KEY) {
                let _ = kept.find(address);
            }
        }
    }
}
