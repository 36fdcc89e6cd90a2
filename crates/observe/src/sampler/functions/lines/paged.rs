// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads parts of a file for gimli, through a small cache of pages.
//!
//! The debug information of a program can be larger than the memory that a profiler may take, and
//! only a few of its units are needed. Mapping the file would not help: the kernel maps pages
//! around those that are read, and a file that shrinks while it is mapped kills the reader.

use gimli::{Error, Reader, ReaderOffsetId, Result, RunTimeEndian};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

const PAGE_BYTES: usize = 16 << 10;
/// Number of pages in the cache. A page is kept in the slot with its number modulo `SLOTS`.
const SLOTS: usize = 256;
/// Number of bytes read at a time to find the end of a string.
const FIND_BYTES: usize = 64;

/// A file with a cache, and a limit on the number of bytes read through it.
pub(super) struct Source {
    file: File,
    pages: RefCell<Vec<Option<Page>>>,
    /// Bytes that may still be read.
    left: Cell<u64>,
}

struct Page {
    number: u64,
    bytes: Vec<u8>,
}

impl Source {
    pub(super) fn new(file: File) -> Rc<Self> {
        let pages = RefCell::new((0..SLOTS).map(|_| None).collect());
        Rc::new(Self { file, pages, left: Cell::new(0) })
    }

    /// Sets how many bytes may be read from now on, including those that come from the cache.
    /// Reading more is an error, so that reading damaged tables cannot take long.
    pub(super) fn allow(&self, bytes: u64) {
        self.left.set(bytes);
    }

    /// Returns the number of bytes that may still be read.
    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    fn read(&self, mut at: u64, mut into: &mut [u8]) -> Result<()> {
        let left = self.left.get().checked_sub(into.len() as u64);
        self.left.set(left.ok_or(Error::UnexpectedEof(ReaderOffsetId(at)))?);
        let mut pages = self.pages.borrow_mut();
        while !into.is_empty() {
            let number = at / PAGE_BYTES as u64;
            let slot = &mut pages[(number % SLOTS as u64) as usize];
            if slot.as_ref().is_none_or(|page| page.number != number) {
                *slot = self.page(number);
            }
            let start = (at % PAGE_BYTES as u64) as usize;
            let rest = slot.as_ref().and_then(|page| page.bytes.get(start..));
            let rest = rest.filter(|rest| !rest.is_empty());
            let rest = rest.ok_or(Error::UnexpectedEof(ReaderOffsetId(at)))?;
            let part = rest.len().min(into.len());
            into[..part].copy_from_slice(&rest[..part]);
            into = &mut into[part..];
            at += part as u64;
        }
        Ok(())
    }

    fn page(&self, number: u64) -> Option<Page> {
        let mut bytes = vec![0; PAGE_BYTES];
        let mut read = 0;
        let at = number.checked_mul(PAGE_BYTES as u64)?;
        while read < PAGE_BYTES {
            match self.file.read_at(&mut bytes[read..], at + read as u64) {
                Ok(0) | Err(_) => break,
                Ok(more) => read += more,
            }
        }
        bytes.truncate(read);
        Some(Page { number, bytes })
    }
}

/// A range of bytes of a file.
#[derive(Clone)]
pub(super) struct Bytes {
    source: Rc<Source>,
    order: RunTimeEndian,
    at: u64,
    len: usize,
}

impl Bytes {
    /// Returns `len` bytes from an offset of a file.
    pub(super) fn new(source: &Rc<Source>, order: RunTimeEndian, at: u64, len: usize) -> Self {
        Self { source: Rc::clone(source), order, at, len }
    }

    fn check(&self, len: usize) -> Result<()> {
        match len <= self.len {
            true => Ok(()),
            false => Err(Error::UnexpectedEof(self.offset_id())),
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.len, self.at)
    }
}

impl Reader for Bytes {
    type Endian = RunTimeEndian;
    type Offset = usize;

    fn endian(&self) -> RunTimeEndian {
        self.order
    }

    fn len(&self) -> usize {
        self.len
    }

    fn empty(&mut self) {
        self.len = 0;
    }

    fn truncate(&mut self, len: usize) -> Result<()> {
        self.check(len)?;
        self.len = len;
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.at.wrapping_sub(base.at) as usize
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.at)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let offset = usize::try_from(id.0.checked_sub(self.at)?).ok()?;
        (offset <= self.len).then_some(offset)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let mut rest = self.clone();
        let mut part = [0; FIND_BYTES];
        while rest.len > 0 {
            let part = &mut part[..FIND_BYTES.min(rest.len)];
            let before = self.len - rest.len;
            rest.read_slice(part)?;
            if let Some(at) = part.iter().position(|one| *one == byte) {
                return Ok(before + at);
            }
        }
        Err(Error::UnexpectedEof(self.offset_id()))
    }

    fn skip(&mut self, len: usize) -> Result<()> {
        self.check(len)?;
        self.at += len as u64;
        self.len -= len;
        Ok(())
    }

    fn split(&mut self, len: usize) -> Result<Self> {
        self.check(len)?;
        let first = Self { len, ..self.clone() };
        self.skip(len)?;
        Ok(first)
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        let limit = self.source.left.get();
        if self.len as u64 > limit {
            return Err(Error::UnexpectedEof(self.offset_id()));
        }
        let mut bytes = vec![0; self.len];
        self.source.read(self.at, &mut bytes)?;
        Ok(bytes.into())
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        let bytes = self.to_slice()?.into_owned();
        String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Error::BadUtf8)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        Ok(String::from_utf8_lossy(&self.to_slice()?).into_owned().into())
    }

    fn read_slice(&mut self, buf: &mut [u8]) -> Result<()> {
        self.check(buf.len())?;
        self.source.read(self.at, buf)?;
        self.skip(buf.len())
    }
}
