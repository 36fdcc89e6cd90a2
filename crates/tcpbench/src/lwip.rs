// SPDX-License-Identifier: MIT OR Apache-2.0
//! lwIP as a stack under test, if its plug-in was built.
//!
//! lwIP calls its checksum, copy, and copy-and-checksum routines through macros, so everything it
//! sums or copies goes through the set's routines. So do the driver's copies:
//!
//! ```text
//! application --copy + sum--> segment, kept until it is acknowledged
//!     segment --copy + sum--> buffer of the receiver's driver
//!         buffer of the receiver's driver --copy--> application
//! ```
//!
//! The first copy is in lwIP's `tcp_write`. The second is in the driver here. It verifies each
//! frame, including the IP header, while copying it in, so lwIP's own check is disabled. With
//! [`WireMode::Reference`], lwIP reads the segment in the sender's memory and verifies the
//! checksums itself. Only the headers are copied, because lwIP modifies them.
//!
//! Delayed ACKs use a fixed timer of 250 ms. Congestion control cannot be disabled, but its initial
//! window can be made so large that it never limits the sender.

#[expect(unsafe_code, reason = "calls into C, all but one wrapped in safe functions")]
mod plugin;

pub use plugin::{LoadError, folders};

use crate::endpoint::{
    Checksums, Config, Congestion, Counters, Endpoint, HEADER_BYTES, Micros, SERVER_PORT, Side,
    Stack, State, WireMode,
};
use crate::packet;
use crate::routines::{Reading, Routines, Seam, Tallies, Tally};
use crate::wire::{Frame, Port};
use plugin::{Plugin, Settings, Sums};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

/// Maximum size of an IPv4 or TCP header with options (RFC 791, 3.1; RFC 9293, 3.1). Up to this
/// many bytes are summed inline: headers were just written in pieces, so wider loads would defeat
/// store forwarding.
const INLINE_BYTES: u32 = 60;

/// lwIP, loaded from the first directory that has it.
#[derive(Clone, Debug)]
pub struct Lwip {
    folders: Vec<PathBuf>,
}

impl Lwip {
    /// Name of the stack in records and on command lines.
    pub const NAME: &'static str = "lwip";

    /// Searches the directories that `cargo xtask fetch lwip` writes to, relative to this program.
    pub fn new() -> Self {
        Self::from_folders(folders())
    }

    /// Searches only these directories for the plug-in.
    pub fn from_folders(folders: Vec<PathBuf>) -> Self {
        Self { folders }
    }

    /// Checks that a build for `segment`-byte segments is available.
    ///
    /// # Errors
    /// Returns an error that says how to build the plug-in if it is missing.
    pub fn check(&self, segment: usize) -> Result<(), LoadError> {
        Plugin::load(segment, &self.folders).map(drop)
    }
}

impl Default for Lwip {
    fn default() -> Self {
        Self::new()
    }
}

impl Stack for Lwip {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn version(&self) -> String {
        let plugin = Plugin::load(1460, &self.folders);
        plugin.map_or_else(|error| error.to_string(), |plugin| plugin.version())
    }

    fn copies_by_routines(&self) -> bool {
        true
    }

    fn endpoint(&self, config: &Config) -> Result<Box<dyn Endpoint>, String> {
        let plugin = Plugin::load(config.segment, &self.folders).map_err(|error| match error {
            // The plug-in works for another segment size, so building it again would not help.
            LoadError::Missing { .. } if self.check(1460).is_ok() => format!(
                "the plug-in was not built for segments of {} bytes: see SEGMENTS in \
                 crates/tcpbench/lwip/Makefile",
                config.segment
            ),
            error => error.to_string(),
        })?;
        Ok(Box::new(LwipEndpoint::new(plugin, config)?))
    }
}

/// Converts the routines for the plug-in, leaving out those that `checksums` rules out.
fn raw_routines(routines: &Routines, checksums: Checksums) -> plugin::Routines {
    let sums = checksums == Checksums::Routines;
    let copies = checksums != Checksums::Stack;
    plugin::Routines {
        checksum: routines.checksum().as_checksum().filter(|_| sums),
        copy: routines.copy().as_copy().filter(|_| copies),
        copy_checksum: routines
            .copy_checksum()
            .and_then(|routine| routine.as_copy_checksum())
            .filter(|_| sums),
        inline_bytes: INLINE_BYTES,
    }
}

fn settings(config: &Config) -> Result<Settings, String> {
    let sums = match (config.checksums, config.wire) {
        (Checksums::Off, _) => Sums::Off,
        (Checksums::Routines, WireMode::Copy) => Sums::ArriveVerified,
        (Checksums::Routines, WireMode::Reference) | (Checksums::Stack, _) => Sums::Lwip,
    };
    let limits = 2 * config.segment..=BUFFER_MAX;
    if !limits.contains(&config.buffer) {
        return Err(format!(
            "invalid lwIP buffer size {}: with segments of {} bytes, use {} to {BUFFER_MAX}",
            config.buffer,
            config.segment,
            limits.start()
        ));
    }
    Ok(Settings {
        address: config.side.address().octets(),
        peer: config.side.peer().address().octets(),
        port: SERVER_PORT,
        is_server: config.side == Side::Server,
        sums,
        nagle: config.nagle,
        wide_open: config.congestion == Congestion::None,
        seed: (config.seed ^ config.seed >> 32) as u32,
        buffer: config.buffer as u32,
    })
}

/// Largest window that can be advertised with a window scale of 7 (`TCP_RCV_SCALE` in the plug-in).
const BUFFER_MAX: usize = 0xffff << 7;

