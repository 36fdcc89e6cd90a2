// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scores the answers of `linerate why`.

use super::scene::{Ran, Rights};
use super::seeds::Seed;
use std::fmt::Write;

/// Answer that names no cause.
const CANNOT_TELL: &str = "cannot_tell";
/// Answer that there is no bottleneck.
const NOTHING_WRONG: &str = "nothing_wrong";

/// A seed's runs at one privilege level.
pub(super) struct Tried<'a> {
    pub seed: &'a Seed,
    pub rights: Rights,
    /// Runs with the seed, each paired with a run without it, immediately before or after. A null
    /// case has no second run.
    pub pairs: Vec<(Ran, Option<Ran>)>,
    /// Why runs failed, at most one reason per pair; failed runs are missing from `pairs`.
    pub failed: Vec<String>,
}

/// Score for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    Right,
    CannotTell,
    /// The answer is steal time, and xtask saw steal time too: true, but not the planted cause.
    Disturbed,
    /// The answer names a cause other than the planted one.
    Wrong,
}

/// Returns whether the answer is steal time and xtask's own reading confirms it.
fn is_disturbed(ran: &Ran) -> bool {
    /// Minimum fraction of a CPU's time, the same as in the rule for steal time.
    const STOLEN: f64 = 0.05;
    ran.finding == "stolen_cpu" && ran.stolen.is_some_and(|stolen| stolen >= STOLEN)
}

fn of_seeded(seed: &Seed, ran: &Ran) -> Worth {
    match ran.finding.as_str() {
        finding if seed.causes.iter().any(|cause| cause == finding) => Worth::Right,
        CANNOT_TELL => Worth::CannotTell,
        _ if is_disturbed(ran) => Worth::Disturbed,
        _ => Worth::Wrong,
    }
}

/// Scores a run without the seed. An answer that names a cause is a false alarm unless the seed
/// lists that cause as a limit of the control run too.
fn of_control(seed: &Seed, ran: &Ran) -> Worth {
    match ran.finding.as_str() {
        CANNOT_TELL => Worth::CannotTell,
        NOTHING_WRONG => Worth::Right,
        finding if seed.control.iter().any(|cause| cause == finding) => Worth::Right,
        _ if is_disturbed(ran) => Worth::Disturbed,
        _ => Worth::Wrong,
    }
}

/// Counts of answers by score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Score {
    pub seeds: u32,
    pub seeds_right: u32,
    pub answers: u32,
    pub right: u32,
    pub wrong: u32,
    pub controls: u32,
    pub false_alarms: u32,
    pub gains: u32,
    pub gains_held: u32,
}

impl Tried<'_> {
    /// Returns the gain measured when the seed was removed, in percent, for each pair; `None`
    /// without two rates.
    fn measured_gains(&self) -> impl Iterator<Item = Option<f64>> {
        self.pairs.iter().map(|(with, without)| {
            let (with, without) = (with.rate?, without.as_ref()?.rate?);
            (with > 0.0).then(|| (without / with - 1.0) * 100.0)
        })
    }

    fn worths(&self) -> Vec<Worth> {
        self.pairs.iter().map(|(with, _)| of_seeded(self.seed, with)).collect()
    }

    /// Returns whether more than half of the answers name the seed.
    pub(super) fn is_right(&self) -> bool {
        let worths = self.worths();
        2 * worths.iter().filter(|worth| **worth == Worth::Right).count() > worths.len()
    }

    fn add_to(&self, score: &mut Score) {
        let worths = self.worths();
        let count = |what: Worth| worths.iter().filter(|worth| **worth == what).count() as u32;
        if self.seed.is_null {
            score.controls += worths.len() as u32;
            score.false_alarms += count(Worth::Wrong);
            return;
        }
        score.seeds += 1;
        score.seeds_right += u32::from(self.is_right());
        score.answers += worths.len() as u32;
        score.right += count(Worth::Right);
        score.wrong += count(Worth::Wrong);
        let controls = self.pairs.iter().filter_map(|(_, without)| without.as_ref());
        for control in controls {
            score.controls += 1;
            score.false_alarms += u32::from(of_control(self.seed, control) == Worth::Wrong);
        }
        // The predicted gain of a right answer is compared with the gain measured in the same pair:
        // the parameters of pairs differ. Both are rounded to whole percent, as shown, because
        // rates of equal runs differ by some tenths.
        for ((with, _), measured) in self.pairs.iter().zip(self.measured_gains()) {
            let is_right = of_seeded(self.seed, with) == Worth::Right;
            if let (true, Some((_, low, high)), Some(measured)) = (is_right, with.gain, measured) {
                score.gains += 1;
                let held = low.round() <= measured.round() && measured.round() <= high.round();
                score.gains_held += u32::from(held);
            }
        }
    }
}

