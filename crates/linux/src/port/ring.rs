// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive ring of a packet socket (TPACKET_V3): blocks of frames, shared with the kernel.
//!
//! The kernel fills a block with frames of any length and hands the block over when it is full or
//! has been open for [`RETIRE_MS`]. The reader takes the frames in order and gives the block back
//! after the last one:
//!
//! ```text
//! receive: if frames are left in the open block: take the next one
//!          else: give the block back; if the next one has been handed over: take its first frame
//! ```

use super::offload::{HEADER, Offload};
use super::socket::{bind, get_at, open, set, set_at, state};
use super::{PortState, Received};
use crate::Error;
use crate::memory::Shared;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Block size in bytes: enough for a coalesced frame of 64 KiB with its headers.
const BLOCK_BYTES: usize = 128 << 10;

/// Blocks per ring: 4 MiB in all, enough for about 20 ms of small frames at 1 Mpps.
const BLOCKS: usize = 32;

/// Timeout in milliseconds after which the kernel retires a block that is not full: the shortest
/// that it supports. At low rates, frames wait at most this long.
const RETIRE_MS: u32 = 1;

/// Number of blocks after which the kernel's counts are read. They have 32 bits, which overflow
/// after an hour at 1.2 Mpps; this many blocks hold about a million of the smallest frames.
const COUNTED_BLOCKS: u32 = 1024;

/// Offsets of the fields of `tpacket_block_desc` from the start of a block.
mod block {
    pub(super) const STATUS: usize = 8;
    pub(super) const FRAMES: usize = 12;
    pub(super) const FIRST: usize = 16;
}

/// Offsets of the fields of `tpacket3_hdr` from the start of a frame's header.
mod frame {
    pub(super) const NEXT: usize = 0;
    pub(super) const SECONDS: usize = 4;
    pub(super) const NANOSECONDS: usize = 8;
    pub(super) const CAPTURED: usize = 12;
    pub(super) const ORIGINAL: usize = 16;
    pub(super) const STATUS: usize = 20;
    pub(super) const MAC: usize = 24;
    pub(super) const TAG: usize = 32;
    pub(super) const TAG_TYPE: usize = 36;
    pub(super) const END: usize = 48;
}

const ETHERTYPE_VLAN: u16 = 0x8100;
const RING: &str = "use fewer queues, or free memory: each queue has a 4 MiB ring";
const FILTER: &str = "allow socket filters in this sandbox";
const OLD: &str = "this kernel is too old: Linux 4.20 or later is needed";

/// Which frames a receiver accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRules {
    /// Whether to receive frames addressed to other stations too (promiscuous mode).
    pub promiscuous: bool,
}

/// Frames that the kernel counted for a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Frames for this receiver, including those in `drops`.
    pub frames: u64,
    /// Frames that the kernel dropped because the ring was full.
    pub drops: u64,
}

/// A receive queue of an interface.
#[derive(Debug)]
pub struct PacketReceiver {
    // Declared before the socket, so that the memory is unmapped before the socket is closed.
    memory: Shared,
    socket: OwnedFd,
    interface: u32,
    /// Index of the open block or, if none is open, of the next one to open.
    block: usize,
    /// Number of frames left in the open block; 0 if no block is open.
    left: u32,
    /// Offset of the next frame; 0 if no block is open.
    at: usize,
    is_open: bool,
    /// The kernel's counts so far, which it resets when they are read.
    counts: RingCounts,
    /// Number of blocks given back to the kernel since its counts were last read.
    closed: u32,
}

impl AsFd for PacketReceiver {
    /// Returns a descriptor that is readable when frames are waiting.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl PacketReceiver {
    /// Opens `queues` receivers. The kernel distributes the frames of an interface to them by a
    /// symmetric hash of addresses and ports (PACKET_FANOUT_HASH), so that both directions of a
    /// flow go to the same receiver. Frames that this machine sends on the interface are not
    /// received. Nothing is received before [`PacketReceiver::start`], so that even the first
    /// frames are distributed to all queues.
    ///
    /// # Errors
    /// Returns an error if there is no such interface, if the caller lacks the privilege to open
    /// packet sockets, if there is no memory for the rings, or if the queues cannot share the
    /// frames.
    pub fn open(name: &str, rules: ReceiveRules, queues: usize) -> Result<Vec<Self>, Error> {
        let interface = super::interface_index(name)?;
        let mut receivers = Vec::with_capacity(queues);
        let mut group = None;
        for queue in 0..queues {
            let receiver = Self::open_one(name, interface, rules)?;
            if queues > 1 {
                group = Some(join(&receiver.socket, group, queue)?);
            }
            receivers.push(receiver);
        }
        Ok(receivers)
    }

