// SPDX-License-Identifier: MIT OR Apache-2.0
//! Warnings about a record's figures, each with its remedy.

use crate::input::remedy;
use crate::run::DeadEnd;
use crate::units::{counted, memory_size, three_digits};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A reason to doubt the figures of a record. In JSON, `code` names the variant; minor versions may
/// add codes. The printed form includes a remedy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Warning {
    /// Other programs were running when the measurement began.
    NotIdle {
        /// Share of the CPU time that the other programs took, 0 to 1.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
    },
    /// The timestamp counter may change rate or stop.
    UnsteadyCounter,
    /// Windows were dropped because a worker was preempted in them.
    PreemptedWindows {
        /// Share of the windows that were dropped, 0 to 1.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
    },
    /// Too few windows without preemption for a meaningful interval.
    FewWindows {
        /// Number of windows that were kept.
        kept: u64,
    },
    /// The mapping in the file needs more CPUs than are available; a smaller mapping was run.
    FewCpus {
        /// Number of workers in the mapping.
        wanted: u32,
        /// Number of CPUs the program may use.
        available: u32,
    },
    /// More workers than CPUs were used, as requested.
    Oversubscribed {
        /// Number of workers that ran.
        workers: u32,
        /// Number of CPUs that the workers shared.
        cpus: u32,
    },
    /// A CPU quota of a control group throttled the workers.
    CpuQuota {
        /// The quota, in CPUs.
        #[serde(serialize_with = "crate::finite")]
        cpus: f64,
        /// Number of workers that ran; workers never sleep, so each uses a whole CPU.
        workers: u32,
    },
    /// Workers shared a core as SMT siblings.
    SharedCore {
        /// The logical CPUs of that core.
        cpus: Vec<u32>,
    },
    /// The core clock could not be calibrated.
    UnknownCoreClock {
        /// Reason why the core clock could not be calibrated.
        reason: String,
    },
    /// Part of the input never entered the path.
    RejectedPackets {
        /// Number of packets that were skipped.
        rejected: u64,
        /// Total number of packets in the input.
        of: u64,
    },
    /// A large share of the input's bytes never entered the path.
    LeftOut {
        /// Share of the input's bytes that were skipped, 0 to 1.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
        /// The cause for which most of these bytes were skipped.
        cause: String,
        /// Number of packets skipped for this cause; 1 for a damaged end of the file.
        packets: u64,
        /// Number of bytes skipped for this cause.
        bytes: u64,
        /// File offset beyond which the file cannot be read; `null` if it was read to the end.
        unread_from: Option<u64>,
    },
    /// A stage had nothing to do for any packet.
    IdleStage {
        /// Name of the stage.
        stage: String,
        /// Number of packets that the stage received, over all workers.
        packets: u64,
        /// The property that the parameters of the stage require and that no packet has.
        reason: String,
    },
    /// No packet reached the sink: a stage consumed or dropped all of them.
    NothingCameThrough(DeadEnd),
    /// Some figures were not compared with the baseline, because their variation between runs is
    /// unknown. They may have regressed.
    NoVerdictWithoutInterval {
        /// Names of the figures.
        names: Vec<String>,
    },
    /// Some figures were not compared with the baseline, because they were measured on a different
    /// basis: another tier, or other simulated caches.
    NoVerdictOnOtherGrounds {
        /// Names of the figures.
        names: Vec<String>,
    },
    /// Some figures were not compared with the baseline, because only one of the baseline and the
    /// record has a value.
    NoVerdictWithoutCount {
        /// Names of the figures.
        names: Vec<String>,
    },
    /// The simulator does not know an instruction of the program, which therefore received SIGILL.
    UnknownInstruction {
        /// First bytes of the instruction, in hexadecimal.
        bytes: String,
    },
    /// Some processes outlived the command, or were killed immediately. Their work after their last
    /// fork is not counted.
    UnfinishedProcesses {
        /// Number of such processes.
        processes: u64,
    },
    /// Some forked processes are not counted, because their counts could not be separated from
    /// those of their parents.
    UncountedProcesses {
        /// Number of such processes.
        processes: u64,
    },
    /// Some processes called execve more than once: counts from before the last call are
    /// incomplete.
    OverwrittenCounts {
        /// Number of such processes.
        processes: u64,
    },
    /// The simulator refused to start a setuid program, which it cannot follow.
    UnfollowedProgram {
        /// File of the setuid program.
        program: String,
    },
    /// Some counts were scaled by another program, with an unknown error.
    ScaledElsewhere {
        /// Names of the events.
        names: Vec<String>,
        /// Smallest share of the time during which any of the events was counted, 0 to 1.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
    },
    /// The rate that is compared with the budget was measured on another processor.
    OtherProcessor {
        /// The processor on which the rate was measured; `null` if its record does not name one.
        measured_on: Option<String>,
        /// The processor for which the budget is computed.
        budget_of: String,
    },
    /// The processor is emulated in software: counts are exact, times are meaningless.
    Emulated,
    /// Observing a program used a noticeable share of the machine.
    CostlyObserver {
        /// The observer's CPU time as a share of one CPU.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
    },
    /// The program was observed too briefly to catch rare events.
    ShortWindow {
        /// Length of the window in seconds.
        #[serde(serialize_with = "crate::finite")]
        seconds: f64,
    },
    /// Some evidence for an explanation could not be read.
    NotRead {
        /// Keywords of the missing readings.
        names: Vec<String>,
    },
    /// A warning with an unknown code, written by a newer version.
    #[serde(other)]
    Unknown,
}

