// SPDX-License-Identifier: MIT OR Apache-2.0
//! System-wide information.

use crate::Error;
use std::ffi::{CStr, OsString};
use std::mem::MaybeUninit;

/// Returns the running kernel's release, as in `uname -r`.
///
/// # Errors
/// Returns an error if a seccomp filter forbids the call.
pub fn kernel_release() -> Result<String, Error> {
    let mut name = MaybeUninit::<libc::utsname>::uninit();
    // SAFETY: `name` is writable during the call.
    if unsafe { libc::uname(name.as_mut_ptr()) } != 0 {
        return Err(Error::last("uname", String::new(), "allow uname in this sandbox"));
    }
    // SAFETY: uname(2) fills all of `name` when it returns 0, as it just did.
    let name = unsafe { name.assume_init() };
    // SAFETY: uname(2) NUL-terminates every field; `name` lives until the text is copied.
    let release = unsafe { CStr::from_ptr(name.release.as_ptr()) };
    Ok(release.to_string_lossy().into_owned())
}

/// Returns the system's load average over 1, 5 and 15 minutes: threads that are running, waiting
/// for a CPU or waiting for a disk. In a container, this is the host's load.
///
/// # Errors
/// Returns an error if /proc is not mounted.
pub fn load_average() -> Result<[f64; 3], Error> {
    let mut load = [0.0; 3];
    // SAFETY: the call writes at most 3 numbers, for which `load` has room.
    match unsafe { libc::getloadavg(load.as_mut_ptr(), 3) } {
        3 => Ok(load),
        _ => Err(Error::last("getloadavg", "3 averages".to_owned(), "mount /proc")),
    }
}

/// Returns the colon-separated directories in which execvp(3) looks for programs: `PATH` or, if it
/// is not set (`env -i`), the C library's default.
pub fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into())
}

/// Raises this process's limit on open files as far as permitted, and returns it. Processes started
/// later inherit the limit.
pub fn raise_open_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable, then readable, during the calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return 0;
        }
        let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) == 0 {
            limit = raised;
        }
    }
    #[allow(clippy::useless_conversion, reason = "narrower than 64 bits on some 32-bit targets")]
    u64::from(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_what_proc_says() {
        let proc = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(kernel_release().unwrap(), proc.trim());
    }

    #[test]
    fn open_files_are_limited_by_the_hard_limit() {
        let limit = raise_open_files();
        let text = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let soft: u64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
        assert_eq!(limit, soft);
    }

    #[test]
    fn the_load_is_what_proc_says() {
        let read = || std::fs::read_to_string("/proc/loadavg").unwrap();
        // The kernel updates the averages every 5 s; retry if it did so between the reads.
        let (before, load, after) = (0..3)
            .map(|_| (read(), load_average().unwrap(), read()))
            .find(|(before, _, after)| before.split(' ').take(3).eq(after.split(' ').take(3)))
            .unwrap();
        let expected: Vec<f64> =
            before.split(' ').take(3).map(|number| number.parse().unwrap()).collect();
        // Values in the file are rounded to hundredths; those from the call may not be.
        assert!(load.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 0.011), "{load:?} {after}");
    }
}
