// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drop causes: one list per stage gives both the names in the report and the indices.

/// Declares `Cause`, an enum of drop causes, and `CAUSES`, their names in the same order, for the
/// module it is used in.
#[macro_export]
macro_rules! causes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?) => {
        /// A reason why a stage drops packets.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        enum Cause {
            $($(#[$doc])* $variant),+
        }

        const CAUSES: &[&str] = &[$($name),+];

        impl Cause {
            /// Passes the packets that a check accepted, drops the rest.
            #[inline]
            fn judge(result: Result<(), Self>) -> $crate::Verdict {
                match result {
                    Ok(()) => $crate::Verdict::Pass,
                    Err(cause) => $crate::Verdict::Drop(cause as u8),
                }
            }
        }
    };
}
