// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a simulated application with observations, and fits the application's parameters to
//! them.
//!
//! ```text
//! error(parameters) = sum over configurations and figures of ((found / observed - 1) / within)^2
//! fitted            = the parameters within their bounds with the smallest error (`simplex`)
//! ```
//!
//! `found` is the simulated value of a figure, and `within` its target accuracy. The application's
//! file lists the observed figures and the parameters that may be fitted.

mod simplex;

use crate::{
    Application, BadApplication, Chip, Configuration, Fault, Origin, Outcome, Run, StrandOutcome,
    simulate,
};
use simplex::least;
use std::collections::BTreeMap;
use std::fmt;

/// An application and the chip to simulate it on.
#[derive(Clone, Debug)]
pub struct Model {
    /// What the strands run, with the parameters to fit.
    pub application: Application,
    /// Chip that the strands are placed on.
    pub chip: Chip,
}

/// Simulation settings for printed figures.
pub const LONG: Run = Run { warm_up_cycles: 3_000_000, cycles: 12_000_000, seed: 1 };

/// Simulation settings for fits, which need many runs.
const SHORT: Run = Run { warm_up_cycles: 1_500_000, cycles: 2_500_000, seed: 1 };

/// Target accuracies of rates and of CPI, in this order: the relative errors that have weight 1 in
/// a fit.
const WITHIN: (f64, f64) = (0.05, 0.12);

/// Why an application cannot be compared or fitted.
#[derive(Clone, Debug, PartialEq)]
pub enum FitError {
    /// A name is undefined, or the chip is too small.
    Application(BadApplication),
    /// The application, as placed on the chip, cannot be simulated.
    System(Fault),
    /// The application's file has no observations for this configuration.
    NotObserved(String),
    /// There are observations for this role, but no strand has the role.
    NoStrand(String),
    /// The parameter has no bounds, so it cannot be fitted.
    NoBounds(String),
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application(error) => error.fmt(f),
            Self::System(fault) => fault.fmt(f),
            Self::NotObserved(name) => {
                write!(f, "configuration `{name}` has no observations; add [observed]")
            }
            Self::NoStrand(role) => {
                write!(f, "observations exist for `{role}`, but no strand has this role")
            }
            Self::NoBounds(name) => {
                write!(f, "parameter `{name}` lacks `low` or `high`; a fit needs both")
            }
        }
    }
}

impl std::error::Error for FitError {}

impl From<BadApplication> for FitError {
    fn from(error: BadApplication) -> Self {
        Self::Application(error)
    }
}

impl From<Fault> for FitError {
    fn from(fault: Fault) -> Self {
        Self::System(fault)
    }
}

/// What a simulation found for one configuration.
#[derive(Clone, Debug)]
pub struct Found {
    /// All counts of the simulation.
    pub outcome: Outcome,
    /// Rate at which packets leave the system in kpps, averaged over the flows.
    pub kpps: f64,
    /// Rate of the slowest flow, in kpps.
    pub slowest_kpps: f64,
    /// Cycles per instruction by role, averaged over the flows.
    pub cpi: BTreeMap<String, f64>,
}

impl Found {
    /// Returns the mean of a figure over the strands with this role. Ignores strands without the
    /// figure; `None` if no strand has it.
    pub fn mean(&self, role: &str, of: impl Fn(&StrandOutcome) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = of_role(&self.outcome, role).filter_map(of).collect();
        (!values.is_empty()).then(|| mean(values.into_iter()))
    }
}

/// An observed figure and its simulated value.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Name of the figure: `kpps`, or `CPI of ROLE`.
    pub what: String,
    /// Observed value, from the application's file.
    pub observed: f64,
    /// Value found by the simulation.
    pub found: f64,
    /// Target accuracy: the relative error that has weight 1 in a fit.
    pub within: f64,
}

impl Pair {
    /// Returns the relative error of the simulated value; positive if it exceeds the observed
    /// value.
    pub fn error(&self) -> f64 {
        self.found / self.observed - 1.0
    }
}

/// Returns the counts of all strands with a role.
fn of_role<'o>(
    outcome: &'o Outcome,
    role: &'o str,
) -> impl Iterator<Item = &'o StrandOutcome> + Clone {
    outcome
        .strands
        .iter()
        .filter(move |strand| strand.name.rsplit_once(' ').is_some_and(|(name, _)| name == role))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

impl Model {
    /// Returns a copy of the model in which the named parameters have these values.
    ///
    /// # Errors
    /// Returns an error if a parameter is unknown.
    pub fn with(&self, values: &[(&str, f64)]) -> Result<Self, FitError> {
        let mut model = self.clone();
        for (name, value) in values {
            let parameter = model.application.parameters.get_mut(*name);
            let unknown =
                || BadApplication::Unknown { what: "parameter", name: (*name).to_owned() };
            parameter.ok_or_else(unknown)?.value = *value;
        }
        Ok(model)
    }

    /// Returns the configuration with this name.
    ///
    /// # Errors
    /// Returns an error if there is no such configuration.
    pub fn configuration(&self, name: &str) -> Result<&Configuration, FitError> {
        Ok(self.application.configuration(name)?)
    }

