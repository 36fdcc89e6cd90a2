// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other programs' UDP sockets in the program's network namespace.
//!
//! The kernel counts datagrams per namespace. All of them can be attributed to the program if the
//! processes that own the other sockets hardly ran, since every datagram costs CPU time.
//!
//! A process that receives many datagrams is woken often, or keeps reading while others wait in the
//! receive queue. If no datagram waits in any of many readings, the cost of a datagram that is
//! received alone is therefore used. Datagrams that arrive in short bursts cost less.
//!
//! Only root can see which processes own other users' sockets. For others, the time of all
//! processes whose descriptors are hidden counts, if all processes of the host can be seen, and no
//! tunnel of the kernel has sockets without a process.

use crate::descriptors::Open;
use crate::procfs::task::SchedStat;
use crate::target::{all_pids, stat_of};
use crate::tracing::HOST_PID_NAMESPACE;
use linerate_linux::network::InetSocket;
use linerate_machine::Root;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;

/// Lower bound on the CPU time to receive or send a datagram: a tenth of the measured time.
const DATAGRAM_NS: u64 = 100;
/// Datagrams of other processes are neglected if they are at most one in `FEW` of all datagrams in
/// the namespace.
const FEW: u64 = 100;
/// Measured CPU time to receive a datagram that does not arrive together with others, excluding the
/// wakeup.
const ALONE_NS: u64 = 1000;
/// Like [`FEW`], for datagrams that are received alone.
const FEW_ALONE: u64 = 10;
/// Minimum number of readings of the receive queues. A process that has datagrams waiting during
/// 5 % of the time escapes 100 readings with a probability of 0.6 %.
const READINGS: u64 = 100;
/// Maximum number of processes with hidden descriptors.
const STRANGERS_MAX: usize = 1000;

/// Maximum number of sockets that may still turn out to belong to the program.
const UNSURE_MAX: usize = 4096;

/// Other programs' UDP sockets, and the processes that own them.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    inodes: BTreeSet<u64>,
    /// The processes that own sockets, by process ID.
    owners: BTreeMap<u32, Owner>,
    /// Sockets whose processes are not known.
    unknown: BTreeSet<u64>,
    /// Processes whose descriptors are hidden, and their CPU time at the start of the window in ns;
    /// `None` if unreadable. Empty if the processes of all sockets are known.
    strangers: BTreeMap<u32, Option<u64>>,
    /// Number of readings of the receive queues in the window.
    readings: u64,
    /// Number of these in which a datagram was waiting.
    waiting: u64,
    /// Whether there were too many descriptors to find all owners.
    is_partial: bool,
    /// Sockets that may still turn out to belong to the program, with the number of searches of the
    /// program's descriptors before they were first listed.
    unsure: BTreeMap<u64, u32>,
    /// Local addresses of unconnected sockets.
    places: BTreeMap<u64, SocketAddr>,
    /// Number of unsure sockets that turned out to be the program's.
    claimed: u64,
    is_begun: bool,
    /// All sockets in the last two complete lists, the last one first.
    lists: [BTreeSet<u64>; 2],
    /// Whether there are unsure sockets from an earlier window, and no list has been read in this
    /// window.
    needs_list: bool,
}

/// A process that owns UDP sockets.
#[derive(Debug)]
struct Owner {
    sockets: BTreeSet<u64>,
    /// CPU time at the start of the window in ns; `None` if unreadable.
    ran_ns: Option<u64>,
}

impl Neighbours {
    /// Adds a listed UDP socket that does not belong to the program as far as is known after
    /// `walks` searches of the program's descriptors. The program may have opened it since. `place`
    /// is its local address; `None` if it is connected.
    pub(super) fn take(&mut self, inode: u64, walks: u32, place: Option<SocketAddr>) {
        if let Some(place) = place {
            self.places.insert(inode, place);
        }
        if !self.is_begun {
            self.inodes.insert(inode);
        }
        if self.inodes.contains(&inode) {
            return;
        }
        let is_room = self.unsure.len() < UNSURE_MAX;
        match self.unsure.get(&inode) {
            // It was open during a search that did not find it.
            Some(before) if *before < walks => {
                self.unsure.remove(&inode);
                self.inodes.insert(inode);
                self.unknown.insert(inode);
            }
            None if is_room => {
                self.unsure.insert(inode, walks);
            }
            _ => {}
        }
    }

