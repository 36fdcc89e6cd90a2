// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two plots about models: observed versus modelled values, and counts per class.

use super::Plot;
use super::bars::{Bar, BarChart, Group};
use super::canvas::{Caption, Look};
use linerate_record::units::three_digits;

/// File name and heading of a plot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Title {
    /// File name without extension.
    pub name: String,
    /// Heading: what the plot shows, in one line.
    pub title: String,
    /// Subtitle.
    pub note: String,
}

/// An observed and a modelled value.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Legend text.
    pub name: String,
    /// Observed value, 0 or more.
    pub observed: f64,
    /// Modelled value, 0 or more.
    pub modelled: f64,
}

/// Draws bars of observed and modelled values side by side, with the model's error. `label` names
/// the axis.
pub fn compared(title: &Title, label: &str, all: &[Compared]) -> Plot {
    let group = |one: &Compared| Group {
        head: one.name.clone(),
        bars: vec![
            bar("observed", Look::Variant(3), one.observed, three_digits(one.observed)),
            bar("model", Look::Variant(5), one.modelled, with_error(one)),
        ],
    };
    let described = all.iter().map(|one| {
        let [observed, modelled] = [one.observed, one.modelled].map(three_digits);
        format!("{}: observed {observed}, model {modelled}", one.name)
    });
    let chart = BarChart {
        caption: caption(title, described.collect()),
        label: label.to_owned(),
        groups: all.iter().map(group).collect(),
    };
    plot(title, chart.svg())
}

fn bar(name: &str, look: Look, value: f64, text: String) -> Bar {
    Bar { name: name.to_owned(), look, value, text }
}

fn with_error(one: &Compared) -> String {
    let percent = 100.0 * (one.modelled / one.observed - 1.0);
    format!("{} ({percent:+.1} %)", three_digits(one.modelled))
}

/// Draws the counts per class as bars, in order. `label` names what is counted.
pub fn counted(title: &Title, label: &str, classes: &[(String, u64)]) -> Plot {
    let class = |(name, count): &(String, u64)| {
        bar(name, Look::Variant(5), *count as f64, count.to_string())
    };
    let group = Group { head: String::new(), bars: classes.iter().map(class).collect() };
    let described = classes.iter().map(|(name, count)| format!("{name}: {count}"));
    let chart = BarChart {
        caption: caption(title, described.collect()),
        label: label.to_owned(),
        groups: vec![group],
    };
    plot(title, chart.svg())
}

fn caption(title: &Title, described: Vec<String>) -> Caption {
    Caption {
        name: title.name.clone(),
        title: title.title.clone(),
        notes: vec![title.note.clone()],
        description: described.join("; "),
    }
}

fn plot(title: &Title, svg: String) -> Plot {
    Plot { name: title.name.clone(), title: title.title.clone(), svg }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title() -> Title {
        let text = |text: &str| text.to_owned();
        Title { name: text("model"), title: text("A model"), note: text("Tier model.") }
    }

    #[test]
    fn errors_of_the_model_are_at_its_bars() {
        let all = [Compared { name: "kpps".to_owned(), observed: 200.0, modelled: 210.0 }];
        let plot = compared(&title(), "thousand packets per second", &all);
        assert!(plot.svg.contains("210 (+5.0 %)"), "{}", plot.svg);
        assert!(plot.svg.contains("observed 200, model 210"), "{}", plot.svg);
    }

    #[test]
    fn classes_stand_in_order_with_their_counts() {
        let classes = [("at 334".to_owned(), 74_000), ("at 329".to_owned(), 12)];
        let plot = counted(&title(), "placements", &classes);
        assert!(plot.svg.contains("at 334: 74000; at 329: 12"), "{}", plot.svg);
        assert!(plot.svg.contains(">74000</text>"), "{}", plot.svg);
    }
}
