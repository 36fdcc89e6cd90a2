// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the chip multithreading simulator with the cycle-by-cycle reference, and its behaviour
//! with statements in the documents.

use crate::cycle_by_cycle::cycle_by_cycle;
use crate::sim::Dice;
use linerate_cmt::processor::Processor;
use linerate_cmt::{
    Application, Chip, Input, Misses, Outcome, Poll, Queue, Run, Runs, Scope, Source, Stalls,
    Strand, StrandOutcome, System, Task, Unit, UnitUse, WhenFull, Work, simulate,
};

fn run(warm_up_cycles: u64, cycles: u64) -> Run {
    Run { warm_up_cycles, cycles, seed: 7 }
}

fn random_task(dice: &mut Dice, input: Input, outputs: Vec<usize>, units: usize) -> Task {
    let instructions = dice.between(1.0, 40.0);
    let l1 = [0.0, dice.between(0.0, instructions / 2.0)][dice.below(2)];
    let stall = |dice: &mut Dice| [0.0, dice.between(0.0, 60.0)][dice.below(2)];
    let use_of = |unit| UnitUse { unit, per_packet: 0.3 * instructions };
    Task {
        input,
        poll: Poll {
            instructions: dice.between(1.0, 8.0),
            packet_stall_cycles: stall(dice),
            empty_stall_cycles: stall(dice),
            slow_cycles: stall(dice),
        },
        work: Work {
            instructions,
            misses: Misses { l1, l2: l1 * dice.between(0.0, 1.0) },
            units: (0..units).filter(|_| dice.below(2) == 0).map(use_of).collect(),
        },
        outputs,
    }
}

/// Returns a random system: chains of two or three strands, each with its own link; `while(1)` and
/// parked strands; strands with idle polls in addition to their work; a chip with up to 3 cores.
fn random_system(dice: &mut Dice) -> System {
    let unit = |dice: &mut Dice| Unit {
        name: "unit".to_owned(),
        scope: [Scope::Chip, Scope::Core, Scope::Pipe][dice.below(3)],
        interval_cycles: 1 + dice.below(5) as u32,
        source: "synthetic".to_owned(),
    };
    let chip = Chip {
        name: "synthetic".to_owned(),
        clock_hz: 1e9,
        cores: 1 + dice.below(3) as u32,
        pipes_per_core: 1 + dice.below(2) as u32,
        strands_per_pipe: 1 + dice.below(4) as u32,
        l2_cycles: dice.below(10) as u32,
        memory_cycles: dice.below(50) as u32,
        units: (0..dice.below(3)).map(|_| unit(dice)).collect(),
    };
    let units = chip.units.len();
    let mut cpus: Vec<u32> = (0..chip.strands()).collect();
    let mut system = System { chip, strands: Vec::new(), queues: Vec::new(), sources: Vec::new() };
    while cpus.len() >= 3 && dice.below(4) > 0 {
        let mut input = Input::Source(system.sources.len());
        system.sources.push(Source {
            packets_per_s: dice.between(1e6, 3e8),
            ring: 1 + dice.below(20) as u32,
        });
        let length = 1 + dice.below(3);
        for place in 0..length {
            let mut outputs = Vec::new();
            if place + 1 < length {
                outputs.push(system.queues.len());
                system.queues.push(Queue {
                    capacity: 1 + dice.below(5) as u32,
                    hand_over_cycles: 1 + dice.below(30) as u32,
                    when_full: [WhenFull::Wait, WhenFull::Drop][dice.below(2)],
                });
            }
            let next = outputs.first().map(|queue| Input::Queue(*queue));
            let mut tasks = vec![random_task(dice, input, outputs, units)];
            if dice.below(3) == 0 {
                tasks.push(random_task(dice, Input::Nothing, Vec::new(), units));
            }
            let bubble_cycles = [0.0, dice.between(0.0, 3.0)][dice.below(2)];
            let runs = Runs::Packets { bubble_cycles, tasks };
            let cpu = cpus.swap_remove(dice.below(cpus.len()));
            system.strands.push(Strand { name: format!("strand {cpu}"), cpu, runs });
            input = next.unwrap_or(Input::Nothing);
        }
    }
    for cpu in cpus {
        let runs = [Runs::Busy, Runs::Parked][dice.below(2)].clone();
        system.strands.push(Strand { name: format!("strand {cpu}"), cpu, runs });
    }
    system
}

