// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a network namespace (/proc/sys/net). A file shows the settings of the namespace in
//! which it was opened, even if it is read from another namespace.

use super::Network;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

/// A setting of a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `net.ipv4.ip_local_port_range`: first and last local port, separated by white space.
    LocalPortRange,
    /// `net.ipv4.tcp_tw_reuse`: a number.
    TimeWaitReuse,
    /// `net.netfilter.nf_conntrack_count`: number of tracked connections.
    ConntrackCount,
}

/// Number of settings.
pub(super) const SETTINGS: usize = 3;

/// Files of the settings, in the order of [`Setting`].
const PATHS: [&CStr; SETTINGS] = [
    c"/proc/sys/net/ipv4/ip_local_port_range",
    c"/proc/sys/net/ipv4/tcp_tw_reuse",
    c"/proc/sys/net/netfilter/nf_conntrack_count",
];

/// The settings' files; `None` for one that cannot be opened.
pub(super) type Files = [Option<File>; SETTINGS];

/// Opens the settings' files in the calling thread's namespace; a number below 0 stands for a file
/// that cannot be opened. Async-signal-safe.
pub(super) fn open_numbers() -> [RawFd; SETTINGS] {
    // SAFETY: the paths are NUL-terminated.
    PATHS.map(|path| unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) })
}

/// Opens the settings' files in this program's own namespace.
pub(super) fn open() -> Files {
    open_numbers().map(|number| {
        // SAFETY: the kernel has just opened it, and nothing else owns it.
        (number >= 0).then(|| File::from(unsafe { OwnedFd::from_raw_fd(number) }))
    })
}

impl Network {
    /// Returns the current value of a setting in this namespace, without surrounding white space;
    /// `None` if it is unreadable, or the kernel does not have it.
    pub fn setting(&self, setting: Setting) -> Option<String> {
        /// Buffer size in bytes, larger than any of the values.
        const BYTES: usize = 64;
        let mut bytes = [0; BYTES];
        let length = self.settings[setting as usize].as_ref()?.read_at(&mut bytes, 0).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).trim().to_owned())
    }
}
