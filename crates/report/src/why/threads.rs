// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time budgets: one row per thread, with shares of its wall time that add up to 1.

use super::put;
use crate::layout::Grid;
use crate::value::ABSENT;
use crate::{Detail, Style};
use linerate_record::units::three_digits;
use linerate_record::why::{Observation, ThreadActivity, ThreadState};

/// Maximum number of threads on one screen.
const MOST: usize = 6;

/// Columns in which no share exceeds this are omitted from the one-screen view.
const VISIBLE: f64 = 0.005;

/// The time budgets of threads.
pub(super) fn threads(observation: &Observation, detail: Detail, style: &Style) -> String {
    let threads = &observation.threads;
    let shown = match detail {
        Detail::Screen | Detail::Brief => &threads[..threads.len().min(MOST)],
        Detail::Full => &threads[..],
    };
    let is_shown = |state: &ThreadState| {
        let has = |thread: &ThreadActivity| match thread.share(*state) {
            Some(share) => {
                detail == Detail::Full
                    || share.as_number().is_none_or(|share| share.abs() >= VISIBLE)
                    || matches!(state, ThreadState::Waiting | ThreadState::Asleep)
            }
            None => false,
        };
        shown.iter().any(has)
    };
    let states: Vec<ThreadState> = ThreadState::ALL.into_iter().filter(is_shown).collect();
    let heads: Vec<String> = states.iter().map(|state| format!(">{}", head(*state))).collect();
    let fixed = ["thread", ">tid", ">cpu"].into_iter();
    let last = [">ns/packet", "asleep in"].into_iter();
    let columns: Vec<&str> = fixed.chain(heads.iter().map(String::as_str)).chain(last).collect();
    let mut grid = Grid::new(&columns);
    for thread in shown {
        let cpu = thread.ran_on.first().map_or_else(|| ABSENT.to_owned(), u32::to_string);
        let mut row = vec![thread.name.clone(), thread.tid.to_string(), cpu];
        row.extend(states.iter().map(|state| percent(thread, *state)));
        row.push(thread.cost_ns.as_number().map_or_else(|| ABSENT.to_owned(), three_digits));
        row.push(asleep_in(thread));
        put(&mut grid, row);
    }
    let more = threads.len() - shown.len() + observation.threads_left_out as usize;
    let more = match more {
        0 => String::new(),
        more => format!("{more} more threads with less time (--details)\n"),
    };
    grid.render(style) + &more
}

fn head(state: ThreadState) -> &'static str {
    match state {
        ThreadState::User => "user\n%",
        ThreadState::Work => "work\n%",
        ThreadState::Polling => "polling\n%",
        ThreadState::Kernel => "kernel\n%",
        ThreadState::Interrupts => "irq\n%",
        ThreadState::Waiting => "waits for\na CPU %",
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

/// The object name of epoll calls, which is uninformative.
const EVENT_POLL: &str = "[eventpoll]";

/// The call in which the thread slept longest.
fn asleep_in(thread: &ThreadActivity) -> String {
    let Some(sleep) = thread.asleep_on.first() else { return String::new() };
    match sleep.object.as_deref().filter(|object| *object != EVENT_POLL) {
        Some(object) => format!("{} ({object})", sleep.on),
        None => sleep.on.clone(),
    }
}
