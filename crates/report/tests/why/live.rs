// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live view of `linerate top`.

use super::common::{PLAIN, assert_golden};
use super::example;
use linerate_record::why::{
    CpuCounts, FunctionTime, Observation, ThreadActivity, ThreadState, ThreadTime,
};
use linerate_record::{Figure, Tier};
use linerate_report::{Style, TopView, top};

#[test]
fn the_live_view_fits_any_terminal() {
    let observation = &example().observation;
    for (lines, columns) in [(0, 80), (1, 80), (2, 5), (5, 40), (9, 80), (24, 80), (60, 200)] {
        for is_paused in [false, true] {
            let view = TopView { lines: Some(lines), is_paused };
            let shown = top(observation, &view, &Style::plain(columns));
            assert_eq!(shown.len(), lines, "{shown:?}");
            assert!(shown.iter().all(|line| line.chars().count() <= columns), "{shown:?}");
        }
    }
}

#[test]
fn the_live_view_has_threads_packets_losses_and_functions() {
    let observation = &example().observation;
    let view = |lines| TopView { lines, is_paused: false };
    let narrow = Style::plain(80);
    let shown = top(observation, &view(Some(24)), &narrow).join("\n");
    assert_golden("top.txt", &narrow, &shown);
    let plain = top(observation, &view(None), &PLAIN).join("\n");
    for word in ["worker1", "wait%", "50,151 packets/s", "47,353 lost/s", "+0x7cd00", "kernel_samp"]
    {
        assert!(plain.contains(word), "{word}: {plain}");
    }
    let colored = top(observation, &view(Some(24)), &Style { color: true, ..narrow });
    assert!(colored.iter().any(|line| line.starts_with("\x1b[33m") && line.ends_with("\x1b[0m")));
}

#[test]
fn the_live_view_says_how_many_rows_it_leaves_out() {
    let mut observation = example().observation;
    let model = observation.threads[0].clone();
    observation.threads = (0..40).map(|tid| ThreadActivity { tid, ..model.clone() }).collect();
    let view = TopView { lines: Some(24), is_paused: false };
    let shown = top(&observation, &view, &PLAIN).join("\n");
    assert!(shown.contains("more threads") && shown.contains("+0x7cd00"), "{shown}");
}

#[test]
fn the_live_view_counts_the_time_of_threads_that_ended() {
    let mut observation = example().observation;
    let head = |observation: &Observation| {
        let view = TopView { lines: None, is_paused: false };
        top(observation, &view, &Style::plain(120))[0].clone()
    };
    let cpus = |head: &str| -> f64 {
        let (_, cpus) = head.split_once("s: ").unwrap();
        cpus.split_once(" CPU").unwrap().0.parse().unwrap()
    };
    observation.ended_threads_cpus = Some(0.01);
    let before = head(&observation);
    assert!(!before.contains("ended"), "less than its error: {before}");
    observation.ended_threads_cpus = Some(1.25);
    observation.ended_children_cpus = Some(0.5);
    let after = head(&observation);
    assert!(after.contains("(1.25 in ended threads, 0.5 in ended child processes)"), "{after}");
    assert!((cpus(&after) - cpus(&before) - 1.75).abs() < 0.01, "{before}\n{after}");
}

/// Returns a thread with these samples, all of them in a function of its name, that is on its CPU
/// for this share of a window of a second.
fn sampled_thread(model: &ThreadActivity, name: &str, samples: u64, share: f64) -> ThreadActivity {
    let time = |state: ThreadState, share| ThreadTime {
        state,
        share: Figure::exact("ratio", share, Tier::Sw, ""),
    };
    ThreadActivity {
        name: name.to_owned(),
        samples,
        elapsed_s: 1.0,
        time: vec![time(ThreadState::User, share), time(ThreadState::Asleep, 1.0 - share)],
        functions: vec![FunctionTime {
            name: format!("of_{name}"),
            file: "server".to_owned(),
            share: 1.0,
            is_polling: None,
        }],
        ..model.clone()
    }
}

/// Returns the share and the interval of a function in the live view.
fn live_share(observation: &Observation, function: &str) -> (f64, String) {
    let view = TopView { lines: None, is_paused: false };
    let shown = top(observation, &view, &PLAIN);
    let line = shown.iter().find(|line| line.contains(function)).unwrap();
    let (share, rest) = line.trim_start().split_once("  ").unwrap();
    (share.parse().unwrap(), rest.trim_start().split("  ").next().unwrap().to_owned())
}

#[test]
fn the_live_view_weights_threads_by_their_cpu_time() {
    let mut observation = example().observation;
    let model = observation.threads[0].clone();
    // Half of a CPU, sampled in every fifth window, and a whole CPU, sampled in all windows.
    let rare = sampled_thread(&model, "rare", 50, 0.5);
    observation.threads = vec![rare, sampled_thread(&model, "busy", 500, 1.0)];
    let (share, interval) = live_share(&observation, "of_rare");
    assert!((32.0..35.0).contains(&share), "{share}");
    let low: f64 = interval.split(' ').next().unwrap().parse().unwrap();
    // 50 samples of a third of the time: the error is that of about 190 samples.
    assert!((25.0..29.0).contains(&low), "{interval}");
}

#[test]
fn functions_of_cpus_have_shares_of_the_kernel_samples() {
    let mut observation = example().observation;
    observation.threads.clear();
    observation.watched.interface = Some("eth0".to_owned());
    let function = |name: &str, share| FunctionTime {
        name: name.to_owned(),
        file: "kernel".to_owned(),
        share,
        is_polling: None,
    };
    let model = observation.cpus[0].clone();
    // One busy CPU, and seven idle ones, each with a stray sample.
    let busy = vec![function("hot", 0.6), function("cold", 0.4)];
    observation.cpus = vec![CpuCounts { samples: 100, functions: busy, ..model.clone() }];
    for _ in 0..7 {
        let functions = vec![function("stray", 0.01)];
        observation.cpus.push(CpuCounts { samples: 1, functions, ..model.clone() });
    }
    let (share, _) = live_share(&observation, "hot");
    assert!((55.0..57.0).contains(&share), "{share}");
}
