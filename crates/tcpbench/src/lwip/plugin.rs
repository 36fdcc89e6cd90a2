// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and calls lwIP. Contains all `unsafe` code of the adapter except for one call.
//!
//! The object exports a function table ([`table`]) and contains a single lwIP instance, whose state
//! is global. To get several instances, each [`Plugin`] is loaded from a separate in-memory file,
//! which the dynamic loader treats as a different object. This also isolates tests and makes every
//! run start from the same state.

mod object;
mod seal;
mod table;

use crate::endpoint::State;
use crate::lent::{Lender, Lent};
use crate::routines::{Reading, Tally};
use object::unsealed;
pub use object::{LoadError, folders};
use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use table::{RawFrame, TABLE_VERSION, Table, Watch};
pub(super) use table::{Routines, Settings, Sums};

/// A loaded object, which contains one lwIP instance with at most one connection.
pub(super) struct Plugin {
    object: NonNull<c_void>,
    table: &'static Table,
    /// Memory in which the object stores its current activity for a sampler. Held here to keep the
    /// memory alive.
    activity: RefCell<Option<Arc<AtomicU8>>>,
    /// The file that the object was loaded from. It stays open while the object is loaded, because
    /// the dynamic loader identifies objects by path first. The path contains the descriptor
    /// number, which the next file would reuse if this one were closed.
    _file: File,
}

impl Plugin {
    /// Loads a copy of the object for `segment`-byte segments from the first of `folders` that
    /// contains it.
    pub(super) fn load(segment: usize, folders: &[PathBuf]) -> Result<Self, LoadError> {
        let name = format!("linerate-lwip-{segment}.so");
        let found = folders.iter().map(|folder| folder.join(&name)).find(|path| path.exists());
        let Some(path) = found else {
            return Err(LoadError::Missing { name, folders: folders.to_vec() });
        };
        let bytes = unsealed(&path)?;
        let plugin = Self::from_object(&bytes)
            .map_err(|reason| LoadError::Damaged { path: path.clone(), reason })?;
        let found = plugin.table.version;
        if found != TABLE_VERSION {
            return Err(LoadError::OtherVersion { path, found });
        }
        Ok(plugin)
    }

    /// Loads the bytes as an object of its own, even if the same bytes are already loaded.
    fn from_object(bytes: &[u8]) -> Result<Self, String> {
        let file = linerate_linux::file_in_memory(bytes).map_err(|error| error.to_string())?;
        let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: the path is NUL-terminated. Loading can run code of the object, but its seal
        // proves that it is our build, which has no code that runs on loading.
        let object = unsafe { libc::dlopen(path.as_ptr().cast(), flags) };
        let object = NonNull::new(object).ok_or_else(dl_error)?;
        // SAFETY: the object is open, and the name is NUL-terminated.
        let symbol = unsafe { libc::dlsym(object.as_ptr(), c"linerate_lwip_table".as_ptr()) };
        if symbol.is_null() {
            let reason = dl_error();
            // SAFETY: the object was opened above, and nothing in it is in use.
            unsafe { libc::dlclose(object.as_ptr()) };
            return Err(reason);
        }
        // SAFETY: this is the type of the only function with this name in plugin.h.
        let table: extern "C" fn() -> &'static Table = unsafe { std::mem::transmute(symbol) };
        Ok(Self { object, table: table(), activity: RefCell::default(), _file: file })
    }

    /// Returns the version of lwIP, such as `2.1.3`.
    pub(super) fn version(&self) -> String {
        // SAFETY: a string constant in the object, which stays loaded while `self` exists.
        unsafe { CStr::from_ptr(self.table.lwip) }.to_string_lossy().into_owned()
    }

    /// Initializes lwIP. Must be called once, before all other calls. Returns whether it succeeded.
    pub(super) fn begin(&self, settings: &Settings, routines: &Routines) -> bool {
        let checksum = (routines.checksum.is_some(), routines.copy_checksum.is_some());
        assert!(
            checksum != (false, true),
            "a copy+checksum routine is set, but lwIP computes its \
                                            own checksums"
        );
        // SAFETY: both arguments are read before the calls return; the routines are functions of
        // the types that the table specifies.
        unsafe {
            (self.table.use_routines)(routines);
            (self.table.begin)(settings) != 0
        }
    }

