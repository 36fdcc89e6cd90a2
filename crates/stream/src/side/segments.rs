// SPDX-License-Identifier: MIT OR Apache-2.0
//! A TCP stream in one direction.

use super::Side;
use crate::line::is_timeout;
use crate::meter::Meter;
use crate::protocol::{Test, Way};
use linerate_linux::socket::{self, Order, SendRing};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Sends messages until the test ends, then shuts down the connection for writing.
pub(super) fn send(side: &Side<'_>, stream: &TcpStream, meter: &mut Meter<'_>) -> io::Result<()> {
    let mut source = Source::new(side.test, stream)?;
    while side.goes_on(meter) {
        match source.send(stream, meter) {
            Ok(bytes) => meter.moved(bytes as u64),
            Err(error) if is_timeout(&error) => meter.counts.calls += 1,
            Err(error) => return Err(error),
        }
        meter.pause(side.test.write_pause);
    }
    source.settle(stream, meter);
    stream.shutdown(Shutdown::Write)
}

/// Reads until the sender shuts down the connection for writing, or the test ends.
pub(super) fn receive(
    side: &Side<'_>,
    mut stream: &TcpStream,
    meter: &mut Meter<'_>,
) -> io::Result<()> {
    let mut room = vec![0; side.test.message as usize];
    while side.goes_on(meter) {
        match stream.read(&mut room) {
            Ok(0) => return Ok(()),
            Ok(bytes) => meter.moved(bytes as u64),
            Err(error) if is_timeout(&error) => meter.counts.calls += 1,
            Err(error) => return Err(error),
        }
        meter.pause(side.test.read_pause);
    }
    Ok(())
}

/// The bytes to send, and how to send them.
struct Source {
    message: Vec<u8>,
    /// A file with the message, for sendfile.
    file: Option<File>,
    ring: Option<SendRing>,
    way: Way,
    /// Zero-copy calls that have not completed.
    outstanding: u64,
}

/// Messages per io_uring_enter call.
const PER_CALL: u32 = 4;
/// Number of outstanding zero-copy calls at which completions are collected.
const OUTSTANDING: u64 = 64;

impl Source {
    fn new(test: &Test, stream: &TcpStream) -> io::Result<Self> {
        let message = vec![0x5a; test.message as usize];
        let failed = |error: linerate_linux::Error| io::Error::other(error.to_string());
        let file = match test.way {
            Way::SendFile => Some(linerate_linux::file_in_memory(&message).map_err(failed)?),
            _ => None,
        };
        if test.way == Way::ZeroCopy {
            socket::allow_zerocopy(stream).map_err(failed)?;
        }
        let ring = (test.way == Way::Ring)
            .then(|| SendRing::new(message.clone(), PER_CALL, Order::Sequential))
            .transpose()
            .map_err(failed)?;
        Ok(Self { message, file, ring, way: test.way, outstanding: 0 })
    }

    fn send(&mut self, mut stream: &TcpStream, meter: &mut Meter<'_>) -> io::Result<usize> {
        if let Some(file) = &self.file {
            return socket::send_file(stream, file, 0, self.message.len());
        }
        if let Some(ring) = &mut self.ring {
            return ring.send(stream, super::STEP).map(|sent| sent.bytes as usize);
        }
        if self.way != Way::ZeroCopy {
            return stream.write(&self.message);
        }
        if self.outstanding >= OUTSTANDING {
            self.take(stream, meter)?;
        }
        match socket::send_zerocopy(stream, &self.message) {
            Ok(bytes) => {
                self.outstanding += 1;
                meter.thread.lent += 1;
                Ok(bytes)
            }
            // No room for another outstanding call (net.core.optmem_max).
            Err(error) if error.raw_os_error() == Some(linerate_linux::errno::ENOBUFS) => {
                self.take(stream, meter)?;
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, stream: &TcpStream, meter: &mut Meter<'_>) -> io::Result<()> {
        let done = socket::completions(stream)?;
        meter.counts.calls += 1;
        meter.thread.lent_copied += done.copied;
        self.outstanding = self.outstanding.saturating_sub(done.calls);
        Ok(())
    }

    /// Collects the zero-copy completions that have arrived by the end of the stream, and ignores
    /// later ones.
    fn settle(&mut self, stream: &TcpStream, meter: &mut Meter<'_>) {
        if self.way == Way::ZeroCopy {
            // The stream is over; its error queue may be gone, too.
            let _ = self.take(stream, meter);
        }
    }
}
