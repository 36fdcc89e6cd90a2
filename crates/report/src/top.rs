// SPDX-License-Identifier: MIT OR Apache-2.0
//! The screen of `linerate top`: what a program is doing now, in a given number of lines.
//!
//! ```text
//! lines for tables = lines - header - footer
//! threads, packets and functions get a third of them each, or fewer if they have fewer rows
//! the remaining lines go to functions, then threads, then packets
//! ```

mod table;

use crate::Style;
use crate::layout::Paint;
use crate::value::{ABSENT, clean, interval, percent, significant};
use crate::why::packets::{is_of_interest, lost, name};
use linerate_record::stats::{interval_name, sampled_share};
use linerate_record::units::{self, counted, three_digits};
use linerate_record::why::ledger::{LedgerRow, PacketLedger, ledger};
use linerate_record::why::{CpuCounts, FunctionTime, Observation, ThreadActivity, ThreadState};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;
use table::{Align, Column, Table};

/// How to show an observation on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopView {
    /// Maximum number of lines; `None` for plain text output.
    pub lines: Option<usize>,
    /// Whether the view is paused.
    pub is_paused: bool,
}

/// Maximum number of rows per table in plain text output.
const PLAIN_ROWS: usize = 12;
/// Lines of a table in addition to its rows: a blank line and the headings.
const HEAD_LINES: usize = 2;
/// A thread state is shown only if at least one thread spends this fraction of its time or more in
/// the state. Waiting for a CPU and sleeping are never left out.
const VISIBLE: f64 = 0.005;

/// Formats the last window of an observation, in lines no wider than the style allows.
pub fn top(observation: &Observation, view: &TopView, style: &Style) -> Vec<String> {
    let packets = ledger(observation);
    let header = [headline(observation), packet_line(observation, &packets)];
    let footer = footer(observation, view);
    let mut tables = [
        match observation.threads.is_empty() && observation.watched.interface.is_some() {
            true => cpus(observation),
            false => threads(observation),
        },
        layers(observation, &packets),
        functions(observation),
    ];
    let is_lossy = packets.lost().is_some_and(|lost| lost > 0);
    let mut lines = vec![
        (header[0].clone(), Some(Paint::Head)),
        (header[1].clone(), is_lossy.then_some(Paint::Warning)),
    ];
    for (table, rows) in tables.iter_mut().zip(rows(view, &sizes(observation, &packets))) {
        if rows > 0 {
            table.limit(rows);
            lines.push((String::new(), None));
            lines.extend(table.lines());
        }
    }
    if let Some(most) = view.lines {
        lines.truncate(most.saturating_sub(1));
        lines.resize(most.saturating_sub(1), (String::new(), None));
    } else {
        lines.push((String::new(), None));
    }
    lines.push((footer, None));
    lines.truncate(view.lines.unwrap_or(usize::MAX));
    lines.into_iter().map(|(text, paint)| fitted(&text, paint, style)).collect()
}

/// Cuts a line to the width, then paints it.
fn fitted(text: &str, paint: Option<Paint>, style: &Style) -> String {
    let text: String = clean(text).chars().take(style.width).collect();
    let text = text.trim_end();
    match paint {
        Some(paint) => crate::layout::painted(paint, text, style),
        None => text.to_owned(),
    }
}

/// Returns the number of rows that each table would have without a limit.
fn sizes(observation: &Observation, packets: &PacketLedger) -> [usize; 3] {
    let threads = match observation.threads.len() {
        0 if observation.watched.interface.is_some() => observation.cpus.len(),
        threads => threads,
    };
    let layers = packets.rows.iter().filter(|row| is_shown(row, observation)).count();
    [threads, layers, hottest(observation).1.len()]
}

/// Divides the available lines among the tables. Returns the number of rows of each table.
fn rows(view: &TopView, sizes: &[usize; 3]) -> [usize; 3] {
    let Some(lines) = view.lines else { return sizes.map(|size| size.min(PLAIN_ROWS)) };
    // Two lines of header, one of footer.
    let mut left = lines.saturating_sub(3);
    let mut rows = [0; 3];
    // Threads first, then functions: packets have their own line in the header.
    for (at, others) in [(0, 3), (2, 2), (1, 1)] {
        let share = (left / others).saturating_sub(HEAD_LINES);
        rows[at] = share.min(sizes[at]);
        if rows[at] > 0 {
            left -= rows[at] + HEAD_LINES;
        }
    }
    for at in [2, 0, 1].into_iter().filter(|at| rows[*at] > 0).collect::<Vec<_>>() {
        let more = left.min(sizes[at] - rows[at]);
        rows[at] += more;
        left -= more;
    }
    rows
}

