// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests and replies of equal length over TCP, with one request in flight per connection.

use super::Side;
use crate::line::is_timeout;
use crate::meter::Meter;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

/// Sends requests, each in as many writes as the test specifies, and waits for each reply.
pub(super) fn ask(side: &Side<'_>, stream: &TcpStream, meter: &mut Meter<'_>) -> io::Result<()> {
    let test = side.test;
    let mut message = vec![0x5a; test.message as usize];
    let part = message.len().div_ceil(test.writes as usize);
    meter.reads_itself = true;
    'test: while side.goes_on(meter) {
        let began = Instant::now();
        for part in message.chunks(part) {
            if !send_all(side, stream, part, meter)? {
                break 'test;
            }
        }
        // Data still unsent now are held back until an ACK arrives (Nagle).
        if meter.is_reading_due {
            meter.read_tcp();
        }
        if !fill(side, stream, &mut message, meter)? {
            break;
        }
        meter.counts.bytes += message.len() as u64;
        meter.request(began.elapsed());
        meter.pause(test.write_pause);
    }
    stream.shutdown(Shutdown::Write)
}

/// Answers requests until the other end closes.
pub(super) fn answer(side: &Side<'_>, stream: &TcpStream, meter: &mut Meter<'_>) -> io::Result<()> {
    let mut message = vec![0; side.test.message as usize];
    while side.goes_on(meter) {
        if !fill(side, stream, &mut message, meter)? {
            return Ok(());
        }
        meter.counts.bytes += message.len() as u64;
        meter.counts.requests += 1;
        meter.pause(side.test.read_pause);
        if !send_all(side, stream, &message, meter)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Writes all of `bytes`, however often the socket times out. Returns `false` if the test ends
/// first.
fn send_all(
    side: &Side<'_>,
    mut stream: impl Write,
    bytes: &[u8],
    meter: &mut Meter<'_>,
) -> io::Result<bool> {
    whole(side, bytes.len(), meter, |at| match stream.write(&bytes[at..])? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        sent => Ok(sent),
    })
}

/// Reads a whole message. Returns `false` if the stream or the test ends first.
fn fill(
    side: &Side<'_>,
    mut stream: &TcpStream,
    message: &mut [u8],
    meter: &mut Meter<'_>,
) -> io::Result<bool> {
    whole(side, message.len(), meter, |at| stream.read(&mut message[at..]))
}

/// Repeats `call`, which moves bytes of a message from an offset on and returns their number, until
/// all `length` bytes are moved. Looks at the clock after each call, timed out or not. Returns
/// `false` if a call moves nothing or the test ends first.
fn whole(
    side: &Side<'_>,
    length: usize,
    meter: &mut Meter<'_>,
    mut call: impl FnMut(usize) -> io::Result<usize>,
) -> io::Result<bool> {
    let mut moved = 0;
    while moved < length {
        match call(moved) {
            Ok(0) => return Ok(false),
            Ok(bytes) => {
                moved += bytes;
                meter.counts.data_calls += 1;
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
        if moved < length && !side.goes_on(meter) {
            return Ok(false);
        }
        meter.counts.calls += 1;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Test;
    use crate::protocol::tests::test;
    use std::time::Duration;

    /// A socket whose every other call times out. The calls in between take 3 bytes at most.
    #[derive(Default)]
    struct Stalling {
        taken: Vec<u8>,
        is_ready: bool,
    }

    impl Write for Stalling {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let was_ready = self.is_ready;
            self.is_ready = !was_ready;
            if !was_ready {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(3);
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Sends 8 bytes. Returns whether all were sent, those that the socket took, and the numbers of
    /// calls and of calls that moved data.
    fn sent(is_aborted: bool) -> (bool, Vec<u8>, [u64; 2]) {
        let test = Test { measured: Duration::from_secs(60), ..test() };
        let (is_sent, is_aborted) = (|| false, move || is_aborted);
        let side = Side {
            test: &test,
            is_sender: true,
            cpu: None,
            is_sent: &is_sent,
            is_aborted: &is_aborted,
        };
        let mut meter = Meter::new(&test, Duration::ZERO, None, false);
        let mut socket = Stalling::default();
        let is_complete = send_all(&side, &mut socket, b"requests", &mut meter).expect("no error");
        let counts = meter.counts;
        (is_complete, socket.taken, [counts.calls, counts.data_calls])
    }

    #[test]
    fn a_message_is_sent_whole_across_stalls() {
        assert_eq!(sent(false), (true, b"requests".to_vec(), [6, 3]));
    }

    #[test]
    fn a_stalled_message_does_not_outlast_its_test() {
        assert_eq!(sent(true), (false, Vec::new(), [0, 0]));
    }
}
