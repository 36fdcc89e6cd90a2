// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds how much work fills a measurement window.

/// Target window length, and limits on the amount of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// Window length, in the unit returned by `time`.
    pub window: f64,
    /// Granularity: every amount of work is a multiple of this number.
    pub multiple: u64,
    /// Maximum amount of work, even if it does not fill the window.
    pub at_most: u64,
    /// Maximum number of tries per amount of work. The fastest try counts.
    pub tries: u32,
}

/// Returns the amount of work that fills a window. The amount is doubled until it takes a quarter
/// of the window, then scaled up; this also warms the caches. `time` does an amount of work and
/// returns how long it took.
///
/// Each amount is tried several times, and the fastest try counts: a try that is the first to touch
/// its memory, or is preempted, would make even a small amount appear to fill the window.
///
/// # Errors
/// Returns the first error from `time`.
pub fn filling<E>(fill: &Fill, mut time: impl FnMut(u64) -> Result<f64, E>) -> Result<u64, E> {
    let at_most = fill.at_most.max(fill.multiple) / fill.multiple * fill.multiple;
    let mut amount = fill.multiple;
    loop {
        let mut fastest = f64::INFINITY;
        for _ in 0..fill.tries {
            fastest = fastest.min(time(amount)?);
            if fastest < fill.window / 4.0 {
                break;
            }
        }
        if fastest >= fill.window / 4.0 || amount >= at_most {
            let wanted = amount as f64 * fill.window / fastest.max(1.0);
            let wanted = (wanted as u64).min(at_most);
            return Ok((wanted / fill.multiple).max(1) * fill.multiple);
        }
        amount = amount.saturating_mul(2).min(at_most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const FILL: Fill = Fill { window: 1.5e6, multiple: 1, at_most: u64::MAX, tries: 4 };

    fn filled(fill: Fill, mut time: impl FnMut(u64) -> f64) -> u64 {
        let Ok(amount) = filling(&fill, |amount| Ok::<_, Infallible>(time(amount)));
        amount
    }

    /// A different try is preempted in each case, but the amount found must still fill the window.
    #[test]
    fn a_window_is_filled_whatever_disturbs_one_try() {
        for disturbed in 0..100 {
            let mut tries = 0;
            let amount = filled(FILL, |amount| {
                tries += 1;
                3.0 * amount as f64 + if tries - 1 == disturbed { FILL.window } else { 0.0 }
            });
            assert!((3.0 * amount as f64 - FILL.window).abs() <= 3.0, "{disturbed}: {amount}");
        }
    }

    /// The first try of each amount takes longer because it touches new memory. The amount found
    /// must not depend on this.
    #[test]
    fn a_first_touch_does_not_pass_for_a_long_call() {
        let mut seen = std::collections::HashSet::new();
        let amount = filled(FILL, |amount| {
            1000.0 * amount as f64 + if seen.insert(amount) { 1e6 } else { 0.0 }
        });
        assert_eq!(amount, 1500);
    }

    #[test]
    fn amounts_are_multiples_up_to_the_largest() {
        let fill = Fill { multiple: 8, at_most: 100, ..FILL };
        let mut tried = Vec::new();
        assert_eq!(
            filled(fill, |amount| {
                tried.push(amount);
                amount as f64
            }),
            96
        );
        assert!(tried.iter().all(|amount| amount % 8 == 0 && *amount <= 96), "{tried:?}");
        assert_eq!(filled(fill, |amount| 1e5 * amount as f64), 8);
        assert_eq!(filled(Fill { at_most: 3, ..fill }, |amount| amount as f64), 8);
        assert_eq!(filled(FILL, |_| 1e9), 1);
        assert_eq!(filled(Fill { at_most: 64, ..FILL }, |_| 0.0), 64);
    }

    #[test]
    fn the_first_failure_ends_it() {
        let failed = filling(&FILL, |amount| if amount < 8 { Ok(1.0) } else { Err(amount) });
        assert_eq!(failed, Err(8));
    }
}
