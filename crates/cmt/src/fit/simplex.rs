// SPDX-License-Identifier: MIT OR Apache-2.0
//! Minimizes a function of a few bounded variables by the Nelder-Mead simplex method.
//!
//! ```text
//! keep n + 1 points; in each round, replace the worst by
//!     its reflection through the centre of the others;
//!     if that is the best of all: the better of it and an expansion to twice the distance;
//!     if it is no better than the second worst: a contraction to half the distance
//! if the contraction is no improvement: shrink, moving all points halfway to the best
//! stop after a number of evaluations
//! ```
//!
//! Coordinates are scaled to their bounds and clamped to them. The search is deterministic.

/// A simplex vertex, with the function value there.
#[derive(Clone, Debug)]
struct Vertex {
    at: Vec<f64>,
    value: f64,
}

/// Edge length of the initial simplex, as a fraction of each coordinate's range: one vertex is the
/// midpoint of the bounds, and each other vertex differs from it by this much in one coordinate.
const STEP: f64 = 0.12;

/// The function rescaled to the unit cube, with a count of its evaluations.
struct Counted<'f, E> {
    function: &'f mut dyn FnMut(&[f64]) -> Result<f64, E>,
    bounds: &'f [(f64, f64)],
    calls: u32,
}

impl<E> Counted<'_, E> {
    fn vertex(&mut self, at: Vec<f64>) -> Result<Vertex, E> {
        let at: Vec<f64> = at.into_iter().map(|x| x.clamp(0.0, 1.0)).collect();
        self.calls += 1;
        let value = (self.function)(&scaled(&at, self.bounds))?;
        Ok(Vertex { at, value })
    }
}

fn scaled(at: &[f64], bounds: &[(f64, f64)]) -> Vec<f64> {
    at.iter().zip(bounds).map(|(x, (low, high))| low + x * (high - low)).collect()
}

/// Minimizes `function` in `calls` evaluations, starting at the midpoint of `bounds`. Returns the
/// coordinates of the minimum.
///
/// # Errors
/// Returns the first error that the function returns.
pub(super) fn least<E>(
    bounds: &[(f64, f64)],
    calls: u32,
    function: &mut dyn FnMut(&[f64]) -> Result<f64, E>,
) -> Result<Vec<f64>, E> {
    let mut counted = Counted { function, bounds, calls: 0 };
    let middle = vec![0.5; bounds.len()];
    let mut simplex = vec![counted.vertex(middle.clone())?];
    for number in 0..bounds.len() {
        let mut at = middle.clone();
        at[number] += STEP;
        simplex.push(counted.vertex(at)?);
    }
    while counted.calls < calls {
        simplex.sort_by(|a, b| a.value.total_cmp(&b.value));
        round(&mut simplex, &mut counted)?;
    }
    let best = simplex.iter().min_by(|a, b| a.value.total_cmp(&b.value));
    Ok(scaled(&best.expect("the simplex has vertices").at, bounds))
}

/// Replaces the worst vertex or shrinks the simplex. The vertices must be sorted by value.
fn round<E>(simplex: &mut [Vertex], counted: &mut Counted<'_, E>) -> Result<(), E> {
    let (worst, others) = simplex.split_last_mut().expect("the simplex has vertices");
    let centre: Vec<f64> = (0..worst.at.len())
        .map(|i| others.iter().map(|vertex| vertex.at[i]).sum::<f64>() / others.len() as f64)
        .collect();
    let beyond = |times: f64| -> Vec<f64> {
        centre
            .iter()
            .zip(&worst.at)
            .map(|(centre, worst)| centre + times * (centre - worst))
            .collect()
    };
    let reflected = counted.vertex(beyond(1.0))?;
    let second_worst = others.last().map_or(f64::INFINITY, |vertex| vertex.value);
    let better = if reflected.value < others[0].value {
        let further = counted.vertex(beyond(2.0))?;
        Some(if further.value < reflected.value { further } else { reflected })
    } else if reflected.value < second_worst {
        Some(reflected)
    } else {
        let side = if reflected.value < worst.value { 0.5 } else { -0.5 };
        let nearer = counted.vertex(beyond(side))?;
        (nearer.value < worst.value.min(reflected.value)).then_some(nearer)
    };
    match better {
        Some(better) => *worst = better,
        None => {
            let best = simplex[0].at.clone();
            for vertex in &mut simplex[1..] {
                let half = vertex.at.iter().zip(&best).map(|(x, best)| f64::midpoint(*x, *best));
                *vertex = counted.vertex(half.collect())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottom_of_a_curved_valley_is_found() {
        let mut banana = |x: &[f64]| {
            Ok::<f64, String>(100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2))
        };
        let found = least(&[(-2.0, 3.0), (-1.0, 4.0)], 400, &mut banana).unwrap();
        assert!(found.iter().all(|x| (x - 1.0).abs() < 1e-3), "{found:?}");
    }

    #[test]
    fn bounds_hold_and_errors_come_through() {
        let mut slope = |x: &[f64]| Ok::<f64, String>(-x[0] - 2.0 * x[1] + x[2]);
        let found = least(&[(0.0, 1.0), (0.0, 5.0), (3.0, 4.0)], 200, &mut slope).unwrap();
        assert!((found[0] - 1.0).abs() < 1e-6 && (found[1] - 5.0).abs() < 1e-6, "{found:?}");
        assert!((found[2] - 3.0).abs() < 1e-6, "{found:?}");
        let mut bad = |_: &[f64]| Err("no".to_owned());
        assert_eq!(least(&[(0.0, 1.0)], 10, &mut bad), Err("no".to_owned()));
    }
}
