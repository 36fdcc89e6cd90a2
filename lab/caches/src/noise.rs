// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorded noise of a virtual machine.
//!
//! The recordings are `data/*.txt`, with the conditions in their heads. A row is the time per load
//! in one window of each of four chains, relative to the minimum; rows are in chronological order,
//! so that disturbances over several windows are preserved.
//!
//! Left out: that neighbours take room in a cache away, which is up to [`Moves`](crate::Moves).

/// Times of windows over those of the quietest, row by row in the order of their recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    rows: Vec<[f64; Noise::CLASSES]>,
}

impl Noise {
    /// Chains the size of a first, second, third cache, and of memory.
    pub const CLASSES: usize = 4;

    /// Without noise.
    pub fn none() -> Self {
        Self::default()
    }

    /// Recorded while other virtual machines were at work, and little in this one.
    pub fn idle() -> Self {
        Self::parse(include_str!("../data/idle.txt"))
    }

    /// Recorded while other programs of the same virtual machine wanted three times the processors
    /// there are, and other virtual machines were at work.
    pub fn busy() -> Self {
        Self::parse(include_str!("../data/busy.txt"))
    }

    /// Lines that begin with a number are rows.
    fn parse(text: &str) -> Self {
        let row = |line: &str| -> Option<[f64; Self::CLASSES]> {
            let ratios = line.split_whitespace().map(|word| word.parse().ok());
            ratios.collect::<Option<Vec<f64>>>()?.try_into().ok()
        };
        Self { rows: text.lines().filter_map(row).collect() }
    }

    /// The fastest of `windows` consecutive windows, which begin at `start` (wrapped around): how
    /// many times the quiet time that is, where a load takes `parts` ns in each of the classes.
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
