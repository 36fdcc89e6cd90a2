// SPDX-License-Identifier: MIT OR Apache-2.0
//! VPP's `show runtime` output: per-thread statistics for each graph node.
//!
//! ```text
//! Thread 1 vpp_wk_0 (lcore 2)
//! Time 10.0, 10 sec internal node vector rate 12.34 loops/sec 1234.5
//!   vector rates in 1.0000e6, out 1.0000e6, drop 0.0000e0, punt 0.0000e0
//!    Name       State    Calls   Vectors   Suspends    Clocks   Vectors/Call
//! ip4-lookup    active     100      5000          0    2.50e1          50.00
//! ```
//!
//! Each thread becomes a strand; a thread without a heading is `vpp_main`. *Clocks* are ticks per
//! packet, or per call if a node received no packets. For a thread, VPP prints only the packet
//! rate, with five digits, not the packet count. The per-packet cost is therefore the ticks of all
//! nodes divided by the product of this rate and the time:
//!
//! ```text
//! ticks per packet = sum over nodes (clocks * vectors) / (rate in * time)
//! ```
//!
//! VPP counts the clocks of each call of a node, also of calls that find no packets. The clocks of
//! a polling node are therefore an upper bound of its work, and the lower bound of a thread's ticks
//! per packet leaves its polling nodes out.
//!
//! Tested with text in the documented layout, including the time headings of older and newer
//! versions, but not with a running VPP.

use crate::derive::unit;
use crate::{NothingRead, numbered};
use linerate_record::strands::{
    ForeignFormat, InputFault, NodeCounts, StrandCounts, StrandsReport,
};
use linerate_record::{Figure, Tier};

const METHOD: &str = "VPP `show runtime`";
const POLLED: &str = "VPP `show runtime`, including empty polls";

/// Returns whether a line unmistakably comes from VPP.
pub(crate) fn is_its_own(line: &str) -> bool {
    thread(line).is_some() || rate_in(line).is_some()
}

#[derive(Debug, Default)]
struct Thread {
    name: String,
    cpu: Option<u32>,
    seconds: Option<f64>,
    /// Packets received per second, from the thread's heading.
    rate: Option<f64>,
    nodes: Vec<NodeCounts>,
}

/// Reads VPP output.
///
/// # Errors
/// Returns an error if no line was usable.
pub fn read(text: &str) -> Result<StrandsReport, NothingRead> {
    let mut threads: Vec<Thread> = Vec::new();
    let (mut faults, mut lines) = (Vec::new(), 0);
    for (line, text) in numbered(text) {
        if is_prose(text) {
            continue;
        }
        if let Some((name, cpu)) = thread(text) {
            threads.push(Thread { name, cpu, ..Thread::default() });
            continue;
        }
        if threads.is_empty() {
            threads.push(Thread { name: "vpp_main".to_owned(), ..Thread::default() });
        }
        let Some(last) = threads.last_mut() else { continue };
        if let Some(seconds) = seconds(text) {
            last.seconds = Some(seconds);
        } else if let Some(rate) = rate_in(text) {
            last.rate = Some(rate);
        } else {
            lines += 1;
            match node(text) {
                Ok(node) => last.nodes.push(node),
                Err(sentence) => faults.push(InputFault { line, sentence }),
            }
        }
    }
    threads.retain(|thread| !thread.nodes.is_empty());
    if threads.is_empty() {
        let line = faults.first().map(|fault| fault.line);
        let sentence = "no `show runtime` node found".to_owned();
        return Err(NothingRead { sentence, line });
    }
    Ok(StrandsReport {
        format: ForeignFormat::Vpp,
        format_version: None,
        machine: None,
        strands: threads.into_iter().map(strand).collect(),
        lines,
        faults,
    })
}

/// Returns whether a line is a prompt, rule or table header.
fn is_prose(line: &str) -> bool {
    let line = line.trim();
    line.is_empty()
        || line.contains("vpp#")
        || line.bytes().all(|byte| byte == b'-')
        || (line.starts_with("Name") && line.ends_with("Vectors/Call"))
}