/// Returns the score for everything tried with these privileges.
pub(super) fn score(tried: &[Tried<'_>], rights: Rights) -> Score {
    let mut score = Score::default();
    tried.iter().filter(|tried| tried.rights == rights).for_each(|t| t.add_to(&mut score));
    score
}

/// Formats the results page: the scores, then the wrong answers, then all results.
pub(super) fn page(tried: &[Tried<'_>]) -> String {
    let mut page = String::new();
    page.push_str(
        "| rights | seeds named | answers right | confidently wrong | false alarms | gains held |\n\
         |---|---|---|---|---|---|\n",
    );
    for rights in [Rights::Root, Rights::User] {
        let s = score(tried, rights);
        if s.answers + s.controls == 0 {
            continue;
        }
        let _ = writeln!(
            page,
            "| {} | {} of {} | {} of {} | {} | {} of {} | {} of {} |",
            rights.word(),
            s.seeds_right,
            s.seeds,
            s.right,
            s.answers,
            s.wrong,
            s.false_alarms,
            s.controls,
            s.gains_held,
            s.gains,
        );
    }
    let runs = tried.iter().flat_map(|tried| &tried.pairs);
    let disturbed = runs.flat_map(|(with, without)| std::iter::once(with).chain(without));
    match disturbed.filter(|ran| is_disturbed(ran)).count() {
        0 => {}
        count => {
            let _ = writeln!(
                page,
                "\nAnswers that name steal time that did occur, and therefore count as neither \
                 right nor wrong: {count}"
            );
        }
    }
    let (right, missed): (Vec<_>, Vec<_>) = tried.iter().partition(|tried| tried.is_right());
    for (heading, tried) in [("Missed", missed), ("Named", right)] {
        let _ = writeln!(page, "\n**{heading}**\n");
        page.push_str(
            "| seed | rights | answer | answer in the control run | gain predicted | gain measured \
             |\n\
             |---|---|---|---|---:|---:|\n",
        );
        tried.iter().for_each(|tried| row(&mut page, tried));
    }
    page
}

/// Formats the finding; for steal time, adds the value that xtask read itself.
fn shown(ran: &Ran) -> String {
    match ran.stolen.filter(|_| is_disturbed(ran)) {
        Some(stolen) => {
            format!("{} (the hypervisor took {:.0} % of a CPU)", ran.finding, 100.0 * stolen)
        }
        None => ran.finding.clone(),
    }
}

fn interval(low: f64, high: f64) -> String {
    match high.is_finite() {
        true => format!("{low:.0} to {high:.0} %"),
        false => format!("{low:.0} % or more"),
    }
}

fn row(page: &mut String, tried: &Tried<'_>) {
    let list = |words: Vec<String>| match words.is_empty() {
        true => "-".to_owned(),
        false => words.join(", "),
    };
    let answers = tried.pairs.iter().map(|(with, _)| shown(with));
    let answers = answers.chain(tried.failed.iter().map(|why| format!("failed: {why}"))).collect();
    let controls = tried.pairs.iter().filter_map(|(_, without)| without.as_ref());
    let controls = controls.map(shown).collect();
    let gains = tried.pairs.iter().filter_map(|(with, _)| with.gain);
    let gains = gains.map(|(_, low, high)| interval(low, high)).collect();
    let measured = tried.measured_gains().flatten().map(|gain| format!("{gain:.0} %")).collect();
    let _ = writeln!(
        page,
        "| {} {} | {} | {} | {} | {} | {} |",
        tried.seed.id,
        tried.seed.name,
        tried.rights.word(),
        list(answers),
        list(controls),
        list(gains),
        list(measured),
    );
}

#[cfg(test)]
mod tests {
    use super::super::seeds;
    use super::*;

    fn ran(finding: &str, rate: f64, gain: Option<(f64, f64, f64)>) -> Ran {
        Ran { finding: finding.to_owned(), rate: Some(rate), gain, ..Ran::default() }
    }

    fn tried<'a>(seed: &'a Seed, pairs: Vec<(Ran, Option<Ran>)>) -> Tried<'a> {
        Tried { seed, rights: Rights::User, pairs, failed: Vec::new() }
    }

    #[test]
    fn counts_what_is_right_wrong_and_not_known() {
        let seeds = seeds::all().unwrap();
        let quota = seeds.iter().find(|seed| seed.id == "3").unwrap();
        let gain = Some((150.0, 80.0, 220.0));
        let pairs = vec![
            (ran("cpu_quota", 10.0, gain), Some(ran("nothing_wrong", 20.0, None))),
            (ran("cpu_contention", 10.0, gain), Some(ran("cpu_quota", 20.0, None))),
            (ran("cannot_tell", 10.0, None), Some(ran("cannot_tell", 20.0, None))),
        ];
        let score = score(&[tried(quota, pairs)], Rights::User);
        assert_eq!((score.seeds, score.seeds_right), (1, 0));
        assert_eq!((score.answers, score.right, score.wrong), (3, 1, 1));
        assert_eq!((score.controls, score.false_alarms), (3, 1));
        assert_eq!((score.gains, score.gains_held), (1, 1));
    }

    #[test]
    fn a_gain_is_compared_with_that_of_its_own_pair() {
        let seeds = seeds::all().unwrap();
        let quota = seeds.iter().find(|seed| seed.id == "3").unwrap();
        let pair = |gain, rate| {
            (ran("cpu_quota", 10.0, Some(gain)), Some(ran("nothing_wrong", rate, None)))
        };
        // Gains of 100 %, 900 % and 400 %.
        let pairs = vec![
            pair((90.0, 80.0, 120.0), 20.0),
            pair((800.0, 700.0, 1000.0), 100.0),
            pair((90.0, 80.0, 120.0), 50.0),
        ];
        let score = score(&[tried(quota, pairs)], Rights::User);
        assert_eq!((score.gains, score.gains_held), (3, 2));
    }

    #[test]
    fn steal_time_that_was_there_is_no_wrong_answer() {
        let seeds = seeds::all().unwrap();
        let quota = seeds.iter().find(|seed| seed.id == "3").unwrap();
        let ran = |stolen| Ran { stolen, ..ran("stolen_cpu", 10.0, None) };
        let pairs = |stolen| vec![(ran(stolen), Some(ran(stolen)))];
        let disturbed = score(&[tried(quota, pairs(Some(0.2)))], Rights::User);
        assert_eq!((disturbed.right, disturbed.wrong, disturbed.false_alarms), (0, 0, 0));
        for stolen in [None, Some(0.01)] {
            let wrong = score(&[tried(quota, pairs(stolen))], Rights::User);
            assert_eq!((wrong.right, wrong.wrong, wrong.false_alarms), (0, 1, 1));
        }
        let text = page(&[tried(quota, pairs(Some(0.2)))]);
        assert!(text.contains("stolen_cpu (the hypervisor took 20 % of a CPU)"), "{text}");
        assert!(text.contains("count as neither right nor wrong: 2"), "{text}");
    }

    #[test]
    fn an_alarm_about_nothing_is_false() {
        let seeds = seeds::all().unwrap();
        let idle = seeds.iter().find(|seed| seed.id == "n1").unwrap();
        let pairs =
            vec![(ran("cpu_quota", 0.0, None), None), (ran("nothing_wrong", 0.0, None), None)];
        let score = score(&[tried(idle, pairs)], Rights::User);
        assert_eq!((score.seeds, score.controls, score.false_alarms), (0, 2, 1));
    }
}
