// SPDX-License-Identifier: MIT OR Apache-2.0
//! The document that is written, section by section.

use super::reach::Row;
use crate::evidence::{bench, section};
use linerate_cmt::fit::{Found, LONG, Model, Pair};
use linerate_cmt::{Chip, Ranking, Run, StrandOutcome, rank};
use linerate_report::svg::{Compared, Plot, Title, compared, counted};
use std::error::Error;
use std::fmt::Write;
use std::time::Instant;

/// Why a section cannot be written: the simulator says, or a command.
type Fault = Box<dyn Error>;

/// Evaluations of the fits: of five parameters, of four, of three.
const CALLS: [u32; 3] = [260, 200, 120];

/// Those that configuration 1 alone tells.
const OF_ONE: [&str; 3] = ["rx_packet_stall_ns", "rx_empty_stall_ns", "tx_instructions"];

/// Those that configuration 2 alone tells.
const OF_TWO: [&str; 4] =
    ["bubble_cycles", "rx_packet_stall_ns", "rlp_instructions", "tx_instructions"];

/// What is simulated for a rate of a kind of pipe.
const KIND: Run = Run { warm_up_cycles: 250_000, cycles: 1_000_000, seed: 1 };

/// How wide the classes of rates are that a plot counts placements by.
const CLASS_KPPS: f64 = 5.0;

const ROLES: [&str; 4] = ["PDSN_RX", "RLP", "ATIF_RX", "ATIF_TX"];

/// The command that writes the page of the simulator, and the page.
const EVIDENCE: &str = "cargo xtask evidence netra";
const PAGE: &str = "simulator.md";

/// Core-cycles per second of processor time that the simulator is to do, and seconds in which all
/// placements are to be ranked.
const CYCLES_PER_S: f64 = 100e6;
const RANKED_S: f64 = 10.0;

/// By how much a configuration may be missed that nothing was fitted to.
const ALONE_WITHIN: f64 = 0.07;

/// The page, its plots, and what was wanted of the simulator beside what was found.
pub(super) struct Simulated {
    pub(super) text: String,
    pub(super) plots: Vec<Plot>,
    pub(super) rows: Vec<Row>,
}

/// An error that is to stay within a limit.
fn within(what: &str, error: f64, limit: f64) -> Row {
    Row {
        what: what.to_owned(),
        wanted: format!("within {:.0} %", 100.0 * limit),
        found: format!("{:+.1} %", 100.0 * error),
        holds: error.abs() <= limit,
        command: EVIDENCE.to_owned(),
        page: PAGE,
    }
}

/// Everything that is simulated.
pub(super) fn document(model: &Model, t2: Chip) -> Result<Simulated, Fault> {
    let mut rows = Vec::new();
    let mut text = format!(
        "# The Netra document's application, simulated\n\n\
         Written by `cargo xtask evidence netra`. Figures under \"observed\" are of {}; all others \
         are of tier `model`: nothing here was measured on the processors named.\n\n\
         The simulator: `crates/cmt`; the application: \
         `crates/cmt/data/applications/rlp.toml`.\n\n",
        model.application.source
    );
    parameters(model, &mut text)?;
    let plot = both(model, &mut text, &mut rows)?;
    alone(model, &mut text, &mut rows)?;
    causes(model, &mut text)?;
    neighbours(model, &mut text)?;
    on_t2(model, t2, &mut text)?;
    let rank_plot = placements(model, &mut text, &mut rows)?;
    let printed = bench("linerate-cmt", "simulate")?;
    rows.extend(speeds(&printed));
    text += &section(BENCH, &printed);
    let text = text.trim_end().to_owned() + "\n";
    Ok(Simulated { text, plots: vec![plot, rank_plot], rows })
}

const BENCH: &str = "cargo bench -p linerate-cmt --bench simulate";

