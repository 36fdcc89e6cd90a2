// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access to tracepoint descriptions when tracefs is not mounted.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Returns the tracefs root in a detached mount that is private to this process and disappears with
/// it. `None` without CAP_SYS_ADMIN, in a container that does not permit the mount, and before
/// Linux 5.2.
pub fn private_tracefs() -> Option<PathBuf> {
    static MOUNT: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let mount = MOUNT.get_or_init(mount).as_ref()?;
    Some(PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())))
}

/// `FSCONFIG_CMD_CREATE` of linux/mount.h.
const CREATE: libc::c_long = 6;
/// `FSOPEN_CLOEXEC` and `FSMOUNT_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_long = 1;
/// `MOUNT_ATTR_RDONLY`.
const READ_ONLY: libc::c_long = 1;

fn mount() -> Option<OwnedFd> {
    // SAFETY: the name is a NUL-terminated string that outlives the call.
    let opened = unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), CLOSE_ON_EXEC) };
    let context = descriptor(opened)?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: the command takes neither a key nor a value; the descriptor is open.
    let created = unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, none, none, 0_i64)
    };
    if created != 0 {
        return None;
    }
    // SAFETY: the call takes only numbers; the descriptor is open.
    descriptor(unsafe {
        libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOSE_ON_EXEC, READ_ONLY)
    })
}

/// Takes ownership of the file descriptor returned by a system call; `None` if the call failed.
fn descriptor(returned: libc::c_long) -> Option<OwnedFd> {
    let number = i32::try_from(returned).ok().filter(|number| *number >= 0)?;
    // SAFETY: the kernel has just opened it for this process, and nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_without_a_mount_that_others_see() {
        let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let before = mounts();
        let Some(folder) = private_tracefs() else {
            return println!("SKIP: no CAP_SYS_ADMIN, or a kernel before 5.2");
        };
        let id = std::fs::read_to_string(folder.join("events/sched/sched_switch/id")).unwrap();
        assert!(id.trim().parse::<u32>().is_ok(), "{id}");
        assert_eq!(mounts(), before);
        assert!(std::fs::write(folder.join("tracing_on"), "0").is_err(), "it is read only");
    }
}
