// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stream of UDP datagrams in one direction, paced on request.

use super::Side;
use crate::line::is_timeout;
use crate::meter::Meter;
use crate::protocol::{MAX_DATAGRAM, Test, Way};
use linerate_linux::errno::ENOBUFS;
use linerate_linux::socket::{self, Batch, Order, SendRing};
use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Messages per sendmmsg, recvmmsg or io_uring_enter call.
const BATCH: usize = 32;
/// Maximum number of segments per call with UDP_SEGMENT (UDP_MAX_SEGMENTS before Linux 6.9).
const MAX_SEGMENTS: u32 = 64;
/// Shortest sleep of a paced sender: because of timer slack, a shorter one would take as long.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);

pub(super) fn send(side: &Side<'_>, udp: &UdpSocket, meter: &mut Meter<'_>) -> io::Result<()> {
    let test = side.test;
    let size = u64::from(test.message);
    let mut source = Source::new(test, udp)?;
    let began = Instant::now();
    let mut sent = 0;
    while side.goes_on(meter) {
        if let Some(rate) = test.rate_bits_per_s {
            let due = Duration::from_secs_f64((8 * sent * size) as f64 / rate as f64);
            let ahead = due.saturating_sub(began.elapsed());
            if ahead >= SHORTEST_SLEEP {
                std::thread::sleep(ahead.min(super::STEP));
                continue;
            }
        }
        match source.send(udp) {
            Ok(Passed { datagrams, refused }) => {
                sent += datagrams + refused;
                meter.moved(datagrams * size);
                meter.thread.datagrams += datagrams;
                meter.thread.refused += refused;
            }
            Err(error) if error.raw_os_error() == Some(ENOBUFS) => {
                sent += source.per_call;
                meter.counts.calls += 1;
                meter.thread.refused += source.per_call;
            }
            // The port is closed because the receiver has ended, which the control connection
            // reports.
            Err(error) if is_timeout(&error) || is_refused(&error) => meter.counts.calls += 1,
            Err(error) => return Err(error),
        }
        meter.pause(test.write_pause);
    }
    Ok(())
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

pub(super) fn receive(side: &Side<'_>, udp: &UdpSocket, meter: &mut Meter<'_>) -> io::Result<()> {
    let test = side.test;
    let size = u64::from(test.message);
    let mut sink = Sink::new(test, udp)?;
    while side.goes_on(meter) {
        match sink.receive(udp) {
            Ok(bytes) => {
                meter.moved(bytes);
                meter.thread.datagrams += bytes.div_ceil(size);
            }
            Err(error) if is_timeout(&error) || is_refused(&error) => {
                meter.counts.calls += 1;
                // The queue is empty and nothing more will arrive.
                if (side.is_sent)() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
        meter.pause(test.read_pause);
    }
    Ok(())
}

/// Datagrams that the kernel accepted in a call, and those that a full queue refused.
struct Passed {
    datagrams: u64,
    refused: u64,
}

/// The datagrams to send.
struct Source {
    message: Vec<u8>,
    batch: Option<Batch>,
    ring: Option<SendRing>,
    per_call: u64,
}

fn failed(error: &linerate_linux::Error) -> io::Error {
    io::Error::other(error.to_string())
}

impl Source {
    fn new(test: &Test, udp: &UdpSocket) -> io::Result<Self> {
        let is_v6 = udp.local_addr()?.is_ipv6();
        socket::report_queue_drops(udp, is_v6).map_err(|error| failed(&error))?;
        let segments = match test.way {
            Way::Segment | Way::SegmentAndGro => {
                // All segments together must fit one datagram, or the call fails.
                let size = u16::try_from(test.message).map_err(io::Error::other)?;
                socket::set_udp_segment(udp, size).map_err(|error| failed(&error))?;
                (MAX_DATAGRAM / test.message).clamp(1, MAX_SEGMENTS)
            }
            _ => 1,
        };
        let is_batch = test.way == Way::Batches;
        let message = vec![0x5a; (test.message * segments) as usize];
        let ring = (test.way == Way::Ring)
            .then(|| SendRing::new(message.clone(), BATCH as u32, Order::Any))
            .transpose()
            .map_err(|error| failed(&error))?;
        let has_many = is_batch || ring.is_some();
        Ok(Self {
            message,
            batch: is_batch.then(|| Batch::new(BATCH, test.message as usize)),
            ring,
            per_call: if has_many { BATCH as u64 } else { u64::from(segments) },
        })
    }

    /// Sends one or more datagrams with a single call.
    fn send(&mut self, udp: &UdpSocket) -> io::Result<Passed> {
        if let Some(ring) = &mut self.ring {
            let sent = ring.send(udp, super::STEP)?;
            return Ok(Passed { datagrams: sent.messages, refused: sent.refused });
        }
        let datagrams = match &mut self.batch {
            Some(batch) => socket::send_batch(udp, batch)? as u64,
            None => udp.send(&self.message).map(|_| self.per_call)?,
        };
        Ok(Passed { datagrams, refused: 0 })
    }
}

/// Buffers for received datagrams.
struct Sink {
    room: Vec<u8>,
    batch: Option<Batch>,
}

impl Sink {
    fn new(test: &Test, udp: &UdpSocket) -> io::Result<Self> {
        let is_joined = test.way == Way::SegmentAndGro;
        if is_joined {
            socket::allow_udp_gro(udp).map_err(|error| failed(&error))?;
        }
        let size = test.message as usize;
        let room = if is_joined { u16::MAX as usize } else { size };
        let is_batch = test.way == Way::Batches;
        Ok(Self { room: vec![0; room], batch: is_batch.then(|| Batch::new(BATCH, size)) })
    }

    /// Receives datagrams with a single call. Returns the number of bytes received.
    fn receive(&mut self, udp: &UdpSocket) -> io::Result<u64> {
        match &mut self.batch {
            Some(batch) => socket::receive_batch(udp, batch).map(|(_, bytes)| bytes),
            None => udp.recv(&mut self.room).map(|bytes| bytes as u64),
        }
    }
}
