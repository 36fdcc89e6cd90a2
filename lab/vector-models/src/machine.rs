// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model of one processor with vector registers, memory, tasks, interrupts and a scheduler, as a
//! state and its successors. Time, other processors, and compiler optimizations are not modelled.
//!
//! Every task and every interrupt repeats: enter; if admitted, write a unique value to each
//! register and, later, check that the values are still there; leave. There are two registers,
//! saved and loaded one after the other, so that a saved context may be inconsistent. Once the
//! writer has checked its value, all copies of it are invalidated: a copy restored later counts as
//! wrong.
//!
//! A step is one line of a context's program; a line that transfers both registers takes a step for
//! each. Between any two steps, any event may occur that the kind of preemption allows.

use crate::preemption::{Preemption, Tasks};
use crate::scheme::{DEPTH, Full, Guard, Line, Op, Pair, Scheme, When};

/// Maximum number of contexts, i.e. tasks and interrupts together.
pub const MOST: usize = 5;
const REGISTERS: usize = 2;
/// Upper limit on the user count, which keeps the state space finite. Only a scheme that forgets to
/// decrement reaches it.
const MOST_USERS: u8 = 7;
const CLAIMED: u8 = 0xff;

type Registers = [u8; REGISTERS];

/// A context's program position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
enum Phase {
    /// Not running; may begin.
    #[default]
    Idle,
    /// At this line of `enter`.
    Enter(u8),
    /// Using the registers, between `enter` and `leave`.
    Use(u8),
    /// At this line of `leave`.
    Leave(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
struct Context {
    phase: Phase,
    /// Number of registers already transferred by the current line.
    half: u8,
    /// The context's local copy of the user count.
    counted: u8,
    /// Owner of the registers when the context last read it.
    seen: u8,
    /// Whether the context has declared that it uses vectors.
    inside: bool,
    /// Whether the context is a sleeping task.
    asleep: bool,
    /// Save area for the context's registers, used by the context or the scheduler.
    area: Registers,
}

/// A task switch in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Switching {
    to: u8,
    line: u8,
    half: u8,
}

/// The complete state of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct State {
    registers: Registers,
    owner: u8,
    users: u8,
    taken: bool,
    stack: [Registers; DEPTH as usize],
    contexts: [Context; MOST],
    /// Index of the current task.
    task: u8,
    switching: Option<Switching>,
}

impl State {
    fn forget(&mut self, value: u8) {
        let areas = self.contexts.iter_mut().map(|context| &mut context.area);
        let all = areas.chain(&mut self.stack).chain([&mut self.registers]);
        all.flatten().filter(|held| **held == value).for_each(|held| *held = 0);
    }
}

/// Context that takes a step. Tasks come first, then interrupts, in ascending levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mover {
    /// A task or an interrupt, by its index.
    Context(usize),
    /// The scheduler, which switches tasks.
    Scheduler,
}

/// Error detected in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A register does not contain the value that its user wrote.
    Corrupted,
    /// Registers were written beyond the end of the save stack.
    BeyondStack,
}

/// A possible step and its result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    /// Context that takes the step.
    pub who: Mover,
    /// Name of the program line or event.
    pub what: &'static str,
    /// Defect, if any.
    pub fault: Option<Fault>,
    /// Context that completed a use of vectors in this step, if any.
    pub completed: Option<usize>,
    /// The next state.
    pub to: State,
}

/// Model of a scheme under a kind of preemption.
pub(crate) struct Machine<'a> {
    scheme: &'a Scheme,
    preemption: &'a Preemption,
}

impl<'a> Machine<'a> {
    /// Creates the model.
    ///
    /// # Panics
    ///
    /// Panics if there are more tasks and interrupts than `MOST`.
    #[must_use]
    pub(crate) fn new(scheme: &'a Scheme, preemption: &'a Preemption) -> Self {
        assert!(preemption.contexts() <= MOST, "more than {MOST} contexts");
        Self { scheme, preemption }
    }

    /// Returns the number of tasks and interrupts.
    #[must_use]
    pub(crate) fn contexts(&self) -> usize {
        self.preemption.contexts()
    }

