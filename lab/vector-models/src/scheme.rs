// SPDX-License-Identifier: MIT OR Apache-2.0
//! The schemes as programs: lines that each touch shared memory or the registers once, in the order
//! and by the names of the C code (`LR_VEC_STEP`). Leaves out what a line does: `machine`.

/// Effect of a line on shared memory or the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Becomes the owner if there is none; else is refused.
    Claim,
    /// Leaves no owner.
    Release,
    /// Notes who owns the registers.
    Look,
    /// Saves the registers, one after the other, to its own area.
    Save,
    /// Becomes the owner unconditionally.
    Occupy,
    /// Loads the registers from its own area.
    Restore,
    /// Says that it is inside.
    Declare,
    /// Becomes the owner by its own name.
    Own,
    /// Says that it no longer is inside.
    Withdraw,
    /// The scheduler saves the registers of the task that goes, if that is inside.
    Keep,
    /// The scheduler is done if the task that comes is not inside, or owns the registers already.
    Compare,
    /// The scheduler makes the task that comes the owner.
    Give,
    /// The scheduler loads the registers of the task that comes.
    Fill,
    /// Counts one user more and keeps the result.
    CountUp,
    /// Counts one user less, after the stack was found full.
    StepBack,
    /// Takes the semaphore, or waits.
    Take,
    /// Saves the registers to the stack, as many places below what it counted.
    Push(u8),
    /// Gives the semaphore back.
    HandBack,
    /// Counts one user less and keeps the result.
    CountDown,
    /// Keeps the number of users.
    Read,
    /// Loads the registers from the stack.
    Pop(u8),
}

/// Condition for skipping a line, in terms of the context's own state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Never.
    Always,
    /// Unless the registers were owned when it checked.
    Owned,
    /// Unless they were not owned.
    Unowned,
    /// Unless it counted more than this.
    Above(u8),
}

/// A line with its name in the C code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The name.
    pub name: &'static str,
    /// Its effect.
    pub op: Op,
    /// Condition for skipping it.
    pub when: When,
}

const fn line(name: &'static str, op: Op) -> Line {
    Line { name, op, when: When::Always }
}

const fn when(name: &'static str, op: Op, when: When) -> Line {
    Line { name, op, when }
}

/// The enclosing code of a use of vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Before it.
    pub enter: Vec<Line>,
    /// Behind it.
    pub leave: Vec<Line>,
}

/// Behaviour of a user when the note's stack is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// No check: the registers are written behind the stack.
    Unseen,
    /// It uses scalar code.
    Scalar,
    /// It tries again.
    Spin,
}

/// Protection of the note's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// No guard.
    None,
    /// A binary semaphore; who finds it taken tries again.
    Spin,
    /// A binary semaphore; a task that finds it taken sleeps, an interrupt tries again.
    Sleep,
}

/// A way to share the registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Its name in tables.
    pub name: &'static str,
    /// Steps of tasks.
    pub task: Pair,
    /// Steps of interrupts.
    pub interrupt: Pair,
    /// Steps of the scheduler in a task switch.
    pub switch: Vec<Line>,
    /// For the note's.
    pub full: Full,
    /// For the note's.
    pub guard: Guard,
}

/// Capacity of the note's stack here, in contexts; the C code's is 4. A smaller one needs fewer
/// contexts to fill.
pub const DEPTH: u8 = 1;

/// `lr_vec_enter` and `lr_vec_leave`.
#[must_use]
pub fn exclusive() -> Pair {
    Pair { enter: vec![line("claim", Op::Claim)], leave: vec![line("release", Op::Release)] }
}

/// `lr_vec_nest` and `lr_vec_unnest`.
#[must_use]
pub fn nested() -> Pair {
    Pair {
        enter: vec![
            line("look", Op::Look),
            when("save", Op::Save, When::Owned),
            when("occupy", Op::Occupy, When::Unowned),
        ],
        leave: vec![
            when("restore", Op::Restore, When::Owned),
            when("vacate", Op::Release, When::Unowned),
        ],
    }
}

/// `lr_vec_task_enter` and `lr_vec_task_leave`.
#[must_use]
pub fn of_tasks() -> Pair {
    Pair {
        enter: vec![line("declare", Op::Declare), line("own", Op::Own)],
        leave: vec![line("withdraw", Op::Withdraw), line("disown", Op::Release)],
    }
}

/// `lr_vec_switch`.
#[must_use]
pub fn switch() -> Vec<Line> {
    vec![
        line("keep", Op::Keep),
        line("compare", Op::Compare),
        line("give", Op::Give),
        line("fill", Op::Fill),
    ]
}

