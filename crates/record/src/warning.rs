// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caveats for a reader of a record's figures, each with its fix.

use crate::input::remedy;
use crate::run::DeadEnd;
use crate::units::{counted, memory_size, three_digits};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A reason to doubt the figures. In JSON, `code` names the variant; more codes may come with a
/// minor version. Printed, it says what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Warning {
    /// Other programs ran when the measurement began.
    NotIdle {
        /// Share of the time of the processors that others took, 0 to 1.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
    },
    /// The timestamp counter may change its rate or stop.
    UnsteadyCounter,
    /// Windows were dropped because a worker was preempted in them.
    PreemptedWindows {
        /// The share of windows that was dropped, 0 to 1.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
    },
    /// Too few clean windows for an interval to mean much.
    FewWindows {
        /// Windows that were kept.
        kept: u64,
    },
    /// The mapping of the file needs more processors than there are; a smaller one ran.
    FewCpus {
        /// Workers of the mapping.
        wanted: u32,
        /// Processors the program may use.
        available: u32,
    },
    /// More workers ran than there are processors, as requested.
    Oversubscribed {
        /// Workers that ran.
        workers: u32,
        /// Processors they shared.
        cpus: u32,
    },
    /// A CPU quota stopped the workers for part of the time.
    CpuQuota {
        /// The quota in CPUs.
        #[serde(serialize_with = "crate::finite")]
        cpus: f64,
        /// Workers that ran, none of which ever sleeps.
        workers: u32,
    },
    /// Workers ran on hardware threads of one core.
    SharedCore {
        /// The logical processors of that core.
        cpus: Vec<u32>,
    },
    /// The core clock could not be calibrated.
    UnknownCoreClock {
        /// Why.
        reason: String,
    },
    /// Part of the input never entered the path.
    RejectedPackets {
        /// Packets left out.
        rejected: u64,
        /// Packets of the input, these included.
        of: u64,
    },
    /// Many bytes of the input never entered the path.
    LeftOut {
        /// Share of the bytes, 0 to 1.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
        /// The cause of most of them.
        cause: String,
        /// Packets left out for it; of a damaged end 1.
        packets: u64,
        /// Bytes left out for it.
        bytes: u64,
        /// From where on the file cannot be read, in bytes; `null` where it was read to its end.
        unread_from: Option<u64>,
    },
    /// A stage found nothing to do in any packet.
    IdleStage {
        /// The stage.
        stage: String,
        /// Packets it was given, over all workers.
        packets: u64,
        /// The property that its parameters require and no packet has.
        reason: String,
    },
    /// No packet reached the sink.
    NothingCameThrough(DeadEnd),
    /// Figures that may or may not have got worse since the baseline: their variation between runs
    /// is unknown.
    NoVerdictWithoutInterval {
        /// The figures.
        names: Vec<String>,
    },
    /// Figures that rest on something else than those of the baseline: another tier, other caches.
    NoVerdictOnOtherGrounds {
        /// The figures.
        names: Vec<String>,
    },
    /// Figures of which the baseline has a value and this record has none, or the other way round.
    NoVerdictWithoutCount {
        /// The figures.
        names: Vec<String>,
    },
    /// The simulator does not know an instruction of the program, which got a SIGILL.
    UnknownInstruction {
        /// Its first bytes, in hexadecimal.
        bytes: String,
    },
    /// Processes that had not ended when the command did, or were killed at once.
    UnfinishedProcesses {
        /// Their number.
        processes: u64,
    },
    /// Processes whose counts could not be separated from those of their parents.
    UncountedProcesses {
        /// Their number.
        processes: u64,
    },
    /// Processes that became another program more than once, of which part of what they did before
    /// is not counted.
    OverwrittenCounts {
        /// Their number.
        processes: u64,
    },
    /// A setuid program, which the simulator did not start.
    UnfollowedProgram {
        /// Its file.
        program: String,
    },
    /// Scaled counts of another program, with an unknown error.
    ScaledElsewhere {
        /// The events.
        names: Vec<String>,
        /// The least share of the time that one of them was counted, 0 to 1.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
    },
    /// The rate that a budget is compared with was measured on another processor.
    OtherProcessor {
        /// That processor; `null` if its record does not name it.
        measured_on: Option<String>,
        /// The processor of the budget.
        budget_of: String,
    },
    /// The instructions are emulated.
    Emulated,
    /// Watching a program took a visible part of the machine.
    CostlyObserver {
        /// CPU time of the observer as a share of one CPU.
        #[serde(serialize_with = "crate::finite")]
        share: f64,
    },
    /// A program was watched too briefly for rare events.
    ShortWindow {
        /// Length of the window in seconds.
        #[serde(serialize_with = "crate::finite")]
        seconds: f64,
    },
    /// Part of what an explanation may rest on could not be read.
    NotRead {
        /// The operation, in words.
        names: Vec<String>,
    },
    /// Written by a newer version, with a code this one does not know.
    #[serde(other)]
    Unknown,
}

