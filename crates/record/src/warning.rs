// SPDX-License-Identifier: MIT OR Apache-2.0
//! Warnings about a record's figures, with remedies.

use crate::input::remedy;
use crate::interfaces::InterfaceDoubt;
use crate::run::DeadEnd;
use crate::units::{counted, memory_size, three_digits};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A reason to doubt a record's figures. In JSON, `code` names the variant; minor versions may add
/// codes. `Display` includes a remedy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Warning {
    /// Other programs were running when the measurement began.
    NotIdle {
        /// Share of CPU time used by other programs, 0 to 1.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
    },
    /// The timestamp counter may stop or change frequency.
    UnsteadyCounter,
    /// Windows were dropped because a measured thread was preempted during them.
    PreemptedWindows {
        /// Share of windows dropped, 0 to 1.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
        /// Share of the thread's time that was lost to preemption or steal time, 0 to 1; omitted if
        /// unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        taken: Option<f64>,
    },
    /// Too few windows without preemption for a meaningful interval.
    FewWindows {
        /// Number of windows without preemption.
        kept: u64,
    },
    /// The path file's mapping needs more CPUs than are available, so a smaller mapping was run.
    FewCpus {
        /// Number of workers in the mapping.
        wanted: u32,
        /// Number of CPUs the program may use.
        available: u32,
    },
    /// There were more workers than CPUs, as requested.
    Oversubscribed {
        /// Number of workers that ran.
        workers: u32,
        /// Number of CPUs that the workers shared.
        cpus: u32,
    },
    /// A cgroup's CPU quota throttled the workers.
    CpuQuota {
        /// The quota, in CPUs.
        #[serde(serialize_with = "crate::finite")]
        cpus: f64,
        /// Number of workers that ran. They are assumed to poll without sleeping, so that each
        /// needs a whole CPU.
        workers: u32,
    },
    /// SMT siblings of the same core ran workers.
    SharedCore {
        /// Logical CPUs of the shared core.
        cpus: Vec<u32>,
    },
    /// The core clock could not be calibrated.
    UnknownCoreClock {
        /// Why the core clock could not be calibrated.
        reason: String,
    },
    /// Part of the input never entered the path.
    RejectedPackets {
        /// Packets that were rejected.
        rejected: u64,
        /// Packets in the input.
        of: u64,
    },
    /// A large share of the input's bytes never entered the path.
    LeftOut {
        /// Share of the input's bytes, 0 to 1.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
        /// Cause that accounts for the most skipped bytes.
        cause: String,
        /// Packets skipped for `cause`; 1 if the end of the file is damaged.
        packets: u64,
        /// Bytes skipped for `cause`.
        bytes: u64,
        /// File offset from which the file is unreadable; `null` if it was read to the end.
        unread_from: Option<u64>,
    },
    /// A stage found nothing to do for any packet.
    IdleStage {
        /// Name of the stage.
        stage: String,
        /// Packets that reached the stage, over all workers.
        packets: u64,
        /// Property that the stage's parameters require and no packet has.
        reason: String,
    },
    /// No packet left the path: a stage consumed or dropped all packets, or interfaces refused
    /// them.
    NothingCameThrough(DeadEnd),
    /// An interface changed during the run, the path did not read all its receive queues, or its
    /// counters do not account for every packet.
    InterfaceInDoubt(InterfaceDoubt),
    /// Some figures were not compared with the baseline, because their variation between runs is
    /// unknown. These figures may have regressed.
    NoVerdictWithoutInterval {
        /// Names of the figures that were not compared.
        names: Vec<String>,
    },
    /// Figures not compared with the baseline because they were measured differently: with another
    /// evidence tier or other simulated caches.
    NoVerdictOnOtherGrounds {
        /// Names of the figures that were not compared.
        names: Vec<String>,
    },
    /// Figures not compared with the baseline because either the baseline or this record lacks a
    /// value.
    NoVerdictWithoutCount {
        /// Names of the figures that were not compared.
        names: Vec<String>,
    },
    /// The program received SIGILL because the simulator does not support an instruction.
    UnknownInstruction {
        /// First bytes of the instruction, in hex.
        bytes: String,
    },
    /// Processes that were still running when the command ended, or that were killed by SIGKILL.
    /// Their work since their last fork is not counted.
    UnfinishedProcesses {
        /// Number of unfinished processes.
        processes: u64,
    },
    /// Forked processes left out because their counts could not be separated from their parents'.
    UncountedProcesses {
        /// Number of processes left out.
        processes: u64,
    },
    /// Processes that called execve more than once, whose counts from before the last call are
    /// incomplete.
    OverwrittenCounts {
        /// Number of processes with incomplete counts.
        processes: u64,
    },
    /// The simulator refused to start a setuid program because it cannot follow one.
    UnfollowedProgram {
        /// Path of the setuid program.
        program: String,
    },
    /// Programs that a simulated command started outside the simulator.
    UnsimulatedPrograms {
        /// Number of programs started outside the simulator.
        programs: u64,
    },
    /// Counts that were scaled by another program, with an unknown error.
    ScaledElsewhere {
        /// Names of the events.
        names: Vec<String>,
        /// Smallest fraction of time for which any of the events was counted, 0 to 1.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
    },
    /// The rate compared with the budget was measured on another processor.
    OtherProcessor {
        /// Processor on which the rate was measured; `null` if its record does not name one.
        measured_on: Option<String>,
        /// Processor that the budget applies to.
        budget_of: String,
    },
    /// The processor is emulated, so counts are exact and times are meaningless.
    Emulated,
    /// Observing a program used a noticeable amount of CPU time.
    CostlyObserver {
        /// The observer's CPU time as a share of one CPU.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
    },
    /// The observation was too short to catch rare events.
    ShortWindow {
        /// Length of the window in seconds.
        #[serde(serialize_with = "crate::finite")]
        seconds: f64,
    },
    /// Evidence for an explanation could not be read.
    NotRead {
        /// Keywords for the missing readings.
        names: Vec<String>,
    },
    /// Unknown code, from a record written by a newer version.
    #[serde(other)]
    Unknown,
}

