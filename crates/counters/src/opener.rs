// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whoever opens events: the kernel, or in tests something that refuses as asked.

use linerate_linux::perf::{self, OpenError, Request, Target};

/// Opens events.
pub trait Opener {
    /// As [`perf::open`].
    ///
    /// # Errors
    /// As [`perf::open`].
    fn open(
        &self,
        request: &Request,
        target: Target,
        leader: Option<&perf::Event>,
    ) -> Result<perf::Event, OpenError>;
}

/// The kernel of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

impl Opener for Kernel {
    fn open(
        &self,
        request: &Request,
        target: Target,
        leader: Option<&perf::Event>,
    ) -> Result<perf::Event, OpenError> {
        perf::open(request, target, leader)
    }
}
