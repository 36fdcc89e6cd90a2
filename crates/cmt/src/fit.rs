// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the simulator says of a configuration, beside what was observed, and the fits of it.

use super::fit::least;
use linerate_cmt::{
    Application, Chip, Configuration, Origin, Outcome, Run, StrandOutcome, simulate,
};
use std::collections::BTreeMap;

/// An application on a chip.
#[derive(Clone)]
pub(super) struct Model {
    pub(super) application: Application,
    pub(super) chip: Chip,
}

/// What is simulated for a table.
pub(super) const LONG: Run = Run { warm_up_cycles: 3_000_000, cycles: 12_000_000, seed: 1 };

/// What is simulated for a step of a fit.
const SHORT: Run = Run { warm_up_cycles: 1_500_000, cycles: 2_500_000, seed: 1 };

/// What errors weigh: those that count as one, of rates and of cycles per instruction.
const WITHIN: (f64, f64) = (0.05, 0.12);

/// What a configuration came to.
pub(super) struct Found {
    pub(super) outcome: Outcome,
    /// Thousand packets per second that leave, mean of the flows.
    pub(super) kpps: f64,
    /// The same of the slowest flow.
    pub(super) slowest_kpps: f64,
    /// By role, mean of the flows.
    pub(super) cpi: BTreeMap<String, f64>,
}

/// Something observed, and what the model says of it.
pub(super) struct Pair {
    pub(super) what: String,
    pub(super) observed: f64,
    pub(super) found: f64,
    /// The error that counts as one, and the most there is to be.
    pub(super) within: f64,
}

impl Pair {
    pub(super) fn error(&self) -> f64 {
        self.found / self.observed - 1.0
    }
}

/// The strands of an outcome that play a role.
pub(super) fn of_role<'o>(
    outcome: &'o Outcome,
    role: &'o str,
) -> impl Iterator<Item = &'o StrandOutcome> + Clone {
    outcome
        .strands
        .iter()
        .filter(move |strand| strand.name.rsplit_once(' ').is_some_and(|(name, _)| name == role))
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

impl Model {
    /// The same with other values of some parameters.
    pub(super) fn with(&self, values: &[(&str, f64)]) -> Result<Self, String> {
        let mut model = self.clone();
        for (name, value) in values {
            let parameter = model.application.parameters.get_mut(*name);
            parameter.ok_or_else(|| format!("no parameter {name}"))?.value = *value;
        }
        Ok(model)
    }

    pub(super) fn configuration(&self, name: &str) -> Result<&Configuration, String> {
        self.application.configuration(name).map_err(|error| error.to_string())
    }

    pub(super) fn run(&self, pipes: &[Vec<String>], run: &Run) -> Result<Found, String> {
        let system = self.application.on(&self.chip, pipes).map_err(|error| error.to_string())?;
        let outcome = simulate(&system, run).map_err(|error| error.to_string())?;
        let mut cpi = BTreeMap::new();
        let mut sent = Vec::new();
        for role in &self.application.roles {
            let strands = of_role(&outcome, &role.name);
            if strands.clone().next().is_none() {
                continue;
            }
            let all = strands.clone().filter_map(|strand| outcome.cpi(strand));
            cpi.insert(role.name.clone(), mean(all));
            for (index, task) in role.tasks.iter().enumerate() {
                if task.input.is_some() && task.output.is_none() {
                    sent.extend(strands.clone().map(|strand| strand.tasks[index].packets));
                }
            }
        }
        let kpps = mean(sent.iter().map(|packets| outcome.kpps(*packets)));
        let slowest_kpps = sent.iter().min().map_or(0.0, |packets| outcome.kpps(*packets));
        Ok(Found { outcome, kpps, slowest_kpps, cpi })
    }

    /// What was observed of a configuration, and the model's word on it.
    pub(super) fn pairs(&self, name: &str, run: &Run) -> Result<Vec<Pair>, String> {
        let configuration = self.configuration(name)?;
        let observed = configuration.observed.as_ref();
        let observed = observed.ok_or_else(|| format!("nothing observed of {name}"))?;
        let found = self.run(&configuration.pipes, run)?;
        let mut pairs = vec![Pair {
            what: "kpps".to_owned(),
            observed: observed.kpps,
            found: found.kpps,
            within: WITHIN.0,
        }];
        for (role, cpi) in &observed.cpi {
            let found = *found.cpi.get(role).ok_or_else(|| format!("no strand is {role}"))?;
            let what = format!("CPI of {role}");
            pairs.push(Pair { what, observed: *cpi, found, within: WITHIN.1 });
        }
        Ok(pairs)
    }

    /// Fits parameters to what was observed of configurations; the others stay.
    pub(super) fn fitted(
        &self,
        parameters: &[&str],
        configurations: &[&str],
        calls: u32,
    ) -> Result<Self, String> {
        let mut bounds = Vec::new();
        for name in parameters {
            bounds.push(self.bounds(name)?);
        }
        let values = |at: &[f64]| -> Vec<(&str, f64)> {
            parameters.iter().copied().zip(at.iter().copied()).collect()
        };
        let mut error = |at: &[f64]| -> Result<f64, String> {
            let model = self.with(&values(at))?;
            let mut sum = 0.0;
            for configuration in configurations {
                for pair in model.pairs(configuration, &SHORT)? {
                    sum += (pair.error() / pair.within).powi(2);
                }
            }
            Ok(sum)
        };
        let at = least(&bounds, calls, &mut error)?;
        self.with(&values(&at))
    }

    fn bounds(&self, name: &str) -> Result<(f64, f64), String> {
        let parameter = self.application.parameters.get(name);
        let bounds = parameter.and_then(|parameter| parameter.low.zip(parameter.high));
        bounds.ok_or_else(|| format!("parameter {name} has no bounds"))
    }

    /// All parameters that are fitted at the middle of their bounds: where every fit begins, and
    /// where those stay that it leaves alone.
    pub(super) fn unfitted(&self) -> Result<Self, String> {
        let mut values = Vec::new();
        for name in self.names() {
            let (low, high) = self.bounds(name)?;
            values.push((name, f64::midpoint(low, high)));
        }
        self.with(&values)
    }

    /// The parameters that are fitted.
    pub(super) fn names(&self) -> Vec<&str> {
        let all = self.application.parameters.iter();
        let fitted = all.filter(|(_, parameter)| parameter.origin == Origin::Fitted);
        fitted.map(|(name, _)| name.as_str()).collect()
    }
}
