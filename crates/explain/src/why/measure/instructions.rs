// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures derived from sampled instructions: memory accesses and ciphers.

use super::super::facts::{Facts, share};
use super::Measure;
use linerate_record::stats::Estimate;
use linerate_record::why::ThreadActivity;

impl Measure {
    /// Returns the measure for a thread; `None` if its instructions were not sampled.
    pub(super) fn of_instructions(
        self,
        facts: &Facts<'_>,
        thread: &ThreadActivity,
    ) -> Option<Estimate> {
        if self == Self::CipherInstructions {
            let of_library = facts.crypto_libraries(thread).filter(|it| it.value > 0.0)?;
            return Some(Estimate::exactly(thread.cipher_instructions? / of_library.value));
        }
        let memory = thread.memory.as_ref()?;
        match self {
            Self::MemoryShare => Some(share(memory.share * memory.once_share)),
            Self::WorkingSet => {
                let cache = facts.observation.last_level_cache_bytes.filter(|bytes| *bytes > 0)?;
                let used = memory.working_set_bytes.estimate()?;
                Some(used.scale(1.0 / cache as f64))
            }
            _ => None,
        }
    }
}
