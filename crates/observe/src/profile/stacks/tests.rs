// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::profile::{Annotated, CallGraph, ProfileTarget, SampleRate};
use linerate_record::profile::CostClass;
use std::time::Duration;

/// An address in the kernel, which need not have a name.
const IN_KERNEL: u64 = 0xffff_ffff_8100_0000;

#[inline(never)]
fn interrupted_at_its_first_instruction() -> u32 {
    std::hint::black_box(7)
}

/// Returns stacks of this process.
fn stacks() -> Stacks {
    let request = ProfileRequest {
        target: ProfileTarget::Pids(vec![std::process::id()]),
        window: Duration::from_secs(1),
        rate: SampleRate::PerSecond(999),
        call_graph: CallGraph::FramePointers,
        interface: None,
        class_of: |_, _| CostClass::Program,
        annotated: Annotated::None,
        has_timeline: false,
    };
    Stacks::new(&request, &[std::process::id()], false, false)
}

fn sample(pid: u32, chain: &[(u64, bool)]) -> Item {
    let user = UserState { registers: Registers::default(), ip: chain[0].0, stack: Vec::new() };
    let what = What::Sample { tid: pid, chain: chain.to_vec(), user: Some(user) };
    Item { time_ns: 0, pid, what }
}

/// Returns two slices with 10 samples each in user mode and 5 in the kernel.
pub(in crate::profile) fn two_slices() -> Resolved {
    let start = interrupted_at_its_first_instruction as fn() -> u32 as usize as u64;
    let mut stacks = stacks();
    for slice in 0..2 {
        if slice == 1 {
            stacks.slices.push(HashMap::new());
        }
        for number in 0..15 {
            let at = if number < 10 { (start, false) } else { (IN_KERNEL, true) };
            stacks.take(sample(std::process::id(), &[at]));
        }
    }
    stacks.resolve(false)
}

#[test]
fn the_caller_of_an_interrupt_is_the_interrupted_function() {
    let start = interrupted_at_its_first_instruction as fn() -> u32 as usize as u64;
    let mut stacks = stacks();
    stacks.take(sample(std::process::id(), &[(IN_KERNEL, true), (start, false)]));
    let resolved = stacks.resolve(false);
    let (_, spots, samples) = &resolved.chains[0];
    assert_eq!((spots.len(), *samples), (2, 1));
    let name = resolved.names.name_of(spots[0]);
    assert!(name.ends_with("interrupted_at_its_first_instruction"), "{name}");
}

#[test]
fn samples_of_exiting_threads_are_no_further_process() {
    let mut stacks = stacks();
    stacks.take(sample(u32::MAX, &[(IN_KERNEL, true)]));
    assert!(stacks.resolve(false).threads.is_empty());
}

#[test]
fn slices_after_the_last_kept_sample_are_known() {
    let start = interrupted_at_its_first_instruction as fn() -> u32 as usize as u64;
    let taken = |samples: usize| {
        let mut stacks = stacks();
        for number in 0..samples {
            if number == 10 {
                stacks.slices.push(HashMap::new());
            }
            stacks.take(sample(std::process::id(), &[(start, false)]));
        }
        let resolved = stacks.resolve(false);
        (resolved.user_samples.len(), resolved.kept_until)
    };
    assert_eq!(taken(20), (20, 2));
    // The second slice is incomplete.
    assert_eq!(taken(MAX_USER_SAMPLES + 10), (MAX_USER_SAMPLES, 1));
}