/// Zero-copy frames that lwIP is still using.
#[derive(Debug, Default)]
struct InPlace {
    frames: Vec<Option<Frame>>,
    free: Vec<usize>,
}

impl InPlace {
    /// Keeps a frame and returns its number, counted from 1.
    fn keep(&mut self, frame: Frame) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.frames.push(None);
            self.frames.len() - 1
        });
        self.frames[place] = Some(frame);
        place + 1
    }

    /// Returns the frame with this number, and frees the number.
    fn take(&mut self, number: usize) -> Frame {
        self.free.push(number - 1);
        self.frames[number - 1].take().expect("a frame in flight has this number")
    }
}

/// An lwIP instance with one interface and one connection.
struct LwipEndpoint {
    plugin: Rc<Plugin>,
    seam: Seam,
    verifies: bool,
    copies: bool,
    in_place: InPlace,
    counters: Counters,
    /// Whether a call since the last poll may have produced frames.
    is_stirred: bool,
}

impl LwipEndpoint {
    fn new(plugin: Plugin, config: &Config) -> Result<Self, String> {
        let settings = settings(config)?;
        if !plugin.begin(&settings, &raw_routines(&config.routines, config.checksums)) {
            return Err("lwIP could not add its netif; rebuild it: cargo xtask fetch lwip".into());
        }
        Ok(Self {
            plugin: Rc::new(plugin),
            seam: Seam::new(config.routines),
            verifies: settings.sums == Sums::ArriveVerified,
            copies: config.wire == WireMode::Copy,
            in_place: InPlace::default(),
            counters: Counters::default(),
            is_stirred: false,
        })
    }

    /// Copies a frame into lwIP's memory. Returns `false` if its checksums do not match.
    fn copy_in(&mut self, frame: &Frame) -> bool {
        let bytes = frame.bytes();
        // If lwIP is out of memory, the frame is dropped, as in any driver.
        let Some(mut room) = self.plugin.room(bytes.len()) else { return true };
        if !self.verifies {
            packet::copy(&mut self.seam, room.bytes_mut(), bytes);
        } else if !packet::copy_verified(&mut self.seam, room.bytes_mut(), bytes) {
            return false;
        }
        self.plugin.input(room);
        true
    }

    /// Passes a frame to lwIP without copying.
    #[expect(unsafe_code, reason = "the plug-in cannot know what keeps a frame alive")]
    fn lend(&mut self, mut frame: Frame, port: &mut Port<'_>) {
        let (header, payload) = frame.pinned(HEADER_BYTES);
        let number = self.in_place.keep(frame);
        // SAFETY: `in_place` keeps the frame, and thus both parts, in place and inaccessible until
        // lwIP has returned its number; if the plug-in is dropped first, nothing reads them.
        if !unsafe { self.plugin.input_in_place(header, payload, number) } {
            port.pool.put(self.in_place.take(number));
        }
    }

    fn take_in(&mut self, port: &mut Port<'_>) {
        while let Some(frame) = port.arrived.pop_front() {
            self.counters.received += 1;
            if frame.length() < HEADER_BYTES {
                self.counters.bad_checksums += 1;
                port.pool.put(frame);
            } else if self.copies {
                self.counters.bad_checksums += u64::from(!self.copy_in(&frame));
                port.pool.put(frame);
            } else {
                self.lend(frame, port);
            }
        }
        while let Some(number) = self.plugin.reclaim() {
            port.pool.put(self.in_place.take(number));
        }
    }
}

impl Endpoint for LwipEndpoint {
    fn open(&mut self, now: Micros) -> Result<(), String> {
        self.is_stirred = true;
        self.plugin.advance(millis(now));
        let said = |error| format!("lwIP refused a connection with error {error} (lwip/err.h)");
        self.plugin.open().map_err(said)
    }

    fn state(&self) -> State {
        self.plugin.state()
    }

    fn send_room(&self) -> usize {
        self.plugin.send_room()
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        let taken = self.plugin.send(bytes);
        self.is_stirred |= taken > 0;
        taken
    }

    fn receive(&mut self, into: &mut [u8]) -> usize {
        let bytes = self.plugin.receive(into);
        self.is_stirred |= bytes > 0;
        bytes
    }

    fn close(&mut self) {
        self.is_stirred = true;
        self.plugin.close();
    }

    fn poll(&mut self, now: Micros, port: &mut Port<'_>) {
        self.plugin.advance(millis(now));
        self.take_in(port);
        self.plugin.flush();
        while let Some(sent) = self.plugin.sent() {
            self.counters.sent += 1;
            port.sent.push_back(port.pool.lend(sent));
        }
        self.is_stirred = false;
    }

    fn poll_at(&mut self, now: Micros) -> Option<Micros> {
        if self.is_stirred {
            return Some(now);
        }
        self.plugin.next_timer().map(|ms| (now / 1000 + Micros::from(ms)) * 1000)
    }

    fn counters(&self) -> Counters {
        let mut counters = self.counters.clone();
        counters.bad_checksums += self.plugin.bad_checksums();
        counters
    }

    fn watch(&mut self, reading: Option<Reading>) {
        self.seam.watch(reading);
        self.plugin.watch(reading, None);
    }

    fn mark(&mut self, activity: Option<&Arc<AtomicU8>>) {
        self.seam.mark(activity);
        self.plugin.watch(None, activity);
    }

    fn tallies(&self) -> Tallies {
        let [checksum, copy, copy_checksum, header] = self.plugin.tallies();
        let copy_header = Tally::default();
        self.seam.tallies() + &Tallies { checksum, copy, copy_checksum, header, copy_header }
    }
}

/// Converts virtual time to milliseconds, the unit of lwIP's clock.
fn millis(now: Micros) -> u32 {
    (now / 1000) as u32
}
