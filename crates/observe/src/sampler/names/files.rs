// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens files mapped by a process as the process sees them: in its mount namespace, below its
//! root, even if they have since been deleted or replaced.

use super::super::maps::{self, Mapping};
use linerate_linux::open_regular_file;
use std::fs::{File, read_link};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Suffix added by the kernel to the path of a deleted file.
const DELETED: &str = " (deleted)";
const ELF: &[u8; 4] = b"\x7fELF";

/// Opens the file of a mapping. The error is the reason to report.
pub(crate) fn open(pid: u32, mapping: &Mapping) -> Result<File, String> {
    let Mapping { start, end, .. } = mapping;
    let path = mapping.path.strip_suffix(DELETED).unwrap_or(&mapping.path);
    // The mapped file itself, whatever its path refers to now. Requires root or
    // CAP_CHECKPOINT_RESTORE.
    if let Ok(file) = open_regular_file(format!("/proc/{pid}/map_files/{start:x}-{end:x}")) {
        return Ok(file);
    }
    let has_inode = |file: &File| file.metadata().is_ok_and(|meta| meta.ino() == mapping.inode);
    // The program's executable, which its user may read through /proc/PID/exe.
    let program = format!("/proc/{pid}/exe");
    let is_program = read_link(&program).is_ok_and(|link| is_path(&link, path));
    if let Some(file) =
        open_regular_file(&program).ok().filter(|file| is_program && has_inode(file))
    {
        return Ok(file);
    }
    let of_process = open_regular_file(format!("/proc/{pid}/root{path}"));
    // On some container file systems, inodes in /proc differ from those of stat(2). If the path is
    // still mapped at this address, the file at that path is the right one.
    match of_process {
        Ok(file) if has_inode(&file) || is_mapped(pid, *start, path) => return Ok(file),
        _ => {}
    }
    // If the process has exited, the file usually still exists.
    match open_regular_file(path) {
        Ok(file) if has_inode(&file) => Ok(file),
        Ok(_) => Err("the file was replaced after it was mapped".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("the file was deleted, or is in another mount namespace".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn is_path(link: &Path, path: &str) -> bool {
    let link = link.to_string_lossy();
    link.strip_suffix(DELETED).unwrap_or(&link) == path
}

/// Returns whether a process has the file at this path mapped at `start`, undeleted.
fn is_mapped(pid: u32, start: u64, path: &str) -> bool {
    let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mappings = maps::parse(&String::from_utf8_lossy(&text));
    maps::find(&mappings.code, start).is_some_and(|mapping| mapping.path == path)
}

/// Returns whether a mapping's code was generated at run time, that is, is in no file or in a
/// memory file that is not ELF.
pub(super) fn is_generated(pid: u32, mapping: &Mapping) -> bool {
    let is_program = || {
        let mut magic = [0; ELF.len()];
        open(pid, mapping).is_ok_and(|file| file.read_at(&mut magic, 0).is_ok() && magic == *ELF)
    };
    mapping.name() == "[anon]" || (mapping.path.starts_with("/memfd:") && !is_program())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mapping of this test's own code.
    fn own() -> Mapping {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let address = own as fn() -> Mapping as usize as u64;
        maps::find(&maps::parse(&text).code, address).unwrap().clone()
    }

    #[test]
    fn a_mapped_file_is_opened_and_another_of_its_name_is_not() {
        let pid = std::process::id();
        let inode = |file: File| file.metadata().unwrap().ino();
        assert_eq!(inode(open(pid, &own()).unwrap()), own().inode);
        // Where nothing is mapped, only path and inode identify the file.
        let elsewhere = Mapping { start: 0x1000, end: 0x2000, ..own() };
        assert_eq!(inode(open(pid, &elsewhere).unwrap()), own().inode);
        let other = Mapping { inode: 1, ..elsewhere.clone() };
        assert_eq!(open(pid, &other).unwrap_err(), "the file was replaced after it was mapped");
        let gone = Mapping { path: "/no/such/file".to_owned(), ..elsewhere };
        assert!(open(pid, &gone).unwrap_err().starts_with("the file was deleted"));
    }

    #[test]
    fn only_code_without_a_program_file_counts_as_generated() {
        let pid = std::process::id();
        assert!(!is_generated(pid, &own()));
        let anonymous = Mapping { path: String::new(), inode: 0, ..own() };
        assert!(is_generated(pid, &anonymous));
        let vdso = Mapping { path: "[vdso]".to_owned(), inode: 0, ..own() };
        assert!(!is_generated(pid, &vdso));
        let in_memory = Mapping { path: "/memfd:jit (deleted)".to_owned(), start: 1, ..own() };
        assert!(is_generated(pid, &in_memory));
    }
}
