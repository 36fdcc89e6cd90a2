// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel variants, and the selection of those supported by this CPU.

use crate::buffer::{Buffer, assert_equal_counts};
use crate::{Sum, ffi};
use core::error::Error;
use core::fmt;
use core::ptr::fn_addr_eq;

/// One of the four kernels. [`crate::checksum::burst`] belongs to the checksum kernel and is
/// selected with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Sums bytes: [`crate::checksum::partial`].
    Checksum,
    /// Copies bytes: [`crate::copy`].
    Copy,
    /// Copies bytes and sums them: [`crate::copy_checksum`].
    CopyChecksum,
    /// Sets bytes to a value: [`crate::fill`].
    Fill,
}

impl Kernel {
    /// All kernels.
    pub const ALL: [Self; 4] = [Self::Checksum, Self::Copy, Self::CopyChecksum, Self::Fill];

    /// Returns the kernel's one-word name, also used in records and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Checksum => "checksum",
            Self::Copy => "copy",
            Self::CopyChecksum => "copy_checksum",
            Self::Fill => "fill",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One implementation of the kernels, a row in `native/kernels/table.c`.
#[derive(Clone, Copy)]
pub struct Variant(&'static ffi::Variant);

/// Returns all variants, simplest first, whether or not this CPU supports them.
///
/// ```
/// for variant in linerate_kernels::variants() {
///     println!("{:12} {:28} {}", variant.name(), variant.isa(), variant.is_supported());
/// }
/// ```
pub fn variants() -> impl ExactSizeIterator<Item = Variant> {
    ffi::variants().iter().copied().map(Variant)
}

impl Variant {
    /// Returns the variant with this name.
    ///
    /// # Errors
    /// Returns [`VariantError::Unknown`] if there is none.
    pub fn find(name: &str) -> Result<Self, VariantError<'_>> {
        variants().find(|v| v.name() == name).ok_or(VariantError::Unknown { name })
    }

    /// Returns the one-word name, such as `avx2`, also used in symbols, records and on command
    /// lines.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns the required CPU feature, as named in the manual, such as `AVX2`.
    pub fn isa(self) -> &'static str {
        self.0.isa()
    }

    /// Returns whether the functions use vector registers.
    pub fn is_vector(self) -> bool {
        self.0.vector != 0
    }

    /// Returns whether this build contains the functions. It does not if the variant is for another
    /// architecture, or if the compiler could not build it.
    pub fn is_compiled(self) -> bool {
        self.0.compiled != 0
    }

    /// Returns whether this build contains the functions, and the CPU and operating system support
    /// them.
    pub fn is_supported(self) -> bool {
        self.is_compiled() && self.0.supported()
    }

    /// Wraps a variant's C descriptor, which need not be in the table of variants.
    #[cfg(feature = "bench")]
    pub(crate) fn from_descriptor(v: &'static ffi::Variant) -> Self {
        Self(v)
    }

    #[cfg(feature = "bench")]
    pub(crate) fn descriptor(self) -> &'static ffi::Variant {
        self.0
    }

    /// Returns the variant's kernels.
    ///
    /// # Errors
    /// Returns [`VariantError::NotCompiled`] or [`VariantError::NotSupported`] if the variant is
    /// unavailable.
    pub fn kernels(self) -> Result<Kernels, VariantError<'static>> {
        let (name, isa) = (self.name(), self.isa());
        if !self.is_compiled() {
            return Err(VariantError::NotCompiled { name, isa });
        }
        if !self.is_supported() {
            return Err(VariantError::NotSupported { name, isa });
        }
        Ok(Kernels::from_descriptor(self.0))
    }
}

impl fmt::Debug for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Variant").field(&self.name()).finish()
    }
}

