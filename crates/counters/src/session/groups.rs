// SPDX-License-Identifier: MIT OR Apache-2.0
//! Manages groups of perf events. Every target (thread or CPU) has the same groups.

use crate::opener::Opener;
use linerate_linux::errno;
use linerate_linux::perf::{Event, GROUP_MAX, OpenError, Reading, Request, Target};
use std::io;

/// Perf event groups on all targets, numbered in the order in which they are opened.
#[derive(Debug)]
pub(super) struct Groups {
    lanes: Vec<Lane>,
    /// Events per group.
    lens: Vec<usize>,
    /// Highest counts seen so far in each group, summed over all targets.
    most: Vec<Sums>,
}

/// A target (thread or CPU) and its groups.
#[derive(Debug)]
struct Lane {
    target: Target,
    /// The groups on this target; `None` for a group that is not counted on it.
    groups: Vec<Option<Group>>,
}

#[derive(Debug)]
struct Group {
    leader: Event,
    /// The group's other events, kept open as long as their leader.
    members: Vec<Event>,
}

/// A group's counts and times, summed over all targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) values: Vec<u64>,
    pub(super) enabled_ns: u64,
    pub(super) running_ns: u64,
}

impl Groups {
    pub(super) fn new(targets: &[Target]) -> Self {
        let lane = |&target: &Target| Lane { target, groups: Vec::new() };
        Self { lanes: targets.iter().map(lane).collect(), lens: Vec::new(), most: Vec::new() }
    }

    /// Opens an event as the leader of a new group, on all targets for which `is_on` holds; there
    /// must be at least one. Returns the group number.
    pub(super) fn lead(
        &mut self,
        opener: &dyn Opener,
        request: &Request,
        is_on: impl Fn(Target) -> bool,
    ) -> Result<usize, OpenError> {
        self.open(
            |lane| is_on(lane.target).then(|| opener.open(request, lane.target, None)),
            |lane, leader| {
                let group = leader.map(|leader| Group { leader, members: Vec::new() });
                lane.groups.push(group);
            },
        )?;
        self.lens.push(1);
        self.most.push(Sums::default());
        Ok(self.lens.len() - 1)
    }

    /// Opens an event as a member of an existing group, on each of the group's targets.
    pub(super) fn join(
        &mut self,
        group: usize,
        opener: &dyn Opener,
        request: &Request,
    ) -> Result<(), OpenError> {
        if self.lens[group] == GROUP_MAX {
            return Err(OpenError { errno: errno::E2BIG });
        }
        self.open(
            |lane| {
                let group = lane.groups[group].as_ref()?;
                Some(opener.open(request, lane.target, Some(&group.leader)))
            },
            |lane, member| {
                if let Some(group) = &mut lane.groups[group] {
                    group.members.extend(member);
                }
            },
        )?;
        self.lens[group] += 1;
        Ok(())
    }

    /// Opens an event on every target for which `open` returns one, or on none if any target
    /// refuses it. A thread that has exited in the meantime is dropped, unless no other target is
    /// left.
    fn open(
        &mut self,
        open: impl Fn(&Lane) -> Option<Result<Event, OpenError>>,
        keep: impl Fn(&mut Lane, Option<Event>),
    ) -> Result<(), OpenError> {
        let is_gone = |error: &OpenError| error.errno == errno::ESRCH;
        let opened: Vec<Result<Option<Event>, OpenError>> =
            self.lanes.iter().map(|lane| open(lane).transpose()).collect();
        let refused = opened.iter().filter_map(|outcome| outcome.as_ref().err());
        let only_gone = opened.iter().all(Result::is_err);
        if let Some(&error) = refused.into_iter().find(|error| only_gone || !is_gone(error)) {
            return Err(error);
        }
        let lanes = std::mem::take(&mut self.lanes).into_iter().zip(opened);
        for (mut lane, outcome) in lanes {
            if let Ok(event) = outcome {
                keep(&mut lane, event);
                self.lanes.push(lane);
            }
        }
        Ok(())
    }

    /// Returns the number of groups.
    pub(super) fn len(&self) -> usize {
        self.lens.len()
    }