#[test]
fn skipping_cycles_and_windows_changes_no_count() {
    let mut dice = Dice::new(11);
    let (mut packets, mut groups) = (0, 0);
    for _ in 0..300 {
        let system = random_system(&mut dice);
        let cycles = 1 + dice.below(4000) as u64;
        let found = simulate(&system, &run(0, cycles)).unwrap();
        let (strands, sources) = cycle_by_cycle(&system, cycles, 7);
        assert_eq!(found.strands, strands, "{system:#?}");
        assert_eq!(found.sources, sources, "{system:#?}");
        packets += strands.iter().map(StrandOutcome::packets).sum::<u64>();
        groups += u64::from(strands.iter().any(|strand| strand.stalls.units > 0));
    }
    assert!(packets > 10_000 && groups > 30, "the systems do something: {packets}, {groups}");
}

#[test]
fn the_warm_up_is_left_out() {
    let mut dice = Dice::new(12);
    for _ in 0..60 {
        let system = random_system(&mut dice);
        let (warm_up, cycles) = (dice.below(500) as u64, 1 + dice.below(500) as u64);
        let found = simulate(&system, &run(warm_up, cycles)).unwrap();
        let (before, _) = cycle_by_cycle(&system, warm_up, 7);
        let (after, _) = cycle_by_cycle(&system, warm_up + cycles, 7);
        for ((found, before), after) in found.strands.iter().zip(&before).zip(&after) {
            assert_eq!(found.instructions, after.instructions - before.instructions);
            assert_eq!(found.stalls.sum(), after.stalls.sum() - before.stalls.sum());
            assert_eq!(found.stalls.io, after.stalls.io - before.stalls.io);
            assert_eq!(found.waited, after.waited - before.waited);
        }
    }
}

fn t1() -> Chip {
    Chip::new(&Processor::named("t1").unwrap()).unwrap()
}

/// Returns a system with `runs` on the first core's strands.
fn on_one_core(chip: Chip, runs: impl IntoIterator<Item = Runs>) -> System {
    let strands = runs.into_iter().zip(0..);
    let strand = |(runs, cpu)| Strand { name: format!("strand {cpu}"), cpu, runs };
    System { chip, strands: strands.map(strand).collect(), queues: Vec::new(), sources: Vec::new() }
}

/// Returns a strand that only issues instructions, with `bubble_cycles` after each.
fn issuing(bubble_cycles: f64) -> Runs {
    let poll = Poll {
        instructions: 1000.0,
        packet_stall_cycles: 0.0,
        empty_stall_cycles: 0.0,
        slow_cycles: 0.0,
    };
    let work = Work { instructions: 1.0, misses: Misses::default(), units: Vec::new() };
    let task = Task { input: Input::Nothing, poll, work, outputs: Vec::new() };
    Runs::Packets { bubble_cycles, tasks: vec![task] }
}

fn cpi(outcome: &Outcome, index: usize) -> f64 {
    outcome.cpi(&outcome.strands[index]).unwrap()
}

/// "The maximum throughput of 1 strand is 1 instruction per cycle if all other strands are stalled
/// or parked"; four `while(1)` strands get a quarter each.
#[test]
fn four_busy_strands_issue_every_fourth_cycle_and_one_alone_each_cycle() {
    let four = simulate(&on_one_core(t1(), vec![Runs::Busy; 4]), &run(0, 4000)).unwrap();
    assert!((0..4).all(|index| cpi(&four, index) == 4.0));
    let alone = simulate(&on_one_core(t1(), [Runs::Busy]), &run(0, 4000)).unwrap();
    assert_eq!(cpi(&alone, 0), 1.0);
}

