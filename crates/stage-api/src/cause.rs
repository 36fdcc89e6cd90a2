// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drop causes: a single list per stage provides both the names in the report and the indices.

/// Declares, in the module that invokes it, the enum `Cause` of drop causes and `CAUSES`, their
/// names in the same order.
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
            /// Returns the verdict for a packet: passes it if the check succeeded, drops it for the
            /// cause otherwise.
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
