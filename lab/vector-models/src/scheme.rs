// SPDX-License-Identifier: MIT OR Apache-2.0
//! The schemes as programs: lines that each access shared memory or the registers once, with the
//! same order and names as in the C code (`LR_VEC_STEP`). The effect of each line is in `machine`.

/// A line's effect on shared memory or the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Become the owner if there is none; otherwise, use is refused.
    Claim,
    /// Set the owner to none.
    Release,
    /// Read the registers' owner.
    Look,
    /// Save the registers, one after the other, to the context's own area.
    Save,
    /// Mark the registers as owned, unconditionally.
    Occupy,
    /// Load the registers from the context's own area.
    Restore,
    /// Declare that the task uses vectors.
    Declare,
    /// Set the owner to this task.
    Own,
    /// Declare that the task no longer uses vectors.
    Withdraw,
    /// Scheduler: save the outgoing task's registers, if it uses vectors.
    Keep,
    /// Scheduler: end the switch if the incoming task does not use vectors, or already owns the
    /// registers.
    Compare,
    /// Scheduler: set the owner to the incoming task.
    Give,
    /// Scheduler: load the incoming task's registers.
    Fill,
    /// Increment the user count and remember the result.
    CountUp,
    /// Decrement the user count because the stack is full.
    StepBack,
    /// Acquire the semaphore, or wait.
    Take,
    /// Save the registers to the stack, at the remembered count minus this number.
    Push(u8),
    /// Release the semaphore.
    HandBack,
    /// Decrement the user count and remember the result.
    CountDown,
    /// Read the user count and remember it.
    Read,
    /// Load the registers from the stack, at the remembered count minus this number.
    Pop(u8),
}

/// When a line is executed, in terms of the context's own state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// Only if the registers had an owner when the context read it.
    Owned,
    /// Only if the registers had no owner when the context read it.
    Unowned,
    /// Only if the remembered count is above this number.
    Above(u8),
}

/// A program line, with its name in the C code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Name in the C code.
    pub name: &'static str,
    /// Action of the line.
    pub op: Op,
    /// When the line is executed.
    pub when: When,
}

const fn line(name: &'static str, op: Op) -> Line {
    Line { name, op, when: When::Always }
}

const fn when(name: &'static str, op: Op, when: When) -> Line {
    Line { name, op, when }
}

/// Code around a use of vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Lines executed before the use.
    pub enter: Vec<Line>,
    /// Lines executed after the use.
    pub leave: Vec<Line>,
}

/// Reaction to a full stack in the note's schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Not checked: registers are written beyond the end of the stack.
    Unseen,
    /// The user falls back to scalar code.
    Scalar,
    /// The user retries until there is room.
    Spin,
}

/// Mutual exclusion for the note's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// No mutual exclusion.
    None,
    /// A binary semaphore; a context that finds it taken tries again.
    Spin,
    /// A binary semaphore; a task that finds it taken sleeps, an interrupt tries again.
    Sleep,
}

/// A scheme for sharing the registers between contexts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Name in tables.
    pub name: &'static str,
    /// How tasks acquire and release the registers.
    pub task: Pair,
    /// How interrupt handlers acquire and release the registers.
    pub interrupt: Pair,
    /// Scheduler code in a task switch.
    pub switch: Vec<Line>,
    /// Reaction to a full stack; used only by the note's schemes.
    pub full: Full,
    /// How the stack is protected; used only by the note's schemes.
    pub guard: Guard,
}

/// Capacity of the note's stack in this model, in contexts. It is 4 in the C code; with a smaller
/// stack, fewer contexts suffice to fill it.
pub const DEPTH: u8 = 1;

/// Returns the model of `lr_vec_enter` and `lr_vec_leave`.
#[must_use]
pub fn exclusive() -> Pair {
    Pair { enter: vec![line("claim", Op::Claim)], leave: vec![line("release", Op::Release)] }
}

/// Returns the model of `lr_vec_nest` and `lr_vec_unnest`.
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

/// Returns the model of `lr_vec_task_enter` and `lr_vec_task_leave`.
#[must_use]
pub fn of_tasks() -> Pair {
    Pair {
        enter: vec![line("declare", Op::Declare), line("own", Op::Own)],
        leave: vec![line("withdraw", Op::Withdraw), line("disown", Op::Release)],
    }
}

/// Returns the model of `lr_vec_switch`.
#[must_use]
pub fn switch() -> Vec<Line> {
    vec![
        line("keep", Op::Keep),
        line("compare", Op::Compare),
        line("give", Op::Give),
        line("fill", Op::Fill),
    ]
}

/// Returns the model of `note_enter` and `note_leave`. With `pop_first`, the count is decremented
/// after the pop.
#[must_use]
pub fn note(guard: Guard, full: Full, pop_first: bool) -> Pair {
    // A stack access, executed if the remembered count is above `above`, between acquiring and
    // releasing the semaphore.
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

    /// Returns the scheme without the lines of that name.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut scheme = self.clone();
        for lines in scheme.programs_mut() {
            lines.retain(|line| line.name != name);
        }
        scheme
    }

    /// Returns the scheme with two consecutive lines swapped.
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

    /// Returns the names of all lines, deduplicated.
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

/// Returns all schemes, those of the note first.
#[must_use]
pub fn schemes() -> Vec<Scheme> {
    vec![
        Scheme::notes(
            "AN2581 appendix, no semaphore; stack overflow undetected",
            Guard::None,
            Full::Unseen,
            false,
        ),
        Scheme::notes(
            "AN2581, no semaphore; scalar code if the stack is full",
            Guard::None,
            Full::Scalar,
            false,
        ),
        Scheme::notes(
            "AN2581, no semaphore; spins if the stack is full",
            Guard::None,
            Full::Spin,
            false,
        ),
        Scheme::notes(
            "AN2581 text, spinning semaphore; scalar code if the stack is full",
            Guard::Spin,
            Full::Scalar,
            false,
        ),
        Scheme::notes(
            "AN2581 text, spinning semaphore; spins if the stack is full",
            Guard::Spin,
            Full::Spin,
            false,
        ),
        Scheme::notes(
            "AN2581 text, sleeping semaphore; scalar code if the stack is full",
            Guard::Sleep,
            Full::Scalar,
            false,
        ),
        Scheme::notes(
            "AN2581 text, sleeping semaphore; spins if the stack is full",
            Guard::Sleep,
            Full::Spin,
            false,
        ),
        Scheme::notes(
            "AN2581 corrected, pops first; scalar code if the stack is full",
            Guard::None,
            Full::Scalar,
            true,
        ),
        Scheme::ours("enter", exclusive(), exclusive(), Vec::new()),
        Scheme::ours("enter; interrupts nest", exclusive(), nested(), Vec::new()),
        Scheme::ours("all nest", nested(), nested(), Vec::new()),
        Scheme::ours("task_enter and switch; interrupts nest", of_tasks(), nested(), switch()),
    ]
}
