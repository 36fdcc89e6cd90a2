// SPDX-License-Identifier: MIT OR Apache-2.0
//! The five traffic patterns from the white paper "Enhanced TCP/IP Performance with AltiVec", and
//! packet length mixes.

use crate::error::Error;
use std::fmt;

/// How the applications use the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// The client sends continuously in Ethernet-sized segments, as for a file transfer.
    Bulk,
    /// The client sends one or two bytes, which the server echoes, as in a terminal session.
    Interactive,
    /// Like [`Bulk`](Self::Bulk), but with 8000-byte segments, as in jumbo frames.
    Jumbo,
    /// The client sends messages of varying lengths, each in a separate segment.
    Mixed,
    /// Connections are opened and closed without data.
    Response,
}

impl Pattern {
    /// All patterns, in the order of the white paper's charts.
    pub const ALL: [Self; 5] =
        [Self::Bulk, Self::Interactive, Self::Jumbo, Self::Mixed, Self::Response];

    /// Returns the pattern's name, a single word used in records and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Interactive => "interactive",
            Self::Jumbo => "jumbo",
            Self::Mixed => "mixed",
            Self::Response => "response",
        }
    }

    /// Returns the pattern with this name.
    ///
    /// # Errors
    /// Returns an error if there is no such pattern.
    pub fn find(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|pattern| pattern.name() == name);
        found.ok_or_else(|| Error::Unknown {
            what: "pattern",
            name: name.to_owned(),
            known: Self::ALL.iter().map(|pattern| pattern.name().to_owned()).collect(),
        })
    }

    /// Returns the payload size, in bytes, of the pattern's largest segments.
    pub const fn segment(self) -> usize {
        match self {
            Self::Jumbo => 8000,
            _ => 1460,
        }
    }

    /// Returns whether the unit of work is a byte; otherwise, it is an exchange or a connection.
    pub const fn is_about_bytes(self) -> bool {
        matches!(self, Self::Bulk | Self::Jumbo | Self::Mixed)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Distribution of packet lengths.
///
/// Lengths are those of IP packets; a message is 40 bytes shorter because of the two headers. A
/// 40-byte packet is a pure ACK, which applications do not send, so it becomes a one-byte message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    name: String,
    source: &'static str,
    /// IP packet lengths in bytes, with weights.
    weights: Vec<(u16, u32)>,
}

/// Size of the IP and TCP headers in bytes, by which a message is shorter than its packet.
const HEADERS: u16 = 40;