/// Why a variant cannot be used. The message lists the supported variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariantError<'a> {
    /// No variant has this name.
    Unknown {
        /// The name as given.
        name: &'a str,
    },
    /// This build does not contain the variant.
    NotCompiled {
        /// Name of the variant.
        name: &'static str,
        /// CPU feature that the variant requires.
        isa: &'static str,
    },
    /// This CPU, or its operating system, does not support the variant.
    NotSupported {
        /// Name of the variant.
        name: &'static str,
        /// CPU feature that the variant requires.
        isa: &'static str,
    },
}

impl fmt::Display for VariantError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => write!(f, "unknown kernel variant `{name}`")?,
            Self::NotCompiled { name, isa } => {
                write!(f, "variant `{name}` ({isa}) is not part of this build")?;
            }
            Self::NotSupported { name, isa } => {
                write!(f, "variant `{name}` needs {isa}, which this processor does not support")?;
            }
        }
        write!(f, "; choose one of")?;
        let fit = variants().filter(|v| v.is_supported());
        fit.enumerate()
            .try_for_each(|(i, v)| write!(f, "{}{}", if i == 0 { " " } else { ", " }, v.name()))
    }
}

impl Error for VariantError<'_> {}

/// Forces one variant: from now on, [`checksum::partial`](crate::checksum::partial),
/// [`copy`](crate::copy()) and the crate's other free functions use its kernels, in all threads.
/// `None` restores the best variant for each kernel. Calls that race with the change use either
/// variant. [`Kernels`] obtained earlier keep their functions.
///
/// # Errors
/// Returns an error, changing nothing, if the variant does not exist or is not supported here.
pub fn force(name: Option<&str>) -> Result<(), VariantError<'_>> {
    let variant = match name {
        None => None,
        Some(name) => {
            let variant = Variant::find(name)?;
            variant.kernels()?;
            Some(variant.0)
        }
    };
    assert!(ffi::force(variant), "a supported variant can be forced");
    Ok(())
}

/// The four kernels of one variant, or the selected kernels, as function pointers, for callers that
/// select once and call often.
#[derive(Clone, Copy)]
pub struct Kernels {
    name: &'static str,
    csum_partial: ffi::CsumPartial,
    csum_burst: ffi::CsumBurst,
    copy_csum_partial: ffi::CopyCsumPartial,
    copy: ffi::Copy,
    fill: ffi::Fill,
}

impl Kernels {
    /// Returns the kernels used by this crate's functions: for each kernel, the best variant
    /// supported by this CPU, unless another was set with [`force`].
    pub fn selected() -> Self {
        Self::from_descriptor(&ffi::current())
    }