/// A compute-bound strand is close to its worst case next to three `while(1)` strands, and in its
/// best case next to three parked ones. A strand that mostly stalls is hardly affected.
#[test]
fn neighbours_that_spin_cost_what_computes_most() {
    let beside = |bubbles: f64, neighbour: &Runs| {
        let runs = [issuing(bubbles), neighbour.clone(), neighbour.clone(), neighbour.clone()];
        cpi(&simulate(&on_one_core(t1(), runs), &run(1000, 40_000)).unwrap(), 0)
    };
    assert_eq!(beside(0.0, &Runs::Parked), 1.0);
    assert_eq!(beside(0.0, &Runs::Busy), 4.0);
    assert!((beside(9.0, &Runs::Parked) - 10.0).abs() < 0.01);
    // When the strand is ready again, it is the one that issued least recently, so it issues next.
    assert!((beside(9.0, &Runs::Busy) - 10.0).abs() < 0.01);
}

/// `while(1)` strands "only affect strands on the same core".
#[test]
fn busy_strands_of_other_cores_change_nothing() {
    let alone = on_one_core(t1(), [issuing(1.5)]);
    let mut among = alone.clone();
    let busy = |cpu| Strand { name: "while(1)".to_owned(), cpu, runs: Runs::Busy };
    among.strands.extend((4..32).map(busy));
    let [alone, among] = [alone, among].map(|system| simulate(&system, &run(0, 5000)).unwrap());
    assert_eq!(alone.strands[0], among.strands[0]);
}

/// "Slow down the polling loop by executing a long latency instruction": the poller stalls, and a
/// neighbour gets its issue slots.
#[test]
fn slow_polling_gives_a_neighbour_its_turns() {
    let poller = |slow_cycles| {
        let Runs::Packets { bubble_cycles, mut tasks } = issuing(0.0) else { unreachable!() };
        tasks[0].poll.instructions = 10.0;
        tasks[0].poll.slow_cycles = slow_cycles;
        Runs::Packets { bubble_cycles, tasks }
    };
    let beside = |slow_cycles| {
        let runs = [issuing(0.0), poller(slow_cycles)];
        cpi(&simulate(&on_one_core(t1(), runs), &run(1000, 40_000)).unwrap(), 0)
    };
    assert_eq!(beside(0.0), 2.0);
    let slowed = beside(90.0);
    // The poller issues in ten of about 110 cycles.
    assert!((slowed - 110.0 / 100.0).abs() < 0.01, "{slowed}");
}

/// Two strands use a unit for every instruction. On one T2 pipe they alternate anyway; on the two
/// pipes of a core each waits for the other at the unit; on two cores neither waits.
#[test]
fn the_pipes_of_a_t2_core_share_their_unit() {
    let chip = Chip::new(&Processor::named("t2").unwrap()).unwrap();
    let lsu = chip.unit("lsu").unwrap();
    let per_packet = |cpus: [u32; 2]| {
        let strand = |(index, cpu): (usize, u32)| {
            let Runs::Packets { bubble_cycles, mut tasks } = issuing(0.0) else { unreachable!() };
            tasks[0].input = Input::Source(index);
            tasks[0].poll.instructions = 1.0;
            tasks[0].work.instructions = 99.0;
            tasks[0].work.units = vec![UnitUse { unit: lsu, per_packet: 99.0 }];
            Strand { name: format!("{cpu}"), cpu, runs: Runs::Packets { bubble_cycles, tasks } }
        };
        let source = Source { packets_per_s: 1e8, ring: 4 };
        let system = System {
            chip: chip.clone(),
            strands: cpus.into_iter().enumerate().map(strand).collect(),
            queues: Vec::new(),
            sources: vec![source; 2],
        };
        let outcome = simulate(&system, &run(10_000, 100_000)).unwrap();
        outcome.cycles as f64 / outcome.strands[0].packets() as f64
    };
    let [same_pipe, same_core, apart] = [[0, 1], [0, 4], [0, 8]].map(per_packet);
    // Distances between uses vary: some instructions use the unit twice, and wait even without a
    // neighbour.
    assert!(same_pipe > 195.0 && same_core > 190.0, "{same_pipe}, {same_core}");
    assert!(apart < 150.0, "{apart}");
}

