// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens, configures and binds packet sockets (packet(7)).

use super::PortState;
use crate::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const RIGHT: &str = "packet sockets need CAP_NET_RAW: run as root, in a namespace of your own \
                     (unshare -Urn), or after sudo setcap cap_net_raw+ep on the program";
const MISSING: &str = "name an interface of this network namespace; `ip link` lists them";

/// Returns the index of an interface in this thread's network namespace.
///
/// # Errors
/// Returns an error if there is no interface with that name.
pub fn interface_index(name: &str) -> Result<u32, Error> {
    let text = std::ffi::CString::new(name).unwrap_or_default();
    // SAFETY: the name is a NUL-terminated string that is valid during the call.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(Error::last("if_nametoindex", name.to_owned(), MISSING)),
        index => Ok(index),
    }
}

/// Returns whether an interface with this index exists in this thread's network namespace.
pub(super) fn exists(index: u32) -> bool {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the length that the call requires.
    !unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) }.is_null()
}

/// Opens a packet socket for whole frames. It receives nothing until it is bound.
pub(super) fn open(interface: &str) -> Result<OwnedFd, Error> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes only numbers.
    let number = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if number < 0 {
        return Err(Error::last("socket", format!("AF_PACKET for {interface}"), RIGHT));
    }
    // SAFETY: the kernel has just opened it, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Sets a packet socket option; `what` names the option in errors.
pub(super) fn set<T: Copy>(
    socket: &OwnedFd,
    option: i32,
    value: &T,
    what: &str,
    advice: &'static str,
) -> Result<(), Error> {
    set_at(socket, libc::SOL_PACKET, option, value, what, advice)
}

/// Like [`set`], but for an option at any level.
pub(super) fn set_at<T: Copy>(
    socket: &OwnedFd,
    level: i32,
    option: i32,
    value: &T,
    what: &str,
    advice: &'static str,
) -> Result<(), Error> {
    // SAFETY: the value is valid for reads of its size during the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    match status {
        0 => Ok(()),
        _ => Err(Error::last("setsockopt", what.to_owned(), advice)),
    }
}

/// Reads an option into `value`; `None` if it cannot be read.
pub(super) fn get_at(socket: &OwnedFd, level: i32, option: i32, value: &mut [u32]) -> Option<()> {
    let mut bytes = size_of_val(value) as libc::socklen_t;
    // SAFETY: the value is writable for `bytes` bytes during the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    (status == 0).then_some(())
}

/// Binds a packet socket to an interface, to receive frames of `protocol` (in host byte order; 0
/// for none).
pub(super) fn bind(socket: &OwnedFd, index: u32, protocol: u16, name: &str) -> Result<(), Error> {
    // SAFETY: all-zero bytes are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: the address is valid for reads of its size during the call.
    let status = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    match status {
        0 => Ok(()),
        _ => Err(Error::last("bind", format!("packet socket on {name}"), MISSING)),
    }
}

/// Checks whether the interface to which `socket` is bound, `index`, is down or no longer exists.
pub(super) fn state(socket: &OwnedFd, index: u32) -> PortState {
    let mut error = [0];
    // Reading the error clears it.
    let read = get_at(socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut error);
    match read {
        _ if !exists(index) => PortState::Gone,
        Some(()) if error[0] == 0 => PortState::Unchanged,
        _ => PortState::WentDown,
    }
}