/// The speeds that the bench prints, a line each: `NAME: SPEED M core-cycles ...`.
fn speeds(printed: &str) -> Vec<Row> {
    let of = |line: &str| {
        let (name, rest) = line.split_once(": ")?;
        let (millions, _) = rest.split_once(" M core-cycles")?;
        let millions: f64 = millions.trim().parse().ok()?;
        Some(Row {
            what: format!("million core-cycles per second of processor time, {name}"),
            wanted: format!("{:.0} or more", CYCLES_PER_S / 1e6),
            found: format!("{millions:.0}"),
            holds: millions * 1e6 >= CYCLES_PER_S,
            command: BENCH.to_owned(),
            page: PAGE,
        })
    };
    printed.lines().filter_map(of).collect()
}

fn table(pairs: &[Pair]) -> String {
    let mut text = "| figure | observed | model | error |\n|---|---:|---:|---:|\n".to_owned();
    for pair in pairs {
        let percent = 100.0 * pair.error();
        let _ = writeln!(
            text,
            "| {} | {:.2} | {:.2} | {percent:+.1} % |",
            pair.what, pair.observed, pair.found
        );
    }
    text + "\n"
}

/// The parameters; those that are fitted as found to fit both configurations.
fn parameters(model: &Model, text: &mut String) -> Result<(), Fault> {
    eprintln!("fit of both configurations");
    let joint = model.unfitted()?.fitted(&model.names(), &["1", "2"], CALLS[0])?;
    *text += "## Parameters\n\n\
              Fitted to both configurations; `in file` is what the application's file has, and \
              what the program uses.\n\n\
              | parameter | value | in file | origin | what it is, or how it was reckoned |\n\
              |---|---:|---:|---|---|\n";
    for (name, parameter) in &joint.application.parameters {
        let in_file = model.application.value(name)?;
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} |",
            short(parameter.value),
            short(in_file),
            parameter.origin.word(),
            parameter.text
        );
    }
    *text += "\nQueues of 256 packets and a hand-over of 23 cycles (the second cache's latency) \
              are assumed, and so is that a packet that finds a queue full is dropped: where \
              writers waited they would spin at a low CPI, unlike what was observed; and with \
              drops the combined receiver has as many misses of the second cache per packet in \
              table 10-6 as the receiver in table 10-7 (7.5 and 7.6).\n\n";
    Ok(())
}

/// Both configurations from the parameters in the file.
fn both(model: &Model, text: &mut String, rows: &mut Vec<Row>) -> Result<Plot, Fault> {
    *text += "## Both configurations, from the parameters in the file\n\n";
    let mut bars = Vec::new();
    for name in ["1", "2"] {
        let pairs = model.pairs(name, &LONG)?;
        rows.extend(pairs.iter().map(|pair| {
            within(
                &format!("{} of configuration {name}, joint fit", pair.what),
                pair.error(),
                pair.within,
            )
        }));
        let _ = write!(text, "Configuration {name}:\n\n{}", table(&pairs));
        bars.extend(pairs.iter().filter(|pair| pair.what != "kpps").map(|pair| Compared {
            name: format!("{}, configuration {name}", pair.what),
            observed: pair.observed,
            modelled: pair.found,
        }));
    }
    *text += "Seven figures, five parameters fitted to them: that they agree says little by \
              itself. What one configuration says of the other says more.\n\n\
              ![cycles per instruction, observed and of the model](cpi.svg)\n\n";
    let title = Title {
        name: "cpi".to_owned(),
        title: "RLP application on the UltraSPARC T1: cycles per instruction".to_owned(),
        note: format!("Observed: {}. Model: simulated, tier model.", model.application.source),
    };
    Ok(compared(&title, "cycles per instruction", &bars))
}

fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Each configuration from a fit of the other alone.
fn alone(model: &Model, text: &mut String, rows: &mut Vec<Row>) -> Result<(), Fault> {
    eprintln!("fits of one configuration");
    let start = model.unfitted()?;
    let of_one = start.fitted(&OF_ONE, &["1"], CALLS[2])?;
    let of_two = start.fitted(&OF_TWO, &["2"], CALLS[1])?;
    *text += "## One configuration from the other\n\n";
    for (fit, names, here, there, why) in [
        (
            &of_one,
            OF_ONE.as_slice(),
            "1",
            "2",
            "Configuration 1 has three figures. They do not tell bubbles from the stall of a \
             look, and nothing of RLP, which is not what limits it: these two stay at the middle \
             of their bounds.",
        ),
        (
            &of_two,
            OF_TWO.as_slice(),
            "2",
            "1",
            "Configuration 2 has four figures. The stall of a look that finds nothing only \
              concerns the idle receiver there, and stays at the middle of its bounds.",
        ),
    ] {
        let values = values(fit, names)?;
        let predicted = fit.pairs(there, &LONG)?;
        let what = format!("kpps of configuration {there}, fitted to {here} alone");
        rows.push(match there {
            "2" => within(&what, predicted[0].error(), ALONE_WITHIN),
            _ => Row {
                wanted: "to be said".to_owned(),
                holds: true,
                ..within(&what, predicted[0].error(), ALONE_WITHIN)
            },
        });
        let _ = write!(
            text,
            "### Fitted to configuration {here} alone\n\n{why} Found: {values}.\n\n\
             Configuration {here}, fitted:\n\n{}Configuration {there}, predicted:\n\n{}",
            table(&fit.pairs(here, &LONG)?),
            table(&predicted),
        );
    }
    sensitivity(&start, &of_two, text)?;
    *text += "### What leaks\n\n\
              Instructions per packet of a receiver are reckoned from the rate and the CPI of \
              PDSN_RX in configuration 2, and are part of the fit to configuration 1: of the two \
              only one is predicted there. Misses per packet are each configuration's own, \
              counted while it ran (tables 10-6 and 10-7); those of RLP in configuration 1, which \
              has no row for it, are of configuration 2. What is predicted, then, are contention, \
              the stalls of looks and the effect of the split, with what the caches do \
              given.\n\n";
    Ok(())
}

fn values(fit: &Model, names: &[&str]) -> Result<String, Fault> {
    let mut all = Vec::new();
    for name in names {
        let value = fit.application.value(name)?;
        all.push(format!("{name} {}", short(value)));
    }
    Ok(all.join(", "))
}

/// What the predictions hang on that the one configuration does not tell.
fn sensitivity(start: &Model, of_two: &Model, text: &mut String) -> Result<(), Fault> {
    *text += "### What the other does not tell, varied\n\n\
              | fitted to | held | predicted kpps | observed | error |\n|---|---|---:|---:|---:|\n";
    let mut row = |to: &str, held: String, pair: &Pair| {
        let percent = 100.0 * pair.error();
        let _ = writeln!(
            text,
            "| {to} | {held} | {:.1} | {:.0} | {percent:+.1} % |",
            pair.found, pair.observed
        );
    };
    for bubbles in [0.5, 1.5, 2.5] {
        let fit = start.with(&[("bubble_cycles", bubbles)])?.fitted(&OF_ONE, &["1"], CALLS[2])?;
        for rlp in [300.0, 500.0, 700.0] {
            let fit = fit.with(&[("rlp_instructions", rlp)])?;
            let held = format!("{bubbles} bubbles, {rlp} instructions of RLP");
            row("1", held, &fit.pairs("2", &LONG)?[0]);
        }
    }
    for ns in [50.0, 1000.0, 2000.0, 3000.0, 4000.0] {
        let fit = of_two.with(&[("rx_empty_stall_ns", ns)])?;
        row("2", format!("{ns} ns of a look that finds nothing"), &fit.pairs("1", &LONG)?[0]);
    }
    *text += "\n";
    Ok(())
}

/// Where the cycles of each role go.
fn causes(model: &Model, text: &mut String) -> Result<(), Fault> {
    *text += "## Cycles per instruction by cause\n\n\
              | configuration | role | CPI | issue | bubbles | first cache | second cache | \
              interface | other strands | instructions per packet |\n\
              |---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for name in ["1", "2"] {
        let found = model.run(&model.configuration(name)?.pipes, &LONG)?;
        for role in found.cpi.keys() {
            let _ = writeln!(text, "| {name} | {role} | {} |", by_cause(&found, role));
        }
    }
    *text += "\n";
    Ok(())
}

