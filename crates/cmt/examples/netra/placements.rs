// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ranks all placements of the split application on the T1.

use crate::{Fault, percent};
use linerate_cmt::fit::{LONG, Model};
use linerate_cmt::{Ranking, Run, rank};
use linerate_report::markdown_table;
use linerate_report::svg::{Title, counted};
use std::fs;
use std::time::Instant;

/// Simulation settings for finding the capacity of one kind of pipe.
const KIND: Run = Run { warm_up_cycles: 250_000, cycles: 1_000_000, seed: 1 };

/// The plot groups placements into classes by rate, each this many kpps wide.
const CLASS_KPPS: f64 = 5.0;

const ROLES: [&str; 4] = ["PDSN_RX", "RLP", "ATIF_RX", "ATIF_TX"];

/// Time limit for ranking all placements, in seconds.
const RANKED_S: f64 = 10.0;

pub(crate) fn placements(model: &Model, file: &str) -> Result<String, Fault> {
    let start = Instant::now();
    let ranking = rank(&model.application, &model.chip, &ROLES, &KIND)?;
    let seconds = start.elapsed().as_secs_f64();
    let title = Title {
        name: "placements".to_owned(),
        title: "RLP application on the UltraSPARC T1: all placements".to_owned(),
        note: format!(
            "By the kpps of their slowest flow, tier model; none exceeds {:.1}.",
            ranking.bound_kpps
        ),
    };
    fs::write(file, counted(&title, "placements", &classes(&ranking)).svg)?;
    Ok(summary(model, &ranking, seconds)? + &table(model, &ranking)?)
}

fn summary(model: &Model, ranking: &Ranking, seconds: f64) -> Result<String, Fault> {
    let whole = model.run(&ranking.pipes(&ranking.placements[0]), &LONG)?.slowest_kpps;
    Ok(format!(
        "{} placements up to symmetry, made of {} kinds of pipes, ranked in {seconds:.1} s ({} M \
         core cycles simulated); goal: less than {RANKED_S:.0} s.\n\n\
         No placement exceeds {:.1} kpps, the rate of the slowest role alone on its pipe. \
         The best of the ranking, simulated as a whole, reaches {whole:.1} kpps: within {:.1} % of \
         the optimum.\n\n",
        ranking.placements.len(),
        ranking.kinds.len(),
        ranking.core_cycles / 1_000_000,
        ranking.bound_kpps,
        (100.0 * (ranking.bound_kpps / whole - 1.0)).max(0.0),
    ))
}

/// Tabulates an excerpt of the ranking: the first two places, the quartiles, the last place, and
/// configuration 2.
fn table(model: &Model, ranking: &Ranking) -> Result<String, Fault> {
    let last = ranking.placements.len() - 1;
    let own = ranking.place_of(&vec![vec![1; ROLES.len()]; model.application.flows as usize]);
    let places = [0, 1, last / 4, last / 2, 3 * last / 4, last].map(|place| (place, ""));
    let own = own.map(|place| (place, " (configuration 2)"));
    let mut rows = Vec::new();
    for (place, note) in places.into_iter().chain(own) {
        rows.push(row(model, ranking, place, note)?);
    }
    let columns = [">rank", ">kpps by kinds", ">kpps simulated as a whole", ">error", "pipes"];
    Ok(markdown_table(&columns, rows))
}

fn row(model: &Model, ranking: &Ranking, place: usize, note: &str) -> Result<Vec<String>, Fault> {
    let placement = &ranking.placements[place];
    let whole = model.run(&ranking.pipes(placement), &LONG)?.slowest_kpps;
    let pipes = placement.pipes.iter().map(|kind| {
        let strands = ranking.kinds[*kind].strands.iter().zip(&ranking.roles);
        let words = strands.filter(|(times, _)| **times > 0);
        words.map(|(times, role)| format!("{times} {role}")).collect::<Vec<_>>().join(" + ")
    });
    Ok(vec![
        format!("{}{note}", place + 1),
        format!("{:.1}", placement.kpps),
        format!("{whole:.1}"),
        percent(placement.kpps / whole - 1.0),
        pipes.collect::<Vec<_>>().join("; "),
    ])
}

/// Counts the placements in each rate class, fastest class first.
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
