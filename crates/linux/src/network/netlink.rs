// SPDX-License-Identifier: MIT OR Apache-2.0
//! Netlink messages: requests, and multi-part replies.

use super::u32_at;
use crate::Error;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Length of `nlmsghdr`: length, type, flags, sequence number, port ID.
const HEADER: usize = 16;
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
const ACKNOWLEDGE: u16 = 4;
/// Flags: create the object; fail if it exists.
pub(super) const CREATE: u16 = 0x600;
const MULTI: u16 = 2;
/// Flag: the kernel's objects changed during a dump, so some may be missing and others listed
/// twice.
const CHANGED: u16 = 0x10;
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// Receive buffer size in bytes. The kernel sends at most 32 KiB per part even if the buffer is
/// larger.
const BUFFER_BYTES: usize = 64 << 10;

/// Buffer size in bytes for a reply about one object; a connection takes about 700 bytes.
const ANSWER_BYTES: usize = 8 << 10;

/// Maximum time to wait for a reply.
static TIMEOUT: libc::timeval = libc::timeval { tv_sec: 1, tv_usec: 0 };

/// A netlink message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'b> {
    pub(super) kind: u16,
    flags: u16,
    /// Sequence number of the request.
    sequence: u32,
    pub(super) body: &'b [u8],
}

/// Iterates over the messages in one reply, up to the first malformed one.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let flags = u32_at(bytes, 4)?;
        let sequence = u32_at(bytes, 8)?;
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(aligned(length)?..).unwrap_or_default();
        let [kind, flags] = halves(flags);
        Some(Message { kind, flags, sequence, body })
    })
}

/// Iterates over a message's attributes, up to the first malformed one. Yields each attribute's
/// type, without its two flag bits, and its payload.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [length, kind] = halves(u32_at(bytes, 0)?);
        let body = bytes.get(4..usize::from(length))?;
        bytes = bytes.get(aligned(usize::from(length))?..).unwrap_or_default();
        Some((kind & 0x3fff, body))
    })
}

/// Returns the payload of the first attribute of this type.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, body)| body)
}

/// Splits a number into its 16-bit halves, in memory order.
fn halves(number: u32) -> [u16; 2] {
    let [a, b, c, d] = number.to_ne_bytes();
    [u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])]
}

fn aligned(length: usize) -> Option<usize> {
    Some(length.checked_add(3)? & !3)
}

/// Appends an attribute.
pub(super) fn put(body: &mut Vec<u8>, kind: u16, bytes: &[u8]) {
    body.extend((4 + bytes.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(bytes);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// A netlink socket. A reply goes to whichever thread reads it first, so one thread at a time sends
/// a request and reads the reply.
pub(super) type Socket = Mutex<OwnedFd>;

/// Sets a socket's timeouts.
pub(super) fn prepare(socket: OwnedFd) -> Result<Socket, Error> {
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        // SAFETY: the option value is a `timeval` that is valid during the call.
        let status = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const TIMEOUT).cast(),
                size_of::<libc::timeval>() as libc::socklen_t,
            )
        };
        if status < 0 {
            let advice = "allow setsockopt in this sandbox";
            return Err(Error::last("setsockopt", "timeout".to_owned(), advice));
        }
    }
    Ok(Mutex::new(socket))
}

/// Requests all objects of a kind. Returns what `decode` makes of the type and body of each message
/// in the reply, except messages for which `decode` returns `None`. Repeats the request if the
/// objects changed meanwhile. If they change during every attempt, the returned list may be
/// incomplete.
pub(super) fn dump<T>(
    socket: &Socket,
    kind: u16,
    body: &[u8],
    mut decode: impl FnMut(u16, &[u8]) -> Option<T>,
) -> Result<Vec<T>, Error> {
    const ATTEMPTS: usize = 4;
    let mut objects = Vec::new();
    for _ in 0..ATTEMPTS {
        objects.clear();
        let mut each = |kind: u16, body: &[u8]| objects.extend(decode(kind, body));
        if ask(socket, kind, REQUEST | DUMP, body, &mut each)? == Objects::Unchanged {
            break;
        }
    }
    Ok(objects)
}

/// Requests one object and calls `each` with the reply.
pub(super) fn get(
    socket: &Socket,
    kind: u16,
    body: &[u8],
    mut each: impl FnMut(u16, &[u8]),
) -> Result<(), Error> {
    ask(socket, kind, REQUEST, body, &mut each).map(|_| ())
}

