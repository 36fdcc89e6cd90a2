// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multiplies two square matrices once, with the textbook loops or with the two inner loops
//! interchanged.
//!
//! This is the workload for `docs/tutorials/matmul.md`. Both variants perform the same
//! multiplications and additions, and differ only in memory access order.

use std::process::ExitCode;

/// Two square `n` x `n` matrices, and space for their product.
struct Matrices {
    n: usize,
    a: Vec<f64>,
    b: Vec<f64>,
    product: Vec<f64>,
}

impl Matrices {
    fn new(n: usize) -> Self {
        let filled = |period: usize| (0..n * n).map(|i| (i % period) as f64).collect();
        Self { n, a: filled(7), b: filled(5), product: vec![0.0; n * n] }
    }

    /// Multiplies with the textbook loops, which walk down a column of `b` for each element of the
    /// product.
    fn naive(&mut self) {
        let rows = self.a.chunks_exact(self.n).zip(self.product.chunks_exact_mut(self.n));
        for (row_of_a, row) in rows {
            for (j, number) in row.iter_mut().enumerate() {
                let column_of_b = self.b[j..].iter().step_by(self.n);
                *number = row_of_a.iter().zip(column_of_b).map(|(a, b)| a * b).sum();
            }
        }
    }

    /// Multiplies with the column and summation loops interchanged, so that memory is accessed only
    /// along rows.
    fn interchanged(&mut self) {
        let rows = self.a.chunks_exact(self.n).zip(self.product.chunks_exact_mut(self.n));
        for (row_of_a, row) in rows {
            for (a, row_of_b) in row_of_a.iter().zip(self.b.chunks_exact(self.n)) {
                for (number, b) in row.iter_mut().zip(row_of_b) {
                    *number += a * b;
                }
            }
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match arguments.as_slice() {
        [order, n] => n.parse().ok().filter(|n| (1..=4096).contains(n)).map(|n| (order, n)),
        _ => None,
    };
    let Some((order, n)) = parsed else {
        eprintln!("usage: matmul naive|interchanged N, with N from 1 to 4096");
        return ExitCode::from(2);
    };
    let mut matrices = Matrices::new(n);
    match order.as_str() {
        "naive" => matrices.naive(),
        "interchanged" => matrices.interchanged(),
        _ => {
            eprintln!("matmul: `{order}` is neither naive nor interchanged");
            return ExitCode::from(2);
        }
    }
    println!("sum of the product: {}", matrices.product.iter().sum::<f64>());
    ExitCode::SUCCESS
}
