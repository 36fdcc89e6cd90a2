// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs all patterns on all stacks, which is what `linerate tcp` measures.

use crate::endpoint::{Stack, WireMode};
use crate::error::Error;
use crate::law::{Effort, law};
use crate::lwip::Lwip;
use crate::measure::measure;
use crate::pattern::{Mix, Pattern};
use crate::routines::{OFF, SELECTED, Set};
use crate::sampling::sampler_cpu;
use crate::session::Setup;
use crate::smol::Smoltcp;
use linerate_machine::topology::Topology;
use linerate_record::kernels::Skipped;
use linerate_record::tcp::{TcpLaw, TcpReport, TcpStack};
use linerate_trial::Watch;

/// What to measure, and how.
pub struct Request {
    /// Stacks to measure.
    pub stacks: Stacks,
    /// Traffic patterns to measure.
    pub patterns: Vec<Pattern>,
    /// Routine sets to measure. The set without checksums is always included.
    pub sets: Vec<Set>,
    /// Whether frames are copied to the receiver or passed by reference.
    pub wire: WireMode,
    /// Size of each send or receive buffer in bytes.
    pub buffer: usize,
    /// Distribution of message lengths in the mixed pattern.
    pub mix: Mix,
    /// Total duration of the slices in seconds. Checking and connecting take additional time.
    pub seconds: f64,
    /// Seed for everything that is random in the run.
    pub seed: u64,
    /// CPU on which the measured thread runs.
    pub cpu: u32,
    /// Whether to measure only throughput under loss (the Mathis equation).
    pub law: bool,
}

/// The stacks to measure, and those that are not available.
pub struct Stacks {
    /// Stacks that are available.
    pub present: Vec<Box<dyn Stack>>,
    /// Stacks that are not available, and how to install them.
    pub skipped: Vec<Skipped>,
}

impl Stacks {
    /// Returns the stacks with these names, or all available stacks if `names` is empty. lwIP is
    /// skipped if it was not built, unless it is the only stack requested.
    ///
    /// # Errors
    /// Returns an error if a name is unknown, or if none of the stacks is available.
    pub fn named(names: &[String]) -> Result<Self, Error> {
        Self::choose(names, Lwip::new())
    }

    fn choose(names: &[String], lwip: Lwip) -> Result<Self, Error> {
        let is_here = lwip.check(Pattern::Bulk.segment());
        let is_here = is_here.and_then(|()| lwip.check(Pattern::Jumbo.segment()));
        let all: [Box<dyn Stack>; 2] = [Box::new(lwip), Box::new(Smoltcp)];
        if let Some(name) = names.iter().find(|name| all.iter().all(|s| s.name() != *name)) {
            let known = all.iter().map(|stack| stack.name().to_owned()).collect();
            return Err(Error::Unknown { what: "stack", name: name.clone(), known });
        }
        let is_wanted =
            |stack: &dyn Stack| names.is_empty() || names.iter().any(|name| name == stack.name());
        let mut stacks = Self { present: Vec::new(), skipped: Vec::new() };
        for stack in all.into_iter().filter(|stack| is_wanted(stack.as_ref())) {
            match &is_here {
                Err(error) if stack.name() == Lwip::NAME => {
                    let what = Lwip::NAME.to_owned();
                    stacks.skipped.push(Skipped { what, reason: error.to_string() });
                }
                _ => stacks.present.push(stack),
            }
        }
        match stacks.skipped.pop() {
            Some(Skipped { what: stack, reason }) if stacks.present.is_empty() => {
                Err(Error::Stack { stack, reason })
            }
            skipped => Ok(Self { skipped: skipped.into_iter().collect(), ..stacks }),
        }
    }
}

/// Measures everything that `request` asks for, on the CPU that it names. Reports the completed
/// fraction to `watch`.
///
/// # Errors
/// Returns an error if the CPU is not available, a routine is wrong, or a session fails.
pub fn run(request: Request, watch: &Watch<'_>) -> Result<TcpReport, Error> {
    let allowed = linerate_linux::allowed_cpus().unwrap_or_default();
    let sampler_cpu = sampler_cpu(&Topology::read(&allowed), request.cpu);
    linerate_linux::pin_current_thread(request.cpu).map_err(|error| Error::Stack {
        stack: format!("processor {}", request.cpu),
        reason: error.to_string(),
    })?;
    let mut sets = request.sets.clone();
    if sets.iter().all(|set| set.name() != OFF) {
        sets.push(Set::find(OFF)?);
    }
    sets.iter().try_for_each(Set::check)?;
    let mut request = request;
    let mut laws = Vec::new();
    if request.law {
        request.patterns.clear();
        laws = fit_laws(&mut request, watch)?;
    }
    let parts = (request.stacks.present.len() * request.patterns.len()).max(1) as f64;
    let mut done = 0.0;
    let mut measured = Vec::new();
    for stack in &request.stacks.present {
        let mut patterns = Vec::new();
        for &pattern in &request.patterns {
            if watch.is_stopped() {
                break;
            }
            let so_far = done;
            let progress = |part: &str, share| watch.progress(part, (so_far + share) / parts);
            let watch = watch.with_progress(&progress);
            let setup = Setup {
                wire: request.wire,
                buffer: request.buffer,
                mix: request.mix.clone(),
                seed: request.seed,
                ..Setup::for_pattern(pattern)
            };
            let seconds = request.seconds / parts;
            patterns.push(measure(&setup, stack.as_ref(), &sets, seconds, &watch, sampler_cpu)?);
            done += 1.0;
        }
        measured.push(TcpStack {
            name: stack.name().to_owned(),
            version: stack.version(),
            copies_by_routines: stack.copies_by_routines(),
            patterns,
        });
    }
    Ok(TcpReport {
        cpu: request.cpu,
        selected: SELECTED.to_owned(),
        scalar: Set::scalar().to_owned(),
        stacks: measured,
        laws,
        skipped: request.stacks.skipped,
        seed: request.seed,
        interrupted: watch.is_stopped(),
    })
}

