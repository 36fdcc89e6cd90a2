// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the search with a planner that looks up its rates in a table.

use super::*;
use crate::predictor::{Bounds, Placement, Predicted, Predictor};
use linerate_path::model::Mapping;
use linerate_record::plan::{Bottleneck, Change, Model, PlannedWorker, Proof};
use linerate_record::tune::RuledOut;

/// A planner with four possible changes. A setting is the set of changes made, one bit per change,
/// whose rate is looked up in a table.
struct Table {
    kpps: fn(u8) -> f64,
    /// Rate in kpps at which the search ends.
    enough: f64,
    written: Predicted<u8, ()>,
}

impl Table {
    fn new(kpps: fn(u8) -> f64) -> Self {
        let written = Predicted { setting: 0, kpps: kpps(0), evidence: () };
        Self { kpps, enough: f64::INFINITY, written }
    }

    /// Returns the names of the recommended changes and the highest rate.
    fn found(&self) -> (Vec<String>, f64) {
        let (changes, best) = best_changes(self).unwrap_or_else(|()| panic!("no such setting"));
        (changes.into_iter().map(|change| change.name).collect(), best)
    }
}

impl Predictor for Table {
    type Setting = u8;
    type Evidence = ();
    type Error = ();

    fn predict(&self, setting: u8) -> Result<Predicted<u8, ()>, ()> {
        let kpps = (self.kpps)(setting);
        if kpps.is_nan() { Err(()) } else { Ok(Predicted { setting, kpps, evidence: () }) }
    }

    fn bounds(&self, of: &Predicted<u8, ()>) -> Result<Bounds, ()> {
        let exact = |value| Estimate { value, low: value, high: value, confidence: 0.9, n: 1 };
        let gain = of.kpps / self.written.kpps - 1.0;
        Ok(Bounds { kpps: exact(of.kpps), gain: exact(gain) })
    }
}

impl Planner for Table {
    const MODEL: Model = Model::Formula;
    const METHOD: &'static str = "a table";
    const STEPS: usize = 3;

    fn written(&self) -> &Predicted<u8, ()> {
        &self.written
    }

    fn changes(&self, of: &Predicted<u8, ()>) -> Vec<Changed<u8>> {
        let free = (0..4).filter(|bit| of.setting & (1_u8 << bit) == 0);
        let change = |bit| Changed {
            name: format!("change {bit}"),
            kind: Change::Place,
            setting: of.setting | 1_u8 << bit,
        };
        free.map(change).collect()
    }

    fn is_enough(&self, kpps: f64) -> bool {
        kpps >= self.enough
    }

    fn placement(&self, _setting: &u8) -> Placement {
        let mapping = Mapping { segments: Vec::new() };
        Placement { mapping, burst: 32, cpus: None, beside: Vec::new() }
    }

    fn why(&self, _change: &CandidateOf<Self>) -> String {
        String::new()
    }

    fn proof(&self, _predicted: &Predicted<u8, ()>, _bounds: &Bounds) -> Proof {
        Proof { sentence: String::new(), command: None }
    }

    fn bottleneck(&self) -> Bottleneck {
        Bottleneck { stage: None, worker: None, sentence: String::new() }
    }

    fn workers(&self) -> Vec<PlannedWorker> {
        Vec::new()
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        Vec::new()
    }

    fn extent(&self, _best_kpps: Option<f64>) -> Search {
        Search { there_are: 16.0, exact: false, gap: None, sentence: String::new() }
    }

    fn basis(&self) -> Basis {
        Basis { costs: String::new(), cpus: 1, flows: 1, inputs: Vec::new() }
    }
}

/// Returns the rate of a setting whose changes multiply it by gains of 10, 5, 1 and 0 %.
fn independent(setting: u8) -> f64 {
    let gains = [1.1, 1.05, 1.01, 1.0];
    let made = gains.iter().enumerate().filter(|(bit, _)| setting & (1 << bit) != 0);
    made.map(|(_, gain)| gain).product()
}

#[test]
fn changes_follow_each_other_while_they_are_worth_it() {
    let (names, best) = Table::new(independent).found();
    assert_eq!(names, ["change 0", "change 1", "change 0; then change 1"]);
    assert!((best - 1.1 * 1.05).abs() < 1e-12, "a gain of 1 % is not worth a step: {best}");
}

#[test]
fn ends_where_nothing_can_be_faster() {
    let table = Table { enough: 1.1, ..Table::new(independent) };
    let (names, best) = table.found();
    assert_eq!(names, ["change 0", "change 1"]);
    assert!((best - 1.1).abs() < 1e-12);
}

#[test]
fn takes_three_steps_at_most() {
    let (names, best) = Table::new(|setting| 2_f64.powi(setting.count_ones() as i32)).found();
    assert_eq!(names.last().map(String::as_str), Some("change 0; then change 1; then change 2"));
    assert!((best - 8.0).abs() < 1e-12, "{best}");
}

#[test]
fn recommends_nothing_where_nothing_gains() {
    assert_eq!(Table::new(|_| 1.0).found(), (Vec::new(), 1.0));
}

#[test]
fn a_setting_that_cannot_be_predicted_ends_the_search() {
    let table = Table::new(|setting| if setting == 2 { f64::NAN } else { 1.0 });
    assert!(best_changes(&table).is_err());
}
