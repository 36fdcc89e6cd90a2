// SPDX-License-Identifier: MIT OR Apache-2.0
//! Variants of the kernels, which of them this CPU can run, and how one is chosen.

use crate::{Sum, ffi};
use core::error::Error;
use core::fmt;
use core::ptr::fn_addr_eq;

/// One of the four kernels.
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
    /// Every kernel.
    pub const ALL: [Self; 4] = [Self::Checksum, Self::Copy, Self::CopyChecksum, Self::Fill];

    /// A one-word name, which records and command lines also use.
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

/// One implementation of the kernels: a row of the table in `native/kernels/table.c`.
#[derive(Clone, Copy)]
pub struct Variant(&'static ffi::Variant);

/// All variants, from the plainest up, whether or not they can run here.
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
    /// Finds the variant with this name.
    ///
    /// # Errors
    /// [`VariantError::Unknown`] if there is none.
    pub fn find(name: &str) -> Result<Self, VariantError<'_>> {
        variants().find(|v| v.name() == name).ok_or(VariantError::Unknown { name })
    }

    /// A one-word name, such as `avx2`, which symbols, records and command lines also use.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Required CPU feature, as named in the manual, such as `AVX2`.
    pub fn isa(self) -> &'static str {
        self.0.isa()
    }

    /// Whether the functions use vector registers.
    pub fn is_vector(self) -> bool {
        self.0.vector != 0
    }

    /// Whether this build contains the functions. It does not if the variant is for another
    /// architecture, or if the compiler could not build it.
    pub fn is_compiled(self) -> bool {
        self.0.compiled != 0
    }

    /// Whether this build contains the functions, and this processor and its operating system can
    /// run them.
    pub fn is_supported(self) -> bool {
        self.is_compiled() && self.0.supported()
    }

    /// Creates a variant from a descriptor of the same form as those in the table.
    #[cfg(feature = "bench")]
    pub(crate) fn from_descriptor(v: &'static ffi::Variant) -> Self {
        Self(v)
    }

    #[cfg(feature = "bench")]
    pub(crate) fn descriptor(self) -> &'static ffi::Variant {
        self.0
    }

    /// Returns the variant's kernels, if it can run here.
    ///
    /// # Errors
    /// [`VariantError::NotCompiled`] or [`VariantError::NotSupported`] if the variant cannot run
    /// here.
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

/// Reasons why a variant cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariantError<'a> {
    /// No variant has this name; the message lists [`variants`].
    Unknown {
        /// The requested name.
        name: &'a str,
    },
    /// This build does not contain the variant.
    NotCompiled {
        /// The variant.
        name: &'static str,
        /// Its requirement.
        isa: &'static str,
    },
    /// This processor, or its operating system, cannot run the variant.
    NotSupported {
        /// The variant.
        name: &'static str,
        /// Its requirement.
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

/// Makes [`checksum::partial`](crate::checksum::partial), [`copy`](crate::copy()) and their
/// siblings use one variant from now on, in all threads; `None` returns to the best variant for
/// each kernel. Calls that race with the change use either variant. [`Kernels`] obtained earlier
/// keep the functions they hold.
///
/// # Errors
/// If the variant does not exist or cannot run here, in which case nothing changes.
pub fn force(name: Option<&str>) -> Result<(), VariantError<'_>> {
    let variant = match name {
        None => None,
        Some(name) => {
            let variant = Variant::find(name)?;
            variant.kernels()?;
            Some(variant.0)
        }
    };
    assert!(ffi::force(variant), "a variant that can run can be forced");
    Ok(())
}

/// The four kernels of one variant, or the selected kernels: four function pointers, for callers
/// that choose once and call often.
#[derive(Clone, Copy)]
pub struct Kernels {
    name: &'static str,
    csum_partial: ffi::CsumPartial,
    copy_csum_partial: ffi::CopyCsumPartial,
    copy: ffi::Copy,
    fill: ffi::Fill,
}

impl Kernels {
    /// The kernels that the functions of this crate use: for each kernel, the best variant that
    /// this processor can run, unless [`force`] has chosen another.
    pub fn selected() -> Self {
        Self::from_descriptor(&ffi::current())
    }

    /// The kernels of the variant with this name.
    ///
    /// # Errors
    /// If the variant does not exist or cannot run here.
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

    /// Creates the value from a descriptor whose functions can run here: that of a supported
    /// variant, or that of the current selection.
    fn from_descriptor(v: &ffi::Variant) -> Self {
        let whole = "a compiled variant has all functions; a test checks the table";
        Self {
            name: v.name(),
            csum_partial: v.csum_partial.expect(whole),
            copy_csum_partial: v.copy_csum_partial.expect(whole),
            copy: v.copy.expect(whole),
            fill: v.fill.expect(whole),
        }
    }

    /// The name of the variant, or `selected`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The name of the variant that a kernel comes from, or of the plainest variant if several
    /// share the function.
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

    /// As [`checksum::partial`](crate::checksum::partial).
    #[inline]
    pub fn checksum(&self, bytes: &[u8], sum: Sum) -> Sum {
        let (at, len) = (bytes.as_ptr(), bytes.len());
        // SAFETY: the slice's type ensures that its whole length can be read; `from_descriptor`
        // ensures that the function can run here.
        Sum::from_raw(unsafe { (self.csum_partial)(at, len, sum.raw()) })
    }

    /// As [`crate::copy`](crate::copy()).
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    #[track_caller]
    pub fn copy(&self, dst: &mut [u8], src: &[u8]) {
        assert_equal_lengths(dst, src);
        // SAFETY: both slices have the given length and are disjoint, since one is exclusive;
        // `from_descriptor` ensures that the function can run here.
        unsafe { (self.copy)(dst.as_mut_ptr(), src.as_ptr(), src.len()) };
    }

    /// As [`crate::copy_checksum`].
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    #[track_caller]
    pub fn copy_checksum(&self, dst: &mut [u8], src: &[u8], sum: Sum) -> Sum {
        assert_equal_lengths(dst, src);
        let (to, from) = (dst.as_mut_ptr(), src.as_ptr());
        // SAFETY: as in `copy`.
        Sum::from_raw(unsafe { (self.copy_csum_partial)(to, from, src.len(), sum.raw()) })
    }

    /// As [`crate::fill`].
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

/// The kernels take a single length for both buffers.
#[inline]
#[track_caller]
pub(crate) fn assert_equal_lengths(dst: &[u8], src: &[u8]) {
    let (dst, src) = (dst.len(), src.len());
    assert!(dst == src, "source and destination differ in length: {src} and {dst} bytes");
}