    /// Returns the number of unconnected sockets that may get the datagrams to `own`: those with
    /// its port and address or, if `own` is bound to all addresses, with its port.
    pub(super) fn sharers(&self, own: SocketAddr) -> u32 {
        let shares = |(inode, other): &(&u64, &SocketAddr)| {
            self.inodes.contains(inode)
                && own.port() == other.port()
                && own.is_ipv4() == other.is_ipv4()
                && (own.ip().is_unspecified() || own.ip() == other.ip())
        };
        self.places.iter().filter(shares).count() as u32
    }

    /// Removes a socket that belongs to the program.
    pub(super) fn leave_out(&mut self, inode: u64) {
        self.claimed += u64::from(self.unsure.remove(&inode).is_some());
        self.unknown.remove(&inode);
        if self.inodes.remove(&inode) {
            self.owners.values_mut().for_each(|owner| {
                owner.sockets.remove(&inode);
            });
            self.owners.retain(|_, owner| !owner.sockets.is_empty());
        }
    }

    /// Looks up the sockets' processes and their CPU time, reading up to `most` descriptors.
    pub(super) fn begin(&mut self, root: &Root, most: usize) {
        if self.is_begun {
            return;
        }
        self.is_begun = true;
        if self.inodes.is_empty() {
            return;
        }
        self.unknown = self.inodes.clone();
        let mut read = 0;
        for pid in all_pids(root) {
            if read > most {
                break;
            }
            let open = Open::of(root, pid);
            let is_program = || stat_of(root, pid).is_some_and(|it| !it.is_kernel_thread);
            if open.is_hidden() && self.strangers.len() < STRANGERS_MAX && is_program() {
                self.strangers.insert(pid, ran_ns(root, pid));
            }
            read += open.sockets.len();
            let sockets: BTreeSet<u64> =
                open.sockets.into_iter().filter(|inode| self.inodes.contains(inode)).collect();
            self.unknown.retain(|inode| !sockets.contains(inode));
            if !sockets.is_empty() {
                self.owners.insert(pid, Owner { sockets, ran_ns: ran_ns(root, pid) });
            }
        }
        self.is_partial = read > most;
        if self.unknown.is_empty() || !sees_all(root) || has_tunnels(root) {
            self.strangers.clear();
        }
    }

    /// Returns whether there are other programs' sockets, whose receive queues are worth reading.
    pub(super) fn has_any(&self) -> bool {
        !self.inodes.is_empty()
    }

    /// Adds a reading of the receive queues of all UDP sockets in the namespace.
    pub(super) fn note_queues(&mut self, sockets: &[InetSocket]) {
        let mut others = sockets.iter().filter(|one| self.inodes.contains(&u64::from(one.inode)));
        self.readings += 1;
        self.waiting += u64::from(others.any(|one| one.receive_queue > 0));
    }

    /// Records a complete list of the UDP sockets in the namespace.
    pub(super) fn note_list(&mut self, inodes: BTreeSet<u64>) {
        self.lists = [inodes, std::mem::take(&mut self.lists[0])];
        self.needs_list = false;
    }

    /// Returns whether a list would show that unsure sockets have been closed.
    pub(super) fn needs_list(&self) -> bool {
        self.needs_list
    }

    /// Begins the next window. Forgets closed sockets, which are missing from two consecutive
    /// lists: the kernel may leave an open socket out of one list, but hardly ever out of both.
    pub(super) fn begin_window(&mut self, root: &Root) {
        let Self { lists, .. } = self;
        if lists.iter().all(|list| !list.is_empty()) {
            let is_open = |inode: &u64| lists.iter().any(|list| list.contains(inode));
            self.inodes.retain(is_open);
            self.places.retain(|inode, _| is_open(inode));
            self.unknown.retain(is_open);
            self.unsure.retain(|inode, _| is_open(inode));
            self.owners.values_mut().for_each(|owner| owner.sockets.retain(is_open));
            self.owners.retain(|_, owner| !owner.sockets.is_empty());
        }
        self.needs_list = !self.unsure.is_empty();
        for (&pid, owner) in &mut self.owners {
            owner.ran_ns = ran_ns(root, pid);
        }
        for (&pid, ran) in &mut self.strangers {
            *ran = ran_ns(root, pid);
        }
        (self.readings, self.waiting) = (0, 0);
    }

