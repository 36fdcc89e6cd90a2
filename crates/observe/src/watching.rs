// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes readings at the start of the window and at the end of each slice.

use crate::ObserveError;
use crate::adapters::{self, Program};
use crate::arrivals::Arrivals;
use crate::budget::Accounting;
use crate::command::Running;
use crate::cpus::Cpus;
use crate::ended::Ended;
use crate::event_costs::event_costs;
use crate::interfaces::{Interfaces, Transport, links, through};
use crate::kernel_config;
use crate::namespace::{Namespace, OTHER_NAMESPACES, representative};
use crate::packets::Counts;
use crate::ports::Ports;
use crate::procfs::task::{STATUS_UNKNOWN, describe_status};
use crate::profiling::Profiling;
use crate::quotas::Quotas;
use crate::resident::Resident;
use crate::sleep::Sleepers;
use crate::sockets::{Moment, Sockets};
use crate::target::{Family, stat_of};
use crate::threads::Threads;
use crate::written::Written;
use linerate_linux::monotonic_ns;
use linerate_linux::network::Link;
use linerate_machine::Root;
use linerate_record::why::{EventCosts, LocalPorts, SocketKind, Unread};
use std::collections::BTreeSet;
use std::fs::File;

/// Number of slices between searches for new sockets. A search reads the kernel's entire socket
/// table. Connections that last for less than a slice are only read by these searches. [`Sockets`]
/// limits the CPU time that searches take.
const SOCKETS_EVERY: u32 = 3;

/// Number of slices between searches for the program's statistics socket.
const PROGRAM_EVERY: u32 = 10;

/// Number of slices between searches for new processes. A search lists all processes on the system.
const FAMILY_EVERY: u32 = 5;

/// Number of slices between readings of all interfaces. Only the last of these readings is used.
const LINKS_EVERY: u32 = 10;

/// Everything that is observed, and the readings so far.
pub(crate) struct Watching {
    pub(crate) name: String,
    pub(crate) interface: Option<String>,
    pub(crate) family: Family,
    pub(crate) namespace: Namespace,
    pub(crate) threads: Threads,
    pub(crate) sleepers: Sleepers,
    /// Samples and traces of the threads; `None` until the threads are known.
    pub(crate) profiling: Option<Profiling>,
    pub(crate) cpus: Cpus,
    pub(crate) quotas: Quotas,
    pub(crate) sockets: Sockets,
    pub(crate) interfaces: Interfaces,
    pub(crate) ports: Ports,
    /// Last readings of the interfaces.
    pub(crate) links: Vec<Link>,
    pub(crate) arrivals: Arrivals,
    transport: Transport,
    /// Interfaces to which packet sockets were bound when packets were last counted.
    bound: BTreeSet<u32>,
    /// Packet counts at the start and at the end of each slice.
    pub(crate) counts: Vec<Counts>,
    /// Length of each slice, in seconds.
    pub(crate) wall_s: Vec<f64>,
    pub(crate) ended: Option<String>,
    /// The program's own counters, if it exports any.
    pub(crate) program: Option<Program>,
    pub(crate) unread: Vec<Unread>,
    /// Time that the kernel excludes from run times.
    pub(crate) accounting: Accounting,
    pub(crate) windows: Windows,
    /// Cost of kernel events; `None` for consecutive windows ([`Windows::Many`]).
    pub(crate) event_costs: Option<EventCosts>,
    /// CPU time of threads and processes that ended within the window.
    pub(crate) ended_cpus: Ended,
    /// Memory of the processes at the start of the window.
    pub(crate) resident: Resident,
    /// Files to which the processes write.
    pub(crate) written: Written,
    /// Number of slices read since the start.
    reads: u32,
    /// Start of the window.
    began_ns: u64,
    last_ns: u64,
    was_refused: bool,
}

/// Number of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Windows {
    /// A single window, in which everything is read.
    One,
    /// Consecutive windows, in which only cheap readings are taken.
    Many,
}

