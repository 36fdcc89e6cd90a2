// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines, for each user-mode sample, the instruction that the thread was stalled on and the
//! memory that it accessed.

use super::instructions::Code;
use super::stacks::{Resolved, UserSample};
use super::waited::Waited;
use crate::sampler::accesses::{Access, Memory};
use crate::sampler::names::{Location, Names};
use std::collections::HashMap;

/// Maximum number of functions whose code is decoded: those with the most samples.
const MAX_FUNCTIONS: usize = 256;
/// Number of bytes decoded past the last sample of a function, enough to reach the end of a loop
/// around that sample.
const BYTES_BEHIND: u64 = 1024;
/// Maximum size of a function to decode.
const MAX_BYTES: u64 = 4 << 20;

/// A user-mode sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) thread: u32,
    /// Function number, as returned by [`Names::function_of`].
    pub(super) function: u32,
    /// Number of the code location (spot).
    pub(super) spot: u32,
    pub(super) slice: u32,
    /// Number of the thread's samples before this one.
    pub(super) ordinal: u64,
    /// The instruction that the thread was stalled on; `None` if the code could not be decoded.
    pub(super) waited: Option<Waited>,
    /// The memory accessed; `None` if the address is unknown.
    pub(super) access: Option<Access>,
    /// The instruction fetch as an access, for estimating how much code is in use.
    pub(super) code: Access,
}

/// Decodes the samples of all threads.
pub(super) fn operands(resolved: &Resolved) -> Vec<Operand> {
    let mut known = Codes::new(&resolved.names, &resolved.user_samples);
    let each = |sample: &UserSample| {
        let location = resolved.names.locations.get(sample.spot as usize).copied().flatten();
        let waited = location.and_then(|location| known.waited(location));
        let pid = resolved.threads[sample.thread as usize].pid;
        let memory = Memory::Process(pid);
        let start = sample.ip.wrapping_sub(location.map_or(0, |location| location.offset));
        let access = waited.and_then(|waited| waited.memory).map(|operand| Access {
            memory,
            at: operand.address(&sample.registers, start),
            bytes: operand.bytes,
            is_write: operand.is_write,
            spot: sample.spot,
        });
        Operand {
            thread: sample.thread,
            function: resolved.names.function_of(sample.spot),
            spot: sample.spot,
            slice: sample.slice,
            ordinal: sample.ordinal,
            waited,
            access,
            code: Access { memory, at: sample.ip, bytes: 1, is_write: false, spot: sample.spot },
        }
    };
    resolved.user_samples.iter().map(each).collect()
}

/// File number and start of a function.
type Key = (u32, u64);

/// The code of the sampled functions.
struct Codes {
    codes: HashMap<Key, Code>,
    waited: HashMap<Location, Option<Waited>>,
}

impl Codes {
    fn new(names: &Names, samples: &[UserSample]) -> Self {
        // Number of samples of each function, and its last sampled offset.
        let mut functions = HashMap::<Key, (u64, u64)>::new();
        for sample in samples {
            let Some(one) = names.locations.get(sample.spot as usize).copied().flatten() else {
                continue;
            };
            let (count, end) = functions.entry((one.file, one.start)).or_default();
            *count += 1;
            *end = (*end).max(one.offset);
        }
        let mut order: Vec<(u64, Key, u64)> =
            functions.into_iter().map(|(key, (count, end))| (count, key, end)).collect();
        order.sort_by_key(|&(count, key, _)| (std::cmp::Reverse(count), key));
        let code = |(_, (file, start), end): (u64, Key, u64)| {
            let bytes = end.saturating_add(BYTES_BEHIND).min(MAX_BYTES) as usize;
            Some(((file, start), Code::new(names.code(file, start, bytes)?)))
        };
        let codes = order.into_iter().take(MAX_FUNCTIONS).filter_map(code).collect();
        Self { codes, waited: HashMap::new() }
    }

    fn waited(&mut self, at: Location) -> Option<Waited> {
        let Self { codes, waited } = self;
        let find = || codes.get(&(at.file, at.start))?.waited(at.offset);
        *waited.entry(at).or_insert_with(find)
    }
}