    fn open_one(name: &str, interface: u32, rules: ReceiveRules) -> Result<Self, Error> {
        let socket = open(name)?;
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        set(&socket, libc::PACKET_VERSION, &version, "PACKET_VERSION 3", OLD)?;
        set(&socket, libc::PACKET_VNET_HDR, &1, "PACKET_VNET_HDR", OLD)?;
        set(&socket, libc::PACKET_IGNORE_OUTGOING, &1, "PACKET_IGNORE_OUTGOING", OLD)?;
        // SAFETY: all-zero bytes are a valid request.
        let mut request: libc::tpacket_req3 = unsafe { std::mem::zeroed() };
        request.tp_block_size = BLOCK_BYTES as u32;
        request.tp_block_nr = BLOCKS as u32;
        request.tp_frame_size = 2048;
        request.tp_frame_nr = (BLOCK_BYTES / 2048 * BLOCKS) as u32;
        request.tp_retire_blk_tov = RETIRE_MS;
        set(&socket, libc::PACKET_RX_RING, &request, "PACKET_RX_RING", RING)?;
        let memory = Shared::of_socket(&socket, BLOCK_BYTES * BLOCKS, 0)?;
        if rules.promiscuous {
            // SAFETY: all-zero bytes are a valid request.
            let mut member: libc::packet_mreq = unsafe { std::mem::zeroed() };
            member.mr_ifindex = interface as i32;
            member.mr_type = libc::PACKET_MR_PROMISC as u16;
            let what = "PACKET_MR_PROMISC";
            set(&socket, libc::PACKET_ADD_MEMBERSHIP, &member, what, "name an existing interface")?;
        }
        accept_none(&socket)?;
        bind(&socket, interface, libc::ETH_P_ALL as u16, name)?;
        let counts = RingCounts::default();
        let (block, left, at, is_open, closed) = (0, 0, 0, false, 0);
        Ok(Self { memory, socket, interface, block, left, at, is_open, counts, closed })
    }

    fn block(&self) -> &[u8] {
        // SAFETY: the kernel does not write to a block that it has handed over, until `close`.
        unsafe { self.memory.bytes(self.block * BLOCK_BYTES, BLOCK_BYTES) }
    }

    fn status(&self) -> &AtomicU32 {
        self.memory.atomic(self.block * BLOCK_BYTES + block::STATUS)
    }

