// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routines to measure: every variant of a kernel, the selected variant, other entry points to the
//! kernel, loops that bound its speed on this machine, and peers. All are called through a function
//! pointer, so that they have the same call overhead.
//!
//! The caller measures and checks results; a bound computes no meaningful result. Write to buffers
//! before reading them in a loop: untouched pages are all mapped to the zero page, and loads from
//! many addresses that share one physical line are slow on some processors.
//!
//! ```
//! use linerate_kernels::{Kernel, bench};
//!
//! for routine in bench::routines(Kernel::Checksum) {
//!     let sum = routine.checksum(&[0xff; 1460], 0);
//!     println!("{:?} {}: {sum:#x}", routine.role(), routine.name());
//! }
//! ```

use crate::variant::assert_equal_lengths;
use crate::{Kernel, Sum, Variant, checksum, ffi, variants};
use alloc::vec::Vec;

/// The role of a routine in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// One variant of the kernel.
    Variant,
    /// The selected variant, called directly through its function pointer, as
    /// [`Kernels`](crate::Kernels) does.
    Selected,
    /// Another entry point: a function that looks up the selected variant at each call, or an
    /// inline sum.
    Entry,
    /// A routine whose speed is an upper bound for kernels that read and write the same bytes.
    Bound,
    /// An implementation from another project.
    Peer,
}

impl Role {
    /// Returns the role's one-word name, also used in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Variant => "variant",
            Self::Selected => "selected",
            Self::Entry => "entry",
            Self::Bound => "bound",
            Self::Peer => "peer",
        }
    }
}

/// `fn(src, bytes, sum) -> sum`, the signature of `lr_csum_partial`.
pub type ChecksumFn = unsafe extern "C" fn(*const u8, usize, u32) -> u32;
/// `fn(dst, src, bytes) -> dst`, the signature of `lr_copy` and `memcpy`.
pub type CopyFn = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;
/// `fn(dst, src, bytes, sum) -> sum`, the signature of `lr_copy_csum_partial`.
pub type CopyChecksumFn = unsafe extern "C" fn(*mut u8, *const u8, usize, u32) -> u32;
/// `fn(dst, value, bytes) -> dst`, the signature of `lr_fill`.
pub type FillFn = unsafe extern "C" fn(*mut u8, u8, usize) -> *mut u8;

/// A routine's function pointer, with the C calling convention.
#[derive(Clone, Copy, Debug)]
pub enum Function {
    /// A routine of [`Kernel::Checksum`].
    Checksum(ChecksumFn),
    /// A routine of [`Kernel::Copy`].
    Copy(CopyFn),
    /// A routine of [`Kernel::CopyChecksum`].
    CopyChecksum(CopyChecksumFn),
    /// A routine of [`Kernel::Fill`].
    Fill(FillFn),
}

/// A routine that does the work of one kernel, or whose speed is an upper bound for that kernel.
#[derive(Clone, Copy, Debug)]
pub struct Routine {
    name: &'static str,
    role: Role,
    function: Function,
}

/// Returns all routines of `kernel` supported by this CPU: the selected variant, the dispatch
/// function that looks it up, all variants and all bounds. The caller can add [`headers`] and
/// peers.
pub fn routines(kernel: Kernel) -> Vec<Routine> {
    let variants = variants().filter_map(|v| Routine::from_variant(v, Role::Variant, kernel));
    let bounds = bounds().filter_map(|v| Routine::from_variant(v, Role::Bound, kernel));
    let selected = [Routine::selected(kernel), Routine::dispatch(kernel)];
    selected.into_iter().chain(variants).chain(bounds).collect()
}

/// Returns the inline header sums, each wrapped in a function: `header` is
/// [`checksum::header`](crate::checksum), and `header_c` is `lr_csum_header`, which adds whole
/// 32-bit words and ignores any remaining bytes.
pub fn headers() -> [Routine; 2] {
    let routine = |name, function| {
        let function = Function::Checksum(function);
        Routine { name, role: Role::Entry, function }
    };
    [routine("header", header), routine("header_c", ffi::lr_bench_header)]
}