/// Parses the heading of a thread. Returns the thread's name and CPU.
fn thread(line: &str) -> Option<(String, Option<u32>)> {
    let rest = line.trim().strip_prefix("Thread ")?;
    let mut words = rest.split_whitespace();
    words.next()?.parse::<u32>().ok()?;
    let name = words.next()?.to_owned();
    let cpu = rest.split_once("(lcore ").and_then(|(_, rest)| rest.strip_suffix(')'));
    Some((name, cpu.and_then(|cpu| cpu.parse().ok())))
}

/// Parses a finite, nonnegative number.
fn number(text: &str) -> Option<f64> {
    let is_plain = text.starts_with(|c: char| c.is_ascii_digit());
    text.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}

fn seconds(line: &str) -> Option<f64> {
    let (seconds, _) = line.trim().strip_prefix("Time ")?.split_once(',')?;
    number(seconds).filter(|seconds| *seconds > 0.0)
}

fn rate_in(line: &str) -> Option<f64> {
    let (rate, _) = line.trim().strip_prefix("vector rates in ")?.split_once(',')?;
    number(rate)
}

/// Parses the line of a node: its name, a state of one or two words, and five numbers.
fn node(line: &str) -> Result<NodeCounts, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let fault = |what: &str| format!("{what}; line skipped");
    let [name, state @ .., calls, packets, _suspends, clocks, per_call] = words.as_slice() else {
        return Err(fault("expected a node's name, state and five numbers"));
    };
    let whole = |word: &str| word.parse::<u64>().ok();
    let (Some(calls), Some(packets)) = (whole(calls), whole(packets)) else {
        return Err(fault("calls and vectors must be integers"));
    };
    let (Some(clocks), Some(per_call)) = (number(clocks), number(per_call)) else {
        return Err(fault("clocks and vectors per call must be numbers"));
    };
    if state.is_empty() || state.len() > 2 {
        return Err(fault("a node's state must be one or two words"));
    }
    let ticks_per_packet = match packets {
        0 => {
            let why = "the node received no packets, so its clocks are per call, not per packet";
            Figure::absent(unit::TICKS_PER_PACKET, Tier::Sw, METHOD, why)
        }
        _ => Figure::exact(unit::TICKS_PER_PACKET, clocks, Tier::Sw, METHOD),
    };
    let mut node = NodeCounts {
        name: (*name).to_owned(),
        state: state.join(" "),
        calls,
        packets,
        ticks_per_packet,
        packets_per_call: Figure::exact("packets/call", per_call, Tier::Sw, METHOD),
    };
    if node.is_polling() && packets > 0 {
        POLLED.clone_into(&mut node.ticks_per_packet.method);
        node.ticks_per_packet.high = Some(clocks);
    }
    Ok(node)
}

