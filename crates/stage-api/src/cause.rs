// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drop causes: one list per stage defines their names in reports and their indices.

/// Declares the drop causes of a stage, in the module that invokes it: an enum `Cause`, and an
/// array `CAUSES` of the causes' names in the same order.
#[macro_export]
macro_rules! causes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?) => {
        /// Why a stage drops packets.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        enum Cause {
            $($(#[$doc])* $variant),+
        }

        const CAUSES: &[&str] = &[$($name),+];

        impl Cause {
            /// Returns the verdict on a packet: pass if the check succeeded, otherwise drop with
            /// the given cause.
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
