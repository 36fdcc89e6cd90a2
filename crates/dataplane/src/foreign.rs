// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes bursts to foreign code: defines the memory layout that this code sees, and checks what it
//! did to packets and verdicts.
//!
//! Foreign code (a stage in C) gets pointers to the cache lines with the packets' metadata, which
//! every stage reads anyway, so nothing is copied. The code may do whatever a Rust stage can do
//! through [`Packet`], but no compiler enforces this limit. Therefore:
//!
//! ```text
//! before: save bytes 16 to 47 of each line (linerate does not depend on the first 16)
//! call:   verdicts start as PASS
//! after:  all verdicts PASS, and all lines as saved: done
//!         else, packet by packet: is the verdict known, is the frame within its buffer, are the
//!         fields that belong to linerate unchanged, are the offsets of headers in order?
//!           no:  restore this packet and the later ones; the fault names the packet
//!           yes: account for the bytes by which each end of the frame moved
//!         then drop and consume according to the verdicts
//! ```
//!
//! The stage's account is computed from the changes to these lines, so foreign code cannot get it
//! wrong.

use crate::burst::{Burst, MAX_BURST, Verdict};
use crate::context::{Account, StageContext};
use crate::packet::{Fragment, Line, Meta, Packet};
use linerate_record::run::FailureKind;
use std::mem::offset_of;
use std::ptr;

/// Verdict of foreign code: the packet continues.
pub const PASS: u8 = 0;

/// Verdict of foreign code: the packet ends in the stage by design.
pub const CONSUME: u8 = 1;

/// Verdict of foreign code: `DROP + n` drops the packet for the drop cause with index `n`.
pub const DROP: u8 = 16;

/// Value of `ForeignBurst::at` until foreign code sets it.
pub const UNKNOWN: u32 = u32::MAX;

/// A burst as seen by foreign code: `struct linerate_burst` in `stage.h`.
#[derive(Debug)]
#[repr(C)]
pub struct ForeignBurst {
    /// Array of `count` pointers to packets (`struct linerate_packet`).
    packets: *const *mut Line,
    /// Array of `count` verdicts, to be written by foreign code.
    verdicts: *mut u8,
    /// Number of packets, 1 to [`MAX_BURST`].
    count: u32,
    /// Index of the packet being processed, set by foreign code; [`UNKNOWN`] until foreign code
    /// sets it.
    at: u32,
}

/// Field offsets of `struct linerate_packet`, in the order in which `stage.h` declares the fields.
/// A test compares the offsets with that header.
pub const PACKET_OFFSETS: [(&str, usize); 14] = [
    ("position", offset_of!(Line, meta.position)),
    ("time_ns", offset_of!(Line, meta.time_ns)),
    ("born_ticks", offset_of!(Line, meta.born_ticks)),
    ("l3", offset_of!(Line, meta.layers.l3)),
    ("l4", offset_of!(Line, meta.layers.l4)),
    ("l3_end", offset_of!(Line, meta.layers.l3_end)),
    ("ip_version", offset_of!(Line, meta.layers.ip_version)),
    ("protocol", offset_of!(Line, meta.layers.protocol)),
    ("fragment", offset_of!(Line, meta.layers.fragment)),
    ("bucket", offset_of!(Line, meta.bucket)),
    ("start", offset_of!(Line, start)),
    ("length", offset_of!(Line, bytes)),
    ("room", offset_of!(Line, room)),
    ("home", offset_of!(Line, home)),
];

/// The 32 bytes of a packet's metadata line that are checked after each call to foreign code, as
/// 64-bit words.
type Words = [u64; 4];

/// Offset of the [`Words`] in a metadata line, in bytes.
const KEPT: usize = 16;