fn by_cause(found: &Found, role: &str) -> String {
    let per = |of: fn(&StrandOutcome) -> u64| {
        let share = |strand: &StrandOutcome| Some(of(strand) as f64 / strand.instructions as f64);
        found.mean(role, share).map_or_else(|| "-".to_owned(), |share| format!("{share:.2}"))
    };
    let per_packet = found.mean(role, StrandOutcome::instructions_per_packet);
    [
        format!("{:.2}", found.cpi[role]),
        per(|strand| strand.instructions),
        per(|strand| strand.stalls.bubbles),
        per(|strand| strand.stalls.l1),
        per(|strand| strand.stalls.l2),
        per(|strand| strand.stalls.io),
        per(|strand| strand.waited),
        per_packet.map_or_else(|| "-".to_owned(), |number| format!("{number:.0}")),
    ]
    .join(" | ")
}

/// Parked, polling and spinning neighbours in configuration 2.
fn neighbours(model: &Model, text: &mut String) -> Result<(), Fault> {
    *text += "## Neighbours: parked, polling, `while(1)`\n\n\
              Configuration 2 with something else on the strand of ATIF_RX, which handles no \
              packet. With the stall that was fitted, an idle look keeps the strand out of the \
              way as slow polling does; with a short look it takes turns from its neighbours, \
              which is what the document says of polling. The document has no figure for \
              either.\n\n\
              | on the strand of ATIF_RX | kpps | PDSN_RX CPI | RLP CPI | ATIF_TX CPI |\n\
              |---|---:|---:|---:|---:|\n";
    let pipes = &model.configuration("2")?.pipes;
    let instead = |word: &str| -> Vec<Vec<String>> {
        let one = |old: &String| match old.starts_with("ATIF_RX ") {
            true => word.to_owned(),
            false => old.clone(),
        };
        pipes.iter().map(|pipe| pipe.iter().map(one).collect()).collect()
    };
    let short = model.with(&[("rx_empty_stall_ns", 20.0)])?;
    for (name, model, pipes) in [
        ("parked", model, instead("parked")),
        ("polling, the fitted stall", model, pipes.clone()),
        ("polling, 20 ns of stall", &short, pipes.clone()),
        ("`while(1)`", model, instead("while(1)")),
    ] {
        let found = model.run(&pipes, &LONG)?;
        let cpi = |role| found.cpi.get(role).copied().unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "| {name} | {:.1} | {:.2} | {:.2} | {:.2} |",
            found.kpps,
            cpi("PDSN_RX"),
            cpi("RLP"),
            cpi("ATIF_TX")
        );
    }
    *text += "\n";
    Ok(())
}

/// The same application on the T2.
fn on_t2(model: &Model, chip: Chip, text: &mut String) -> Result<(), Fault> {
    *text += "## The same application on the UltraSPARC T2\n\n\
              Configurations as on the T1, pipe by pipe: eight pipes are four cores, whose two \
              pipes share a load/store unit (0.3 uses per instruction, assumed). Misses per \
              packet as on the T1; looks at the interface stall for as many nanoseconds as there, \
              or, with the interface on the chip, for as long as a load from memory \
              (assumed).\n\n\
              | configuration | looks | kpps | CPI |\n|---|---|---:|---|\n";
    let memory_ns = f64::from(chip.memory_cycles) / chip.clock_hz * 1e9;
    let far = Model { chip, ..model.clone() };
    let near = far.with(&[("rx_packet_stall_ns", memory_ns), ("rx_empty_stall_ns", memory_ns)])?;
    for name in ["1", "2"] {
        for (looks, model) in [("as on the T1", &far), ("as of memory", &near)] {
            let found = model.run(&model.configuration(name)?.pipes, &LONG)?;
            let cpi = found.cpi.iter().map(|(role, cpi)| format!("{role} {cpi:.2}"));
            let cpi = cpi.collect::<Vec<_>>().join(", ");
            let _ = writeln!(text, "| {name} | {looks} | {:.1} | {cpi} |", found.kpps);
        }
    }
    *text += "\n";
    Ok(())
}