    /// Starts or stops counting and timing calls to routines (`reading`), or storing the number of
    /// the running routine (`activity`).
    pub(super) fn watch(&self, reading: Option<Reading>, activity: Option<&Arc<AtomicU8>>) {
        let watch = Watch {
            ticks: reading.map(Reading::function),
            activity: activity.map_or(ptr::null(), Arc::as_ptr),
        };
        // SAFETY: the argument is read before the call returns; the byte that the object writes to
        // from now on is kept below until it is replaced or the object is unloaded.
        unsafe { (self.table.watch)(&watch) };
        self.activity.replace(activity.map(Arc::clone));
    }

    /// Returns statistics on checksums, copies, copies with checksum, and inline header sums.
    pub(super) fn tallies(&self) -> [Tally; 4] {
        // SAFETY: the four tallies never move and are written only by calls into the object, none
        // of which is running.
        let raw = unsafe { &*(self.table.tallies)() };
        raw.each_ref().map(|raw| Tally {
            calls: raw.calls,
            bytes: raw.bytes,
            timed: raw.calls,
            ticks: raw.ticks,
            lengths: raw.lengths,
            alignments: raw.alignments,
        })
    }

    /// Sets the time in milliseconds and runs the timers that are due.
    pub(super) fn advance(&self, now_ms: u32) {
        // SAFETY: `begin` was called, which `LwipEndpoint` ensures, since it has no other
        // constructor; no other call is running, because none calls back into this module. The same
        // applies to all calls below.
        unsafe { (self.table.advance)(now_ms) };
    }

    /// Returns the milliseconds until the next timer expires; `None` if none is pending.
    pub(super) fn next_timer(&self) -> Option<u32> {
        // SAFETY: as for `advance`.
        let ms = unsafe { (self.table.next_timer)() };
        (ms != u32::MAX).then_some(ms)
    }

    /// Starts connecting or listening. Returns lwIP's error if it refuses.
    pub(super) fn open(&self) -> Result<(), c_int> {
        // SAFETY: as for `advance`.
        match unsafe { (self.table.open)() } {
            0 => Ok(()),
            error => Err(error),
        }
    }

    /// Returns the connection state, converted from `LR_LWIP_CLOSED` etc.
    pub(super) fn state(&self) -> State {
        // SAFETY: as for `advance`.
        match unsafe { (self.table.state)() } {
            0 => State::Closed,
            1 => State::Opening,
            2 => State::Open,
            3 => State::PeerClosed,
            _ => State::Closing,
        }
    }

    /// Returns how many bytes `send` accepts.
    pub(super) fn send_room(&self) -> usize {
        // SAFETY: as for `advance`.
        unsafe { (self.table.send_room)() }
    }

    /// Sends as many bytes as fit into the send buffer, and returns how many.
    pub(super) fn send(&self, bytes: &[u8]) -> usize {
        // SAFETY: as for `advance`; the bytes are read before the call returns.
        unsafe { (self.table.send)(bytes.as_ptr(), bytes.len()) }
    }

    /// Reads received in-order data, and returns the number of bytes.
    pub(super) fn receive(&self, into: &mut [u8]) -> usize {
        // SAFETY: as for `advance`; no more bytes are written than the slice has.
        unsafe { (self.table.receive)(into.as_mut_ptr(), into.len()) }
    }

    /// Closes the sending direction of the connection.
    pub(super) fn close(&self) {
        // SAFETY: as for `advance`.
        unsafe { (self.table.close)() };
    }

    /// Sends as much of the pending data as TCP allows at present.
    pub(super) fn flush(&self) {
        // SAFETY: as for `advance`.
        unsafe { (self.table.flush)() };
    }

    /// Returns how many segments were dropped because of a bad TCP or IP checksum.
    pub(super) fn bad_checksums(&self) -> u64 {
        // SAFETY: as for `advance`.
        unsafe { (self.table.bad_checksums)() }
    }

    /// Allocates space for an arriving frame; `None` if out of memory.
    pub(super) fn room(self: &Rc<Self>, bytes: usize) -> Option<Room> {
        // SAFETY: as for `advance`.
        let raw = unsafe { (self.table.room)(bytes) };
        let (handle, bytes) = raw.parts()?;
        Some(Room { plugin: Rc::clone(self), handle: Some(handle), bytes })
    }

