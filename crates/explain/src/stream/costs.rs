// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost per call and per byte, derived from points with different message sizes.
//!
//! A call that moves `x` bytes takes `a + b x` of CPU time: `a` for entering the kernel and other
//! per-call work, `b` for the copy and TCP's per-byte work. The fit minimises relative errors,
//! because short calls are measured as accurately as long ones:
//!
//! ```text
//! minimise the sum over points of ((a + b x) / t - 1)^2
//! ```
//!
//! With u = 1/t and v = x/t, this is a linear least-squares problem in a and b.

/// Cost per call and per byte, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    pub(super) call_us: f64,
    pub(super) byte_us: f64,
}

/// Minimum number of message sizes: two determine the line, and a third can contradict it.
const POINTS: usize = 3;
/// Maximum relative error of a point. If the error is larger, the cost is not linear in the message
/// size.
const ERROR: f64 = 0.5;

/// Fits the costs to points (bytes per call, microseconds per call); `None` if there are too few
/// different sizes, if a cost is negative, or if a point is far from the line.
pub(super) fn fit(points: &[(f64, f64)]) -> Option<Costs> {
    let points: Vec<(f64, f64)> =
        points.iter().copied().filter(|(x, t)| *x > 0.0 && *t > 0.0).collect();
    let mut sizes: Vec<f64> = points.iter().map(|(x, _)| *x).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    if sizes.len() < POINTS {
        return None;
    }
    let (mut uu, mut uv, mut vv, mut u1, mut v1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, t) in &points {
        let (u, v) = (1.0 / t, x / t);
        uu += u * u;
        uv += u * v;
        vv += v * v;
        u1 += u;
        v1 += v;
    }
    let determinant = uu * vv - uv * uv;
    let costs = Costs {
        call_us: (u1 * vv - v1 * uv) / determinant,
        byte_us: (v1 * uu - u1 * uv) / determinant,
    };
    let error = |(x, t): &(f64, f64)| ((costs.call_us + costs.byte_us * x) / t - 1.0).abs();
    let is_line = points.iter().map(error).fold(0.0, f64::max) <= ERROR;
    (is_line && costs.call_us >= 0.0 && costs.byte_us >= 0.0).then_some(costs)
}

impl Costs {
    /// Returns the per-call fraction (0 to 1) of the cost of a call that moves `bytes` bytes.
    pub(super) fn share_of_call(&self, bytes: f64) -> f64 {
        let all = self.call_us + self.byte_us * bytes;
        if all > 0.0 { self.call_us / all } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points = [64.0, 1024.0, 8192.0, 65536.0].map(|x| (x, 0.5 + 1e-4 * x));
        let costs = fit(&points).unwrap();
        assert!((costs.call_us - 0.5).abs() < 1e-9, "{costs:?}");
        assert!((costs.byte_us - 1e-4).abs() < 1e-12, "{costs:?}");
        assert!((costs.share_of_call(5000.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_line_has_no_costs() {
        assert_eq!(fit(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(fit(&[(1.0, 1.0), (1.0, 2.0), (2.0, 2.0)]), None);
        assert_eq!(fit(&[(1.0, 9.0), (10.0, 1.0), (100.0, 9.0)]), None);
        assert_eq!(fit(&[(0.0, 1.0), (2.0, 0.0), (3.0, 1.0)]), None);
    }
}
