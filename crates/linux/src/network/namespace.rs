// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens sockets in another network namespace.
//!
//! In a multithreaded process, a thread may enter another network namespace, but not the user
//! namespace that owns it and grants the necessary privileges; a single-threaded process may enter
//! both. This module therefore forks a child that enters what it must, opens the sockets and the
//! files of settings, passes them to the parent and exits. The child calls only async-signal-safe
//! functions.
//!
//! The child enters the user namespace only if it is not permitted to enter the network namespace
//! otherwise. Root needs no user namespace, and would lose its privileges in one: the network
//! namespace of a process in a sandbox is often owned by the user namespace outside.

use super::settings::{self, SETTINGS};
use super::{NUMBER, SOCKETS};
use crate::{Error, signal};
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const ADVICE: &str = "run as root, or as the user who created the namespace";

/// Number of files that the child passes.
const FILES: usize = NUMBER + SETTINGS;

/// The child's message: an error number (0 for success), and a bit mask of the settings' files that
/// are missing. A socket is passed in place of each missing file.
type Head = [u32; 2];

/// An aligned buffer for the control message that carries the files.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Opens the sockets and settings of [`super::Network`] in a process's namespace.
///
/// # Errors
/// Returns an error if the process has exited, or if entering its namespaces is not permitted.
pub(super) fn files_of(pid: u32) -> Result<([OwnedFd; NUMBER], settings::Files), Error> {
    let user = match names_of(pid, "user") {
        (Some(own), Some(other)) if own == other => None,
        _ => Some(open(pid, "user")?),
    };
    let network = open(pid, "net")?;
    let (receiver, sender) = pair()?;
    let user_number = user.as_ref().map(AsRawFd::as_raw_fd);
    let before = signal::block_all();
    // SAFETY: the child calls only async-signal-safe functions until it exits.
    let child = unsafe { libc::fork() };
    if child != 0 {
        signal::set_mask(&before);
    }
    match child {
        -1 => Err(Error::last("fork", String::new(), "stop other processes")),
        0 => enter_and_send(user_number, network.as_raw_fd(), sender.as_raw_fd()),
        child => {
            drop(sender);
            let received = receive(&receiver, pid);
            // SAFETY: takes a number and a null status pointer.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            received
        }
    }
}

/// Returns the identifiers of the namespaces of type `kind`, such as `user`, of this program and of
/// process `pid`; `None` for one that cannot be read.
fn names_of(pid: u32, kind: &str) -> (Option<String>, Option<String>) {
    let name = |process: &str| {
        let link = fs::read_link(format!("/proc/{process}/ns/{kind}")).ok()?;
        Some(link.to_string_lossy().into_owned())
    };
    (name("self"), name(&pid.to_string()))
}

fn open(pid: u32, kind: &str) -> Result<File, Error> {
    File::open(format!("/proc/{pid}/ns/{kind}")).map_err(|error| Error::Call {
        call: "open",
        value: format!("/proc/{pid}/ns/{kind}"),
        errno: error.raw_os_error().unwrap_or(0),
        advice: ADVICE,
    })
}

fn pair() -> Result<(OwnedFd, OwnedFd), Error> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `ends` is writable and holds two numbers.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } < 0 {
        let advice = "raise the open-file limit (ulimit -n)";
        return Err(Error::last("socketpair", String::new(), advice));
    }
    // SAFETY: the kernel has just opened both, and nothing else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Sends the files or an error number. Runs in the child and never returns.
fn enter_and_send(user: Option<RawFd>, network: RawFd, to: RawFd) -> ! {
    match enter(user, network) {
        Some(sockets) => {
            let (files, missing) = with_settings(sockets);
            send(to, [0, missing], Some(files));
        }
        // SAFETY: errno is thread-local.
        None => send(to, [unsafe { *libc::__errno_location() } as u32, 0], None),
    }
    // SAFETY: exits the child without running the parent's destructors.
    unsafe { libc::_exit(0) }
}

