// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the per-packet budget at line rate.
//!
//! ```text
//! time between packets     = (frame + 20) * 8 / line        preamble, start and gap: 20 bytes
//! cycles of a pipe         = time * clock
//! instructions of a strand = cycles * instructions per cycle / strands that share the pipe
//! ```
//!
//! The instructions of a strand are computed on the assumption that the other strands on its pipe
//! are busy as well. If those strands are parked, the strand has the whole pipe.
//!
//! Frame sizes are on-wire sizes, FCS included, with a minimum of 64 bytes. The budget covers only
//! per-packet work.

use linerate_cmt::processor::{FRAME_MIN, Processor};
pub use linerate_record::budget::GAP_BYTES;
use linerate_record::budget::{BudgetReport, BudgetRow, Ceilings, Shortfall, Task};
use linerate_record::run::{RunReport, Tally};

/// Size in bytes of the frame check sequence (IEEE 802.3), which captures omit.
pub const FCS_BYTES: f64 = 4.0;

/// Simple IMIX: of 12 frames, 7 have 64 bytes, 4 have 594 and 1 has 1518.
pub const IMIX: [(u32, u32); 3] = [(64, 7), (594, 4), (1518, 1)];

/// Budget inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetInputs<'a> {
    /// The processor.
    pub processor: &'a Processor,
    /// Line rate in bits per second.
    pub line_bits_per_s: f64,
    /// Frame sizes in bytes.
    pub frames: &'a [u32],
    /// Instructions per packet on one strand.
    pub instructions: Option<f64>,
}

/// Computes the per-packet budget for each frame size.
pub fn budget(inputs: &BudgetInputs<'_>) -> BudgetReport {
    let mut rows: Vec<BudgetRow> = inputs
        .frames
        .iter()
        .map(|&frame| row(inputs, &frame.to_string(), f64::from(frame)))
        .collect();
    rows.push(row(inputs, "IMIX", mean_of_imix()));
    BudgetReport {
        processor: inputs.processor.name.clone(),
        source: inputs.processor.source.clone(),
        clock_ghz: inputs.processor.clock_ghz,
        cores: inputs.processor.cores,
        pipes_per_core: inputs.processor.pipes_per_core,
        strands_per_pipe: inputs.processor.strands_per_pipe,
        instructions_per_cycle: inputs.processor.instructions_per_cycle,
        line_bits_per_s: inputs.line_bits_per_s,
        rows,
        shortfall: None,
        measured_on: None,
        is_this_machine: false,
    }
}

fn mean_of_imix() -> f64 {
    let weighed = |weigh: fn(u32) -> f64| -> f64 {
        IMIX.iter().map(|&(bytes, times)| f64::from(times) * weigh(bytes)).sum()
    };
    weighed(f64::from) / weighed(|_| 1.0)
}

/// Returns the bits that a frame of `bytes`, FCS included, takes on the wire, with preamble, start
/// and gap.
pub fn bits_on_wire(bytes: f64) -> f64 {
    (bytes + GAP_BYTES) * 8.0
}

/// Returns the time in nanoseconds from the start of a frame of `bytes` bytes to the start of the
/// next one at line rate.
pub fn ns_between(bytes: f64, line_bits_per_s: f64) -> f64 {
    bits_on_wire(bytes) * 1e9 / line_bits_per_s
}

fn row(inputs: &BudgetInputs<'_>, name: &str, bytes: f64) -> BudgetRow {
    let processor = inputs.processor;
    let ns = ns_between(bytes, inputs.line_bits_per_s);
    let cycles = ns * processor.clock_ghz;
    let of_pipe = processor.instructions_per_cycle.map(|per_cycle| cycles * per_cycle);
    let of_strand = of_pipe.map(|all| all / f64::from(processor.strands_per_pipe));
    BudgetRow {
        name: name.to_owned(),
        frame_bytes: bytes,
        ns_per_packet: ns,
        packets_per_s: 1e9 / ns,
        cycles_per_packet: cycles,
        cycles_of_all: cycles * f64::from(processor.cores) * f64::from(processor.pipes_per_core),
        instructions_per_packet: of_strand,
        instructions_alone: of_pipe,
        ceilings: limits(processor, bytes, inputs.instructions),
        task: of_strand
            .zip(inputs.instructions)
            .map(|(share, task)| task_of(processor, share, task)),
    }
}