/// Throughput is the lesser of offered load and capacity; the excess is dropped.
#[test]
fn the_slower_of_line_and_strand_decides() {
    for (cycles_per_packet, wanted) in [(500.0, 200.0), (150.0, 200.0), (200.0, 200.0)] {
        let Runs::Packets { bubble_cycles, mut tasks } = issuing(0.0) else { unreachable!() };
        tasks[0].input = Input::Source(0);
        tasks[0].poll.instructions = 20.0;
        tasks[0].work.instructions = 180.0;
        let mut system = on_one_core(t1(), [Runs::Packets { bubble_cycles, tasks }]);
        let packets_per_s = system.chip.clock_hz / cycles_per_packet;
        system.sources.push(Source { packets_per_s, ring: 16 });
        let outcome = simulate(&system, &run(20_000, 1_000_000)).unwrap();
        let found = 1e6 / outcome.strands[0].packets() as f64;
        let wanted = f64::max(cycles_per_packet, wanted);
        assert!((found / wanted - 1.0).abs() < 1e-3, "{cycles_per_packet}: {found}");
        let source = outcome.sources[0];
        let kept = source.offered - source.dropped;
        assert!(kept.abs_diff(outcome.strands[0].packets()) <= 17);
    }
}

/// A change that makes a valid system or its first task invalid.
type Spoil<'f> = &'f dyn Fn(&mut System, &mut Task);

