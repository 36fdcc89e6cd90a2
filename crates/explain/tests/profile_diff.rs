// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests profile comparisons: changes beyond sampling noise are found, and noise is not called a
//! change.

use linerate_explain::profile_diff::profile_diff;
use linerate_record::profile::{CostClass, FunctionCost, ProfileReport};
use linerate_record::profile_diff::{ChangeVerdict, CostUnit, ProfileDiffReport};
use linerate_record::random::Random;
use linerate_record::stats::coverage::least_hits;
use linerate_record::why::PacketCount;
use linerate_record::{Figure, Tier, fixtures, stats::Estimate};

const SAMPLES: u64 = 5000;

/// Returns a profile of functions named `f0`, `f1`, ... with the given numbers of samples. If
/// `packets` is given, the packets took one second of CPU time.
fn profile(samples: &[u64], packets: Option<u64>) -> ProfileReport {
    let all: u64 = samples.iter().sum();
    let function = |(number, &samples): (usize, &u64)| {
        let share = samples as f64 / all as f64;
        let half = 1.96 * (share * (1.0 - share) / all as f64).sqrt();
        let share = Estimate { low: share - half, high: share + half, ..Estimate::exactly(share) };
        let figure = |unit, estimate| Figure::number(unit, estimate, Tier::Sw, "by hand");
        let ns = packets.map(|packets| figure("ns", share.scale(1e9 / packets as f64)));
        FunctionCost {
            name: format!("f{number}"),
            module: "/usr/bin/router".to_owned(),
            class: CostClass::Program,
            samples,
            share: figure("ratio", share),
            samples_with_callees: samples,
            ns_per_packet: ns
                .unwrap_or_else(|| Figure::absent("ns", Tier::Sw, "by hand", "no packets")),
            is_polling: None,
        }
    };
    ProfileReport {
        functions: samples.iter().enumerate().map(function).collect(),
        samples: all,
        cpu_s: 1.0,
        packets: packets.map(|packets| PacketCount {
            packets,
            bytes: None,
            counter: "by hand".to_owned(),
        }),
        ..fixtures::profile()
    }
}

fn changed(diff: &ProfileDiffReport) -> Vec<(&str, ChangeVerdict)> {
    diff.changed().map(|one| (one.name.as_str(), one.cost.verdict)).collect()
}

#[test]
fn a_function_that_got_dearer_is_named_with_its_cost_per_packet() {
    let old = profile(&[1000, 2000, 2000], Some(1_000_000));
    let new = profile(&[2000, 1500, 1500], Some(800_000));
    let diff = profile_diff(&old, &new);
    assert_eq!(diff.unit, CostUnit::NsPerPacket);
    // 200 ns of 1000 before, 500 ns of 1250 now.
    assert_eq!(changed(&diff)[0], ("f0", ChangeVerdict::More));
    let change = &diff.functions[0].cost.change;
    assert!((change.as_number().unwrap() - 300.0).abs() < 1e-6, "{change:?}");
    assert!(change.low.unwrap() > 250.0 && change.high.unwrap() < 350.0, "{change:?}");
    assert!((diff.total.change.as_number().unwrap() - 250.0).abs() < 1e-6);
}

#[test]
fn without_packets_shares_are_compared() {
    let diff = profile_diff(&profile(&[1000, 4000], None), &profile(&[4000, 1000], Some(1000)));
    assert_eq!(diff.unit, CostUnit::ShareOfSamples);
    assert_eq!(changed(&diff), [("f0", ChangeVerdict::More), ("f1", ChangeVerdict::Less)]);
}

#[test]
fn a_function_that_is_new_or_gone_is_compared_with_none() {
    let diff = profile_diff(&profile(&[2500, 0, 2500], None), &profile(&[2500, 2500, 0], None));
    assert_eq!(changed(&diff), [("f1", ChangeVerdict::More), ("f2", ChangeVerdict::Less)]);
    assert_eq!(diff.functions[0].samples, [0, 2500]);
}

