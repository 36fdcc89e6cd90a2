// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time budgets: one row per thread, with fractions of its wall time that sum to 1.

use super::put;
use crate::layout::{Grid, Paint, labelled};
use crate::value::{ABSENT, clean};
use crate::{Detail, Markup, Style};
use linerate_record::units::{counted, three_digits};
use linerate_record::why::{Observation, ThreadActivity, ThreadState};

/// Maximum number of threads on one screen.
const MOST: usize = 6;

/// Share of wall time that a state must reach in at least one thread to be shown on one screen.
/// Waiting and sleeping are shown regardless.
const VISIBLE: f64 = 0.005;

/// Maximum number of states whose headings fit on two lines at any width. With more states, the
/// longest heading takes three lines.
const FEW: usize = 5;

/// Smallest share of wall time that rounds to 0.1 %, the smallest non-zero value of a column. The
/// full report shows a state if its share in at least one thread is this or more.
const ROUNDED: f64 = 0.0005;

/// Formats the time budgets of threads.
pub(super) fn threads(observation: &Observation, detail: Detail, style: &Style) -> String {
    let threads = &observation.threads;
    // Threads are sorted by decreasing CPU time, so sleeping threads come last.
    let awake = threads.iter().take_while(|thread| !sleeps_always(thread)).count().max(1);
    let shown = match detail {
        Detail::Screen | Detail::Brief => &threads[..awake.min(threads.len()).min(MOST)],
        Detail::Full => &threads[..],
    };
    // The full report shows every state with a share that rounds to 0.1 % or more in some thread.
    let least = |state| if detail == Detail::Full { ROUNDED } else { visible(state) };
    let is_shown = |state: &ThreadState| {
        let has = |thread: &ThreadActivity| match thread.share(*state) {
            Some(share) => {
                share.as_number().is_none_or(|share| share.abs() >= least(*state))
                    || matches!(state, ThreadState::Waiting | ThreadState::Asleep)
            }
            None => false,
        };
        shown.iter().any(has)
    };
    let states: Vec<ThreadState> = ThreadState::ALL.into_iter().filter(is_shown).collect();
    let heads: Vec<String> =
        states.iter().map(|state| format!(">{}", head(*state, states.len()))).collect();
    let fixed = ["thread", ">tid", ">cpu"].into_iter();
    let has_costs = shown.iter().any(|thread| thread.cost_ns.as_number().is_some());
    let sleeps = shown.iter().any(|thread| !thread.asleep_on.is_empty());
    let last = has_costs.then_some(">ns/packet").into_iter();
    let last = last.chain(sleeps.then_some("asleep in"));
    let columns: Vec<&str> = fixed.chain(heads.iter().map(String::as_str)).chain(last).collect();
    let table = |place: fn(&ThreadActivity) -> String| {
        let mut grid = Grid::new(&columns);
        for thread in shown {
            let cpu = thread.ran_on.first().map_or_else(|| ABSENT.to_owned(), u32::to_string);
            let mut row = vec![thread.name.clone(), thread.tid.to_string(), cpu];
            row.extend(states.iter().map(|state| percent(thread, *state)));
            if has_costs {
                let cost = thread.cost_ns.as_number();
                row.push(cost.map_or_else(|| ABSENT.to_owned(), three_digits));
            }
            if sleeps {
                row.push(place(thread));
            }
            put(&mut grid, row);
        }
        grid
    };
    let whole = table(asleep_in);
    let is_whole = style.markup == Markup::Markdown || whole.fits(style);
    let table = match is_whole {
        true => whole.render(style),
        false => table(call).render(style) + &objects(shown, style),
    };
    let more = threads.len() - shown.len() + observation.threads_left_out as usize;
    let more = match more {
        0 => String::new(),
        more => format!("{} with less time (--details)\n", counted(more as u64, "more thread")),
    };
    table + &more
}

/// Returns the share below which a state is not shown. The threshold is higher for unaccounted
/// time, which contains the measurement errors of all other states.
fn visible(state: ThreadState) -> f64 {
    const OF_REST: f64 = 0.03;
    if state == ThreadState::Unaccounted { OF_REST } else { VISIBLE }
}

/// Returns whether a thread sleeps practically all the time.
fn sleeps_always(thread: &ThreadActivity) -> bool {
    thread.share_of(|state| state == ThreadState::Asleep) > 1.0 - VISIBLE
}

/// Returns the heading of a state, in a table of `states` states.
fn head(state: ThreadState, states: usize) -> &'static str {
    match state {
        ThreadState::User => "user\n%",
        ThreadState::Work => "work\n%",
        ThreadState::Polling => "polling\n%",
        ThreadState::Kernel => "kernel\n%",
        ThreadState::Interrupts => "irq\n%",
        ThreadState::Waiting if states > FEW => "waiting\nfor\nCPU %",
        ThreadState::Waiting => "waiting\nfor CPU %",
        ThreadState::Throttled => "quota\n%",
        ThreadState::Stolen => "stolen\n%",
        ThreadState::Asleep => "asleep\n%",
        ThreadState::Unaccounted => "rest\n%",
    }
}

fn percent(thread: &ThreadActivity, state: ThreadState) -> String {
    let share = thread.share(state).and_then(linerate_record::Figure::as_number);
    share.map_or_else(|| ABSENT.to_owned(), crate::value::percent)
}

/// Object that epoll calls sleep on. It is not shown, because it does not reveal which event a
/// thread is waiting for.
const EVENT_POLL: &str = "[eventpoll]";

/// Returns the call in which the thread slept longest.
fn call(thread: &ThreadActivity) -> String {
    thread.asleep_on.first().map_or_else(String::new, |sleep| sleep.on.clone())
}

/// Lists what threads slept on, below a table that has no room for it.
fn objects(threads: &[ThreadActivity], style: &Style) -> String {
    let mut text = String::new();
    for thread in threads.iter().filter(|thread| asleep_in(thread) != call(thread)) {
        let label = if text.is_empty() { "asleep in" } else { "" };
        let place = format!("{} {}: {}", thread.name, thread.tid, asleep_in(thread));
        text += &labelled(label, Paint::Head, &clean(&place), style);
    }
    text
}

/// Returns the call in which the thread slept longest, and its object.
fn asleep_in(thread: &ThreadActivity) -> String {
    let Some(sleep) = thread.asleep_on.first() else { return String::new() };
    match sleep.object.as_deref().filter(|object| *object != EVENT_POLL) {
        Some(object) => format!("{} ({object})", sleep.on),
        None => sleep.on.clone(),
    }
}