unsafe extern "C" fn header(src: *const u8, bytes: usize, sum: u32) -> u32 {
    // SAFETY: the caller guarantees that this many bytes are readable.
    let bytes = unsafe { core::slice::from_raw_parts(src, bytes) };
    checksum::header(bytes, Sum::from_raw(sum)).raw()
}

/// Returns all bounds as variants, whether or not this CPU supports them. Each has only the kernels
/// that it bounds.
///
/// - `load64` to `load512` bound `checksum`: loops that load every byte. The name gives the width
///   of the loads in bits.
/// - `store64` to `store512` bound `fill`: loops that store every byte. The name gives the width
///   of the stores in bits.
/// - the C library's `memcpy` and `memset` bound the copies and `fill`; kernels may be faster.
pub fn bounds() -> impl ExactSizeIterator<Item = Variant> {
    ffi::bounds().iter().copied().map(Variant::from_descriptor)
}

/// Returns a variant in plain C with two kernels only: the checksum from figure 1 of the white
/// paper "Enhanced TCP/IP Performance with AltiVec", which adds 16-bit words, and a copy of machine
/// words.
pub fn document() -> Variant {
    Variant::from_descriptor(ffi::document())
}

/// Like [`document`], but with a deliberate bug: the checksum adds the last carry twice. The result
/// is still correct for most inputs, which makes such a bug hard to find. Used to test the checks.
pub fn wrong_by_a_carry() -> Variant {
    Variant::from_descriptor(ffi::wrong_by_a_carry())
}

impl Routine {
    /// Returns one kernel of a variant or bound; `None` if it does not have this kernel or this CPU
    /// does not support it.
    pub fn from_variant(variant: Variant, role: Role, kernel: Kernel) -> Option<Self> {
        if !variant.is_supported() {
            return None;
        }
        let v = variant.descriptor();
        let function = match kernel {
            Kernel::Checksum => Function::Checksum(v.csum_partial?),
            Kernel::Copy => Function::Copy(v.copy?),
            Kernel::CopyChecksum => Function::CopyChecksum(v.copy_csum_partial?),
            Kernel::Fill => Function::Fill(v.fill?),
        };
        Some(Self { name: variant.name(), role, function })
    }

    /// Returns the routine that calls the selected variant directly, without the dispatch function.
    pub fn selected(kernel: Kernel) -> Self {
        let v = ffi::current();
        let function = match kernel {
            Kernel::Checksum => v.csum_partial.map(Function::Checksum),
            Kernel::Copy => v.copy.map(Function::Copy),
            Kernel::CopyChecksum => v.copy_csum_partial.map(Function::CopyChecksum),
            Kernel::Fill => v.fill.map(Function::Fill),
        };
        let function = function.expect("every function is selected from the compiled variants");
        Self { name: "selected", role: Role::Selected, function }
    }

    /// Returns the dispatch function, which C callers and this crate's free functions use (such as
    /// `lr_csum_partial`): it loads the selected routine's address and jumps there.
    pub fn dispatch(kernel: Kernel) -> Self {
        let function = match kernel {
            Kernel::Checksum => Function::Checksum(ffi::lr_csum_partial),
            Kernel::Copy => Function::Copy(ffi::lr_copy),
            Kernel::CopyChecksum => Function::CopyChecksum(ffi::lr_copy_csum_partial),
            Kernel::Fill => Function::Fill(ffi::lr_fill),
        };
        Self { name: "dispatch", role: Role::Entry, function }
    }

    /// Wraps an external routine that sums bytes.
    ///
    /// # Safety
    /// `function` must read no more than the given bytes, be supported by this CPU, and not unwind.
    pub const unsafe fn checksum_from(
        name: &'static str,
        role: Role,
        function: ChecksumFn,
    ) -> Self {
        Self { name, role, function: Function::Checksum(function) }
    }

    /// Wraps an external routine that copies bytes.
    ///
    /// # Safety
    /// `function` must read and write no more than the given bytes in disjoint ranges, be supported
    /// by this CPU, and not unwind.
    pub const unsafe fn copy_from(name: &'static str, role: Role, function: CopyFn) -> Self {
        Self { name, role, function: Function::Copy(function) }
    }