impl fmt::Display for Warning {
    /// The problem, a colon, the fix.
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
                write!(f, "other programs took {} % of the processors just before", percent(*share))
            }
            Self::UnsteadyCounter => {
                f.write_str("the timestamp counter of this processor may change its rate")
            }
            Self::PreemptedWindows { share } => {
                write!(f, "{} % of the windows were lost to preemption", percent(*share))
            }
            Self::FewWindows { kept } => {
                let were = if *kept == 1 { "was" } else { "were" };
                let kept = counted(*kept, "window");
                write!(f, "only {kept} {were} clean, too few for a narrow interval")
            }
            Self::FewCpus { .. }
            | Self::Oversubscribed { .. }
            | Self::CpuQuota { .. }
            | Self::SharedCore { .. } => self.write_matter_of_cpus(f),
            Self::UnknownCoreClock { reason } => write!(f, "the core clock is unknown ({reason})"),
            Self::RejectedPackets { .. } | Self::LeftOut { .. } | Self::IdleStage { .. } => {
                self.write_matter_of_packets(f)
            }
            Self::NothingCameThrough(end) => write!(f, "no packet came through: {end}"),
            Self::NoVerdictWithoutInterval { names } => {
                let names = names.join(", ");
                write!(f, "no verdict against the baseline without intervals ({names})")
            }
            Self::NoVerdictOnOtherGrounds { names } => {
                write!(f, "the baseline has another tier or other caches ({})", names.join(", "))
            }
            Self::NoVerdictWithoutCount { names } => {
                write!(f, "counted now or in the baseline, not both times ({})", names.join(", "))
            }
            Self::UnknownInstruction { .. }
            | Self::UnfinishedProcesses { .. }
            | Self::UncountedProcesses { .. }
            | Self::OverwrittenCounts { .. }
            | Self::UnfollowedProgram { .. } => self.write_matter_of_simulation(f),
            Self::ScaledElsewhere { names, share } => write!(
                f,
                "{} counted for as little as {} % of the time and scaled to all of it, by perf, \
                 with no error known",
                names.join(", "),
                percent(*share)
            ),
            Self::OtherProcessor { measured_on, budget_of } => {
                let other = measured_on.as_deref().unwrap_or("a processor of no known name");
                write!(
                    f,
                    "--from: its rate was measured on {other}, and the budget is that of \
                     {budget_of}"
                )
            }
            Self::Emulated => write!(f, "the processor is emulated"),
            Self::CostlyObserver { .. } | Self::ShortWindow { .. } | Self::NotRead { .. } => {
                self.write_matter_of_watching(f)
            }
            Self::Unknown => write!(f, "a newer linerate wrote a warning this one does not know"),
        }
    }

    /// The CPUs of the workers.
    fn write_matter_of_cpus(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewCpus { wanted, available } => {
                let wanted = counted((*wanted).into(), "processor");
                write!(f, "the mapping wants {wanted} and {available} may be used")
            }
            Self::Oversubscribed { workers, cpus } => {
                let cpus = counted((*cpus).into(), "processor");
                write!(f, "{workers} workers shared {cpus}")
            }
            Self::CpuQuota { cpus, workers } => write!(
                f,
                "a CPU quota of {} CPUs stopped {}",
                three_digits(*cpus),
                counted((*workers).into(), "worker")
            ),
            Self::SharedCore { cpus } => {
                write!(f, "workers ran side by side on one core (processors {})", list(cpus))
            }
            _ => Ok(()),
        }
    }

    /// Limits of the observation of a running program.
    fn write_matter_of_watching(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CostlyObserver { share } => {
                write!(f, "watching took {} % of a CPU", three_digits(share * 100.0))
            }
            Self::ShortWindow { seconds } => {
                write!(f, "the program was watched for {} s only", three_digits(*seconds))
            }
            Self::NotRead { names } => write!(f, "not read: {}", names.join(", ")),
            _ => Ok(()),
        }
    }

    /// Warning about omitted packets of the input.
    fn write_matter_of_packets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RejectedPackets { rejected, of } => {
                write!(f, "{rejected} of {} of the input were left out", counted(*of, "packet"))
            }
            Self::LeftOut { share, cause, packets, bytes, unread_from } => {
                let (share, bytes) = (three_digits(share * 100.0), memory_size(*bytes as f64));
                write!(
                    f,
                    "{share} % of the bytes of the input were left out, most for `{cause}` ("
                )?;
                match unread_from {
                    Some(offset) if cause.ends_with("_tail") => {
                        write!(f, "{bytes} from byte {offset} on)")
                    }
                    _ => write!(f, "{}, {bytes})", counted(*packets, "packet")),
                }
            }
            Self::IdleStage { stage, packets, reason } => {
                let packets = counted(*packets, "packet");
                write!(f, "`{stage}` found nothing to do in {packets} ({reason})")
            }
            _ => Ok(()),
        }
    }

    /// Warning about the limits of a simulation.
    fn write_matter_of_simulation(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownInstruction { bytes } => {
                write!(f, "Valgrind does not know an instruction of the program ({bytes})")
            }
            Self::UnfinishedProcesses { processes } => write!(
                f,
                "work of {} still running since the last fork is not counted",
                counted(*processes, "process")
            ),
            Self::UncountedProcesses { processes } => write!(
                f,
                "{} not counted, for lack of the program's symbols",
                counted(*processes, "forked process")
            ),
            Self::OverwrittenCounts { processes } => write!(
                f,
                "{} became another program (execve) more than once; part of the work before is not \
                 counted",
                counted(*processes, "process")
            ),
            Self::UnfollowedProgram { program } => write!(
                f,
                "Valgrind cannot follow {program}, which runs with another user's rights, \
                 and had its start refused"
            ),
            _ => Ok(()),
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Self::NotIdle { .. } => "stop other programs, or expect wide intervals",
            Self::UnsteadyCounter => {
                "times may be wrong; the performance governor keeps the clock still"
            }
            Self::PreemptedWindows { .. } => {
                "leave a processor free for the system, or run longer with --time"
            }
            Self::FewWindows { .. } => "run longer with --time, or on an idle machine",
            Self::FewCpus { .. } => {
                "the nearest mapping that fits was run; allow more processors with --cpus"
            }
            Self::Oversubscribed { .. } => {
                "rates and latencies are those of the scheduler; leave out --oversubscribe to have \
                 this refused"
            }
            Self::CpuQuota { .. } => {
                "rates, but for the delivered one, are those of the moments in which they ran; \
                 `linerate doctor` names the group and the command that lifts it"
            }
            Self::SharedCore { .. } => {
                "each is slower than alone; choose processors of different cores with --cpus"
            }
            Self::UnknownCoreClock { .. } => "cycles are left out, ticks are valid",
            Self::RejectedPackets { .. } => {
                "the report lists the causes; replace the capture if they matter"
            }
            Self::LeftOut { cause, .. } => remedy(cause),
            Self::IdleStage { .. } => {
                "its cost is not that of the work it is for; fit its parameters to the packets, or \
                 replay packets it is meant for"
            }
            Self::NothingCameThrough(_) => {
                "`linerate stages` says what each kind takes and why it drops; name the kind that \
                 fits the packets, or the source that fits the stage"
            }
            Self::NoVerdictWithoutInterval { .. } => {
                "measure both with --repeat 6 or more, or count in the simulator (--tier sim)"
            }
            Self::NoVerdictOnOtherGrounds { .. } => {
                "measure the baseline again with the same --tier and --caches"
            }
            Self::NoVerdictWithoutCount { .. } => {
                "measure the baseline again with the same events, on a machine that counts them"
            }
            Self::UnknownInstruction { .. } => {
                "it knows no AVX-512, VAES, GFNI or SHA; compile with -march=x86-64-v3 or -C \
                 target-cpu=x86-64-v3 in place of native"
            }
            Self::UnfinishedProcesses { .. } => "have the command wait for its children",
            Self::UncountedProcesses { .. } => "do not strip the program, or link it dynamically",
            Self::OverwrittenCounts { .. } => "count the last program itself, without those before",
            Self::UnfollowedProgram { .. } => "run the command as that user, without that program",
            Self::ScaledElsewhere { .. } => {
                "count fewer events at a time (perf stat -e), or use linerate stat, which reports \
                 the error"
            }
            Self::OtherProcessor { .. } => "the rate says nothing of this one",
            Self::Emulated => "counts are exact, times mean nothing; measure on hardware",
            Self::CostlyObserver { .. } => {
                "rates may be lower than without it; watch fewer processes, or a longer time"
            }
            Self::ShortWindow { .. } => "watch for 1 s or longer (-t)",
            Self::NotRead { .. } => "--details has the reasons, and the commands that change them",
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
            "other programs took 34.6 % of the processors just before: stop other programs, or \
             expect wide intervals"
        );
        let text = Warning::SharedCore { cpus: vec![0, 4] }.to_string();
        assert!(text.contains("(processors 0, 4)"), "{text}");
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
        let all = "`guard` dropped all 7 packets that came to it (denied, martian): ";
        assert!(dropped.contains(all), "{dropped}");
        let used = said(&[]);
        assert!(used.contains("`guard` used up all 7 packets that came to it: "), "{used}");
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