/// Changes an object in the socket's namespace.
pub(super) fn change(socket: &Socket, kind: u16, flags: u16, body: &[u8]) -> Result<(), Error> {
    let changed = ask(socket, kind, REQUEST | ACKNOWLEDGE | flags, body, &mut |_, _| {});
    changed.map(|_| ()).map_err(|error| match error {
        Error::Call { call, value, errno, .. } => {
            let advice = "load the kernel module (modprobe veth), and run as root in the namespace";
            Error::Call { call, value, errno, advice }
        }
        other => other,
    })
}

const ADVICE: &str = "load the kernel module (inet_diag, udp_diag or af_packet_diag)";

/// Sequence number of the last request, over all sockets.
static SEQUENCE: AtomicU32 = AtomicU32::new(0);

/// Whether the kernel's objects changed while it wrote a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Objects {
    Unchanged,
    Changed,
}

fn ask(
    socket: &Socket,
    kind: u16,
    flags: u16,
    body: &[u8],
    each: &mut dyn FnMut(u16, &[u8]),
) -> Result<Objects, Error> {
    let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let socket = socket.lock().unwrap_or_else(PoisonError::into_inner);
    let mut buffer = vec![0u8; if flags & DUMP == DUMP { BUFFER_BYTES } else { ANSWER_BYTES }];
    let question = question(kind, flags, sequence, body);
    let mut answer = exchange(&socket, &question, &mut buffer, each);
    // A listening socket with keys for many peers (TCP_MD5SIG), for example.
    if answer == Err(("recv", libc::EMSGSIZE)) && flags == REQUEST {
        drain(&socket, &mut buffer);
        buffer.resize(BUFFER_BYTES, 0);
        answer = exchange(&socket, &question, &mut buffer, each);
    }
    if answer.is_err() {
        drain(&socket, &mut buffer);
    }
    let value = format!("netlink message {kind}");
    answer.map_err(|(call, errno)| Error::Call { call, value, errno, advice: ADVICE })
}

/// Sends a request and reads the reply to it, skipping replies to other requests, which an earlier
/// error may have left unread. Returns the call that failed and its error number, which is EMSGSIZE
/// if a part of the reply is longer than the buffer.
fn exchange(
    socket: &OwnedFd,
    question: &[u8],
    buffer: &mut [u8],
    each: &mut dyn FnMut(u16, &[u8]),
) -> Result<Objects, (&'static str, i32)> {
    let errno = || std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let sequence = u32_at(question, 8).unwrap_or(0);
    // SAFETY: `question` is valid for reading during the call.
    let sent =
        unsafe { libc::send(socket.as_raw_fd(), question.as_ptr().cast(), question.len(), 0) };
    if sent < 0 {
        return Err(("send", errno()));
    }
    let mut objects = Objects::Unchanged;
    loop {
        let got = receive(socket, buffer, libc::MSG_TRUNC).map_err(|errno| ("recv", errno))?;
        let part = buffer.get(..got).ok_or(("recv", libc::EMSGSIZE))?;
        let (answer, now) = take(part, sequence, each);
        if now == Objects::Changed {
            objects = now;
        }
        match answer {
            Answer::Continues => {}
            Answer::Complete => return Ok(objects),
            Answer::Refused(errno) => return Err(("netlink", errno)),
        }
    }
}

/// Receives a part of a reply and returns its length, or the error number. With MSG_TRUNC, the
/// length of a part that does not fit into the buffer is that of the whole part. Repeats the call
/// if a signal interrupts it: with a timeout set, the kernel does not restart it by itself.
fn receive(socket: &OwnedFd, buffer: &mut [u8], flags: i32) -> Result<usize, i32> {
    loop {
        // SAFETY: `buffer` is valid for writing during the call.
        let got = unsafe {
            libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags)
        };
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        match usize::try_from(got) {
            Ok(got) => return Ok(got),
            Err(_) if errno == libc::EINTR => {}
            Err(_) => return Err(errno),
        }
    }
}

/// Reads what is left of a reply. While a dump is unfinished, the kernel refuses another one.
fn drain(socket: &OwnedFd, buffer: &mut [u8]) {
    /// Maximum number of parts; a dump of a million sockets has fewer.
    const PARTS: usize = 32_768;
    let mut parts = 0;
    while parts < PARTS && receive(socket, buffer, libc::MSG_DONTWAIT).is_ok_and(|got| got > 0) {
        parts += 1;
    }
}

