// SPDX-License-Identifier: MIT OR Apache-2.0
//! Private namespaces. Their contents are invisible to the rest of the system and disappear with
//! their last process.

use crate::Error;
use std::fs;
use std::os::fd::AsRawFd;

const ADVICE: &str = "run as root, or allow user namespaces on this system";

/// Moves the calling process into a new user namespace, in which it is root, and into a new network
/// namespace owned by it. Needs no privileges if the system allows user namespaces. The process
/// must be single-threaded.
///
/// # Errors
/// Returns an error if the system refuses user namespaces, or if there are too many.
pub fn enter_private_network() -> Result<(), Error> {
    // SAFETY: the calls take no arguments and touch no memory.
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
/// Returns an error if the thread is not root in its user namespace, or if there are too many
/// network namespaces.
pub fn enter_new_network() -> Result<(), Error> {
    unshare(libc::CLONE_NEWNET, "network namespace")
}

/// Moves the calling thread into the network namespace that an open file refers to, such as
/// /run/netns/NAME or /proc/PID/ns/net.
///
/// # Errors
/// Returns an error if the file is not a network namespace, or if the thread is not root in the
/// user namespace that owns it.
pub fn enter_network(namespace: &fs::File) -> Result<(), Error> {
    // SAFETY: the call takes only numbers.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(Error::last("setns", "network namespace".to_owned(), "run as root")),
    }
}

/// Has the kernel kill the calling process, without cleanup, when its parent exits or after
/// `seconds` seconds, whichever comes first. 0 means no time limit.
///
/// # Errors
/// Returns an error if a sandbox forbids prctl(2).
pub fn end_with_parent(seconds: u32) -> Result<(), Error> {
    // SAFETY: the call takes only numbers.
    unsafe { libc::alarm(seconds) };
    // SAFETY: the call takes only numbers.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => {
            Err(Error::last("prctl", "PR_SET_PDEATHSIG".to_owned(), "allow prctl in this sandbox"))
        }
    }
}

fn unshare(flags: libc::c_int, what: &str) -> Result<(), Error> {
    // SAFETY: the call takes only numbers.
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