/// Formats the watched processes and their CPU time.
fn headline(observation: &Observation) -> String {
    let watched = &observation.watched;
    let pids = match watched.pids.as_slice() {
        [] => String::new(),
        [one] => format!(", pid {one}"),
        [first, others @ ..] => {
            format!(", pid {first} and {}", counted(others.len() as u64, "other"))
        }
    };
    let threads = observation.threads.len() as u64 + u64::from(observation.threads_left_out);
    let threads = match threads {
        0 => String::new(),
        n => format!(", {}", counted(n, "thread")),
    };
    let run = |thread: &ThreadActivity| {
        thread.share_of(ThreadState::is_on_cpu) * thread.elapsed_s / observation.elapsed_s
    };
    let cpus = match (&watched.interface, observation.threads.as_slice()) {
        (Some(_), []) => {
            let busy: f64 = observation.cpus.iter().map(|cpu| 1.0 - cpu.idle).sum();
            format!("{} of {} CPUs busy", three_digits(busy), observation.cpus.len())
        }
        (_, threads) => program_cpus(observation, threads.iter().map(run).sum()),
    };
    let ended = watched.ended.as_ref().map_or_else(String::new, |how| format!("; ended: {how}"));
    let name = &watched.name;
    format!("{name}{pids}{threads}, last {} s: {cpus}{ended}", significant(observation.elapsed_s))
}

/// Formats the CPUs that a program uses: those of its threads, `observed`, and those of threads and
/// child processes that ended before they could be read twice. Without these, a program that starts
/// a thread per connection would seem idle.
fn program_cpus(observation: &Observation, observed: f64) -> String {
    let error = ended_error(observation, observed);
    let parts = [
        (observation.ended_threads_cpus, "ended threads"),
        (observation.ended_children_cpus, "ended child processes"),
    ];
    let parts = parts.map(|(cpus, what)| (cpus.filter(|cpus| *cpus >= error), what));
    let all = observed + parts.iter().filter_map(|(cpus, _)| *cpus).sum::<f64>();
    let of_it = parts
        .iter()
        .filter_map(|(cpus, what)| Some(format!("{} in {what}", three_digits((*cpus)?))));
    let of_it: Vec<String> = of_it.collect();
    let of_it = if of_it.is_empty() { String::new() } else { format!(" ({})", of_it.join(", ")) };
    units::cpus(all) + &of_it
}

/// Returns the error of the CPU time of ended threads, in CPUs. It is the difference between the
/// CPU time of processes and that of threads, both rounded down to ticks of 10 ms: each of `n`
/// times has an error of at most one tick, with a standard deviation of `1/sqrt(6)` ticks, as the
/// difference of two rounding errors. The result is three standard deviations of their sum, at
/// least 5 % of a CPU, and 5 % of the CPUs in use, because processes are read later than threads.
fn ended_error(observation: &Observation, observed: f64) -> f64 {
    const TICK_S: f64 = 0.01;
    const LEAST: f64 = 0.05;
    let times = observation.threads.len() + observation.watched.pids.len();
    let ticks = 3.0 * (times as f64 / 6.0).sqrt();
    (ticks * TICK_S / observation.elapsed_s).max(LEAST) + 0.05 * observed
}

/// Formats packets and losses per second on one line.
fn packet_line(observation: &Observation, packets: &PacketLedger) -> String {
    let rate = |number: u64| significant(number as f64 / observation.elapsed_s);
    let counted = observation.packets.as_ref().map_or_else(
        || "packets not counted".to_owned(),
        |count| format!("{} packets/s ({})", rate(count.packets), count.counter),
    );
    let lost = match (packets.lost(), packets.largest()) {
        (None, _) => "losses not counted".to_owned(),
        (Some(_), None) => "none lost".to_owned(),
        (Some(lost), Some(largest)) => {
            format!("{} lost/s, most at {}: {}", rate(lost), largest.row.of, largest.reason)
        }
    };
    format!("{counted}; {lost}")
}

