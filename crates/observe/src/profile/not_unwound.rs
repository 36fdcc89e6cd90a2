// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replaces `unwind` on architectures without stack unwinding, where stacks are not copied.

use super::events::UserState;
use crate::sampler::names::Spots;

/// A chain of one address.
pub(super) struct Chain {
    pub(super) addresses: Vec<u64>,
    pub(super) bytes: Option<usize>,
}

/// No unwinder.
#[derive(Default)]
pub(super) struct Unwinders;

impl Unwinders {
    pub(super) fn chain(&mut self, _: &mut Spots, _: u32, user: &UserState) -> Chain {
        Chain { addresses: vec![user.ip], bytes: None }
    }

    pub(super) fn forget(&mut self, _: u32) {}
}
