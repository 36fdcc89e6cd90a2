// SPDX-License-Identifier: MIT OR Apache-2.0
//! Noise recorded in a virtual machine.
//!
//! The recordings are `data/*.txt`; their conditions are in the file headers. A row is the time per
//! load in one window of each of four chains, relative to the minimum. Rows are in chronological
//! order, so that interference over several consecutive windows is preserved.
//!
//! Cache capacity taken by other guests is modelled by [`Moves`](crate::Moves).

/// Window times relative to the quietest window, in chronological order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    rows: Vec<[f64; Noise::CLASSES]>,
}

impl Noise {
    /// Number of recorded chains, sized to fit L1, L2, L3, and memory.
    pub const CLASSES: usize = 4;

    /// Returns no noise.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns noise recorded while other virtual machines were busy and this one was nearly idle.
    pub fn idle() -> Self {
        Self::parse(include_str!("../data/idle.txt"))
    }

    /// Returns noise recorded while other virtual machines were busy and other programs in this one
    /// would have used three times the available CPUs.
    pub fn busy() -> Self {
        Self::parse(include_str!("../data/busy.txt"))
    }

    /// Parses a recording. Lines that begin with a number are rows.
    fn parse(text: &str) -> Self {
        let row = |line: &str| -> Option<[f64; Self::CLASSES]> {
            let ratios = line.split_whitespace().map(|word| word.parse().ok());
            ratios.collect::<Option<Vec<f64>>>()?.try_into().ok()
        };
        Self { rows: text.lines().filter_map(row).collect() }
    }

    /// Returns the slowdown of the fastest of `windows` consecutive windows from `start` on
    /// (wrapped around), relative to the quiet time. Without noise, a load takes `parts` ns in each
    /// of the classes.
    pub(crate) fn fastest(&self, start: u64, windows: usize, parts: [f64; Self::CLASSES]) -> f64 {
        let quiet: f64 = parts.iter().sum();
        if self.rows.is_empty() || quiet <= 0.0 {
            return 1.0;
        }
        let rows = self.rows.len() as u64;
        let row = |window: usize| &self.rows[((start + window as u64) % rows) as usize];
        let time = |row: &[f64; Self::CLASSES]| -> f64 {
            row.iter().zip(parts).map(|(ratio, part)| ratio * part).sum()
        };
        let fastest = (0..windows.max(1)).map(|window| time(row(window)));
        fastest.fold(f64::INFINITY, f64::min) / quiet
    }
}
