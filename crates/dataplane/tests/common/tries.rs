// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that measure, on machines that others use as well.
//!
//! A measurement is tried several times and must hold once. Where it never does, the tries say
//! whether the machine was quiet: then the measurement is wrong and the test fails. Where others
//! took processors away during most tries, nothing can be said, and the test says so.

use std::fs;
use std::sync::Mutex;

const TRIES: usize = 8;

/// Others that take more than this share of a processor disturb. The clock of the account has 10
/// ms, which is 3 % of the shortest try.
const OTHERS_MAX: f64 = 0.1;

/// The tests of a program want processor 0: one at a time.
pub(crate) static PROCESSOR: Mutex<()> = Mutex::new(());

/// Holds `check` of some try; otherwise fails with what it said of each, or skips where others
/// disturbed more than half of them.
pub(crate) fn some_try(check: impl Fn() -> Result<(), String>) {
    let _processor = PROCESSOR.lock();
    let mut said = Vec::new();
    let mut others = Vec::new();
    for _ in 0..TRIES {
        let before = Account::now();
        match check() {
            Ok(()) => return,
            Err(why) => said.push(why),
        }
        others.extend(before.zip(Account::now()).map(|(before, after)| after.others(&before)));
    }
    let disturbed = others.iter().filter(|share| **share > OTHERS_MAX).count();
    if 2 * disturbed > TRIES {
        let most = others.iter().fold(0.0, |most: f64, share| most.max(*share));
        println!("SKIP: others took up to {most:.1} processors in {disturbed} of {TRIES} tries");
        return;
    }
    panic!("{}", said.join("\n"));
}

/// Processor time until now, in the kernel's ticks.
struct Account {
    /// Of all processors, whatever they did.
    all: u64,
    /// Of these, neither idle nor waiting for a disk: ours, others', and what a host took away.
    busy: u64,
    /// This process's.
    own: u64,
    processors: u64,
}

impl Account {
    /// `None` where the kernel does not tell.
    fn now() -> Option<Self> {
        let all = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        Self::parse(&all, &own)
    }

    /// From /proc/stat and /proc/self/stat (proc(5)).
    fn parse(all: &str, own: &str) -> Option<Self> {
        let mut lines = all.lines().filter(|line| line.starts_with("cpu"));
        let times: Vec<u64> =
            lines.next()?.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
        let [user, nice, system, idle, io_wait, irq, soft_irq, steal, ..] = times[..] else {
            return None;
        };
        let busy = user + nice + system + irq + soft_irq + steal;
        // The name of the program stands in parentheses and may hold anything.
        let own: Vec<&str> = own.rsplit_once(')')?.1.split_whitespace().collect();
        let time = |field: usize| own.get(field)?.parse::<u64>().ok();
        Some(Self {
            all: busy + idle + io_wait,
            busy,
            own: time(11)? + time(12)?,
            processors: lines.count() as u64,
        })
    }

    /// How many processors others took since `before`, on the mean.
    fn others(&self, before: &Self) -> f64 {
        let elapsed = (self.all - before.all) as f64 / self.processors.max(1) as f64;
        let busy = (self.busy - before.busy).saturating_sub(self.own - before.own);
        busy as f64 / elapsed.max(1.0)
    }
}

#[test]
fn others_are_what_is_neither_idle_nor_ours() {
    let at = |user: u64, idle: u64, steal: u64, own: u64| {
        let stat = format!("cpu  {user} 0 0 {idle} 7 0 0 {steal} 0 0\ncpu0 0\ncpu1 0\nintr 5\n");
        let process = format!("1 (a) b) S 0 0 0 0 0 0 0 0 0 0 {own} 1 0 0");
        Account::parse(&stat, &process).expect("all is there")
    };
    let (before, after) = (at(100, 200, 0, 50), at(140, 250, 10, 70));
    assert_eq!((after.all - before.all, after.processors), (100, 2));
    // 40 busy, 10 stolen, 20 of these ours, in 50 ticks.
    assert!((after.others(&before) - 0.6).abs() < 1e-9);
}
