// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens events through the kernel or, in tests, through a test double that refuses events on
//! request.

use linerate_linux::errno;
use linerate_linux::perf::{self, OpenError, Request, Target};

/// Interface for opening perf events, implemented by the kernel and by a test double.
pub trait Opener {
    /// Opens an event like [`perf::open`].
    ///
    /// # Errors
    /// Returns the same errors as [`perf::open`].
    fn open(
        &self,
        request: &Request,
        target: Target,
        leader: Option<&perf::Event>,
    ) -> Result<perf::Event, OpenError>;
}

/// Opens events through the kernel.
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

/// Opens an event with the best combination of privilege modes that the kernel permits. Returns the
/// event and those modes.
///
/// Tries kernel and user mode together, then user mode alone if `may_leave_out_the_kernel` is set.
/// Each combination is tried first without the hypervisor, then with it: some processors (ARM1176)
/// cannot distinguish modes and refuse to exclude any.
///
/// # Errors
/// Returns the kernel's error for `request` itself if no combination is permitted.
pub(crate) fn open_best(
    request: &Request,
    may_leave_out_the_kernel: bool,
    open: impl Fn(&Request) -> Result<perf::Event, OpenError>,
) -> Result<(perf::Event, Request), OpenError> {
    let error = match open(request) {
        Ok(event) => return Ok((event, *request)),
        Err(error) => error,
    };
    let with_hypervisor = |request: Request| Request { exclude_hypervisor: false, ..request };
    let user = Request { exclude_kernel: true, ..*request };
    let others = [with_hypervisor(*request), user, with_hypervisor(user)];
    let others = match error.errno {
        errno::EINVAL | errno::EOPNOTSUPP => &others[..1],
        errno::EACCES | errno::EPERM if may_leave_out_the_kernel => &others[..],
        errno::EPERM => &others[..1],
        _ => &[],
    };
    let granted = others.iter().find_map(|other| Some((open(other).ok()?, *other)));
    granted.ok_or(error)
}
