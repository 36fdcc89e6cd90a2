// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads lwIP and calls it: the only module with `unsafe` code.
//!
//! The object says in a table of functions what it offers: `crates/tcpbench/lwip/plugin.h`, of
//! which [`Table`] is the same in Rust. It is one lwIP with global state; to have several, each
//! [`Plugin`] is loaded from a file in memory of its own, which the loader of the system takes for
//! another object. That is also why no two tests meet, and why every run begins alike.
//!
//! A file that was cut short could be loaded and would end the program later, by a signal. So its
//! seal is compared first: the FNV-1a sum of 64 bits that `cargo xtask fetch lwip` wrote beside it.

use crate::endpoint::State;
use crate::routines::{ALIGNMENT_CLASSES, LENGTH_CLASSES, Reading, Tally};
use linerate_kernels::bench::{ChecksumFn, CopyChecksumFn, CopyFn};
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

/// `LR_LWIP_TABLE_VERSION`.
const TABLE_VERSION: u32 = 2;

/// What builds the plug-in.
const REBUILD: &str = "in the source of linerate: cargo xtask fetch lwip";

/// How many folders may lie between a program and the one that cargo marks as its own, that one
/// included: `target/TRIPLE/release/deps`.
const FOLDERS: usize = 4;

/// `struct lr_lwip_routines`; null for lwIP's own.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Routines {
    pub(super) checksum: Option<ChecksumFn>,
    pub(super) copy: Option<CopyFn>,
    pub(super) copy_checksum: Option<CopyChecksumFn>,
    /// Sums of whole words of up to so many octets are taken inline.
    pub(super) inline_octets: u32,
}

/// `struct lr_lwip_tally`.
#[repr(C)]
struct RawTally {
    calls: u64,
    octets: u64,
    ticks: u64,
    lengths: [u64; LENGTH_CLASSES],
    alignments: [u64; ALIGNMENT_CLASSES],
}

/// `struct lr_lwip_watch`.
#[repr(C)]
struct Watch {
    ticks: Option<extern "C" fn() -> u64>,
    activity: *const AtomicU8,
}

/// Who computes the checksums of TCP and IP.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sums {
    /// Nobody.
    Off,
    /// lwIP, by the routines.
    Lwip,
    /// lwIP, of what it sends.
    ArriveVerified,
}

/// `struct lr_lwip_settings`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) address: [u8; 4],
    pub(super) peer: [u8; 4],
    pub(super) port: u16,
    pub(super) is_server: bool,
    pub(super) sums: Sums,
    pub(super) nagle: bool,
    pub(super) wide_open: bool,
    pub(super) seed: u32,
    pub(super) buffer: u32,
}

/// `struct lr_lwip_frame`.
#[repr(C)]
struct RawFrame {
    handle: *mut c_void,
    octets: *mut u8,
    length: usize,
}

/// `struct lr_lwip_table`.
#[repr(C)]
struct Table {
    version: u32,
    segment: u32,
    lwip: *const c_char,
    begin: unsafe extern "C" fn(*const Settings) -> c_int,
    end: unsafe extern "C" fn(),
    use_routines: unsafe extern "C" fn(*const Routines),
    watch: unsafe extern "C" fn(*const Watch),
    tallies: unsafe extern "C" fn() -> *const [RawTally; 4],
    advance: unsafe extern "C" fn(u32),
    next_timer: unsafe extern "C" fn() -> u32,
    open: unsafe extern "C" fn() -> c_int,
    state: unsafe extern "C" fn() -> c_int,
    send_room: unsafe extern "C" fn() -> usize,
    send: unsafe extern "C" fn(*const u8, usize) -> usize,
    receive: unsafe extern "C" fn(*mut u8, usize) -> usize,
    close: unsafe extern "C" fn(),
    flush: unsafe extern "C" fn(),
    sent: unsafe extern "C" fn() -> RawFrame,
    drop: unsafe extern "C" fn(*mut c_void),
    room: unsafe extern "C" fn(usize) -> RawFrame,
    input: unsafe extern "C" fn(*mut c_void),
    input_in_place: unsafe extern "C" fn(*mut u8, usize, *const u8, usize, *mut c_void) -> c_int,
    reclaim: unsafe extern "C" fn() -> *mut c_void,
    bad_checksums: unsafe extern "C" fn() -> u64,
}