fn footer(observation: &Observation, view: &TopView) -> String {
    let own = match observation.observer.as_number() {
        Some(own) => format!("linerate itself: {} % of a CPU", three_digits(own * 100.0)),
        None => String::new(),
    };
    let mut names: Vec<&str> = observation.unread.iter().map(|one| one.what.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let unread = match names.is_empty() {
        true => String::new(),
        false => format!("; not read: {} (`linerate why --details`)", names.join(", ")),
    };
    match (view.lines, view.is_paused) {
        (None, _) => format!("{own}{unread}"),
        (Some(_), true) => format!("PAUSED  space: resume  q: quit  {own}{unread}"),
        (Some(_), false) => format!("q: quit  space: pause  +/-: faster, slower  {own}{unread}"),
    }
}

/// Returns the table of the threads' time budgets, as in `why`.
fn threads(observation: &Observation) -> Table {
    let threads = &observation.threads;
    let share = |thread: &ThreadActivity, state| thread.share(state).and_then(Figure::as_number);
    let is_shown = |state: &ThreadState| {
        let is_rare = !matches!(state, ThreadState::Waiting | ThreadState::Asleep);
        let has = |thread: &ThreadActivity| match share(thread, *state) {
            Some(share) => !is_rare || share.abs() >= VISIBLE,
            None => false,
        };
        threads.iter().any(has)
    };
    let states: Vec<ThreadState> = ThreadState::ALL.into_iter().filter(is_shown).collect();
    let mut columns = vec![
        Column::new("thread", Align::Left),
        Column::new("tid", Align::Right),
        Column::new("cpu", Align::Right),
    ];
    columns.extend(states.iter().map(|state| Column::new(head(*state), Align::Right)));
    columns.push(Column::new("ns/packet", Align::Right));
    let mut table = Table::new(columns, "threads");
    for thread in threads {
        let cpu = thread.ran_on.first().map_or_else(|| ABSENT.to_owned(), u32::to_string);
        let mut cells = vec![thread.name.clone(), thread.tid.to_string(), cpu];
        let cell = |state| share(thread, state).map_or_else(|| ABSENT.to_owned(), percent);
        cells.extend(states.iter().map(|state| cell(*state)));
        cells.push(thread.cost_ns.as_number().map_or_else(|| ABSENT.to_owned(), three_digits));
        let has_loss = [ThreadState::Waiting, ThreadState::Throttled, ThreadState::Stolen]
            .into_iter()
            .any(|state| share(thread, state).is_some_and(|share| share >= 0.05));
        table.row(cells, has_loss.then_some(Paint::Warning));
    }
    table
}

fn head(state: ThreadState) -> &'static str {
    match state {
        ThreadState::User => "user%",
        ThreadState::Work => "work%",
        ThreadState::Polling => "poll%",
        ThreadState::Kernel => "kernel%",
        ThreadState::Interrupts => "softirq%",
        ThreadState::Waiting => "wait%",
        ThreadState::Throttled => "quota%",
        ThreadState::Stolen => "stolen%",
        ThreadState::Asleep => "asleep%",
        ThreadState::Unaccounted => "rest%",
    }
}

/// Returns the table of CPUs, for an interface that is watched without a program.
fn cpus(observation: &Observation) -> Table {
    let heads = ["cpu", "user%", "kernel%", "softirq%", "stolen%", "idle%", "packets/s", "drops/s"];
    let table = heads.map(|head| Column::new(head, Align::Right)).to_vec();
    let mut table = Table::new(table, "CPUs");
    let mut cpus: Vec<&CpuCounts> = observation.cpus.iter().collect();
    cpus.sort_by(|a, b| a.idle.total_cmp(&b.idle).then(a.cpu.cmp(&b.cpu)));
    let rate = |number: u64| significant(number as f64 / observation.elapsed_s);
    for cpu in cpus {
        let mut cells = vec![cpu.cpu.to_string()];
        cells.extend([cpu.user, cpu.system, cpu.interrupts, cpu.stolen, cpu.idle].map(percent));
        cells.extend([rate(cpu.backlog_processed), rate(cpu.backlog_dropped)]);
        table.row(cells, (cpu.backlog_dropped > 0).then_some(Paint::Warning));
    }
    table
}

fn is_shown(row: &LedgerRow, observation: &Observation) -> bool {
    is_of_interest(row, observation)
}

