// SPDX-License-Identifier: MIT OR Apache-2.0
//! Safe wrappers for the system calls that linerate makes.
//!
//! Functions that affect only the calling thread are documented as such. Any number of threads may
//! call any function at once. This crate changes no system setting permanently: the TAP interfaces
//! and XDP programs that it adds disappear when they are closed, and veth pairs disappear with
//! their namespaces. It wraps no standard library functions, except [`yield_now`].

#[cfg(not(target_os = "linux"))]
compile_error!("linerate-linux uses Linux system calls; build it for a *-linux-* target");

mod affinity;
mod calls;
mod capability;
pub mod child;
mod clock;
pub mod crash;
mod error;
pub mod heap;
pub mod illegal;
mod input;
pub mod library;
mod memory;
pub mod network;
mod output;
pub mod perf;
pub mod port;
mod private;
pub mod sample;
mod scheduler;
pub mod seqpacket;
pub mod signal;
pub mod socket;
pub mod speaking;
mod system;
pub mod terminal;
mod terminal_modes;
mod tracefs;
mod wait;

pub use affinity::{allow_current_thread, allowed_cpus, current_cpu, pin_current_thread};
pub use calls::{FirstArgument, RECEIVE_CALLS, system_call, system_call_name};
pub use capability::drop_network_rights;
pub use clock::{clock_tick_ms, monotonic_ns, thread_cpu_time_ns};
pub use error::Error;
pub use input::{
    is_named_pipe, is_without_reader, open_pipe_to_write_without_waiting, open_regular_file,
    open_to_read_without_waiting, wait_to_read,
};
pub use memory::{
    Mapping, MemoryLimits, advise_huge_pages, advise_small_pages, file_in_memory, memory_limits,
    page_bytes,
};
pub use output::{stdout_was_open, write_to_stdout};
pub use private::{end_with_parent, enter_network, enter_new_network, enter_private_network};
pub use scheduler::{
    Usage, involuntary_switches, run_delay_ns, run_only_when_idle, switches, thread_id,
    thread_usage, yield_now,
};
pub use system::{kernel_release, load_average, raise_open_files, search_path};
pub use tracefs::private_tracefs;
pub use wait::{Event, Ready, WaitSet, barrier_everywhere, prepare_barrier, use_precise_timers};

/// Error numbers, as in errno(3). Some differ between architectures.
pub mod errno {
    pub use libc::{
        E2BIG, EACCES, EBUSY, ECHILD, EHOSTUNREACH, EINVAL, EMFILE, ENETUNREACH, ENFILE, ENOBUFS,
        ENODEV, ENOENT, ENOSPC, ENOSYS, ENXIO, EOPNOTSUPP, EPERM, ESRCH,
    };

    pub use crate::error::{meaning, without_numbers};
}