/// Why there is no lwIP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// No folder that is looked into has the object.
    Missing {
        /// Its name.
        name: String,
        /// The folders that were looked into.
        folders: Vec<PathBuf>,
    },
    /// The object cannot be read, is not what its seal says, or is no such object.
    Damaged {
        /// The object.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The object is of another version of the program.
    OtherVersion {
        /// The object.
        path: PathBuf,
        /// The version of its table.
        found: u32,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { name, folders } => {
                let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
                write!(f, "no {name} in {}; to build it, {REBUILD}", folders.join(", "))
            }
            Self::Damaged { path, reason } => {
                write!(f, "{} is damaged: {reason}; to build it anew, {REBUILD}", path.display())
            }
            Self::OtherVersion { path, found } => write!(
                f,
                "{} has a table of version {found}, this program reads {TABLE_VERSION}; \
                 to build it anew, {REBUILD}",
                path.display()
            ),
        }
    }
}

impl std::error::Error for LoadError {}

/// The folders that may hold the objects: `lwip` beside the program and, where cargo built that,
/// above it as far as cargo's own folder.
pub fn folders() -> Vec<PathBuf> {
    folders_of(&std::env::current_exe().unwrap_or_default())
}

/// No further: what lies above anybody may have put there.
fn folders_of(program: &Path) -> Vec<PathBuf> {
    let above: Vec<&Path> = program.ancestors().skip(1).take(FOLDERS).collect();
    let cargos = above.iter().position(|folder| folder.join("CACHEDIR.TAG").exists());
    above.iter().take(1 + cargos.unwrap_or(0)).map(|folder| folder.join("lwip")).collect()
}

