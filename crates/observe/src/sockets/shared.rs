// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets that several processes have open. A prefork server's processes inherit the listening
//! socket of a parent that only supervises them.

use super::Sockets;
use linerate_record::why::{SleepTime, SocketCounts, SocketKind, ThreadActivity};

/// Difference in CPU demand, as a fraction of a CPU, above which the process that demands more is
/// taken to serve the socket. A parent that only supervises demands less.
const DEMAND: f64 = 0.01;

impl Sockets {
    /// Sets the process of each listening or UDP socket that several processes have open to the one
    /// that serves it.
    pub(crate) fn attribute_shared(
        &self,
        sockets: &mut [SocketCounts],
        threads: &[ThreadActivity],
    ) {
        let is_served = |kind| matches!(kind, SocketKind::TcpListen | SocketKind::Udp);
        for socket in sockets.iter_mut().filter(|socket| is_served(socket.kind)) {
            if let Some(sharers) = self.sharers.get(&socket.inode) {
                socket.pid = server(socket.pid, sharers, threads);
            }
        }
    }
}

/// Returns the process whose busiest thread demands the most CPU time. Among processes that demand
/// about as much as the `owner`, returns the one that idles least, or the owner if the others idle
/// about as much.
fn server(owner: u32, sharers: &[u32], threads: &[ThreadActivity]) -> u32 {
    let of = |pid: u32| threads.iter().filter(move |thread| thread.pid == pid);
    let demand = |pid| of(pid).map(ThreadActivity::demand).fold(0.0, f64::max);
    let busiest = sharers.iter().copied().fold(None, |best: Option<u32>, pid| match best {
        Some(best) if demand(best) >= demand(pid) => Some(best),
        _ => Some(pid),
    });
    let idles = |pid| {
        let least = of(pid).map(|thread| {
            let idle =
                thread.asleep_on.iter().filter(|one| SleepTime::INPUT.contains(&one.on.as_str()));
            idle.map(|sleep| sleep.share).sum::<f64>()
        });
        least.fold(1.0, f64::min)
    };
    match busiest {
        Some(pid) if demand(pid) >= demand(owner) + DEMAND => pid,
        Some(_) => {
            let near = |pid: &u32| demand(*pid) >= demand(owner) - DEMAND;
            let candidates = sharers.iter().copied().filter(near);
            candidates.fold(
                owner,
                |best, pid| {
                    if idles(pid) < idles(best) - IDLES { pid } else { best }
                },
            )
        }
        None => owner,
    }
}

/// Minimum difference in idle time, as a fraction of the window, for the process that idles less to
/// be preferred: twice the sampling error.
const IDLES: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::fixtures;
    use linerate_record::why::{SleepTime, ThreadState, ThreadTime};
    use linerate_record::{Figure, Tier};

    fn thread(pid: u32, demand: f64, on: &str) -> ThreadActivity {
        let thread = fixtures::why().observation.threads.remove(0);
        let share = Figure::exact("ratio", demand, Tier::Sw, "by hand");
        let asleep = SleepTime { on: on.to_owned(), share: 0.9, object: None, holder: None };
        ThreadActivity {
            pid,
            tid: pid,
            time: vec![ThreadTime { state: ThreadState::User, share }],
            asleep_on: vec![asleep],
            ..thread
        }
    }

    #[test]
    fn the_worker_serves_the_socket_that_its_parent_opened() {
        let parent = thread(1, 0.001, "epoll_wait");
        let of = |all: &[ThreadActivity]| server(1, &[2, 3], all);
        let busy = [parent.clone(), thread(2, 0.2, "epoll_wait"), thread(3, 0.9, "epoll_wait")];
        assert_eq!(of(&busy), 3);
        // Workers that sleep on a timer demand no more than the parent.
        let asleep = [
            parent.clone(),
            thread(2, 0.001, "clock_nanosleep"),
            thread(3, 0.0, "clock_nanosleep"),
        ];
        assert_eq!(of(&asleep), 2);
        // The parent accepts, and its children merely inherited the socket.
        let children = [thread(1, 0.5, "epoll_wait"), thread(2, 0.1, "clock_nanosleep")];
        assert_eq!(of(&children), 1);
        let idle = [parent, thread(2, 0.0, "accept4")];
        assert_eq!(of(&idle), 1);
    }
}
