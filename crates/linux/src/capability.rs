// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drops the calling thread's capabilities to open and configure network interfaces.

use crate::Error;

/// Numbers of CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (capabilities(7)).
const NETWORK: [u32; 3] = [12, 13, 39];

/// `_LINUX_CAPABILITY_VERSION_3`: 64 capabilities in two words.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// Effective, permitted and inheritable capabilities, low words first.
type Words = [[u32; 3]; 2];

/// Drops the calling thread's capabilities to open and configure network interfaces; threads that
/// it starts afterwards do not have them either. Open sockets stay usable. Does nothing if the
/// thread lacks these capabilities.
///
/// # Errors
/// Returns an error if the kernel forbids capget(2) or capset(2).
pub fn drop_network_rights() -> Result<(), Error> {
    let mut header = Header { version: VERSION, pid: 0 };
    let mut words: Words = [[0; 3]; 2];
    let advice = "allow capget and capset in this sandbox";
    // SAFETY: both structures have the layout of version 3 and are valid during the call.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, words.as_mut_ptr()) };
    if got < 0 {
        return Err(Error::last("capget", "this thread".to_owned(), advice));
    }
    for number in NETWORK {
        let word = &mut words[(number / 32) as usize];
        word[0] &= !(1 << (number % 32));
        word[1] &= !(1 << (number % 32));
    }
    // SAFETY: as above.
    match unsafe { libc::syscall(libc::SYS_capset, &raw mut header, words.as_ptr()) } {
        0 => Ok(()),
        _ => Err(Error::last("capset", "network capabilities".to_owned(), advice)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effective() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn the_rights_are_gone_in_this_thread_and_its_children() {
        let before = effective();
        let after = std::thread::spawn(|| {
            drop_network_rights().unwrap();
            [effective(), std::thread::spawn(effective).join().unwrap()]
        });
        let kept = before & !NETWORK.iter().fold(0, |all, number| all | 1 << number);
        assert_eq!(after.join().unwrap(), [kept; 2]);
        assert_eq!(effective(), before, "other threads keep theirs");
    }
}