/// State of a multi-part reply after processing a part.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Continues,
    Complete,
    Refused(i32),
}

/// Calls `each` with every message in one part of the reply to request `sequence`. A part without a
/// valid message ends the reply, since nothing indicates that more follows.
fn take(bytes: &[u8], sequence: u32, each: &mut dyn FnMut(u16, &[u8])) -> (Answer, Objects) {
    let (mut last, mut objects) = (Answer::Complete, Objects::Unchanged);
    for message in messages(bytes) {
        if message.sequence != sequence {
            last = Answer::Continues;
            continue;
        }
        if message.flags & CHANGED != 0 {
            objects = Objects::Changed;
        }
        match message.kind {
            // A dump reports its error in the message that ends it, after what it has found.
            DONE | ERROR => return (outcome(message.body), objects),
            kind => each(kind, message.body),
        }
        last = match message.flags & MULTI {
            0 => Answer::Complete,
            _ => Answer::Continues,
        };
    }
    (last, objects)
}

/// Returns the outcome of a request from the message that ends the reply, which begins with the
/// error number, negated, or 0.
fn outcome(body: &[u8]) -> Answer {
    match u32_at(body, 0).map_or(0, |number| number as i32) {
        errno @ ..0 => Answer::Refused(errno.wrapping_neg()),
        _ => Answer::Complete,
    }
}