    /// Takes the next frame; `None` if there is none. Makes no system call.
    #[inline]
    pub fn receive(&mut self) -> Option<Received<'_>> {
        if self.left == 0 {
            if self.is_open {
                self.close();
            }
            // Acquire: pairs with the kernel's barrier between filling the block and its status.
            if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return None;
            }
            self.is_open = true;
            let [frames, first] =
                [block::FRAMES, block::FIRST].map(|at| u32_at(self.block(), at).unwrap_or(0));
            (self.left, self.at) = (frames, first as usize);
            if self.left == 0 {
                return None;
            }
        }
        let at = self.at;
        let next = u32_at(self.block().get(at..)?, frame::NEXT)?;
        self.left -= 1;
        self.at = at + next as usize;
        received(self.block(), at)
    }

    /// Gives the open block back to the kernel.
    fn close(&mut self) {
        // Release: the frames have been read before the kernel may overwrite them.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.is_open = false;
        self.block = (self.block + 1) % BLOCKS;
        self.closed += 1;
        if self.closed == COUNTED_BLOCKS {
            self.count();
        }
    }

    /// Adds the frames that the kernel has counted since the last call.
    #[cold]
    fn count(&mut self) {
        self.closed = 0;
        let mut counts = [0; 3];
        let read = get_at(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut counts);
        if read.is_some() {
            self.counts.frames += u64::from(counts[0]);
            self.counts.drops += u64::from(counts[1]);
        }
    }

    /// Returns the number of frames received but not yet taken, excluding those in a block that the
    /// kernel has not handed over yet.
    pub fn waiting(&self) -> u64 {
        let mut frames = u64::from(self.left);
        let first = usize::from(self.is_open);
        for step in first..BLOCKS {
            let at = (self.block + step) % BLOCKS * BLOCK_BYTES;
            let status = self.memory.atomic(at + block::STATUS).load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                break;
            }
            let count = self.memory.atomic(at + block::FRAMES).load(Ordering::Relaxed);
            frames += u64::from(count);
        }
        frames
    }

    /// Starts receiving: frames that arrive from now on can be taken.
    ///
    /// # Errors
    /// Returns an error if the kernel forbids socket filters.
    pub fn start(&self) -> Result<(), Error> {
        let (level, option) = (libc::SOL_SOCKET, libc::SO_DETACH_FILTER);
        set_at(&self.socket, level, option, &0, "SO_DETACH_FILTER", FILTER)
    }

    /// Stops receiving: frames that arrive after this call are ignored. Earlier ones can still be
    /// taken once the kernel has retired their block, which takes about a millisecond.
    ///
    /// # Errors
    /// Returns an error if the kernel forbids socket filters.
    pub fn stop(&self) -> Result<(), Error> {
        accept_none(&self.socket)
    }

    /// Returns all frames and drops so far; zeros if the kernel does not report them.
    pub fn counts(&mut self) -> RingCounts {
        self.count();
        self.counts
    }

    /// Returns how the interface has changed since the last call.
    pub fn state(&self) -> PortState {
        state(&self.socket, self.interface)
    }
}

/// Attaches a classic BPF filter that rejects every frame ("return 0").
fn accept_none(socket: &OwnedFd) -> Result<(), Error> {
    let mut none = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }];
    let program = libc::sock_fprog { len: 1, filter: none.as_mut_ptr() };
    let (level, option) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    set_at(socket, level, option, &program, "SO_ATTACH_FILTER", FILTER)
}

/// Suggested fix if a fanout group cannot be used.
const ONE_QUEUE: &str = "use one queue: replicas = 1";

/// Adds a socket to a fanout group; the first socket creates the group. Returns the group's ID.
fn join(socket: &OwnedFd, group: Option<u32>, queue: usize) -> Result<u32, Error> {
    let unique = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
    // A group does not inherit this setting from its sockets.
    let incoming = libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
    let kind = (libc::PACKET_FANOUT_HASH | unique | incoming) << 16;
    let request = kind | group.unwrap_or(0);
    let what = format!("PACKET_FANOUT, queue {queue}");
    set(socket, libc::PACKET_FANOUT, &request, &what, ONE_QUEUE)?;
    group_of(socket, what)
}