impl fmt::Display for Warning {
    /// Prints the problem, a colon and the remedy.
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
            Self::PreemptedWindows { share } => {
                write!(f, "{} % of the windows were lost to preemption", percent(*share))
            }
            Self::FewWindows { kept } => {
                let were = if *kept == 1 { "was" } else { "were" };
                let kept = counted(*kept, "window");
                write!(f, "only {kept} {were} undisturbed, too few for a narrow interval")
            }
            Self::FewCpus { .. }
            | Self::Oversubscribed { .. }
            | Self::CpuQuota { .. }
            | Self::SharedCore { .. } => self.write_matter_of_cpus(f),
            Self::UnknownCoreClock { reason } => write!(f, "the core clock is unknown ({reason})"),
            Self::RejectedPackets { .. } | Self::LeftOut { .. } | Self::IdleStage { .. } => {
                self.write_matter_of_packets(f)
            }
            Self::NothingCameThrough(end) => write!(f, "no packet reached the sink: {end}"),
            Self::NoVerdictWithoutInterval { names } => {
                let names = names.join(", ");
                write!(f, "not compared with the baseline for lack of intervals ({names})")
            }
            Self::NoVerdictOnOtherGrounds { names } => {
                write!(
                    f,
                    "the baseline used a different tier or different caches ({})",
                    names.join(", ")
                )
            }
            Self::NoVerdictWithoutCount { names } => {
                write!(f, "counted only in this run or only in the baseline ({})", names.join(", "))
            }
            Self::UnknownInstruction { .. }
            | Self::UnfinishedProcesses { .. }
            | Self::UncountedProcesses { .. }
            | Self::OverwrittenCounts { .. }
            | Self::UnfollowedProgram { .. } => self.write_matter_of_simulation(f),
            Self::ScaledElsewhere { names, share } => write!(
                f,
                "{} counted for as little as {} % of the time and scaled up by perf, with an \
                 unknown error",
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

    /// Writes the problem, for warnings about the CPUs of the workers.
    fn write_matter_of_cpus(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewCpus { wanted, available } => {
                let wanted = counted((*wanted).into(), "processor");
                write!(f, "the mapping needs {wanted}; available: {available}")
            }
            Self::Oversubscribed { workers, cpus } => {
                let cpus = counted((*cpus).into(), "processor");
                write!(f, "{workers} workers shared {cpus}")
            }
            Self::CpuQuota { cpus, workers } => write!(
                f,
                "a CPU quota of {} CPUs throttled {}",
                three_digits(*cpus),
                counted((*workers).into(), "worker")
            ),
            Self::SharedCore { cpus } => {
                write!(f, "workers shared a core (CPUs {})", list(cpus))
            }
            _ => Ok(()),
        }
    }

