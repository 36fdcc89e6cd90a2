// SPDX-License-Identifier: MIT OR Apache-2.0
//! The XDP program that hands each frame to the socket of its queue: five instructions, in the
//! kernel's encoding (Documentation/bpf/standardization/instruction-set.rst).
//!
//! ```text
//! return redirect_map(sockets, frame.rx_queue_index, otherwise XDP_PASS)
//! ```

use super::{BUSY, RIGHT};
use crate::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Commands of bpf(2).
mod command {
    pub(super) const MAP_CREATE: i32 = 0;
    pub(super) const MAP_UPDATE: i32 = 2;
    pub(super) const PROG_LOAD: i32 = 5;
    pub(super) const LINK_CREATE: i32 = 28;
}

const MAP_OF_SOCKETS: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// Attach modes: in the driver (native), or in the network stack (generic).
const DRIVER: u32 = 4;
const GENERIC: u32 = 2;

/// Offset of `rx_queue_index` in `xdp_md`.
const RX_QUEUE: u64 = 16;
const REDIRECT_MAP: u64 = 51;
const PASS: u64 = 2;

/// Size of the attributes passed to bpf(2), in 32-bit words: enough for the commands used here.
/// Words that a command does not use are 0.
const WORDS: usize = 16;

/// An XDP program attached to an interface, with its map of sockets (XSKMAP). Detached on drop.
#[derive(Debug)]
pub(super) struct Program {
    sockets: OwnedFd,
    _link: OwnedFd,
}

/// Encodes an instruction from its operation, destination, source, offset and constant.
fn instruction(operation: u64, to: u64, from: u64, offset: u64, constant: u64) -> u64 {
    operation | to << 8 | from << 12 | (offset & 0xffff) << 16 | (constant & 0xffff_ffff) << 32
}

impl Program {
    /// Loads the program and attaches it to an interface, in the driver if supported.
    pub(super) fn attach(name: &str, interface: u32, queues: u32) -> Result<Self, Error> {
        let mut map = [0u32; WORDS];
        (map[0], map[1], map[2], map[3]) = (MAP_OF_SOCKETS, 4, 4, queues);
        let sockets = bpf(command::MAP_CREATE, &mut map, "a map of sockets", RIGHT)?;
        let file = sockets.as_raw_fd() as u64;
        let code = [
            instruction(0x61, 2, 1, RX_QUEUE, 0),
            instruction(0x18, 1, 1, 0, file),
            0,
            instruction(0xb7, 3, 0, 0, PASS),
            instruction(0x85, 0, 0, 0, REDIRECT_MAP),
            instruction(0x95, 0, 0, 0, 0),
        ];
        let license = c"Dual MIT/GPL";
        let mut load = [0u32; WORDS];
        (load[0], load[1]) = (PROGRAM_XDP, code.len() as u32);
        set_pointer(&mut load, 2, code.as_ptr() as u64);
        set_pointer(&mut load, 4, license.as_ptr() as u64);
        let program = bpf(command::PROG_LOAD, &mut load, "an XDP program", RIGHT)?;
        let attach = |mode: u32| {
            let mut link = [0u32; WORDS];
            (link[0], link[1]) = (program.as_raw_fd() as u32, interface);
            (link[2], link[3]) = (ATTACH_XDP, mode);
            bpf(command::LINK_CREATE, &mut link, &format!("an XDP program on {name}"), BUSY)
        };
        let link = attach(DRIVER).or_else(|_| attach(GENERIC))?;
        Ok(Self { sockets, _link: link })
    }

    /// Makes the program redirect a queue's frames to a socket.
    pub(super) fn add(&self, queue: u32, socket: &OwnedFd) -> Result<(), Error> {
        let value = socket.as_raw_fd() as u32;
        let mut update = [0u32; WORDS];
        update[0] = self.sockets.as_raw_fd() as u32;
        set_pointer(&mut update, 2, (&raw const queue) as u64);
        set_pointer(&mut update, 4, (&raw const value) as u64);
        call(command::MAP_UPDATE, &mut update, "a socket in the XSKMAP", RIGHT).map(drop)
    }
}

/// Writes a 64-bit pointer to the attributes, starting at 32-bit word `at`.
fn set_pointer(words: &mut [u32; WORDS], at: usize, address: u64) {
    let bytes = address.to_ne_bytes();
    let half = |from: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|index| bytes[from + index]));
    (words[at], words[at + 1]) = (half(0), half(4));
}

/// Makes a bpf(2) call that returns a file descriptor.
fn bpf(
    command: i32,
    words: &mut [u32; WORDS],
    what: &str,
    advice: &'static str,
) -> Result<OwnedFd, Error> {
    let number = call(command, words, what, advice)?;
    // SAFETY: the kernel has just opened it, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn call(
    command: i32,
    words: &mut [u32; WORDS],
    what: &str,
    advice: &'static str,
) -> Result<i32, Error> {
    let bytes = size_of_val(words);
    // SAFETY: the attributes are valid for `bytes` bytes, and the pointers in them refer to values
    // that the callers keep during the call.
    let status = unsafe { libc::syscall(libc::SYS_bpf, command, words.as_mut_ptr(), bytes) };
    match status {
        0.. => Ok(status as i32),
        _ => Err(Error::last("bpf", what.to_owned(), advice)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_kernels_layout() {
        // r2 = *(u32 *)(r1 + 16); exit
        assert_eq!(instruction(0x61, 2, 1, 16, 0).to_le_bytes(), [0x61, 0x12, 16, 0, 0, 0, 0, 0]);
        assert_eq!(instruction(0x95, 0, 0, 0, 0).to_le_bytes(), [0x95, 0, 0, 0, 0, 0, 0, 0]);
        let call = instruction(0x85, 0, 0, 0, REDIRECT_MAP).to_le_bytes();
        assert_eq!(call, [0x85, 0, 0, 0, 51, 0, 0, 0]);
    }

    #[test]
    fn addresses_are_whole_in_the_attributes() {
        let mut words = [0; WORDS];
        set_pointer(&mut words, 2, 0x0123_4567_89ab_cdef);
        let bytes: Vec<u8> = words[2..4].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(bytes, 0x0123_4567_89ab_cdef_u64.to_ne_bytes());
    }
}