/// Name and source of a mix, and weights by packet length.
type Preset = (&'static str, &'static str, &'static [(u16, u32)]);

const PRESETS: &[Preset] = &[
    ("imix", "Simple IMIX: 40, 576 and 1500 bytes at 7:4:1", &[(40, 7), (576, 4), (1500, 1)]),
    (
        "exchange",
        "synthesized from the published figures of CAIDA, Ames Internet Exchange 1999-2000: mean \
         413, quartiles 40, 93 and 576, 95 % at 1500",
        &[(40, 48), (93, 4), (318, 6), (576, 28), (1500, 14)],
    ),
    (
        "bimodal",
        "Sinha, Papadopoulos, Heidemann, ISI-TR-2007-643: 40 % at 40 bytes, 20 % at 1500, \
         another mode at 1300; assumed: 10 % for that mode, the rest distributed uniformly",
        &[
            (40, 40),
            (100, 5),
            (300, 5),
            (500, 5),
            (700, 5),
            (900, 5),
            (1100, 5),
            (1300, 10),
            (1500, 20),
        ],
    ),
];

impl Mix {
    /// Finds a named mix, or parses a list such as `40:7,576:4,1500:1`: IP packet lengths with
    /// relative packet counts.
    ///
    /// # Errors
    /// Returns an error if the name is unknown or the mix is invalid.
    pub fn find(text: &str) -> Result<Self, Error> {
        if let Some(mix) = Self::presets().find(|mix| mix.name == text) {
            return Ok(mix);
        }
        Self::spelt(text).ok_or_else(|| Error::Unknown {
            what: "mix of packet lengths",
            name: text.to_owned(),
            known: Self::presets()
                .map(|mix| mix.name)
                .chain(["SIZE:WEIGHT pairs such as 40:7,576:4,1500:1 (SIZE in IP bytes, 40 to \
                         1500)"
                    .into()])
                .collect(),
        })
    }

    /// Returns the named mixes; the first is the default.
    pub fn presets() -> impl Iterator<Item = Self> {
        PRESETS.iter().map(|&(name, source, weights)| Self {
            name: name.to_owned(),
            source,
            weights: weights.to_vec(),
        })
    }

    fn spelt(text: &str) -> Option<Self> {
        let entry = |entry: &str| {
            let (bytes, weight) = entry.split_once(':')?;
            let (bytes, weight) = (bytes.trim().parse().ok()?, weight.trim().parse().ok()?);
            ((HEADERS..=1500).contains(&bytes)).then_some((bytes, weight))
        };
        let weights: Vec<(u16, u32)> = text.split(',').map(entry).collect::<Option<_>>()?;
        let total: u64 = weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let source = "from the command line";
        let name = text.to_owned();
        (1..=u64::from(u32::MAX)).contains(&total).then_some(Self { name, source, weights })
    }

    /// Returns the mix's name, or the text it was parsed from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the source of the length distribution, for the report.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// Draws the size of the next message in bytes.
    pub fn draw(&self, random: &mut fastrand::Rng) -> usize {
        let total: u32 = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut left = random.u32(..total);
        for (bytes, weight) in &self.weights {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return usize::from((bytes - HEADERS).max(1)),
            }
        }
        unreachable!("the random number is below the sum of all weights")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_others_are_listed() {
        for pattern in Pattern::ALL {
            assert_eq!(Pattern::find(pattern.name()), Ok(pattern));
        }
        let unknown = Pattern::find("burst").expect_err("no such pattern").to_string();
        for pattern in Pattern::ALL {
            assert!(unknown.contains(pattern.name()), "{unknown}");
        }
        let unknown = Mix::find("imax").expect_err("no such mix").to_string();
        assert!(unknown.contains("imix") && unknown.contains("bimodal"), "{unknown}");
    }

    #[test]
    fn what_is_spelt_out_is_checked() {
        let spelt = Mix::find("40:1,1500:3").expect("a mix");
        assert_eq!(spelt.weights, [(40, 1), (1500, 3)]);
        for bad in ["", "40", "40:0", "39:1", "1501:1", "40:1,", "40:-1", "40:4294967295,41:1"] {
            assert!(Mix::find(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn draws_follow_the_weights() {
        for mix in Mix::presets() {
            let mut random = fastrand::Rng::with_seed(1);
            let total: u32 = mix.weights.iter().map(|(_, weight)| weight).sum();
            let draws = 100_000;
            let mut counts = std::collections::BTreeMap::new();
            for _ in 0..draws {
                *counts.entry(mix.draw(&mut random)).or_insert(0) += 1;
            }
            for (bytes, weight) in &mix.weights {
                let expected = f64::from(draws) * f64::from(*weight) / f64::from(total);
                let got = counts.remove(&usize::from((bytes - 40).max(1))).unwrap_or(0);
                let off = (f64::from(got) - expected).abs();
                assert!(off < 5.0 * expected.sqrt(), "{}: {bytes} {got} {expected}", mix.name);
            }
            assert!(counts.is_empty(), "{counts:?}");
        }
    }

    /// Checks that the preset reproduces the published figures.
    #[test]
    fn the_mix_of_the_exchange_has_its_mean_and_quartiles() {
        let mix = Mix::find("exchange").expect("a preset");
        let all: Vec<u16> = mix
            .weights
            .iter()
            .flat_map(|&(bytes, weight)| std::iter::repeat_n(bytes, weight as usize))
            .collect();
        let mean = all.iter().map(|&bytes| f64::from(bytes)).sum::<f64>() / all.len() as f64;
        assert!((mean - 413.0).abs() < 1.0, "{mean}");
        assert_eq!([all[24], all[49], all[74], all[94]], [40, 93, 576, 1500]);
    }
}
