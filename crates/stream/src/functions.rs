// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples the functions in which a thread of a test spends its CPU time, and derives the share of
//! copies.

use crate::account::{Sampled, Thread};
use crate::assemble::Visit;
use crate::request::IsCopy;
use linerate_linux::thread_id;
use linerate_observe::sampler::{Sampler, ThreadId};
use linerate_record::stats::{Estimate, sampled_share};
use linerate_record::{Figure, Tier};

const METHOD: &str = "samples of functions in one more test, weighted with the threads' CPU time";
/// Name and file recorded for a kernel function whose name the kernel hides.
const HIDDEN: (&str, &str) = ("[kernel]", "kernel");

/// Samples of the calling thread.
pub(crate) struct Functions {
    sampler: Sampler,
    refused: Option<String>,
}

impl Functions {
    /// Starts sampling the calling thread. Takes some 25 ms, to measure what a sample costs.
    pub(crate) fn start() -> Self {
        let thread = ThreadId { pid: std::process::id(), tid: thread_id() };
        let (sampler, unread) = Sampler::start(&[thread], &[]);
        Self { sampler, refused: unread.into_iter().next().map(|unread| unread.reason) }
    }

    /// Ends sampling, and finds the names of the functions.
    pub(crate) fn finish(mut self) -> Sampled {
        self.sampler.end_slice();
        let Some(profile) = self.sampler.finish(&[], |_| 0.0).threads.pop() else {
            return Sampled { refused: self.refused, ..Sampled::default() };
        };
        let functions = profile.functions.into_iter();
        Sampled {
            samples: profile.samples,
            functions: functions.map(|one| (one.name, one.file, one.share)).collect(),
            refused: self.refused,
        }
    }
}

/// Returns the share of both sides' CPU time that was spent copying data, from the samples of a
/// test.
pub(crate) fn copy_share(visit: Option<&Visit>, is_copy: IsCopy) -> Figure {
    let threads = visit.map(|visit| visit.sender.threads.iter().chain(&visit.receiver.threads));
    let share = threads.ok_or_else(|| "this method was not sampled".to_owned());
    match share.and_then(|threads| weighted(threads, is_copy)) {
        Ok(share) => Figure::number("ratio", share, Tier::Sw, METHOD),
        Err(reason) => Figure::absent("ratio", Tier::Sw, METHOD, &reason),
    }
}

fn weighted<'a>(
    threads: impl Iterator<Item = &'a Thread> + Clone,
    is_copy: IsCopy,
) -> Result<Estimate, String> {
    let all_ns: u64 = threads.clone().map(|thread| thread.cpu_ns).sum();
    let mut sum = Estimate::exactly(0.0);
    let mut samples = 0;
    for thread in threads {
        let share = of_thread(thread, is_copy)?;
        samples += share.n;
        sum = sum.plus(share.scale(thread.cpu_ns as f64 / all_ns.max(1) as f64));
    }
    Ok(Estimate { n: samples, ..sum })
}

fn of_thread(thread: &Thread, is_copy: IsCopy) -> Result<Estimate, String> {
    let sampled = thread.sampled.as_ref().ok_or("the other side does not sample functions")?;
    if let Some(reason) = &sampled.refused {
        return Err(reason.clone());
    }
    let is_hidden =
        |(name, file, _): &(String, String, f64)| (name.as_str(), file.as_str()) == HIDDEN;
    if sampled.functions.iter().any(is_hidden) {
        return Err("the kernel hides the names of its functions (kernel.kptr_restrict)".to_owned());
    }
    if sampled.samples == 0 {
        return Err("a thread had no samples".to_owned());
    }
    let copies = sampled.functions.iter().filter(|(name, file, _)| is_copy(name, file));
    let share: f64 = copies.map(|(_, _, share)| share).sum();
    let samples = sampled.samples;
    Ok(sampled_share((share * samples as f64).round() as u64, samples))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Account;

    fn is_copy(name: &str, file: &str) -> bool {
        name.starts_with("copy") && file == "kernel"
    }

    /// Returns a thread that was sampled 100 times while it ran for `cpu_ns`.
    fn thread(cpu_ns: u64, functions: &[(&str, f64)]) -> Thread {
        let functions =
            functions.iter().map(|(name, share)| ((*name).to_owned(), "kernel".to_owned(), *share));
        let sampled =
            Sampled { samples: 100, functions: functions.collect(), ..Sampled::default() };
        Thread { cpu_ns, sampled: Some(sampled), ..Thread::default() }
    }

    fn share(sender: Thread, receiver: Thread) -> Figure {
        let account = |thread| Account { threads: vec![thread], ..Account::default() };
        let visit = Visit { sender: account(sender), receiver: account(receiver) };
        copy_share(Some(&visit), is_copy)
    }

    #[test]
    fn sides_count_by_their_cpu_time() {
        let copies = share(
            thread(3000, &[("copy_in", 0.5), ("copy_page", 0.1), ("send", 0.4)]),
            thread(1000, &[("receive", 0.8), ("copy_out", 0.2)]),
        );
        let value = copies.as_number().expect("a share");
        assert!((value - (0.75 * 0.6 + 0.25 * 0.2)).abs() < 1e-9, "{copies:?}");
        assert!(copies.low.is_some_and(|low| low > 0.3) && copies.n == 200, "{copies:?}");
    }

    #[test]
    fn what_is_not_known_is_no_zero() {
        let reason = |figure: Figure| figure.reason.unwrap_or_default();
        let good = || thread(1000, &[("receive", 1.0)]);
        assert!(reason(share(thread(10, &[("[kernel]", 0.1)]), good())).contains("kptr_restrict"));
        let mut refused = good();
        refused.sampled =
            Some(Sampled { refused: Some("not permitted".to_owned()), ..Sampled::default() });
        assert_eq!(reason(share(refused, good())), "not permitted");
        let old = Thread { sampled: None, ..good() };
        assert!(reason(share(good(), old)).contains("does not sample"));
        assert!(reason(copy_share(None, is_copy)).contains("not sampled"));
    }
}
