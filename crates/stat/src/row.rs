// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures for one row of counts: an interval, a thread or a whole run.

use crate::requested::{Requested, RequestedEvent};
use crate::tallies::Tallies;
use linerate_counters::event::Class;
use linerate_counters::rotation::EventTally;
use linerate_doctor::refusal::Explanation;
use linerate_record::{Figure, Tier};

/// Method for counts that were not scaled.
pub(crate) const COUNTED: &str = "counted";

/// Returns a count's evidence tier.
pub(crate) fn tier(asked: &RequestedEvent, is_user_only: bool) -> Tier {
    match &asked.event {
        Ok(event) if event.class != Class::Hardware => Tier::Sw,
        _ if is_user_only => Tier::User,
        _ => Tier::Hw,
    }
}

/// Why an event that the session opened has no count.
pub(crate) const UNSCHEDULED: &str = "it was not scheduled on a counter in this interval or thread";

/// Returns the figures for an interval's or thread's counts. `otherwise` is why a count is missing
/// if its event was not refused.
pub(crate) fn row(
    asked: &Requested,
    tallies: &Tallies,
    tiers: &[Tier],
    refusals: &[Option<Explanation>],
    otherwise: &str,
) -> Vec<Figure> {
    let figure = |(place, event): (usize, &RequestedEvent)| match tallies.tally(place) {
        Some(tally) => counted(event.unit, &tally, tiers[place]),
        None => {
            let reason = refusals[place].as_ref().map(|refusal| refusal.sentence.as_str());
            Figure::absent(event.unit, tiers[place], COUNTED, reason.unwrap_or(otherwise))
        }
    };
    asked.events.iter().enumerate().map(figure).collect()
}

/// Returns the figure for a count from one run.
pub(crate) fn counted(unit: &str, tally: &EventTally, tier: Tier) -> Figure {
    match tally.is_scaled {
        false => Figure::exact(unit, tally.estimate.value, tier, COUNTED),
        true => {
            let method = format!("scaled up from {} slices", tally.periods);
            Figure::number(unit, tally.estimate, tier, &method)
        }
    }
}