impl Watching {
    pub(crate) fn start(
        root: &Root,
        pids: &[u32],
        name: String,
        interface: Option<String>,
        windows: Windows,
    ) -> Result<Self, ObserveError> {
        let mut unread = Vec::new();
        let family = Family::new(root, pids);
        let namespace = Namespace::of(root, representative(root, &family.pids), &mut unread);
        if let Some(wanted) = &interface {
            let known: Vec<String> =
                links(root, &namespace).into_iter().map(|link| link.name).collect();
            if !known.contains(wanted) {
                return Err(ObserveError::NoSuchInterface { name: wanted.clone(), known });
            }
        }
        let mut quotas = Quotas::default();
        for &pid in &family.pids {
            quotas.add(root, pid);
        }
        let mut sockets = Sockets::new(interface.is_some(), namespace.network.as_ref());
        sockets.look(root, &namespace, &family.pids, Moment::Start);
        let event_costs = (windows == Windows::One).then(event_costs);
        let transport = Transport::open(root, &namespace);
        let mut watching = Self {
            name: if let Some(interface) = &interface { interface.clone() } else { name },
            threads: Threads::default(),
            sleepers: Sleepers::default(),
            profiling: None,
            cpus: Cpus::start(root, &family.softirq_threads, windows == Windows::One),
            quotas,
            sockets,
            interfaces: Interfaces::default(),
            ports: Ports::open(root, &namespace),
            links: Vec::new(),
            arrivals: Arrivals::default(),
            transport,
            bound: BTreeSet::new(),
            interface,
            family,
            namespace,
            counts: Vec::new(),
            wall_s: Vec::new(),
            ended: None,
            unread,
            program: None,
            accounting: Accounting::of(kernel_config::read(root).as_deref()),
            windows,
            event_costs,
            ended_cpus: Ended::default(),
            resident: Resident::default(),
            written: Written::none(),
            reads: 0,
            began_ns: 0,
            last_ns: 0,
            was_refused: false,
        };
        let pids = watching.family.pids.clone();
        watching.threads.look(root, &pids, 0, monotonic_ns());
        watching.profiling = Some(match windows {
            Windows::One => {
                let is_receiver = watching.sockets.may_need_calls();
                Profiling::start(root, &watching.threads, is_receiver)
            }
            Windows::Many => Profiling::start_live(root, &watching.threads),
        });
        watching.find_program(root);
        watching.sockets.find_descriptors(root, &pids);
        watching.begin(root);
        // Counts of the program and its interfaces are compared, so read them at the same moment.
        let wanted = watching.interface.clone();
        watching.interfaces = Interfaces::start(root, &watching.namespace, wanted.as_deref());
        watching.sockets.restart(root, &watching.namespace);
        let counts = watching.count(root);
        watching.counts.push(counts);
        Ok(watching)
    }

    /// Begins the window. Counters that are divided by the window's length or compared with each
    /// other start at the same moment, because the preparations (finding sockets, timing the
    /// kernel, opening events) may take as long as a short window.
    fn begin(&mut self, root: &Root) {
        self.began_ns = monotonic_ns();
        self.last_ns = self.began_ns;
        self.threads.begin(root, self.began_ns);
        self.family.begin(root);
        self.quotas.begin(root);
        self.resident = Resident::start(root, &self.family.pids);
        if self.windows == Windows::One {
            self.written = Written::start(root, &self.family.pids);
        }
        let has_interrupts = self.windows == Windows::One;
        self.cpus = Cpus::start(root, &self.family.softirq_threads, has_interrupts);
        self.cpus.follow(root, self.threads.cpus());
        self.profiling.iter_mut().for_each(Profiling::begin_traces);
    }

    /// Takes the readings at the end of a slice of the window.
    pub(crate) fn read(&mut self, root: &Root, slice: u32) {
        let reads = self.reads;
        self.reads += 1;
        let now_ns = monotonic_ns();
        let wall_ns = now_ns - self.last_ns;
        self.last_ns = now_ns;
        self.wall_s.push(wall_ns as f64 / 1e9);
        self.threads.read(root, slice, now_ns);
        self.cpus.read(wall_ns);
        self.cpus.follow(root, self.threads.cpus());
        self.quotas.read(root, slice);
        if reads == 0 {
            self.threads.choose(root, slice, now_ns);
        }
        if reads.is_multiple_of(FAMILY_EVERY) {
            for pid in self.family.look(root) {
                self.quotas.add(root, pid);
            }
        }
        self.threads.look(root, &self.family.pids, reads, now_ns);
        self.sockets.read(root, &self.namespace);
        if reads % SOCKETS_EVERY == SOCKETS_EVERY / 2 {
            self.sockets.look(root, &self.namespace, &self.family.pids, Moment::Within);
        }
        if reads % PROGRAM_EVERY == PROGRAM_EVERY / 2 {
            if self.windows == Windows::One {
                self.written.add(root, &self.family.pids);
            }
            self.find_program(root);
            self.note_other_namespaces(root);
        }
        // Separating work from polling requires packet counts and samples from the same moment.
        let counted_ns = monotonic_ns();
        let counts = self.count(root);
        self.counts.push(counts);
        if slice.is_multiple_of(LINKS_EVERY) {
            self.links = links(root, &self.namespace);
        }
        if let Some(profiling) = &mut self.profiling {
            profiling.end_slice(&self.threads, counted_ns);
        }
    }