    /// Writes the problem, for warnings about the limits of observing a running program.
    fn write_matter_of_watching(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CostlyObserver { share } => {
                write!(f, "linerate itself used {} % of a CPU", three_digits(share * 100.0))
            }
            Self::ShortWindow { seconds } => {
                write!(f, "the program was watched for only {} s", three_digits(*seconds))
            }
            Self::NotRead { names } => write!(f, "not read: {}", names.join(", ")),
            _ => Ok(()),
        }
    }

    /// Writes the problem, for warnings about input packets that were skipped or gave a stage no
    /// work.
    fn write_matter_of_packets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RejectedPackets { rejected, of } => {
                write!(f, "{rejected} of {} in the input were skipped", counted(*of, "packet"))
            }
            Self::LeftOut { share, cause, packets, bytes, unread_from } => {
                let (share, bytes) = (three_digits(share * 100.0), memory_size(*bytes as f64));
                write!(f, "{share} % of the input bytes were skipped, mostly for `{cause}` (")?;
                match unread_from {
                    Some(offset) if cause.ends_with("_tail") => {
                        write!(f, "{bytes} starting at byte {offset})")
                    }
                    _ => write!(f, "{}, {bytes})", counted(*packets, "packet")),
                }
            }
            Self::IdleStage { stage, packets, reason } => {
                let packets = counted(*packets, "packet");
                write!(f, "`{stage}` had nothing to do for {packets} ({reason})")
            }
            _ => Ok(()),
        }
    }

    /// Writes the problem, for warnings about the limits of a simulation.
    fn write_matter_of_simulation(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownInstruction { bytes } => {
                write!(
                    f,
                    "the program uses an instruction that Valgrind does not support \
                           ({bytes})"
                )
            }
            Self::UnfinishedProcesses { processes } => write!(
                f,
                "work that {} still running did after the last fork is not counted",
                counted(*processes, "process")
            ),
            Self::UncountedProcesses { processes } => write!(
                f,
                "{} not counted: the program has no symbols",
                counted(*processes, "forked process")
            ),
            Self::OverwrittenCounts { processes } => write!(
                f,
                "{} called execve more than once; part of the earlier work is not counted",
                counted(*processes, "process")
            ),
            Self::UnfollowedProgram { program } => write!(
                f,
                "Valgrind cannot follow setuid programs: {program} was not allowed to start"
            ),
            _ => Ok(()),
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Self::NotIdle { .. } => "stop other programs, or expect wide intervals",
            Self::UnsteadyCounter => {
                "times may be wrong; the performance governor keeps the clock constant"
            }
            Self::PreemptedWindows { .. } => {
                "leave a CPU free for the system, or run longer with --time"
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
                 doctor` names the group and the command that lifts the quota"
            }
            Self::SharedCore { .. } => {
                "each runs slower than alone; choose CPUs on different cores with --cpus"
            }
            Self::UnknownCoreClock { .. } => "cycles are omitted; ticks are valid",
            Self::RejectedPackets { .. } => {
                "the report lists the causes; replace the capture if they matter"
            }
            Self::LeftOut { cause, .. } => remedy(cause),
            Self::IdleStage { .. } => {
                "its cost is not representative; match its parameters to the packets, or replay \
                 packets it is meant for"
            }
            Self::NothingCameThrough(end) => end.remedy(),
            Self::NoVerdictWithoutInterval { .. } => {
                "measure both with --repeat 6 or more, or count in the simulator (--tier sim)"
            }
            Self::NoVerdictOnOtherGrounds { .. } => {
                "measure the baseline again with the same --tier and --caches"
            }
            Self::NoVerdictWithoutCount { .. } => {
                "measure the baseline again with the same events, on a machine that supports them"
            }
            Self::UnknownInstruction { .. } => {
                "it supports no AVX-512, VAES, GFNI or SHA instructions; compile with \
                 -march=x86-64-v3 or -C target-cpu=x86-64-v3 instead of native"
            }
            Self::UnfinishedProcesses { .. } => "make the command wait for its children",
            Self::UncountedProcesses { .. } => "do not strip the program, or link it dynamically",
            Self::OverwrittenCounts { .. } => "count the last program directly",
            Self::UnfollowedProgram { .. } => {
                "run the command as that user, without the setuid \
                 program"
            }
            Self::ScaledElsewhere { .. } => {
                "count fewer events at a time (perf stat -e), or use linerate stat, which reports \
                 the error"
            }
            Self::OtherProcessor { .. } => "the rate does not apply to the processor of the budget",
            Self::Emulated => "counts are exact, times are meaningless; measure on hardware",
            Self::CostlyObserver { .. } => {
                "this may lower the rates; watch fewer processes, or watch longer"
            }
            Self::ShortWindow { .. } => "watch for 1 s or longer (-t)",
            Self::NotRead { .. } => "--details lists the reasons and the commands that remove them",
            Self::Unknown => "read the record with the version named in its provenance",
        }
    }
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_to_do() {
        let text = Warning::NotIdle { share: 0.3456 }.to_string();
        assert_eq!(
            text,
            "other programs used 34.6 % of the CPUs just before the measurement: \
             stop other programs, or expect wide intervals"
        );
        let text = Warning::SharedCore { cpus: vec![0, 4] }.to_string();
        assert!(text.contains("(CPUs 0, 4)"), "{text}");
    }

    #[test]
    fn a_dead_end_has_its_stage_and_its_causes() {
        let said = |causes: &[&str]| {
            let causes = causes.iter().map(|cause| (*cause).to_owned()).collect();
            let end = DeadEnd { stage: "guard".to_owned(), packets: 7, causes };
            let warning = Warning::NothingCameThrough(end);
            let json = serde_json::to_string(&warning).unwrap();
            assert!(
                json.starts_with(r#"{"code":"nothing_came_through","stage":"guard""#),
                "{json}"
            );
            warning.to_string()
        };
        let dropped = said(&["denied", "martian"]);
        let all = "`guard` dropped all 7 packets it received (denied, martian): ";
        assert!(dropped.contains(all), "{dropped}");
        assert!(dropped.contains("`linerate stages KIND`"), "{dropped}");
        let offloaded = said(&["bad_l4_checksum"]);
        assert!(offloaded.contains("`ethtool -K IF tx off`"), "{offloaded}");
        let used = said(&[]);
        assert!(used.contains("`guard` consumed all 7 packets: "), "{used}");
    }

    #[test]
    fn code_names_the_variant() {
        let json = serde_json::to_string(&Warning::PreemptedWindows { share: 0.25 }).unwrap();
        assert_eq!(json, r#"{"code":"preempted_windows","share":0.25}"#);
        assert_eq!(serde_json::to_string(&Warning::Emulated).unwrap(), r#"{"code":"emulated"}"#);
    }

    #[test]
    fn a_code_of_a_later_version_is_kept_as_unknown() {
        let read: Warning =
            serde_json::from_str(r#"{"code":"solar_flare","kelvin":6000}"#).unwrap();
        assert_eq!(read, Warning::Unknown);
        assert!(serde_json::from_str::<Warning>(r#"{"code":"not_idle","cpus":2}"#).is_err());
    }
}