/// Returns upper bounds on the forwarding rate. A forwarded packet crosses the I/O bus twice, in
/// and out of a NIC, and memory twice, written on receive and read on transmit. The program's own
/// reads of packet data add to this traffic, so these are upper bounds. Another upper bound is the
/// rate at which all pipelines could issue the instructions for the packets if they never stalled.
fn limits(processor: &Processor, bytes: f64, instructions: Option<f64>) -> Ceilings {
    let rate = |gb_per_s: Option<f64>| gb_per_s.map(|gb_per_s| gb_per_s * 1e9 / (2.0 * bytes));
    let pipes = f64::from(processor.cores) * f64::from(processor.pipes_per_core);
    let issued = processor.instructions_per_cycle.map(|per_cycle| {
        // GHz: 10^9 cycles per second.
        pipes * processor.clock_ghz * 1e9 * per_cycle
    });
    let measured = processor.forwarded.iter().find(|seen| f64::from(seen.frame_bytes) == bytes);
    Ceilings {
        // On-chip network interfaces bypass the I/O bus.
        io_packets_per_s: rate(processor.bandwidth.io_gb_per_s)
            .filter(|_| !processor.bandwidth.has_interfaces),
        memory_packets_per_s: rate(processor.bandwidth.memory_gb_per_s),
        issue_packets_per_s: issued.zip(instructions).map(|(all, each)| all / each),
        measured_packets_per_s: measured.map(|seen| seen.kpps * 1e3),
    }
}

/// Minimum budget per packet, in instructions, that is rounded to whole instructions, as in the
/// Netra document. Rounding a smaller budget could change it by more than half a percent.
const WHOLE_FROM: f64 = 100.0;

/// Returns how many strands a task needs so that their combined budget covers the task. In
/// parallel, each strand handles every n-th packet and may spend n budgets on it; in a pipeline,
/// each spends one budget on its part of the work.
fn task_of(processor: &Processor, share: f64, instructions: f64) -> Task {
    /// Maximum excess over a whole number of budgets that counts as rounding error, not as work.
    const ROUNDING: f64 = 1e-9;
    let strands = (instructions / share * (1.0 - ROUNDING)).ceil().max(1.0);
    let each = if share < WHOLE_FROM { share } else { share.round() };
    Task {
        instructions,
        strands,
        parallel_instructions: strands * each,
        pipelined_instructions: each,
        fits: strands <= processor.strands() as f64,
    }
}

/// Compares a path that handles `packets_per_s` packets of `bytes` bytes, FCS included, with line
/// rate, assuming that its per-packet cost is the same for all packet sizes.
pub fn shortfall(packets_per_s: f64, bytes: f64, line_bits_per_s: f64) -> Shortfall {
    let holds = line_bits_per_s / 8.0 / packets_per_s - GAP_BYTES;
    let at = |bytes: f64| packets_per_s * ns_between(bytes, line_bits_per_s) / 1e9;
    Shortfall {
        packets_per_s,
        frame_bytes: bytes,
        share_of_line: at(bytes),
        holds_from_bytes: holds.max(f64::from(FRAME_MIN)),
        share_of_line_at_shortest: at(f64::from(FRAME_MIN)),
    }
}

/// Returns the mean size in bytes, excluding FCS, of packets received from the source, or `None` if
/// there were none.
pub fn mean_bytes(run: &RunReport) -> Option<f64> {
    let stages = run.workers.iter().flat_map(|worker| &worker.stages);
    let sources = stages.filter(|stage| stage.name == "source");
    let all: Tally = sources.map(|stage| stage.ledger.output).sum();
    (all.packets > 0).then(|| all.bytes as f64 / all.packets as f64)
}

