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
    /// Any other argument, which does not show what the call waits for.
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
        close SYS_close, epoll_pwait SYS_epoll_pwait, epoll_pwait2 SYS_epoll_pwait2,
        io_uring_enter SYS_io_uring_enter, preadv SYS_preadv, preadv2 SYS_preadv2,
        pwritev SYS_pwritev, pwritev2 SYS_pwritev2, syncfs SYS_syncfs;
    Futex: futex SYS_futex;
    PollSet: ppoll SYS_ppoll;
    Other:
        pselect6 SYS_pselect6, nanosleep SYS_nanosleep,
        clock_nanosleep SYS_clock_nanosleep, wait4 SYS_wait4, waitid SYS_waitid,
        io_getevents SYS_io_getevents, rt_sigsuspend SYS_rt_sigsuspend,
        rt_sigtimedwait SYS_rt_sigtimedwait, msgrcv SYS_msgrcv, msgsnd SYS_msgsnd,
        semtimedop SYS_semtimedop, mmap SYS_mmap, munmap SYS_munmap, madvise SYS_madvise,
        sched_yield SYS_sched_yield, openat SYS_openat, membarrier SYS_membarrier,
        clone SYS_clone, clone3 SYS_clone3, execve SYS_execve,
        restart_syscall SYS_restart_syscall, futex_waitv SYS_futex_waitv, msync SYS_msync,
        sync SYS_sync;
};

/// Further system calls that a program may make for each packet, although processing packets does
/// not require them.
#[cfg(target_pointer_width = "64")]
const OTHER_CALLS: &[(u64, &str, FirstArgument)] = table! {
    Other:
        rt_sigreturn SYS_rt_sigreturn, rt_sigprocmask SYS_rt_sigprocmask,
        rt_sigaction SYS_rt_sigaction, tgkill SYS_tgkill, kill SYS_kill,
        timer_settime SYS_timer_settime, timerfd_settime SYS_timerfd_settime,
        setitimer SYS_setitimer, lseek SYS_lseek, statx SYS_statx,
        readlinkat SYS_readlinkat, faccessat SYS_faccessat, getdents64 SYS_getdents64,
        openat2 SYS_openat2, getrandom SYS_getrandom, clock_gettime SYS_clock_gettime,
        gettimeofday SYS_gettimeofday, mprotect SYS_mprotect, brk SYS_brk, mremap SYS_mremap,
        socket SYS_socket, bind SYS_bind, listen SYS_listen, shutdown SYS_shutdown,
        getsockname SYS_getsockname, getpeername SYS_getpeername,
        getsockopt SYS_getsockopt, setsockopt SYS_setsockopt, epoll_ctl SYS_epoll_ctl,
        getpid SYS_getpid, getppid SYS_getppid, gettid SYS_gettid, getuid SYS_getuid,
        geteuid SYS_geteuid, getcpu SYS_getcpu, getrusage SYS_getrusage, times SYS_times,
        sched_getaffinity SYS_sched_getaffinity, sched_setaffinity SYS_sched_setaffinity,
        exit SYS_exit, exit_group SYS_exit_group, pipe2 SYS_pipe2, dup SYS_dup,
        eventfd2 SYS_eventfd2, set_robust_list SYS_set_robust_list, rseq SYS_rseq;
};

/// Like [`OTHER_CALLS`]: system calls that exist on x86-64, but not on all architectures.
#[cfg(target_arch = "x86_64")]
const OLD_OTHER_CALLS: &[(u64, &str, FirstArgument)] = table! {
    Other:
        open SYS_open, stat SYS_stat, fstat SYS_fstat, newfstatat SYS_newfstatat,
        lstat SYS_lstat, access SYS_access,
        readlink SYS_readlink, creat SYS_creat, time SYS_time,
        alarm SYS_alarm, arch_prctl SYS_arch_prctl;
};

#[cfg(not(target_pointer_width = "64"))]
const OTHER_CALLS: &[(u64, &str, FirstArgument)] = &[];