/// Fits the Mathis equation for each stack, skipping those that do not support every segment size.
fn fit_laws(request: &mut Request, watch: &Watch<'_>) -> Result<Vec<TcpLaw>, Error> {
    let Stacks { present: stacks, skipped } = &mut request.stacks;
    let mut laws = Vec::new();
    for (index, stack) in stacks.iter().enumerate() {
        let of_stack = |share: f64| (index as f64 + share) / stacks.len() as f64;
        let progress = |part: &str, share| watch.progress(part, of_stack(share));
        let watch = watch.with_progress(&progress);
        match law(stack.as_ref(), Effort::FULL, request.seed, &watch) {
            Ok(law) => laws.push(law),
            Err(Error::Stack { stack, reason }) => {
                skipped.push(Skipped { what: format!("Mathis equation on {stack}"), reason });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(laws)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routines::STACK;
    use linerate_record::Scalar;
    use linerate_record::tcp::TcpSeam;

    /// Checks only that the report is complete and consistent, not the speeds.
    #[test]
    fn a_short_run_has_a_row_for_every_set_of_every_pattern() {
        let stacks = Stacks::named(&["smoltcp".to_owned()]).expect("smoltcp is built in");
        let sets = [SELECTED, "document", STACK].map(|name| Set::find(name).expect("a set"));
        let cpus = linerate_linux::allowed_cpus().expect("some processor");
        let request = Request {
            stacks,
            patterns: Pattern::ALL.to_vec(),
            sets: sets.to_vec(),
            wire: WireMode::Copy,
            buffer: 64 << 10,
            mix: Mix::find("bimodal").expect("a preset"),
            seconds: 0.05,
            seed: 1,
            cpu: cpus[0],
            law: false,
        };
        let report = run(request, &Watch::unattended()).expect("it runs");
        let [stack] = report.stacks.as_slice() else { panic!("{:?}", report.stacks) };
        assert_eq!(stack.patterns.len(), 5);
        for pattern in &stack.patterns {
            let names: Vec<&str> = pattern.sets.iter().map(|set| set.name.as_str()).collect();
            assert_eq!(names, [SELECTED, "document", STACK, OFF], "{}", pattern.name);
            assert!(pattern.proof.corrupted > 0 && pattern.proof.lost > 0, "{:?}", pattern.proof);
            for set in &pattern.sets {
                let share = |figure: &linerate_record::Figure| figure.as_number().unwrap_or(0.0);
                let [sum, copy, both] =
                    [&set.share_checksum, &set.share_copy, &set.share_copy_checksum].map(share);
                let total = sum + copy + both;
                assert!((0.0..1.0).contains(&total), "{} {}: {total}", pattern.name, set.name);
                // Connections without data consist of headers, which are summed inline.
                let calls = set.seam.iter().filter(|seam| !seam.is_inline());
                let sums = calls.clone().any(|seam| seam.routine != "copy");
                let has_payload = pattern.name != "response";
                let is_summed = ![STACK, OFF].contains(&set.name.as_str());
                assert_eq!(sums, has_payload && is_summed, "{} {}", pattern.name, set.name);
                let sums_headers = set.seam.iter().any(TcpSeam::is_inline);
                assert_eq!(sums_headers, is_summed, "{} {}", pattern.name, set.name);
                let unseen =
                    [&set.share_checksum, &set.sampled_checksum, &set.checksum_per_payload];
                assert!(set.name != STACK || unseen.iter().all(|f| f.as_number().is_none()));
                let is_text = matches!(set.gbps_per_cpu_s.value, Scalar::Text(_));
                assert!(!is_text);
                assert_eq!(
                    set.round_trip_cpu_ns.as_number().is_none(),
                    pattern.segment_bytes == 8000
                        || pattern.name == "bulk"
                        || pattern.name == "mixed"
                        || set.round_trip_cpu_ns.reason.as_deref()
                            == Some("every slice was preempted")
                );
            }
        }
    }

    #[test]
    fn without_lwip_other_stacks_run_and_the_fix_is_printed() {
        let choose = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Stacks::choose(&names, Lwip::from_folders(vec!["/nowhere".into()]))
        };
        for names in [&[][..], &["lwip", "smoltcp"]] {
            let stacks = choose(names).expect("smoltcp is built in");
            let present: Vec<&str> = stacks.present.iter().map(|stack| stack.name()).collect();
            assert_eq!(present, ["smoltcp"]);
            let [skipped] = stacks.skipped.as_slice() else { panic!("{:?}", stacks.skipped) };
            assert!(skipped.what == "lwip" && skipped.reason.contains("cargo xtask fetch lwip"));
        }
        assert!(choose(&["smoltcp"]).expect("smoltcp is built in").skipped.is_empty());
        let alone = choose(&["lwip"]).err().expect("lwIP was not built").to_string();
        assert!(alone.contains("cargo xtask fetch lwip"), "{alone}");
    }

    #[test]
    fn an_unknown_stack_is_answered_with_those_there_are() {
        let text = Stacks::named(&["bsd".to_owned()]).err().expect("there is none").to_string();
        assert!(text.contains("bsd") && text.contains("smoltcp"), "{text}");
    }
}
