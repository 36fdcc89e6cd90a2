// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observations constructed by hand: 5 s on a machine with two CPUs.

use linerate_record::stats::Estimate;
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{
    CpuCounts, FunctionTime, InterfaceCounts, KernelEvent, Observation, PacketCount, ProgramCounts,
    QdiscCounts, RequestCounts, SocketCounts, SocketKind, TcpCounts, ThreadActivity, ThreadState,
    ThreadTime, Unread, Watched, WhyFinding,
};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// Length of every window in seconds.
pub(crate) const ELAPSED_S: f64 = 5.0;

/// Returns a share with an interval of plus or minus one hundredth.
pub(crate) fn share(value: f64) -> Figure {
    let (low, high) = (value - 0.01, value + 0.01);
    let estimate = Estimate { value, low, high, confidence: 0.95, n: 50 };
    Figure::number("ratio", estimate, Tier::Sw, "by hand")
}

pub(crate) fn absent(unit: &str) -> Figure {
    Figure::absent(unit, Tier::Sw, "by hand", "not determined")
}

/// Returns a thread on CPU 1 that spends the given shares of its time in the given states.
pub(crate) fn thread(name: &str, tid: u32, shares: &[(ThreadState, f64)]) -> ThreadActivity {
    ThreadActivity {
        pid: 100,
        tid,
        name: name.to_owned(),
        ran_on: vec![1],
        allowed: vec![0, 1],
        elapsed_s: ELAPSED_S,
        time: shares
            .iter()
            .map(|(state, x)| ThreadTime { state: *state, share: share(*x) })
            .collect(),
        asleep_on: Vec::new(),
        ran_instead: Vec::new(),
        waits_us_log2: Vec::new(),
        voluntary_switches: 0,
        involuntary_switches: 10,
        minor_faults: 0,
        major_faults: 0,
        system_calls: None,
        functions: Vec::new(),
        samples: 0,
        busy: absent("ratio"),
        cost_ns: absent("ns"),
        io_calls: None,
        lock_wait: None,
        memory: None,
        cipher_instructions: None,
        nice: None,
        policy: None,
        tracer: None,
        execs: None,
        sleep_samples: None,
    }
}

pub(crate) fn cpu(number: u32, user: f64, system: f64, interrupts: f64) -> CpuCounts {
    let idle = (1.0 - user - system - interrupts).max(0.0);
    CpuCounts { cpu: number, user, system, interrupts, idle, ..CpuCounts::default() }
}

/// Returns the readings that an unprivileged user lacks.
pub(crate) fn unprivileged() -> Vec<Unread> {
    let one = |what: &str| Unread {
        what: what.to_owned(),
        reason: "perf_event_paranoid is 2".to_owned(),
        fix: Some("sysctl kernel.perf_event_paranoid=1".to_owned()),
    };
    ["cpu_samples", "kernel_samples", "tracepoints"].map(one).to_vec()
}

/// Returns an observation of a program with these threads and no packets, on idle CPUs, observed by
/// an ordinary user.
pub(crate) fn observation(threads: Vec<ThreadActivity>) -> Observation {
    Observation {
        watched: Watched {
            name: "program".to_owned(),
            pids: vec![100],
            interface: None,
            is_in_other_namespace: false,
            line_bits_per_s: None,
            is_command: false,
            ended: None,
            interrupted: false,
        },
        elapsed_s: ELAPSED_S,
        slices: 50,
        threads,
        threads_left_out: 0,
        ended_threads_cpus: None,
        ended_children_cpus: None,
        memory: None,
        full_descriptors: Vec::new(),
        requests: None,
        output_pipes: Vec::new(),
        file_writes: None,
        unix_clients: None,
        local_ports: None,
        sched_autogroup: None,
        quotas: Vec::new(),
        cpus: vec![cpu(0, 0.1, 0.05, 0.01), cpu(1, 0.5, 0.1, 0.01)],
        interfaces: Vec::new(),
        protocols: BTreeMap::new(),
        sockets: Vec::new(),
        peers: Vec::new(),
        program: None,
        events: Vec::new(),
        shared_lines: Vec::new(),
        last_level_cache_bytes: None,
        event_costs: None,
        arrivals: None,
        packets: None,
        packets_per_s: Vec::new(),
        observer: share(0.002),
        unread: unprivileged(),
    }
}

/// Returns the same observation as made by root, with no packet dropped except in the events that
/// it already has.
pub(crate) fn privileged(mut observation: Observation) -> Observation {
    observation.unread = Vec::new();
    let counted: u64 = observation.events.iter().map(|event| event.count).sum();
    observation.events.insert(0, dropped(None, counted));
    observation
}

/// Returns a count of dropped packets: all of them, or those with a drop reason.
pub(crate) fn dropped(reason: Option<&str>, count: u64) -> KernelEvent {
    KernelEvent {
        event: "skb:kfree_skb".to_owned(),
        filter: reason.map(|reason| format!("reason {reason}")),
        is_of_watched: false,
        count,
    }
}

/// Returns a connection of a client to port 80.
pub(crate) fn client(number: usize, tcp: TcpCounts) -> SocketCounts {
    let remote = format!("10.0.0.2:{}", 4000 + number);
    SocketCounts { tcp: Some(tcp), ..socket(SocketKind::Tcp, "10.0.0.1:80", Some(&remote)) }
}

pub(crate) fn packets(packets: u64, bytes: u64) -> Option<PacketCount> {
    Some(PacketCount { packets, bytes: Some(bytes), counter: "by hand".to_owned() })
}