/// Returns the mean size of a run's frames on the line in bytes, FCS included, or `None` if there
/// were none. Ethernet pads frames to 60 bytes without FCS.
pub fn frame_bytes(run: &RunReport) -> Option<f64> {
    const LEAST: f64 = 60.0;
    let bytes = run.line.map_or_else(|| mean_bytes(run), |line| Some(line.mean_frame_bytes))?;
    Some(bytes.max(LEAST) + FCS_BYTES)
}

/// Returns the line rate of a run's path, in bits per second over all ports. Records before version
/// 1.4 do not state it; for them, it is computed from the line rate in packets and rounded to three
/// digits, because the mean size of the measured packets differs slightly from the size used to
/// compute the line rate in packets. `None` if the path has no line rate, or if the run has no
/// packets.
pub fn line_of(run: &RunReport) -> Option<f64> {
    if let Some(line) = run.line.filter(|_| run.line_rate_kpps.is_some_and(|kpps| kpps > 0.0)) {
        return Some(line.bits_per_s * f64::from(line.ports));
    }
    let bytes = mean_bytes(run)? + FCS_BYTES + GAP_BYTES;
    let bits = run.line_rate_kpps.filter(|kpps| *kpps > 0.0)? * 1e3 * bytes * 8.0;
    let last = 10_f64.powf(bits.log10().floor() - 2.0);
    Some((bits / last).round() * last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_cmt::processor::Bandwidth;

    fn t1(line: f64, frames: &[u32], instructions: Option<f64>) -> Vec<BudgetRow> {
        let processor = Processor::named("t1").unwrap();
        let inputs =
            BudgetInputs { processor: &processor, line_bits_per_s: line, frames, instructions };
        budget(&inputs).rows
    }

    #[test]
    fn the_document_reckons_with_672_ns_and_202_instructions() {
        let row = &t1(1e9, &[64], None)[0];
        assert!((row.ns_per_packet - 672.0).abs() < 1e-9);
        // The document erroneously says 1.44 Mpps.
        assert!((row.packets_per_s / 1e6 - 1.488).abs() < 5e-4);
        assert!((row.cycles_per_packet - 806.4).abs() < 1e-9);
        assert_eq!(row.instructions_per_packet.map(f64::round), Some(202.0));
        assert_eq!(row.instructions_alone.map(f64::round), Some(806.0));
    }

    /// Reproduces figure 10-4 from its formula.
    #[test]
    fn instructions_over_the_size_of_frames() {
        let frames = [64, 128, 256, 300, 342, 400, 512, 1024, 1518];
        let wanted = [202.0, 355.0, 662.0, 768.0, 869.0, 1008.0, 1277.0, 2506.0, 3691.0];
        let rows = t1(1e9, &frames, None);
        for (row, wanted) in rows.iter().zip(wanted) {
            assert_eq!(row.instructions_per_packet.map(f64::round), Some(wanted), "{}", row.name);
        }
    }

    #[test]
    fn a_task_of_575_instructions_takes_three_strands_of_202() {
        let task = t1(1e9, &[64], Some(575.0))[0].task.clone().unwrap();
        assert_eq!((task.strands, task.parallel_instructions), (3.0, 606.0));
        assert_eq!(task.pipelined_instructions, 202.0);
        assert!(task.fits);
        assert!(!t1(1e12, &[64], Some(575.0))[0].task.clone().unwrap().fits);
    }

    /// The number of strands comes from the budget itself, however small, and not from its nearest
    /// whole number.
    #[test]
    fn budgets_of_few_instructions_are_not_rounded() {
        // Line rate in bits per second, frame size, and strands for 575 instructions: of 0.504
        // instructions each at 400 Gb/s, and of 14.2 and 26.5 at 25 Gb/s.
        let cases = [(4e11, 64, 1141.0), (2.5e10, 128, 41.0), (2.5e10, 256, 22.0), (1e9, 64, 3.0)];
        for (line, frame, strands) in cases {
            let row = &t1(line, &[frame], Some(575.0))[0];
            let (task, share) = (row.task.clone().unwrap(), row.instructions_per_packet.unwrap());
            assert_eq!(task.strands, strands, "{line} b/s, {frame} bytes: budget {share}");
            assert!(task.parallel_instructions >= 575.0, "{task:?}");
            assert!((task.pipelined_instructions / share - 1.0).abs() < 0.005, "{task:?}");
        }
    }

    /// A task of exactly `n` budgets takes `n` strands, whatever the rounding of the quotient.
    #[test]
    fn a_whole_number_of_budgets_takes_as_many_strands() {
        for line in [1e9, 2.5e9, 1e10, 4e10, 1e11] {
            let share = t1(line, &[64], None)[0].instructions_per_packet.unwrap();
            for strands in 1..200 {
                let task =
                    t1(line, &[64], Some(share * f64::from(strands)))[0].task.clone().unwrap();
                assert_eq!(task.strands, f64::from(strands), "{line}");
            }
        }
    }

    #[test]
    fn line_rate_at_342_bytes_is_345_kpps() {
        let row = &t1(1e9, &[342], None)[0];
        assert!((row.packets_per_s / 1e3 - 345.3).abs() < 0.05);
        for (kpps, percent) in [(224.0, 65.0), (310.0, 90.0)] {
            let found = shortfall(kpps * 1e3, 342.0, 1e9);
            assert_eq!((found.share_of_line * 100.0).round(), percent);
        }
    }

    #[test]
    fn what_holds_line_rate_from_some_size_holds_it_exactly_there() {
        let found = shortfall(390_625.0, 64.0, 1e9);
        assert!((found.holds_from_bytes - 300.0).abs() < 1e-9);
        let at = ns_between(found.holds_from_bytes, 1e9);
        assert!((at * 390_625.0 / 1e9 - 1.0).abs() < 1e-12);
        let faster = shortfall(1e9, 64.0, 1e9);
        assert_eq!(faster.holds_from_bytes, 64.0);
        // 1 Gpps on a line of 1.488 Mpps.
        assert!((faster.share_of_line - 672.0).abs() < 1e-6, "{faster:?}");
        assert!((faster.share_of_line_at_shortest - 672.0).abs() < 1e-6, "{faster:?}");
    }

    #[test]
    fn the_mix_is_its_mean() {
        let rows = t1(1e9, &[64], None);
        assert_eq!(rows.last().map(|row| row.name.as_str()), Some("IMIX"));
        // (7 * 64 + 4 * 594 + 1518) / 12
        assert!((rows[1].frame_bytes - 361.833_333_333).abs() < 1e-6);
    }

    #[test]
    fn limits_count_bytes_moved_twice() {
        let row = &t1(1e9, &[64], None)[0];
        assert_eq!(row.ceilings.io_packets_per_s, Some(15.625e6));
        assert_eq!(row.ceilings.measured_packets_per_s, Some(3.3e6));
        assert_eq!(row.ceilings.issue_packets_per_s, None, "the cost of a packet is not given");
    }

    /// Table 10-1 states 9.6 billion instructions per second. This processor's network interfaces
    /// are on the chip, so the I/O bus of figure 10-5 does not limit them.
    #[test]
    fn pci_express_is_no_bound_of_interfaces_on_the_chip() {
        let t2 = Processor::named("t2").expect("it is built in");
        let frames = [64, 342];
        let inputs = BudgetInputs {
            processor: &t2,
            line_bits_per_s: 1e10,
            frames: &frames,
            instructions: Some(575.0),
        };
        for row in budget(&inputs).rows {
            assert_eq!(row.ceilings.io_packets_per_s, None, "{}", row.name);
            assert!(row.ceilings.issue_packets_per_s.is_some(), "{}", row.name);
        }
        let on_cards = Bandwidth { has_interfaces: false, ..t2.bandwidth };
        assert!(on_cards.io_gb_per_s.is_some(), "what is known of cards is kept");
    }

    #[test]
    fn no_more_packets_than_instructions_are_issued_for() {
        let rows = t1(1e9, &[64, 1518], Some(500.0));
        for row in &rows {
            let rate = row.ceilings.issue_packets_per_s.unwrap();
            assert!((rate / 19.2e6 - 1.0).abs() < 1e-12, "{}: {rate}", row.name);
        }
    }
}