#[cfg(not(target_arch = "x86_64"))]
const OLD_OTHER_CALLS: &[(u64, &str, FirstArgument)] = &[];

/// Empty on 32-bit architectures. There, the name of the kernel function in which a thread sleeps
/// shows what the thread waits for.
#[cfg(not(target_pointer_width = "64"))]
const CALLS: &[(u64, &str, FirstArgument)] = &[];

/// System calls that exist on x86-64 but not on newer architectures.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(u64, &str, FirstArgument)] = table! {
    Descriptor: epoll_wait SYS_epoll_wait;
    PollSet: poll SYS_poll;
    Other: select SYS_select, pause SYS_pause, vfork SYS_vfork, fork SYS_fork;
};

#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[(u64, &str, FirstArgument)] = &[];

/// System call number of io_pgetevents, which libc does not define for every C library (source:
/// arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of Linux); `None`
/// on architectures with a system call table of their own.
const IO_PGETEVENTS: Option<u64> = if cfg!(target_arch = "x86_64") {
    Some(333)
} else if cfg!(any(target_arch = "aarch64", target_arch = "riscv64")) {
    Some(292)
} else {
    None
};

/// System calls that receive one datagram each if they succeed: recvfrom and recvmsg. Empty on
/// 32-bit architectures, where receiving may be a part of socketcall.
#[cfg(target_pointer_width = "64")]
pub const RECEIVE_CALLS: &[i64] = &[libc::SYS_recvfrom, libc::SYS_recvmsg];
#[cfg(not(target_pointer_width = "64"))]
pub const RECEIVE_CALLS: &[i64] = &[];

/// Returns a system call's name on this architecture, and the kind of its first argument; `None`
/// for calls that neither wait for long nor move packets.
pub fn system_call(number: u64) -> Option<(&'static str, FirstArgument)> {
    if IO_PGETEVENTS == Some(number) {
        return Some(("io_pgetevents", FirstArgument::Other));
    }
    let mut calls = CALLS.iter().chain(OLD_CALLS);
    calls.find(|(found, ..)| *found == number).map(|(_, name, first)| (*name, *first))
}

/// Returns the name of a system call on this architecture, including calls that neither wait for
/// long nor move packets; `None` for rare ones.
pub fn system_call_name(number: u64) -> Option<&'static str> {
    let others = || OTHER_CALLS.iter().chain(OLD_OTHER_CALLS);
    let other = || others().find(|(found, ..)| *found == number).map(|(_, name, _)| *name);
    system_call(number).map(|(name, _)| name).or_else(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_names_and_each_number_one() {
        let others = OTHER_CALLS.iter().chain(OLD_OTHER_CALLS);
        let all = CALLS.iter().chain(OLD_CALLS).chain(others);
        let mut numbers: Vec<u64> = all.map(|call| call.0).collect();
        numbers.extend(IO_PGETEVENTS);
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

    #[test]
    fn calls_that_do_not_wait_have_names_but_are_no_place_to_sleep_in() {
        if cfg!(target_pointer_width = "64") {
            let number = libc::SYS_rt_sigreturn as u64;
            assert_eq!(system_call_name(number), Some("rt_sigreturn"));
            assert_eq!(system_call(number), None);
            assert_eq!(system_call_name(libc::SYS_futex as u64), Some("futex"));
        }
    }

    /// System call numbers from 403 on are the same on all architectures except Alpha. The number
    /// of io_pgetevents differs between architectures.
    #[test]
    fn newer_calls_that_wait_have_names() {
        if cfg!(not(target_pointer_width = "64")) {
            return;
        }
        let name = |number: u64| system_call(number).map(|(name, _)| name);
        assert_eq!(system_call(441), Some(("epoll_pwait2", FirstArgument::Descriptor)));
        assert_eq!((name(435), name(449)), (Some("clone3"), Some("futex_waitv")));
        if let Some(number) = IO_PGETEVENTS {
            assert_eq!(name(number), Some("io_pgetevents"));
        }
    }
}
