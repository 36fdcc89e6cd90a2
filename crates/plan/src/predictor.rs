// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface between predictive models and the search.
//!
//! There are two models: the formula ([`crate::model`]), for processors on which a worker's service
//! time does not depend on its neighbours, and a chip simulator (`linerate-cmt`), for multithreaded
//! processors whose hardware strands share an execution pipe. They differ in settings, possible
//! changes and the reasons they can give; everything else is shared ([`crate::search`]).

use linerate_path::model::Mapping;
use linerate_record::plan::{
    Bottleneck, Change, Input, Model, PlannedWorker, Proof, Recommendation, Search, WorkersBeside,
};
use linerate_record::stats::Estimate;
use linerate_record::tune::RuledOut;

/// A setting and its prediction.
#[derive(Clone, Debug)]
pub struct Predicted<S, E> {
    /// Setting that the prediction is for.
    pub setting: S,
    /// Predicted per-flow rate in kpps, without an interval. The search maximizes it.
    pub kpps: f64,
    /// Intermediate results of the model, which explain the prediction.
    pub evidence: E,
}

/// A prediction with intervals.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Per-flow rate, in kpps.
    pub kpps: Estimate,
    /// Speedup over the mapping as written, minus 1. Errors common to both predictions cancel.
    pub gain: Estimate,
}

/// A change to a setting, and the setting that results from it.
#[derive(Clone, Debug)]
pub struct Changed<S> {
    /// Name of the change, such as `merge and replicate x2`.
    pub name: String,
    /// Kind of change, such as a split or more replicas.
    pub kind: Change,
    /// Setting after the change.
    pub setting: S,
}

/// A change and the prediction for its setting.
#[derive(Clone, Debug)]
pub struct Candidate<S, E> {
    /// Name of the change, such as `merge and replicate x2`.
    pub name: String,
    /// Kind of change, such as a split or more replicas.
    pub kind: Change,
    /// Resulting setting and its prediction.
    pub predicted: Predicted<S, E>,
}

/// Predicts a packet path's rate for a given configuration without running it.
pub trait Predictor {
    /// A mapping and the model's other parameters: burst size, or CPUs and neighbours.
    type Setting: Clone;
    /// Intermediate results of the model, which explain a prediction.
    type Evidence: Clone;
    /// Why a setting cannot be predicted.
    type Error;

    /// Predicts a setting, without an interval.
    ///
    /// # Errors
    /// Returns an error if the model does not support the setting.
    fn predict(&self, setting: Self::Setting) -> Result<PredictedBy<Self>, Self::Error>;

    /// Returns the intervals of a prediction. Much slower than [`Predictor::predict`], so call it
    /// only for a few settings.
    ///
    /// # Errors
    /// Returns an error if the model does not support the setting.
    fn bounds(&self, predicted: &PredictedBy<Self>) -> Result<Bounds, Self::Error>;
}

/// A setting and its prediction by the predictor `P`.
pub type PredictedBy<P> = Predicted<<P as Predictor>::Setting, <P as Predictor>::Evidence>;

/// A change, evaluated by the predictor `P`.
pub type CandidateOf<P> = Candidate<<P as Predictor>::Setting, <P as Predictor>::Evidence>;

/// Placement of workers on CPUs, with the mapping and burst size that it applies to.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Assignment of stages to workers.
    pub mapping: Mapping,
    /// Packets per burst at this setting.
    pub burst: u32,
    /// CPUs of the workers, in worker order; `None` if the model does not depend on placement.
    pub cpus: Option<Vec<u32>>,
    /// Workers outside the path that were added or moved.
    pub beside: Vec<WorkersBeside>,
}

/// Inputs of the predictions.
#[derive(Clone, Debug)]
pub struct Basis {
    /// Where the costs come from, in words.
    pub costs: String,
    /// Number of CPUs available to workers.
    pub cpus: u32,
    /// Number of equal-rate flows.
    pub flows: u32,
    /// All input figures, with their origins.
    pub inputs: Vec<Input>,
}

/// A predictor that also proposes changes to a setting and explains their effect.
pub trait Planner: Predictor {
    /// The model's name in the record.
    const MODEL: Model;
    /// Description of the model, stored in the `method` field of the figures that it produces.
    const METHOD: &'static str;
    /// Maximum number of changes to combine; 1 if [`Planner::changes`] already covers every useful
    /// setting.
    const STEPS: usize;

    /// Returns the mapping as written in the path file and its prediction.
    fn written(&self) -> &PredictedBy<Self>;

    /// Returns changes to a setting that are worth predicting.
    fn changes(&self, of: &PredictedBy<Self>) -> Vec<Changed<Self::Setting>>;

    /// Drops the predicted changes that a simpler change makes redundant. `candidates` are sorted
    /// by rate, highest first.
    fn needed(&self, candidates: Vec<CandidateOf<Self>>) -> Vec<CandidateOf<Self>> {
        candidates
    }

    /// Returns whether the search can stop because no setting can exceed this rate, in kpps.
    fn is_enough(&self, _kpps: f64) -> bool {
        false
    }

    /// Returns a recommendation to change what the model does not vary, such as the kernels.
    fn beyond(&self) -> Option<Recommendation> {
        None
    }

    /// Returns a setting in the form stored in the record.
    fn placement(&self, setting: &Self::Setting) -> Placement;

    /// Explains why a change helps.
    fn why(&self, change: &CandidateOf<Self>) -> String;

    /// Returns the measurement that would disprove a prediction.
    fn proof(&self, predicted: &PredictedBy<Self>, bounds: &Bounds) -> Proof;

    /// Returns the best setting for each number of CPUs, as candidates for sustaining line rate
    /// with the fewest CPUs. Empty if [`Planner::changes`] already includes them.
    fn for_line(&self) -> Vec<Self::Setting> {
        Vec::new()
    }

    /// Returns sentences about the upper bounds that limit the mapping as written or one of the
    /// given predictions.
    fn limits(&self, _predicted: &[&PredictedBy<Self>]) -> Vec<String> {
        Vec::new()
    }

    /// Returns the bottleneck of the mapping as written.
    fn bottleneck(&self) -> Bottleneck;

    /// Returns the workers and neighbours of the mapping as written.
    fn workers(&self) -> Vec<PlannedWorker>;

    /// Returns the forbidden and unsupported changes, with the reasons.
    fn ruled_out(&self) -> Vec<RuledOut>;

    /// Describes the extent of the search. `best_kpps` is the highest rate found; `None` if only
    /// the mapping as written was predicted.
    fn extent(&self, best_kpps: Option<f64>) -> Search;

    /// Returns what the predictions are based on.
    fn basis(&self) -> Basis;
}