    /// Returns whether nearly all of the `datagrams` that the namespace counted in the window
    /// belong to the program.
    pub(crate) fn are_idle(&self, root: &Root, datagrams: u64) -> bool {
        // Sockets that were closed before the next search are taken for the program's only if the
        // searches found that it opens such sockets, and found none of other programs.
        if !self.unsure.is_empty() && self.claimed == 0 {
            return false;
        }
        let owners = self.owners.iter().map(|(&pid, owner)| (pid, owner.ran_ns));
        let strangers = self.strangers.iter().map(|(&pid, &ran_ns)| (pid, ran_ns));
        // Processes that have ended may have received datagrams before.
        let ran = owners
            .chain(strangers)
            .map(|(pid, before)| ran_ns(root, pid)?.checked_sub(before?))
            .sum::<Option<u64>>();
        let stay_empty = self.readings >= READINGS && self.waiting == 0;
        let is_little = |ran: u64| {
            ran / DATAGRAM_NS <= datagrams / FEW
                || (stay_empty && ran / ALONE_NS <= datagrams / FEW_ALONE)
        };
        let are_strangers_known = (1..STRANGERS_MAX).contains(&self.strangers.len());
        let is_known = self.is_begun
            && !self.is_partial
            && (self.unknown.is_empty() || (are_strangers_known && stay_empty));
        self.inodes.is_empty() || (is_known && ran.is_some_and(is_little))
    }
}

/// Returns whether /proc lists all processes of the host: this is its PID namespace, and other
/// users' processes are not left out (hidepid).
fn sees_all(root: &Root) -> bool {
    let namespace = std::fs::read_link(root.path("proc/self/ns/pid"));
    namespace.is_ok_and(|link| link == Path::new(HOST_PID_NAMESPACE))
        && root.text("proc/1/stat").is_some()
}

/// Returns whether there are interfaces whose driver receives UDP datagrams itself: tunnels.
fn has_tunnels(root: &Root) -> bool {
    const KINDS: [&str; 6] = ["wireguard", "vxlan", "geneve", "bareudp", "gtp", "l2tpeth"];
    root.names("sys/class/net").iter().any(|name| {
        let text = root.text(&format!("sys/class/net/{name}/uevent")).unwrap_or_default();
        let kind = text.lines().find_map(|line| line.strip_prefix("DEVTYPE="));
        kind.is_some_and(|kind| KINDS.contains(&kind))
    })
}