    /// Returns the first target; `None` if there are no targets.
    pub(super) fn first_target(&self) -> Option<Target> {
        self.lanes.first().map(|lane| lane.target)
    }

    pub(super) fn len_of(&self, group: usize) -> usize {
        self.lens[group]
    }

    pub(super) fn enable(&self, group: usize) -> io::Result<()> {
        self.lanes_of(group).try_for_each(|group| group.leader.enable())
    }

    pub(super) fn disable(&self, group: usize) -> io::Result<()> {
        self.lanes_of(group).try_for_each(|group| group.leader.disable())
    }

    /// Returns a group on each target on which it is counted.
    fn lanes_of(&self, group: usize) -> impl Iterator<Item = &Group> {
        self.lanes.iter().filter_map(move |lane| lane.groups[group].as_ref())
    }

    /// Reads a group on all targets. The returned counts never decrease, although some counts are
    /// briefly missing while a process that inherited the events exits: the kernel detaches its
    /// events one by one.
    pub(super) fn read(&mut self, group: usize) -> io::Result<Sums> {
        let sums = self.add_up(group)?;
        self.most[group].raise(&sums);
        Ok(self.most[group].clone())
    }

    /// Adds up a group's counts and times. If the group is counted only on some of the targets,
    /// which are then CPUs, its times are scaled up to all targets: the same time elapses on every
    /// CPU, and counts are scaled by the total time over all targets.
    fn add_up(&self, group: usize) -> io::Result<Sums> {
        let mut sums = Sums { values: vec![0; self.lens[group]], ..Sums::default() };
        for of_lane in self.lanes_of(group) {
            let reading = of_lane.read()?;
            if reading.values().len() != sums.values.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            sums.values.iter_mut().zip(reading.values()).for_each(|(sum, count)| *sum += count);
            sums.enabled_ns += reading.enabled_ns;
            sums.running_ns += reading.running_ns;
        }
        let (all, own) = (self.lanes.len() as u64, self.lanes_of(group).count().max(1) as u64);
        for time_ns in [&mut sums.enabled_ns, &mut sums.running_ns] {
            *time_ns = (u128::from(*time_ns) * u128::from(all) / u128::from(own)) as u64;
        }
        Ok(sums)
    }

    /// Returns whether every group can be read; `false` if a process inherited an incomplete group.
    pub(super) fn are_readable(&self) -> bool {
        (0..self.len()).all(|group| self.add_up(group).is_ok())
    }
}

/// Maximum attempts to read a group while a process is inheriting it (ECHILD), which takes a few
/// microseconds.
const ATTEMPTS: usize = 4;

impl Group {
    fn read(&self) -> io::Result<Reading> {
        let mut reading = self.leader.read();
        for _ in 1..ATTEMPTS {
            let is_torn = |error: &io::Error| error.raw_os_error() == Some(errno::ECHILD);
            if !reading.as_ref().is_err_and(is_torn) {
                break;
            }
            reading = self.leader.read();
        }
        reading
    }
}

impl Sums {
    /// Raises each count and time to its value in `other` if that is larger.
    fn raise(&mut self, other: &Self) {
        self.values.resize(other.values.len(), 0);
        self.values.iter_mut().zip(&other.values).for_each(|(most, now)| *most = (*most).max(*now));
        self.enabled_ns = self.enabled_ns.max(other.enabled_ns);
        self.running_ns = self.running_ns.max(other.running_ns);
    }

    /// Returns the difference from `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let then = earlier.values.iter().copied().chain(std::iter::repeat(0));
        Self {
            values: self
                .values
                .iter()
                .zip(then)
                .map(|(now, then)| now.saturating_sub(then))
                .collect(),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nowhere_for_a_moment_is_not_counted_twice() {
        let sums = |count, ns| Sums { values: vec![count, 7], enabled_ns: ns, running_ns: ns };
        let (mut most, mut shown, mut total) = (Sums::default(), Sums::default(), 0);
        for (count, ns) in [(100, 50), (60, 20), (110, 55)] {
            most.raise(&sums(count, ns));
            total += most.since(&shown).values[0];
            shown = most.clone();
        }
        assert_eq!((total, &most), (110, &sums(110, 55)));
    }
}