    /// Simulates the application. `pipes` lists what each pipe's strands do.
    ///
    /// # Errors
    /// Returns an error if a name is undefined, the chip is too small, or the system cannot be
    /// simulated.
    pub fn run(&self, pipes: &[Vec<String>], run: &Run) -> Result<Found, FitError> {
        let system = self.application.on(&self.chip, pipes)?;
        let outcome = simulate(&system, run)?;
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

    /// Returns a configuration's observed figures with their simulated values.
    ///
    /// # Errors
    /// Returns an error if the configuration has no observations, or if [`Model::run`] fails.
    pub fn pairs(&self, name: &str, run: &Run) -> Result<Vec<Pair>, FitError> {
        let configuration = self.configuration(name)?;
        let observed = configuration.observed.as_ref();
        let observed = observed.ok_or_else(|| FitError::NotObserved(name.to_owned()))?;
        let found = self.run(&configuration.pipes, run)?;
        let mut pairs = vec![Pair {
            what: "kpps".to_owned(),
            observed: observed.kpps,
            found: found.kpps,
            within: WITHIN.0,
        }];
        for (role, cpi) in &observed.cpi {
            let found = found.cpi.get(role).copied();
            let found = found.ok_or_else(|| FitError::NoStrand(role.clone()))?;
            let what = format!("CPI of {role}");
            pairs.push(Pair { what, observed: *cpi, found, within: WITHIN.1 });
        }
        Ok(pairs)
    }

    /// Fits `parameters` to the observations for `configurations` in `calls` function evaluations.
    /// The other parameters are unchanged.
    ///
    /// # Errors
    /// Returns an error if a parameter has no bounds, or if [`Model::pairs`] fails.
    pub fn fitted(
        &self,
        parameters: &[&str],
        configurations: &[&str],
        calls: u32,
    ) -> Result<Self, FitError> {
        let mut bounds = Vec::new();
        for name in parameters {
            bounds.push(self.bounds(name)?);
        }
        let values = |at: &[f64]| -> Vec<(&str, f64)> {
            parameters.iter().copied().zip(at.iter().copied()).collect()
        };
        let mut error = |at: &[f64]| -> Result<f64, FitError> {
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

    fn bounds(&self, name: &str) -> Result<(f64, f64), FitError> {
        let parameter = self.application.parameters.get(name);
        let bounds = parameter.and_then(|parameter| parameter.low.zip(parameter.high));
        bounds.ok_or_else(|| FitError::NoBounds(name.to_owned()))
    }

    /// Returns a copy of the model with every fitted parameter at the midpoint of its bounds. Every
    /// fit starts from these values; parameters that a fit does not vary keep them.
    ///
    /// # Errors
    /// Returns an error if a fitted parameter has no bounds.
    pub fn unfitted(&self) -> Result<Self, FitError> {
        let mut values = Vec::new();
        for name in self.names() {
            let (low, high) = self.bounds(name)?;
            values.push((name, f64::midpoint(low, high)));
        }
        self.with(&values)
    }

    /// Returns the names of the parameters whose values are fitted.
    pub fn names(&self) -> Vec<&str> {
        let all = self.application.parameters.iter();
        let fitted = all.filter(|(_, parameter)| parameter.origin == Origin::Fitted);
        fitted.map(|(name, _)| name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::Processor;

    fn rlp() -> Model {
        let application = Application::named("rlp").unwrap();
        Model { application, chip: Chip::new(&Processor::named("t1").unwrap()).unwrap() }
    }

    #[test]
    fn starts_in_the_middle_of_the_bounds() {
        let model = rlp();
        let start = model.unfitted().unwrap();
        assert_eq!(start.application.value("bubble_cycles"), Ok(1.5));
        let given = "rx_instructions";
        assert_eq!(start.application.value(given), model.application.value(given));
    }

    #[test]
    fn a_fit_does_not_leave_its_bounds_and_gains_on_its_start() {
        let start = rlp().unfitted().unwrap();
        let fitted = start.fitted(&["rlp_instructions"], &["2"], 5).unwrap();
        let value = fitted.application.value("rlp_instructions").unwrap();
        assert!((100.0..=900.0).contains(&value), "{value}");
        let error = |model: &Model| -> f64 {
            let pairs = model.pairs("2", &SHORT).unwrap();
            pairs.iter().map(|pair| (pair.error() / pair.within).powi(2)).sum()
        };
        assert!(error(&fitted) <= error(&start));
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        let mut model = rlp();
        let refusal = |result: Result<(), FitError>| result.unwrap_err().to_string();
        let unknown = model.with(&[("speed", 1.0)]).map(|_| ());
        assert!(refusal(unknown).contains("no parameter `speed`"));
        let unbounded = model.fitted(&["rx_instructions"], &["1"], 5).map(|_| ());
        assert!(refusal(unbounded).contains("`rx_instructions` lacks `low`"));
        model.application.configurations[0].observed = None;
        let name = model.application.configurations[0].name.clone();
        assert_eq!(model.pairs(&name, &SHORT).unwrap_err(), FitError::NotObserved(name));
    }
}