/// All placements of the split application on the T1.
fn placements(model: &Model, text: &mut String, rows: &mut Vec<Row>) -> Result<Plot, Fault> {
    eprintln!("placements");
    let start = Instant::now();
    let ranking = rank(&model.application, &model.chip, &ROLES, &KIND);
    let ranking = ranking?;
    let seconds = start.elapsed().as_secs_f64();
    rows.push(Row {
        what: format!("seconds to rank {} placements on the T1", ranking.placements.len()),
        wanted: format!("less than {RANKED_S:.0}"),
        found: format!("{seconds:.1}"),
        holds: seconds < RANKED_S,
        command: EVIDENCE.to_owned(),
        page: PAGE,
    });
    let best = &ranking.placements[0];
    let whole = model.run(&ranking.pipes(best), &LONG)?.slowest_kpps;
    let _ = write!(
        text,
        "## Placements\n\n\
         The roles of configuration 2, four flows, on the T1 with all other strands parked: {} \
         placements up to symmetry, made of {} kinds of pipes. Ranked in {seconds:.1} s ({} M \
         core-cycles simulated, {} build): each kind by itself, a placement by its slowest pipe. \
         Rates are of the slowest flow.\n\n\
         No placement exceeds {:.1} kpps, what the slowest role has that is alone on its pipe. \
         The best of the ranking, simulated whole, has {whole:.1}: within {:.1} % of the best \
         there is.\n\n\
         | rank | kpps by its kinds | simulated whole | error | pipes |\n\
         |---:|---:|---:|---:|---|\n",
        ranking.placements.len(),
        ranking.kinds.len(),
        ranking.core_cycles / 1_000_000,
        if cfg!(debug_assertions) { "development" } else { "release" },
        ranking.bound_kpps,
        (100.0 * (ranking.bound_kpps / whole - 1.0)).max(0.0),
    );
    let last = ranking.placements.len() - 1;
    let own = ranking.place_of(&vec![vec![1; ROLES.len()]; model.application.flows as usize]);
    for place in [0, 1, last / 4, last / 2, 3 * last / 4, last] {
        *text += &placed(model, &ranking, place, "")?;
    }
    if let Some(own) = own {
        *text += &placed(model, &ranking, own, " (configuration 2)")?;
    }
    *text += "\n![how many placements carry which rate](placements.svg)\n\n";
    let title = Title {
        name: "placements".to_owned(),
        title: "RLP application on the UltraSPARC T1: all placements".to_owned(),
        note: format!(
            "By the kpps of their slowest flow, tier model; none exceeds {:.1}.",
            ranking.bound_kpps
        ),
    };
    Ok(counted(&title, "placements", &classes(&ranking)))
}

/// Placements by rate, the fastest first.
fn classes(ranking: &Ranking) -> Vec<(String, u64)> {
    let mut classes: Vec<(String, u64)> = Vec::new();
    for placement in &ranking.placements {
        let from = (placement.kpps / CLASS_KPPS).floor() * CLASS_KPPS;
        let name = format!("{from} to {} kpps", from + CLASS_KPPS);
        match classes.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => classes.push((name, 1)),
        }
    }
    classes
}

/// A row of the table of placements.
fn placed(model: &Model, ranking: &Ranking, place: usize, note: &str) -> Result<String, Fault> {
    let placement = &ranking.placements[place];
    let whole = model.run(&ranking.pipes(placement), &LONG)?.slowest_kpps;
    let pipes = placement.pipes.iter().map(|kind| {
        let strands = ranking.kinds[*kind].strands.iter().zip(&ranking.roles);
        let words = strands.filter(|(times, _)| **times > 0);
        words.map(|(times, role)| format!("{times} {role}")).collect::<Vec<_>>().join(" + ")
    });
    Ok(format!(
        "| {}{note} | {:.1} | {whole:.1} | {:+.1} % | {} |\n",
        place + 1,
        placement.kpps,
        100.0 * (placement.kpps / whole - 1.0),
        pipes.collect::<Vec<_>>().join("; ")
    ))
}