    fn pair(&self, who: usize) -> &'a Pair {
        if self.is_task(who) { &self.scheme.task } else { &self.scheme.interrupt }
    }

    fn is_task(&self, who: usize) -> bool {
        who < self.preemption.tasks
    }

    /// Returns whether a context has begun and not ended.
    #[must_use]
    pub(crate) fn is_active(state: &State, who: usize) -> bool {
        state.contexts[who].phase != Phase::Idle
    }

    /// Returns all possible next steps.
    #[must_use]
    pub(crate) fn moves(&self, state: &State) -> Vec<Move> {
        let mut moves = Vec::new();
        let tasks = self.preemption.tasks;
        let highest = (tasks..self.contexts()).rev().find(|&who| Self::is_active(state, who));
        for who in highest.map_or(tasks, |who| who + 1)..self.contexts() {
            let mut to = *state;
            self.begin(&mut to, who);
            moves.push(happened(who, "interrupts", to));
        }
        if let Some(who) = highest {
            moves.push(self.step(state, who));
        } else if state.switching.is_some() {
            moves.push(self.switch_step(state));
        } else {
            self.task_moves(state, &mut moves);
        }
        moves
    }

    fn begin(&self, to: &mut State, who: usize) {
        let Context { inside, .. } = to.contexts[who];
        to.contexts[who] = Context { phase: Phase::Enter(0), inside, ..Context::default() };
        self.settle(to, who);
    }

    /// Adds the steps that tasks and the scheduler can take while no interrupt handler runs.
    fn task_moves(&self, state: &State, moves: &mut Vec<Move>) {
        let tasks = self.preemption.tasks;
        let current = usize::from(state.task);
        let ready = |who: usize| Self::is_active(state, who) && !state.contexts[who].asleep;
        match self.preemption.policy {
            Tasks::Sliced => {
                for who in (0..tasks).filter(|&who| who != current) {
                    moves.push(self.turn_to(state, who));
                }
            }
            Tasks::ByPriority { .. } => {
                for who in (0..tasks).filter(|&who| !Self::is_active(state, who)) {
                    let mut to = *state;
                    self.begin(&mut to, who);
                    moves.push(happened(who, "is wanted", to));
                }
                for who in (0..tasks).filter(|&who| state.contexts[who].asleep) {
                    let mut to = *state;
                    to.contexts[who].asleep = false;
                    moves.push(happened(who, "wakes", to));
                }
                // Only the highest-priority ready task runs.
                match (0..tasks).rev().find(|&who| ready(who)) {
                    Some(who) if who != current => {
                        moves.push(self.turn_to(state, who));
                        return;
                    }
                    None => return,
                    Some(_) => {}
                }
            }
        }
        if !Self::is_active(state, current) {
            let mut to = *state;
            self.begin(&mut to, current);
            moves.push(happened(current, "begins", to));
            return;
        }
        if self.preemption.policy == (Tasks::ByPriority { may_sleep: true })
            && matches!(state.contexts[current].phase, Phase::Use(_))
        {
            let mut to = *state;
            to.contexts[current].asleep = true;
            moves.push(happened(current, "sleeps", to));
        }
        moves.push(self.step(state, current));
    }

    fn turn_to(&self, state: &State, who: usize) -> Move {
        let mut to = *state;
        let place = u8::try_from(who).expect("few contexts");
        if self.scheme.switch.is_empty() {
            to.task = place;
        } else {
            to.switching = Some(Switching { to: place, line: 0, half: 0 });
        }
        happened(who, "gets the processor", to)
    }

    /// Skips lines whose condition does not hold for this context. After the last line, moves on to
    /// the next phase.
    fn settle(&self, state: &mut State, who: usize) {
        let context = &mut state.contexts[who];
        let pair = self.pair(who);
        let next = |lines: &[Line], from: u8, context: &Context| {
            let found = lines[usize::from(from)..].iter().position(|line| applies(line, context));
            found.map(|skipped| from + u8::try_from(skipped).expect("few lines"))
        };
        if let Phase::Enter(line) = context.phase {
            context.phase = next(&pair.enter, line, context).map_or(Phase::Use(0), Phase::Enter);
        }
        if let Phase::Leave(line) = context.phase {
            match next(&pair.leave, line, context) {
                Some(line) => context.phase = Phase::Leave(line),
                None => end(context),
            }
        }
    }

    /// Returns the next step of a task or an interrupt.
    fn step(&self, state: &State, who: usize) -> Move {
        let pair = self.pair(who);
        match state.contexts[who].phase {
            Phase::Enter(line) => self.line(state, who, pair.enter[usize::from(line)]),
            Phase::Leave(line) => {
                let mut step = self.line(state, who, pair.leave[usize::from(line)]);
                if !Self::is_active(&step.to, who) {
                    step.completed = Some(who);
                }
                step
            }
            Phase::Use(part) => self.use_step(state, who, part),
            Phase::Idle => unreachable!("an idle context has no step"),
        }
    }

    fn use_step(&self, state: &State, who: usize, part: u8) -> Move {
        let mut to = *state;
        let value = value(who);
        let part = usize::from(part);
        if part < REGISTERS {
            to.registers[part] = value;
            to.contexts[who].phase = Phase::Use(u8::try_from(part).expect("few") + 1);
            return happened(who, "writes", to);
        }
        to.contexts[who].phase = Phase::Leave(0);
        self.settle(&mut to, who);
        to.forget(value);
        let mut step = happened(who, "reads", to);
        if state.registers != [value; REGISTERS] {
            step.fault = Some(Fault::Corrupted);
        }
        if !Self::is_active(&to, who) {
            step.completed = Some(who);
        }
        step
    }

    /// Executes one line of `enter` or `leave`.
    fn line(&self, state: &State, who: usize, line: Line) -> Move {
        let mut to = *state;
        let mut fault = None;
        let name = value(who);
        let half = usize::from(state.contexts[who].half);
        let context = &mut to.contexts[who];
        match line.op {
            Op::Claim if state.owner != 0 => {
                end(context);
                return happened(who, "claim (refused)", to);
            }
            Op::Claim | Op::Occupy => to.owner = CLAIMED,
            Op::Release => to.owner = 0,
            Op::Look => context.seen = state.owner,
            Op::Save => context.area[half] = state.registers[half],
            Op::Restore => to.registers[half] = std::mem::take(&mut context.area[half]),
            Op::Declare => context.inside = true,
            Op::Own => to.owner = name,
            Op::Withdraw => context.inside = false,
            Op::CountUp => {
                to.users = (state.users + 1).min(MOST_USERS);
                context.counted = to.users;
            }
            Op::StepBack => {
                to.users = state.users.saturating_sub(1);
                match self.scheme.full {
                    Full::Scalar => end(context),
                    _ => *context = Context { phase: Phase::Enter(0), counted: 0, ..*context },
                }
                return happened(who, line.name, to);
            }
            Op::Take if state.taken => {
                context.asleep = self.scheme.guard == Guard::Sleep && self.is_task(who);
                return happened(who, "take (refused)", to);
            }
            Op::Take => to.taken = true,
            Op::HandBack => to.taken = false,
            Op::Push(below) => match slot(context.counted, below) {
                Some(slot) => to.stack[slot][half] = state.registers[half],
                None => fault = Some(Fault::BeyondStack),
            },
            Op::Pop(below) => {
                if let Some(slot) = slot(context.counted, below) {
                    to.registers[half] = state.stack[slot][half];
                }
            }
            Op::CountDown => {
                to.users = state.users.saturating_sub(1);
                context.counted = to.users;
            }
            Op::Read => context.counted = state.users,
            Op::Keep | Op::Compare | Op::Give | Op::Fill => unreachable!("the scheduler's"),
        }
        self.advance(&mut to, who, line.op);
        Move { fault, ..happened(who, line.name, to) }
    }

    /// Advances to the second register of the line, or to the next line.
    fn advance(&self, to: &mut State, who: usize, op: Op) {
        let context = &mut to.contexts[who];
        if moves_registers(op) && usize::from(context.half) + 1 < REGISTERS {
            context.half += 1;
            return;
        }
        context.half = 0;
        match &mut context.phase {
            Phase::Enter(line) | Phase::Leave(line) => *line += 1,
            Phase::Idle | Phase::Use(_) => unreachable!("only lines advance"),
        }
        self.settle(to, who);
    }

    /// Executes a scheduler step during a task switch.
    fn switch_step(&self, state: &State) -> Move {
        let mut to = *state;
        let mut at = state.switching.expect("the scheduler is running");
        let (from, next) = (usize::from(state.task), usize::from(at.to));
        let line = self.scheme.switch[usize::from(at.line)];
        let half = usize::from(at.half);
        let mut is_done = false;
        match line.op {
            Op::Keep if state.contexts[from].inside => {
                to.contexts[from].area[half] = state.registers[half];
            }
            Op::Keep => at.half = 1,
            Op::Compare => {
                is_done = !state.contexts[next].inside || state.owner == at.to + 1;
                if is_done {
                    to.contexts[next].area = Registers::default();
                }
            }
            Op::Give => to.owner = at.to + 1,
            Op::Fill => to.registers[half] = std::mem::take(&mut to.contexts[next].area[half]),
            _ => unreachable!("not the scheduler's"),
        }
        if moves_registers(line.op) && usize::from(at.half) + 1 < REGISTERS {
            at.half += 1;
        } else {
            at.half = 0;
            at.line += 1;
        }
        is_done |= usize::from(at.line) == self.scheme.switch.len();
        to.switching = if is_done { None } else { Some(at) };
        if is_done {
            to.task = at.to;
        }
        let who = Mover::Scheduler;
        Move { who, what: line.name, fault: None, completed: None, to }
    }
}

fn happened(who: usize, what: &'static str, to: State) -> Move {
    Move { who: Mover::Context(who), what, fault: None, completed: None, to }
}

/// Returns the register value that a context writes, which is also its name as an owner; 0 is any
/// other value.
fn value(who: usize) -> u8 {
    u8::try_from(who).expect("few contexts") + 1
}

/// Ends a context's run, whether it used vectors or not.
fn end(context: &mut Context) {
    *context = Context { inside: context.inside, ..Context::default() };
}

fn applies(line: &Line, context: &Context) -> bool {
    match line.when {
        When::Always => true,
        When::Owned => context.seen != 0,
        When::Unowned => context.seen == 0,
        When::Above(count) => context.counted > count,
    }
}

const fn moves_registers(op: Op) -> bool {
    matches!(op, Op::Save | Op::Restore | Op::Push(_) | Op::Pop(_) | Op::Keep | Op::Fill)
}

/// Returns the index in the note's stack for this count; `None` beyond its end.
fn slot(counted: u8, below: u8) -> Option<usize> {
    let slot = usize::from(counted.checked_sub(below)?);
    (slot < usize::from(DEPTH)).then_some(slot)
}