/// Enters the namespaces and opens the sockets; `None` on failure, with errno set.
fn enter(user: Option<RawFd>, network: RawFd) -> Option<[RawFd; NUMBER]> {
    // SAFETY: the call takes only numbers.
    let enters = |file, kind| unsafe { libc::setns(file, kind) } >= 0;
    let has_entered = enters(network, libc::CLONE_NEWNET)
        || user.is_some_and(|user| enters(user, libc::CLONE_NEWUSER))
            && enters(network, libc::CLONE_NEWNET);
    if !has_entered {
        return None;
    }
    let mut sockets = [-1; NUMBER];
    for (place, (domain, kind, protocol)) in sockets.iter_mut().zip(SOCKETS) {
        // SAFETY: the call takes only numbers.
        *place = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) };
        if *place < 0 {
            return None;
        }
    }
    Some(sockets)
}

/// Returns the sockets and the settings' files, and a bit mask of the settings' files that are
/// missing. A missing file is replaced with a socket.
fn with_settings(sockets: [RawFd; NUMBER]) -> ([RawFd; FILES], u32) {
    let (mut files, mut missing) = ([sockets[0]; FILES], 0);
    files[..NUMBER].copy_from_slice(&sockets);
    for (place, file) in settings::open_numbers().into_iter().enumerate() {
        match file {
            0.. => files[NUMBER + place] = file,
            _ => missing |= 1 << place,
        }
    }
    (files, missing)
}

/// Sends `head`, with `files` attached if given.
fn send(to: RawFd, mut head: Head, files: Option<[RawFd; FILES]>) {
    let mut part = libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: size_of::<Head>() };
    let mut control = Control([0; 64]);
    // SAFETY: all fields are numbers and pointers, for which all-zero is valid.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(files) = files {
        let bytes = size_of_val(&files) as u32;
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: only arithmetic on a number.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as _;
        // SAFETY: `message` has a control buffer of that length, so the first header is within it.
        let header = unsafe { &mut *libc::CMSG_FIRSTHDR(&raw const message) };
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_RIGHTS;
        // SAFETY: only arithmetic on a number.
        header.cmsg_len = unsafe { libc::CMSG_LEN(bytes) } as _;
        // SAFETY: CMSG_SPACE reserved room for the numbers after the header.
        unsafe { libc::CMSG_DATA(header).cast::<[RawFd; FILES]>().write_unaligned(files) };
    }
    // SAFETY: everything `message` points to lives until the call returns.
    unsafe { libc::sendmsg(to, &raw const message, 0) };
}

/// Receives the message sent by [`send`].
fn receive(from: &OwnedFd, pid: u32) -> Result<([OwnedFd; NUMBER], settings::Files), Error> {
    let mut head: Head = [0; 2];
    let mut part = libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: size_of::<Head>() };
    let mut control = Control([0; 64]);
    // SAFETY: all fields are numbers and pointers, for which all-zero is valid.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let refused = |errno| Error::Call {
        call: "setns",
        value: format!("network namespace of process {pid}"),
        errno,
        advice: ADVICE,
    };
    let got = loop {
        // SAFETY: everything `message` points to lives until the call returns.
        let got =
            unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        let errno = std::io::Error::last_os_error().raw_os_error();
        if got >= 0 || errno != Some(libc::EINTR) {
            break got;
        }
    };
    let is_whole = got == size_of::<Head>() as isize;
    let [errno, missing] = head;
    if !is_whole || errno != 0 {
        return Err(refused(if is_whole { errno as i32 } else { libc::EPERM }));
    }
    // SAFETY: `message` was filled in by the kernel, and its control buffer is still alive.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    // SAFETY: only arithmetic on a number.
    let expected = unsafe { libc::CMSG_LEN(size_of::<[RawFd; FILES]>() as u32) } as usize;
    let header = header.filter(|header| {
        // The type of `cmsg_len` depends on the C library.
        let length = u64::try_from(header.cmsg_len).ok();
        header.cmsg_type == libc::SCM_RIGHTS && length == Some(expected as u64)
    });
    let header = header.ok_or_else(|| refused(libc::EMFILE))?;
    // SAFETY: the header's length shows that the numbers follow it.
    let files = unsafe { libc::CMSG_DATA(header).cast::<[RawFd; FILES]>().read_unaligned() };
    // SAFETY: the kernel has just opened them in this process, and nothing else owns them.
    let files = files.map(|file| unsafe { OwnedFd::from_raw_fd(file) });
    let [diag, route, control, range, reuse, entries] = files;
    let has = |place: usize| missing & (1 << place) == 0;
    let settings = [
        has(0).then(|| File::from(range)),
        has(1).then(|| File::from(reuse)),
        has(2).then(|| File::from(entries)),
    ];
    Ok(([diag, route, control], settings))
}