/// Returns the ID of a socket's fanout group. Without it, the other sockets cannot join the group,
/// and would receive every frame again.
fn group_of(socket: &OwnedFd, what: String) -> Result<u32, Error> {
    let mut joined = [0];
    get_at(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &mut joined)
        .ok_or_else(|| Error::last("getsockopt", what, ONE_QUEUE))?;
    Ok(joined[0] & 0xffff)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads the frame whose header is at offset `at` in a block; `None` if its offsets or lengths
/// point outside the block.
#[inline]
fn received(block: &[u8], at: usize) -> Option<Received<'_>> {
    let header = block.get(at..)?.first_chunk::<{ frame::END }>()?;
    let number = |at| u32_at(header, at).unwrap_or(0);
    let mac = usize::from(u16_at(header, frame::MAC)?);
    let start = at.checked_add(mac)?;
    let bytes = block.get(start..)?.get(..number(frame::CAPTURED) as usize)?;
    let status = number(frame::STATUS);
    let tag_type = match status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => ETHERTYPE_VLAN,
        _ => u16_at(header, frame::TAG_TYPE)?,
    };
    let is_tagged = status & libc::TP_STATUS_VLAN_VALID != 0;
    let seconds = u64::from(number(frame::SECONDS));
    Some(Received {
        bytes,
        original_bytes: number(frame::ORIGINAL),
        time_ns: seconds * 1_000_000_000 + u64::from(number(frame::NANOSECONDS)),
        vlan: is_tagged.then(|| (tag_type, number(frame::TAG) as u16)),
        offload: Offload::decode(block.get(start - HEADER.min(mac)..start)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::fd::AsRawFd;

    /// Returns a block with one 60-byte frame at offset 48, laid out as in `if_packet.h`.
    fn example() -> Vec<u8> {
        let mut block = vec![0; 256];
        let mut write = |at: usize, number: u32| {
            block[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        };
        let at = 48;
        write(at + frame::SECONDS, 2);
        write(at + frame::NANOSECONDS, 5);
        write(at + frame::CAPTURED, 60);
        write(at + frame::ORIGINAL, 64);
        write(at + frame::STATUS, libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID);
        write(at + frame::TAG, 7);
        block[at + frame::MAC..at + frame::MAC + 2].copy_from_slice(&82u16.to_ne_bytes());
        block[at + 72..at + 74].copy_from_slice(&[1, 0]);
        block[at + 82] = 0xab;
        block
    }

    #[test]
    fn a_frame_is_read_from_its_header() {
        let block = example();
        let frame = received(&block, 48).unwrap();
        assert_eq!((frame.bytes.len(), frame.bytes[0]), (60, 0xab));
        assert_eq!((frame.original_bytes, frame.time_ns), (64, 2_000_000_005));
        assert_eq!(frame.vlan, Some((ETHERTYPE_VLAN, 7)));
        assert_eq!(frame.offload.checksum, Some((0, 0)));
    }

    /// As if a sandbox denied getsockopt(2): the socket has no such option.
    #[test]
    fn a_fanout_group_that_cannot_be_read_is_an_error() {
        let socket = OwnedFd::from(std::os::unix::net::UnixDatagram::unbound().unwrap());
        let error = group_of(&socket, "PACKET_FANOUT, queue 0".to_owned()).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("getsockopt(PACKET_FANOUT, queue 0): "), "{text}");
        assert!(text.ends_with("; use one queue: replicas = 1"), "{text}");
    }

    /// Receives `frames` frames that a TAP interface sends to the kernel.
    fn receive(receiver: &mut PacketReceiver, sender: &mut crate::port::TapSender, frames: usize) {
        let frame = [0xff; 60];
        assert_eq!(sender.send((0..frames).map(|_| &frame[..])).frames, frames);
        let mut taken = 0;
        while taken < frames {
            if receiver.receive().is_some_and(|one| one.bytes == frame) {
                taken += 1;
                continue;
            }
            let descriptor = receiver.as_fd().as_raw_fd();
            let mut waits = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
            // SAFETY: the one entry is valid for reads and writes during the call.
            let ready = unsafe { libc::poll(&raw mut waits, 1, 20_000) };
            assert_eq!(ready, 1, "{taken} of {frames} frames within 20 s");
        }
        // Gives the last block back.
        receiver.receive();
    }

    /// The kernel resets its counts, which have 32 bits, when they are read.
    #[test]
    fn counts_add_up_over_several_readings() {
        let name = "lrcount0";
        // The interface belongs to this thread's namespace, which ends with the thread.
        let opened = crate::enter_new_network().and_then(|()| {
            let queue = crate::port::open_tap(name, 1)?.pop();
            let address = std::net::Ipv4Addr::new(10, 9, 8, 1);
            crate::network::Network::own()?.bring_up(name, address, 24)?;
            let mut receivers = PacketReceiver::open(name, ReceiveRules { promiscuous: false }, 1)?;
            receivers[0].start()?;
            Ok((queue, receivers.pop()))
        });
        let (mut sender, mut receiver) = match opened {
            Ok((queue, receiver)) => (queue.expect("one").1, receiver.expect("one")),
            Err(error) => return println!("SKIP: {error}"),
        };
        receiver.closed = COUNTED_BLOCKS - 1;
        receive(&mut receiver, &mut sender, 10);
        let first = receiver.counts.frames;
        assert!(receiver.closed < COUNTED_BLOCKS - 1 && first >= 10, "{first}");
        receive(&mut receiver, &mut sender, 20);
        let all = receiver.counts();
        assert!(all.frames >= first + 20 && all.drops == 0, "{all:?} after {first}");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn damaged_headers_lead_nowhere(at in 0usize..300, place in 0usize..256, byte: u8) {
            let mut block = example();
            block[place] = byte;
            received(&block, at);
        }
    }
}
