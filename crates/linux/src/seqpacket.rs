// SPDX-License-Identifier: MIT OR Apache-2.0
//! Communication with a program over its UNIX socket, message-based (SOCK_SEQPACKET) or as a byte
//! stream, with a deadline.

use crate::Error;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A message-based connection to a program.
#[derive(Debug)]
pub struct Seqpacket {
    socket: OwnedFd,
    path: String,
}

const ADVICE: &str = "check whether the program is stopped or hung";

/// Connects to a UNIX stream socket. Connecting, and each later read or write, takes at most
/// `deadline`.
///
/// # Errors
/// Returns an error if the socket does not exist, access to it is denied, or the program does not
/// accept the connection.
pub fn connect_stream(path: &Path, deadline: Duration) -> Result<UnixStream, Error> {
    connect(path, libc::SOCK_STREAM, deadline).map(UnixStream::from)
}

/// Connects to a UNIX socket of type `kind`: SOCK_STREAM or SOCK_SEQPACKET.
fn connect(path: &Path, kind: libc::c_int, deadline: Duration) -> Result<OwnedFd, Error> {
    let name = path.display().to_string();
    let failed = |call| Error::last(call, name.clone(), ADVICE);
    // SAFETY: all fields are numbers, for which zero is valid.
    let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() {
        let advice = "give the program a shorter socket path";
        return Err(Error::Call { call: "connect", value: name, errno: libc::EINVAL, advice });
    }
    for (place, byte) in address.sun_path.iter_mut().zip(bytes) {
        *place = *byte as libc::c_char;
    }
    let kind = kind | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes only numbers.
    let number = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if number < 0 {
        return Err(failed("socket"));
    }
    // SAFETY: the kernel has just opened it, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    let timeout =
        libc::timeval { tv_sec: deadline.as_secs() as _, tv_usec: deadline.subsec_micros() as _ };
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        // SAFETY: the option value is a `timeval` that is valid during the call.
        let status = unsafe {
            libc::setsockopt(
                number,
                libc::SOL_SOCKET,
                option,
                (&raw const timeout).cast(),
                size_of::<libc::timeval>() as libc::socklen_t,
            )
        };
        if status < 0 {
            return Err(failed("setsockopt"));
        }
    }
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: `address` is valid during the call and has the length passed.
    if unsafe { libc::connect(number, (&raw const address).cast(), length) } < 0 {
        return Err(failed("connect"));
    }
    Ok(socket)
}

impl Seqpacket {
    /// Connects to a UNIX socket. Connecting, sending and receiving each take at most `deadline`.
    ///
    /// # Errors
    /// Returns an error if the socket does not exist, access to it is denied, or the program does
    /// not accept the connection.
    pub fn connect(path: &Path, deadline: Duration) -> Result<Self, Error> {
        let socket = connect(path, libc::SOCK_SEQPACKET, deadline)?;
        Ok(Self { socket, path: path.display().to_string() })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Returns an error if the program has exited, or does not accept the message within the
    /// deadline.
    pub fn send(&self, message: &[u8]) -> Result<(), Error> {
        // SAFETY: `message` is valid for reading during the call.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        match sent < 0 {
            true => Err(Error::last("send", self.path.clone(), ADVICE)),
            false => Ok(()),
        }
    }

    /// Receives a message of up to `most` bytes.
    ///
    /// # Errors
    /// Returns an error if no message arrives within the deadline, the program has exited, or the
    /// message is longer.
    pub fn receive(&self, most: usize) -> Result<Vec<u8>, Error> {
        let mut message = vec![0u8; most];
        // SAFETY: `message` is valid for writing during the call.
        let got = unsafe {
            libc::recv(
                self.socket.as_raw_fd(),
                message.as_mut_ptr().cast(),
                message.len(),
                libc::MSG_TRUNC,
            )
        };
        let refused =
            |errno| Error::Call { call: "recv", value: self.path.clone(), errno, advice: ADVICE };
        match usize::try_from(got) {
            Err(_) => Err(Error::last("recv", self.path.clone(), ADVICE)),
            Ok(0) => Err(refused(libc::ECONNRESET)),
            Ok(got) if got > most => Err(refused(libc::EMSGSIZE)),
            Ok(got) => {
                message.truncate(got);
                Ok(message)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a listening socket at `path`.
    fn listener(path: &Path) -> OwnedFd {
        // SAFETY: all fields are numbers, for which zero is valid.
        let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (place, byte) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
            *place = *byte as libc::c_char;
        }
        // SAFETY: the call takes only numbers.
        let number = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0) };
        assert!(number >= 0);
        // SAFETY: the kernel has just opened it, and nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        // SAFETY: `address` is valid during the call and has the length passed.
        assert_eq!(unsafe { libc::bind(number, (&raw const address).cast(), length) }, 0);
        // SAFETY: the call takes only numbers.
        assert_eq!(unsafe { libc::listen(number, 1) }, 0);
        socket
    }

    #[test]
    fn messages_are_whole_and_a_silent_program_is_given_up() {
        let folder = std::env::temp_dir().join(format!("linerate-seq-{}", std::process::id()));
        let deadline = Duration::from_millis(30);
        let absent = Seqpacket::connect(&folder, deadline).unwrap_err().to_string();
        assert!(absent.starts_with("connect("), "{absent}");
        let server = listener(&folder);
        let client = Seqpacket::connect(&folder, deadline).unwrap();
        std::fs::remove_file(&folder).unwrap();
        assert!(client.receive(100).is_err(), "no message was sent");
        // SAFETY: the call takes a number and null pointers for the address.
        let number =
            unsafe { libc::accept(server.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut()) };
        // SAFETY: the kernel has just opened it, and nothing else owns it.
        let accepted = unsafe { OwnedFd::from_raw_fd(number) };
        for text in [&b"one"[..], b"and two"] {
            // SAFETY: `text` is valid for reading during the call.
            unsafe { libc::send(accepted.as_raw_fd(), text.as_ptr().cast(), text.len(), 0) };
        }
        assert_eq!(client.receive(100).unwrap(), b"one");
        let long = client.receive(3).unwrap_err().to_string();
        assert!(long.contains("Message too long"), "{long}");
        client.send(b"?").unwrap();
        drop(accepted);
        assert!(client.receive(100).is_err());
        assert!(client.send(b"?").is_err());
    }
}
