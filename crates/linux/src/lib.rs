// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls linerate makes, each behind a safe function.
//!
//! Functions that concern only the calling thread are documented as such. Every function may be
//! called from any number of threads at once. Not included: anything that changes a system setting
//! (interfaces are created only in the process's own namespaces), and functions of the standard
//! library, except [`yield_now`].

#[cfg(not(target_os = "linux"))]
compile_error!("linerate-linux uses Linux system calls; build it for a *-linux-* target");

mod affinity;
mod calls;
pub mod child;
mod clock;
mod error;
pub mod heap;
pub mod illegal;
mod input;
mod memory;
pub mod network;
mod output;
pub mod perf;
mod private;
pub mod sample;
mod scheduler;
pub mod seqpacket;
pub mod signal;
mod system;
mod tracefs;

pub use affinity::{allow_current_thread, allowed_cpus, current_cpu, pin_current_thread};
pub use calls::{FirstArgument, system_call};
pub use clock::{monotonic_ns, thread_cpu_time_ns};
pub use error::Error;
pub use input::{
    is_without_reader, open_pipe_to_write_without_waiting, open_to_read_without_waiting,
    wait_to_read,
};
pub use memory::{
    Mapping, MemoryLimits, advise_huge_pages, advise_small_pages, file_in_memory, memory_limits,
    page_bytes,
};
pub use output::{stdout_was_open, write_to_stdout};
pub use private::{enter_new_network, enter_private_network};
pub use scheduler::{
    involuntary_switches, run_delay_ns, run_only_when_idle, switches, thread_id, yield_now,
};
pub use system::{kernel_release, load_average, raise_open_files, search_path};
pub use tracefs::private_tracefs;

/// Error numbers, as in errno(3); some differ between architectures.
pub mod errno {
    pub use libc::{
        E2BIG, EACCES, EBUSY, ECHILD, EINVAL, EMFILE, ENFILE, ENODEV, ENOENT, ENOSPC, ENOSYS,
        ENXIO, EOPNOTSUPP, EPERM, ESRCH,
    };
}