#[cfg(test)]
mod tests {
    use super::super::{Network, Setting};
    use crate::Error;
    use std::process::{Command, Stdio};

    /// Returns the network of a process that unshare(1) starts with these arguments. The process
    /// prints a line once it is ready, and has ended when this function returns. Prints a note and
    /// returns `None` if namespaces are not permitted.
    fn network_of(arguments: &[&str]) -> Option<Result<Network, Error>> {
        let mut child = Command::new("unshare")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child.as_mut() else {
            println!("SKIP: unshare(1) is missing");
            return None;
        };
        let mut line = [0u8; 1];
        let ready = std::io::Read::read(child.stdout.as_mut().unwrap(), &mut line);
        let network = Network::of_process(child.id());
        drop(child.stdin.take());
        child.wait().unwrap();
        if !ready.is_ok_and(|bytes| bytes == 1) {
            println!("SKIP: not root, or user namespaces are not permitted here");
            return None;
        }
        Some(network)
    }

    /// Returns the interfaces in the network of a process started with [`network_of`].
    fn interfaces_of(arguments: &[&str]) -> Option<Vec<String>> {
        let links = network_of(arguments)?.unwrap().links().unwrap();
        Some(links.into_iter().map(|link| link.name).collect())
    }

    #[test]
    fn settings_are_those_of_the_namespace() {
        let script = "echo 40000 40200 > /proc/sys/net/ipv4/ip_local_port_range; echo; read x";
        let Some(network) = network_of(&["-Urn", "sh", "-c", script]) else { return };
        let range = |network: &Network| network.setting(Setting::LocalPortRange);
        assert_eq!(range(&network.unwrap()).as_deref(), Some("40000\t40200"));
        let own = Network::own().unwrap();
        assert_ne!(range(&own).as_deref(), Some("40000\t40200"));
        let reuse = own.setting(Setting::TimeWaitReuse).unwrap();
        assert!(reuse.parse::<u8>().is_ok(), "{reuse}");
    }

    #[test]
    fn the_network_of_a_process_in_a_user_namespace_is_seen() {
        let script = "ip link add why7 type dummy || ip link add why7 type veth; echo; read x";
        let Some(names) = interfaces_of(&["-Urn", "sh", "-c", script]) else { return };
        assert!(
            names.contains(&"lo".to_owned()) && !names.contains(&"eth0".to_owned()),
            "{names:?}"
        );
    }

    #[test]
    fn root_needs_no_user_namespace() {
        // The network namespace is owned by our user namespace, not by that of the process.
        let arguments = ["-n", "unshare", "-U", "sh", "-c", "echo; read x"];
        let Some(names) = interfaces_of(&arguments) else { return };
        assert!(!names.contains(&"eth0".to_owned()), "{names:?}");
    }

    #[test]
    fn a_process_that_is_gone_has_no_network() {
        let error = Network::of_process(u32::MAX - 1).unwrap_err().to_string();
        assert!(error.starts_with("open(/proc/4294967294/ns/user): No such file"), "{error}");
    }
}
