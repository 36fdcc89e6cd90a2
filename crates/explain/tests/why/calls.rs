// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that send datagrams and frames, one by one or in batches.

use crate::example::observation;
use crate::example::{cpu, functions, in_kernel, interface, packets, privileged, socket};
use linerate_record::why::{InterfaceCounts, Observation, SocketKind, ThreadActivity};

fn udp_client(mut client: ThreadActivity) -> Observation {
    client.system_calls = None;
    Observation {
        sockets: vec![socket(SocketKind::Udp, "10.0.0.1:4000", Some("10.0.0.2:5201"))],
        packets: packets(1_000_000, 60_000_000),
        cpus: vec![cpu(0, 0.3, 0.3, 0.1), cpu(1, 0.2, 0.78, 0.01)],
        ..observation(vec![client])
    }
}

/// Without root, system calls are not counted.
pub(crate) fn system_calls_unprivileged() -> Observation {
    udp_client(in_kernel(0.8))
}

pub(crate) fn system_calls() -> Observation {
    let mut seen = privileged(system_calls_unprivileged());
    seen.threads[0].system_calls = Some(2_000_000);
    seen.threads[0].functions = functions(&[("kernel", "entry_SYSCALL_64", 0.1)]);
    seen
}

/// Any user may count calls of write(2).
pub(crate) fn system_calls_of_write() -> Observation {
    let mut seen = system_calls_unprivileged();
    seen.threads[0].io_calls = Some(1_000_000);
    seen
}

/// A sender of frames that never sleeps and has no counters of its own.
fn frames(calls: u64) -> Observation {
    let mut seen = privileged(udp_client(in_kernel(0.9)));
    seen.sockets = vec![socket(SocketKind::Packet, "v1", None)];
    seen.interfaces =
        vec![InterfaceCounts { rx_packets: 4, rx_bytes: 300, ..interface("v1", 3_000_000) }];
    seen.packets = packets(3_000_000, 180_000_000);
    seen.threads[0].system_calls = Some(calls);
    seen.threads[0].functions = functions(&[("kernel", "packet_sendmsg", 0.1)]);
    seen
}

pub(crate) fn frames_one_by_one() -> Observation {
    frames(3_000_000)
}

pub(crate) fn frames_in_batches() -> Observation {
    frames(100_000)
}
