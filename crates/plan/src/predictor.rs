// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface between predictive models and the search.
//!
//! Two models predict. The formula ([`crate::model`]) is for processors on which the time of a
//! worker's work does not depend on its neighbours; a simulator of chips (`linerate-cmt`) is for
//! those whose strands share pipes. They differ in their settings, the possible changes and the
//! reasons they can give. Everything else is shared: [`crate::search`].

use linerate_path::model::Mapping;
use linerate_record::plan::{
    Bottleneck, Change, Input, Model, PlannedWorker, Proof, Recommendation, Search, WorkersBeside,
};
use linerate_record::stats::Estimate;
use linerate_record::tune::RuledOut;

/// A setting and what it is predicted to do.
#[derive(Clone, Debug)]
pub struct Predicted<S, E> {
    /// The setting to run.
    pub setting: S,
    /// Thousand packets per second of a flow, without an interval: what a search compares.
    pub kpps: f64,
    /// The model's data for explaining it.
    pub evidence: E,
}

/// Prediction for a setting, with its intervals.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Thousand packets per second of a flow.
    pub kpps: Estimate,
    /// Speed-up over the mapping as written, less 1. What both share cancels.
    pub gain: Estimate,
}

/// A setting that differs from another by a change.
#[derive(Clone, Debug)]
pub struct Changed<S> {
    /// The change in words.
    pub name: String,
    /// Kind of change.
    pub kind: Change,
    /// The resulting setting.
    pub setting: S,
}

/// A change whose setting was predicted.
#[derive(Clone, Debug)]
pub struct Candidate<S, E> {
    /// The change in words.
    pub name: String,
    /// Kind of change.
    pub kind: Change,
    /// The resulting setting and its prediction.
    pub predicted: Predicted<S, E>,
}

/// Says how fast a packet path will be under a setting, without running it.
pub trait Predictor {
    /// A mapping, and what else the model knows to vary: bursts, or processors and neighbours.
    type Setting: Clone;
    /// Data of a prediction for explaining it.
    type Evidence: Clone;
    /// Why a setting cannot be predicted.
    type Error;

    /// The prediction of a setting, without an interval.
    ///
    /// # Errors
    /// The model cannot take the setting.
    fn predict(&self, setting: Self::Setting) -> Result<PredictedBy<Self>, Self::Error>;

    /// The prediction with its intervals: dearer than [`Predictor::predict`], and for few settings.
    ///
    /// # Errors
    /// As [`Predictor::predict`].
    fn bounds(&self, predicted: &PredictedBy<Self>) -> Result<Bounds, Self::Error>;
}

/// Prediction of a setting.
pub type PredictedBy<P> = Predicted<<P as Predictor>::Setting, <P as Predictor>::Evidence>;

/// A change evaluated by a predictor.
pub type CandidateOf<P> = Candidate<<P as Predictor>::Setting, <P as Predictor>::Evidence>;

/// A setting as the record has it.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Which stages run where.
    pub mapping: Mapping,
    /// Packets per burst.
    pub burst: u32,
    /// The processor of each worker, where the model cares.
    pub cpus: Option<Vec<u32>>,
    /// Workers outside the path that were added or moved.
    pub beside: Vec<WorkersBeside>,
}

/// Basis of the predictions.
#[derive(Clone, Debug)]
pub struct Basis {
    /// Source of the costs.
    pub costs: String,
    /// Processors that may be used.
    pub cpus: u32,
    /// Flows of equal rate.
    pub flows: u32,
    /// Each figure, and how it came about.
    pub inputs: Vec<Input>,
}

/// A predictor that knows the possible changes, and can explain their effect.
pub trait Planner: Predictor {
    /// The word of the record for it.
    const MODEL: Model;
    /// Method of its figures.
    const METHOD: &'static str;
    /// Changes in a row that are looked for: 1 where the changes of a setting are all there are.
    const STEPS: usize;

    /// The mapping as written.
    fn written(&self) -> &PredictedBy<Self>;

    /// The changes of a setting worth predicting.
    fn changes(&self, of: &PredictedBy<Self>) -> Vec<Changed<Self::Setting>>;

    /// Those of the predicted changes, the highest rate first, that no simpler one makes needless.
    fn needed(&self, candidates: Vec<CandidateOf<Self>>) -> Vec<CandidateOf<Self>> {
        candidates
    }

    /// Whether a rate cannot be exceeded, so that no further change is looked for.
    fn is_enough(&self, _kpps: f64) -> bool {
        false
    }

    /// A change outside the setting: other kernels.
    fn beyond(&self) -> Option<Recommendation> {
        None
    }

    /// The setting as the record has it.
    fn placement(&self, setting: &Self::Setting) -> Placement;

    /// Why a change helps.
    fn why(&self, change: &CandidateOf<Self>) -> String;

    /// The measurement that would disprove a prediction.
    fn proof(&self, predicted: &PredictedBy<Self>, bounds: &Bounds) -> Proof;

    /// Settings for the question which one sustains line rate with the fewest processors: the best
    /// for each number of processors. Empty where the changes have them.
    fn for_line(&self) -> Vec<Self::Setting> {
        Vec::new()
    }

    /// The upper bounds of all predictions that bound the mapping as written or one of these.
    fn limits(&self, _predicted: &[&PredictedBy<Self>]) -> Vec<String> {
        Vec::new()
    }

    /// Bottleneck of the mapping as written.
    fn bottleneck(&self) -> Bottleneck;

    /// Its workers, and those outside of it.
    fn workers(&self) -> Vec<PlannedWorker>;

    /// Changes that may not be made or that the model does not know, and why.
    fn ruled_out(&self) -> Vec<RuledOut>;

    /// Extent of the search; `best_kpps` is the highest rate found, `None` if only the mapping as
    /// written was requested.
    fn extent(&self, best_kpps: Option<f64>) -> Search;

    /// Basis of the predictions.
    fn basis(&self) -> Basis;
}