/// Returns the table of the packet ledger, with rates per second.
fn layers(observation: &Observation, packets: &PacketLedger) -> Table {
    let columns = vec![
        Column::new("packets", Align::Left),
        Column::new("of", Align::Left),
        Column::new("per s", Align::Right),
        Column::new("lost/s", Align::Right),
        Column::new("where they went", Align::Left),
    ];
    let rate = |number: u64| significant(number as f64 / observation.elapsed_s);
    let mut table = Table::new(columns, "layers");
    for row in packets.rows.iter().filter(|row| is_shown(row, observation)) {
        let lost = lost(row);
        let reason = row.losses.iter().max_by_key(|loss| loss.packets);
        let reason = match (reason, row.unaccounted.filter(|rest| *rest > 0)) {
            (_, Some(_)) => "in the program's ring, which has no counter".to_owned(),
            (Some(loss), None) => format!("{}: {}", loss.reason, loss.counter),
            (None, None) => String::new(),
        };
        let cells = vec![
            name(row.layer).to_owned(),
            row.of.clone(),
            row.packets.map_or_else(|| ABSENT.to_owned(), rate),
            lost.map_or_else(|| ABSENT.to_owned(), rate),
            reason,
        ];
        table.row(cells, lost.is_some_and(|lost| lost > 0).then_some(Paint::Warning));
    }
    table
}

/// A function and its share.
type Shared<'a> = (&'a FunctionTime, f64);

/// Functions of a thread or a CPU.
struct Part<'a> {
    functions: &'a [FunctionTime],
    /// Factor that turns the functions' shares into shares of the samples.
    scale: f64,
    samples: f64,
    weight: f64,
}

/// Returns the functions of all threads or, without threads, of all CPUs, hottest first, and the
/// number of samples that determines the errors of their shares.
///
/// Threads count by their CPU time rather than by their samples: a thread that switches often is
/// sampled only in some of the windows. Shares of CPUs are shares of their kernel samples.
fn hottest(observation: &Observation) -> (u64, Vec<Shared<'_>>) {
    let of_thread = |thread: &'_ ThreadActivity| {
        thread.share_of(ThreadState::is_on_cpu).max(0.0) * thread.elapsed_s
    };
    let mut parts: Vec<Part<'_>> = match observation.threads.as_slice() {
        [] => observation.cpus.iter().map(of_cpu).collect(),
        threads => threads
            .iter()
            .map(|thread| Part {
                functions: &thread.functions,
                scale: 1.0,
                samples: thread.samples as f64,
                weight: of_thread(thread),
            })
            .collect(),
    };
    parts.retain(|part| part.samples > 0.0 && !part.functions.is_empty());
    if parts.iter().all(|part| part.weight == 0.0) {
        // Nothing runs in this window: show what ran before.
        parts.iter_mut().for_each(|part| part.weight = part.samples);
    }
    let all: f64 = parts.iter().map(|part| part.weight).sum();
    let mut found = BTreeMap::<(&str, &str), Shared<'_>>::new();
    for part in parts.iter().filter(|part| part.weight > 0.0) {
        for function in part.functions {
            let key = (function.name.as_str(), function.file.as_str());
            let share = function.share * part.scale * part.weight / all;
            found.entry(key).or_insert((function, 0.0)).1 += share;
        }
    }
    let mut found: Vec<Shared<'_>> = found.into_values().collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.name.cmp(&b.0.name)));
    // The effective number of samples: this number of samples with equal weights would have the
    // same errors.
    let squares: f64 = parts.iter().map(|part| part.weight.powi(2) / part.samples).sum();
    ((all.powi(2) / squares.max(f64::MIN_POSITIVE)) as u64, found)
}

/// Returns a CPU's kernel functions. The record has their shares relative to the window; here, they
/// are relative to the CPU's kernel samples, by which CPUs are weighted.
fn of_cpu(cpu: &CpuCounts) -> Part<'_> {
    let samples = cpu.samples as f64;
    let listed: f64 = cpu.functions.iter().map(|function| function.share).sum();
    let scale = 1.0 / listed.max(f64::MIN_POSITIVE);
    Part { functions: &cpu.functions, scale, samples, weight: samples }
}

/// Returns the table of the hottest functions.
fn functions(observation: &Observation) -> Table {
    let (samples, found) = hottest(observation);
    let interval_head = interval_name() + " %";
    let columns = vec![
        Column::new("share%", Align::Right),
        Column::new(&interval_head, Align::Left),
        Column::new("function (module)", Align::Left),
    ];
    let mut table = Table::new(columns, "functions");
    for (function, share) in found {
        let share = sampled_share((share * samples as f64).round() as u64, samples);
        let share = Figure::number("ratio", share, Tier::Sw, "samples");
        let polling = if function.is_polling == Some(true) { ", polling" } else { "" };
        let cells = vec![
            share.as_number().map_or_else(|| ABSENT.to_owned(), percent),
            interval(&share, percent).unwrap_or_else(|| ABSENT.to_owned()),
            format!("{} ({}{polling})", function.name, function.file),
        ];
        table.row(cells, None);
    }
    table
}