    /// Returns the kernels of the variant with this name.
    ///
    /// # Errors
    /// Returns an error if the variant does not exist or is not supported here.
    ///
    /// ```
    /// use linerate_kernels::Kernels;
    ///
    /// let kernels = Kernels::by_name("portable").unwrap();
    /// let mut copy = [0; 4];
    /// kernels.copy(&mut copy, b"ping");
    /// assert_eq!(&copy, b"ping");
    ///
    /// let error = Kernels::by_name("fast").unwrap_err().to_string();
    /// assert!(error.starts_with("unknown kernel variant `fast`; choose one of"));
    /// ```
    pub fn by_name(name: &str) -> Result<Self, VariantError<'_>> {
        Variant::find(name)?.kernels()
    }

    /// Creates the kernels from the descriptor of a supported variant or of the current selection;
    /// this CPU must support the descriptor's functions.
    fn from_descriptor(v: &ffi::Variant) -> Self {
        let whole = "a compiled variant has all functions; a test checks the table";
        Self {
            name: v.name(),
            csum_partial: v.csum_partial.expect(whole),
            csum_burst: v.csum_burst.expect(whole),
            copy_csum_partial: v.copy_csum_partial.expect(whole),
            copy: v.copy.expect(whole),
            fill: v.fill.expect(whole),
        }
    }

    /// Returns the variant's name, or `selected`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the name of the variant that a kernel comes from. If several variants share the
    /// function, this is the simplest of them.
    pub fn origin(&self, kernel: Kernel) -> &'static str {
        let same = |v: &&&ffi::Variant| match kernel {
            Kernel::Checksum => v.csum_partial.is_some_and(|f| fn_addr_eq(f, self.csum_partial)),
            Kernel::Copy => v.copy.is_some_and(|f| fn_addr_eq(f, self.copy)),
            Kernel::CopyChecksum => {
                v.copy_csum_partial.is_some_and(|f| fn_addr_eq(f, self.copy_csum_partial))
            }
            Kernel::Fill => v.fill.is_some_and(|f| fn_addr_eq(f, self.fill)),
        };
        ffi::variants().iter().find(same).map_or(self.name, |v| v.name())
    }

    /// Like [`checksum::partial`](crate::checksum::partial), but with these kernels.
    #[inline]
    pub fn checksum(&self, bytes: &[u8], sum: Sum) -> Sum {
        let (at, len) = (bytes.as_ptr(), bytes.len());
        // SAFETY: the slice's type ensures that its whole length can be read; `from_descriptor`
        // ensures that the function can run here.
        Sum::from_raw(unsafe { (self.csum_partial)(at, len, sum.raw()) })
    }

    /// Like [`checksum::burst`](crate::checksum::burst), but with these kernels.
    ///
    /// # Panics
    /// Panics if the number of sums differs from the number of buffers.
    #[inline]
    #[track_caller]
    pub fn checksum_burst(&self, buffers: &[Buffer<'_>], sums: &mut [Sum]) {
        assert_equal_counts(buffers, sums);
        // SAFETY: the types ensure that all bytes can be read and all sums be written; the line
        // above ensures that there are equally many buffers and sums; `from_descriptor` ensures
        // that the function can run here.
        unsafe { (self.csum_burst)(buffers.as_ptr(), sums.as_mut_ptr(), buffers.len()) };
    }

    /// Like [`crate::copy`](crate::copy()), but with these kernels.
    ///
    /// # Panics
    /// Panics if the lengths differ.
    #[inline]
    #[track_caller]
    pub fn copy(&self, dst: &mut [u8], src: &[u8]) {
        assert_equal_lengths(dst, src);
        // SAFETY: both slices have the given length and are disjoint, since one is exclusive;
        // `from_descriptor` ensures that the function can run here.
        unsafe { (self.copy)(dst.as_mut_ptr(), src.as_ptr(), src.len()) };
    }

    /// Like [`crate::copy_checksum`], but with these kernels.
    ///
    /// # Panics
    /// Panics if the lengths differ.
    #[inline]
    #[track_caller]
    pub fn copy_checksum(&self, dst: &mut [u8], src: &[u8], sum: Sum) -> Sum {
        assert_equal_lengths(dst, src);
        let (to, from) = (dst.as_mut_ptr(), src.as_ptr());
        // SAFETY: as in `copy`.
        Sum::from_raw(unsafe { (self.copy_csum_partial)(to, from, src.len(), sum.raw()) })
    }

    /// Like [`crate::fill`], but with these kernels.
    #[inline]
    pub fn fill(&self, dst: &mut [u8], value: u8) {
        // SAFETY: the slice's type ensures that its whole length can be written; `from_descriptor`
        // ensures that the function can run here.
        unsafe { (self.fill)(dst.as_mut_ptr(), value, dst.len()) };
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Kernels");
        s.field("name", &self.name);
        for kernel in Kernel::ALL {
            s.field(kernel.name(), &self.origin(kernel));
        }
        s.finish()
    }
}

/// Panics if the lengths of source and destination differ: the C functions take a single length.
#[inline]
#[track_caller]
pub(crate) fn assert_equal_lengths(dst: &[u8], src: &[u8]) {
    let (dst, src) = (dst.len(), src.len());
    assert!(dst == src, "source and destination differ in length: {src} and {dst} bytes");
}