fn strand(thread: Thread) -> StrandCounts {
    let Thread { name, cpu, seconds, rate, nodes } = thread;
    let absent = |unit, why: &str| Figure::absent(unit, Tier::Sw, METHOD, why);
    let sum = |of: fn(&&NodeCounts) -> bool| -> f64 {
        nodes.iter().filter(of).filter_map(NodeCounts::all_ticks).sum()
    };
    let (ticks, polled) = (sum(|_| true), sum(|node| node.is_polling()));
    let packets = seconds.zip(rate).map(|(seconds, rate)| seconds * rate);
    let per_packet = match packets {
        Some(packets) if packets > 0.0 => {
            let per_packet = |ticks: f64| Some(ticks / packets).filter(|_| polled > 0.0);
            let method = if polled > 0.0 { POLLED } else { METHOD };
            Figure {
                low: per_packet(ticks - polled),
                high: per_packet(ticks),
                ..Figure::exact(unit::TICKS_PER_PACKET, ticks / packets, Tier::Sw, method)
            }
        }
        Some(_) => absent(unit::TICKS_PER_PACKET, "no packets were received"),
        None => absent(unit::TICKS_PER_PACKET, "the input lacks the time or the packet rate"),
    };
    const NO_COUNTERS: &str = "`show runtime` counts no instructions";
    StrandCounts {
        name: Some(name),
        cpu,
        packets: None,
        ticks: None,
        kpps: match rate {
            Some(rate) => Figure::exact(unit::KPPS, rate / 1e3, Tier::Sw, METHOD),
            None => absent(unit::KPPS, "the input lacks the packet rate"),
        },
        ticks_per_packet: per_packet,
        instructions_per_packet: absent(unit::INSTRUCTIONS_PER_PACKET, NO_COUNTERS),
        cpi: absent(unit::CPI, NO_COUNTERS),
        ipc: absent(unit::IPC, NO_COUNTERS),
        events: Vec::new(),
        nodes,
        slices: Vec::new(),
        cpi_by_cause: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "vpp# show runtime\n\
        Thread 0 vpp_main (lcore 1)\n\
        Time 10.0, 10 sec internal node vector rate 0.00 loops/sec 70000.00\n\
        \x20 vector rates in 0.0000e0, out 0.0000e0, drop 0.0000e0, punt 0.0000e0\n\
        \x20            Name                 State         Calls          Vectors        \
        Suspends         Clocks       Vectors/Call\n\
        api-rx-from-ring                any wait                 0               0             \
        163          1.34e4            0.00\n\
        ---------------\n\
        Thread 1 vpp_wk_0 (lcore 2)\n\
        Time 10.0, 10 sec internal node vector rate 50.00 loops/sec 3523343.91\n\
        \x20 vector rates in 1.0000e6, out 9.9000e5, drop 1.0000e4, punt 0.0000e0\n\
        \x20            Name                 State         Calls          Vectors        \
        Suspends         Clocks       Vectors/Call\n\
        dpdk-input                       polling            200000        10000000           0  \
        4.00e1           50.00\n\
        ip4-lookup                        active            200000        10000000           0  \
        2.50e1           50.00\n\
        error-drop                        active              1000          100000           0  \
        1.00e2          100.00\n";

    #[test]
    fn threads_are_strands_and_nodes_add_up() {
        let report = read(TEXT).expect("nodes");
        assert_eq!((report.strands.len(), report.lines, report.faults.len()), (2, 4, 0));
        let [main, worker] = report.strands.as_slice() else { panic!("two threads") };
        assert_eq!((main.cpu, main.ticks_per_packet.as_number()), (Some(1), None));
        assert_eq!(main.nodes[0].state, "any wait");
        assert_eq!(worker.label(), "vpp_wk_0");
        assert_eq!(worker.kpps.as_number(), Some(1000.0));
        // 40 + 25 ticks, plus 100 ticks for one packet in a hundred.
        assert_eq!(worker.ticks_per_packet.as_number(), Some(66.0));
        // The 40 of the polling node include empty polls.
        let [low, high] = [worker.ticks_per_packet.low, worker.ticks_per_packet.high];
        assert_eq!((low, high), (Some(26.0), Some(66.0)));
        assert_eq!(worker.nodes[0].ticks_per_packet.high, Some(40.0));
        assert_eq!(worker.nodes[1].ticks_per_packet.high, None);
        assert_eq!(worker.cpi.as_number(), None);
    }

    #[test]
    fn at_a_low_load_empty_polls_hide_what_a_packet_costs() {
        let worker = |calls: &str| {
            let text = TEXT.replace("polling            200000", &format!("polling {calls}"));
            read(&text).expect("nodes").strands.remove(1)
        };
        assert_eq!(worker("200000").hidden_by_empty_polls(), None, "50 packets per call");
        let why = worker("4000000").hidden_by_empty_polls().expect("2.5 packets per call");
        assert!(why.contains("`dpdk-input` on vpp_wk_0 received 2.5 packets per poll"), "{why}");
        // A polling node that costs little hides little.
        let mut cheap = worker("4000000");
        cheap.nodes[0].ticks_per_packet = Figure::exact("ticks/packet", 2.0, Tier::Sw, METHOD);
        assert_eq!(cheap.hidden_by_empty_polls(), None);
    }

    #[test]
    fn one_thread_has_no_heading_and_damage_is_named_by_line() {
        let text = "Time 64.1, average vectors/node 0.00, last 128 main loops 0.00 per node 0.00\n\
            vector rates in 1.0011e-1, out 1.0011e-1, drop 2.1561e-2, punt 0.0000e0\n\
            error-drop active 69 70 0 1.32e4 1.01\n\
            ethernet-input active 315\n\
            ip6-glean active 1 2 0 inf 2.00\n";
        let report = read(text).expect("a node");
        assert_eq!(report.strands[0].label(), "vpp_main");
        let lines: Vec<u64> = report.faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [4, 5]);
        assert_eq!(read("nothing here\n").expect_err("no node").line, Some(1));
        assert!(read("").is_err());
    }
}