pub(crate) fn interface(name: &str, packets: u64) -> InterfaceCounts {
    InterfaceCounts {
        name: name.to_owned(),
        driver: Some("veth".to_owned()),
        mtu: Some(1500),
        rx_packets: packets,
        rx_bytes: packets * 60,
        tx_packets: packets,
        tx_bytes: packets * 60,
        features: features(&[("rx-gro", false)]),
        ..InterfaceCounts::default()
    }
}

pub(crate) fn features(states: &[(&str, bool)]) -> BTreeMap<String, bool> {
    states.iter().map(|(name, is_on)| ((*name).to_owned(), *is_on)).collect()
}

pub(crate) fn qdisc(kind: &str, bytes: u64, overlimits: u64, rate: f64) -> QdiscCounts {
    QdiscCounts {
        kind: kind.to_owned(),
        handle: "8001:".to_owned(),
        bytes,
        packets: bytes / 1500,
        overlimits,
        drops: overlimits / 12,
        rate_bits_per_s: Some(rate),
        ..QdiscCounts::default()
    }
}

pub(crate) fn socket(kind: SocketKind, local: &str, remote: Option<&str>) -> SocketCounts {
    SocketCounts {
        kind,
        inode: 7000 + local.len() as u64,
        pid: 100,
        local: local.to_owned(),
        remote: remote.map(str::to_owned),
        peer_pid: None,
        reads: Some(50),
        receive_queue_mean: 0.0,
        receive_queue_max: 0,
        receive_queue_share: Some(0.0),
        receive_buffer: Some(212_992),
        send_queue_mean: 0.0,
        send_buffer: Some(212_992),
        drops: None,
        port_sharers: None,
        tcp: None,
    }
}

/// Returns a sending TCP connection to 10.0.0.2:5201.
pub(crate) fn sender(bytes: u64, tcp: TcpCounts) -> SocketCounts {
    SocketCounts {
        tcp: Some(TcpCounts {
            bytes_acked: bytes,
            bytes_received: 37,
            segments_out: bytes / 1448,
            segments_in: bytes / 2896,
            ..tcp
        }),
        ..socket(SocketKind::Tcp, "10.0.0.1:40000", Some("10.0.0.2:5201"))
    }
}

/// Returns an observation of a DPDK program on the packet socket of v2, which received this many of
/// the packets on v2.
pub(crate) fn testpmd(poller: ThreadActivity, on_interface: u64, received: u64) -> Observation {
    let poller = ThreadActivity { pid: 100, ..poller };
    let main = thread("dpdk-testpmd", 100, &[(Asleep, 1.0)]);
    Observation {
        interfaces: vec![interface("v2", on_interface)],
        sockets: vec![socket(SocketKind::Packet, "v2", None)],
        program: Some(ProgramCounts {
            adapter: "dpdk".to_owned(),
            program: Some("DPDK 22.11.11".to_owned()),
            unit: "packets".to_owned(),
            received: Some(received),
            sent: Some(received),
            missed: None,
            bytes: Some(received * 60),
            others: BTreeMap::new(),
        }),
        packets: packets(received, received * 60),
        // What ran while the poller waited left no time idle on its CPU.
        cpus: vec![cpu(0, 0.1, 0.05, 0.01), cpu(1, 0.7, 0.29, 0.01)],
        ..observation(vec![poller, main])
    }
}

/// Returns requests of which on average `pending` wait for a reply, and `awaiting` at servers.
pub(crate) fn requests(pending: f64, awaiting: f64) -> RequestCounts {
    RequestCounts {
        readings: 50,
        connections: 32,
        pending_share: pending.min(1.0),
        pending_mean: pending,
        late_share: 0.0,
        awaiting_share: awaiting.min(1.0),
        awaiting_mean: awaiting,
        opening_share: Some(0.0),
        server_readings: None,
        server: (awaiting > 0.0).then(|| "10.0.0.3:8080".to_owned()),
        silent: 0,
        undetermined: None,
        undetermined_at_servers: None,
        requests: 1600,
        reply_time: absent("s"),
    }
}

/// Returns a polling thread, which waits for a CPU for the rest of its time.
pub(crate) fn poller(waiting: f64, busy: Option<f64>) -> ThreadActivity {
    let mut poller = thread(
        "dpdk-worker1",
        101,
        &[(User, 0.7 * (1.0 - waiting)), (Kernel, 0.3 * (1.0 - waiting)), (Waiting, waiting)],
    );
    poller.busy = busy.map_or_else(|| absent("ratio"), share);
    poller.samples = 2000;
    poller.involuntary_switches = (waiting * 500.0) as u64 + 5;
    poller
}

/// Returns functions with their shares; the file `kernel` makes a function one of the kernel.
pub(crate) fn functions(shares: &[(&str, &str, f64)]) -> Vec<FunctionTime> {
    let one = |(file, name, share): &(&str, &str, f64)| FunctionTime {
        name: (*name).to_owned(),
        file: (*file).to_owned(),
        share: *share,
        is_polling: None,
    };
    shares.iter().map(one).collect()
}

/// Returns a thread that makes system calls and never sleeps.
pub(crate) fn in_kernel(kernel: f64) -> ThreadActivity {
    let mut thread =
        thread("iperf3", 100, &[(User, 0.98 - kernel), (Kernel, kernel), (Waiting, 0.02)]);
    thread.samples = 2000;
    thread
}

/// Returns the findings on an observation.
pub(crate) fn explain(observation: &Observation) -> Vec<WhyFinding> {
    linerate_explain::why::explain(observation).findings
}
