// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests and replies of equal length over TCP, with one request in flight per connection.

use super::Side;
use crate::line::is_timeout;
use crate::meter::Meter;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

/// Sends requests, each in as many writes as the test specifies, and waits for each reply.
pub(super) fn ask(
    side: &Side<'_>,
    mut stream: &TcpStream,
    meter: &mut Meter<'_>,
) -> io::Result<()> {
    let test = side.test;
    let mut message = vec![0x5a; test.message as usize];
    let part = message.len().div_ceil(test.writes as usize);
    meter.reads_itself = true;
    while side.goes_on(meter) {
        let began = Instant::now();
        for part in message.chunks(part) {
            stream.write_all(part)?;
            meter.counts.calls += 1;
            meter.counts.data_calls += 1;
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
pub(super) fn answer(
    side: &Side<'_>,
    mut stream: &TcpStream,
    meter: &mut Meter<'_>,
) -> io::Result<()> {
    let mut message = vec![0; side.test.message as usize];
    while side.goes_on(meter) {
        if !fill(side, stream, &mut message, meter)? {
            return Ok(());
        }
        meter.counts.bytes += message.len() as u64;
        meter.counts.requests += 1;
        meter.pause(side.test.read_pause);
        stream.write_all(&message)?;
        meter.counts.calls += 1;
        meter.counts.data_calls += 1;
    }
    Ok(())
}

/// Reads a whole message. Returns `false` if the stream or the test ends first.
fn fill(
    side: &Side<'_>,
    mut stream: &TcpStream,
    message: &mut [u8],
    meter: &mut Meter<'_>,
) -> io::Result<bool> {
    let mut filled = 0;
    while filled < message.len() {
        match stream.read(&mut message[filled..]) {
            Ok(0) => return Ok(false),
            Ok(bytes) => {
                filled += bytes;
                meter.counts.data_calls += 1;
            }
            Err(error) if is_timeout(&error) => {
                if !side.goes_on(meter) {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error),
        }
        meter.counts.calls += 1;
    }
    Ok(true)
}