fn question(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let length = (HEADER + body.len()) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn answers_end_where_they_say_so() {
        let seen = |bytes: &[u8]| {
            let mut kinds = Vec::new();
            let (answer, objects) =
                take(bytes, 7, &mut |kind, body| kinds.push((kind, body.len())));
            assert_eq!(objects, Objects::Unchanged);
            (kinds, answer)
        };
        let part = question(20, MULTI, 7, &[1; 6]);
        assert_eq!(seen(&part), (vec![(20, 6)], Answer::Continues));
        let mut two = part.clone();
        two.extend([0, 0]);
        two.extend(question(DONE, MULTI, 7, &[0; 4]));
        assert_eq!(seen(&two), (vec![(20, 6)], Answer::Complete));
        assert_eq!(seen(&question(20, 0, 7, &[])), (vec![(20, 0)], Answer::Complete));
        let refused = question(ERROR, 0, 7, &(-libc::ENOENT).to_ne_bytes());
        assert_eq!(seen(&refused), (vec![], Answer::Refused(libc::ENOENT)));
        let absent = question(DONE, MULTI, 7, &(-libc::ENOENT).to_ne_bytes());
        assert_eq!(seen(&absent), (vec![], Answer::Refused(libc::ENOENT)));
        let mut broken = part.clone();
        broken.extend([0, 0]);
        broken.extend(question(DONE, MULTI, 7, &(-libc::ENOMEM).to_ne_bytes()));
        assert_eq!(seen(&broken), (vec![(20, 6)], Answer::Refused(libc::ENOMEM)));
        assert_eq!(seen(&question(DONE, MULTI, 7, &[])), (vec![], Answer::Complete));
        assert_eq!(seen(&[]), (vec![], Answer::Complete));
        // The end of an earlier reply.
        let mut stale = question(DONE, MULTI, 6, &[0; 4]);
        assert_eq!(seen(&stale), (vec![], Answer::Continues));
        stale.extend(question(20, 0, 7, &[]));
        assert_eq!(seen(&stale), (vec![(20, 0)], Answer::Complete));
    }

    /// Opens a socket for questions about interfaces, with a question about `lo` whose reply has
    /// not been read. `flags` are those of the question.
    fn with_unread_reply(flags: u16) -> Socket {
        // SAFETY: the call takes only numbers.
        let number = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE) };
        assert!(number >= 0);
        // SAFETY: the kernel has just opened it, and nothing else owns it.
        let socket = unsafe { std::os::fd::FromRawFd::from_raw_fd(number) };
        let question = question(libc::RTM_GETLINK, flags, u32::MAX, &link(1));
        // SAFETY: `question` is valid for reading during the call.
        let sent = unsafe { libc::send(number, question.as_ptr().cast(), question.len(), 0) };
        assert!(sent > 0);
        prepare(socket).unwrap()
    }

    /// Returns an `ifinfomsg` with an interface index.
    fn link(index: u32) -> Vec<u8> {
        [[0; 4], index.to_ne_bytes(), [0; 4], [0; 4]].concat()
    }

    #[test]
    fn an_unread_reply_does_not_answer_the_next_question() {
        let socket = with_unread_reply(REQUEST);
        let mut replies = 0;
        let found = get(&socket, libc::RTM_GETLINK, &link(0x7fff_ffff), |_, _| replies += 1);
        assert!(found.unwrap_err().to_string().contains("No such device"));
        assert_eq!(replies, 0);
        get(&socket, libc::RTM_GETLINK, &link(1), |_, body| {
            assert_eq!(u32_at(body, 4), Some(1));
            replies += 1;
        })
        .unwrap();
        assert_eq!(replies, 1);
    }

    #[test]
    fn after_a_refusal_nothing_is_left_to_read() {
        // A dump that has not been read to its end: another one is refused, once.
        let socket = with_unread_reply(REQUEST | DUMP);
        let ask = || dump(&socket, libc::RTM_GETLINK, &link(0), |_, _| Some(()));
        assert!(ask().is_ok() || ask().is_ok());
        let buffer = &mut [0; 64];
        assert_eq!(receive(&socket.lock().unwrap(), buffer, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
    }

    /// Returns what a dump lists if the peer of its socket answers each request with two objects,
    /// numbered by request, of which the first has the flag [`CHANGED`] in the first `changing`
    /// replies.
    fn list_of(changing: u32) -> Vec<u32> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let answers = std::thread::spawn(move || {
            let mut request = [0; 64];
            for number in 0.. {
                let Ok(16..) = theirs.read(&mut request) else { return };
                let sequence = u32_at(&request, 8).unwrap();
                let flags = if number < changing { MULTI | CHANGED } else { MULTI };
                let object = u32::to_ne_bytes(number);
                theirs.write_all(&question(20, flags, sequence, &object)).unwrap();
                let mut last = question(20, MULTI, sequence, &object);
                last.extend(question(DONE, MULTI, sequence, &[0; 4]));
                theirs.write_all(&last).unwrap();
            }
        });
        let socket = prepare(ours.into()).unwrap();
        let found = dump(&socket, 20, &[], |_, body| u32_at(body, 0)).unwrap();
        drop(socket);
        answers.join().unwrap();
        found
    }

    #[test]
    fn a_list_that_changed_meanwhile_is_asked_for_again() {
        assert_eq!(list_of(0), [0, 0]);
        assert_eq!(list_of(2), [2, 2]);
        // Something changes all the time.
        assert_eq!(list_of(u32::MAX), [3, 3]);
    }

    #[test]
    fn a_long_reply_is_read_in_full_or_is_an_error() {
        let length_of = |bytes: usize| {
            let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
            let answers = std::thread::spawn(move || {
                let mut request = [0; 64];
                while let Ok(16..) = theirs.recv(&mut request) {
                    let sequence = u32_at(&request, 8).unwrap();
                    let reply = question(20, 0, sequence, &vec![1; bytes - HEADER]);
                    theirs.send(&reply).unwrap();
                }
            });
            let socket = prepare(ours.into()).unwrap();
            let mut length = 0;
            let found = get(&socket, 20, &[], |_, body| length = HEADER + body.len());
            // SAFETY: the byte is valid for reading during the call. A short request ends the
            // thread.
            let sent = unsafe {
                libc::send(socket.lock().unwrap().as_raw_fd(), [0u8; 1].as_ptr().cast(), 1, 0)
            };
            assert_eq!(sent, 1);
            answers.join().unwrap();
            found.is_ok().then_some(length)
        };
        let all = [100, ANSWER_BYTES, ANSWER_BYTES + 4, BUFFER_BYTES];
        assert_eq!(all.map(length_of), all.map(Some));
        assert_eq!(length_of(BUFFER_BYTES + 4), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn damaged_messages_end_the_answer(bytes in prop::collection::vec(0u8..24, 0..200)) {
            let inside: usize = messages(&bytes).map(|message| message.body.len()).sum();
            prop_assert!(inside <= bytes.len());
            let inside: usize = attributes(&bytes).map(|(_, body)| body.len()).sum();
            prop_assert!(inside <= bytes.len());
            take(&bytes, 0, &mut |_, _| {});
        }
    }
}