/// The sum of 64 bits by Fowler, Noll and Vo, variant 1a.
fn fnv1a(octets: &[u8]) -> u64 {
    let step = |sum: u64, octet: &u8| (sum ^ u64::from(*octet)).wrapping_mul(0x100_0000_01b3);
    octets.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The object's octets, if they are those that were sealed.
fn unsealed(path: &Path) -> Result<Vec<u8>, LoadError> {
    let damaged = |reason: String| LoadError::Damaged { path: path.to_owned(), reason };
    let octets = fs::read(path).map_err(|error| damaged(error.to_string()))?;
    let seal = path.with_extension("seal");
    let sealed = fs::read_to_string(&seal)
        .map_err(|error| damaged(format!("its seal {}: {error}", seal.display())))?;
    let found = format!("{:016x}", fnv1a(&octets));
    match sealed.trim() == found {
        true => Ok(octets),
        false => Err(damaged(format!("its sum is {found}, the seal says {}", sealed.trim()))),
    }
}

/// A loaded object, and the connection that it holds.
pub(super) struct Plugin {
    object: NonNull<c_void>,
    table: &'static Table,
    /// What the object writes while it tells which routine runs.
    activity: RefCell<Option<Arc<AtomicU8>>>,
    /// Open for as long as the object is loaded: the loader of the system knows objects by their
    /// paths first, and the number of a closed file, which is in the path, is the next one's.
    _file: File,
}

impl Plugin {
    /// Loads a copy of the object for segments of so many octets, from the first of `folders` that
    /// has it.
    pub(super) fn load(segment: usize, folders: &[PathBuf]) -> Result<Self, LoadError> {
        let name = format!("linerate-lwip-{segment}.so");
        let found = folders.iter().map(|folder| folder.join(&name)).find(|path| path.exists());
        let Some(path) = found else {
            return Err(LoadError::Missing { name, folders: folders.to_vec() });
        };
        let octets = unsealed(&path)?;
        let plugin = Self::from_object(&octets)
            .map_err(|reason| LoadError::Damaged { path: path.clone(), reason })?;
        let found = plugin.table.version;
        if found != TABLE_VERSION {
            return Err(LoadError::OtherVersion { path, found });
        }
        Ok(plugin)
    }

    /// Loads it as an object of its own.
    fn from_object(octets: &[u8]) -> Result<Self, String> {
        let file = linerate_linux::file_in_memory(octets).map_err(|error| error.to_string())?;
        let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: the path ends with a zero. Loading runs code of the object: its seal says that it
        // is what was built, and what was built has no code that runs on loading.
        let object = unsafe { libc::dlopen(path.as_ptr().cast(), flags) };
        let object = NonNull::new(object).ok_or_else(dl_error)?;
        // SAFETY: an object that is open, and a name that ends with a zero.
        let symbol = unsafe { libc::dlsym(object.as_ptr(), c"linerate_lwip_table".as_ptr()) };
        if symbol.is_null() {
            let reason = dl_error();
            // SAFETY: opened above, and nothing of it is used.
            unsafe { libc::dlclose(object.as_ptr()) };
            return Err(reason);
        }
        // SAFETY: the type of the only function of this name in plugin.h.
        let table: extern "C" fn() -> &'static Table = unsafe { std::mem::transmute(symbol) };
        Ok(Self { object, table: table(), activity: RefCell::default(), _file: file })
    }

    /// The version of lwIP.
    pub(super) fn version(&self) -> String {
        // SAFETY: a string constant of the object, which is loaded while `self` is.
        unsafe { CStr::from_ptr(self.table.lwip) }.to_string_lossy().into_owned()
    }

    /// Once, before anything else; whether lwIP has begun.
    pub(super) fn begin(&self, settings: &Settings, routines: &Routines) -> bool {
        let checksum = (routines.checksum.is_some(), routines.copy_checksum.is_some());
        assert!(checksum != (false, true), "a copy with a sum beside lwIP's own sums");
        // SAFETY: both are read before the calls return; the routines are functions of the types
        // that the table names.
        unsafe {
            (self.table.use_routines)(routines);
            (self.table.begin)(settings) != 0
        }
    }

    /// Begins or ends counting and timing the calls of routines, or telling which one runs.
    pub(super) fn watch(&self, reading: Option<Reading>, activity: Option<&Arc<AtomicU8>>) {
        let watch = Watch {
            ticks: reading.map(Reading::function),
            activity: activity.map_or(ptr::null(), Arc::as_ptr),
        };
        // SAFETY: read before the call returns; the octet that the object writes to from here on
        // is kept below until another takes its place or the object is gone.
        unsafe { (self.table.watch)(&watch) };
        self.activity.replace(activity.map(Arc::clone));
    }

    /// What was seen of checksums, copies, copies with a sum, and inline sums of headers.
    pub(super) fn tallies(&self) -> [Tally; 4] {
        // SAFETY: four tallies that are never moved, written by calls into the object alone, none
        // of which is under way.
        let raw = unsafe { &*(self.table.tallies)() };
        raw.each_ref().map(|raw| Tally {
            calls: raw.calls,
            octets: raw.octets,
            timed: raw.calls,
            ticks: raw.ticks,
            lengths: raw.lengths,
            alignments: raw.alignments,
        })
    }

    /// The time is so many milliseconds: runs the timers that are due.
    pub(super) fn advance(&self, now_ms: u32) {
        // SAFETY: `begin` was called, ensured by `LwipEndpoint`, which has no other way to be made;
        // no other call is under way, because none calls back here. The same for all below.
        unsafe { (self.table.advance)(now_ms) };
    }

    /// Milliseconds until the next timer is due; `None` for never.
    pub(super) fn next_timer(&self) -> Option<u32> {
        // SAFETY: as for `advance`.
        let ms = unsafe { (self.table.next_timer)() };
        (ms != u32::MAX).then_some(ms)
    }

    /// Begins to connect or to wait; lwIP's error if it refuses.
    pub(super) fn open(&self) -> Result<(), c_int> {
        // SAFETY: as for `advance`.
        match unsafe { (self.table.open)() } {
            0 => Ok(()),
            error => Err(error),
        }
    }

    /// Where the connection is: `LR_LWIP_CLOSED` and so on.
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

    /// How many octets `send` takes.
    pub(super) fn send_room(&self) -> usize {
        // SAFETY: as for `advance`.
        unsafe { (self.table.send_room)() }
    }

    /// Sends as many as there is room for; how many that were.
    pub(super) fn send(&self, octets: &[u8]) -> usize {
        // SAFETY: as for `advance`; the octets are read before the call returns.
        unsafe { (self.table.send)(octets.as_ptr(), octets.len()) }
    }

    /// Takes what has arrived in order; how many octets that were.
    pub(super) fn receive(&self, into: &mut [u8]) -> usize {
        // SAFETY: as for `advance`; no more octets than the slice has are written.
        unsafe { (self.table.receive)(into.as_mut_ptr(), into.len()) }
    }

    /// Closes this direction.
    pub(super) fn close(&self) {
        // SAFETY: as for `advance`.
        unsafe { (self.table.close)() };
    }

    /// Sends what may be sent.
    pub(super) fn flush(&self) {
        // SAFETY: as for `advance`.
        unsafe { (self.table.flush)() };
    }

    /// Segments that were dropped for their checksum, or their IP header's.
    pub(super) fn bad_checksums(&self) -> u64 {
        // SAFETY: as for `advance`.
        unsafe { (self.table.bad_checksums)() }
    }

    /// Room for a frame that arrives, if there is memory.
    pub(super) fn room(self: &Rc<Self>, octets: usize) -> Option<PluginFrame> {
        // SAFETY: as for `advance`.
        let raw = unsafe { (self.table.room)(octets) };
        PluginFrame::new(self, raw)
    }

    /// The oldest frame that is to be sent.
    pub(super) fn sent(self: &Rc<Self>) -> Option<PluginFrame> {
        // SAFETY: as for `advance`.
        let raw = unsafe { (self.table.sent)() };
        PluginFrame::new(self, raw)
    }

    /// The frame has arrived.
    pub(super) fn input(&self, frame: PluginFrame) {
        assert!(ptr::eq(Rc::as_ptr(&frame.plugin), self), "a frame of another lwIP");
        let handle = frame.handle;
        // Not `forget`, which would keep the plug-in loaded for ever.
        let mut frame = frame;
        frame.is_mine = false;
        drop(frame);
        // SAFETY: as for `advance`; the handle is of this object and was not dropped, ensured by
        // the lines above.
        unsafe { (self.table.input)(handle.as_ptr()) };
    }

    /// A frame has arrived whose parts are read where they are; whether lwIP took it.
    ///
    /// # Safety
    /// Until [`reclaim`](Self::reclaim) has returned `owner`, or the plug-in is dropped, nobody
    /// writes the payload, nobody uses the headers, and both stay valid where they are.
    pub(super) unsafe fn input_in_place(
        &self,
        headers: NonNull<[u8]>,
        payload: NonNull<[u8]>,
        owner: usize,
    ) -> bool {
        let owner = ptr::without_provenance_mut(owner);
        // SAFETY: as for `advance`; the parts stay valid, ensured by the caller.
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

    /// The owner of a frame whose parts are not needed any more; never 0.
    pub(super) fn reclaim(&self) -> Option<usize> {
        // SAFETY: as for `advance`.
        let owner = unsafe { (self.table.reclaim)() };
        (!owner.is_null()).then(|| owner.addr())
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // SAFETY: every frame holds this value, so none is left; nothing is called any more. An
        // object that was of another version is closed without a call.
        unsafe {
            if self.table.version == TABLE_VERSION {
                (self.table.end)();
            }
            libc::dlclose(self.object.as_ptr());
        }
    }
}

/// What the loader of the system complains about.
fn dl_error() -> String {
    // SAFETY: returns null or a string that stays until the next call of the loader on this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader says nothing".to_owned();
    }
    // SAFETY: not null, so a string, which is copied before the loader is called again.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A frame in memory of lwIP; dropped there with this value.
pub(crate) struct PluginFrame {
    plugin: Rc<Plugin>,
    handle: NonNull<c_void>,
    octets: NonNull<u8>,
    length: usize,
    is_mine: bool,
}

impl PluginFrame {
    fn new(plugin: &Rc<Plugin>, raw: RawFrame) -> Option<Self> {
        let (handle, octets) = NonNull::new(raw.handle).zip(NonNull::new(raw.octets))?;
        let plugin = Rc::clone(plugin);
        Some(Self { plugin, handle, octets, length: raw.length, is_mine: true })
    }

    /// Its octets.
    pub(crate) fn octets(&self) -> &[u8] {
        // SAFETY: lwIP keeps the frame as it is until it is dropped, because it sends no segment
        // again, and so writes none, that somebody else refers to; `self` has not dropped it.
        unsafe { slice::from_raw_parts(self.octets.as_ptr(), self.length) }
    }

    /// Its octets, to be written. Only of a frame that [`Plugin::room`] made.
    pub(super) fn octets_mut(&mut self) -> &mut [u8] {
        // SAFETY: so many octets can be written, and nobody else knows them before `input`.
        unsafe { slice::from_raw_parts_mut(self.octets.as_ptr(), self.length) }
    }
}

impl fmt::Debug for PluginFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginFrame").field("octets", &self.length).finish_non_exhaustive()
    }
}

