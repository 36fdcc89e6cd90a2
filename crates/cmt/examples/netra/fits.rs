// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tabulates parameters fitted to one or both configurations, and the resulting predictions.

use crate::{Fault, percent};
use linerate_cmt::fit::{LONG, Model, Pair};
use linerate_report::markdown_table;
use linerate_report::svg::{Compared, Title, compared};
use std::fs;

/// Number of function evaluations when fitting five parameters to both configurations.
const CALLS: u32 = 260;

/// Maximum relative error of the rate that a fit predicts for the configuration that it did not
/// use.
const ALONE_WITHIN: f64 = 0.07;

/// A cross-validation: the parameters are fitted to one configuration (`here`), and the fit
/// predicts the other one (`there`).
pub(crate) struct Alone {
    here: &'static str,
    /// Name of the configuration that is predicted.
    there: &'static str,
    /// Parameters that can be fitted to configuration `here` alone.
    names: &'static [&'static str],
    calls: u32,
    /// Maximum relative error of the predicted rate; `None` for no limit.
    within: Option<f64>,
}

pub(crate) const OF_ONE: Alone = Alone {
    here: "1",
    there: "2",
    names: &["rx_packet_stall_ns", "rx_empty_stall_ns", "tx_instructions"],
    calls: 120,
    within: Some(ALONE_WITHIN),
};

pub(crate) const OF_TWO: Alone = Alone {
    here: "2",
    there: "1",
    names: &["bubble_cycles", "rx_packet_stall_ns", "rlp_instructions", "tx_instructions"],
    calls: 200,
    within: None,
};

impl Alone {
    fn fitted(&self, start: &Model) -> Result<Model, Fault> {
        Ok(start.fitted(self.names, &[self.here], self.calls)?)
    }
}

/// Tabulates the parameters as fitted to both configurations, next to their values in the
/// application's file.
pub(crate) fn parameters(model: &Model) -> Result<String, Fault> {
    let joint = model.unfitted()?.fitted(&model.names(), &["1", "2"], CALLS)?;
    let mut rows = Vec::new();
    for (name, parameter) in &joint.application.parameters {
        let in_file = model.application.value(name)?;
        rows.push(vec![
            name.clone(),
            short(parameter.value),
            short(in_file),
            parameter.origin.word().to_owned(),
            parameter.text.clone(),
        ]);
    }
    let columns =
        ["parameter", ">value", ">in file", "origin", "what it is, or how it was calculated"];
    Ok(markdown_table(&columns, rows))
}

/// Formats a value with at most three decimal places.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Tabulates the results for both configurations, with the parameters in the application's file.
/// Writes a CPI plot to `file`.
pub(crate) fn both(model: &Model, file: &str) -> Result<String, Fault> {
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for name in ["1", "2"] {
        let pairs = model.pairs(name, &LONG)?;
        rows.extend(pairs.iter().map(|pair| row(name, pair, Some(pair.within))));
        bars.extend(pairs.iter().filter(|pair| pair.what != "kpps").map(|pair| Compared {
            name: format!("{}, configuration {name}", pair.what),
            observed: pair.observed,
            modelled: pair.found,
        }));
    }
    let title = Title {
        name: "cpi".to_owned(),
        title: "RLP application on the UltraSPARC T1: cycles per instruction".to_owned(),
        note: format!("Observed: {}. Model: simulated, tier model.", model.application.source),
    };
    fs::write(file, compared(&title, "cycles per instruction", &bars).svg)?;
    Ok(markdown_table(&COLUMNS, rows))
}

const COLUMNS: [&str; 7] =
    ["configuration", "figure", ">observed", ">model", ">error", ">allowed", "holds"];

/// Returns the table row for one figure of a configuration. The row states whether the figure's
/// error is within the limit.
fn row(configuration: &str, pair: &Pair, within: Option<f64>) -> Vec<String> {
    let (allowed, holds) = match within {
        Some(within) => (
            format!("{:.0} %", 100.0 * within),
            if pair.error().abs() <= within { "yes" } else { "**no**" },
        ),
        None => ("-".to_owned(), "-"),
    };
    vec![
        configuration.to_owned(),
        pair.what.clone(),
        format!("{:.2}", pair.observed),
        format!("{:.2}", pair.found),
        percent(pair.error()),
        allowed,
        holds.to_owned(),
    ]
}

/// Fits the parameters to one configuration and predicts the other.
pub(crate) fn alone(model: &Model, of: &Alone) -> Result<String, Fault> {
    let fit = of.fitted(&model.unfitted()?)?;
    let mut values = Vec::new();
    for name in of.names {
        values.push(format!("{name} {}", short(fit.application.value(name)?)));
    }
    let fitted = fit.pairs(of.here, &LONG)?;
    let predicted = fit.pairs(of.there, &LONG)?;
    let rows = fitted.iter().map(|pair| row(&format!("{}, fitted", of.here), pair, None));
    let there = format!("{}, predicted", of.there);
    let of_there =
        predicted.iter().map(|pair| row(&there, pair, of.within.filter(|_| pair.what == "kpps")));
    let table = markdown_table(&COLUMNS, rows.chain(of_there));
    Ok(format!("Found: {}.\n\n{table}", values.join(", ")))
}

/// Varies the parameters that a fit to one configuration leaves undetermined, and tabulates the
/// resulting predictions for the other configuration.
pub(crate) fn varied(model: &Model) -> Result<String, Fault> {
    let start = model.unfitted()?;
    let of_two = OF_TWO.fitted(&start)?;
    let mut rows = Vec::new();
    let mut row = |to: &str, held: String, pair: &Pair| {
        let (found, observed) = (format!("{:.1}", pair.found), format!("{:.0}", pair.observed));
        rows.push(vec![to.to_owned(), held, found, observed, percent(pair.error())]);
    };
    for bubbles in [0.5, 1.5, 2.5] {
        let fit = OF_ONE.fitted(&start.with(&[("bubble_cycles", bubbles)])?)?;
        for rlp in [300.0, 500.0, 700.0] {
            let fit = fit.with(&[("rlp_instructions", rlp)])?;
            let held = format!("{bubbles} bubbles, {rlp} instructions of RLP");
            row("1", held, &fit.pairs("2", &LONG)?[0]);
        }
    }
    for ns in [50.0, 1000.0, 2000.0, 3000.0, 4000.0] {
        let fit = of_two.with(&[("rx_empty_stall_ns", ns)])?;
        row("2", format!("{ns} ns for a poll that finds nothing"), &fit.pairs("1", &LONG)?[0]);
    }
    let columns = ["fitted to", "held", ">predicted kpps", ">observed", ">error"];
    Ok(markdown_table(&columns, rows))
}
