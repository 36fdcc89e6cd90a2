// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of system calls that wait or move packets.

/// Kind of the first argument of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstArgument {
    /// A file descriptor that the call waits on.
    Descriptor,
    /// The address of a futex.
    Futex,
    /// The address of an array of `struct pollfd`, whose length is the second argument.
    PollSet,
    /// An argument that does not show what the call waits for.
    Other,
}

macro_rules! table {
    ($($kind:ident: $($name:ident $call:ident),+;)+) => {
        &[$($((libc::$call as u64, stringify!($name), FirstArgument::$kind)),+),+]
    };
}

/// System calls present on all 64-bit architectures.
#[cfg(target_pointer_width = "64")]
const CALLS: &[(u64, &str, FirstArgument)] = table! {
    Descriptor:
        read SYS_read, write SYS_write, readv SYS_readv, writev SYS_writev,
        pread64 SYS_pread64, pwrite64 SYS_pwrite64, sendfile SYS_sendfile, splice SYS_splice,
        tee SYS_tee, vmsplice SYS_vmsplice, recvfrom SYS_recvfrom, recvmsg SYS_recvmsg,
        recvmmsg SYS_recvmmsg, sendto SYS_sendto, sendmsg SYS_sendmsg, sendmmsg SYS_sendmmsg,
        accept SYS_accept, accept4 SYS_accept4, connect SYS_connect, ioctl SYS_ioctl,
        fcntl SYS_fcntl, flock SYS_flock, fsync SYS_fsync, fdatasync SYS_fdatasync,
        close SYS_close, epoll_pwait SYS_epoll_pwait, io_uring_enter SYS_io_uring_enter;
    Futex: futex SYS_futex;
    PollSet: ppoll SYS_ppoll;
    Other:
        pselect6 SYS_pselect6, nanosleep SYS_nanosleep,
        clock_nanosleep SYS_clock_nanosleep, wait4 SYS_wait4, waitid SYS_waitid,
        io_getevents SYS_io_getevents, rt_sigsuspend SYS_rt_sigsuspend,
        rt_sigtimedwait SYS_rt_sigtimedwait, msgrcv SYS_msgrcv, msgsnd SYS_msgsnd,
        semtimedop SYS_semtimedop, mmap SYS_mmap, munmap SYS_munmap, madvise SYS_madvise,
        sched_yield SYS_sched_yield, openat SYS_openat, membarrier SYS_membarrier,
        clone SYS_clone, execve SYS_execve, restart_syscall SYS_restart_syscall;
};

/// Empty on 32-bit architectures, where the kernel function that a thread sleeps in shows what it
/// waits for.
#[cfg(not(target_pointer_width = "64"))]
const CALLS: &[(u64, &str, FirstArgument)] = &[];

/// System calls missing on newer architectures.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(u64, &str, FirstArgument)] = table! {
    Descriptor: epoll_wait SYS_epoll_wait;
    PollSet: poll SYS_poll;
    Other: select SYS_select, pause SYS_pause, vfork SYS_vfork, fork SYS_fork;
};

#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[(u64, &str, FirstArgument)] = &[];

/// Returns a system call's name on this architecture, and the kind of its first argument; `None`
/// for calls that neither wait for long nor move packets.
pub fn system_call(number: u64) -> Option<(&'static str, FirstArgument)> {
    let mut calls = CALLS.iter().chain(OLD_CALLS);
    calls.find(|(found, ..)| *found == number).map(|(_, name, first)| (*name, *first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_names_and_each_number_one() {
        let mut numbers: Vec<u64> = CALLS.iter().chain(OLD_CALLS).map(|call| call.0).collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
        assert_eq!(system_call(u64::MAX), None);
        if cfg!(target_pointer_width = "64") {
            let futex = system_call(libc::SYS_futex as u64);
            assert_eq!(futex, Some(("futex", FirstArgument::Futex)));
        }
    }
}