    /// Wraps an external routine that copies bytes and sums them.
    ///
    /// # Safety
    /// `function` must meet the same requirements as in [`copy_from`](Self::copy_from).
    pub const unsafe fn copy_checksum_from(
        name: &'static str,
        role: Role,
        function: CopyChecksumFn,
    ) -> Self {
        Self { name, role, function: Function::CopyChecksum(function) }
    }

    /// Returns the name of the variant, bound or peer, or one of `selected`, `dispatch`, `header`
    /// and `header_c`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the role of this routine in a comparison: variant, bound, peer, ...
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Returns the function pointer, to be passed to C.
    pub const fn function(&self) -> Function {
        self.function
    }

    /// Returns the kernel that this routine implements or bounds.
    pub const fn kernel(&self) -> Kernel {
        match self.function {
            Function::Checksum(_) => Kernel::Checksum,
            Function::Copy(_) => Kernel::Copy,
            Function::CopyChecksum(_) => Kernel::CopyChecksum,
            Function::Fill(_) => Kernel::Fill,
        }
    }

    /// Returns the function pointer of a [`Kernel::Checksum`] routine for callers in C; otherwise
    /// `None`.
    pub const fn as_checksum(&self) -> Option<ChecksumFn> {
        if let Function::Checksum(function) = self.function { Some(function) } else { None }
    }

    /// Returns the function pointer of a [`Kernel::Copy`] routine for callers in C; otherwise
    /// `None`.
    pub const fn as_copy(&self) -> Option<CopyFn> {
        if let Function::Copy(function) = self.function { Some(function) } else { None }
    }

    /// Returns the function pointer of a [`Kernel::CopyChecksum`] routine for callers in C;
    /// otherwise `None`.
    pub const fn as_copy_checksum(&self) -> Option<CopyChecksumFn> {
        if let Function::CopyChecksum(function) = self.function { Some(function) } else { None }
    }

    /// Calls a [`Kernel::Checksum`] routine with sums as used by `lr_csum_partial`. A bound's
    /// result is meaningless.
    ///
    /// # Panics
    /// Panics if this is a routine of another kernel.
    #[inline]
    pub fn checksum(&self, bytes: &[u8], sum: u32) -> u32 {
        let Function::Checksum(function) = self.function else { self.mistaken() };
        // SAFETY: the slice's type ensures that its whole length can be read; the routine's
        // constructor ensures that the function reads no more and can run here.
        unsafe { function(bytes.as_ptr(), bytes.len(), sum) }
    }

    /// Calls a [`Kernel::Copy`] routine.
    ///
    /// # Panics
    /// Panics if this is a routine of another kernel, or if the lengths differ.
    #[inline]
    pub fn copy(&self, dst: &mut [u8], src: &[u8]) {
        let Function::Copy(function) = self.function else { self.mistaken() };
        assert_equal_lengths(dst, src);
        // SAFETY: both slices have the given length and are disjoint, since one is exclusive; the
        // routine's constructor ensures that the function stays within them and can run here.
        unsafe { function(dst.as_mut_ptr(), src.as_ptr(), src.len()) };
    }

    /// Calls a [`Kernel::CopyChecksum`] routine. A bound's result is meaningless.
    ///
    /// # Panics
    /// Panics if this is a routine of another kernel, or if the lengths differ.
    #[inline]
    pub fn copy_checksum(&self, dst: &mut [u8], src: &[u8], sum: u32) -> u32 {
        let Function::CopyChecksum(function) = self.function else { self.mistaken() };
        assert_equal_lengths(dst, src);
        // SAFETY: as in `copy`.
        unsafe { function(dst.as_mut_ptr(), src.as_ptr(), src.len(), sum) }
    }

    /// Calls a [`Kernel::Fill`] routine.
    ///
    /// # Panics
    /// Panics if this is a routine of another kernel.
    #[inline]
    pub fn fill(&self, dst: &mut [u8], value: u8) {
        let Function::Fill(function) = self.function else { self.mistaken() };
        // SAFETY: the slice's type ensures that its whole length can be written; the routine's
        // constructor ensures that the function writes no more and can run here.
        unsafe { function(dst.as_mut_ptr(), value, dst.len()) };
    }

    #[cold]
    fn mistaken(&self) -> ! {
        panic!(
            "`{}` is a routine of kernel `{}`, but was called as a routine of another kernel",
            self.name,
            self.kernel()
        )
    }
}