#[test]
fn functions_of_a_file_without_names_count_as_one() {
    let mut old = profile(&[1000, 1000, 3000], None);
    let mut new = profile(&[500, 1500, 3000], None);
    for (report, offset) in [(&mut old, 0x100), (&mut new, 0x40)] {
        for (number, function) in report.functions.iter_mut().take(2).enumerate() {
            function.name = format!("router+0x{:x}", offset + number);
        }
    }
    new.functions.iter_mut().for_each(|one| one.module = "/srv/build/router".to_owned());
    let diff = profile_diff(&old, &new);
    assert_eq!(changed(&diff), []);
    assert_eq!(diff.functions.len(), 2);
    assert!(diff.functions.iter().any(|one| one.name == "[functions without symbols]"));
}

#[test]
fn few_samples_are_not_compared() {
    let diff = profile_diff(&profile(&[4990, 10], None), &profile(&[4995, 5], None));
    assert_eq!((diff.functions.len(), diff.functions_left_out), (1, 1));
}

/// Two profiles of the same program differ only by sampling error. With 95 % confidence over all
/// functions, at most one comparison in twenty may report a change.
#[test]
fn noise_is_called_a_change_in_at_most_one_comparison_in_twenty() {
    const COMPARISONS: u64 = 400;
    let mut random = Random::new(7);
    let mut draw = || {
        // 40 functions, from 0.1 % to 5 % of the samples.
        let mut samples = vec![0u64; 40];
        for _ in 0..SAMPLES {
            let x = random.uniform() * random.uniform();
            samples[((x * 40.0) as usize).min(39)] += 1;
        }
        samples
    };
    let quiet = (0..COMPARISONS)
        .filter(|_| {
            let (old, new) = (profile(&draw(), None), profile(&draw(), None));
            profile_diff(&old, &new).changed().next().is_none()
        })
        .count() as u64;
    assert!(quiet >= least_hits(COMPARISONS, 0.95, 1e-6), "{quiet} of {COMPARISONS}");
}

/// Returns a profile in which the kernel has `kernel` samples, in two functions or, without kernel
/// samples, as one, and the program `program` samples.
fn with_kernel(kernel: u64, program: u64, has_kernel: bool) -> ProfileReport {
    let mut report = profile(&[program, kernel / 2, kernel - kernel / 2], None);
    for function in &mut report.functions[1..] {
        function.module = "kernel".to_owned();
    }
    if !has_kernel {
        report = profile(&[program, kernel], None);
        report.functions[1].name = "[not in user mode]".to_owned();
        report.functions[1].module = "kernel".to_owned();
    }
    report.sampling.has_kernel = has_kernel;
    report.sampling.event = "cpu-clock".to_owned();
    report
}

#[test]
fn the_kernel_is_compared_as_one_if_only_one_profile_sampled_it() {
    let diff = profile_diff(&with_kernel(2000, 3000, true), &with_kernel(2000, 3000, false));
    assert_eq!(changed(&diff), []);
    assert_eq!(diff.functions.len(), 2);
    assert!(diff.notes[0].contains("sampled in the old profile only"), "{:?}", diff.notes);
    let diff = profile_diff(&with_kernel(2000, 3000, false), &with_kernel(3000, 2000, true));
    assert_eq!(changed(&diff).len(), 2);
    let same = profile_diff(&with_kernel(2000, 3000, true), &with_kernel(2000, 3000, true));
    assert_eq!((same.functions.len(), same.notes.len()), (3, 0));
}

#[test]
fn the_kernel_is_left_out_if_one_profile_does_not_know_its_time() {
    // Cycles in user mode do not show how much time was spent in the kernel.
    let mut user = profile(&[3000, 2000], None);
    user.sampling.has_kernel = false;
    user.sampling.event = "cycles".to_owned();
    let mut all = profile(&[1500, 1000, 2500], None);
    all.functions[2].module = "kernel".to_owned();
    all.sampling.event = "cycles".to_owned();
    let diff = profile_diff(&all, &user);
    assert_eq!(changed(&diff), []);
    assert_eq!((diff.functions.len(), diff.unit), (2, CostUnit::ShareOfSamples));
    assert!(diff.notes[0].contains("in user mode"), "{:?}", diff.notes);
}
