// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions about line rate: the smallest frame size at which a path reaches line rate, and what
//! it takes to reach line rate with minimum-size frames.

use super::evidence::{frame_bytes, line, plain, quote, rate, run_of, strands_of};
use super::strands::REMEASURE;
use super::{Inquiry, Reply};
use crate::budget::{BudgetInputs, budget, ns_between, shortfall};
use linerate_cmt::processor::FRAME_MIN;
use linerate_plan::profile::given;
use linerate_record::Body;
use linerate_record::answers::{AnswerVerdict, Evidence};
use linerate_record::budget::LONGEST_FRAME;
use linerate_record::units::{BitsPerSecond, Kpps, three_digits};

const SHORTEST: f64 = FRAME_MIN as f64;

/// Fraction of line rate at the minimum frame size above which optimizing a single worker may
/// suffice. According to the Netra document, a path that reaches line rate with 300-byte frames can
/// be optimized to reach it with 250-byte frames, where it is at 84 % of line rate, but not with
/// 64-byte frames, where it is at 26 %. Half is in between.
const OPTIMISE_FROM: f64 = 0.5;

fn no_line(asked: &Inquiry<'_>) -> Reply {
    Reply::cannot_tell(
        "the record has no line rate",
        &format!("linerate explain {} --line 10Gb/s", asked.file),
    )
}