    /// Samples packet arrivals and what sleeping threads are waiting for. Called repeatedly within
    /// each slice.
    pub(crate) fn tick(&mut self, root: &Root) {
        self.sleepers.tick(root, &self.threads);
        self.sockets.descriptors.glance(root);
        self.sockets.glance(&self.namespace);
        self.sockets.resolve(&self.namespace, self.sleepers.sockets());
        if !self.bound.is_empty() {
            let (namespace, bound) = (&self.namespace, &self.bound);
            self.arrivals.tick(|| {
                let links = links(root, namespace);
                let of_socket = links.iter().filter(|link| bound.contains(&link.index));
                of_socket.map(|link| link.rx_packets).sum()
            });
        }
    }

    pub(crate) fn finish(&mut self, root: &Root) {
        self.read_links(root);
        self.end(root);
        self.sockets.look(root, &self.namespace, &self.family.pids, Moment::End);
        // Read all connections now, including those skipped in the last slice.
        if let Some(last) = self.counts.last_mut().filter(|last| last.tcp.is_some()) {
            last.tcp_at_end = Some(self.sockets.traffic());
        }
        self.note_other_namespaces(root);
        self.unread.extend(no_free_descriptor(File::open("/proc/self/stat").err()));
    }

    /// Notes processes with sockets in another network namespace, once. Called within the window,
    /// because the processes of a command may end before the window does.
    fn note_other_namespaces(&mut self, root: &Root) {
        let is_noted = self.unread.iter().any(|unread| unread.what == OTHER_NAMESPACES);
        if self.windows == Windows::One && !is_noted {
            self.namespace.note_others(root, &self.family.pids, &mut self.unread);
        }
    }

    /// Reads the interfaces and the counters of the namespace. Called right after the last packet
    /// counts, with which they are compared. If the namespace has become unreadable, the previous
    /// reading remains.
    fn read_links(&mut self, root: &Root) {
        let links = links(root, &self.namespace);
        if !links.is_empty() {
            self.links = links;
        }
        self.interfaces.read(&self.namespace);
    }

    /// Takes the last readings of threads, processes and CPUs, at the same moment. These readings
    /// end an additional, short slice.
    fn end(&mut self, root: &Root) {
        let (slice, now_ns) = (self.wall_s.len() as u32, monotonic_ns());
        self.threads.read(root, slice, now_ns);
        self.cpus.read(now_ns - self.last_ns);
        self.quotas.read(root, slice);
        self.threads.finish(root, slice, now_ns);
        self.profiling.iter_mut().for_each(Profiling::end_traces);
        let elapsed_s = (now_ns - self.began_ns) as f64 / 1e9;
        self.ended_cpus = Ended::read(root, &mut self.family, &self.threads, elapsed_s);
        self.cpus.end(root);
    }

    /// Returns the local ports for TCP connections; `None` if consecutive windows are observed, or,
    /// with a note in `unread`, if the ports cannot be read.
    pub(crate) fn local_ports(
        &mut self,
        root: &Root,
        unread: &mut Vec<Unread>,
    ) -> Option<LocalPorts> {
        let is_one = self.windows == Windows::One;
        is_one.then(|| self.ports.read(root, &self.namespace, unread)).flatten()
    }

    /// Ends one of several consecutive windows.
    pub(crate) fn finish_live(&mut self, root: &Root) {
        self.read_links(root);
        let slice = (self.wall_s.len() as u32).saturating_sub(1);
        self.threads.finish(root, slice, self.last_ns);
        let elapsed_s = (self.last_ns - self.began_ns) as f64 / 1e9;
        self.ended_cpus = Ended::read(root, &mut self.family, &self.threads, elapsed_s);
        // The next window's CPU times begin with the readings that ended this one.
        self.family.restart(root);
        self.began_ns = self.last_ns;
    }