// The words cover all fields that foreign code could damage, and contain no padding.
const _: () = assert!(KEPT <= offset_of!(Line, meta.layers) && size_of::<Meta>() == 40);
const _: () = assert!(offset_of!(Line, home) + size_of::<u16>() == KEPT + size_of::<Words>());
const _: () = assert!(size_of::<Packet<'_>>() == size_of::<*mut Line>());

/// Returns the current [`Words`] of a packet's metadata line.
#[inline]
fn words(packet: &Packet<'_>) -> Words {
    let line = ptr::from_ref(packet.line()).cast::<u8>();
    // SAFETY: 32 initialised bytes, without padding by the assertions above, from an offset that is
    // a multiple of 8 in a line that is aligned to 64.
    unsafe { line.add(KEPT).cast::<Words>().read() }
}

/// Returns whether the [`Words`] of all packets are the same as in `kept`. Packets rarely change,
/// so the comparison takes one branch per burst instead of one per packet.
#[inline]
fn is_unchanged(kept: &[Words], packets: &[Packet<'_>]) -> bool {
    let mut changed: Words = [0; 4];
    for (kept, packet) in kept.iter().zip(packets) {
        let now = words(packet);
        for (changed, (kept, now)) in changed.iter_mut().zip(kept.iter().zip(now)) {
            *changed |= kept ^ now;
        }
    }
    changed == [0; 4]
}

/// Restores the [`Words`] of a packet's metadata line to `kept`, their value before the call of
/// foreign code.
fn restore(packet: &mut Packet<'_>, kept: &Words) {
    let line = ptr::from_mut(packet.line_mut()).cast::<u8>();
    // SAFETY: the bytes were a valid part of this line when they were read.
    unsafe { line.add(KEPT).cast::<Words>().write(*kept) }
}

/// Returns the byte at `offset` of the metadata line that contains `words`.
fn byte(words: &Words, offset: usize) -> u8 {
    let at = offset - KEPT;
    words[at / 8].to_ne_bytes()[at % 8]
}

/// Returns the 16-bit number at `offset` of the metadata line that contains `words`.
fn half(words: &Words, offset: usize) -> u16 {
    u16::from_ne_bytes([byte(words, offset), byte(words, offset + 1)])
}

/// Payload of the panic with which a stage in foreign code ends the run, so that the report does
/// not call it a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignFailure {
    /// [`FailureKind::Crash`] or [`FailureKind::Invalid`].
    pub kind: FailureKind,
    /// The signal, or what was invalid.
    pub message: String,
}

/// Verdicts and saved metadata of one burst, allocated once per stage instance.
pub struct Foreign {
    kept: Box<[Words; MAX_BURST]>,
    verdicts: Box<[u8; MAX_BURST]>,
    /// Number of drop causes of the stage.
    causes: usize,
}

impl Foreign {
    /// Allocates the buffers for a stage with this number of drop causes.
    pub fn new(causes: usize) -> Self {
        Self { kept: Box::new([[0; 4]; MAX_BURST]), verdicts: Box::new([0; MAX_BURST]), causes }
    }

    /// Passes a burst to `call`, checks what it did to the packets, and applies its verdicts. If
    /// `call` fails, all packets are restored, and none is dropped.
    ///
    /// # Errors
    /// Returns the error of `call`, or a description of an invalid packet or verdict. The burst's
    /// cursor is then at the packet at fault. The caller must unwind with a [`ForeignFailure`], so
    /// that the report names this packet.
    #[inline]
    pub fn process(
        &mut self,
        burst: &mut Burst<'_>,
        context: &mut StageContext,
        call: impl FnOnce(&mut ForeignBurst) -> Result<(), String>,
    ) -> Result<(), String> {
        let count = burst.packets.len();
        if count == 0 {
            return Ok(());
        }
        let kept = &mut self.kept[..count];
        for (kept, packet) in kept.iter_mut().zip(&burst.packets) {
            *kept = words(packet);
        }
        let verdicts = &mut self.verdicts[..count];
        verdicts.fill(PASS);
        let mut seen = ForeignBurst {
            // `Packet` is a transparent wrapper of a pointer to its metadata line.
            packets: burst.packets.as_ptr().cast(),
            verdicts: verdicts.as_mut_ptr(),
            count: count as u32,
            at: UNKNOWN,
        };
        let called = call(&mut seen);
        if let Err(failure) = called {
            burst.set_cursor(usize::try_from(seen.at).unwrap_or(usize::MAX));
            self.restore_from(burst, 0);
            return Err(failure);
        }
        let passed = self.verdicts[..count].iter().fold(0, |all, verdict| all | verdict) == PASS;
        if passed && is_unchanged(&self.kept[..count], &burst.packets) {
            return Ok(());
        }
        self.settle(burst, context)
    }

    /// Checks each packet and accounts for the bytes by which its frame grew or shrank, then
    /// applies the verdicts.
    #[inline(never)]
    fn settle(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) -> Result<(), String> {
        for index in 0..burst.packets.len() {
            let (kept, now) = (&self.kept[index], words(&burst.packets[index]));
            let checked = self.verdict(index).and_then(|_| match *kept == now {
                true => Ok(()),
                false => check(kept, &now),
            });
            if let Err(fault) = checked {
                burst.set_cursor(index);
                self.restore_from(burst, index);
                return Err(fault);
            }
            account(kept, &now, &mut context.account);
        }
        let mut index = 0;
        burst.sift(context, |_, _| {
            index += 1;
            self.verdict(index - 1).unwrap_or(Verdict::Pass)
        });
        Ok(())
    }

    /// Returns the verdict on the packet at `index`, or a description of an invalid verdict.
    fn verdict(&self, index: usize) -> Result<Verdict, String> {
        match self.verdicts[index] {
            PASS => Ok(Verdict::Pass),
            CONSUME => Ok(Verdict::Consume),
            drop if (usize::from(DROP)..usize::from(DROP) + self.causes).contains(&drop.into()) => {
                Ok(Verdict::Drop(drop - DROP))
            }
            other if other >= DROP => Err(format!(
                "invalid verdict {other}: drop cause {} is out of range; causes declared by \
                 the stage: {}",
                other - DROP,
                self.causes
            )),
            other => Err(format!(
                "invalid verdict {other}: use LINERATE_PASS, LINERATE_CONSUME or \
                 LINERATE_DROP(cause)"
            )),
        }
    }

    fn restore_from(&self, burst: &mut Burst<'_>, first: usize) {
        for (packet, kept) in burst.packets.iter_mut().zip(self.kept.iter()).skip(first) {
            restore(packet, kept);
        }
    }
}

/// Checks that foreign code changed only permitted fields of a packet's metadata line.
fn check(kept: &Words, now: &Words) -> Result<(), String> {
    const ROOM: usize = offset_of!(Line, room);
    const HOME: usize = offset_of!(Line, home);
    if [ROOM, HOME].iter().any(|&field| half(kept, field) != half(now, field)) {
        return Err("the stage changed `room` or `home`, which belong to linerate".to_owned());
    }
    let [start, length, room] =
        [offset_of!(Line, start), offset_of!(Line, bytes), ROOM].map(|field| half(now, field));
    if u32::from(start) + u32::from(length) > u32::from(room) {
        return Err(format!(
            "a frame of {length} bytes at offset {start} exceeds its buffer of {room} bytes"
        ));
    }
    if half(now, offset_of!(Line, meta.layers.fragment)) > Fragment::Later as u16 {
        return Err("the stage set `fragment` to an invalid value".to_owned());
    }
    let [l3, l4, l3_end] = [
        offset_of!(Line, meta.layers.l3),
        offset_of!(Line, meta.layers.l4),
        offset_of!(Line, meta.layers.l3_end),
    ]
    .map(|field| half(now, field));
    let is_parsed = byte(now, offset_of!(Line, meta.layers.ip_version)) != 0;
    if is_parsed && !(l3 <= l4 && l4 <= l3_end && l3_end <= length) {
        return Err(format!(
            "header offsets {l3}, {l4}, {l3_end} do not fit a frame of {length} bytes: adjust them \
             when you move the headers, or set ip_version to 0"
        ));
    }
    Ok(())
}

/// Counts the bytes by which each end of a frame moved, as created or consumed.
fn account(kept: &Words, now: &Words, account: &mut Account) {
    let ends = |words: &Words| {
        let start = u64::from(half(words, offset_of!(Line, start)));
        (start, start + u64::from(half(words, offset_of!(Line, bytes))))
    };
    let ((start, end), (new_start, new_end)) = (ends(kept), ends(now));
    account.created.bytes += start.saturating_sub(new_start) + new_end.saturating_sub(end);
    account.consumed.bytes += new_start.saturating_sub(start) + end.saturating_sub(new_end);
}

#[cfg(test)]
mod tests;