fn line_source(asked: &Inquiry<'_>) -> &'static str {
    match asked.line_bits_per_s {
        Some(_) => "given",
        None => "recorded line rate and mean frame size",
    }
}

pub(super) fn small_packets(asked: &Inquiry<'_>) -> Reply {
    let Some((packets_per_s, quoted)) = rate(asked) else {
        let next = "linerate run PATH.toml --rate max --record run.json";
        return Reply::cannot_tell("the record has no packet rate", next);
    };
    let Some(bits) = line(asked) else { return no_line(asked).because([quoted]) };
    let bytes = frame_bytes(asked);
    let found = shortfall(packets_per_s, bytes.unwrap_or(SHORTEST), bits);
    let shown = Kpps(packets_per_s / 1e3);
    let on_line = BitsPerSecond(bits);
    let evidence = [
        Some(quoted),
        Some(plain("line", bits, "bit/s", line_source(asked))),
        bytes.map(|bytes| plain("mean frame", bytes, "bytes", "record, FCS included")),
        Some(plain("holds from", found.holds_from_bytes.ceil(), "bytes", "model")),
        Some(plain(
            "share of line rate at 64 bytes",
            found.share_of_line_at_shortest,
            "ratio",
            "model",
        )),
    ];
    let evidence = evidence.into_iter().flatten();
    if found.share_of_line_at_shortest >= 1.0 {
        let sentence = format!("{shown} sustains {on_line} even with minimum-size frames");
        return Reply::does_not_arise(sentence).because(evidence);
    }
    let percent = three_digits(100.0 * found.share_of_line_at_shortest);
    let needed = three_digits(1.0 / found.share_of_line_at_shortest);
    let sentence = if let Some(share) = found.share_at_longest() {
        let at_longest = three_digits(100.0 * share);
        format!(
            "{shown} is too slow for {on_line} at every frame size: it fills {at_longest} % of the \
             line with {LONGEST_FRAME}-byte frames and {percent} % with 64-byte frames, if a \
             packet costs the same at every size"
        )
    } else {
        let from = found.holds_from_bytes.ceil();
        format!(
            "{shown} fills {on_line} with frames of {from:.0} bytes or more, but only {percent} % \
             of it with 64-byte frames, if a packet costs the same at every size"
        )
    };
    let advice = if found.share_of_line_at_shortest >= OPTIMISE_FROM {
        format!(
            "to reach line rate with 64-byte frames, the workers must be {needed} times as fast: \
             try compiler flags and inlining, and optimize hot stages"
        )
    } else {
        format!(
            "line rate with 64-byte frames requires {needed} times the current rate: use more \
             workers (replicas or a split); faster code alone seldom gains more than a factor of \
             two"
        )
    };
    let reply = Reply::answered(sentence).because(evidence).advise(&[&advice]);
    match asked.record.body {
        Body::Why(_) => reply.then(format!("linerate report {}", asked.file)),
        _ => reply.then("linerate tune PATH.toml"),
    }
}

pub(super) fn shortest_frames(asked: &Inquiry<'_>) -> Reply {
    let Some(bits) = line(asked) else { return no_line(asked) };
    if let Some(reply) = by_instructions(asked, bits) {
        return reply;
    }
    by_time(asked, bits)
}

/// Answers in terms of instructions, for a processor with a known issue rate; `None` without such a
/// processor, or if the instructions per packet are unknown.
fn by_instructions(asked: &Inquiry<'_>, bits: f64) -> Option<Reply> {
    let processor = asked.processor?;
    let paths = path_lengths(asked);
    let (name, path_length) = paths.first()?;
    let row_of = |instructions: f64| {
        let instructions = Some(instructions);
        let frames = &[FRAME_MIN];
        let inputs = BudgetInputs { processor, line_bits_per_s: bits, frames, instructions };
        budget(&inputs).rows.into_iter().next()
    };
    let row = row_of(*path_length)?;
    let (share, task) = (row.instructions_per_packet?, row.task.as_ref()?);
    let of_strand = |name: &str, path_length: f64| {
        let name = format!("{name} path length");
        plain(name, path_length, "instructions/packet", "the record")
    };
    let evidence: Vec<Evidence> = vec![
        of_strand(name, *path_length),
        plain("budget per strand", share, "instructions/packet", "tier model"),
        plain("time between packets", row.ns_per_packet, "ns", "tier model"),
        plain("strands", task.strands, "strands", "tier model"),
    ];
    let budget_of = |instructions: f64| match instructions < 100.0 {
        true => three_digits(instructions),
        false => format!("{instructions:.0}"),
    };
    let (path, share) = (path_length.round(), budget_of(task.pipelined_instructions));
    if task.strands <= 1.0 {
        let sentence = format!(
            "{name} executes {path} instructions per packet, within its budget of {share}: \
             instructions are not the bottleneck"
        );
        return Some(Reply::does_not_arise(sentence).because(evidence));
    }
    let is_enough = |strands: f64| match strands <= processor.strands() as f64 {
        true => "",
        false => "; the processor does not have that many strands",
    };
    let mut sentence = format!(
        "{name} executes {path} instructions per packet, more than its budget of {share}: with {} \
         strands in parallel, the budget of each is {}; in a pipeline, it is {share} per strand",
        task.strands,
        budget_of(task.parallel_instructions),
    );
    let others: Vec<(&str, f64, f64)> = paths[1..]
        .iter()
        .filter_map(|(name, path)| Some((name.as_str(), *path, row_of(*path)?.task?.strands)))
        .collect();
    let strands = task.strands + others.iter().map(|(_, _, strands)| strands).sum::<f64>();
    for (name, path, strands) in &others {
        sentence += &format!("; {name} executes {path:.0} (strands needed: {strands})");
    }
    if !others.is_empty() {
        sentence += &format!(
            "; in total, {strands} strands are needed if every packet on a line passes through all \
             of them"
        );
    }
    sentence += is_enough(strands);
    let advice: &[&str] = &[
        "replicate where packets are independent: the path length stays the same, but the budget \
         grows",
        "pipeline where packets are not independent: balance the stages, and expect handoffs to \
         add cost",
        "the instruction counts include idle polls, so fewer strands may suffice",
    ];
    let advice = if others.is_empty() { &advice[..2] } else { advice };
    let others = others.iter().map(|(name, path, _)| of_strand(name, *path));
    Some(Reply::answered(sentence).because(evidence).because(others).advise(advice))
}

/// Returns each strand's instructions per packet, in descending order.
fn path_lengths(asked: &Inquiry<'_>) -> Vec<(String, f64)> {
    let strands = strands_of(&asked.record.body).map_or(&[][..], |report| &report.strands);
    let of = |strand: &linerate_record::strands::StrandCounts| {
        Some((strand.label(), strand.instructions_per_packet.as_number()?))
    };
    let mut paths: Vec<(String, f64)> = strands.iter().filter_map(of).collect();
    paths.sort_by(|a, b| b.1.total_cmp(&a.1));
    paths
}

/// Answers in terms of time, for any machine: compares the time per packet, over all workers, with
/// the time between packets.
fn by_time(asked: &Inquiry<'_>, bits: f64) -> Reply {
    let Some(run) = run_of(&asked.record.body) else { return by_ticks_of_nodes(asked, bits) };
    let entered = run.workers.iter().filter(|worker| worker.segment == 0);
    let entered: f64 = entered.map(given).sum();
    // Ticks of work per packet entering the path, over all workers.
    let work: f64 =
        run.workers.iter().filter_map(|s| Some(s.ticks_per_packet.as_number()? * given(s))).sum();
    if entered <= 0.0 || work <= 0.0 {
        let next = "linerate run PATH.toml --time 10s --record run.json";
        return Reply::cannot_tell("no packet was timed", next);
    }
    let work_ns = work / entered / run.ticks_per_s * 1e9;
    let evidence = quote("processed", &run.processed_kpps).into_iter().chain([plain(
        "work per packet, all workers",
        work_ns,
        "ns",
        "tier sw",
    )]);
    let reply = against_the_line(work_ns, bits, evidence.collect());
    if reply.verdict == AnswerVerdict::Answered {
        return reply.then("linerate tune PATH.toml");
    }
    reply
}

/// Answers in terms of ticks spent in nodes, such as VPP graph nodes, where these ticks are mostly
/// work; each packet stays on one strand. The ticks in a dump are not used, as they include
/// polling.
fn by_ticks_of_nodes(asked: &Inquiry<'_>, bits: f64) -> Reply {
    let strands = strands_of(&asked.record.body).map_or(&[][..], |report| &report.strands);
    let slowest = strands
        .iter()
        .filter(|strand| !strand.nodes.is_empty())
        .filter_map(|strand| Some((strand, strand.ticks_per_packet.as_number()?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((strand, ticks)) = slowest else {
        return Reply::cannot_tell(
            "the record has neither stage times nor instructions per packet on a known processor",
            "linerate run PATH.toml --record run.json",
        );
    };
    if let Some(why) = strand.hidden_by_empty_polls() {
        return Reply::cannot_tell(&why, REMEASURE);
    }
    let machine = strands_of(&asked.record.body).and_then(|report| report.machine.as_ref());
    let Some(machine) = machine else {
        let next = "linerate import FILE --clock GHZ --record strands.json";
        return Reply::cannot_tell("the record's tick rate is unknown", next);
    };
    let evidence = quote(strand.label(), &strand.ticks_per_packet).into_iter().chain([plain(
        "tick rate",
        machine.clock_ghz,
        "GHz",
        "the record",
    )]);
    against_the_line(ticks / machine.clock_ghz, bits, evidence.collect())
}

/// Answers with the number of workers needed if every minimum-size packet takes `work_ns`.
fn against_the_line(work_ns: f64, bits: f64, mut evidence: Vec<Evidence>) -> Reply {
    let there_is = ns_between(SHORTEST, bits);
    evidence.push(plain("time between packets", there_is, "ns", "tier model"));
    let workers = (work_ns / there_is).ceil();
    let [work, there] = [work_ns, there_is].map(three_digits);
    if workers <= 1.0 {
        let sentence = format!(
            "a packet takes {work} ns of the {there} ns available: one worker \
                                is enough"
        );
        return Reply::does_not_arise(sentence).because(evidence);
    }
    let sentence = format!(
        "each packet takes {work} ns of work, and packets arrive every {there} ns: at least \
         {workers} workers are needed, even if distributing packets costs nothing"
    );
    let advice = &["prefer replicas, and pipeline the stages where state or packet order rules \
                    replicas out"];
    Reply::answered(sentence).because(evidence).advise(advice)
}