/// Returns the CPU time of all threads of a process, in ns.
fn ran_ns(root: &Root, pid: u32) -> Option<u64> {
    let threads = root.names(&format!("proc/{pid}/task"));
    let of_thread = |tid: &String| {
        let text = root.text(&format!("proc/{pid}/task/{tid}/schedstat"))?;
        Some(SchedStat::parse(&text)?.run_ns)
    };
    (!threads.is_empty()).then(|| threads.iter().map(of_thread).sum::<Option<u64>>())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::net::parse_sockets;
    use linerate_linux::network::InetProtocol;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// Returns a root in which process 7 has socket 5 open.
    fn root() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc/7/fd")).unwrap();
        fs::create_dir_all(folder.path().join("proc/7/task/7")).unwrap();
        symlink("socket:[5]", folder.path().join("proc/7/fd/3")).unwrap();
        let root = Root::new(folder.path());
        run(folder.path(), 1000);
        (folder, root)
    }

    fn run(folder: &Path, ran_ns: u64) {
        fs::write(folder.join("proc/7/task/7/schedstat"), format!("{ran_ns} 0 1\n")).unwrap();
    }

    #[test]
    fn sockets_of_the_same_port_and_address_share_it() {
        let mut neighbours = Neighbours::default();
        let place = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (inode, at) in [(1, "0.0.0.0:53"), (2, "10.0.0.1:53"), (3, "10.0.0.2:53")] {
            neighbours.take(inode, 1, Some(place(at)));
        }
        neighbours.take(4, 1, Some(place("[::]:53")));
        neighbours.take(5, 1, Some(place("0.0.0.0:54")));
        let sharers = |at: &str| neighbours.sharers(place(at));
        assert_eq!(
            ["0.0.0.0:53", "10.0.0.1:53", "[::1]:53", "0.0.0.0:55"].map(sharers),
            [3, 1, 0, 0]
        );
        neighbours.leave_out(1);
        assert_eq!(neighbours.sharers(place("0.0.0.0:53")), 2);
    }

    #[test]
    fn a_neighbour_is_idle_as_long_as_it_does_not_run() {
        let (folder, root) = root();
        let mut neighbours = Neighbours::default();
        assert!(neighbours.are_idle(&root, 0), "without neighbours");
        neighbours.take(5, 1, None);
        assert!(!neighbours.are_idle(&root, 1_000_000), "not looked up yet");
        neighbours.begin(&root, 100);
        assert!(neighbours.are_idle(&root, 0));
        // 50 us are enough for 500 datagrams, which matter among 10,000 but not among 100,000.
        run(folder.path(), 51_000);
        assert!(!neighbours.are_idle(&root, 10_000) && neighbours.are_idle(&root, 100_000));
        neighbours.begin_window(&root);
        assert!(neighbours.are_idle(&root, 0));
        neighbours.take(6, 1, None);
        assert!(!neighbours.are_idle(&root, 1_000_000), "a socket opened since");
    }

    /// Returns a socket with `bytes` in its receive queue.
    fn queued(inode: u32, bytes: u32) -> InetSocket {
        let line = format!(
            "  sl\n 1: 0100007F:0035 00000000:0000 07 00000000:{bytes:08X} 00:00000000 00000000 0 \
             0 {inode} 2 0 0\n"
        );
        let (listed, _) = parse_sockets(&line, InetProtocol::Udp)[0];
        InetSocket::of_listed(listed)
    }

    #[test]
    fn empty_queues_allow_for_a_neighbour_that_runs_for_something_else() {
        let (folder, root) = root();
        let mut neighbours = Neighbours::default();
        neighbours.take(5, 1, None);
        neighbours.begin(&root, 100);
        // 1 ms is enough for 1000 datagrams that are received alone.
        run(folder.path(), 1000 + 1_000_000);
        assert!(!neighbours.are_idle(&root, 100_000), "not read");
        (0..READINGS).for_each(|_| neighbours.note_queues(&[queued(5, 0), queued(6, 99)]));
        assert!(neighbours.are_idle(&root, 10_000));
        assert!(!neighbours.are_idle(&root, 9_000), "more than a tenth");
        neighbours.note_queues(&[queued(5, 1)]);
        assert!(!neighbours.are_idle(&root, 100_000), "a datagram waited");
        neighbours.begin_window(&root);
        assert_eq!((neighbours.readings, neighbours.waiting), (0, 0));
    }

    #[test]
    fn the_time_of_all_hidden_processes_bounds_the_datagrams_of_sockets_without_known_owner() {
        let (folder, root) = root();
        let stat = |flags: u32| format!("8 (daemon) S 1 8 8 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0");
        for (pid, flags) in [(8, 0), (9, 0x0020_0000)] {
            let task = folder.path().join(format!("proc/{pid}/task/{pid}"));
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("schedstat"), "500 0 1\n").unwrap();
            let stat = stat(flags) + &" 0".repeat(40);
            fs::write(folder.path().join(format!("proc/{pid}/stat")), stat).unwrap();
        }
        let begun = || {
            let mut neighbours = Neighbours::default();
            neighbours.take(77, 1, None);
            neighbours.begin(&root, 100);
            neighbours
        };
        assert!(begun().strangers.is_empty(), "in another PID namespace");
        fs::create_dir_all(folder.path().join("proc/self/ns")).unwrap();
        symlink(HOST_PID_NAMESPACE, folder.path().join("proc/self/ns/pid")).unwrap();
        assert!(begun().strangers.is_empty(), "hidepid");
        fs::create_dir_all(folder.path().join("proc/1")).unwrap();
        fs::write(folder.path().join("proc/1/stat"), stat(0x0020_0000) + &" 0".repeat(40)).unwrap();
        let device = folder.path().join("sys/class/net/wg0");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("uevent"), "DEVTYPE=wireguard\nINTERFACE=wg0\n").unwrap();
        assert!(begun().strangers.is_empty(), "the kernel receives");
        fs::write(device.join("uevent"), "INTERFACE=wg0\n").unwrap();
        let mut neighbours = begun();
        assert_eq!(neighbours.strangers.keys().collect::<Vec<_>>(), [&8], "not kernel threads");
        assert!(!neighbours.are_idle(&root, 100_000), "not read");
        (0..READINGS).for_each(|_| neighbours.note_queues(&[queued(77, 0)]));
        assert!(neighbours.are_idle(&root, 100_000));
        let schedstat = folder.path().join("proc/8/task/8/schedstat");
        fs::write(schedstat, "20000500 0 1\n").unwrap();
        assert!(!neighbours.are_idle(&root, 100_000), "20 ms are enough for 20,000 datagrams");
    }

    #[test]
    fn a_neighbour_that_is_not_visible_or_has_ended_is_not_idle() {
        let (folder, root) = root();
        let begun = |inode, most| {
            let mut neighbours = Neighbours::default();
            neighbours.take(inode, 1, None);
            neighbours.begin(&root, most);
            neighbours
        };
        assert!(!begun(9, 100).are_idle(&root, 1_000_000), "held by no visible process");
        assert!(!begun(5, 0).are_idle(&root, 1_000_000), "too many descriptors");
        let ended = begun(5, 100);
        fs::remove_dir_all(folder.path().join("proc/7")).unwrap();
        assert!(!ended.are_idle(&root, 1_000_000));
    }

    #[test]
    fn sockets_that_the_program_opens_for_an_exchange_are_no_neighbours() {
        let (_folder, root) = root();
        let mut neighbours = Neighbours::default();
        neighbours.begin(&root, 100);
        // Listed before the search that finds it.
        neighbours.take(8, 1, None);
        assert!(!neighbours.are_idle(&root, 0), "it may be another program's");
        neighbours.leave_out(8);
        assert!(neighbours.are_idle(&root, 0));
        // Closed before the next search.
        neighbours.take(9, 2, None);
        assert!(neighbours.are_idle(&root, 0));
        // Not found by a search.
        neighbours.take(10, 2, None);
        neighbours.take(10, 2, None);
        assert!(neighbours.are_idle(&root, 0));
        neighbours.take(10, 3, None);
        assert!(!neighbours.are_idle(&root, 1_000_000));
    }

    #[test]
    fn sockets_that_were_closed_are_forgotten() {
        let (folder, root) = root();
        let mut neighbours = Neighbours::default();
        neighbours.take(5, 1, None);
        neighbours.begin(&root, 100);
        // Another program's socket for one exchange.
        neighbours.take(6, 1, None);
        neighbours.note_list(BTreeSet::from([5, 6]));
        assert!(!neighbours.needs_list());
        neighbours.begin_window(&root);
        assert!(neighbours.needs_list() && !neighbours.are_idle(&root, 1_000_000));
        neighbours.note_list(BTreeSet::from([5]));
        neighbours.begin_window(&root);
        assert!(!neighbours.are_idle(&root, 1_000_000), "the list may have left it out");
        neighbours.note_list(BTreeSet::from([5]));
        neighbours.begin_window(&root);
        assert!(!neighbours.needs_list() && neighbours.are_idle(&root, 0));
        // The program's own socket remains, and its neighbour has ended.
        fs::remove_dir_all(folder.path().join("proc/7")).unwrap();
        assert!(!neighbours.are_idle(&root, 1_000_000));
        neighbours.note_list(BTreeSet::from([8]));
        neighbours.note_list(BTreeSet::from([8]));
        neighbours.begin_window(&root);
        assert!(neighbours.are_idle(&root, 0));
    }

    #[test]
    fn the_program_is_not_its_own_neighbour() {
        let (folder, root) = root();
        let mut neighbours = Neighbours::default();
        // The program opened it after its descriptors were searched.
        neighbours.take(5, 1, None);
        neighbours.begin(&root, 100);
        run(folder.path(), 1_000_000);
        assert!(!neighbours.are_idle(&root, 0));
        neighbours.leave_out(5);
        assert!(neighbours.are_idle(&root, 0));
    }
}
