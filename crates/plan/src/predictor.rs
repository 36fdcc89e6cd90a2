// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface between predictive models and the search.
//!
//! There are two predictive models. The formula ([`crate::model`]) is for processors on which a
//! worker's service time does not depend on its neighbours; a chip simulator (`linerate-cmt`) is
//! for multithreaded processors whose hardware strands share an execution pipe. They differ in
//! their settings, the possible changes and the reasons they can give. Everything else is shared:
//! [`crate::search`].

use linerate_path::model::Mapping;
use linerate_record::plan::{
    Bottleneck, Change, Input, Model, PlannedWorker, Proof, Recommendation, Search, WorkersBeside,
};
use linerate_record::stats::Estimate;
use linerate_record::tune::RuledOut;

/// A setting and its prediction.
#[derive(Clone, Debug)]
pub struct Predicted<S, E> {
    /// The setting to run.
    pub setting: S,
    /// Per-flow rate in kpps, without an interval: the search criterion.
    pub kpps: f64,
    /// The model's data that explains the prediction.
    pub evidence: E,
}

/// Prediction for a setting, with its intervals.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Per-flow rate in kpps, with its interval.
    pub kpps: Estimate,
    /// Speedup over the mapping as written, minus 1. Errors that affect both predictions cancel.
    pub gain: Estimate,
}

/// A setting obtained by applying one change to another setting.
#[derive(Clone, Debug)]
pub struct Changed<S> {
    /// The change in words.
    pub name: String,
    /// Kind of change.
    pub kind: Change,
    /// The resulting setting.
    pub setting: S,
}

/// A change with the prediction for its setting.
#[derive(Clone, Debug)]
pub struct Candidate<S, E> {
    /// The change in words.
    pub name: String,
    /// Kind of change.
    pub kind: Change,
    /// The resulting setting and its prediction.
    pub predicted: Predicted<S, E>,
}

/// Predicts the rate of a packet path under a setting without running it.
pub trait Predictor {
    /// A mapping with the model's other parameters: burst size, or CPUs and neighbours.
    type Setting: Clone;
    /// Data that explains a prediction.
    type Evidence: Clone;
    /// Reason why a setting cannot be predicted.
    type Error;

    /// Returns the prediction for a setting, without an interval.
    ///
    /// # Errors
    /// The model does not support the setting.
    fn predict(&self, setting: Self::Setting) -> Result<PredictedBy<Self>, Self::Error>;

    /// Returns the prediction with its intervals: more expensive than [`Predictor::predict`], so
    /// meant for few settings.
    ///
    /// # Errors
    /// As [`Predictor::predict`].
    fn bounds(&self, predicted: &PredictedBy<Self>) -> Result<Bounds, Self::Error>;
}

/// A setting and its prediction by the predictor `P`.
pub type PredictedBy<P> = Predicted<<P as Predictor>::Setting, <P as Predictor>::Evidence>;

/// A change, evaluated by the predictor `P`.
pub type CandidateOf<P> = Candidate<<P as Predictor>::Setting, <P as Predictor>::Evidence>;

/// A setting as stored in the record.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Assignment of stages to workers.
    pub mapping: Mapping,
    /// Packets per burst.
    pub burst: u32,
    /// The CPU of each worker, if relevant to the model.
    pub cpus: Option<Vec<u32>>,
    /// Workers outside the path that were added or moved.
    pub beside: Vec<WorkersBeside>,
}

/// Inputs on which the predictions are based.
#[derive(Clone, Debug)]
pub struct Basis {
    /// Source of the costs, in words.
    pub costs: String,
    /// Number of available CPUs.
    pub cpus: u32,
    /// Number of flows of equal rate.
    pub flows: u32,
    /// All input figures, with their origins.
    pub inputs: Vec<Input>,
}

/// A predictor that knows possible changes and can explain their effect.
pub trait Planner: Predictor {
    /// Name of the model in the record.
    const MODEL: Model;
    /// Method that the record states for the model's figures.
    const METHOD: &'static str;
    /// Maximum number of consecutive changes to search: 1 if [`Planner::changes`] already returns
    /// every useful setting.
    const STEPS: usize;

    /// Returns the mapping as written in the path file, with its prediction.
    fn written(&self) -> &PredictedBy<Self>;

    /// Returns the changes to a setting that are worth predicting.
    fn changes(&self, of: &PredictedBy<Self>) -> Vec<Changed<Self::Setting>>;

    /// Returns the predicted changes, highest rate first, without those made redundant by a simpler
    /// one.
    fn needed(&self, candidates: Vec<CandidateOf<Self>>) -> Vec<CandidateOf<Self>> {
        candidates
    }

    /// Returns whether no setting can exceed a rate of `_kpps`, so that the search can stop.
    fn is_enough(&self, _kpps: f64) -> bool {
        false
    }

    /// Returns a recommendation that is not part of a setting, such as other kernels.
    fn beyond(&self) -> Option<Recommendation> {
        None
    }

    /// Returns the setting as stored in the record.
    fn placement(&self, setting: &Self::Setting) -> Placement;

    /// Returns the reason why a change helps.
    fn why(&self, change: &CandidateOf<Self>) -> String;

    /// Returns the measurement that would disprove a prediction.
    fn proof(&self, predicted: &PredictedBy<Self>, bounds: &Bounds) -> Proof;

    /// Returns candidate settings for sustaining line rate with the fewest CPUs: the best setting
    /// for each number of CPUs. Empty if [`Planner::changes`] already includes them.
    fn for_line(&self) -> Vec<Self::Setting> {
        Vec::new()
    }

    /// Returns the upper bounds that apply to the mapping as written or to one of these
    /// predictions.
    fn limits(&self, _predicted: &[&PredictedBy<Self>]) -> Vec<String> {
        Vec::new()
    }

    /// Returns the bottleneck of the mapping as written.
    fn bottleneck(&self) -> Bottleneck;

    /// Returns the workers and neighbours of the mapping as written.
    fn workers(&self) -> Vec<PlannedWorker>;

    /// Returns forbidden or unsupported changes, with reasons.
    fn ruled_out(&self) -> Vec<RuledOut>;

    /// Returns the extent of the search; `best_kpps` is the highest rate found, `None` if only the
    /// mapping as written was requested.
    fn extent(&self, best_kpps: Option<f64>) -> Search;

    /// Returns the inputs on which the predictions are based.
    fn basis(&self) -> Basis;
}