impl Drop for PluginFrame {
    fn drop(&mut self) {
        if self.is_mine {
            // SAFETY: as for `Plugin::advance`; the handle was not dropped before.
            unsafe { (self.plugin.table.drop)(self.handle.as_ptr()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with an object that is damaged in some way, and its seal.
    fn folder(name: &str, damage: impl FnOnce(&mut Vec<u8>), reseal: bool) -> Option<PathBuf> {
        let name_of = |extension: &str| format!("linerate-lwip-1460.{extension}");
        let Some(built) = folders().into_iter().find(|f| f.join(name_of("so")).exists()) else {
            println!("SKIP: lwIP was not built: cargo xtask fetch lwip");
            return None;
        };
        let folder = std::env::temp_dir().join(format!("linerate-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder can be made");
        let mut octets = fs::read(built.join(name_of("so"))).expect("it is there");
        let seal = fs::read_to_string(built.join(name_of("seal"))).expect("it is there");
        damage(&mut octets);
        let seal = if reseal { format!("{:016x}", fnv1a(&octets)) } else { seal };
        fs::write(folder.join(name_of("so")), octets).expect("a file can be written");
        fs::write(folder.join(name_of("seal")), seal).expect("a file can be written");
        Some(folder)
    }

    fn error(folder: &Path) -> String {
        let loaded = Plugin::load(1460, &[folder.to_owned()]);
        fs::remove_dir_all(folder).expect("the folder was made by the test");
        loaded.err().expect("it was damaged").to_string()
    }

    #[test]
    fn what_is_missing_or_damaged_is_said_with_what_rebuilds_it() {
        let nowhere = PathBuf::from("/nowhere");
        let missing = Plugin::load(1460, &[nowhere]).err().expect("it is not there").to_string();
        assert!(missing.contains("linerate-lwip-1460.so in /nowhere"), "{missing}");
        assert!(missing.contains("cargo xtask fetch lwip"), "{missing}");
        let Some(short) = folder("short", |octets| octets.truncate(octets.len() / 2), false) else {
            return;
        };
        let short = error(&short);
        assert!(short.contains("the seal says") && short.contains("fetch lwip"), "{short}");
        // Sealed by whoever damaged it: what the loader of the system says then.
        let text = |octets: &mut Vec<u8>| *octets = b"not an object".to_vec();
        let other = error(&folder("other", text, true).expect("it was there a moment ago"));
        assert!(other.contains("is damaged") && other.contains("fetch lwip"), "{other}");
    }

    #[test]
    fn nothing_above_the_folder_of_cargo_is_loaded() {
        let own = std::env::temp_dir().join(format!("linerate-{}-cargo", std::process::id()));
        fs::create_dir_all(&own).expect("a folder can be made");
        let deps = own.join("release/deps");
        assert_eq!(folders_of(&deps.join("program")), [deps.join("lwip")], "installed");
        fs::write(own.join("CACHEDIR.TAG"), "").expect("a file can be written");
        let found = folders_of(&deps.join("program"));
        fs::remove_dir_all(&own).expect("the folder was made by the test");
        let all = [&deps, &own.join("release"), &own].map(|folder| folder.join("lwip"));
        assert_eq!(found, all);
        assert_eq!(folders_of(Path::new("")), [] as [PathBuf; 0]);
    }

    #[test]
    fn an_object_of_another_version_is_refused() {
        // The first field of the table, found by what follows it: the segment size.
        let raise = |octets: &mut Vec<u8>| {
            let field: Vec<u8> =
                [TABLE_VERSION, 1460].iter().flat_map(|n| n.to_le_bytes()).collect();
            let at = octets.windows(8).position(|window| window == field);
            octets[at.expect("the table is in the object")] += 1;
        };
        let Some(folder) = folder("version", raise, true) else { return };
        let error = error(&folder);
        let expected = format!("version {}, this program reads {TABLE_VERSION}", TABLE_VERSION + 1);
        assert!(error.contains(&expected) && error.contains("fetch lwip"), "{error}");
    }

    #[test]
    fn two_loaded_objects_share_nothing() {
        let load = || Plugin::load(8000, &folders());
        let (one, other) = match (load(), load()) {
            (Ok(one), Ok(other)) => (one, other),
            (one, _) => return println!("SKIP: {}", one.err().expect("one of both failed")),
        };
        assert!(!ptr::eq(one.table, other.table));
        assert_eq!(one.table.segment, 8000);
        assert!(one.version().starts_with("2.1"), "{}", one.version());
    }
}
