// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of measured curves on logarithmic axes.

use super::Plot;
use super::canvas::{Caption, Look};
use super::compared::Title;
use super::lines::{Line, LineChart};
use linerate_record::units::three_digits;

/// A curve of a plot. At most eight curves of a plot can be distinguished.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredCurve {
    /// Legend text.
    pub name: String,
    /// The points, by ascending x. Points without a positive x and y are left out, because they
    /// have no place on logarithmic axes.
    pub points: Vec<(f64, f64)>,
}

/// Draws curves. `labels` name the x axis and the y axis. The legend lists each curve's value at
/// `quoted`, an x value, with its unit in words.
pub fn curves(
    title: &Title,
    labels: [&str; 2],
    quoted: (f64, &str),
    all: &[MeasuredCurve],
) -> Plot {
    let is_drawable = |point: &&(f64, f64)| point.0 > 0.0 && point.1 > 0.0;
    let lines: Vec<Line> = (0..)
        .zip(all)
        .map(|(index, curve)| Line {
            name: curve.name.clone(),
            look: Look::Variant(index),
            points: curve.points.iter().filter(is_drawable).copied().collect(),
        })
        .collect();
    let described = lines.iter().map(|line| {
        let points = line.points.iter();
        let points = points.map(|(x, y)| format!("{} at {}", three_digits(*y), three_digits(*x)));
        format!("{}: {}", line.name, points.collect::<Vec<_>>().join(", "))
    });
    let caption = Caption {
        name: title.name.clone(),
        title: title.title.clone(),
        notes: vec![title.note.clone()],
        description: described.collect::<Vec<_>>().join("; "),
    };
    let [x_label, y_label] = labels.map(str::to_owned);
    let quoted = (quoted.0, quoted.1.to_owned());
    let chart = LineChart { caption, x_label, y_label, quoted, lines };
    Plot { name: title.name.clone(), title: title.title.clone(), svg: chart.svg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_without_a_logarithm_are_left_out() {
        let text = |text: &str| text.to_owned();
        let title = Title { name: text("idle"), title: text("CPU time"), note: text("Tier sw.") };
        let points = vec![(0.0, 0.1), (1.0, 13.5), (10.0, 0.0), (90.0, 40.0)];
        let all = [MeasuredCurve { name: text("park"), points }];
        let plot = curves(&title, ["load", "CPU time"], (90.0, "90 %"), &all);
        assert!(plot.svg.contains("park: 13.5 at 1, 40 at 90"), "{}", plot.svg);
        assert!(plot.svg.contains("at 90 %") && !plot.svg.contains("NaN"), "{}", plot.svg);
    }
}
