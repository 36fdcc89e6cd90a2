// SPDX-License-Identifier: MIT OR Apache-2.0
//! How each CPU has spent its time since boot, from /proc/stat.
//!
//! The kernel accounts for CPU time by activity, in ticks of 10 ms (proc_stat(5); USER_HZ is 100
//! except on Alpha). Counts of idle time may go backwards.

use std::collections::BTreeMap;

/// Nanoseconds per tick.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// CPU time by state since boot, in USER_HZ ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// User mode, including `nice` and guests.
    pub user: u64,
    /// Kernel, without interrupts.
    pub system: u64,
    /// Idle, including I/O wait.
    pub idle: u64,
    /// Interrupts and softirqs; 0 if the kernel does not report them.
    pub interrupts: u64,
    /// Steal time: the virtual CPU was ready to run, but the hypervisor ran something else. `None`
    /// if the line has no such column.
    pub stolen: Option<u64>,
}

impl CpuTicks {
    /// Sum of all states.
    pub fn total(&self) -> u64 {
        self.busy().saturating_add(self.idle)
    }

    /// Sum of all states except idle.
    pub fn busy(&self) -> u64 {
        sum([self.user, self.system, self.interrupts, self.stolen.unwrap_or(0)])
    }

    /// Returns the increase since `before`. A counter that went backwards counts as 0. Steal time
    /// is unknown unless both know it.
    pub fn since(&self, before: &Self) -> Self {
        let stolen = self.stolen.zip(before.stolen);
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            idle: self.idle.saturating_sub(before.idle),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            stolen: stolen.map(|(now, before)| now.saturating_sub(before)),
        }
    }

    /// Returns the sum of both. Steal time is unknown unless both know it.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let stolen = self.stolen.zip(other.stolen);
        Self {
            user: self.user.saturating_add(other.user),
            system: self.system.saturating_add(other.system),
            idle: self.idle.saturating_add(other.idle),
            interrupts: self.interrupts.saturating_add(other.interrupts),
            stolen: stolen.map(|(one, other)| one.saturating_add(other)),
        }
    }

    /// Parses the columns of a line: user nice system idle iowait irq softirq steal, and two that
    /// are included in the first two. Old kernels and emulators have only the first four or seven.
    /// `None` if there are fewer, or if one of the eight is not a number.
    fn parse(columns: &str) -> Option<Self> {
        let columns = columns.split_ascii_whitespace().take(8).map(str::parse);
        let ticks = columns.collect::<Result<Vec<u64>, _>>().ok()?;
        let &[user, nice, system, idle, ref others @ ..] = &ticks[..] else { return None };
        let other = |index: usize| others.get(index).copied();
        Some(Self {
            user: sum([user, nice]),
            system,
            idle: sum([idle, other(0).unwrap_or(0)]),
            interrupts: sum([other(1).unwrap_or(0), other(2).unwrap_or(0)]),
            stolen: other(3),
        })
    }
}

fn sum<const N: usize>(ticks: [u64; N]) -> u64 {
    ticks.into_iter().fold(0, u64::saturating_add)
}

/// CPU times in /proc/stat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// All CPUs together, including those that have gone offline; `None` if the line is missing or
    /// damaged.
    pub all: Option<CpuTicks>,
    /// By online CPU. A CPU whose line is damaged is missing.
    pub cpus: BTreeMap<u32, CpuTicks>,
}

impl CpuTimes {
    /// Parses the lines `cpu`, `cpu0`, `cpu1`, ... at the start of /proc/stat.
    pub fn parse(text: &str) -> Self {
        let mut times = Self::default();
        for line in text.lines() {
            let Some(line) = line.strip_prefix("cpu") else { break };
            let Some((cpu, columns)) = line.split_once(' ') else { continue };
            let Some(ticks) = CpuTicks::parse(columns) else { continue };
            if cpu.is_empty() {
                times.all = Some(ticks);
            } else if let Ok(cpu) = cpu.parse() {
                times.cpus.insert(cpu, ticks);
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Recorded on an EPYC guest, a Raspberry Pi whose third core is offline, and a POWER guest
    /// under Linux 2.6.
    #[test]
    fn times_as_recorded() {
        let epyc = CpuTimes::parse(
            "cpu  4205 0 2973 233486 536 0 46 15 0 0\n\
             cpu0 1520 0 1122 117917 43 0 11 4 0 0\n\
             cpu1 2685 1 1850 115568 493 2 34 11 99 1\n\
             intr 166890 0 0 14\nctxt 404838\nsoftirq 12 0 3\n",
        );
        assert_eq!(epyc.cpus.len(), 2);
        let second = CpuTicks {
            user: 2686,
            system: 1850,
            idle: 115_568 + 493,
            interrupts: 36,
            stolen: Some(11),
        };
        assert_eq!(epyc.cpus[&1], second);
        assert_eq!((second.busy(), second.total()), (4583, 120_644));
        assert_eq!(epyc.all.and_then(|all| all.stolen), Some(15));

        let pi = CpuTimes::parse(
            "cpu  9 0 9 9 9 0 9 0 0 0\ncpu0 1 0 2 3 4 0 5 0 0 0\ncpu3 1 0 0 7 0 0 0 0 0 0\n",
        );
        assert_eq!(pi.cpus.into_keys().collect::<Vec<_>>(), [0, 3]);

        let power = CpuTimes::parse("cpu  10 20 30 40 50\ncpu0 10 20 30 40 50\n");
        assert_eq!((power.cpus[&0].busy(), power.cpus[&0].idle), (60, 90));
        assert_eq!(power.cpus[&0].stolen, None);
    }

    /// A damaged line hides its CPU, instead of shifting columns or hiding the other CPUs.
    #[test]
    fn a_damaged_line_is_left_out() {
        let times = CpuTimes::parse(
            "cpu  1 2 3 x 5 6 7 8 9\ncpu0 1 2 3\ncpu1 1 2 3 4 5 6 7 x\ncpu2 1 2 3 4\nintr 5\n\
             cpu9 1 2 3 4\n",
        );
        assert_eq!(times.all, None);
        let ticks = CpuTicks { user: 3, system: 3, idle: 4, ..CpuTicks::default() };
        assert_eq!(times.cpus, BTreeMap::from([(2, ticks)]));
    }

    #[test]
    fn differences_and_sums() {
        let of = |user, idle, stolen| CpuTicks { user, idle, stolen, ..CpuTicks::default() };
        let (first, last) = (of(5, 9, Some(1)), of(7, 8, Some(4)));
        assert_eq!(last.since(&first), of(2, 0, Some(3)));
        assert_eq!(last.plus(&first), of(12, 17, Some(5)));
        assert_eq!(last.since(&of(0, 0, None)).stolen, None);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn damaged_texts_are_survived(
            text in "(cpu[0-9]{0,3}( [0-9]{1,20}){0,11}\n){0,4}|.{0,80}",
        ) {
            let times = CpuTimes::parse(&text);
            prop_assert!(times.cpus.len() <= text.lines().count());
            times.cpus.values().for_each(|ticks| assert!(ticks.total() >= ticks.busy()));
        }
    }
}
