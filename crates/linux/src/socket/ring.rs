// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sending through io_uring: requests go to the kernel in a ring of shared memory, several per
//! system call.

use crate::Error;
use io_uring::squeue::Flags;
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Order in which the kernel processes the requests of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In any order, and possibly at the same time: for datagrams.
    Any,
    /// Each request starts once the previous one has sent all its bytes: for streams.
    Sequential,
}

/// Result of one call to [`SendRing::send`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Number of messages of which at least one byte was sent.
    pub messages: u64,
    /// Number of bytes sent.
    pub bytes: u64,
    /// Number of messages that the kernel refused because a queue was full (ENOBUFS).
    pub refused: u64,
}

/// Sends copies of a message, several per system call.
pub struct SendRing {
    ring: IoUring,
    message: ManuallyDrop<Box<[u8]>>,
    per_call: u32,
    order: Order,
    /// Requests that the kernel has not completed. While there are any, it may read the message.
    outstanding: u32,
}

/// Number of expired time limits after which [`SendRing::send`] stops waiting for the kernel. It
/// cancels the requests when the first one expires.
const TIMEOUTS: u32 = 20;

/// `user_data` of a request, by which its completion is recognized.
const SEND: u64 = 1;
const CANCEL: u64 = 2;

impl SendRing {
    /// Creates a ring that sends `per_call` copies (at least 1) of `message` per call.
    ///
    /// # Errors
    /// Returns an error if the kernel is older than 5.11, or if io_uring is disabled or forbidden,
    /// as it is in many containers.
    pub fn new(message: Vec<u8>, per_call: u32, order: Order) -> Result<Self, Error> {
        let per_call = per_call.max(1);
        let failed = |error: io::Error| Error::Call {
            call: "io_uring_setup",
            value: format!("{per_call} requests"),
            errno: error.raw_os_error().unwrap_or(0),
            advice: "allow io_uring: sysctl kernel.io_uring_disabled=0; in a container, also use \
                     a seccomp profile that permits it",
        };
        // Since Linux 6.1, a thread that is the only user of the ring can complete requests while
        // it waits, without interrupts.
        let alone = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(per_call.saturating_add(1));
        let ring = alone.or_else(|_| IoUring::new(per_call.saturating_add(1))).map_err(failed)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(failed(io::Error::from_raw_os_error(libc::ENOSYS)));
        }
        let message = ManuallyDrop::new(message.into_boxed_slice());
        Ok(Self { ring, message, per_call, order, outstanding: 0 })
    }

    /// Sends all copies of the message on a connected socket, waiting for at most `within`. When
    /// the time limit expires, cancels the copies that have not been sent.
    ///
    /// # Errors
    /// Returns the first error if nothing could be sent: `TimedOut` if the time limit expired.
    /// Returns `ResourceBusy`, after which the ring is unusable, if the kernel does not complete
    /// the cancelled requests; before Linux 5.19, it cannot cancel them.
    pub fn send(&mut self, socket: &impl AsFd, within: Duration) -> io::Result<Sent> {
        self.submit(socket)?;
        let mut sent = Sent::default();
        let (mut first_error, mut timeouts) = (None, 0);
        while self.outstanding > 0 && timeouts < TIMEOUTS {
            let is_late = self.wait(within)?;
            self.collect(&mut sent, &mut first_error);
            timeouts += u32::from(is_late);
            if is_late && timeouts == 1 && self.outstanding > 0 {
                first_error.get_or_insert(libc::ETIMEDOUT);
                let all = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
                self.push(&all.user_data(CANCEL))?;
            }
        }
        match first_error {
            _ if self.outstanding > 0 => Err(io::ErrorKind::ResourceBusy.into()),
            Some(errno) if sent.bytes == 0 => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(sent),
        }
    }

    fn submit(&mut self, socket: &impl AsFd) -> io::Result<()> {
        let (start, length) = (self.message.as_ptr(), self.message.len() as u32);
        let to = Fd(socket.as_fd().as_raw_fd());
        for number in 1..=self.per_call {
            let is_linked = self.order == Order::Sequential && number < self.per_call;
            let all = if self.order == Order::Sequential { libc::MSG_WAITALL } else { 0 };
            let entry = opcode::Send::new(to, start, length).flags(libc::MSG_NOSIGNAL | all);
            let linked = if is_linked { Flags::IO_LINK } else { Flags::empty() };
            self.push(&entry.build().flags(linked).user_data(SEND))?;
        }
        Ok(())
    }

    fn push(&mut self, entry: &io_uring::squeue::Entry) -> io::Result<()> {
        // SAFETY: the entry refers to `self.message` or to no memory. The message lives until the
        // kernel has completed all requests, and otherwise is never freed (see `drop`).
        match unsafe { self.ring.submission().push(entry) } {
            Ok(()) => {
                self.outstanding += 1;
                Ok(())
            }
            Err(_) => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    /// Submits the pushed requests and waits for all completions. Returns whether the time limit
    /// expired first.
    fn wait(&self, within: Duration) -> io::Result<bool> {
        let time = Timespec::from(within);
        let waiting = SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(self.outstanding as usize, &waiting) {
            Ok(_) => Ok(false),
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Counts the completions that have arrived.
    fn collect(&mut self, sent: &mut Sent, first_error: &mut Option<i32>) {
        for done in self.ring.completion() {
            self.outstanding = self.outstanding.saturating_sub(1);
            match u64::try_from(done.result()) {
                _ if done.user_data() == CANCEL => {}
                Ok(bytes) => {
                    sent.messages += u64::from(bytes > 0);
                    sent.bytes += bytes;
                }
                // Requests linked to a failed request are cancelled too.
                Err(_) if done.result() == -libc::ECANCELED => {}
                Err(_) => {
                    sent.refused += u64::from(done.result() == -libc::ENOBUFS);
                    first_error.get_or_insert(-done.result());
                }
            }
        }
    }
}

impl Drop for SendRing {
    fn drop(&mut self) {
        // If a call ended early, the kernel may still read the message, so it is leaked.
        if self.outstanding == 0 {
            // SAFETY: no one uses the message any more, and it is dropped only here.
            unsafe { ManuallyDrop::drop(&mut self.message) };
        }
    }
}

impl std::fmt::Debug for SendRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendRing")
            .field("per_call", &self.per_call)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    /// Returns a ring; prints the reason and returns `None` if io_uring is unavailable.
    fn ring(message: Vec<u8>, per_call: u32, order: Order) -> Option<SendRing> {
        match SendRing::new(message, per_call, order) {
            Ok(ring) => Some(ring),
            Err(error) => {
                println!("SKIP: {error}");
                None
            }
        }
    }

    #[test]
    fn a_call_sends_several_datagrams() {
        let Some(mut ring) = ring(vec![7; 100], 8, Order::Any) else { return };
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        for _ in 0..3 {
            let sent = ring.send(&sender, Duration::from_secs(5)).unwrap();
            assert_eq!((sent.messages, sent.bytes), (8, 800));
            for _ in 0..8 {
                let mut room = [0; 200];
                assert_eq!(receiver.recv(&mut room).unwrap(), 100);
                assert!(room[..100].iter().all(|byte| *byte == 7));
            }
        }
    }

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (sender, listener.accept().unwrap().0)
    }

    #[test]
    fn a_stream_keeps_its_order() {
        let message: Vec<u8> = (0..=250).cycle().take(300_000).collect();
        let Some(mut ring) = ring(message.clone(), 4, Order::Sequential) else { return };
        let (sender, mut receiver) = connected();
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; 4 * 300_000];
            receiver.read_exact(&mut all).unwrap();
            all
        });
        let sent = ring.send(&sender, Duration::from_secs(20)).unwrap();
        assert_eq!((sent.messages, sent.bytes), (4, 1_200_000));
        assert_eq!(reader.join().unwrap(), message.repeat(4));
    }

    #[test]
    fn what_a_peer_does_not_read_is_cancelled() {
        let Some(mut ring) = ring(vec![1; 64 << 20], 2, Order::Sequential) else { return };
        let (sender, receiver) = connected();
        let sent = ring.send(&sender, Duration::from_millis(50)).unwrap();
        assert!(sent.bytes > 0 && sent.bytes < 128 << 20, "{sent:?}");
        // The receive window may still open a little, in which case the next calls send some bytes.
        let error = (0..100).find_map(|_| ring.send(&sender, Duration::from_millis(50)).err());
        assert_eq!(error.map(|error| error.kind()), Some(io::ErrorKind::TimedOut));
        drop(receiver);
        assert!(ring.send(&sender, Duration::from_secs(5)).is_err());
    }
}