    /// Returns the oldest frame waiting to be sent; `None` if there is none.
    pub(super) fn sent(self: &Rc<Self>) -> Option<Lent> {
        // SAFETY: as for `advance`.
        let raw = unsafe { (self.table.sent)() };
        let (handle, bytes) = raw.parts()?;
        let lender = Rc::clone(self) as Rc<dyn Lender>;
        // SAFETY: lwIP keeps the frame unchanged until it is dropped, because it does not
        // retransmit, and therefore does not write, a segment that has other references.
        Some(unsafe { Lent::new(lender, handle, bytes) })
    }

    /// Notifies lwIP that a frame has arrived.
    pub(super) fn input(&self, mut room: Room) {
        assert!(
            ptr::eq(Rc::as_ptr(&room.plugin), self),
            "the frame buffer was allocated by another lwIP instance"
        );
        let Some(handle) = room.handle.take() else { return };
        // SAFETY: as for `advance`; the lines above ensure that the handle belongs to this object
        // and was not dropped.
        unsafe { (self.table.input)(handle.as_ptr()) };
    }

    /// Notifies lwIP of an arrived frame, which it then processes in place. Returns whether lwIP
    /// accepted the frame.
    ///
    /// # Safety
    /// Until [`reclaim`](Self::reclaim) has returned `owner` or the plug-in is dropped, the payload
    /// must not be written, the headers must not be used, and both must stay valid and in place.
    pub(super) unsafe fn input_in_place(
        &self,
        headers: NonNull<[u8]>,
        payload: NonNull<[u8]>,
        owner: usize,
    ) -> bool {
        let owner = ptr::without_provenance_mut(owner);
        // SAFETY: as for `advance`; the caller ensures that the parts stay valid.
        unsafe {
            (self.table.input_in_place)(
                headers.as_ptr().cast(),
                headers.len(),
                payload.as_ptr().cast::<u8>(),
                payload.len(),
                owner,
            ) != 0
        }
    }

    /// Returns the owner of a frame that lwIP no longer needs, if there is one. The owner is never
    /// 0.
    pub(super) fn reclaim(&self) -> Option<usize> {
        // SAFETY: as for `advance`.
        let owner = unsafe { (self.table.reclaim)() };
        (!owner.is_null()).then(|| owner.addr())
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // SAFETY: every frame keeps this value alive, so no frame is left, and nothing is called
        // any more. An object of another version is closed without calling it.
        unsafe {
            if self.table.version == TABLE_VERSION {
                (self.table.end)();
            }
            libc::dlclose(self.object.as_ptr());
        }
    }
}

/// Returns the dynamic loader's last error.
fn dl_error() -> String {
    // SAFETY: returns null or a string that stays valid until the next loader call on this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no message from the loader".to_owned();
    }
    // SAFETY: not null, so it is a string, which is copied before the loader is called again.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Space for a frame in lwIP's memory. Freed on drop.
pub(super) struct Room {
    plugin: Rc<Plugin>,
    /// `None` once the frame has been passed to lwIP.
    handle: Option<NonNull<c_void>>,
    bytes: NonNull<[u8]>,
}

impl Room {
    /// Returns the frame's bytes for writing.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: this many bytes are writable, and they are not shared before `input`.
        unsafe { self.bytes.as_mut() }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(handle) = self.handle {
            // SAFETY: as for `Plugin::advance`; the handle was not dropped before.
            unsafe { (self.plugin.table.drop)(handle.as_ptr()) };
        }
    }
}

impl RawFrame {
    /// Returns the handle and bytes of a frame; `None` if the handle is null.
    fn parts(&self) -> Option<(NonNull<c_void>, NonNull<[u8]>)> {
        let (handle, bytes) = NonNull::new(self.handle).zip(NonNull::new(self.bytes))?;
        Some((handle, NonNull::slice_from_raw_parts(bytes, self.length)))
    }
}

impl Lender for Plugin {
    unsafe fn take_back(&self, handle: NonNull<c_void>) {
        // SAFETY: as for `Plugin::advance`; the caller ensures that the frame was lent by `sent`
        // and is dropped once.
        unsafe { (self.table.drop)(handle.as_ptr()) };
    }
}

#[cfg(test)]
mod tests;
