// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the record's file up to date while the program runs, because data planes are usually
//! terminated by a signal.
//!
//! A background thread writes the record and replaces the file by rename, so that the file is
//! always complete, however the process ends. The thread adds no cost to entering and leaving
//! regions: it reads data that they store anyway. It handles none of the program's signals, avoids
//! CPUs with pinned measured threads, and runs at idle priority (SCHED_IDLE).

use linerate_linux::{allow_current_thread, run_only_when_idle};
use linerate_machine::parse_cpu_list;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, ptr, thread};

/// Thread name shown by ps(1) and gdb(1); at most 15 characters.
const NAME: &str = "linerate-record";

/// First pause between two updates. Each pause is twice as long as the previous one, so a program
/// that ends after the first update has a record of at least the first third of its run.
const FIRST: Duration = Duration::from_millis(50);

/// Longest pause between two updates, which limits how much data a long run can lose.
const LONGEST: Duration = Duration::from_secs(1);

/// Starts the background thread, which calls `write` after each pause until it returns false. If
/// the thread cannot start, the record is written only at the end.
pub(crate) fn start(write: impl FnMut() -> bool + Send + 'static) -> io::Result<()> {
    let signals = block_signals();
    let started = thread::Builder::new().name(NAME.to_owned()).spawn(move || keep(write));
    restore_signals(&signals);
    started.map(drop)
}

fn keep(mut write: impl FnMut() -> bool) {
    // If this fails, the thread keeps normal priority.
    let _ = run_only_when_idle();
    let mut pause = FIRST;
    loop {
        thread::sleep(pause);
        pause = LONGEST.min(2 * pause);
        if !write() {
            return;
        }
    }
}

/// Moves the calling thread to CPUs that are not isolated (`isolcpus`) and that no measured thread
/// is pinned to. Does nothing if there are no such CPUs or the system does not allow it.
pub(crate) fn leave_cpus(pinned: &[u32]) {
    let cpus = |list: &str| {
        let text = fs::read_to_string(format!("/sys/devices/system/cpu/{list}")).ok();
        text.and_then(|text| parse_cpu_list(&text).ok()).unwrap_or_default()
    };
    let isolated = cpus("isolated");
    let mut free = cpus("online");
    free.retain(|cpu| !pinned.contains(cpu) && !isolated.contains(cpu));
    if !free.is_empty() {
        // If this fails, the thread may still run on all CPUs allowed before.
        let _ = allow_current_thread(&free);
    }
}

/// Returns whether a file can be replaced by rename while the program runs; `false` for pipes and
/// devices.
pub(crate) fn is_replaceable(file: &Path) -> bool {
    fs::metadata(file).map_or(true, |found| found.is_file())
}

/// Writes `contents` to a temporary file and renames it to `file`, which is thus always complete. A
/// target that cannot be replaced (a pipe, a device, a file in a read-only directory, another
/// user's file in /tmp, a file mounted into a container) is written directly.
pub(crate) fn replace(file: &Path, contents: &[u8]) -> io::Result<()> {
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if !is_replaceable(&target) {
        return fs::write(&target, contents);
    }
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    // Threads may write the same record at the same time. Relaxed: the numbers only have to differ.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}.{number}.new", std::process::id()));
    let new = target.with_file_name(name);
    let replaced = fs::write(&new, contents).and_then(|()| fs::rename(&new, &target));
    replaced.or_else(|error| {
        // The temporary file may be incomplete, or is not needed.
        let _ = fs::remove_file(&new);
        match is_irreplaceable(error.kind()) && target.exists() {
            true => overwrite(&target, contents),
            false => Err(error),
        }
    })
}

/// Returns whether a file may be writable although it could not be replaced for this reason.
fn is_irreplaceable(reason: ErrorKind) -> bool {
    use ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(reason, PermissionDenied | ReadOnlyFilesystem | ResourceBusy | CrossesDevices)
}

/// Overwrites an existing file. Opens it without O_CREAT, because with that flag, the kernel
/// (fs.protected_regular) refuses to open another user's file in a directory such as /tmp.
fn overwrite(file: &Path, contents: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().write(true).truncate(true).open(file)?.write_all(contents)
}

/// Blocks all signals in the calling thread, so that threads started from it inherit the mask.
/// Returns the previous mask.
fn block_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the first call fills `all` before the second reads it; `before` is writable, and
    // remains an empty signal set if it is not written.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: `before` is readable during the call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_whole_behind_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("record.json"), folder.path().join("link"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::write(&file, "before").unwrap();
        let open = fs::File::open(&file).unwrap();
        replace(&link, b"after").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "after");
        assert_eq!(io::read_to_string(open).unwrap(), "before", "readers keep a complete file");
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
        assert!(replace(&folder.path().join("no/such/file"), b"").is_err());
        assert!(
            !is_replaceable(Path::new("/dev/null")) && replace(Path::new("/dev/null"), b"").is_ok()
        );
    }

    /// In a sticky directory such as /tmp, only the owner may replace a file that others may write.
    #[test]
    fn a_file_of_another_user_is_written_in_place() {
        const OTHER_USER: libc::uid_t = 65_534;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("record.json");
        fs::write(&file, "before, and longer").unwrap();
        for (path, mode) in [(folder.path(), 0o1777), (&file, 0o666)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let replaced = thread::scope(|scope| {
            let as_other = || {
                // SAFETY: the call takes no pointers.
                unsafe { libc::setfsuid(OTHER_USER) };
                // SAFETY: as above.
                let is_other = unsafe { libc::setfsuid(OTHER_USER) } == OTHER_USER as i32;
                is_other.then(|| replace(&file, b"after"))
            };
            scope.spawn(as_other).join().unwrap()
        });
        match replaced {
            None => println!("SKIP: only root can act as another user"),
            Some(replaced) => {
                replaced.unwrap();
                assert_eq!(fs::read_to_string(&file).unwrap(), "after");
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file");
            }
        }
    }

    #[test]
    fn threads_replace_the_same_file_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("record.json");
        thread::scope(|scope| {
            for letter in b"abcd" {
                let file = &file;
                scope.spawn(move || {
                    for length in 0..250 {
                        replace(file, &vec![*letter; (1 << 16) + length]).unwrap();
                        let found = fs::read(file).unwrap();
                        assert!(found.len() >= 1 << 16, "{}", found.len());
                        assert!(found.iter().all(|byte| *byte == found[0]));
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }
}
