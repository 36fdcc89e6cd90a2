// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model checker: enumerates every reachable state, and reports defects.
//!
//! ```text
//! states = [all zero]
//! for each state, in the order in which they were found (breadth first):
//!     for each move from it:
//!         the first move with a given fault ends a shortest trace to that fault; its target is
//!             not explored
//!         add the target of any other move, unless it is known
//! for each context: mark the states from which it can still complete a use of vectors, searching
//!     backwards from the moves that complete one; in any other state it is stuck
//! ```
//!
//! States are found in the order of their distance from the start, and each records the move that
//! found it: following these back gives a shortest trace. Contexts that get stuck only after a
//! defect are not reported.

use crate::machine::{Fault, Machine, Move, Mover, State};
use crate::preemption::Preemption;
use crate::scheme::Scheme;
use std::collections::HashMap;
use std::fmt;

/// A step of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Context that took the step.
    pub who: Mover,
    /// Name of the program line or event.
    pub what: &'static str,
}

/// Fault of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A user reads registers that do not contain the values that it wrote.
    Corrupts,
    /// Registers are written beyond the end of the save stack.
    OverrunsStack,
    /// From some state, a context can never complete its vector code again.
    Stuck,
}

/// A shortest trace to a defect.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Number of tasks among the contexts.
    pub tasks: usize,
    /// Steps of the trace, in order.
    pub steps: Vec<Step>,
}

/// Result of an exploration.
#[derive(Clone, Debug)]
pub struct Found {
    /// Number of reachable states.
    pub states: usize,
    /// First defect of each kind; empty if the scheme is correct.
    pub wrong: Vec<(Wrong, Trace)>,
}

struct Known {
    state: State,
    /// State from which `state` was reached first, and the step that led to it; `None` for the
    /// initial state.
    from: Option<(u32, Step)>,
}

struct Graph {
    known: Vec<Known>,
    /// Transitions: from, to, and the context, if any, that completes a use of vectors in the
    /// transition.
    edges: Vec<(u32, u32, Option<usize>)>,
}

/// Explores a scheme under a kind of preemption.
#[must_use]
pub fn explore(scheme: &Scheme, preemption: &Preemption) -> Found {
    let machine = Machine::new(scheme, preemption);
    let (graph, mut ends) = graph(&machine);
    if let Some(at) = stuck(&machine, &graph) {
        ends.push((Wrong::Stuck, at, None));
    }
    let trace = |(wrong, at, last): (Wrong, u32, Option<Step>)| {
        let mut steps: Vec<Step> = last.into_iter().collect();
        let mut at = at;
        while let Some((from, step)) = graph.known[at as usize].from {
            steps.push(step);
            at = from;
        }
        steps.reverse();
        (wrong, Trace { tasks: preemption.tasks, steps })
    };
    Found { states: graph.known.len(), wrong: ends.into_iter().map(trace).collect() }
}

/// A defect, the state in which it occurs, and the step that causes it.
type End = (Wrong, u32, Option<Step>);

fn graph(machine: &Machine) -> (Graph, Vec<End>) {
    let mut places = HashMap::from([(State::default(), 0)]);
    let mut graph =
        Graph { known: vec![Known { state: State::default(), from: None }], edges: Vec::new() };
    let mut ends: Vec<End> = Vec::new();
    let mut at = 0;
    while at < graph.known.len() {
        let state = graph.known[at].state;
        let place = u32::try_from(at).expect("fewer than 2^32 states");
        for Move { who, what, fault, completed, to } in machine.moves(&state) {
            let step = Step { who, what };
            let wrong = fault.map(|fault| match fault {
                Fault::Corrupted => Wrong::Corrupts,
                Fault::BeyondStack => Wrong::OverrunsStack,
            });
            if let Some(wrong) = wrong.filter(|wrong| !ends.iter().any(|end| end.0 == *wrong)) {
                ends.push((wrong, place, Some(step)));
            }
            if fault.is_some() {
                // The target is not explored. Assume that every context can still make progress
                // there.
                graph.edges.extend((0..machine.contexts()).map(|who| (place, place, Some(who))));
                continue;
            }
            let target = *places.entry(to).or_insert_with(|| {
                graph.known.push(Known { state: to, from: Some((place, step)) });
                u32::try_from(graph.known.len() - 1).expect("fewer than 2^32 states")
            });
            graph.edges.push((place, target, completed));
        }
        at += 1;
    }
    (graph, ends)
}

/// Returns the first state from which some context can never complete a use of vectors; `None` if
/// there is no such state.
fn stuck(machine: &Machine, graph: &Graph) -> Option<u32> {
    let before = Backwards::new(graph);
    let first = |who| {
        let mut may = vec![false; graph.known.len()];
        let mut left: Vec<u32> = Vec::new();
        let through = graph.edges.iter().filter(|edge| edge.2 == Some(who)).map(|edge| edge.0);
        let mut reach = |state: u32, left: &mut Vec<u32>| {
            if !std::mem::replace(&mut may[state as usize], true) {
                left.push(state);
            }
        };
        through.for_each(|state| reach(state, &mut left));
        while let Some(state) = left.pop() {
            before.of(state).iter().for_each(|&state| reach(state, &mut left));
        }
        may.iter().position(|may| !may)
    };
    let first = (0..machine.contexts()).filter_map(first).min()?;
    Some(u32::try_from(first).expect("fewer than 2^32 states"))
}

/// Predecessors of each state.
struct Backwards {
    /// Start of each state's predecessors in `sources`, followed by the end of the last.
    begins: Vec<usize>,
    sources: Vec<u32>,
}

impl Backwards {
    fn new(graph: &Graph) -> Self {
        let mut begins = vec![0; graph.known.len() + 1];
        for edge in &graph.edges {
            begins[edge.1 as usize + 1] += 1;
        }
        for i in 1..begins.len() {
            begins[i] += begins[i - 1];
        }
        let (mut next, mut sources) = (begins.clone(), vec![0; graph.edges.len()]);
        for &(from, to, _) in &graph.edges {
            sources[next[to as usize]] = from;
            next[to as usize] += 1;
        }
        Self { begins, sources }
    }

    fn of(&self, state: u32) -> &[u32] {
        let state = state as usize;
        &self.sources[self.begins[state]..self.begins[state + 1]]
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Corrupts => "corrupts",
            Self::OverrunsStack => "overruns the stack",
            Self::Stuck => "gets stuck",
        })
    }
}

/// Formats one line per context switch: the context and its steps.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut last = None;
        for step in &self.steps {
            if last == Some(step.who) {
                write!(f, ", {}", step.what)?;
                continue;
            }
            if last.is_some() {
                writeln!(f)?;
            }
            last = Some(step.who);
            let who = match step.who {
                Mover::Scheduler => "scheduler".to_owned(),
                Mover::Context(who) if who < self.tasks => format!("task {}", who + 1),
                Mover::Context(who) => format!("interrupt {}", who + 1 - self.tasks),
            };
            write!(f, "{who:<12} {}", step.what)?;
        }
        Ok(())
    }
}