impl fmt::Display for Warning {
    /// Writes the problem and its remedy, separated by a colon.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_matter(f)?;
        write!(f, ": {}", self.advice())
    }
}

impl Warning {
    fn write_matter(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| three_digits(share * 100.0);
        match self {
            Self::NotIdle { share } => {
                write!(
                    f,
                    "other programs used {} % of the CPUs just before the measurement",
                    percent(*share)
                )
            }
            Self::UnsteadyCounter => f.write_str("the timestamp counter's rate is not constant"),
            Self::FewWindows { kept } => {
                let were = if *kept == 1 { "was" } else { "were" };
                let kept = counted(*kept, "window");
                write!(f, "only {kept} {were} free of preemption, too few for a narrow interval")
            }
            Self::PreemptedWindows { .. }
            | Self::FewCpus { .. }
            | Self::Oversubscribed { .. }
            | Self::CpuQuota { .. }
            | Self::SharedCore { .. } => self.write_matter_of_cpus(f),
            Self::UnknownCoreClock { reason } => write!(f, "the core clock is unknown ({reason})"),
            Self::RejectedPackets { .. } | Self::LeftOut { .. } | Self::IdleStage { .. } => {
                self.write_matter_of_packets(f)
            }
            Self::NothingCameThrough(end) => write!(f, "{}: {end}", end.outcome()),
            Self::InterfaceInDoubt(doubt) => write!(f, "{doubt}"),
            Self::NoVerdictWithoutInterval { names } => {
                let names = names.join(", ");
                write!(f, "figures without intervals were not compared with the baseline ({names})")
            }
            Self::NoVerdictOnOtherGrounds { names } => {
                let names = names.join(", ");
                write!(f, "the baseline used another evidence tier or other caches ({names})")
            }
            Self::NoVerdictWithoutCount { names } => {
                let names = names.join(", ");
                write!(f, "some counts exist only in this run or only in the baseline ({names})")
            }
            Self::UnknownInstruction { .. }
            | Self::UnfinishedProcesses { .. }
            | Self::UncountedProcesses { .. }
            | Self::OverwrittenCounts { .. }
            | Self::UnsimulatedPrograms { .. }
            | Self::UnfollowedProgram { .. } => self.write_matter_of_simulation(f),
            Self::ScaledElsewhere { names, share } => write!(
                f,
                "perf counted {} for as little as {} % of the time and scaled the counts up, with \
                 an unknown error",
                names.join(", "),
                percent(*share)
            ),
            Self::OtherProcessor { measured_on, budget_of } => {
                let other = measured_on.as_deref().unwrap_or("an unidentified processor");
                write!(
                    f,
                    "--from: the rate was measured on {other}, but the budget is for {budget_of}"
                )
            }
            Self::Emulated => write!(f, "the processor is emulated"),
            Self::CostlyObserver { .. } | Self::ShortWindow { .. } | Self::NotRead { .. } => {
                self.write_matter_of_watching(f)
            }
            Self::Unknown => {
                write!(f, "a newer linerate wrote a warning that this version does not know")
            }
        }
    }