#[test]
fn faults_are_named() {
    let good = || {
        let Runs::Packets { bubble_cycles, mut tasks } = issuing(1.0) else { unreachable!() };
        tasks[0].input = Input::Source(0);
        tasks[0].outputs = vec![0];
        let mut system = on_one_core(t1(), [Runs::Packets { bubble_cycles, tasks }, Runs::Busy]);
        system.sources.push(Source { packets_per_s: 1e6, ring: 8 });
        let when_full = WhenFull::Drop;
        system.queues.push(Queue { capacity: 8, hand_over_cycles: 23, when_full });
        system
    };
    assert!(simulate(&good(), &run(0, 10)).is_ok());
    let said = |spoil: Spoil| {
        let mut system = good();
        let Runs::Packets { tasks, .. } = &mut system.strands[0].runs else { unreachable!() };
        let mut task = tasks[0].clone();
        spoil(&mut system, &mut task);
        if let Runs::Packets { tasks, .. } = &mut system.strands[0].runs {
            tasks.truncate(1);
            tasks.iter_mut().for_each(|first| *first = task.clone());
        }
        simulate(&system, &run(0, 10)).unwrap_err().to_string()
    };
    let all: [(&str, Spoil); 12] = [
        ("CPU 99; the chip has CPUs 0 to 31", &|s, _| s.strands[0].cpu = 99),
        ("CPU 0, which is already taken", &|s, _| s.strands[1].cpu = 0),
        ("refers to queue 5", &|_, t| t.outputs = vec![5]),
        ("refers to source 3", &|_, t| t.input = Input::Source(3)),
        ("second writer of queue 0", &|_, t| t.outputs = vec![0, 0]),
        ("refers to unit 9", &|_, t| t.work.units = vec![UnitUse { unit: 9, per_packet: 1.0 }]),
        ("`work.instructions` of strand 0 is NaN", &|_, t| t.work.instructions = f64::NAN),
        ("`poll.instructions` of strand 0 is 0", &|_, t| t.poll.instructions = 0.0),
        ("at most one per instruction", &|_, t| t.work.misses.l1 = 2.0),
        ("at most `misses.l1`", &|_, t| t.work.misses.l2 = 1.0),
        ("`hand_over_cycles` of queue 0 is 0", &|s, _| s.queues[0].hand_over_cycles = 0),
        ("`packets_per_s` of source 0 is -1", &|s, _| s.sources[0].packets_per_s = -1.0),
    ];
    for (wanted, spoil) in all {
        let said = said(spoil);
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let mut idle = good();
    idle.strands[0].runs = Runs::Packets { bubble_cycles: 0.0, tasks: Vec::new() };
    assert!(simulate(&idle, &run(0, 10)).unwrap_err().to_string().contains("no task"));
    assert!(simulate(&good(), &run(0, 0)).unwrap_err().to_string().contains("cycles"));
    assert!(simulate(&good(), &run(0, Run::CYCLES_MAX + 1)).is_err());
}

#[test]
fn stalls_sum_up() {
    let stalls = Stalls { bubbles: 1, l1: 2, l2: 4, units: 8, io: 16, slow: 32 };
    assert_eq!(stalls.sum(), 63);
}

/// Returns the results for an RLP application configuration on a chip: rate per flow in kpps, and
/// CPI by role.
fn rlp(chip: &Chip, configuration: &str) -> (f64, Vec<(String, f64)>) {
    let application = Application::named("rlp").unwrap();
    let pipes = &application.configuration(configuration).unwrap().pipes;
    let system = application.on(chip, pipes).unwrap();
    let outcome = simulate(&system, &run(1_500_000, 2_500_000)).unwrap();
    let leaves = |strand: &&StrandOutcome| strand.name.starts_with("ATIF_");
    let sent: u64 = outcome.strands.iter().filter(leaves).map(StrandOutcome::packets).sum();
    let cpi = outcome.strands.iter().filter_map(|strand| {
        let role = strand.name.strip_suffix(" 0")?;
        Some((role.to_owned(), outcome.cpi(strand)?))
    });
    (outcome.kpps(sent) / 4.0, cpi.collect())
}

/// "Configuration 1 sustained 224 kpps", configuration 2 sustained 310; CPI from tables 10-6 and
/// 10-7.
#[test]
fn the_document_s_configurations_come_out() {
    for (name, wanted_kpps, wanted_cpi) in [
        ("1", 224.0, vec![("PDSN_RXTX", 9.07), ("ATIF_RXTX", 12.51)]),
        ("2", 310.0, vec![("PDSN_RX", 8.53), ("RLP", 3.91), ("ATIF_TX", 2.82)]),
    ] {
        let (kpps, cpi) = rlp(&t1(), name);
        assert!((kpps / wanted_kpps - 1.0).abs() < 0.05, "configuration {name}: {kpps} kpps");
        for (role, wanted) in wanted_cpi {
            let (_, found) = cpi.iter().find(|(other, _)| other == role).unwrap();
            assert!((found / wanted - 1.0).abs() < 0.12, "{role}: {found}");
        }
    }
}

/// More pipes and a faster clock, but slower memory: throughput is no lower, and memory-bound roles
/// have a higher CPI.
#[test]
fn the_application_runs_on_the_t2_too() {
    let t2 = Chip::new(&Processor::named("t2").unwrap()).unwrap();
    for name in ["1", "2"] {
        let ((_, on_t1), (kpps, on_t2)) = (rlp(&t1(), name), rlp(&t2, name));
        assert!((200.0..346.0).contains(&kpps), "{kpps}");
        assert!(on_t2[0].1 > on_t1[0].1, "{on_t2:?}, {on_t1:?}");
    }
}

/// "Run your application with both parked and `while(1)` loops on the idle strands": this gives the
/// range.
#[test]
fn parked_strands_are_the_best_case_and_spinning_ones_the_worst() {
    let application = Application::named("rlp").unwrap();
    let pipes = &application.configuration("2").unwrap().pipes;
    let kpps = |word: Option<&str>| {
        let instead = |old: &String| match word {
            Some(word) if old.starts_with("ATIF_RX ") => word.to_owned(),
            _ => old.clone(),
        };
        let pipes: Vec<Vec<String>> =
            pipes.iter().map(|pipe| pipe.iter().map(instead).collect()).collect();
        let system = application.on(&t1(), &pipes).unwrap();
        let outcome = simulate(&system, &run(1_000_000, 2_000_000)).unwrap();
        outcome.kpps(outcome.strand("PDSN_RX 0").unwrap().packets())
    };
    let [parked, polling, spinning] = [Some("parked"), None, Some("while(1)")].map(kpps);
    assert!(
        parked >= 0.99 * polling && polling > 1.03 * spinning,
        "{parked}, {polling}, {spinning}"
    );
}