/// `note_enter` and `note_leave`; with `pop_first` the counter drops last.
#[must_use]
pub fn note(guard: Guard, full: Full, pop_first: bool) -> Pair {
    // Each part for who counted more than `above`: the stack is between taking and handing back.
    let guarded = |name: &'static str, op: Op, above: u8| {
        let here = When::Above(above);
        let inner = when(name, op, here);
        match guard {
            Guard::None => vec![inner],
            _ => vec![when("take", Op::Take, here), inner, when("hand_back", Op::HandBack, here)],
        }
    };
    let mut enter = vec![line("count_up", Op::CountUp)];
    if full != Full::Unseen {
        enter.push(when("step_back", Op::StepBack, When::Above(DEPTH + 1)));
    }
    enter.extend(guarded("push", Op::Push(2), 1));
    let leave = if pop_first {
        let mut lines = vec![line("read", Op::Read)];
        lines.extend(guarded("pop", Op::Pop(2), 1));
        lines.push(line("count_down", Op::CountDown));
        lines
    } else {
        let mut lines = vec![line("count_down", Op::CountDown)];
        lines.extend(guarded("pop", Op::Pop(1), 0));
        lines
    };
    Pair { enter, leave }
}

impl Scheme {
    fn ours(name: &'static str, task: Pair, interrupt: Pair, switch: Vec<Line>) -> Self {
        Self { name, task, interrupt, switch, full: Full::Unseen, guard: Guard::None }
    }

    fn notes(name: &'static str, guard: Guard, full: Full, pop_first: bool) -> Self {
        let pair = note(guard, full, pop_first);
        let interrupt = pair.clone();
        Self { name, task: pair, interrupt, switch: Vec::new(), full, guard }
    }

    /// The same without the lines of that name.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut scheme = self.clone();
        for lines in scheme.programs_mut() {
            lines.retain(|line| line.name != name);
        }
        scheme
    }

    /// The same with neighbours of these names in the other order.
    #[must_use]
    pub fn swapped(&self, first: &str, second: &str) -> Self {
        let mut scheme = self.clone();
        for lines in scheme.programs_mut() {
            for i in 1..lines.len() {
                if lines[i - 1].name == first && lines[i].name == second {
                    lines.swap(i - 1, i);
                }
            }
        }
        scheme
    }

    fn programs_mut(&mut self) -> [&mut Vec<Line>; 5] {
        let Self { task, interrupt, switch, .. } = self;
        [&mut task.enter, &mut task.leave, &mut interrupt.enter, &mut interrupt.leave, switch]
    }

    /// The names of all lines, each once.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let (task, interrupt) = (&self.task, &self.interrupt);
        let programs = [&task.enter, &task.leave, &interrupt.enter, &interrupt.leave, &self.switch];
        let mut names: Vec<&'static str> = Vec::new();
        for line in programs.into_iter().flatten() {
            if !names.contains(&line.name) {
                names.push(line.name);
            }
        }
        names
    }
}

/// All schemes, the note's first.
#[must_use]
pub fn schemes() -> Vec<Scheme> {
    vec![
        Scheme::notes(
            "note's appendix: no semaphore, full unseen",
            Guard::None,
            Full::Unseen,
            false,
        ),
        Scheme::notes("note: no semaphore, full: scalar", Guard::None, Full::Scalar, false),
        Scheme::notes("note: no semaphore, full: spin", Guard::None, Full::Spin, false),
        Scheme::notes(
            "note's text: semaphore spins, full: scalar",
            Guard::Spin,
            Full::Scalar,
            false,
        ),
        Scheme::notes("note's text: semaphore spins, full: spin", Guard::Spin, Full::Spin, false),
        Scheme::notes(
            "note's text: semaphore sleeps, full: scalar",
            Guard::Sleep,
            Full::Scalar,
            false,
        ),
        Scheme::notes("note's text: semaphore sleeps, full: spin", Guard::Sleep, Full::Spin, false),
        Scheme::notes("note mended: pops first, full: scalar", Guard::None, Full::Scalar, true),
        Scheme::ours("enter", exclusive(), exclusive(), Vec::new()),
        Scheme::ours("enter; interrupts nest", exclusive(), nested(), Vec::new()),
        Scheme::ours("all nest", nested(), nested(), Vec::new()),
        Scheme::ours("task_enter and switch; interrupts nest", of_tasks(), nested(), switch()),
    ]
}