    /// Writes the problem described by a warning about the workers' CPUs.
    fn write_matter_of_cpus(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PreemptedWindows { share, taken } => {
                write!(
                    f,
                    "{} % of the windows were discarded because the thread lost its CPU",
                    three_digits(share * 100.0)
                )?;
                taken.map_or(Ok(()), |taken| {
                    write!(f, " (for {} % of its time in total)", three_digits(taken * 100.0))
                })
            }
            Self::FewCpus { wanted, available } => {
                let wanted = counted((*wanted).into(), "CPU");
                write!(f, "the mapping needs {wanted}, more than the {available} available")
            }
            Self::Oversubscribed { workers, cpus } => {
                let cpus = counted((*cpus).into(), "CPU");
                write!(f, "{workers} workers shared {cpus}")
            }
            Self::CpuQuota { cpus, workers } => write!(
                f,
                "a quota of {} throttled {}",
                crate::units::cpus(*cpus),
                counted((*workers).into(), "worker")
            ),
            Self::SharedCore { cpus } => {
                write!(f, "workers shared a core (CPUs {})", list(cpus))
            }
            _ => Ok(()),
        }
    }

    /// Writes the problem described by a warning about observing a running program.
    fn write_matter_of_watching(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CostlyObserver { share } => {
                write!(f, "linerate itself used {} % of a CPU", three_digits(share * 100.0))
            }
            Self::ShortWindow { seconds } => {
                write!(f, "the program was watched for only {} s", three_digits(*seconds))
            }
            Self::NotRead { names } => write!(f, "{} could not be read", names.join(", ")),
            _ => Ok(()),
        }
    }

    /// Writes the problem described by a warning about skipped packets or idle stages.
    fn write_matter_of_packets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RejectedPackets { rejected, of } => {
                let were = if *rejected == 1 { "was" } else { "were" };
                write!(f, "{rejected} of {} in the input {were} skipped", counted(*of, "packet"))
            }
            Self::LeftOut { share, cause, packets, bytes, unread_from } => {
                let (share, bytes) = (three_digits(share * 100.0), memory_size(*bytes as f64));
                write!(f, "{share} % of the input bytes were skipped, mostly due to `{cause}` (")?;
                match unread_from {
                    Some(offset) if cause.ends_with("_tail") => {
                        write!(f, "{bytes} starting at byte {offset})")
                    }
                    _ => write!(f, "{}, {bytes})", counted(*packets, "packet")),
                }
            }
            Self::IdleStage { stage, packets, reason } => match packets {
                1 => write!(f, "`{stage}` did not apply to the only packet ({reason})"),
                _ => write!(f, "`{stage}` applied to none of the {packets} packets ({reason})"),
            },
            _ => Ok(()),
        }
    }

    /// Writes the problem described by a warning about a simulation.
    fn write_matter_of_simulation(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownInstruction { bytes } => {
                write!(f, "the program uses an instruction that the simulator lacks ({bytes})")
            }
            Self::UnfinishedProcesses { processes } => write!(
                f,
                "{} still running at the end; part of the work is not counted",
                counted(*processes, "process")
            ),
            Self::UncountedProcesses { processes } => write!(
                f,
                "{} not counted because the program has no symbols",
                counted(*processes, "forked process")
            ),
            Self::OverwrittenCounts { processes } => write!(
                f,
                "{} called execve more than once; part of the earlier work is not counted",
                counted(*processes, "process")
            ),
            Self::UnsimulatedPrograms { programs } => write!(
                f,
                "{} not simulated (other architecture, setuid or setgid, or without access to \
                 the simulator's files)",
                counted(*programs, "program")
            ),
            Self::UnfollowedProgram { program } => write!(
                f,
                "Valgrind cannot follow setuid programs, so {program} was not allowed to start"
            ),
            _ => Ok(()),
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Self::NotIdle { .. } => "stop other programs, or expect wide intervals",
            Self::UnsteadyCounter => {
                "times may be wrong; set the performance governor, which keeps the clock constant"
            }
            Self::PreemptedWindows { .. } => {
                "intervals are based on the remaining windows; leave a CPU free to narrow them"
            }
            Self::FewWindows { .. } => "run longer with --time, or on an idle machine",
            Self::FewCpus { .. } => {
                "the closest mapping that fits was run; allow more CPUs with --cpus"
            }
            Self::Oversubscribed { .. } => {
                "rates and latencies reflect the scheduler; drop --oversubscribe to reject such \
                 mappings"
            }
            Self::CpuQuota { .. } => {
                "all rates except the delivered one cover only the time the workers ran; `linerate \
                 doctor` shows the cgroup and the command that lifts the quota"
            }
            Self::SharedCore { .. } => {
                "each worker runs slower than on a core of its own; choose CPUs on different cores \
                 with --cpus"
            }
            Self::UnknownCoreClock { .. } => "cycles are omitted; ticks are valid",
            Self::RejectedPackets { .. } => {
                "the report lists the causes; replace the capture if they matter"
            }
            Self::LeftOut { cause, .. } => remedy(cause),
            Self::IdleStage { .. } => {
                "its measured cost applies only to such packets; for its full cost, replay packets \
                 that its parameters apply to"
            }
            Self::NothingCameThrough(end) => end.remedy(),
            Self::InterfaceInDoubt(doubt) => doubt.remedy(),
            Self::NoVerdictWithoutInterval { .. } => {
                "measure both runs with --repeat 6 or more, or count in the simulator (--tier sim)"
            }
            Self::NoVerdictOnOtherGrounds { .. } => {
                "measure the baseline again with the same --tier and --caches"
            }
            Self::NoVerdictWithoutCount { .. } => {
                "measure the baseline again with the same events, on a machine that supports them"
            }
            Self::UnknownInstruction { .. } => {
                "on x86, the simulator lacks AVX-512, VAES, GFNI and SHA instructions: compile \
                 with -march=x86-64-v3 or -C target-cpu=x86-64-v3 instead of native"
            }
            Self::UnfinishedProcesses { .. } => "make the command wait for its children",
            Self::UncountedProcesses { .. } => "do not strip the program, or link it dynamically",
            Self::OverwrittenCounts { .. } => "count only the program that was executed last",
            Self::UnsimulatedPrograms { .. } => "count these programs separately",
            Self::UnfollowedProgram { .. } => {
                "run the command as the target user, without the setuid program"
            }
            Self::ScaledElsewhere { .. } => {
                "count fewer events at a time (perf stat -e), or use linerate stat, which reports \
                 the error"
            }
            Self::OtherProcessor { .. } => {
                "a rate measured on one processor does not apply to another"
            }
            Self::Emulated => "counts are exact, but times mean nothing; measure on real hardware",
            Self::CostlyObserver { .. } => {
                "this may lower the rates; watch fewer processes, or watch longer"
            }
            Self::ShortWindow { .. } => "watch for 1 s or longer (-t)",
            Self::NotRead { .. } => "--details lists the reasons and the commands that fix them",
            Self::Unknown => "read the record with the version named in its provenance",
        }
    }
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