    /// Begins the next window, starting from the last readings. Forgets processes that have ended.
    pub(crate) fn begin_window(&mut self) {
        self.family.forget_ended();
        self.quotas.retain(&self.family.pids);
        self.sockets.descriptors.retain(&self.family.pids);
        self.threads.begin_window();
        self.sleepers.begin_window(&self.threads);
        if let Some(profiling) = &mut self.profiling {
            profiling.begin_window(&self.threads);
        }
        let last = self.counts.last().copied().unwrap_or_default();
        // Counts of the program, its connections and its packet sockets are relative to the window.
        let none = |(_, bytes): (u64, Option<u64>)| (0, bytes.map(|_| 0));
        let first = Counts {
            program: last.program.map(none),
            tcp: last.tcp.map(|_| (0, 0)),
            packet_drops: last.packet_drops.map(|_| 0),
            ..last
        };
        self.counts = vec![first];
        self.wall_s.clear();
    }

    /// Finds the program's statistics socket, which a program that is still starting may not have
    /// opened yet.
    fn find_program(&mut self, root: &Root) {
        if self.program.is_none() && !self.was_refused {
            let unix = root.text(&self.namespace.file("unix")).unwrap_or_default();
            let before = self.unread.len();
            let (sockets, is_own) = (&self.sockets, self.namespace.is_own);
            self.program = adapters::find(root, &unix, sockets, is_own, &mut self.unread);
            self.was_refused = self.unread.len() > before;
        }
    }

    /// Returns the current packet counters.
    fn count(&mut self, root: &Root) -> Counts {
        let mut counts = Counts::default();
        if self.interface.is_some() {
            return counts;
        }
        counts.program = self.program.as_mut().and_then(Program::read);
        counts.at_s = monotonic_ns() as f64 / 1e9;
        counts.tcp = Some(self.sockets.traffic());
        if self.counts.is_empty() {
            self.sockets.restart_packets(self.namespace.network.as_ref());
        }
        self.bound = self.sockets.packet_interfaces();
        let bound = &self.bound;
        let tunnels = self.sockets.descriptors.tunnels();
        let has_links = !bound.is_empty() || !tunnels.is_empty();
        let links = if has_links { links(root, &self.namespace) } else { Vec::new() };
        counts.tunnels = through(&links, &tunnels);
        if !bound.is_empty() {
            let sum = |of: fn(&Link) -> u64| {
                links.iter().filter(|link| bound.contains(&link.index)).map(of).sum::<u64>()
            };
            counts.interface = Some((sum(|link| link.rx_packets), sum(|link| link.rx_bytes)));
            counts.packet_drops = self.sockets.packet_drops();
            counts.interface_tx = Some((sum(|link| link.tx_packets), sum(|link| link.tx_bytes)));
        }
        // Read both at the start, for sockets that are opened later.
        let is_start = self.counts.is_empty();
        let has_udp = is_start || self.sockets.has(SocketKind::Udp);
        let has_tcp = is_start
            || self.sockets.has(SocketKind::Tcp)
            || self.sockets.has(SocketKind::TcpListen);
        if has_udp || has_tcp {
            let (udp, tcp) = self.transport.read(has_udp);
            counts.udp = has_udp.then_some(udp);
            counts.tcp_of_namespace = has_tcp.then_some(tcp);
        }
        counts
    }

    /// Returns whether nothing is left to observe and, if so, sets `ended` to the reason.
    pub(crate) fn has_ended(&mut self, root: &Root, running: Option<&mut Running>) -> bool {
        if self.interface.is_some() || !self.threads.are_gone() {
            return false;
        }
        let status =
            |pid: &u32| stat_of(root, *pid).filter(|stat| stat.has_process_ended())?.wait_status;
        self.ended = match running {
            Some(running) => running.wait_a_moment(),
            None => self.family.pids.first().and_then(status).map(describe_status),
        };
        self.ended.get_or_insert_with(|| STATUS_UNKNOWN.to_owned());
        true
    }
}

/// Reports that no file could be opened at the end of the window, because linerate had reached its
/// limit. Data that linerate could not read then may be missing.
fn no_free_descriptor(error: Option<std::io::Error>) -> Option<Unread> {
    let is_full = error?.raw_os_error() == Some(linerate_linux::errno::EMFILE);
    is_full.then(|| Unread {
        what: "open_files".to_owned(),
        reason:
            "linerate reached its limit on open files: threads and sockets that appeared during \
                 the window may be missing"
                .to_owned(),
        fix: Some("raise the hard limit (ulimit -Hn), or observe fewer threads".to_owned()),
    })
}
