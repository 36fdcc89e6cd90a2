// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maximum chain length, and the reason for it.

use crate::MemoryError;
use linerate_machine::free_memory::Limit;

/// Minimum useful size in bytes; anything smaller fits most L2 caches.
pub const LEAST_BYTES: u64 = 256 << 10;

/// Returns how many bytes to allocate, in whole 4 KiB pages: `wanted`, capped by the user's `max`
/// and by `available`, where given.
///
/// # Errors
/// Returns an error if the result would be below [`LEAST_BYTES`].
pub fn limit(
    wanted: u64,
    max: Option<u64>,
    available: Option<Limit>,
) -> Result<Limit, MemoryError> {
    let wanted = Limit::new(wanted, "more memory would not improve the result");
    let given = max.map(|bytes| Limit::new(bytes, "limited by --max"));
    let others = given.into_iter().chain(available);
    let Limit { bytes, reason } = others.fold(wanted, Limit::or_less);
    let bytes = bytes / 4096 * 4096;
    match bytes >= LEAST_BYTES {
        true => Ok(Limit { bytes, reason }),
        false => Err(MemoryError::TooLittle { bytes, least: LEAST_BYTES, reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn free(bytes: u64) -> Option<Limit> {
        Some(Limit::new(bytes, "half of the free memory"))
    }

    #[test]
    fn as_much_as_is_wanted_where_there_is_room() {
        for available in [None, free(4 * GIB)] {
            let limit = limit(GIB, None, available).unwrap();
            assert_eq!(
                limit,
                Limit { bytes: GIB, reason: "more memory would not improve the result".to_owned() }
            );
        }
    }

    #[test]
    fn no_more_than_is_available() {
        let found = limit(64 * GIB, None, free(4 * GIB)).unwrap();
        assert_eq!(Some(found), free(4 * GIB));
        let full = Limit::new(0, "half of the control group's free memory (/a)");
        let error = limit(GIB, None, Some(full)).unwrap_err();
        assert!(error.to_string().contains("control group"), "{error}");
    }

    #[test]
    fn hostile_requests_are_cut_or_refused() {
        for max in [u64::MAX, 1 << 63, 1 << 40] {
            assert_eq!(limit(u64::MAX, Some(max), free(4 * GIB)).unwrap().bytes, 4 * GIB);
        }
        let cut = limit(GIB, Some(1_000_001), free(4 * GIB)).unwrap();
        assert_eq!(cut.bytes, 1_000_001 / 4096 * 4096);
        for max in [0, 1, LEAST_BYTES - 1] {
            let error = limit(GIB, Some(max), free(4 * GIB)).unwrap_err();
            assert!(matches!(error, MemoryError::TooLittle { .. }), "{error:?}");
            assert!(error.to_string().contains("--max"), "{error}");
        }
        assert_eq!(limit(GIB, Some(LEAST_BYTES), free(4 * GIB)).unwrap().bytes, LEAST_BYTES);
    }
}
