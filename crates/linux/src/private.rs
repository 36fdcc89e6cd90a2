// SPDX-License-Identifier: MIT OR Apache-2.0
//! Private namespaces: whatever is set up in them is invisible to the rest of the system, and they
//! disappear with their last process.

use crate::Error;
use std::fs;

const ADVICE: &str = "run as root, or allow user namespaces on this system";

/// Moves the calling process into a new user namespace, in which it is root, and into a new network
/// namespace that the user namespace owns. Needs no privilege if the system allows user namespaces;
/// the process must be single-threaded.
///
/// # Errors
/// The system refuses user namespaces, or there are too many of them.
pub fn enter_private_network() -> Result<(), Error> {
    // SAFETY: numbers only.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET, "user and network namespace")?;
    // Without root, a process may map only its own IDs, and its group ID only after giving up
    // setgroups(2).
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {user} 1"))?;
    write("/proc/self/gid_map", &format!("0 {group} 1"))
}

/// Moves the calling thread into a new network namespace owned by its user namespace.
///
/// # Errors
/// The thread is not root in its user namespace, or there are too many network namespaces.
pub fn enter_new_network() -> Result<(), Error> {
    unshare(libc::CLONE_NEWNET, "network namespace")
}

fn unshare(flags: libc::c_int, what: &str) -> Result<(), Error> {
    // SAFETY: numbers only.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(Error::last("unshare", what.to_owned(), ADVICE)),
    }
}

fn write(path: &str, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|error| Error::Call {
        call: "write",
        value: path.to_owned(),
        errno: error.raw_os_error().unwrap_or(0),
        advice: ADVICE,
    })
}
