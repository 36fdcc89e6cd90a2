// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs stages one after the other on frames, and checks their accounting.

use linerate_stage_api::params::{Params, Value};
use linerate_stage_api::spec::{ParamSpec, StageSpec};
use linerate_stage_api::testing::Pool;
use linerate_stage_api::testing::Tally;
use linerate_stage_api::{BuildContext, BuildError, Burst, Packet, Stage, StageContext, Steer};
use std::sync::Arc;

/// What became of a frame: it came out of the last stage, or was dropped for a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Out(Vec<u8>),
    Dropped(&'static str),
}

impl Fate {
    /// Returns the frame that came out; panics if it was dropped.
    #[track_caller]
    pub(crate) fn out(self) -> Vec<u8> {
        match self {
            Fate::Out(frame) => frame,
            Fate::Dropped(cause) => panic!("dropped: {cause}"),
        }
    }
}

/// Returns a string parameter.
pub(crate) fn text(value: &str) -> Value {
    Value::Text(value.into())
}

pub(crate) fn texts(values: &[&str]) -> Value {
    Value::Texts(values.iter().map(|v| (*v).into()).collect())
}

/// Returns a kind's parameters: those given, and defaults for the others.
pub(crate) fn params(spec: &StageSpec, given: &[(&str, Value)]) -> Params {
    let default = |param: &ParamSpec| Some((param.name.to_owned(), param.default.value()?));
    let mut params: Params = spec.params.iter().filter_map(default).collect();
    for (name, value) in given {
        assert!(spec.params.iter().any(|p| p.name == *name), "{} has no {name}", spec.kind);
        params.insert((*name).into(), value.clone());
    }
    params
}

pub(crate) type Given<'a> = (&'a str, &'a [(&'a str, Value)]);

pub(crate) fn build((kind, given): Given<'_>) -> Result<Box<dyn Stage>, BuildError> {
    let kind = linerate_stages::kind(kind).expect("a kind");
    (kind.build)(&params(&kind.spec, given), &BuildContext { replica: 0, replicas: 1 })
}

/// Builds a stage with invalid parameters, and returns the error message.
#[track_caller]
pub(crate) fn build_error(given: Given<'_>) -> String {
    match build(given) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("built"),
    }
}

pub(crate) fn steer((kind, given): Given<'_>) -> Option<Arc<dyn Steer>> {
    let kind = linerate_stages::kind(kind).expect("a kind");
    (kind.steer)(&params(&kind.spec, given)).expect("valid parameters")
}

struct Row {
    stage: Box<dyn Stage>,
    spec: StageSpec,
    context: StageContext,
}

/// Stages that process frames one after the other, like the stages of one worker.
pub(crate) struct Rig<'p> {
    rows: Vec<Row>,
    steer: Option<Arc<dyn Steer>>,
    spare: Vec<Packet<'p>>,
    burst: Burst<'p>,
    next_position: u64,
}

impl<'p> Rig<'p> {
    /// Builds `parse` followed by the given stages. If several stages have steering, the last one
    /// assigns the buckets.
    pub(crate) fn new(pool: &'p mut Pool, stages: &[Given<'_>]) -> Self {
        let all = std::iter::once(&("parse", &[] as &[_])).chain(stages);
        let rows = all.map(|given| Row {
            stage: build(*given).expect("valid parameters"),
            spec: linerate_stages::kind(given.0).expect("a kind").spec,
            context: StageContext::default(),
        });
        Self {
            rows: rows.collect(),
            steer: stages.iter().filter_map(|given| steer(*given)).next_back(),
            spare: pool.packets(0),
            burst: Burst::new(),
            next_position: 0,
        }
    }

    /// Returns the RSS bucket that the source would assign to the frame.
    pub(crate) fn bucket(&self, frame: &[u8]) -> u8 {
        self.steer.as_ref().and_then(|s| s.bucket(frame)).unwrap_or(0)
    }

    /// Sends frames through all stages, in one burst, and returns what comes out.
    pub(crate) fn offer(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        for frame in frames {
            let bucket = self.bucket(frame);
            let mut packet = self.spare.pop().expect("a buffer is free");
            assert!(packet.fill(frame));
            packet.meta_mut().position = self.next_position;
            packet.meta_mut().bucket = bucket;
            self.next_position += 1;
            self.burst.push(packet);
        }
        for row in &mut self.rows {
            row.process(&mut self.burst);
        }
        let out: Vec<_> = self.burst.iter().map(|p| p.bytes().to_vec()).collect();
        let in_order = |p: &[Packet<'_>]| p[0].meta().position < p[1].meta().position;
        let packets: Vec<_> = self.burst.drain().collect();
        assert!(packets[..out.len()].windows(2).all(in_order));
        self.spare.extend(packets);
        out
    }

    /// Sends a frame through all stages. Returns the resulting frame or the drop cause.
    pub(crate) fn offer_one(&mut self, frame: &[u8]) -> Fate {
        let before: Vec<_> = self.rows.iter().map(|row| row.context.account.clone()).collect();
        if let Some(frame) = self.offer(&[frame.to_vec()]).pop() {
            return Fate::Out(frame);
        }
        for (row, before) in self.rows.iter().zip(before) {
            let grown =
                |i: &usize| row.context.account.drops[*i].packets > before.drops[*i].packets;
            if let Some(i) = (0..row.context.account.drops.len()).find(grown) {
                return Fate::Dropped(row.spec.drop_causes[i]);
            }
        }
        panic!("the frame is missing, but no stage dropped it");
    }

    /// Returns why the last stage found nothing to do for `packets` packets.
    pub(crate) fn idle(&self, packets: u64) -> Option<String> {
        self.rows.last().expect("a stage").stage.idle(packets)
    }

    /// Returns the last stage's counter with this name; `None` if it has none.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        let counts = self.rows.last().expect("a stage").stage.counts();
        counts.into_iter().find(|(n, _)| *n == name).map(|(_, count)| count)
    }
}

impl Row {
    /// Runs the stage on a burst. Checks its accounting against the packets and bytes counted
    /// before and after.
    fn process(&mut self, burst: &mut Burst<'_>) {
        let before = self.context.account.clone();
        let input = tally(burst.iter());
        let released_before = burst.released().len();
        self.stage.process(burst, &mut self.context);
        let output = tally(burst.iter());
        let released = tally(burst.released()[released_before..].iter());

        let kind = self.spec.kind;
        let (now, was) = (&self.context.account, &before);
        let created = less(now.created, was.created);
        let consumed = less(now.consumed, was.consumed);
        let dropped = less(now.dropped(), was.dropped());
        assert_eq!(input + created, output + consumed + dropped, "{kind}");
        assert_eq!(input.packets, output.packets + released.packets, "{kind}");
        assert_eq!(consumed.packets + dropped.packets, released.packets, "{kind}");
        assert_eq!(released.bytes, dropped.bytes, "{kind}: no stage consumes whole packets");
        for (i, tally) in now.drops.iter().enumerate() {
            assert!(i < self.spec.drop_causes.len() || *tally == Tally::default(), "{kind}");
        }
    }
}

fn tally<'a, 'p: 'a>(packets: impl Iterator<Item = &'a Packet<'p>>) -> Tally {
    let mut tally = Tally::default();
    packets.for_each(|p| tally.add(1, p.bytes().len() as u64));
    tally
}

fn less(a: Tally, b: Tally) -> Tally {
    Tally { packets: a.packets - b.packets, bytes: a.bytes - b.bytes }
}
