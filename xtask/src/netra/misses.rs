// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables 10-6 and 10-7 of the Netra document, from counts: a dump that has the misses behind each
//! row, what `import` makes of it, and whether the printed percentages lie in what the rounding of
//! the printed inputs allows.
//!
//! ```text
//! instructions          = a round number
//! ticks                 = CPI * instructions
//! misses                = printed cycles of them / latency * instructions
//! packets               = ticks * the rate of the configuration / clock
//! share of a cause      = cycles of the cause / CPI              what `import` finds
//! range of the share    = (cycles -+ half a digit) / (CPI +- half a digit), half a digit wider
//! ```
//!
//! The rows that hold one number five times, and the row that is empty, are named and not used.

use super::reach::Row;
use linerate_record::strands::StrandCounts;
use std::fmt::Write;

/// A table of the document.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Packets per second of each flow.
    rate: f64,
    rows: &'static [Printed],
    /// What is wrong with the other rows.
    pub(super) bad: &'static str,
}

/// A row as it is printed.
struct Printed {
    role: &'static str,
    cpu: u32,
    cpi: f64,
    /// Cycles per instruction and percent of the misses of the first cache, then of the second.
    causes: [(f64, f64); 2],
}

pub(super) const TABLES: [Table; 2] = [
    Table {
        name: "10-6",
        rate: 224e3,
        rows: &[
            Printed {
                role: "PDSN_RXTX",
                cpu: 0,
                cpi: 9.07,
                causes: [(1.76, 19.45), (1.73, 19.05)],
            },
            Printed {
                role: "ATIF_RXTX",
                cpu: 1,
                cpi: 12.51,
                causes: [(1.89, 15.11), (0.93, 7.46)],
            },
        ],
        bad: "Not used: the second PDSN_RXTX has 9.02 in all five columns, the second ATIF_RXTX \
              1.69; a cause of all cycles would be 100 % of them.",
    },
    Table {
        name: "10-7",
        rate: 310e3,
        rows: &[
            Printed { role: "PDSN_RX", cpu: 0, cpi: 8.53, causes: [(1.43, 16.71), (1.8, 21.1)] },
            Printed { role: "RLP", cpu: 1, cpi: 3.91, causes: [(0.33, 8.43), (0.7, 17.86)] },
            Printed { role: "ATIF_TX", cpu: 3, cpi: 2.82, causes: [(0.13, 4.63), (0.1, 3.39)] },
        ],
        bad: "Not used: the row of ATIF_RX, which handled no packet, is empty.",
    },
];

/// The events behind the two causes: name, code, and the cycles of one by table 10-1 (90 ns at
/// 1.2 GHz are 108).
const EVENTS: [(&str, u64, f64); 2] = [("dc", 0x8, 23.0), ("l2_dmiss", 0x80, 108.0)];

const CLOCK_HZ: f64 = 1.2e9;

/// Instructions between two readings: a counter of 32 bits holds them, and a miss more or less is
/// far below the printed digits.
const INSTRUCTIONS: f64 = 1e9;

/// The last digit of everything that is printed is a hundredth.
const HALF_A_DIGIT: f64 = 0.005;

impl Table {
    /// The file of its dump, in the folder of results.
    pub(super) fn file(&self) -> String {
        format!("table-{}.dump", self.name)
    }

    /// Counts that give its rows, as the profiler would have printed them.
    pub(super) fn dump(&self) -> String {
        let mut text = format!(
            "Counts reckoned from table {} of the Netra document, not taken on a machine\n\
             PROFILE_DUMP_START,ver,2.0\n\
             CPUID,ID,Type,Cycles,PC,Grp,Evt_Hi,Evt_Lo,Overflow,User Data\n",
            self.name
        );
        for row in self.rows {
            let cpu = row.cpu;
            let ticks = row.cpi * INSTRUCTIONS;
            let packets = ticks * self.rate / CLOCK_HZ;
            let whole = |value: f64| value.round() as u64;
            let _ = writeln!(text, "{cpu:x},6043,2,0,0,1,0,0,0,0");
            for (slices, ((_, code, each), (cycles, _))) in
                (0u8..).zip(EVENTS.iter().zip(row.causes))
            {
                let end = f64::from(slices + 1);
                let _ = writeln!(
                    text,
                    "{cpu:x},1fad3,1,{:x},0,1,100,{code:x}\n\
                     {cpu:x},6043,2,{:x},0,1,{:x},{:x},0,{:x}",
                    whole(f64::from(slices) * ticks),
                    whole(end * ticks),
                    whole(INSTRUCTIONS),
                    whole(cycles / each * INSTRUCTIONS),
                    whole(end * packets)
                );
            }
        }
        text + "PROFILE_DUMP_END\n"
    }

    /// Each cell beside what was found of its strand.
    pub(super) fn cells(
        &self,
        strands: &[StrandCounts],
        command: &str,
        page: &'static str,
    ) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        for printed in self.rows {
            let strand = strands.iter().find(|strand| strand.cpu == Some(printed.cpu));
            let causes = strand.and_then(|strand| strand.cpi_by_cause.as_ref());
            let causes = causes.ok_or_else(|| format!("no causes of cpu {}", printed.cpu))?;
            for ((event, ..), (cycles, percent)) in EVENTS.iter().zip(printed.causes) {
                let found = causes.causes.iter().find(|cause| cause.event == *event);
                let found = found.and_then(|cause| cause.share.as_number());
                let found = found.ok_or_else(|| format!("no share of {event}"))?;
                let (low, high) = range(printed.cpi, cycles);
                rows.push(Row {
                    what: format!("table {}, {}, {event}", self.name, printed.role),
                    wanted: format!("{percent:.2} %"),
                    found: format!("{:.2} % ({low:.2} to {high:.2})", 100.0 * found),
                    holds: (low..=high).contains(&percent)
                        && (low..=high).contains(&(100.0 * found)),
                    command: command.to_owned(),
                    page,
                });
            }
        }
        Ok(rows)
    }
}

/// Percent that a cause may have had whose cycles, whole and percentage were rounded.
fn range(cpi: f64, cycles: f64) -> (f64, f64) {
    let share = |cycles: f64, cpi: f64| 100.0 * cycles / cpi;
    let low = share(cycles - HALF_A_DIGIT, cpi + HALF_A_DIGIT) - HALF_A_DIGIT;
    let high = share(cycles + HALF_A_DIGIT, cpi - HALF_A_DIGIT) + HALF_A_DIGIT;
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dump_has_the_misses_of_the_text() {
        let dump = TABLES[0].dump();
        // ATIF_RXTX: 82 misses of the first cache per thousand instructions, says the text.
        let update = dump.lines().filter(|line| line.starts_with("1,6043,2,")).nth(1).unwrap();
        let fields: Vec<u64> =
            update.split(',').map(|field| u64::from_str_radix(field, 16).unwrap()).collect();
        assert_eq!(fields[6], 1_000_000_000);
        assert_eq!((fields[7] as f64 / 1e6).round(), 82.0);
        assert_eq!(fields[3], 12_510_000_000);
        // 1.2 GHz / 224 kpps / 12.51: the instructions of a packet.
        let per_packet = fields[6] as f64 / fields[9] as f64;
        assert!((per_packet - 1.2e9 / 224e3 / 12.51).abs() < 0.01, "{per_packet}");
    }

    #[test]
    fn a_range_is_what_rounding_leaves_open() {
        let (low, high) = range(12.51, 1.89);
        assert!((low - 15.057).abs() < 1e-3 && (high - 15.159).abs() < 1e-3, "{low} {high}");
    }
}
